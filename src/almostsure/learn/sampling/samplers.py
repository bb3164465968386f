"""Samplers: simulators that draw outcomes of given choices, of many at once.

A *sampler* has ``num_states``, ``actions(state)`` and ``sample(states, actions, rng)``; see :class:`Sampler`.  An MDP
can be used as one; :class:`FunctionSampler` makes one from a Python function, and :class:`almostsure.learn.EnvSampler`
from a Gymnasium environment whose state can be set.

Everything that a sampler returns is checked: shapes, ranges, rewards and damages.  The first offender is named with its
state and action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more, count, names_right_word, whole_array
from almostsure.errors import Blame, ModelError
from almostsure.learn.counts import Counts
from almostsure.learn.sampling.identity import identity_of
from almostsure.model.arrays import Floats, Ints
from almostsure.model.build.given import Actions, Initial, action_row, positive
from almostsure.model.build.validate import MAX_DAMAGE
from almostsure.model.mdp import MDP
from almostsure.model.source import as_model
from almostsure.model.space import Encode, Space
from almostsure.wording import brief

ABSTRACTION = (
    "This holds for the real states that set_state sets: other real states with the same number in encode's "
    "abstraction may behave differently."
)

Answer = tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]
Step = Callable[[int, int, np.random.Generator], Any]  # (next_state, reward, damage)


@runtime_checkable
class Sampler(Protocol):
    """The interface of samplers.

    Optional attributes are ``initial`` (a state or a mapping from states to probabilities, 0 by default),
    ``max_damage`` (255 by default; a smaller one makes bounds sharper), ``state_names``, ``action_names``, ``has_end``
    (whether there is an extra state, ``num_states``, for ended episodes), ``terminal`` (states in which nothing happens
    any more), ``encode`` (a function from an observation to a state), ``caveat`` (a sentence that every statement about
    it must add) and ``identity`` (a name for checkpoints).

    Examples
    --------
    >>> one = FunctionSampler(lambda state, action, rng: (1, 0.0, action), 2, [0, 1])
    >>> isinstance(one, Sampler)
    True
    """

    @property
    def num_states(self) -> int:
        """The number of states, without the end."""
        ...

    def actions(self, state: int) -> npt.ArrayLike:
        """The ids of the actions of a state."""
        ...

    def sample(self, states: Ints, actions: Ints, rng: np.random.Generator) -> Answer:
        """One outcome of each choice: next states, rewards and damages, each as long as ``states``.

        Outcomes must be independent, and use no random numbers but those of ``rng``, so that a seed determines them.
        """
        ...


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedSampler:
    """A sampler with its states and actions, whose results are checked."""

    sampler: Any
    space: Space
    model: MDP | None  # the sampler itself, if it is a model
    max_damage: int
    identity: str | None  # for checkpoints; None if it has none
    caveat: str = ""  # a sentence that every statement about it must add

    @cached_property
    def states(self) -> Ints:
        """The state of each choice, [num_choices]."""
        return self.space.choice_states()

    def new_counts(self, seed: int | None) -> Counts:
        """Empty counts for its choices."""
        return Counts(self.space, max_damage=self.max_damage, seed=seed, caveat=self.caveat)

    def draw(self, choices: Ints, rng: np.random.Generator) -> tuple[Ints, Floats, Ints]:
        """One outcome of each choice, checked: next states, rewards, damages."""
        states = self.states[choices].astype(np.int64)
        actions = self.space.choice_action[choices].astype(np.int64)
        with Blame(lambda: "the sampler failed"):
            answer = self.sampler.sample(states, actions, rng)
        return self._checked(choices, answer)

    def _checked(self, choices: Ints, answer: Any) -> tuple[Ints, Floats, Ints]:
        if not isinstance(answer, (tuple, list)) or len(answer) != 3:
            raise ModelError(f"a sampler must return (next_states, rewards, damages); got {brief(answer)}")
        states, rewards, damages = (
            self._column(name, values, choices)
            for name, values in zip(("next_states", "rewards", "damages"), answer, strict=True)
        )
        last = self.space.num_states - 1
        self._require(_whole(states, 0, last), f"next states must be integers 0 … {last}", states, choices)
        self._require(np.isfinite(rewards.astype(np.float64)), "rewards must be finite", rewards, choices)
        rule = f"damages must be integers 0 … {self.max_damage}"
        self._require(_whole(damages, 0, self.max_damage), rule, damages, choices)
        return states.astype(np.int64), rewards.astype(np.float64), damages.astype(np.int64)

    def _column(self, name: str, values: Any, choices: Ints) -> npt.NDArray[Any]:
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise ModelError(f"{name} must be {choices.size} numbers; {error}") from None
        if array.shape != choices.shape:
            raise ModelError(
                f"a sampler must return {choices.size} {name}, one per choice; got shape {list(array.shape)}"
            )
        if array.dtype.kind not in "iufb":
            good = np.array([isinstance(x, (int, float)) and abs(x) < 2**53 for x in array.tolist()], np.bool_)
            self._require(good, f"{name} must be numbers", array, choices)
            return array.astype(np.float64)
        return array

    def _require(self, good: npt.NDArray[np.bool_], rule: str, values: npt.NDArray[Any], choices: Ints) -> None:
        if good.all():
            return
        at = int(np.argmin(good))
        choice, more = int(choices[at]), int(good.size - np.count_nonzero(good)) - 1
        raise ModelError(
            f"{rule}; the sampler returned {brief(values.tolist()[at])} at {self.space.describe_choice(choice)}"
            f"{and_more(more, 'sample')}.",
            state=int(self.states[choice]),
            action=int(self.space.choice_action[choice]),
            choice=choice,
        )


def as_sampler(sampler: Any, *, identity: str | None = None) -> CheckedSampler:
    """The checked sampler of a sampler, a model (or its name), or an environment that can be sampled."""
    from almostsure.learn.sampling.env_sampler import is_environment, sampler_of_env

    if isinstance(sampler, CheckedSampler):
        return sampler
    if is_environment(sampler):
        sampler = sampler_of_env(sampler)
    if isinstance(sampler, (MDP, str)) or hasattr(sampler, "__fspath__"):
        mdp = as_model(sampler)
        mdp.require_probabilities("a sampler")
        return CheckedSampler(
            sampler=mdp, space=mdp.space, model=mdp, max_damage=mdp.max_damage, identity=mdp.fingerprint
        )
    if isinstance(sampler, type) or not hasattr(sampler, "sample"):
        remedy = "Wrap a function in FunctionSampler, a Gymnasium environment in EnvSampler."
        if isinstance(getattr(sampler, "mdp", None), MDP):
            remedy = "Its model is its attribute mdp."
        got = type(sampler).__name__
        if isinstance(sampler, type):
            got, remedy = f"the class {sampler.__name__}", f"Pass an instance: {sampler.__name__}()."
        raise ModelError(
            f"a sampler must be a model, an environment or have num_states, actions and sample; got {got}. {remedy}"
        )
    own = identity or getattr(sampler, "identity", None) or identity_of(sampler)
    return CheckedSampler(
        sampler=sampler,
        space=space_of(sampler),
        model=None,
        max_damage=_max_damage(sampler),
        identity=None if own is None else str(own),
        caveat=getattr(sampler, "caveat", ""),
    )


def space_of(sampler: Any) -> Space:
    """The states and actions of a sampler."""
    number = positive("a sampler's num_states", getattr(sampler, "num_states", None))
    if not callable(getattr(sampler, "actions", None)):
        raise ModelError("a sampler must have actions(state), the action ids of a state")
    return Space.from_actions(
        number,
        sampler.actions,
        initial=getattr(sampler, "initial", 0),
        state_names=getattr(sampler, "state_names", None),
        action_names=getattr(sampler, "action_names", None),
        end=bool(getattr(sampler, "has_end", False)),
        encode=getattr(sampler, "encode", None),
    )


def _max_damage(sampler: Any) -> int:
    most = getattr(sampler, "max_damage", MAX_DAMAGE)
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or not 0 <= most <= MAX_DAMAGE:
        raise ModelError(f"a sampler's max_damage must be an integer 0 … {MAX_DAMAGE}; got {most!r}")
    return int(most)


# ---------------------------------------------------------------------- functions


@names_right_word
@final
class FunctionSampler:
    """A sampler from a function, ``step(state, action, rng) -> (next_state, reward, damage)``.

    Parameters
    ----------
    step
        The simulator.  It must draw its random numbers from ``rng``, a NumPy generator, and must not remember earlier
        calls.
    num_states
        States are 0 … num_states − 1.
    actions
        The number of actions of every state, or the ids for each state, as a list of lists or as a function of the
        state.
    terminal
        States in which nothing happens any more; the simulator is not called for them.
    initial
        The initial state, or a mapping from states to probabilities.
    max_damage
        The largest damage of one step.
    encode
        A function from an observation to a state, if those of the environment to shield are not states.
    identity
        A name of this simulator for checkpoints; by default a hash of its code and of everything that the code uses, if
        all of that can be read.

    Examples
    --------
    >>> def step(state, action, rng):
    ...     if action == 0:
    ...         return 0, 1.0, int(rng.random() < 0.6)  # stay: has reward, and may do damage
    ...     return 1, 0.0, 0
    >>> sampler = FunctionSampler(step, 2, 2, terminal=[1], max_damage=1)
    >>> from almostsure.learn import learn_minimal_budget
    >>> learn_minimal_budget(sampler, mu=0.1, delta=0.01, seed=1).minimal.of_choice
    array([1, 0, 0], dtype=int32)
    """

    def __init__(
        self,
        step: Step,
        num_states: int,
        actions: Actions,
        *,
        terminal: Iterable[int] = (),
        initial: Initial = 0,
        max_damage: int = MAX_DAMAGE,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        encode: Encode | None = None,
        identity: str | None = None,
    ) -> None:
        if not callable(step):
            raise ModelError(f"step must be a function of (state, action, rng); got {step!r}")
        self.num_states = count("num_states", num_states)
        self.initial, self.max_damage, self.encode = initial, max_damage, encode
        self.state_names, self.action_names = state_names, action_names
        self._step, self._actions = step, actions
        if not isinstance(terminal, Iterable):
            raise ModelError(f"terminal must be a collection of states; got {terminal!r}")
        self.terminal = frozenset(whole_array("terminal", list(terminal)).ravel().tolist())
        self.identity = identity or identity_of(("function", step, sorted(self.terminal)))
        outside = [state for state in self.terminal if not 0 <= state < self.num_states]
        if outside:
            raise ModelError(f"terminal states must lie in 0 … {self.num_states - 1}; got {outside[0]}")

    def actions(self, state: int) -> npt.ArrayLike:
        """The ids of the actions of a state; a terminal state has one."""
        return [0] if state in self.terminal else action_row(self._actions, state)

    def sample(self, states: Ints, actions: Ints, rng: np.random.Generator) -> tuple[list[Any], list[Any], list[Any]]:
        """One outcome of each choice."""
        rows = [self._one(s, a, rng) for s, a in zip(states.tolist(), actions.tolist(), strict=True)]
        next_states, rewards, damages = zip(*rows, strict=True)
        return list(next_states), list(rewards), list(damages)

    def _one(self, state: int, action: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        if state in self.terminal:
            return state, 0.0, 0
        with Blame(lambda: f"the simulator failed at state {state}, action {action}", state=state, action=action):
            result = self._step(state, action, rng)
        if not isinstance(result, (tuple, list)) or len(result) != 3:
            where = f"at state {state}, action {action}"
            raise ModelError(
                f"the simulator must return (next_state, reward, damage); got {result!r} {where}",
                state=state,
                action=action,
            )
        return result[0], result[1], result[2]


def _whole(values: npt.NDArray[Any], least: int, most: int) -> npt.NDArray[np.bool_]:
    """Which values are integers in a range."""
    good: npt.NDArray[np.bool_] = (values >= least) & (values <= most)
    if values.dtype.kind == "f":
        good &= values == np.floor(values)
    return good
