"""What a shield knows about an environment's transitions: masks, damages, and what cannot be.

The environment says which state it reached and perhaps, in ``info["damage"]``, which damage that did.  The model
says what is possible.  The two must agree:

- a transition that the model does not have means that the model is of another environment, or stale: an error;
- where the environment does not say the damage, the model does, if all of its outcomes from s by a to s' have the
  same one; otherwise somebody must say it, and :class:`almostsure.gym.DamageTracker` is how;
- an environment that ends its episode in a state in which the model goes on (as Taxi does) went to the
  model's terminal state instead.

An :class:`almostsure.OnlineShield` has no model: whatever happens is possible, and it learns from it.

Everything that was asked once is kept, since a step of an environment should not wait for its shield.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn, final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget, whole
from almostsure.errors import ArgumentError, Infeasible, ModelError, ModelMismatch, NoSafeAction
from almostsure.learn.online import OnlineShield
from almostsure.model.mdp import MDP
from almostsure.policy.policy import Policy
from almostsure.shield.checks import require_budget
from almostsure.shield.shield import Shield

MOST_DAMAGE: Final = 255

_SEEN: WeakKeyDictionary[OnlineShield, tuple[set[int], set[int]]] = WeakKeyDictionary()


class Row(NamedTuple):
    """What may be done in one state with one remaining budget."""

    allowed: frozenset[int]
    mask: npt.NDArray[np.int8]  # [num_actions], read-only


@final
class Overseer:
    """Masks and damages for one environment after another; it carries no episode of its own."""

    def __init__(self, shield: Shield | OnlineShield, budget: int) -> None:
        if isinstance(shield, Shield):
            self.mdp: MDP = shield.mdp
            self.policies_of = self.mdp  # the model that policies are for
            self.online: OnlineShield | None = None
            self.budget = require_budget(shield.minimal, budget)
        elif isinstance(shield, OnlineShield):
            self.mdp, self.online = shield.source.blank, shield
            self.policies_of = shield.source.model or self.mdp
            self.budget = check_budget(budget)
            _require_start(shield, self.budget)
        else:
            raise ArgumentError(
                f"shield must be a Shield or an OnlineShield; got {type(shield).__name__}. "
                "Make one with Shield(minimal_budget(mdp))."
            )
        self.shield = shield
        self.num_states, self.num_actions = self.mdp.num_states, self.mdp.num_actions
        self._rows: dict[tuple[int, int], Row] = {}
        self._damages: dict[tuple[int, int, int], dict[Any, int]] = {}  # (s, a, s') → what info may say → damage
        # States in which an episode was seen to end, and in which one went on, by all who share an online shield.
        nothing: tuple[set[int], set[int]] = set(), set()
        self._ended, self._passed = nothing if self.online is None else _SEEN.setdefault(self.online, nothing)
        self._is_terminal = None if self.online else self.mdp.is_terminal()
        self.has_extra_end = False  # whether the last state is none of the environment's, but stands for the end

    # ------------------------------------------------------------------ masks

    def row(self, state: int, remaining: int) -> Row:
        """What is allowed; raises NoSafeAction where nothing is."""
        row = self._rows.get((state, remaining))
        if row is None:
            row = _row(self.shield.allowed(state, remaining), self.num_actions)
            if self.online is None:
                self._rows[state, remaining] = row
        return row

    def any_row(self, state: int) -> Row:
        """All actions of a state: for the end of an episode that nothing safe can follow."""
        return _row(self.mdp.actions(state), self.num_actions)

    def best(self, state: int, remaining: int, allowed: frozenset[int], policy: Policy | None) -> int:
        """What to play instead of what is not allowed: the policy's likeliest action, else the most careful one."""
        if policy is not None:
            with contextlib.suppress(NoSafeAction):
                action = int(np.argmax(policy.probabilities(state, remaining)))
                if action in allowed:
                    return action
        choices = self.mdp.choices(state)
        needs = dict(zip(self.mdp.actions(state).tolist(), self.of_choice()[choices.start : choices.stop], strict=True))
        return min(sorted(allowed), key=lambda action: int(needs[action]))

    def of_choice(self) -> npt.NDArray[Any]:
        """What every choice needs, [num_choices]."""
        return self.shield.minimal.of_choice if isinstance(self.shield, Shield) else self.shield.of_choice

    # ------------------------------------------------------------------ what happened

    def after(self, state: int, action: int, seen: int) -> int:
        """The model's state after a step that ended the episode, where the environment says that it is ``seen``."""
        if self._is_terminal is None:
            return self.num_states - 1 if self.has_extra_end else seen
        if self._is_terminal[seen]:
            return seen
        choice = self.mdp.choice(state, action)
        ends = self.mdp.successor[self.mdp.outcome_ptr[choice] : self.mdp.outcome_ptr[choice + 1]]
        ends = np.unique(ends[self._is_terminal[ends]])
        if self.has_extra_end and ends.size and ends[-1] == self.num_states - 1:
            return self.num_states - 1
        if ends.size > 1:
            names = ", ".join(self.mdp.describe_state(end) for end in ends.tolist())
            raise ModelError(
                f"the environment ended its episode in {self.mdp.describe_state(seen)} after "
                f"{self.mdp.describe_choice(choice)}, and the model has several ends there: {names}. Say which one it "
                "is: pass state_of.",
                state=state, action=action,
            )  # fmt: skip
        if ends.size == 0:
            raise ModelMismatch(
                f"the environment ended its episode in {self.mdp.describe_state(seen)} after "
                f"{self.mdp.describe_choice(choice)}, where the model never ends. The model is stale, or of another "
                "environment: build it anew, or use an OnlineShield, which learns what happens."
            )
        return int(ends[0])

    def damage(self, state: int, action: int, after: int, said: Any) -> int:
        """The damage of a transition; ``said`` is what the environment says, or None."""
        try:
            return self._damages[state, action, after][said]
        except (KeyError, TypeError):
            return self._first_damage(state, action, after, said)

    def _first_damage(self, state: int, action: int, after: int, said: Any) -> int:
        if self.online is not None:
            if said is None:
                raise ModelError(
                    "an OnlineShield must be told the damage of every step, in info['damage']; the environment did not "
                    f"say it at {self._place(state, action)}. Wrap the environment in DamageTracker(env, damage).",
                    state=state, action=action,
                )  # fmt: skip
            return self._checked(said, state, action)
        possible = {outcome.damage for outcome in self.mdp.outcomes(state, action) if outcome.next_state == after}
        number = self._known(possible, state, action, after) if said is None else self._checked(said, state, action)
        if number not in possible:
            self._impossible(state, action, after, number)
        if said is None or isinstance(said, (int, np.integer)):
            self._damages.setdefault((state, action, after), {})[said] = number
        return number

    def _known(self, possible: set[int], state: int, action: int, after: int) -> int:
        if not possible:
            self._impossible(state, action, after, None)
        if len(possible) > 1:
            listed = ", ".join(map(str, sorted(possible)))
            raise ModelError(
                f"the damage of a step must be known; {self._place(state, action)} to "
                f"{self.mdp.describe_state(after)} may do {listed}, and the environment's info has no 'damage'. "
                "Wrap the environment in DamageTracker(env, damage).",
                state=state, action=action,
            )  # fmt: skip
        return next(iter(possible))

    def _checked(self, said: Any, state: int, action: int) -> int:
        try:
            number = whole("damage", said)
        except ArgumentError:
            number = -1
        if not 0 <= number <= MOST_DAMAGE:
            raise ModelError(
                f"info['damage'] must be an integer 0 … {MOST_DAMAGE}; got {said!r} at {self._place(state, action)}. "
                "Scale or round it in DamageTracker(env, damage).",
                state=state, action=action,
            )  # fmt: skip
        return number

    def _place(self, state: int, action: int) -> str:
        return f"{self.mdp.describe_state(state)}, action {self.mdp.action_name(action)}"

    def _impossible(self, state: int, action: int, after: int, damage: int | None) -> NoReturn:
        hurt = "" if damage is None else f" with damage {damage}"
        raise ModelMismatch(
            f"the environment went from {self._place(state, action)} to {self.mdp.describe_state(after)}{hurt}, which "
            "the shield's model says is impossible. The model is stale, or of another environment: build it anew, or "
            "use an OnlineShield, which learns what happens."
        )

    # ------------------------------------------------------------------ learning

    def learn(self, state: int, action: int, after: int, damage: int, reward: float, remaining: int) -> None:
        """Let an online shield watch a transition."""
        assert self.online is not None
        if after != state or damage:  # to stay there unhurt is what an end does too
            if state in self._ended:
                self._both(state)
            self._passed.add(state)
        self.online.watch(state, action, after, damage, reward=reward, remaining=remaining)

    def learn_end(self, state: int) -> None:
        """Tell an online shield that nothing happens any more in a state in which an episode ended."""
        assert self.online is not None
        if state in self._ended:
            return
        if state in self._passed:
            self._both(state)
        self._ended.add(state)
        for action in self.mdp.actions(state).tolist():
            for _ in range(self.online.needed):
                self.online.watch(state, action, state, 0)

    def _both(self, state: int) -> NoReturn:
        raise ModelError(
            f"one episode ended in {self.mdp.describe_state(state)}, and another went on from there. Give the "
            "OnlineShield a space with one more state, the last, for the end.",
            state=state,
        )


def _row(allowed: npt.NDArray[Any] | Sequence[int], num_actions: int) -> Row:
    mask = np.zeros(num_actions, np.int8)
    mask[allowed] = 1
    mask.flags.writeable = False
    return Row(frozenset(np.flatnonzero(mask).tolist()), mask)


def _require_start(shield: OnlineShield, budget: int) -> None:
    starts = shield.source.blank.initial_states
    try:
        for state in starts.tolist():
            shield.allowed(state, budget)
    except NoSafeAction as error:
        raise Infeasible(f"a budget of {budget} is not enough at the start, as far as is known: {error}") from None
