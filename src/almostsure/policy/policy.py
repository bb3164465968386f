"""What to do in every state, or in every state with every remaining budget: the ``Policy`` value.

A policy is a table with one row a *layer*:

- a *stationary* policy (``total is None``) has one layer;
- a policy on (state, remaining) has ``total + 1`` layers, one for each remaining budget 0 … ``total``.  Whoever
  has more than ``total`` left uses the top layer: what never takes more than ``total`` damage never takes more
  than a larger budget either;
- such a policy may have one more layer, the last, that says what to do once the budget is *overspent*.  A policy
  for a chance constraint has it; an assured policy has none, and raises ``NoSafeAction`` instead of guessing.

A layer is either deterministic (one choice a state) or randomised (one probability a choice).  Where a policy
says nothing (a state that it never reaches, or from which no budget suffices) the choice is −1, or all
probabilities are 0.

Some optimal policies need one bit more than (state, remaining).  Take a state with a harmless ``wait`` and a
rewarding but damaging ``go``, undiscounted, and at most half a unit of damage on average: the best is to toss a
coin *once*, and then go, or wait for ever.  No memoryless policy does that: one that goes with a positive
probability each time goes eventually.  Such a policy has a ``rest``: on arrival in a state it may come to rest,
and from then on it plays harmless choices for ever.  :meth:`Policy.start` plays every policy, with that memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from almostsure.budget.memory import require
from almostsure.errors import ArgumentError, ModelMismatch, NoSafeAction, PolicyError
from almostsure.model.mdp import MDP, Floats
from almostsure.model.source import Model, as_model
from almostsure.policy import tables
from almostsure.policy.constraints import check_total
from almostsure.policy.rows import Rest, check_choices, check_rest, pure, shaped
from almostsure.shield.checks import require_total

if TYPE_CHECKING:
    from almostsure.policy.history import HistoryPolicy
    from almostsure.shield.shield import Shield


@final
class Policy:
    """What to do in every state, or in every state with every remaining budget.  It knows its model.

    Use :meth:`from_table`, :meth:`from_function` or :meth:`from_shield`; :func:`almostsure.solve_policy` returns one.

    It is a table with one row a *layer*: one in all for a stationary policy (``total`` is None), otherwise one for
    each remaining budget 0 … ``total``, and perhaps a last one for what to do once the budget is overspent.  With more
    than ``total`` left the top layer is used.  Where a policy says nothing (a state that it never reaches, or from
    which no budget suffices) the choice is −1, or all probabilities are 0; asking it there raises NoSafeAction.

    Parameters
    ----------
    mdp
        The model that it is a policy of.
    choice, probability
        The table: either the choice of each state or the probability of each choice, one row a layer.
    total
        The largest remaining budget that has a layer, or None for a stationary policy.
    rest
        Where the policy may come to rest, if it needs that.
    """

    __slots__ = ("choice", "mdp", "probability", "rest", "total")

    mdp: MDP
    total: int | None
    choice: npt.NDArray[Any] | None  # [layers, num_states]
    probability: Floats | None  # [layers, num_choices]
    rest: Rest | None

    def __init__(
        self,
        mdp: MDP,
        *,
        choice: npt.NDArray[Any] | None = None,
        probability: Floats | None = None,
        total: int | None = None,
        rest: Rest | None = None,
    ) -> None:
        if (choice is None) == (probability is None):
            raise PolicyError("a policy must have either choices or probabilities")
        if probability is not None:
            probability = shaped("probability", np.asarray(probability, np.float64), mdp.num_choices, total)
            tables.check_probabilities(mdp, probability)
            choice = pure(mdp, probability)
            probability = probability if choice is None else None
        if choice is not None:
            choice = shaped("choice", np.asarray(choice), mdp.num_states, total)
            check_choices(mdp, choice)
        if rest is not None:
            check_rest(mdp, rest, (probability if choice is None else choice))
        for name, value in zip(
            ("mdp", "total", "choice", "probability", "rest"), (mdp, total, choice, probability, rest), strict=True
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be changed: a policy is immutable. Build another one.")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.mdp, self.choice, self.probability, self.total, self.rest)

    # ------------------------------------------------------------------ ways in

    @classmethod
    def from_table(cls, mdp: Model, table: Any, *, total: int | None = None, overspent: Any = None) -> Policy:
        """Build a policy from an array or a mapping.

        What it says about terminal states is ignored: nothing happens there.

        Parameters
        ----------
        mdp
            The model, an example's name, or a file.
        table
            Integers or names are actions: one a state, or one row for each remaining budget 0 … total.
            Floats are probabilities: one row a state and one column an action, or one such matrix for each
            remaining budget.  A mapping goes from states, or with ``total`` from (state, remaining), to an
            action or to a mapping from actions to probabilities.  −1, None and what is missing say nothing.
        total
            The largest remaining budget; by default what the table says.
        overspent
            What to do once the budget is overspent: a table or function of the state.

        Examples
        --------
        >>> import almostsure as asure
        >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
        >>> Policy.from_table(mdp, [[1, 0], [0, 0]]).total  # with nothing left, action 1; with one unit, action 0
        1
        """
        mdp, total = as_model(mdp), None if total is None else check_total(total)
        if isinstance(table, Mapping):
            if total is None and table and all(isinstance(key, tuple) and len(key) == 2 for key in table):
                total = max(check_total(remaining, "remaining") for _, remaining in table)
            return cls._from(
                mdp, tables.from_mapping(mdp, table, None if total is None else total + 1), total, overspent
            )
        content, layered = tables.from_array(mdp, table)
        rows = content.num_layers
        if (layered and total not in (None, rows - 1)) or (not layered and total is not None):
            found = f"{rows} rows" if layered else "one action a state"
            raise PolicyError(f"with total={total} a table must have a row for each of 0 … {total}; got {found}")
        return cls._from(mdp, content, rows - 1 if layered else None, overspent)

    @classmethod
    def from_function(
        cls, mdp: Model, function: tables.Function, *, total: int | None = None, overspent: Any = None
    ) -> Policy:
        """Build a policy by asking ``function(state)``, or with ``total`` ``function(state, remaining)``.

        It is asked about every state that is not terminal, with everything that may remain, whether that is ever
        reached or not.  It returns an action (id or name), a mapping from actions to probabilities, or None where it
        says nothing; raising NoSafeAction, as a shield does, says nothing too.
        """
        mdp, total = as_model(mdp), None if total is None else check_total(total)
        content = tables.from_function(mdp, function, None if total is None else total + 1)
        return cls._from(mdp, content, total, overspent)

    @classmethod
    def from_shield(cls, shield: Shield, total: int) -> Policy:
        """The random shielded policy: with whatever remains, every action that is allowed is equally likely.

        It never takes more than ``total`` damage, and it is the baseline that a learned or a solved policy should beat.

        Parameters
        ----------
        shield
            Says what is allowed; the policy is one of its model.
        total
            The budget at the start.

        Raises
        ------
        Infeasible
            If an initial state needs more; ``needed`` is the total that suffices.
        ArgumentError
            If ``total`` is negative, fractional, or above the cap of the shield's budget.

        Examples
        --------
        >>> import almostsure as asure
        >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
        >>> policy = Policy.from_shield(asure.Shield(mdp, asure.solve_budget(mdp)), 2)
        >>> policy.probabilities(0, 2), policy.probabilities(0, 0)
        (array([0.5, 0.5]), array([0., 1.]))
        """
        mdp = shield.mdp
        total = require_total(mdp, shield.budget, total)
        require(
            8 * (total + 1) * mdp.num_choices, "the random shielded policy", "Ask shield.allowed as you go instead."
        )
        allowed = np.stack([shield.choices(remaining) for remaining in range(total + 1)]).astype(np.float64)
        counts = np.add.reduceat(allowed, mdp.choice_ptr[:-1].astype(np.int64), axis=1)
        allowed /= np.maximum(counts, 1.0)[:, mdp.choice_states()]
        return cls(mdp, probability=allowed, total=total)

    @classmethod
    def _from(cls, mdp: MDP, content: tables.Table, total: int | None, overspent: Any) -> Policy:
        policy = cls(mdp, choice=content.choice, probability=content.probability, total=total)
        return policy if overspent is None else policy.with_overspent(overspent)

    def with_overspent(self, overspent: Any) -> Policy:
        """The same policy, which once the budget is overspent does what a stationary policy does."""
        if self.total is None:
            raise PolicyError("a stationary policy has no budget that could be overspent")
        after = as_policy(self.mdp, overspent)
        if after.total is not None:
            raise PolicyError("what is done once the budget is overspent must be a stationary policy")
        rows = range(self.total + 1)
        if self.choice is not None and after.choice is not None:
            return Policy(self.mdp, choice=np.vstack([self.choice[: len(rows)], after.choice]), total=self.total)
        weights = [self.weights(row) for row in rows] + [after.weights(0)]
        return Policy(self.mdp, probability=np.stack(weights), total=self.total)

    # ------------------------------------------------------------------ what it is

    @property
    def num_layers(self) -> int:
        """How many rows the table has."""
        table = self.choice if self.choice is not None else self.probability
        assert table is not None
        return len(table)

    @property
    def is_deterministic(self) -> bool:
        """Whether it plays one choice a state and never comes to rest by chance."""
        return self.choice is not None and self.rest is None

    @property
    def is_stationary(self) -> bool:
        """Whether it ignores the remaining budget."""
        return self.total is None

    @property
    def knows_overspent(self) -> bool:
        """Whether it says what to do once the budget is overspent."""
        return self.total is None or self.num_layers == self.total + 2

    def check_model(self, mdp: MDP) -> None:
        """Raise ModelMismatch unless this is a policy of ``mdp``."""
        if self.mdp is not mdp and self.mdp != mdp:
            raise ModelMismatch(
                f"the policy belongs to another model ({self.mdp.fingerprint[:12]}, {self.mdp.num_states} states) "
                f"than the one given ({mdp.fingerprint[:12]}, {mdp.num_states} states). Solve or build it for this one."
            )

    def weights(self, layer: int) -> Floats:
        """The probability of each choice in a layer, [num_choices]."""
        if self.probability is not None:
            randomised: Floats = self.probability[layer]
            return randomised
        assert self.choice is not None
        row = self.choice[layer]
        result = np.zeros(self.mdp.num_choices)
        result[row[row >= 0]] = 1.0
        return result

    def layer(self, remaining: int | None) -> int:
        """The row of the table for a remaining budget."""
        if self.total is None:
            return 0
        if remaining is None:
            raise ArgumentError("this policy looks at the remaining budget: say what remains")
        if remaining >= 0:
            return min(int(remaining), self.total)
        if not self.knows_overspent:
            raise NoSafeAction(
                f"the budget is overspent by {-remaining}, and this policy says nothing about that", remaining=remaining
            )
        return self.total + 1

    # ------------------------------------------------------------------ playing

    def probabilities(self, state: int | str, remaining: int | None = None) -> Floats:
        """The probability of each action id, [num_actions].  Raises NoSafeAction where the policy says nothing."""
        s, layer = self.mdp.state(state), self.layer(remaining)
        if self.rest is not None and self.rest.probability[layer, s] > 0:
            raise PolicyError(
                f"at {self.mdp.describe_state(s)} this policy may come to rest, which it must remember. "
                "Play it with start().",
                state=s,
            )
        return self._spread(s, layer, remaining)

    def act(self, state: int | str, remaining: int | None = None, rng: np.random.Generator | None = None) -> int:
        """The action to take now; ``rng`` decides where the policy is randomised."""
        probabilities = self.probabilities(state, remaining)
        return _draw(probabilities, rng)

    def start(self, *, total: int | None = None, rng: np.random.Generator | None = None) -> Play:
        """Start playing: the result acts, is told the damage, and remembers what must be remembered."""
        return Play(self, self.total if total is None else check_total(total), rng)

    def shares(self, state: int, layer: int) -> Floats:
        """The probability of each choice of a state in a layer, all zero where the policy says nothing."""
        of_state = self.mdp.choices(state)
        if self.probability is not None:
            randomised: Floats = self.probability[layer, of_state.start : of_state.stop]
            return randomised
        assert self.choice is not None
        result = np.zeros(len(of_state))
        if self.choice[layer, state] >= 0:
            result[int(self.choice[layer, state]) - of_state.start] = 1.0
        return result

    def _spread(self, state: int, layer: int, remaining: int | None) -> Floats:
        result = np.zeros(self.mdp.num_actions)
        result[self.mdp.actions(state)] = self.shares(state, layer)
        if not result.any():
            left = "" if self.total is None else f" with {remaining} left"
            raise NoSafeAction(
                f"the policy says nothing about {self.mdp.describe_state(state)}{left}",
                state=state,
                remaining=remaining,
            )
        return result

    # ------------------------------------------------------------------ ways out

    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy to a safetensors file, atomically."""
        from almostsure.policy.files import save

        save(self, path)

    @staticmethod
    def load(path: str | PathLike[str], mdp: Model) -> Policy:
        """Read a policy of ``mdp``; raises ModelMismatch for another model's, CorruptFile for a damaged file."""
        from almostsure.policy.files import load

        return load(path, as_model(mdp))

    def to_history_policy(self, total: int | None = None) -> HistoryPolicy:
        """The same policy as a function of the history (Lemma 1).  See :mod:`almostsure.policy.history`."""
        from almostsure.policy.history import to_history_policy

        return to_history_policy(self, total)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy):
            return NotImplemented
        mine, theirs = (
            (p.choice, p.probability, *(() if p.rest is None else (p.rest.probability, p.rest.choice)))
            for p in (self, other)
        )
        same = len(mine) == len(theirs) and all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
        return same and self.total == other.total and self.mdp == other.mdp

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kind = "deterministic" if self.is_deterministic else "randomised"
        on = "states" if self.total is None else f"(state, remaining 0 … {self.total})"
        extra = " and once overspent" if self.total is not None and self.knows_overspent else ""
        return f"<Policy: {kind}, on {on}{extra}, of {self.mdp.num_states:,} states>"

    def __str__(self) -> str:
        from almostsure.policy.text import table

        return table(self)

    def _repr_html_(self) -> str:
        from almostsure.policy.text import policy_card

        return policy_card(self)


