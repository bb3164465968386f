"""What a learner may do: everything, what one step ahead looks harmless, or what a shield allows.

A guard is a table [layers, num_choices] of what is allowed.  A learner that ignores the budget has one layer; the
others have one for each remaining budget 0 … budget and a last one for the overspent.
"""

from __future__ import annotations

from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget
from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.errors import ArgumentError, ModelMismatch
from almostsure.learn.online import OnlineShield
from almostsure.memory import require
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.policy.policy import Policy
from almostsure.shield.checks import require_budget
from almostsure.shield.shield import Shield


class Guard(Protocol):
    """Says what is allowed, and may learn."""

    budget: int
    layers: int
    watches: bool  # whether it wants to see every new outcome at once

    def table(self) -> Bools:
        """What is allowed now, [layers, num_choices]."""
        ...

    def watch(self, outcome: int, remaining: int, clock: int) -> None:
        """Take in an outcome that was new at that step, with ``remaining`` left before it."""
        ...

    def finish(self, seen: npt.NDArray[np.int64], clock: int) -> None:
        """Take in how often every outcome was seen, when training is over."""
        ...

    def completed(self, allowed: Bools) -> Bools:
        """What a deployed policy may do, [layers, num_choices]."""
        ...

    def policy(self, probability: Floats) -> Policy:
        """The policy of these probabilities, [layers, num_choices]."""
        ...


class Unwatching:
    """What guards that learn nothing have in common."""

    watches = False

    def watch(self, outcome: int, remaining: int, clock: int) -> None:
        """Nothing is new to it."""

    def finish(self, seen: npt.NDArray[np.int64], clock: int) -> None:
        """It does not count."""

    def completed(self, allowed: Bools) -> Bools:
        """Something is allowed everywhere as it is."""
        return allowed


@final
class Free(Unwatching):
    """No guard at all; with ``layers`` 1 the budget is not even looked at."""

    def __init__(self, mdp: MDP, budget: int, *, sees_budget: bool) -> None:
        self.mdp, self.budget = mdp, check_budget(budget)
        self.layers = self.budget + 2 if sees_budget else 1

    def table(self) -> Bools:
        """Everything."""
        return np.ones((self.layers, self.mdp.num_choices), np.bool_)

    def policy(self, probability: Floats) -> Policy:
        """Stationary, or on the remaining budget and beyond it."""
        return Policy(self.mdp, probability=probability, budget=None if self.layers == 1 else self.budget)


@final
class OneStep(Unwatching):
    """Refuses what may overspend in its very next step; where that is everything, all but the least harmful."""

    def __init__(self, mdp: MDP, budget: int) -> None:
        self.mdp, self.budget = mdp, check_budget(budget)
        self.layers = self.budget + 2
        worst = np.maximum.reduceat(mdp.damage, mdp.outcome_ptr[:-1].astype(np.int64)).astype(np.int64)
        self._table = _fallback(mdp, worst, _layered(worst, self.budget))

    def table(self) -> Bools:
        """What the damages of the next step allow."""
        return self._table

    def policy(self, probability: Floats) -> Policy:
        """On the remaining budget, and beyond it."""
        return Policy(self.mdp, probability=probability, budget=self.budget)


