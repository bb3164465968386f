"""``HorizonBudget``: the least damage that can be forced within T steps, which is the T-th iterate of the operator.

With v₀ = 0 and

    k_t(s, a) = max over outcomes (s', d) of [ d + v_{t−1}(s') ],    v_t(s) = min over a of k_t(s, a)

v_t(s) is the least budget that is never overspent within t steps from s: in a game of t steps, in each of which nature
moves last.  So the iterates of the paper's Algorithm 1 have a meaning of their own; their limit is k*.  Forbidden
states (labelled ``forbidden``, with damage in every step and no exit, as :func:`almostsure.product` makes one) and
unknown ones need ∞ with any number of steps left, including 0.

The iterates rise with t.  Only the steps at which the value of a state rises are stored, not T values.  Where damage is
unavoidable in every step the value never stops rising, unless a ``cap`` is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_horizon, count
from almostsure.budget.certificate import check_rises
from almostsure.budget.minimal import INFINITE, Needs
from almostsure.errors import ArgumentError, ModelError
from almostsure.files import file_name, load_tensors, must_hold, save_tensors
from almostsure.model.labels import TRAP
from almostsure.model.mdp import MDP, Ints, Support
from almostsure.model.source import Model, as_model
from almostsure.wording import counted

Values = npt.NDArray[np.int32]


class Rises(NamedTuple):
    """The steps at which the values of states rise, and the values from these steps on."""

    ptr: Ints  # [num_states + 1]
    step: npt.NDArray[np.int32]  # [rises], ascending within a state
    value: Values  # [rises]

    def at(self, steps: int) -> Values:
        """The value of every state with this many steps left."""
        before = np.concatenate([[0], np.cumsum(self.step <= steps)])
        count = before[self.ptr[1:]] - before[self.ptr[:-1]]
        values = np.zeros(count.size, np.int32)
        risen = np.flatnonzero(count)
        values[risen] = self.value[self.ptr[risen] + count[risen] - 1]
        return values


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HorizonBudget(Needs):
    """The least budget for ``horizon`` steps, for every state and choice; :meth:`at` has it for fewer steps.

    ``minimal_budget(mdp, horizon=T)`` computes it, :func:`almostsure.check_minimal_budget` verifies it.

    Examples
    --------
    >>> import almostsure as asure
    >>> pit = asure.from_transitions([0], [0], [0], [1], [0], [1])  # damage 1 in every step
    >>> within = asure.minimal_budget(pit, horizon=10)
    >>> within.smallest_budget(), within.at(4).of_state.tolist()
    (10, [4])
    """

    horizon: int
    rises: Rises
    settled: int | None = None  # the number of steps after which no value rises, if that was reached

    def __post_init__(self) -> None:
        Needs.__post_init__(self)
        for array in (self.of_state, self.of_choice, *self.rises):
            array.flags.writeable = False
        above = (self.rises.value > self.limit) & (self.rises.value < INFINITE)
        if above.any():
            most = self.rises.value[np.argmax(above)]
            raise ModelError(f"values of rises must be at most the cap {self.limit}, or INFINITE; got {most}")

    def at(self, steps: int) -> HorizonBudget:
        """The budget for fewer steps."""
        left = count("steps", steps, least=0)
        if left > self.horizon and self.settled is None:
            raise ArgumentError(
                f"steps must be at most the horizon {self.horizon}; got {left}. Solve with a larger one."
            )
        less = horizon_budget(self.mdp, self.rises, left, self.cap, self.settled)
        return less.verified() if self.checked else less

    def explain(self, state: int | str) -> str:
        """How nature forces the damage within the horizon, step by step, against an agent that plays optimally."""
        s, spent, lines = self.mdp.state(state), 0, []
        for left in range(self.horizon, 0, -1):
            before, now = self.rises.at(left - 1), self.rises.at(left)
            if now[s] in (0, INFINITE):
                break
            choices = self.mdp.choices(s)
            costs = worst_of_choices(self.mdp, before)[choices.start : choices.stop]
            choice = choices.start + int(np.argmin(costs))
            where = range(int(self.mdp.outcome_ptr[choice]), int(self.mdp.outcome_ptr[choice + 1]))
            outcome = max(where, key=lambda o: int(self.mdp.damage[o]) + int(before[self.mdp.successor[o]]))
            action = self.mdp.action_name(int(self.mdp.choice_action[choice]))
            after, damage = int(self.mdp.successor[outcome]), int(self.mdp.damage[outcome])
            spent += damage
            lines.append(
                f"  {counted(left, 'step')} left, {self.mdp.state_name(s)}: {action} → {self.mdp.state_name(after)}, "
                f"damage {damage}; {spent} so far"
            )
            s = after
        need = self.of(state)
        forced = f"nature can force {need} damage" if need else "all damage can be avoided"
        shown = self.nothing_suffices() if need == INFINITE else forced
        doubt = self.mdp.origin.if_positive if need else ""
        steps = counted(self.horizon, "step")
        return "\n".join([f"{self.mdp.describe_state(self.mdp.state(state))}: {shown} within {steps}{doubt}.", *lines])

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the budget to a safetensors file, atomically; its certificate is the values themselves."""
        write_within(self, path, kind="horizon budget")

    @classmethod
    def load(cls, path: str | PathLike[str], mdp: Model) -> HorizonBudget:
        """Read a budget of ``mdp``.  It is not verified; ``check_minimal_budget`` does that."""
        file_name(path, "HorizonBudget.load(path, mdp)")
        return read_within(path, as_model(mdp), kind="horizon budget")

    def __repr__(self) -> str:
        return f"<HorizonBudget: {self.in_words()}>"

    def in_words(self) -> str:
        """What the start needs, and after how many steps no value rises."""
        budget = self.smallest_budget()
        doubt = ""
        if budget == INFINITE:
            need, doubt = f"{self.nothing_suffices()} at the start", self.mdp.origin.if_positive
        else:
            need = f"the start needs a budget of {self.at_most(self.mdp.show_damage(budget))}"
        rest = "" if self.settled is None else f"; nothing rises after {counted(self.settled, 'step')}"
        return f"{need} for {counted(self.horizon, 'step')}{doubt} ({counted(self.mdp.num_states, 'state')}){rest}"


