"""``OnlineShield``: a shield that learns while an agent runs.

It watches transitions.  An outcome that was never seen before is a *surprise*: it can only raise k, which is updated
from the present values (:class:`almostsure.budget.GrowingBudget`).  Between surprises nothing changes.

The guarantee depends on how unknown choices are treated.

``unknown="refuse"``, the default, fails closed.  A choice is known once it was watched ``needed`` times, and only
known ones are allowed.  If no outcome is rarer than μ, every choice is complete when it becomes known, except with
probability |S||A| m (1 − μ)^needed with m = min(|S| D, ⌊1/μ⌋) (:mod:`almostsure.learn.bounds`; the order in which
choices are watched does not matter).  If all are complete, the shield's k is at least k* everywhere, and it never
overspends.  Since it never allows an unknown choice, it can only learn from transitions of other policies, or from
earlier data: demonstrations, logs, a simulator.

``unknown="allow"`` is optimistic: it assumes that unknown choices do no damage.  **Every violation reveals a damaging
outcome that was never seen before, so there are at most as many violations as the model has damaging outcomes**,
however long the agent runs.

*Proof.*  Suppose that the agent plays a choice that the shield allows with K left, and takes damage d > K.  If this
outcome (s', d) had been seen before, k(s, a) would be at least d + v(s') > K, and the choice refused.  So it is new;
and d > K ≥ 0.  ∎

In the same way, an allowed choice leads to a state without a safe action only by a surprise.

A shield learns in one process.  The environments of a vector may share a shield.  Worker processes (``SubprocVecEnv``,
``AsyncVectorEnv``) would each have a copy that learns separately, and all would be lost with the workers, so a shield
cannot be sent to one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import nullcontext
from os import PathLike
from typing import Any, NoReturn, Self, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import as_python, check_budget, count, names_right_word, one_of, whole, whole_array
from almostsure.budget.grow import GrowingBudget
from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.errors import ArgumentError, ModelError, uninterrupted
from almostsure.files import check_fingerprint, file_name, load_tensors, must_hold, save_tensors
from almostsure.learn.bounds import Confidence, delta_bought, unit
from almostsure.learn.counts import UNKNOWN, Counts, Unknown
from almostsure.learn.evidence import check_mu
from almostsure.learn.ledger import Ledger, Surprise, Violation
from almostsure.learn.sampling.env_sampler import is_environment, space_of_env
from almostsure.learn.sampling.samplers import as_sampler
from almostsure.learn.watched import WATCHED, Watched
from almostsure.model.arrays import Bools
from almostsure.model.build.given import Actions, Initial
from almostsure.model.build.validate import MAX_DAMAGE
from almostsure.model.space import Encode, Space
from almostsure.shield.lookups import look_ups, no_safe_action
from almostsure.shield.outcomes import reported_damage
from almostsure.shield.protocol import Run
from almostsure.shield.shield import Shield
from almostsure.shield.table import SparseTable

KIND = "learning shield"
FILED = (*WATCHED, "surprises", "violations", "sums")
ONE_PROCESS = (
    "an OnlineShield learns in one process: what a copy in another one learned would be lost. Run the environments in "
    "this process (DummyVecEnv, SyncVectorEnv), or give workers a shield that learns no more: shield.freeze()."
)


@names_right_word
@final
class OnlineShield:
    """Which actions keep the remaining budget, according to the outcomes seen so far.

    It is a :class:`almostsure.shield.Guard`: a run is (state, remaining), and :meth:`after` learns from its outcomes.

    Parameters
    ----------
    space
        The states and actions: a Gymnasium environment, of which only the spaces are used; or a model, a
        :class:`almostsure.learn.Sampler`, counts, the name of an example or file.  The outcomes of a model are not
        used.
    num_states, actions, initial
        In place of ``space``, or if the spaces of an environment do not say it: the number of states that can be
        observed, the number of actions of every state (or the ids for each state), and the states in which episodes
        start.  By default the starts are learned, too.
    encode
        ``encode(observation) -> int`` for environments whose observations are not states; then give ``num_states``.
    unknown
        How to treat choices that are not known: ``"refuse"`` them, or ``"allow"`` them until they are known to be
        unsafe.  :mod:`almostsure.learn.online` has the guarantee of each.
    needed
        How often a choice must have been watched to be known; with ``"refuse"`` only.  See
        :func:`almostsure.samples_needed`.
    known
        Outcomes that were seen before: counts of the same states and actions.

    Examples
    --------
    >>> import almostsure as asure
    >>> shield = asure.OnlineShield(asure.example("paper"), unknown="allow")
    >>> shield.allowed("circle", 0)
    array([0, 1])
    >>> shield.watch("circle", "left", "circle", 1, remaining=0)  # a violation, and so a surprise
    True
    >>> shield.allowed("circle", 0), shield.allowed("circle", 1)
    (array([1]), array([0, 1]))
    >>> print(shield.ledger)
    1 step, 1 surprise (none raised the minimal budget of a state), 1 violation
      step 1: state 0, action 0 took 1 with 0 left (an outcome never seen before)
    1 step of unfinished episodes, whose damage and interventions are not counted yet
    """

    carries = ("remaining",)

    def __init__(
        self,
        space: Any = None,
        *,
        num_states: int | None = None,
        actions: Actions | None = None,
        initial: Initial | None = None,
        encode: Encode | None = None,
        unknown: Unknown = "refuse",
        needed: int = 1,
        known: Counts | None = None,
    ) -> None:
        one_of("value for unknown=:", unknown, UNKNOWN)
        if unknown == "allow" and needed != 1:
            raise ArgumentError(
                "needed must be left out with unknown='allow', which allows choices however rarely they were watched; "
                f"got {needed!r}. Pass unknown='refuse' to refuse those watched less often."
            )
        self.counts = _no_counts(space, num_states=num_states, actions=actions, initial=initial, encode=encode)
        self.space: Space = self.counts.space
        self.unknown: Unknown = unknown
        self.needed = count("needed", needed)
        self.ledger = Ledger()
        self._process = os.getpid()
        self._watched = Watched(self.counts)
        self._states = self.space.choice_states()  # of each choice
        self._index: dict[tuple[Any, Any], int] = {}  # choices by (state, action)
        if known is not None:
            self._watched.learn(known)
        self._growing: GrowingBudget | None = None  # None: a choice became known, so budgets may have become smaller

    def __reduce__(self) -> NoReturn:
        raise ArgumentError(ONE_PROCESS)

    # ------------------------------------------------------------------ runs

    def begin(self, state: Any, budget: int) -> Run:
        """The run (state, remaining) that begins in a state with a budget; for an array of states, two arrays.

        Raises NoSafeAction if no action is allowed there.
        """
        self._check_process()
        remaining = check_budget(budget)
        if np.ndim(state) == 0:
            self._watched.began[self.space.state(state)] += 1
            self.allowed(state, remaining)
            return self.space.state(state), remaining
        states = whole_array("states", state).astype(np.int64)
        self._watched.began.update(self.space.state(int(s)) for s in states.ravel())
        self.mask(states, remaining)
        return states, np.full(states.shape, remaining, np.int64)

    def after(self, run: Run, action: Any, next_state: Any, damage: Any = None, *, reward: Any = 0.0) -> Run:
        """Watch a step and return the run after it; for many runs, arrays of both.

        Raises ModelError if no damage is given: there is no model that knows it.
        """
        state, remaining = run
        if np.ndim(state) == 0:
            if damage is None:
                choice = self._choice(state, action)
                raise ModelError(
                    "an OnlineShield must be told the damage of every step, by an environment in info['damage'] or "
                    f"info['cost']; there was none at {self.space.describe_choice(choice)}. Wrap an environment that "
                    "does not report damage in DamageTracker(env, damage).",
                    state=int(self._states[choice]),
                    choice=choice,
                )
            self.watch(state, action, next_state, damage, reward=reward, remaining=remaining)
            return self.space.state(next_state), int(remaining) - int(damage)
        damages = [None] * len(state) if damage is None else damage
        steps = zip(state, remaining, action, next_state, damages, np.broadcast_to(reward, len(state)), strict=True)
        runs = [self.after((s, left), a, s2, as_python(d), reward=r) for s, left, a, s2, d, r in steps]
        return np.array([run[0] for run in runs], np.int64), np.array([run[1] for run in runs], np.int64)

    def _check_process(self) -> None:
        """Refuse to work as a copy in a forked process."""
        if os.getpid() != self._process:
            raise ArgumentError(ONE_PROCESS)

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
        """Learn from one transition; returns whether it was a surprise.

        Parameters
        ----------
        state, action, next_state, damage, reward
            The transition.  If it ended its episode, the next state is ``space.end``; if the space has no end, call
            :meth:`end` afterwards.
        remaining
            The remaining budget before it, if violations are to be noted.
        """
        choice, target = self._choice(state, action), self.space.state(next_state)
        loss, gain = reported_damage(self.space, choice, damage), self._reward(reward, choice)
        left = None if remaining is None else whole("remaining", remaining)
        self._check_process()
        was_allowed = left is None or bool(self._current().of_choice[choice] <= min(left, INFINITE - 1))
        if self.unknown == "allow":
            self._current()  # computes the values that a surprise may raise
        source = int(self._states[choice])
        if target != source or loss:  # an ended state also has steps that stay there without damage
            self._watched.check_goes_on(source)
        self.ledger.steps += 1
        is_new = not self.counts.has_seen(choice, target, loss)
        with uninterrupted() if is_new else nullcontext():
            self._count(choice, target, loss, gain, 1)
            if is_new:
                self._surprise(choice, target, loss)
        if left is not None and loss > left >= 0:
            where = self.ledger.steps, source, int(self.space.choice_action[choice])
            self.ledger.note(Violation(*where, target, loss, left, was_allowed, is_new))
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
        """Count ``times`` more of a transition that was watched before, for code that runs many steps at once.

        It changes the counts only: add the steps to ``ledger.steps`` yourself.

        Raises
        ------
        ModelError
            If the transition was never watched: then it is a surprise, for :meth:`watch`.
        """
        choice, target = self._choice(state, action), self.space.state(next_state)
        loss = reported_damage(self.space, choice, damage)
        if not self.counts.has_seen(choice, target, loss):
            where = self.space.describe_choice(choice)
            rule = f"an outcome of {where} must have been watched before it is repeated"
            raise ModelError(f"{rule}; got a new one. Watch it.", choice=choice)
        more, gain = count("times", times), self._reward(reward, choice)
        self._count(choice, target, loss, gain, more)

    def end(self, state: int | str) -> None:
        """Note that an episode ended in a state: nothing happens there any more.

        It is not needed if the space has an extra state for ended episodes (that of an environment has): then that is
        the next state of the last step.

        Raises
        ------
        ModelError
            If another episode went on from there.
        """
        if self._watched.end(self.space.state(state), self.needed):
            self._forget_budgets()

    def _count(self, choice: int, target: int, loss: int, gain: float, times: int) -> None:
        """Count an outcome, which may make its choice known."""
        before = int(self.counts.samples[choice])
        self.counts.see(choice, target, loss, gain, times=times)
        if before < self.needed <= before + times:
            self._forget_budgets()

    def _surprise(self, choice: int, target: int, loss: int) -> None:
        """Raise budgets after a new outcome, and note for how many states."""
        state, action = int(self._states[choice]), int(self.space.choice_action[choice])
        raised, was_known = 0, self.unknown == "allow" or self.counts.samples[choice] > self.needed
        if was_known and self._growing is not None:  # else it was refused so far, or budgets will be solved anew
            raised = len(self._growing.add(state, action, target, loss))
        self.ledger.note(Surprise(self.ledger.steps, state, action, target, loss, raised))

    def _forget_budgets(self) -> None:
        """Have budgets solved anew, as a choice became known."""
        if self.unknown == "refuse":
            self._growing = None

    def _choice(self, state: int | str, action: int | str) -> int:
        try:
            return self._index[state, action]
        except (KeyError, TypeError):
            choice = self.space.choice(state, action)
            self._index[state, action] = choice
            return choice

    def _reward(self, reward: object, choice: int) -> float:
        try:
            number = float(reward)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            where = self.space.describe_choice(choice)
            raise ModelError(f"reward must be a finite number; got {reward!r} at {where}", choice=choice)
        return number

    # ------------------------------------------------------------------ allowed actions

    def allowed(self, state: int | str, remaining: int) -> npt.NDArray[np.int64]:
        """The ids of the actions that are allowed at a state, ascending; there is at least one.

        Raises
        ------
        NoSafeAction
            If there is none, or if ``remaining`` is negative.
        """
        s, left = self.space.state(state), whole("remaining", remaining)
        choices = self.space.choices(s)
        safe = self._current().of_choice[choices.start : choices.stop] <= min(left, INFINITE - 1)
        if left < 0 or not safe.any():
            self._refuse(s, left)
        return self.space.choice_action[choices.start : choices.stop][safe].astype(np.int64)

    def mask(self, states: npt.ArrayLike, remaining: npt.ArrayLike) -> Bools:
        """A mask of the allowed actions for many states at once: [n, num_actions].  No row is empty.

        Raises
        ------
        NoSafeAction
            If any row would be empty.
        """
        s, left, shape = look_ups(self.space, states, remaining)
        growing = self._current()
        stuck = (growing.of_state[s] > np.minimum(left, INFINITE - 1)) | (left < 0)
        if stuck.any():
            at = int(np.argmax(stuck))
            self._refuse(int(s[at]), int(left[at] if left.ndim else left))
        table = SparseTable(self.space, growing.of_choice)
        return table.allows(s, np.minimum(left, table.highest)).reshape(*shape, self.space.num_actions)

    def _current(self) -> GrowingBudget:
        """The present budgets, solved if a choice became known."""
        if self._growing is None:
            self._growing = GrowingBudget(minimal_budget(self.counts.to_mdp(self.unknown, known=self._known())))
        return self._growing

    def _known(self) -> Bools:
        """Which choices are known, [num_choices]."""
        known = self.counts.samples >= (self.needed if self.unknown == "refuse" else 1)
        return np.asarray(known | self.counts.is_end())

    def _refuse(self, state: int, remaining: int) -> NoReturn:
        needs = int(self._current().of_state[state])
        why = f"it needs {needs}" if needs < INFINITE else "no finite budget suffices there"
        if self.unknown == "refuse":
            known = self._known()
            if not all(known[choice] for choice in self.space.choices(state)):
                rest = "" if needs >= INFINITE else f"it needs {needs}, as far as is known; "
                why = f"{rest}some of its actions are unknown, and refused (unknown='allow' would allow them)"
            elif needs >= INFINITE and not known.all():
                why = "its actions may lead to unknown choices"
        raise no_safe_action(self.space, state, remaining, why)

    # ------------------------------------------------------------------ what was learned

    @property
    def of_state(self) -> npt.NDArray[np.int32]:
        """The present minimal budget of every state, [num_states]; a copy."""
        return self._current().of_state[: self.space.num_states].copy()

    @property
    def of_choice(self) -> npt.NDArray[np.int32]:
        """The present minimal budget of every choice, [num_choices]; a copy."""
        return self._current().of_choice[: self.space.num_choices].copy()

    @property
    def starts(self) -> dict[int, float]:
        """The initial states and their probabilities: those of the space if it has any, or else as watched."""
        self._check_process()
        return self._watched.starts

    def freeze(self) -> Shield:
        """A shield with the present minimal budgets that learns no more: to be sent to workers, saved or exported.

        If transitions are random, outcomes may happen that were never seen.  The frozen shield then raises
        ModelMismatch, whereas the OnlineShield would learn from them.
        """
        found = self.starts
        starts = (np.array(list(found)), np.array(list(found.values()))) if found else None
        return Shield(minimal_budget(self.counts.to_mdp(self.unknown, known=self._known(), starts=starts)))

    def confidence(self, mu: float) -> Confidence:
        """The probability that the shield never overspends, if no outcome is rarer than ``mu``."""
        mu, caveat, subject = unit("mu", mu), self.counts.caveat, "this shield never overspends"
        if self.unknown == "allow":
            caveat = f"Every violation reveals a damaging outcome that was never seen before. {caveat}".strip()
            return Confidence(mu=mu, delta=1.0, subject=subject, caveat=caveat)
        check_mu(self.counts, mu)
        size = self.space.num_states, self.space.num_actions
        delta = delta_bought(self.needed, *size, mu=mu, num_damages=MAX_DAMAGE + 1)
        return Confidence(mu=mu, delta=delta, subject=subject, caveat=caveat)

    def __repr__(self) -> str:
        known = int(np.count_nonzero(self._known()))
        choices, fate = self.space.num_choices, "refused" if self.unknown == "refuse" else "allowed"
        rest = "" if known == choices else f"; the others are {fate}"
        return f"<OnlineShield: {known:,} of {choices:,} choices are known{rest}\n  {str(self.ledger).splitlines()[0]}>"

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the counts and the ledger to a safetensors file, atomically."""
        arrays = {**self._watched.to_arrays(), **self.ledger.to_arrays()}
        strings = {
            "unknown": self.unknown,
            "needed": str(self.needed),
            "steps": str(self.ledger.steps),
            "num_states": str(self.space.num_observed),
            "caveat": self.counts.caveat,
        }
        save_tensors(path, kind=KIND, model=self.space.fingerprint, arrays=arrays, strings=strings)

    @classmethod
    def load(cls, path: str | PathLike[str], space: Any = None, **options: Any) -> Self:
        """Load a saved shield; pass the ``space``, ``encode``, … with which it was made.

        ``num_states`` is in the file.
        """
        file_name(path, "OnlineShield.load(path, space)")
        options = {"num_states": None, "actions": None, "initial": None, "encode": None, **options}
        arrays, strings = load_tensors(path, kind=KIND, model=None)
        if options["num_states"] is None and (space is None or options["encode"] is not None):
            options["num_states"] = _num_states(path, arrays, strings)
        counts = _no_counts(space, **options)
        check_fingerprint(path, strings, kind=KIND, model=counts.space.fingerprint)
        with must_hold(path, "an online shield of this space"):
            result = cls(counts, unknown=strings["unknown"], needed=int(strings["needed"]))  # type: ignore[arg-type]
            if set(arrays) != set(FILED):
                raise ValueError(f"it must hold {', '.join(FILED)}; got {sorted(arrays)}")
            result._watched.restore(arrays)
            result.counts.caveat = strings.get("caveat", result.counts.caveat)
            entries = (arrays[name] for name in ("surprises", "violations", "sums"))
            result.ledger = Ledger.from_arrays(int(strings["steps"]), *entries)
        return result


def _num_states(path: Any, arrays: Mapping[str, npt.NDArray[Any]], strings: Mapping[str, str]) -> int:
    """The number of states that can be observed, from a file."""
    with must_hold(path, "an online shield"):
        number = int(strings["num_states"])
        if not 0 < number <= arrays["samples"].size:  # every state has a choice
            raise ValueError(f"it has {number} states, and {arrays['samples'].size} choices")
    return number


def _no_counts(
    space: Any, *, num_states: int | None, actions: Actions | None, initial: Initial | None, encode: Encode | None
) -> Counts:
    """Empty counts for the given states and actions."""
    if isinstance(space, Counts):
        return Counts(space.space, max_damage=space.max_damage, caveat=space.caveat, ended=space.ended)
    if isinstance(space, Space):
        return Counts(space.space)
    if space is None and (num_states is None or actions is None):
        raise ArgumentError("an OnlineShield needs an environment, a model, or num_states and actions")
    if space is None or is_environment(space):
        return Counts(space_of_env(space, num_states=num_states, actions=actions, initial=initial, encode=encode))
    return as_sampler(space).new_counts(None)