@final
class Shielded:
    """Allows what a shield allows: an exact one, a learned one, or one that goes on learning.

    An exact shield's policy says nothing where nothing is safe.  Any other shield may be wrong, so that what its
    policy does then must be told: the choice that needs least.
    """

    def __init__(self, mdp: MDP, budget: int, shield: Shield | OnlineShield | None) -> None:
        self.mdp, self.budget = mdp, check_budget(budget)
        self.layers = self.budget + 2
        given = Shield(minimal_budget(mdp)) if shield is None else shield
        if not isinstance(given, (Shield, OnlineShield)):
            raise ArgumentError(f"shield must be a Shield, an OnlineShield or None; got {type(given).__name__}")
        _check_space(mdp, given.mdp if isinstance(given, Shield) else given.source.blank)
        self.shield = given
        self.watches = isinstance(given, OnlineShield)
        self.exact = isinstance(given, Shield) and given.mdp == mdp
        if isinstance(given, Shield):
            require_budget(given.minimal, budget)
        self._clock = 0

    def table(self) -> Bools:
        """What is allowed now."""
        return _layered(self._needs(), self.budget)

    def _needs(self) -> Ints:
        if isinstance(self.shield, OnlineShield):
            for state in self.mdp.initial_states.tolist():
                self.shield.allowed(state, self.budget)  # raises NoSafeAction where it knows nothing safe
            return self.shield.of_choice
        return self.shield.minimal.of_choice[: self.mdp.num_choices]

    def watch(self, outcome: int, remaining: int, clock: int) -> None:
        """Let a shield that learns see what happened."""
        if isinstance(self.shield, OnlineShield):
            self.shield.ledger.steps += clock - self._clock - 1  # those without a surprise
            self._clock, place = clock, self._place(outcome)
            self.shield.watch(*place, reward=float(self.mdp.reward[outcome]), remaining=remaining)

    def finish(self, seen: npt.NDArray[np.int64], clock: int) -> None:
        """Let a shield that learns count what it has seen."""
        if isinstance(self.shield, OnlineShield):
            self.shield.ledger.steps += clock - self._clock
            for outcome in np.flatnonzero(seen > 1).tolist():
                more = int(seen[outcome]) - 1
                self.shield.repeat(*self._place(outcome), times=more, reward=float(self.mdp.reward[outcome]))

    def _place(self, outcome: int) -> tuple[int, int, int, int]:
        """State, action, next state and damage of an outcome."""
        mdp = self.mdp
        choice = int(np.searchsorted(mdp.outcome_ptr, outcome, side="right")) - 1
        state = int(np.searchsorted(mdp.choice_ptr, choice, side="right")) - 1
        return state, int(mdp.choice_action[choice]), int(mdp.successor[outcome]), int(mdp.damage[outcome])

    def completed(self, allowed: Bools) -> Bools:
        """What the deployed policy may do."""
        return allowed if self.exact else _fallback(self.mdp, self._needs(), allowed)

    def policy(self, probability: Floats) -> Policy:
        """On the remaining budget; of an exact shield nothing is said beyond it."""
        return Policy(self.mdp, probability=probability[:-1] if self.exact else probability, budget=self.budget)


# ---------------------------------------------------------------------- pieces


def _layered(needs: npt.NDArray[Any], budget: int) -> Bools:
    """What may be done with 0 … budget left, and nothing once overspent."""
    entries = (budget + 2) * needs.size
    require(3 * entries, f"a learner's table of what is allowed ({entries:,} entries)", "Train with a smaller budget.")
    remaining = np.append(np.arange(budget + 1), -1)
    allowed: Bools = (needs[None, :] <= remaining[:, None]) & (needs < INFINITE)
    return allowed


def _fallback(mdp: MDP, needs: npt.NDArray[Any], allowed: Bools) -> Bools:
    """The same table, with the choices that need least wherever a state has none."""
    starts, owner = mdp.choice_ptr[:-1].astype(np.int64), mdp.choice_states()
    least = needs == np.minimum.reduceat(needs, starts)[owner]
    none = ~np.logical_or.reduceat(allowed, starts, axis=1)[:, owner]
    completed: Bools = allowed | (none & least)
    return completed


def _check_space(mdp: MDP, other: MDP) -> None:
    """Raise ModelMismatch unless the first states and choices of ``other`` are those of ``mdp``."""
    states, choices = mdp.num_states, mdp.num_choices
    same = (
        other.num_states >= states
        and other.num_choices >= choices
        and np.array_equal(other.choice_ptr[: states + 1], mdp.choice_ptr)
        and np.array_equal(other.choice_action[:choices], mdp.choice_action)
    )
    if not same:
        raise ModelMismatch(
            f"the shield belongs to other states and actions ({other.num_states} states, {other.num_choices} choices) "
            f"than the model ({states} states, {choices} choices)."
        )
