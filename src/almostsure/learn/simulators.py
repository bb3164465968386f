"""Samplers from what people have: a Python function, or a Gymnasium environment whose state can be set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import whole_array
from almostsure.errors import AlmostSureError, ModelError
from almostsure.learn.bounds import count
from almostsure.model.mdp import Floats, Initial, Ints
from almostsure.model.validate import MAX_DAMAGE

Step = Callable[[int, int, np.random.Generator], tuple[int, float, int]]
Actions = int | Sequence[Sequence[int]] | Callable[[int], npt.ArrayLike]
Damage = Callable[[Any, Any, Any, float, bool], int]


@final
class FunctionSampler:
    """A sampler from a plain simulator, ``step(state, action, rng) -> (next_state, reward, damage)``.

    Parameters
    ----------
    step
        The simulator.  It must draw its random numbers from ``rng``, a NumPy generator, and keep no memory of
        earlier calls.
    num_states
        States are 0 … num_states − 1.
    actions
        How many actions every state has, or the ids for each state, as a list of lists or as a function of the state.
    terminal
        States in which nothing happens any more; the simulator is not asked about them.
    initial
        The initial state, or a mapping from states to probabilities.
    max_damage
        The largest damage of one step.

    Examples
    --------
    >>> def step(state, action, rng):
    ...     if action == 0:
    ...         return 0, 1.0, int(rng.random() < 0.6)  # stay: earns, and may hurt
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
    ) -> None:
        if not callable(step):
            raise ModelError(f"step must be a function of (state, action, rng); got {step!r}")
        self.num_states = count("num_states", num_states)
        self.initial, self.max_damage = initial, max_damage
        self.state_names, self.action_names = state_names, action_names
        self.identity = _identity(step)
        self._step, self._actions = step, actions
        self._terminal = frozenset(whole_array("terminal", list(terminal)).ravel().tolist())
        outside = [state for state in self._terminal if not 0 <= state < self.num_states]
        if outside:
            raise ModelError(f"terminal states must lie in 0 … {self.num_states - 1}; got {outside[0]}")

    def actions(self, state: int) -> npt.ArrayLike:
        """The ids of the actions that a state has; a terminal one has one."""
        return [0] if state in self._terminal else action_row(self._actions, state)

    def sample(self, states: Ints, actions: Ints, rng: np.random.Generator) -> tuple[list[Any], list[Any], list[Any]]:
        """One outcome of each choice."""
        rows = [self._one(s, a, rng) for s, a in zip(states.tolist(), actions.tolist(), strict=True)]
        next_states, rewards, damages = zip(*rows, strict=True)
        return list(next_states), list(rewards), list(damages)

    def _one(self, state: int, action: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        if state in self._terminal:
            return state, 0.0, 0
        try:
            result = self._step(state, action, rng)
        except AlmostSureError:
            raise
        except Exception as error:
            raise _failed("the simulator", state, action, error) from error
        if not isinstance(result, (tuple, list)) or len(result) != 3:
            raise ModelError(
                f"the simulator must return (next_state, reward, damage); got {result!r} at state {state}, "
                f"action {action}",
                state=state, action=action,
            )  # fmt: skip
        return tuple(result)  # type: ignore[return-value]


@final
class EnvSampler:
    """A sampler from a Gymnasium environment whose state can be set.

    An outcome flagged ``terminated`` goes to an extra state, the last one, in which nothing happens any more.
    Truncation is ignored: where a time limit would cut an episode says nothing about what may happen.

    Parameters
    ----------
    env
        The environment.  Its random numbers are taken over: ``env.unwrapped.np_random`` is set.
    set_state
        ``set_state(env, state)`` puts the environment into a state.
    damage
        ``damage(s, a, s2, reward, terminated)`` returns the damage, as :func:`almostsure.from_gymnasium` has it; or the
        key under which the environment's info holds it.
    actions
        By default all of the environment's, in every state.
    num_states
        Without the extra one.  By default that of the (discrete) observation space.
    encode
        ``encode(observation) -> int`` for environments whose observations are not states.  Several real
        states may then share a number, and all that is learned holds for this *abstraction*: for the process in which
        ``set_state`` picks the real state.
    initial
        The initial state, or a mapping from states to probabilities.
    max_damage
        The largest damage of one step.
    """

    def __init__(
        self,
        env: Any,
        set_state: Callable[[Any, int], object],
        damage: Damage | str,
        *,
        actions: Actions | None = None,
        num_states: int | None = None,
        encode: Callable[[Any], int] | None = None,
        initial: Initial = 0,
        max_damage: int = MAX_DAMAGE,
    ) -> None:
        for name, value in (("set_state", set_state), ("encode", encode)):
            if value is not None and not callable(value):
                raise ModelError(f"{name} must be a function; got {value!r}")
        if not callable(damage) and not isinstance(damage, str):
            raise ModelError(f"damage must be a function of (s, a, s2, r, terminated) or a key of info; got {damage!r}")
        self.end = _size(env, "observation_space", num_states)
        self.num_states = self.end + 1
        self.initial, self.max_damage, self.is_abstraction = initial, max_damage, encode is not None
        self.identity = f"environment {getattr(getattr(env, 'spec', None), 'id', None) or type(env).__qualname__}"
        self._env, self._set_state, self._damage, self._encode = env, set_state, damage, encode
        self._actions: Actions = _size(env, "action_space", None) if actions is None else actions

    def actions(self, state: int) -> npt.ArrayLike:
        """The ids of the actions that a state has; the extra one has one."""
        return [0] if state == self.end else action_row(self._actions, state)

    def sample(self, states: Ints, actions: Ints, rng: np.random.Generator) -> tuple[Ints, Floats, Floats]:
        """One outcome of each choice."""
        self._env.reset(seed=int(rng.integers(2**31)))
        self._env.unwrapped.np_random = rng
        next_states, rewards, damages = states.copy(), np.zeros(states.size), np.zeros(states.size)
        for i in np.flatnonzero(states != self.end).tolist():
            state, action = int(states[i]), int(actions[i])
            try:
                next_states[i], rewards[i], damages[i] = self._one(state, action)
            except AlmostSureError:
                raise
            except Exception as error:
                raise _failed("the environment", state, action, error) from error
        return next_states, rewards, damages

    def _one(self, state: int, action: int) -> tuple[int, float, float]:
        self._set_state(self._env, state)
        observation, reward, terminated, truncated, info = self._env.step(action)
        after = self._state(observation, state, action)
        damage = self._hurt(state, action, after, float(reward), bool(terminated), info)
        if terminated or truncated:
            self._env.reset()  # wrappers want it before the next step
        return self.end if terminated else after, float(reward), damage

    def _state(self, observation: Any, state: int, action: int) -> int:
        raw = observation if self._encode is None else self._encode(observation)
        number = int(raw)
        if number != raw or not 0 <= number < self.end:
            how = "encode must return" if self._encode is not None else "observations must be"
            raise ModelError(
                f"{how} states 0 … {self.end - 1}; got {raw!r} after state {state}, action {action}",
                state=state, action=action,
            )  # fmt: skip
        return number

    def _hurt(self, state: int, action: int, after: int, reward: float, terminated: bool, info: Any) -> float:
        if not isinstance(self._damage, str):
            return float(self._damage(state, action, after, reward, terminated))
        if self._damage not in info:
            raise ModelError(
                f"info must hold the damage under {self._damage!r}; it has {sorted(map(str, info)) or 'nothing'} "
                f"after state {state}, action {action}",
                state=state, action=action,
            )  # fmt: skip
        return float(info[self._damage])


def _identity(step: Any) -> str:
    """Name and code of a function: samples of a simulator that was changed must not be counted with those before."""
    name = f"{getattr(step, '__module__', '')}.{getattr(step, '__qualname__', type(step).__qualname__)}"
    code = getattr(step, "__code__", None)
    return name if code is None else f"{name} {hashlib.sha256(_content(code).encode()).hexdigest()[:12]}"


def _content(constant: object) -> str:
    """A constant, or the code of a function with all of its constants, as a text that depends on nothing else."""
    if isinstance(constant, CodeType):
        return f"{constant.co_code!r} {constant.co_names} {[_content(inner) for inner in constant.co_consts]}"
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def _failed(who: str, state: int, action: int, error: Exception) -> ModelError:
    """What is told if somebody else's code fails."""
    what = f"{who} failed at state {state}, action {action}: {type(error).__name__}: {error}"
    return ModelError(what, state=state, action=action)


def _size(env: Any, name: str, given: int | None) -> int:
    if given is not None:
        return count("num_states", given)
    size = getattr(getattr(env, name, None), "n", None)
    if size is None:
        what = "num_states and encode" if name == "observation_space" else "actions"
        raise ModelError(f"the environment's {name} must be discrete; it is {getattr(env, name, None)}. Give {what}.")
    return int(size)


def action_row(actions: Actions, state: int) -> npt.ArrayLike:
    """The ids of a state's actions, from whatever users give."""
    if callable(actions):
        return actions(state)
    if isinstance(actions, (int, np.integer)):
        return np.arange(count("actions", actions))
    if state >= len(actions):
        raise ModelError(f"actions must list the ids for every state; there is nothing for state {state}", state=state)
    return actions[state]
