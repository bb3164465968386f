"""``Explanation``: a play in which nature forces the damage that a state needs, although the agent plays optimally.

Nature's responses follow the certificate (:mod:`almostsure.budget.certificate`): for every choice there is an outcome
that does damage now, or leads to a state that needs more or has a smaller rank.  The agent plays the choice that needs
least; the others are listed with their needs.  The play ends when a finite budget is spent, or, for an infinite one,
when it returns to an earlier state with damage in between.

In a learned model an infinite need is unknown if it is finite once the unknown state is taken to be harmless.  Then the
agent plays the choice that needs least in *that* model, M, while nature still follows the certificate.  In M the play
does no more damage than a finite need, and every cycle of the certificate does damage: the play ends at the unknown
state.  If the need is infinite in M, too, the observed outcomes suffice, and M is the model that is explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from almostsure.budget.certificate import show
from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import if_unknown_is_harmless
from almostsure.errors import CertificateError
from almostsure.model.mdp import MDP
from almostsure.model.naming import shown
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.budget.minimal import MinimalBudget

LONGEST = 20_000  # steps after which a play is cut
SHOWN = 12  # steps printed at the beginning and at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: the agent plays ``action`` at ``state``, nature responds with ``next_state`` and ``damage``."""

    state: int
    action: int
    next_state: int
    damage: int
    needs: int  # the need of the action
    others: tuple[tuple[int, int], ...]  # the other actions and their needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A worst case that explains a minimal budget.  Print it, or read ``steps``, ``damage`` and ``trap``.

    Examples
    --------
    >>> import almostsure as asure
    >>> print(asure.minimal_budget("corridor").explain(3))
    r0c3 needs 3: nature can force 3 damage, whatever the agent does afterwards.
      1. r0c3: east (needs 3) → r0c4, no damage; 0 so far
      2. r0c4: east (needs 3) → r0c5, no damage; 0 so far
      3. r0c5: east (needs 3) → r0c6, damage 3; 3 so far
    """

    mdp: MDP
    state: int
    action: int | None
    needs: int  # k* of the state, or of the action
    cap: int | None
    steps: tuple[Step, ...]
    trap: tuple[int, ...]  # if no budget suffices: the states of a cycle on which nature forces damage every time
    complete: bool  # False if the play was cut because it is too long
    is_unknown: bool  # whether the need is infinite only because too little of a learned model is known

    @property
    def damage(self) -> int:
        """The total damage of the steps, which include the trap once."""
        return sum(step.damage for step in self.steps)

    def __repr__(self) -> str:
        return f"<Explanation: {self.headline} {counted(len(self.steps), 'step')}; print it>"

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import text_card

        return text_card("Explanation", str(self))

    def __str__(self) -> str:
        lines = [self.headline, *self._moves()]
        if self.trap:
            names = " → ".join(self._state(s) for s in (*self.trap[:SHOWN], self.trap[0]))
            lines.append(f"  This cycle repeats for ever, with damage each time: {names}.")
        if not self.complete:
            lines.append(f"  … cut after {counted(len(self.steps), 'step')} and {self.damage} damage.")
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        subject = self._state(self.state)
        if self.action is not None:
            subject = f"{self._action(self.action)} at {subject}"
        if self.needs == 0:
            return f"{subject} needs 0: the agent can avoid all damage from there."
        origin = self.mdp.origin
        doubt = f",{origin.if_positive}" if origin.is_bound else ""
        if self.needs < INFINITE:
            return (
                f"{subject} needs {origin.at_most(self.needs)}: nature can force {self.needs} damage, whatever the "
                f"agent does afterwards{doubt}."
            )
        if self.is_unknown:
            where = self._state(self.steps[-1].state if self.steps else self.state)
            return f"what {subject} needs is unknown: the learned model does not know enough from {where} on."
        if self.cap is not None:
            return (
                f"{subject} needs more than {self.cap}, the cap: nature can force more, whatever the agent does "
                f"afterwards{doubt}."
            )
        return f"{subject} needs ∞: no finite budget suffices, nature can force damage for ever{doubt}."

    def _moves(self) -> list[str]:
        steps, spent, lines = self.steps, 0, []
        for i, step in enumerate(steps):
            spent += step.damage
            if len(steps) > 2 * SHOWN + 1 and SHOWN <= i < len(steps) - SHOWN:
                if i == SHOWN:
                    lines.append(f"     … {len(steps) - 2 * SHOWN:,} steps …")
                continue
            lines.append(f"  {i + 1}. {self._move(step)}; {spent} so far")
        return lines

    def _state(self, state: int) -> str:
        return shown(self.mdp.state_name(state))

    def _action(self, action: int) -> str:
        return shown(self.mdp.action_name(action))

    def show(self, needs: int) -> str:
        """The need of an action as text: "unknown" if too little may be known, as in a learned model."""
        if needs == INFINITE and self.mdp.unknown is not None and (self.is_unknown or self.needs < INFINITE):
            return "unknown"
        return show(needs) if self.cap is None or needs < INFINITE else f"more than {self.cap}"

    def _move(self, step: Step) -> str:
        state, action = self._state, self._action
        others = ", ".join(f"{action(a)} needs {self.show(k)}" for a, k in step.others[:6])
        others += ", …" if len(step.others) > 6 else ""
        harm = f"damage {step.damage}" if step.damage else "no damage"
        needs = f"needs {self.show(step.needs)}" + (f"; {others}" if others else "")
        return f"{state(step.state)}: {action(step.action)} ({needs}) → {state(step.next_state)}, {harm}"


def explain(minimal: MinimalBudget, state: int | str | Mapping[str, Any], action: int | str | None) -> Explanation:
    """The explanation of a state's budget, or of an action's."""
    mdp = minimal.mdp
    s = mdp.state(state)
    first = None if action is None else mdp.choice(s, action)
    needs = int(minimal.of_state[s] if first is None else minimal.of_choice[first])
    guide, is_unknown = minimal, False
    if needs == INFINITE and mdp.unknown is not None:
        guide = if_unknown_is_harmless(minimal)
        is_unknown = (guide.of_state[s] if first is None else guide.of_choice[first]) < INFINITE or s == mdp.unknown
        minimal = minimal if is_unknown else guide
    steps, trap, complete = _play(minimal, guide, s, first) if needs else ((), (), True)
    return Explanation(
        mdp=mdp, state=s, action=None if first is None else int(mdp.choice_action[first]), needs=needs,
        cap=minimal.cap, steps=steps, trap=trap, complete=complete, is_unknown=is_unknown,
    )  # fmt: skip


def _play(
    minimal: MinimalBudget, guide: MinimalBudget, s: int, first: int | None
) -> tuple[tuple[Step, ...], tuple[int, ...], bool]:
    """Nature's answers by the certificate of ``minimal``, to an agent that plays what needs least by ``guide``."""
    steps: list[Step] = []
    seen: dict[int, int] = {}
    spent = 0
    enough = minimal.limit + 1
    choice = first
    while s != minimal.mdp.unknown and (minimal.of_state[s] > 0 or choice is not None):
        if spent >= enough and minimal.of_state[s] == INFINITE:
            return tuple(steps), (), True  # more than the cap has been done
        if minimal.of_state[s] == INFINITE and choice is None:
            if s in seen and minimal.cap is None:
                return tuple(steps), tuple(step.state for step in steps[seen[s] :]), True
            seen[s] = len(steps)
        if len(steps) == LONGEST:
            return tuple(steps), (), False
        step = exchange(minimal, s, choice, guide=guide)
        steps.append(step)
        spent += step.damage
        s, choice = step.next_state, None
    return tuple(steps), (), True


