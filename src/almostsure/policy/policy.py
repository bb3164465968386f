"""What to do in every state, or in every state with every remaining budget: the ``Policy`` value.

A policy is a table with one row per *layer*:

- a *stationary* policy (``budget is None``) has one layer;
- a policy on (state, remaining) has ``budget + 1`` layers, one for each remaining budget 0 … ``budget``.  Whoever
  has more than ``budget`` left uses the top layer: what never takes more than ``budget`` damage never takes more
  than a larger budget either;
- such a policy may have one more layer, the last, that says what to do once the budget is *overspent*.  A policy
  for a chance constraint has it; an assured policy has none, and raises ``NoSafeAction`` instead of guessing.

A policy for a *horizon* has a block of such layers for each number of steps that may be left; steps with which it does
the same share a block.

A layer is either deterministic (one choice per state) or randomised (one probability per choice).  Where a policy
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
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget, whole
from almostsure.errors import ArgumentError, ModelMismatch, NoSafeAction, PolicyError
from almostsure.files import file_name
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.model.source import Model, as_model
from almostsure.policy import read
from almostsure.policy.play import Play, draw
from almostsure.policy.rows import Rest, check_blocks, check_choices, check_rest, pure, shaped
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.plots import Axes


@final
class Policy:
    """What to do in every state, or in every state with every remaining budget.  It knows its model.

    Use :meth:`from_table` or :meth:`from_function`; :func:`almostsure.solve_policy` returns one.

    It is a table with one row per *layer*: one in all for a stationary policy (``budget`` is None), otherwise one for
    each remaining budget 0 … ``budget``, and perhaps a last one for what to do once the budget is overspent.  With more
    than ``budget`` left the top layer is used.  Where a policy says nothing (a state that it never reaches, or from
    which no budget suffices) the choice is −1, or all probabilities are 0; asking it there raises NoSafeAction.

    Parameters
    ----------
    mdp
        The model that it is a policy of.
    choice, probability
        The table: either the choice of each state or the probability of each choice, one row per layer.
    budget
        The largest remaining budget that has a layer, or None for a stationary policy.
    rest
        Where the policy may come to rest, if it needs that.
    block
        For a policy of a horizon: the block of layers that is used with 1, 2, … steps left, [horizon].

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.example("paper")
    >>> policy = Policy.from_table(mdp, [1, 0])
    >>> asure.evaluate(mdp, policy).expected_damage
    0.0
    """

    __slots__ = ("block", "budget", "choice", "mdp", "probability", "rest")

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
                raise PolicyError("a policy for a horizon cannot come to rest: it ends with its steps")
            check_rest(mdp, rest, (probability if choice is None else choice))
        parts = {"mdp": mdp, "budget": budget, "choice": choice, "probability": probability}
        for name, value in {**parts, "rest": rest, "block": steps}.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be changed: a policy is immutable. Build another one.")

    def __reduce__(self) -> tuple[Any, ...]:
        parts = {name: getattr(self, name) for name in ("choice", "probability", "budget", "rest", "block")}
        return partial(Policy, self.mdp, **parts), ()

    # ------------------------------------------------------------------ ways in

    @classmethod
    def from_table(cls, mdp: Model, table: Any, *, budget: int | None = None, overspent: Any = None) -> Policy:
        """Build a policy from an array or a mapping.

        What it says about terminal states is ignored: nothing happens there.

        Parameters
        ----------
        mdp
            The model, an example's name, or a file.
        table
            Integers or names are actions: one per state, or one row for each remaining budget 0 … budget.
            Floats are probabilities: one row per state and one column per action, or one such matrix for each
            remaining budget.  A mapping goes from states, or with ``budget`` from (state, remaining), to an
            action or to a mapping from actions to probabilities.  −1, None and what is missing say nothing.
        budget
            The largest remaining budget; by default what the table says.
        overspent
            What to do once the budget is overspent: a table or function of the state.

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
            return cls._from(
                mdp, read.from_mapping(mdp, table, None if budget is None else budget + 1), budget, overspent
            )
        content, layered = read.from_array(mdp, table)
        rows = content.num_layers
        if (layered and budget not in (None, rows - 1)) or (not layered and budget is not None):
            found = counted(rows, "row") if layered else "one action per state"
            raise PolicyError(f"with budget={budget} a table must have a row for each of 0 … {budget}; got {found}")
        return cls._from(mdp, content, rows - 1 if layered else None, overspent)

    @classmethod
    def from_function(
        cls, mdp: Model, function: read.Function, *, budget: int | None = None, overspent: Any = None
    ) -> Policy:
        """Build a policy by asking ``function(state)``, or with ``budget`` ``function(state, remaining)``.

        A state is given as its number; ``mdp.state_name(state)`` is its name.  The function is asked about every state
        that is not terminal, with everything that may remain, whether that is ever reached or not.  It returns an
        action (id or name), a mapping from actions to probabilities, or None where it says nothing; raising
        NoSafeAction, as a shield does, says nothing too.
        """
        mdp, budget = as_model(mdp), None if budget is None else check_budget(budget)
        content = read.from_function(mdp, function, None if budget is None else budget + 1)
        return cls._from(mdp, content, budget, overspent)

    @classmethod
    def _from(cls, mdp: MDP, content: read.Table, budget: int | None, overspent: Any) -> Policy:
        policy = cls(mdp, choice=content.choice, probability=content.probability, budget=budget)
        return policy if overspent is None else policy.with_overspent(overspent)

    def with_overspent(self, overspent: Any) -> Policy:
        """The same policy, which once the budget is overspent does what a stationary policy does."""
        if self.budget is None or self.block is not None:
            kind = "a policy for a horizon takes it with its table" if self.block is not None else "it is stationary"
            raise PolicyError(f"what to do once overspent cannot be added to this policy: {kind}")
        after = as_policy(self.mdp, overspent)
        if after.budget is not None:
            raise PolicyError("what is done once the budget is overspent must be a stationary policy")
        rows = range(self.budget + 1)
        if self.choice is not None and after.choice is not None:
            return Policy(self.mdp, choice=np.vstack([self.choice[: len(rows)], after.choice]), budget=self.budget)
        weights = [self.weights(row) for row in rows] + [after.weights(0)]
        return Policy(self.mdp, probability=np.stack(weights), budget=self.budget)

    # ------------------------------------------------------------------ what it is

    @property
    def num_layers(self) -> int:
        """How many rows the table has."""
        table = self.choice if self.choice is not None else self.probability
        assert table is not None
        return len(table)

    @property
    def horizon(self) -> int | None:
        """For how many steps it is; None if it does not look at the steps that are left."""
        return None if self.block is None else self.block.size

    @property
    def layers_per_block(self) -> int:
        """How many rows there are for one number of steps left."""
        return self.num_layers if self.block is None else self.num_layers // (int(self.block.max()) + 1)

    @property
    def is_deterministic(self) -> bool:
        """Whether it plays one choice per state and never comes to rest by chance."""
        return self.choice is not None and self.rest is None

    @property
    def is_stationary(self) -> bool:
        """Whether it ignores the remaining budget and the steps that are left."""
        return self.budget is None and self.block is None

    @property
    def knows_overspent(self) -> bool:
        """Whether it says what to do once the budget is overspent."""
        return self.budget is None or self.layers_per_block == self.budget + 2

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

    def layer(self, remaining: int | None, steps_left: int | None = None) -> int:
        """The row of the table for a remaining budget, and for a number of steps left where the policy asks for it."""
        first = self._first_layer(steps_left)
        if self.budget is None:
            return first
        if remaining is None:
            raise ArgumentError("this policy looks at the remaining budget: say what remains")
        remaining = whole("remaining", remaining)
        if remaining >= 0:
            return first + min(remaining, self.budget)
        if not self.knows_overspent:
            raise NoSafeAction(
                f"the budget is overspent by {-remaining}, and this policy says nothing about that", remaining=remaining
            )
        return first + self.budget + 1

    def _first_layer(self, steps_left: int | None) -> int:
        """The first row of the block for a number of steps left."""
        if self.block is None:
            return 0
        if steps_left is None:
            raise ArgumentError(
                f"this policy is for a horizon of {self.block.size} steps: say how many are left (steps_left)"
            )
        steps_left = whole("steps_left", steps_left)
        if not 1 <= steps_left <= self.block.size:
            raise ArgumentError(f"steps_left must lie in 1 … {self.block.size}, the policy's horizon; got {steps_left}")
        return int(self.block[steps_left - 1]) * self.layers_per_block

    # ------------------------------------------------------------------ playing

    def probabilities(self, state: int | str, remaining: int | None = None, *, steps_left: int | None = None) -> Floats:
        """The probability of each action id, [num_actions].  Raises NoSafeAction where the policy says nothing."""
        s, layer = self.mdp.state(state), self.layer(remaining, steps_left)
        if self.rest is not None and self.rest.probability[layer, s] > 0:
            raise PolicyError(
                f"at {self.mdp.describe_state(s)} this policy may come to rest, which it must remember. "
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
        """The action to take now; ``rng`` decides where the policy is randomised."""
        return draw(self.probabilities(state, remaining, steps_left=steps_left), rng)

    def start(self, *, budget: int | None = None, rng: np.random.Generator | None = None) -> Play:
        """Start playing: the result acts, is told the damage, and remembers what must be remembered."""
        return Play(self, self.budget if budget is None else check_budget(budget), rng)

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

    def spread(self, state: int, layer: int, remaining: int | None) -> Floats:
        """The probability of each action id in a layer; NoSafeAction where the policy says nothing."""
        result = np.zeros(self.mdp.num_actions)
        result[self.mdp.actions(state)] = self.shares(state, layer)
        if not result.any():
            left = "" if self.budget is None else f" with {remaining} left"
            remedy = (
                "" if self.budget is None else ". solve_policy covers what the start can reach; everywhere=True, all"
            )
            raise NoSafeAction(
                f"the policy says nothing about {self.mdp.describe_state(state)}{left}{remedy}",
                state=state,
                remaining=remaining,
            )
        return result

    # ------------------------------------------------------------------ ways out

    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy to a safetensors file, atomically."""
        from almostsure.policy.files import save

        save(self, path)

    def save_scheduler(self, path: str | PathLike[str]) -> None:
        """Write the policy as a scheduler of Storm, in its JSON form.

        Where the policy depends on what remains, that is the scheduler's memory ``m``.  Runs begin with the whole
        budget, the largest ``m`` of the file: the format has no place to say so.
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
            If the file is damaged, or what it calls an assured policy may overspend.
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
        """What kind of policy it is, in a few words."""
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
        """Draw what is played in each cell of the map with ``remaining`` left, by default with the whole budget."""
        from almostsure.model.show.plot import plot_map
        from almostsure.policy.text import signs

        left = self.budget if remaining is None else remaining
        return plot_map(self.mdp, ax, signs(self, left), "" if left is None else f"with {left} left")


def as_policy(mdp: MDP, policy: Any, *, budget: int | None = None) -> Policy:
    """A policy of ``mdp`` from a Policy or Solution, a table, a mapping or a function.

    With a budget, a function may ask what remains.
    """
    policy = unwrapped(policy)
    if isinstance(policy, Policy):
        policy.check_model(mdp)
        return policy
    if callable(policy):
        told = read.takes_remaining(policy, budget)
        return Policy.from_function(mdp, policy, budget=budget if told else None)
    return Policy.from_table(mdp, policy)


def played_with(mdp: MDP, policy: Any, budget: int | None) -> tuple[Policy, int | None]:
    """A policy of ``mdp``, and the budget with which it is played: the one that is given, or else its own."""
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