@final
class Play:
    """One run of a policy: it acts, is told the damage, and remembers what remains and whether it has come to rest."""

    __slots__ = ("_resting", "policy", "remaining", "rng")

    def __init__(self, policy: Policy, remaining: int | None, rng: np.random.Generator | None) -> None:
        if policy.total is not None and remaining is None:
            raise ArgumentError("this policy looks at the remaining budget: say the total")
        self.policy, self.remaining, self.rng = policy, remaining, rng
        self._resting = False

    def act(self, state: int | str) -> int:
        """The action to take now.  Ask once a step: asking may toss a coin."""
        policy, s = self.policy, self.policy.mdp.state(state)
        layer = policy.layer(self.remaining)
        if policy.rest is not None and not self._resting and policy.rest.probability[layer, s] > 0:
            chance = float(policy.rest.probability[layer, s])
            self._resting = _draw(np.array([1 - chance, chance]), self.rng) == 1
        if self._resting:
            assert policy.rest is not None
            return int(policy.mdp.choice_action[policy.rest.choice[s]])
        return _draw(policy._spread(s, layer, self.remaining), self.rng)

    def observe(self, damage: int) -> None:
        """Say what the last action cost."""
        if self.remaining is not None:
            self.remaining -= check_total(damage, "damage")


def as_policy(mdp: MDP, policy: Any, *, total: int | None = None) -> Policy:
    """A policy of ``mdp`` from a Policy or Solution, a table, mapping or function.

    With a total, a function may ask what remains.
    """
    policy = policy.policy if isinstance(getattr(policy, "policy", None), Policy) else policy  # of a Solution
    if isinstance(policy, Policy):
        policy.check_model(mdp)
        return policy
    if isinstance(policy, Mapping):
        return Policy.from_table(mdp, policy)
    if callable(policy):
        return Policy.from_function(mdp, policy, total=total if _takes_remaining(policy, total) else None)
    return Policy.from_table(mdp, policy)


# ---------------------------------------------------------------------- pieces


def _takes_remaining(function: tables.Function, total: int | None) -> bool:
    import inspect

    def takes(count: int) -> bool:
        try:
            inspect.signature(function).bind(*range(count))
        except (TypeError, ValueError):  # ValueError: a builtin without a signature
            return False
        return True

    if total is None and takes(2) and not takes(1):
        raise ArgumentError("this policy looks at the remaining budget: say the total")
    return takes(2)


def _draw(probabilities: Floats, rng: np.random.Generator | None) -> int:
    possible = np.flatnonzero(probabilities)
    if possible.size == 1:
        return int(possible[0])
    if rng is None:
        raise ArgumentError("this policy is randomised: pass rng=numpy.random.default_rng(seed)")
    at = np.searchsorted(np.cumsum(probabilities[possible]), rng.random(), side="right")
    return int(possible[min(int(at), possible.size - 1)])


def _rebuild(mdp: MDP, choice: Any, probability: Any, total: int | None, rest: Rest | None) -> Policy:
    return Policy(mdp, choice=choice, probability=probability, total=total, rest=rest)