def write_within(minimal: HorizonBudget, path: str | PathLike[str], *, kind: str) -> None:
    """Write ``minimal`` to a file of the given kind ("horizon budget" or "horizon shield")."""
    numbers = {"horizon": minimal.horizon, "cap": minimal.cap, "settled": minimal.settled}
    strings = {name: "" if value is None else str(value) for name, value in numbers.items()}
    save_tensors(path, kind=kind, model=minimal.mdp.fingerprint, arrays=minimal.rises._asdict(), strings=strings)


def read_within(path: str | PathLike[str], mdp: MDP, *, kind: str) -> HorizonBudget:
    """Read the budget of ``mdp`` from a file of the given kind."""
    arrays, strings = load_tensors(path, kind=kind, model=mdp.fingerprint)
    with must_hold(path, f"a {kind} of its model"):
        rises = Rises(*(arrays[name] for name in Rises._fields))
        cap, settled = (int(strings[name]) if strings[name] else None for name in ("cap", "settled"))
        check_rises(mdp, rises)
        return horizon_budget(mdp, rises, check_horizon(int(strings["horizon"]), least=0), cap, settled)


def first_values(mdp: MDP) -> Values:
    """v₀: ∞ for forbidden and unknown states, 0 for all others."""
    start = np.zeros(mdp.num_states, np.int32)
    if TRAP in mdp.labels:
        stays = (mdp.successor == mdp.choice_states()[mdp.outcome_choices()]) & (mdp.damage > 0)
        first = mdp.outcome_ptr[mdp.choice_ptr[:-1]].astype(np.int64)
        start[mdp.labels[TRAP] & np.logical_and.reduceat(stays, first)] = INFINITE  # as k* is
    if mdp.unknown is not None:
        start[mdp.unknown] = INFINITE
    return start


def horizon_budget(mdp: MDP, rises: Rises, steps: int, cap: int | None, settled: int | None) -> HorizonBudget:
    """The budget with this many steps left."""
    of_state = rises.at(steps)
    of_choice = worst_of_choices(mdp, rises.at(steps - 1)) if steps else np.zeros(mdp.num_choices, np.int32)
    if not steps:
        of_choice[of_state[mdp.choice_states()] == INFINITE] = INFINITE
    if cap is not None:
        of_choice[of_choice > cap] = INFINITE
    return HorizonBudget(
        mdp=mdp, horizon=steps, rises=rises, cap=cap, settled=settled,
        of_state=of_state, of_choice=of_choice,
    )  # fmt: skip


def worst_of_choices(mdp: MDP | Support, values: Values) -> Values:
    """Max over outcomes of d + v(s'), for every choice."""
    cost = np.minimum(values[mdp.successor].astype(np.int64) + mdp.damage, INFINITE)
    return np.maximum.reduceat(cost, mdp.outcome_ptr[:-1].astype(np.int64)).astype(np.int32)
