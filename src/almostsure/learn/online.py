"""``OnlineShield``: a shield that learns while an agent runs.

It watches transitions.  An outcome that was never seen before is a *surprise*: it can only raise k, which is done
from the present values (:class:`almostsure.budget.GrowingBudget`).  Between surprises nothing changes, and masks are
served from a table.

What it promises depends on what it does about choices that it does not know.

``unknown="refuse"``, the default, fails closed.  A choice is known once it was watched ``needed`` times, and only
known ones are allowed.  If no outcome is rarer than μ, every choice is complete when it becomes known, but for a
probability of |S||A| m (1 − μ)^needed with m = min(|S| D, ⌊1/μ⌋) (:mod:`almostsure.learn.bounds`; in which order
choices are watched does not matter).  If all are complete, the shield's k is at least k* everywhere, and it never
overspends.  It can only learn from what others do, or what was known before it began: demonstrations, logs, a
simulator.

``unknown="allow"`` must be asked for by name.  It thinks the best of what it does not know, and is proved wrong by
damage: **every violation reveals an outcome that was never seen before, and that hurts.  So there are at most as
many violations as the model has damaging outcomes**, however long the agent runs.

*Proof.*  Say that the agent plays a choice that the shield allows with K left, and takes damage d > K.  Had this
outcome (s', d) been seen before, k(s, a) would be at least d + v(s') > K, and the choice refused.  So it is new;
and d > K ≥ 0.  ∎

In the same way, an allowed choice leads to a state without a safe action only by a surprise.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from os import PathLike
from typing import Any, NoReturn, Self, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget, whole, whole_array
from almostsure.budget.grow import GrowingBudget
from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.errors import ArgumentError, CorruptFile, ModelError, ModelMismatch, NoSafeAction, UnknownName
from almostsure.files import load_tensors, save_tensors
from almostsure.learn.bounds import Confidence, count, delta_bought, unit
from almostsure.learn.kernel import Kernel, Unknown, check_unknown, kernel_of, new_tally
from almostsure.learn.ledger import Ledger, Surprise, Violation
from almostsure.learn.parallel import uninterrupted
from almostsure.learn.sampler import Source, as_source
from almostsure.learn.tally import DAMAGES
from almostsure.model.mdp import Bools, Ints
from almostsure.model.space import Space
from almostsure.model.validate import MAX_DAMAGE
from almostsure.shield.protocol import Run
from almostsure.shield.shield import Shield
from almostsure.shield.table import SparseTable, Table, table_of

KIND = "learning shield"
ARRAYS = ("key", "count", "reward", "surprises", "violations", "sums")


@final
class OnlineShield:
    """Which actions keep the remaining budget, as far as is known by now.

    Parameters
    ----------
    space
        Which states and actions there are: a model, a :class:`almostsure.learn.Sampler`, the name of an example or
        file, or a kernel.  Nothing else is taken from it; in particular not which outcomes a model has.
    unknown
        What to do about choices that are not known: ``"refuse"`` them, or ``"allow"`` them until they are known to
        be unsafe.  See the module's docstring for what each promises.
    needed
        How often a choice must have been watched to be known; with ``"refuse"`` only.  See
        :func:`almostsure.samples_needed`.
    known
        What was learned before: a kernel of the same states and actions.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.learn import OnlineShield
    >>> shield = OnlineShield(asure.example("paper"), unknown="allow")
    >>> shield.allowed("circle", 0)
    array([0, 1])
    >>> shield.watch("circle", "left", "circle", 1, remaining=0)  # it was wrong, and learns from it
    True
    >>> shield.allowed("circle", 0), shield.allowed("circle", 1)
    (array([1]), array([0, 1]))
    >>> print(shield.ledger)
    1 steps, 1 surprises (0 raised a budget), 1 violations
      step 1: state 0, action 0 took 1 with 0 left (an outcome never seen before)
    """

    def __init__(
        self, space: Any, *, unknown: Unknown = "refuse", needed: int = 1, known: Kernel | None = None
    ) -> None:
        check_unknown(unknown)
        self.source: Source = space.source if isinstance(space, Kernel) else as_source(space)
        self.unknown: Unknown = unknown
        self.needed = count("needed", needed)
        self.ledger = Ledger()
        self._blank = self.source.blank
        self._times: dict[int, int] = {}  # by outcome: how often it was seen
        self._rewards: dict[int, float] = {}  # by outcome: their sum
        self._samples: npt.NDArray[np.int64] = np.zeros(self._blank.num_choices, np.int64)
        self._ended: set[int] = set()  # states in which an episode was seen to end …
        self._passed: set[int] = set()  # … and in which one went on
        self._index: dict[tuple[Any, Any], int] = {}  # choices by (state, action)
        if known is not None:
            self._learn(known)
        self._growing: GrowingBudget | None = None  # None: a choice became known, so budgets may have fallen
        self._table: Table | None = None
        self._asked = 0  # look-ups since the last change

    def _learn(self, known: Kernel) -> None:
        if not isinstance(known, Kernel):
            raise ArgumentError(f"known must be a kernel; got {type(known).__name__}")
        if known.blank != self._blank:
            raise ModelMismatch("the kernel belongs to other states and actions than those given.")
        keys = (known.choice * self._blank.num_states + known.next_state) * DAMAGES + known.damage
        self._times = dict(zip(keys.tolist(), known.count.tolist(), strict=True))
        self._rewards = dict(zip(keys.tolist(), (known.reward * known.count).tolist(), strict=True))
        self._samples += known.samples

    # ------------------------------------------------------------------ runs

    carries = ("remaining",)

    @property
    def space(self) -> Space:
        """The states and actions that there are."""
        return self._blank if self.source.model is None else self.source.model.space

    def begin(self, state: Any, budget: int) -> Run:
        """The run (state, remaining) that begins in a state with a budget; for an array of states, two arrays."""
        remaining = check_budget(budget)
        if np.ndim(state) == 0:
            self.allowed(state, remaining)
            return self._blank.state(state), remaining
        states = whole_array("states", state).astype(np.int64)
        self.mask(states, remaining)
        return states, np.full(states.shape, remaining, np.int64)

    def after(self, run: Run, action: Any, next_state: Any, damage: Any = None, *, reward: float = 0.0) -> Run:
        """The run after ``action`` led to ``next_state``, which is watched."""
        state, remaining = run
        damage = int(damage) if isinstance(damage, (bool, np.bool_)) else damage
        self.watch(state, action, next_state, damage, reward=reward, remaining=remaining)
        return self._blank.state(next_state), int(remaining) - int(damage)

    def end(self, state: int | str) -> None:
        """Take in that an episode ended in a state: nothing happens there any more."""
        s = self._blank.state(state)
        if s in self._ended or s == self._blank.end:
            return
        if s in self._passed:
            self._both(s)
        self._ended.add(s)
        for action in self._blank.actions(s).tolist():
            for _ in range(self.needed):
                self.watch(s, action, s, 0)

    def _both(self, state: int) -> NoReturn:
        raise ModelError(
            f"one episode ended in {self._blank.describe_state(state)}, and another went on from there. Give the "
            "OnlineShield a space with an end.",
            state=state,
        )

    # ------------------------------------------------------------------ watching

    def watch(
        self,
        state: int | str,
        action: int | str,
        next_state: int | str,
        damage: int,
        *,
        reward: float = 0.0,
        remaining: int | None = None,
    ) -> bool:
        """Take in one transition; returns whether it was a surprise.

        Parameters
        ----------
        state, action, next_state, damage, reward
            What happened.
        remaining
            What was left of the budget before it, if violations are to be noted.
        """
        choice, target = self._choice(state, action), self._blank.state(next_state)
        harm = self._damage(damage, choice)
        gain = self._reward(reward, choice)
        left = None if remaining is None else whole("remaining", remaining)
        was_allowed = left is None or bool(self._now().of_choice[choice] <= min(left, INFINITE - 1))
        if self.unknown == "allow":
            self._now()  # values to raise from
        source = self._place(choice)[0]
        if target != source or harm:  # to stay there unhurt is what an end does too
            if source in self._ended:
                self._both(source)
            self._passed.add(source)
        key = (choice * self._blank.num_states + target) * DAMAGES + harm
        is_new = key not in self._times
        self.ledger.steps += 1
        self._samples[choice] += 1
        with uninterrupted() if is_new else contextlib.nullcontext():
            self._times[key] = self._times.get(key, 0) + 1
            self._rewards[key] = self._rewards.get(key, 0.0) + gain
            if is_new:
                self._surprise(choice, target, harm)
            elif self._samples[choice] == self.needed:
                self._now_known()
        if left is not None and harm > left >= 0:
            where = self.ledger.steps, *self._place(choice)
            self.ledger.note(Violation(*where, target, harm, left, was_allowed, is_new))
        return is_new

    def repeat(
        self,
        state: int | str,
        action: int | str,
        next_state: int | str,
        damage: int,
        *,
        times: int,
        reward: float = 0.0,
    ) -> None:
        """Count ``times`` more of a transition that was watched before, for whoever runs many steps between surprises.

        It changes the counts only: add the steps to ``ledger.steps`` yourself.

        Raises
        ------
        ModelError
            If the transition was never watched: that would be a surprise, and must be told by :meth:`watch`.
        """
        choice, target = self._choice(state, action), self._blank.state(next_state)
        key = (choice * self._blank.num_states + target) * DAMAGES + self._damage(damage, choice)
        if key not in self._times:
            where = self._blank.describe_choice(choice)
            rule = f"an outcome of {where} must have been watched before it is repeated"
            raise ModelError(f"{rule}; got a new one. Watch it.", choice=choice)
        more, before, gain = count("times", times), int(self._samples[choice]), self._reward(reward, choice)
        self._times[key] += more
        self._rewards[key] += more * gain
        self._samples[choice] += more
        if before < self.needed <= before + more:
            self._now_known()

    def _surprise(self, choice: int, target: int, harm: int) -> None:
        state, action = self._place(choice)
        raised = self._raise(state, action, target, harm, choice)
        self.ledger.note(Surprise(self.ledger.steps, state, action, target, harm, raised))

    def _raise(self, state: int, action: int, target: int, harm: int, choice: int) -> int:
        """Raise what must be raised; returns how many states it is."""
        seen = int(self._samples[choice])
        if self.unknown == "refuse" and seen <= self.needed:
            if seen == self.needed:
                self._now_known()
            return 0  # not known yet, or not before now: refused until this moment
        if self._growing is None:
            return 0  # solved anew when somebody asks
        raised = self._growing.add(state, action, target, harm)
        self._table, self._asked = None, 0
        return len(raised)

    def _now_known(self) -> None:
        if self.unknown == "refuse":
            self._growing, self._table, self._asked = None, None, 0

    def _place(self, choice: int) -> tuple[int, int]:
        return int(self._blank.successor[choice]), int(self._blank.choice_action[choice])  # successor: of a self-loop

    def _choice(self, state: int | str, action: int | str) -> int:
        try:
            return self._index[state, action]
        except (KeyError, TypeError):
            choice = self._blank.choice(state, action)
            self._index[state, action] = choice
            return choice

    def _damage(self, damage: object, choice: int) -> int:
        try:
            harm = whole("damage", damage)
        except ArgumentError:
            harm = -1
        if not 0 <= harm <= MAX_DAMAGE:
            where = self._blank.describe_choice(choice)
            raise ModelError(f"damage must be an integer 0 … {MAX_DAMAGE}; got {damage!r} at {where}", choice=choice)
        return harm

    def _reward(self, reward: object, choice: int) -> float:
        try:
            number = float(reward)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            where = self._blank.describe_choice(choice)
            raise ModelError(f"reward must be a finite number; got {reward!r} at {where}", choice=choice)
        return number

    # ------------------------------------------------------------------ what is allowed

    def allowed(self, state: int | str, remaining: int) -> npt.NDArray[np.int64]:
        """The ids of the actions that are safe at a state as far as is known, ascending; there is at least one.

        Raises
        ------
        NoSafeAction
            If there is none, or if ``remaining`` is negative.
        """
        s, left = self._blank.state(state), whole("remaining", remaining)
        choices = self._blank.choices(s)
        safe = self._now().of_choice[choices.start : choices.stop] <= min(left, INFINITE - 1)
        if left < 0 or not safe.any():
            self._refuse(s, left)
        return self._blank.choice_action[choices.start : choices.stop][safe].astype(np.int64)

    def mask(self, states: npt.ArrayLike, remaining: npt.ArrayLike) -> Bools:
        """Which actions are safe as far as is known, for many states at once: [n, num_actions].  No row is empty.

        Raises
        ------
        NoSafeAction
            If any row would be empty.
        """
        s, left = whole_array("states", states), whole_array("remaining", remaining)
        try:
            s, left = np.broadcast_arrays(s, left)
        except ValueError:
            shapes = f"{list(s.shape)} and {list(left.shape)}"
            raise ArgumentError(f"states and remaining must have shapes that fit together; got {shapes}") from None
        shape, s, left = s.shape, s.ravel().astype(np.int64), left.ravel().astype(np.int64)
        if s.size and not (s.min() >= 0 and s.max() < self._blank.num_states):
            bad = s[(s < 0) | (s >= self._blank.num_states)]
            raise UnknownName("state", int(bad[0]), (), f"States are 0 … {self._blank.num_states - 1}.")
        growing = self._now()
        stuck = (growing.of_state[s] > np.minimum(left, INFINITE - 1)) | (left < 0)
        if stuck.any():
            at = int(np.argmax(stuck))
            self._refuse(int(s[at]), int(left[at]))
        table = self._current_table(growing, s.size)
        return table.allows(s, np.minimum(left, table.highest)).reshape(*shape, self._blank.num_actions)

    def _current_table(self, growing: GrowingBudget, asked: int) -> Table:
        """A table of the present values, made anew only when it pays: there may be many surprises."""
        self._asked += asked
        if self._table is None:
            if self._asked < self._blank.num_choices:
                return SparseTable(self._blank, growing.of_choice)
            self._table = table_of(self._blank, growing.of_choice[: self._blank.num_choices])
        return self._table

    def _now(self) -> GrowingBudget:
        if self._growing is None:
            self._growing = GrowingBudget(minimal_budget(self.kernel.to_mdp(self.unknown, known=self._known())))
        return self._growing

    def _known(self) -> Bools:
        """Which choices are known, [num_choices]."""
        return self._samples >= (self.needed if self.unknown == "refuse" else 1)

    def _refuse(self, state: int, remaining: int) -> NoReturn:
        needs = int(self._now().of_state[state])
        why = f"it needs {needs}" if needs < INFINITE else "no finite budget suffices there"
        if self.unknown == "refuse" and not all(self._known()[c] for c in self._blank.choices(state)):
            why += ", as far as is known; some of its actions are unknown, and refused"
        if remaining < 0:
            why = f"the budget is overspent by {-remaining}"
        raise NoSafeAction(
            f"no action of {self._blank.describe_state(state)} is safe with {remaining} left: {why}.",
            state=state, remaining=remaining,
        )  # fmt: skip

    # ------------------------------------------------------------------ what is known

    @property
    def of_state(self) -> npt.NDArray[np.int32]:
        """What every state needs, as far as is known, [num_states]; a copy."""
        return self._now().of_state[: self._blank.num_states].copy()

    @property
    def of_choice(self) -> npt.NDArray[np.int32]:
        """What every choice needs, as far as is known, [num_choices]; a copy."""
        return self._now().of_choice[: self._blank.num_choices].copy()

    @property
    def kernel(self) -> Kernel:
        """All that was seen."""
        tally = new_tally(self.source)
        key = np.array(sorted(self._times), np.int64)
        times = np.array([self._times[k] for k in key.tolist()], np.int64)
        rewards = np.array([self._rewards[k] for k in key.tolist()], np.float64)
        samples = np.bincount(key // (tally.num_states * DAMAGES), weights=times, minlength=self._samples.size)
        tally.restore(key, times, rewards, samples.astype(np.int64), np.zeros_like(self._samples))
        return kernel_of(self.source, tally, None)

    def freeze(self) -> Shield:
        """A shield of what is known by now, that learns no more: to be handed on, saved or exported."""
        mdp = self.kernel.to_mdp(self.unknown, known=self._known())
        return Shield(minimal_budget(mdp))

    def confidence(self, mu: float) -> Confidence:
        """With which probability the shield never overspends, if no outcome is rarer than ``mu``."""
        mu = unit("mu", mu)
        caveat = self.source.caveat
        subject = "this shield never overspends"
        if self.unknown == "allow":
            caveat = f"Every violation reveals a damaging outcome that was never seen before. {caveat}".strip()
            return Confidence(mu=mu, delta=1.0, subject=subject, caveat=caveat)
        size = self._blank.num_states, self._blank.num_actions
        delta = delta_bought(self.needed, *size, mu=mu, num_damages=MAX_DAMAGE + 1)
        return Confidence(mu=mu, delta=delta, subject=subject, caveat=caveat)

    def __repr__(self) -> str:
        known = int(np.count_nonzero(self._known()))
        return (
            f"<OnlineShield: {known:,} of {self._blank.num_choices:,} choices are known; the others are "
            f"{'refused' if self.unknown == 'refuse' else 'allowed'}\n  {str(self.ledger).splitlines()[0]}>"
        )

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write all that was seen, and the ledger, to a safetensors file, atomically."""
        key = sorted(self._times)
        arrays: dict[str, npt.NDArray[Any]] = {
            "key": np.array(key, np.int64), "count": np.array([self._times[k] for k in key], np.int64),
            "reward": np.array([self._rewards[k] for k in key], np.float64), **self.ledger.to_arrays(),
        }  # fmt: skip
        strings = {"unknown": self.unknown, "needed": str(self.needed), "steps": str(self.ledger.steps)}
        save_tensors(path, kind=KIND, model=self._blank.fingerprint, arrays=arrays, strings=strings)

    @classmethod
    def load(cls, path: str | PathLike[str], space: Any) -> Self:
        """Go on where a saved shield was; ``space`` is what it was made with."""
        source = space.source if isinstance(space, Kernel) else as_source(space)
        arrays, strings = load_tensors(path, kind=KIND, model=source.blank.fingerprint)
        try:
            result = cls(source, unknown=strings["unknown"], needed=int(strings["needed"]))  # type: ignore[arg-type]
            result._restore(arrays, int(strings["steps"]))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CorruptFile(f"{path!s} does not hold an online shield of this space: {error}", path=path) from error
        return result

    def _restore(self, arrays: Mapping[str, Any], steps: int) -> None:
        if set(arrays) != set(ARRAYS):
            raise ValueError(f"it must hold {', '.join(ARRAYS)}; got {sorted(arrays)}")
        key, times, rewards = arrays["key"], arrays["count"], arrays["reward"]
        limit = self._blank.num_choices * self._blank.num_states * DAMAGES
        if not (key.shape == times.shape == rewards.shape and (np.diff(key) > 0).all() and (times > 0).all()):
            raise ValueError("its outcomes are not in order")
        if key.size and not (key[0] >= 0 and key[-1] < limit and np.isfinite(rewards).all()):
            raise ValueError("it holds outcomes that do not exist")
        choice: Ints = key // (self._blank.num_states * DAMAGES)
        self._times = dict(zip(key.tolist(), times.tolist(), strict=True))
        self._rewards = dict(zip(key.tolist(), rewards.tolist(), strict=True))
        self._samples += np.bincount(choice, weights=times, minlength=self._blank.num_choices).astype(np.int64)
        self.ledger = Ledger.from_arrays(steps, arrays["surprises"], arrays["violations"], arrays["sums"])