def exchange(minimal: MinimalBudget, s: int, choice: int | None, *, guide: MinimalBudget | None = None) -> Step:
    """One step of an explanation: from ``s``, with ``choice`` or else the one that needs least (by ``guide``)."""
    mdp = minimal.mdp
    choices = mdp.choices(s)
    needs = (guide or minimal).of_choice[choices.start : choices.stop]
    played = choices.start + int(np.argmin(needs)) if choice is None else choice
    outcome = _answer(minimal, s, played, any_cost=choice is not None)
    others = tuple(
        (int(mdp.choice_action[c]), int(minimal.of_choice[c])) for c in choices if c != played and choice is None
    )
    return Step(
        state=s, action=int(mdp.choice_action[played]), next_state=int(mdp.successor[outcome]),
        damage=int(mdp.damage[outcome]), needs=int(minimal.of_choice[played]), others=others,
    )  # fmt: skip


def _answer(minimal: MinimalBudget, s: int, choice: int, *, any_cost: bool) -> int:
    """The outcome of the largest cost; among these one with damage, or else of least rank."""
    mdp = minimal.mdp
    where = np.arange(int(mdp.outcome_ptr[choice]), int(mdp.outcome_ptr[choice + 1]))
    ceiling = minimal.limit + 1
    v = np.minimum(minimal.of_state[mdp.successor[where]].astype(np.int64), ceiling)
    damage = mdp.damage[where].astype(np.int64)
    cost = np.minimum(v + damage, ceiling)
    rank = minimal.rank[mdp.successor[where]].astype(np.int64)
    if not any_cost:  # follow the certificate; otherwise a play could cycle without damage
        owed = min(int(minimal.of_state[s]), ceiling)
        good = (cost >= owed) & ((damage > 0) | (v > owed) | (rank < minimal.rank[s]))
        if not good.any():
            raise CertificateError(
                f"the budget of {mdp.describe_choice(choice)} cannot be explained: nothing forces "
                f"{show(minimal.of_state[s])} damage when it is chosen. Verify it with "
                "check_minimal_budget, or solve again.",
                state=s, choice=choice,
            )  # fmt: skip
        where, cost, damage, rank = where[good], cost[good], damage[good], rank[good]
    best = np.lexsort((rank, -damage.clip(max=1), -cost))[0]
    return int(where[best])
