"""``Policy``: the actions for every state, or for every state and every remaining budget.

A policy is a table with one row per *layer*:

- a *stationary* policy (``budget is None``) has one layer;
- a policy on (state, remaining) has ``budget + 1`` layers, one for each remaining budget 0 … ``budget``.  With more
  than ``budget`` left the top layer is used: a policy that never takes more than ``budget`` damage does not exceed a
  larger budget either;
- such a policy may have one more layer, the last, for an *overspent* budget.  A policy for a chance constraint has it.
  An assured policy has none, and raises ``NoSafeAction`` if it is overspent.

A policy for a *horizon* has a block of such layers for each number of steps left; numbers of steps with the same
decisions share a block.

A layer is either deterministic (one choice per state) or randomised (one probability per choice).  A policy may be
undefined in states that it never reaches, or from which no budget suffices: there the choice is −1, or all
probabilities are 0.

Some optimal policies need one bit of memory beside (state, remaining).  Take a state with a harmless ``wait`` and a
rewarding but damaging ``go``, no discount, and at most half a unit of damage on average: the best policy tosses a coin
*once*, and then either goes or waits forever.  No memoryless policy does that: one that goes with a positive
probability in each step goes eventually.  Such a policy has a ``rest``: on arrival in a state it may come to rest, and
from then on it only plays harmless choices.  :meth:`Policy.start` plays any policy, with that memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget, whole
from almostsure.errors import ArgumentError, ModelMismatch, NoSafeAction, PolicyError
from almostsure.files import file_name
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.model.source import Model, as_model
from almostsure.policy import read
from almostsure.policy.play import Play, draw
from almostsure.policy.rows import Rest, check_blocks, check_choices, check_rest, pure, shaped
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.plots import Axes


@final
class Policy:
    """A policy of a model: the actions for every state, or for every state and every remaining budget.

    Use :meth:`from_table` or :meth:`from_function`; :func:`almostsure.solve_policy` returns one.

    It is a table with one row per *layer*: a single one for a stationary policy (``budget`` is None), otherwise one for
    each remaining budget 0 … ``budget``, and perhaps a last one for an overspent budget.  With more than ``budget``
    left the top layer is used.  Where a policy is undefined (in states that it never reaches, or from which no budget
    suffices) the choice is −1, or all probabilities are 0; look-ups there raise NoSafeAction.

    Parameters
    ----------
    mdp
        The model.
    choice, probability
        The table: either the choice of each state or the probability of each choice, one row per layer.
    budget
        The largest remaining budget that has a layer, or None for a stationary policy.
    rest
        When the policy comes to rest, if it does.
    block
        For a policy with a horizon: the block of layers that is used with 1, 2, … steps left, [horizon].

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.example("paper")
    >>> policy = Policy.from_table(mdp, [1, 0])
    >>> asure.evaluate(mdp, policy).expected_damage
    0.0
    """

    mdp: MDP
    budget: int | None
    choice: npt.NDArray[Any] | None  # [layers, num_states]
    probability: Floats | None  # [layers, num_choices]
    rest: Rest | None
    block: Ints | None  # [horizon]

    def __init__(
        self,
        mdp: MDP,
        *,
        choice: npt.NDArray[Any] | None = None,
        probability: Floats | None = None,
        budget: int | None = None,
        rest: Rest | None = None,
        block: npt.ArrayLike | None = None,
    ) -> None:
        if (choice is None) == (probability is None):
            raise PolicyError("a policy must have either choices or probabilities")
        steps = None if block is None else check_blocks(block)
        blocks = 1 if steps is None else int(steps.max()) + 1
        if probability is not None:
            probability = shaped("probability", np.asarray(probability, np.float64), mdp.num_choices, budget, blocks)
            read.check_probabilities(mdp, probability)
            choice = pure(mdp, probability)
            probability = probability if choice is None else None
        if choice is not None:
            choice = shaped("choice", np.asarray(choice), mdp.num_states, budget, blocks)
            check_choices(mdp, choice)
        if rest is not None:
            if steps is not None:
                raise PolicyError("a policy with a horizon cannot come to rest: it ends with its steps")
            check_rest(mdp, rest, (probability if choice is None else choice))
        vars(self).update(mdp=mdp, budget=budget, choice=choice, probability=probability, rest=rest, block=steps)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be changed: a policy is immutable. Build another one.")

    def __reduce__(self) -> tuple[Any, ...]:
        parts = {name: getattr(self, name) for name in ("choice", "probability", "budget", "rest", "block")}
        return partial(Policy, self.mdp, **parts), ()

    # ------------------------------------------------------------------ construction

    @classmethod
    def from_table(cls, mdp: Model, table: Any, *, budget: int | None = None, overspent: Any = None) -> Policy:
        """Build a policy from an array or a mapping.

        Entries of terminal states are ignored.

        Parameters
        ----------
        mdp
            The model, an example's name, or a file.
        table
            Integers or names are actions: one per state, or one row for each remaining budget 0 … budget.
            Floats are probabilities: one row per state and one column per action, or one such matrix for each
            remaining budget.  A mapping goes from states, or with ``budget`` from (state, remaining), to an
            action or to a mapping from actions to probabilities.  Where an entry is −1, None or missing, the policy is
            undefined.
        budget
            The largest remaining budget; by default that of the table.
        overspent
            The policy for an overspent budget: a table or function of the state.

        Examples
        --------
        >>> import almostsure as asure
        >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
        >>> Policy.from_table(mdp, [[1, 0], [0, 0]]).budget  # with nothing left, action 1; with one unit, action 0
        1
        """
        mdp, budget = as_model(mdp), None if budget is None else check_budget(budget)
        if isinstance(table, Mapping):
            if budget is None and table and all(isinstance(key, tuple) and len(key) == 2 for key in table):
                budget = max(check_budget(remaining, "remaining") for _, remaining in table)
            array = read.from_mapping(mdp, table, None if budget is None else budget + 1)
            return cls._of(mdp, array, budget, overspent)
        array, layered = read.from_array(mdp, table)
        rows = len(array)
        if (layered and budget not in (None, rows - 1)) or (not layered and budget is not None):
            found = counted(rows, "row") if layered else "one action per state"
            raise PolicyError(f"with budget={budget} a table must have a row for each of 0 … {budget}; got {found}")
        return cls._of(mdp, array, rows - 1 if layered else None, overspent)

    @classmethod
    def from_function(
        cls, mdp: Model, function: read.Function, *, budget: int | None = None, overspent: Any = None
    ) -> Policy:
        """Build a policy by calling ``function(state)``, or with ``budget`` ``function(state, remaining)``.

        A state is given by its index; ``mdp.state_name(state)`` is its name.  The function is called for all states
        that are not terminal and all remaining budgets, reachable or not.  It returns an action (id or name), or a
        mapping from actions to probabilities; if it returns None or raises NoSafeAction, the policy is undefined there.
        """
        mdp, budget = as_model(mdp), None if budget is None else check_budget(budget)
        array = read.from_function(mdp, function, None if budget is None else budget + 1)
        return cls._of(mdp, array, budget, overspent)

    @classmethod
    def _of(cls, mdp: MDP, array: npt.NDArray[Any], budget: int | None, overspent: Any) -> Policy:
        """The policy with an array of choices (integers) or of probabilities (floats)."""
        choice, probability = (None, array) if array.dtype.kind == "f" else (array, None)
        policy = cls(mdp, choice=choice, probability=probability, budget=budget)
        return policy if overspent is None else policy.with_overspent(overspent)

    def with_overspent(self, overspent: Any) -> Policy:
        """The same policy, with a stationary policy for an overspent budget."""
        if self.budget is None or self.block is not None:
            kind = "with a horizon, it belongs in the table" if self.block is not None else "it is stationary"
            raise PolicyError(f"a layer for an overspent budget cannot be added to this policy: {kind}")
        after = as_policy(self.mdp, overspent)
        if after.budget is not None:
            raise PolicyError("the policy for an overspent budget must be stationary")
        rows = range(self.budget + 1)
        if self.choice is not None and after.choice is not None:
            return Policy(self.mdp, choice=np.vstack([self.choice[: len(rows)], after.choice]), budget=self.budget)
        weights = [self.weights(row) for row in rows] + [after.weights(0)]
        return Policy(self.mdp, probability=np.stack(weights), budget=self.budget)

    # ------------------------------------------------------------------ properties

    @property
    def num_layers(self) -> int:
        """The number of rows of the table."""
        table = self.choice if self.choice is not None else self.probability
        assert table is not None
        return len(table)

    @property
    def horizon(self) -> int | None:
        """The number of steps that it is for; None if it does not depend on the steps left."""
        return None if self.block is None else self.block.size

    @property
    def layers_per_block(self) -> int:
        """The number of rows for one number of steps left."""
        return self.num_layers if self.block is None else self.num_layers // (int(self.block.max()) + 1)

    @property
    def is_deterministic(self) -> bool:
        """Whether it plays one choice per state, and never comes to rest at random."""
        return self.choice is not None and self.rest is None

    @property
    def is_stationary(self) -> bool:
        """Whether it ignores the remaining budget and the steps left."""
        return self.budget is None and self.block is None

    @property
    def knows_overspent(self) -> bool:
        """Whether it is defined for an overspent budget."""
        return self.budget is None or self.layers_per_block == self.budget + 2

    def check_model(self, mdp: MDP) -> None:
        """Raise ModelMismatch unless this is a policy of ``mdp``."""
        if self.mdp is not mdp and self.mdp != mdp:
            raise ModelMismatch(
                f"the policy belongs to another model ({self.mdp.fingerprint[:12]}, {self.mdp.num_states} states) "
                f"than the given one ({mdp.fingerprint[:12]}, {mdp.num_states} states). Solve or build it for this one."
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

    def layer(self, remaining: int | None, steps_left: int | None = None) -> int:
        """The row of the table for a remaining budget and, if the policy has a horizon, a number of steps left."""
        first = 0
        if self.block is not None:
            if steps_left is None:
                raise ArgumentError(f"this policy is for a horizon of {self.block.size} steps: pass steps_left=")
            steps = whole("steps_left", steps_left)
            if not 1 <= steps <= self.block.size:
                raise ArgumentError(f"steps_left must lie in 1 … {self.block.size}, the policy's horizon; got {steps}")
            first = int(self.block[steps - 1]) * self.layers_per_block
        if self.budget is None:
            return first
        if remaining is None:
            raise ArgumentError("this policy depends on the remaining budget: pass remaining=")
        remaining = whole("remaining", remaining)
        if remaining >= 0:
            return first + min(remaining, self.budget)
        if not self.knows_overspent:
            raise NoSafeAction(
                f"the budget is overspent by {-remaining}, for which this policy is undefined", remaining=remaining
            )
        return first + self.budget + 1

    # ------------------------------------------------------------------ playing

    def probabilities(self, state: int | str, remaining: int | None = None, *, steps_left: int | None = None) -> Floats:
        """The probability of each action id, [num_actions].  Raises NoSafeAction where the policy is undefined."""
        s, layer = self.mdp.state(state), self.layer(remaining, steps_left)
        if self.rest is not None and self.rest.probability[layer, s] > 0:
            raise PolicyError(
                f"at {self.mdp.describe_state(s)} this policy may come to rest, which needs memory. "
                "Play it with start().",
                state=s,
            )
        return self.spread(s, layer, remaining)

    def act(
        self,
        state: int | str,
        remaining: int | None = None,
        rng: np.random.Generator | None = None,
        *,
        steps_left: int | None = None,
    ) -> int:
        """The action to take now; ``rng`` is needed if the policy is randomised."""
        return draw(self.probabilities(state, remaining, steps_left=steps_left), rng)

    def start(self, *, budget: int | None = None, rng: np.random.Generator | None = None) -> Play:
        """Start a run: the result acts, observes damage, and has the memory that the policy needs."""
        return Play(self, self.budget if budget is None else check_budget(budget), rng)

    def shares(self, state: int, layer: int) -> Floats:
        """The probability of each choice of a state in a layer; all 0 where the policy is undefined."""
        of_state = self.mdp.choices(state)
        if self.probability is not None:
            randomised: Floats = self.probability[layer, of_state.start : of_state.stop]
            return randomised
        assert self.choice is not None
        is_played: Bools = np.arange(of_state.start, of_state.stop) == self.choice[layer, state]
        return is_played.astype(np.float64)

    def spread(self, state: int, layer: int, remaining: int | None) -> Floats:
        """The probability of each action id in a layer; NoSafeAction where the policy is undefined."""
        result = np.zeros(self.mdp.num_actions)
        result[self.mdp.actions(state)] = self.shares(state, layer)
        if not result.any():
            where, remedy = self.mdp.describe_state(state), ""
            if self.budget is not None:
                where += f" with {remaining} left"
                remedy = ". solve_policy covers the pairs that the start can reach, and all with everywhere=True"
            raise NoSafeAction(f"the policy is undefined at {where}{remedy}", state=state, remaining=remaining)
        return result

    # ------------------------------------------------------------------ files and text

    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy to a safetensors file, atomically."""
        from almostsure.policy.files import save

        save(self, path)

    def save_scheduler(self, path: str | PathLike[str]) -> None:
        """Write the policy as a scheduler of Storm, in its JSON form.

        If the policy depends on the remaining budget, that is the scheduler's memory ``m``.  Runs begin with the whole
        budget, the largest ``m`` of the file; the format cannot express that.
        """
        from almostsure.policy.scheduler import save_scheduler

        save_scheduler(self, path)

    @staticmethod
    def load(path: str | PathLike[str], mdp: Model) -> Policy:
        """Read a policy of ``mdp``, and check that an assured one never overspends its budget.

        Raises
        ------
        ModelMismatch
            If it is a policy of another model.
        CorruptFile
            If the file is damaged, or its policy must be assured but may overspend.
        """
        from almostsure.policy.files import load

        file_name(path, "Policy.load(path, mdp)")
        return load(path, as_model(mdp))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy):
            return NotImplemented
        mine, theirs = (
            (p.choice, p.probability, p.block, *(() if p.rest is None else (p.rest.probability, p.rest.choice)))
            for p in (self, other)
        )
        same = len(mine) == len(theirs) and all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
        return same and self.budget == other.budget and self.mdp == other.mdp

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Policy: {self.description()}>"

    def description(self) -> str:
        """The kind of policy, in a few words."""
        kind = "deterministic" if self.is_deterministic else "randomised"
        on = "states" if self.budget is None else f"(state, remaining 0 … {self.budget})"
        extra = " and once overspent" if self.budget is not None and self.knows_overspent else ""
        extra += "" if self.block is None else f", for {counted(self.block.size, 'step')}"
        return f"{kind}, on {on}{extra}, of {counted(self.mdp.num_states, 'state')}"

    def __str__(self) -> str:
        from almostsure.policy.text import table

        return table(self)

    def _repr_html_(self) -> str:
        from almostsure.policy.text import policy_card

        return policy_card(self)

    def plot(self, ax: Axes | None = None, *, remaining: int | None = None) -> Axes:
        """Draw the action of each cell of the map with ``remaining`` left, by default with the whole budget."""
        from almostsure.model.show.plot import plot_map
        from almostsure.policy.text import signs

        left = self.budget if remaining is None else remaining
        return plot_map(self.mdp, ax, signs(self, left), "" if left is None else f"with {left} left")


def as_policy(mdp: MDP, policy: Any, *, budget: int | None = None) -> Policy:
    """A policy of ``mdp`` from a Policy or Solution, a table, a mapping or a function.

    With a budget, a function may take the remaining budget too.
    """
    policy = unwrapped(policy)
    if isinstance(policy, Policy):
        policy.check_model(mdp)
        return policy
    if callable(policy):
        takes_both = read.takes_remaining(policy, budget)
        return Policy.from_function(mdp, policy, budget=budget if takes_both else None)
    return Policy.from_table(mdp, policy)


def played_with(mdp: MDP, policy: Any, budget: int | None) -> tuple[Policy, int | None]:
    """A policy of ``mdp``, and the budget with which it is played: the given one, or else its own."""
    given = None if budget is None else check_budget(budget)
    found = as_policy(mdp, policy, budget=given)
    return found, found.budget if given is None else given


def unwrapped(policy: Any) -> Any:
    """The policy of a Solution; for another object that has ``probabilities(state, remaining)``, that function."""
    inner = getattr(policy, "policy", None)
    if isinstance(inner, Policy):
        return inner
    if isinstance(policy, (Policy, Mapping)) or callable(policy):
        return policy
    return getattr(policy, "probabilities", policy)
