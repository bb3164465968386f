"""The choices that a learner may play: all, those that are harmless one step ahead, or those that a shield allows.

An allowance is a table [layers, num_choices].  For a learner that ignores the budget it has one layer; for others, one
per remaining budget 0 … budget and a last one for overspent budgets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget
from almostsure.budget.solve import minimal_budget
from almostsure.errors import ArgumentError, ModelMismatch
from almostsure.learn.learners.one_step import allowed_by, next_damages, with_fallback
from almostsure.learn.learners.world import Playground
from almostsure.learn.online import OnlineShield
from almostsure.model.arrays import Bools, Floats, Ints
from almostsure.model.mdp import MDP
from almostsure.model.naming import Logged
from almostsure.model.space import Space
from almostsure.policy.policy import Policy
from almostsure.shield.checks import require_budget
from almostsure.shield.shield import Shield


class Transition(NamedTuple):
    """A transition."""

    choice: int
    next_state: int
    reward: float
    damage: int


class Allowance(ABC):
    """The allowed choices, which may depend on the outcomes seen so far."""

    watches: bool = False  # whether it must see every new outcome at once

    def __init__(self, ground: Playground, budget: int, *, sees_budget: bool = True) -> None:
        self.mdp, self.budget = ground.mdp, check_budget(budget)
        self.layers = self.budget + 2 if sees_budget else 1

    @abstractmethod
    def table(self) -> Bools:
        """The choices that are allowed now, [layers, num_choices]."""

    def policy(self, probability: Floats) -> Policy:
        """The policy with these probabilities, [layers, num_choices]."""
        return Policy(self.mdp, probability=probability, budget=None if self.layers == 1 else self.budget)

    def watch(self, step: Transition, remaining: int, clock: int) -> None:  # noqa: B027
        """Learn from a new outcome, seen in step number ``clock`` with ``remaining`` left before it."""

    def repeat(self, step: Transition, times: int) -> None:  # noqa: B027
        """Count an outcome that was seen ``times`` times more."""

    def finish(self, clock: int) -> None:  # noqa: B027
        """End training after ``clock`` steps."""

    def completed(self, allowed: Bools) -> Bools:
        """The choices of a deployed policy, [layers, num_choices]; subclasses may add some where none is allowed."""
        return allowed


@final
class Everything(Allowance):
    """All choices; if ``sees_budget`` is false, for a learner that ignores the budget."""

    def table(self) -> Bools:
        """All choices."""
        return np.ones((self.layers, self.mdp.num_choices), np.bool_)


@final
class OneStep(Allowance):
    """The one-step mask (:mod:`almostsure.learn.learners.one_step`): of the model, or of the damages seen so far."""

    def __init__(self, ground: Playground, budget: int) -> None:
        super().__init__(ground, budget)
        self.watches = ground.model is None
        self._needs: Ints = next_damages(ground.mdp)

    def table(self) -> Bools:
        """The choices that the damages of the next step allow."""
        return with_fallback(self.mdp, self._needs, allowed_by(self._needs, self.budget))

    def watch(self, step: Transition, remaining: int, clock: int) -> None:
        """Learn the damage that a choice can do."""
        self._needs[step.choice] = max(self._needs[step.choice], step.damage)


@final
class Shielded(Allowance):
    """The choices that a shield allows: an exact one, a learned one, or an OnlineShield.

    By default it is the exact shield, or an optimistic :class:`almostsure.OnlineShield` if there is no model.  The
    policy inside an exact shield is undefined where no choice is allowed.  Any other shield may be wrong, so the policy
    plays the choices that need least there.

    Under a shield other than an OnlineShield only outcomes of its model may happen.  This is so if its model is the one
    that is played.  The shield of another model is refused, unless that model was learned, or there is no model to
    compare it with.  Then each outcome is checked when it happens for the first time, and an impossible one is an
    error.  A possible outcome of an allowed choice never takes more than is left.
    """

    def __init__(self, ground: Playground, budget: int, shield: Shield | OnlineShield | None) -> None:
        super().__init__(ground, budget)
        if shield is None:
            model = ground.model
            shield = OnlineShield(ground.mdp, unknown="allow") if model is None else Shield(minimal_budget(model))
        if not isinstance(shield, (Shield, OnlineShield)):
            raise ArgumentError(f"shield must be a Shield, an OnlineShield or None; got {type(shield).__name__}")
        self.shield: Shield | OnlineShield = shield
        self.exact = isinstance(shield, Shield) and shield.mdp == ground.model
        self.watches = not self.exact
        self._is_terminal = ground.is_terminal
        self._theirs = _matching(self.mdp, shield.space, self._is_terminal)
        log, other = shield.space.encode, "" if self.exact else shield.space.otherwise_named(self.mdp)
        if isinstance(log, Logged) and log.names_actions and self.mdp.action_names is None:
            other = "its actions have the names of a log, in alphabetical order"
        if other:
            raise ModelMismatch(f"the shield numbers states and actions differently from what is trained on: {other}.")
        if isinstance(shield, Shield):
            if ground.model is not None and not self.exact:
                _check_learned(shield, ground.model)
            require_budget(shield.minimal, budget)
        self._clock = 0
        self._table: Bools | None = None  # of a shield that never changes

    def table(self) -> Bools:
        """The choices that are allowed now."""
        if self._table is not None:
            return self._table
        table = allowed_by(self._needs(), self.budget)
        if isinstance(self.shield, Shield):
            self._table = table
        return table

    def _needs(self) -> Ints:
        for state in self.mdp.initial_states[~self._is_terminal[self.mdp.initial_states]].tolist():
            self.shield.allowed(state, self.budget)  # raises NoSafeAction if it allows no action there
        needs = self.shield.of_choice if isinstance(self.shield, OnlineShield) else self.shield.minimal.of_choice
        return np.where(self._theirs >= 0, needs[self._theirs], 0)

    def watch(self, step: Transition, remaining: int, clock: int) -> None:
        """Let an OnlineShield learn; any other raises ModelMismatch if the outcome is impossible in its model."""
        if isinstance(self.shield, OnlineShield):
            self.shield.ledger.steps += clock - self._clock - 1  # those without a surprise
            self._clock = clock
            self.shield.watch(*self._place(step), reward=step.reward, remaining=remaining)
        else:
            state, *happened = self._place(step)
            self.shield.after((state, remaining), *happened)

    def repeat(self, step: Transition, times: int) -> None:
        """Let an OnlineShield count an outcome that it has seen."""
        if isinstance(self.shield, OnlineShield):
            self.shield.repeat(*self._place(step), times=times, reward=step.reward)

    def finish(self, clock: int) -> None:
        """Let an OnlineShield count the steps."""
        if isinstance(self.shield, OnlineShield):
            self.shield.ledger.steps += clock - self._clock

    def _place(self, step: Transition) -> tuple[int, int, int, int]:
        """State, action, next state and damage, in the numbers of the shield."""
        space, choice = self.shield.space, int(self._theirs[step.choice])
        next_state = step.next_state if space.end is None or not self._is_terminal[step.next_state] else int(space.end)
        return space.choice_state(choice), int(space.choice_action[choice]), next_state, step.damage

    def completed(self, allowed: Bools) -> Bools:
        """The choices of the deployed policy."""
        return allowed if self.exact else with_fallback(self.mdp, self._needs(), allowed)

    def policy(self, probability: Floats) -> Policy:
        """The policy with these probabilities; inside an exact shield without the layer for overspent budgets."""
        return super().policy(probability[:-1] if self.exact else probability)


def _check_learned(shield: Shield, mdp: MDP) -> None:
    """Refuse the shield of another model, unless that model was learned."""
    if not shield.mdp.origin.counted:
        raise ModelMismatch(
            f"the shield belongs to another model ({shield.mdp.fingerprint[:12]}, {shield.mdp.num_states} states) than "
            f"the one that is trained on ({mdp.fingerprint[:12]}, {mdp.num_states} states). Build it for this one: "
            "Shield(minimal_budget(mdp)), or leave it out."
        )


def _matching(mdp: MDP, space: Space, is_terminal: Bools) -> npt.NDArray[np.int64]:
    """For each choice of the model, the shield's choice of the same state and action; −1 for those of ended states.

    A learned shield has the states that can be observed, the end and ``unknown``, so ended states of the model may be
    other states of the shield, unless the model is itself a learned one with the same end and ``unknown``.
    """
    owner = mdp.choice_states()
    at = space.find_choices(owner, mdp.choice_action)
    has, over = at >= 0, is_terminal[owner]
    alike = (mdp.end, mdp.unknown) == (space.end, space.unknown)
    observed = has if alike else owner < space.num_observed
    theirs: npt.NDArray[np.int64] = np.where(over & ~(has & observed), -1, at)
    lacks = np.flatnonzero(~(over | (has & observed)))
    if lacks.size:
        strange = f"it does not have {mdp.describe_choice(int(lacks[0]))}"
    elif (more := _not_in(space, theirs, is_terminal)).size:
        strange = f"the model does not have {space.describe_choice(int(more[0]))}"
    else:
        return theirs
    raise ModelMismatch(
        f"the shield belongs to other states and actions ({space.num_states} states, {space.num_choices} choices) "
        f"than the model ({mdp.num_states} states, {mdp.num_choices} choices): {strange}."
    )


def _not_in(space: Space, theirs: npt.NDArray[np.int64], is_terminal: Bools) -> npt.NDArray[np.int64]:
    """The shield's choices that the model does not have, except in ended states: its budgets may depend on them."""
    owner = space.choice_states()
    extra = owner < space.num_observed
    extra[theirs[theirs >= 0]] = False
    extra[np.isin(owner, np.flatnonzero(is_terminal))] = False
    return np.flatnonzero(extra)
