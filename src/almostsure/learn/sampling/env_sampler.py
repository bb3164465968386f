"""Gymnasium environments as samplers: those whose state can be set.

For the toy-text environments with a transition table (FrozenLake, CliffWalking, Taxi) this is built in; for others
:class:`EnvSampler` needs a function that sets the state.  If the state of an environment cannot be set, its choices
cannot be sampled in any order, unless it can be copied (:func:`almostsure.explore`).  Such an environment can only be
played in; :class:`almostsure.OnlineShield` learns from that.

Damage has one convention everywhere: ``damage(s, a, s2, r, terminated)`` gets the observations.  Without such a
function, the damage is ``info["damage"]`` or ``info["cost"]``, which must agree if both are there, and for the toy-text
environments that of :func:`almostsure.model.build.damage.known_damage`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import count, names_right_word
from almostsure.errors import Blame, ModelError
from almostsure.learn.damage import StepDamage
from almostsure.learn.sampling.identity import identity_of
from almostsure.learn.sampling.samplers import ABSTRACTION
from almostsure.model.arrays import Floats, Ints
from almostsure.model.build.damage import Damage, known_damage
from almostsure.model.build.environment import (
    check_layers,
    discrete_size,
    five_values,
    names_environment,
    one_environment,
    two_values,
)
from almostsure.model.build.given import Actions, Initial, action_row
from almostsure.model.build.tables import from_gymnasium, without_model
from almostsure.model.build.validate import MAX_DAMAGE, as_damage
from almostsure.model.mdp import MDP
from almostsure.model.space import Encode, Space
from almostsure.wording import brief

SetState = Callable[[Any, int], Any]

SKIPPED = " (with budget=, learn_minimal_budget samples only states in which an episode may go on)"
RESETS = 256  # resets for finding the initial states of an environment


def is_environment(thing: Any) -> bool:
    """Whether an object is a Gymnasium environment, or the id of one."""
    if isinstance(thing, str):
        return names_environment(thing)
    return hasattr(thing, "unwrapped") and hasattr(thing, "step") and hasattr(thing, "observation_space")


def sampler_of_env(env: Any) -> EnvSampler | MDP:
    """The sampler of an environment whose state the library can set; its model, if it plays one of ours."""
    env = one_environment(env)
    model = getattr(env.unwrapped, "mdp", None)
    return model if isinstance(model, MDP) else EnvSampler(env)


def model_of_env(env: Any) -> Any:
    """The model of an environment that plays one of ours or has a transition table; else the environment itself."""
    env = one_environment(env)
    model, damage = getattr(env.unwrapped, "mdp", None), known_damage(env)
    if isinstance(model, MDP):
        return model
    if damage is None or not hasattr(env.unwrapped, "P"):
        return env
    return from_gymnasium(env, damage)


def space_of_env(
    env: Any,
    *,
    num_states: int | None = None,
    actions: Actions | None = None,
    initial: Initial | None = None,
    encode: Encode | None = None,
) -> Space:
    """The states and actions of an environment, from its spaces only; without an environment, those that are given."""
    env = None if env is None else one_environment(env)
    size = _num_states(env, num_states, encode)
    if initial is None:
        listed = None if env is None else _listed_starts(env, size)
        initial = listed if listed and encode is None else np.full(size, 1 / size)  # that is, unknown
    every = _actions_of(env, actions)
    return Space.from_actions(size, every, initial=initial, end=True, encode=encode)


def _listed_starts(env: Any, size: int) -> dict[int | str, float] | None:
    """The initial states of an environment that lists them, as the toy-text ones do."""
    listed = getattr(env.unwrapped, "initial_state_distrib", None)
    if listed is None or np.shape(listed) != (size,):
        return None
    shares = np.asarray(listed, np.float64)
    return {int(state): float(shares[state]) for state in np.flatnonzero(shares)}


@names_right_word
@final
class EnvSampler:
    """A sampler from a Gymnasium environment whose state can be set.

    Steps flagged ``terminated`` lead to an extra state, the end, in which nothing happens any more.  Truncation is
    ignored, since time limits say nothing about the possible outcomes.

    Parameters
    ----------
    env
        The environment, or its id.  Its random generator, ``env.unwrapped.np_random``, is replaced.
    set_state
        ``set_state(env, state)`` puts the environment into a state, including hidden state, and returns the observation
        there (it may return None, except if ``encode`` is given and ``damage`` is a function).  The toy-text
        environments with a transition table need no such function.
    damage
        ``damage(s, a, s2, reward, terminated)`` computes the damage from observations; or a rule such as
        ``"reward<=-100"``; or the key of the damage in ``info``.  By default ``"damage"`` or ``"cost"``, whichever
        there is, or the known damage of FrozenLake, CliffWalking and Taxi.
    actions
        By default all actions of the environment, in every state.
    num_states
        The number of states that can be observed.  By default that of the (discrete) observation space.
    encode
        ``encode(observation) -> int`` for environments whose observations are not states.  Several real
        states may then share a number, and the results are about this *abstraction*: the process in which ``set_state``
        picks the real state.
    initial
        The initial state, or a mapping from states to probabilities.  By default the initial states that the
        environment lists, or those of some hundreds of resets.
    max_damage
        The largest damage of one step.
    identity
        A name of this environment for checkpoints; by default a hash of how it was made and of these functions, if all
        of that can be read.

    Examples
    --------
    >>> import almostsure as asure
    >>> import gymnasium
    >>> lake = EnvSampler(gymnasium.make("FrozenLake-v1"))
    >>> asure.learn_minimal_budget(lake, mu=1 / 3, delta=0.05, seed=0).minimal.smallest_budget()
    0
    """

    has_end = True

    def __init__(
        self,
        env: Any,
        set_state: SetState | None = None,
        damage: Damage | str | None = None,
        *,
        actions: Actions | None = None,
        num_states: int | None = None,
        encode: Encode | None = None,
        initial: Initial | None = None,
        max_damage: int = MAX_DAMAGE,
        identity: str | None = None,
    ) -> None:
        for name, value in (("set_state", set_state), ("encode", encode)):
            if value is not None and not callable(value):
                raise ModelError(f"{name} must be a function; got {value!r}")
        env = one_environment(env)
        check_layers(env, "EnvSampler", around=False)
        self._env, self.encode = env, encode
        self._set_state = _toy_state(env) if set_state is None else set_state
        self._damage = StepDamage(env, known_damage(env) if damage is None else damage)
        self.num_states = _num_states(env, num_states, encode)
        self._actions: Actions = _actions_of(env, actions)
        self.max_damage = max_damage
        self.caveat = "" if encode is None else ABSTRACTION
        self.initial = self._starts() if initial is None else initial
        made_of = ("environment", env, set_state, self._damage.function or damage, encode, self.num_states)
        self.identity = identity or identity_of(made_of)

    def actions(self, state: int) -> npt.ArrayLike:
        """The ids of the actions of a state."""
        return action_row(self._actions, state)

    def sample(self, states: Ints, actions: Ints, rng: np.random.Generator) -> tuple[Ints, Floats, Floats]:
        """One outcome of each choice."""
        self._reset(int(rng.integers(2**31)))
        self._env.unwrapped.np_random = rng
        next_states, rewards, damages = states.copy(), np.zeros(states.size), np.zeros(states.size)
        for i in np.flatnonzero(states != self.num_states).tolist():
            state, action = int(states[i]), int(actions[i])
            with _blame(state, action):
                next_states[i], rewards[i], damages[i] = self._one(state, action)
        return next_states, rewards, damages

    def walk(self, steps: int, rng: np.random.Generator) -> Iterator[tuple[int, int, int, float]]:
        """Random steps from resets, without setting states: states, actions, next states and damages.

        They are compared with what was learned, as a test of ``set_state``.  There are none if it returns observations
        and ``encode`` is given: then these are checked, and it may pick one of several real states.
        """
        if self.encode is not None and self._put(self._start(0)) is not None:
            return
        observation = None
        for _ in range(steps):
            if observation is None:
                observation = self._reset(int(rng.integers(2**31)))
            state = self._state(observation, "after reset or a step")
            action = int(rng.choice(np.asarray(self.actions(state))))
            with _blame(state, action):
                observation, (after, _, damage), over = self._step(observation, state, action)
            yield state, action, after, damage
            observation = None if over else observation
        self._reset()

    def _one(self, state: int, action: int) -> tuple[int, float, float]:
        shown = self._put(state)
        before = state if self.encode is None else self._shown(shown, state, action)
        _, outcome, over = self._step(before, state, action)
        if over:
            self._reset()  # wrappers require it before the next step
        return outcome

    def _put(self, state: int) -> Any:
        """Put the environment into a state; returns the observation there, or None if ``set_state`` does."""
        with Blame(lambda: f"set_state failed for state {state}{SKIPPED}"):
            return self._set_state(self._env, state)

    def _step(self, before: Any, state: int, action: int) -> tuple[Any, tuple[int, float, float], bool]:
        """Play an action; returns the observation, the outcome, and whether the episode is over."""
        observation, reward, terminated, truncated, info = five_values(self._env.step(action))
        hint = "" if terminated else SKIPPED
        after = self._state(observation, f"after state {state}, action {action}{hint}")
        reported = self._damage(before, action, observation, reward, terminated, info)
        damage = as_damage(reported)
        if damage is None:
            remedy = " Is a return missing?" if reported is None and self._damage.function is not None else ""
            raise ModelError(
                f"damage must be an integer 0 … {MAX_DAMAGE}; got {reported!r} after state {state}, action {action}."
                f"{remedy}",
                state=state,
                action=action,
            )
        outcome = self.num_states if terminated else after, float(reward), float(damage)
        return observation, outcome, bool(terminated or truncated)

    def _shown(self, shown: Any, state: int, action: int) -> Any:
        """The observation before the step, as ``set_state`` returned it; checked unless it is None."""
        if shown is None and self._damage.function is not None:
            raise ModelError(
                "set_state must return the observation that the environment shows, since damage is a function of "
                f"observations; it returned None for state {state}.",
                state=state,
                action=action,
            )
        if shown is not None and (found := self._state(shown, f"after set_state({state})")) != state:
            raise ModelError(f"set_state must put the environment into state {state}; encode says that it is {found}")
        return shown

    def _state(self, observation: Any, where: str) -> int:
        """The state of an observation."""
        raw: Any = observation
        if self.encode is not None:
            with Blame(lambda: f"encode failed for the observation {brief(observation)}"):
                raw = self.encode(observation)
        try:
            number = int(raw)
        except (TypeError, ValueError, OverflowError):
            number = -1
        if not 0 <= number < self.num_states or number != raw:
            how = "encode must return" if self.encode is not None else "observations must be"
            raise ModelError(f"{how} states 0 … {self.num_states - 1}; got {brief(raw)} {where}")
        return number

    def _starts(self) -> dict[int | str, float]:
        """The initial states of the environment: those that it lists, or the relative frequencies of resets."""
        listed = _listed_starts(self._env, self.num_states)
        if self.encode is None and listed is not None:
            return listed
        found = Counter(self._start(seed) for seed in range(RESETS))
        if len(found) > 1:
            self.caveat = f"{self.caveat} Its starts were observed in {RESETS} resets.".strip()
        return {state: times / RESETS for state, times in sorted(found.items())}

    def _start(self, seed: int) -> int:
        with Blame(lambda: f"the environment failed at reset(seed={seed})"):
            return self._state(self._reset(seed), f"after reset(seed={seed})")

    def _reset(self, seed: int | None = None) -> Any:
        """Reset the environment and return the observation; damage by a reset is refused, as in a ShieldedEnv."""
        observation, info = two_values(self._env.reset(seed=seed))
        self._damage.check_reset(info)
        return observation


# ---------------------------------------------------------------------- toy text


def _toy_state(env: Any) -> SetState:
    """The function that sets the state of a toy-text environment; ModelError for others, which says what works."""
    inner = env.unwrapped
    if not (hasattr(inner, "P") and hasattr(inner, "initial_state_distrib")):
        raise ModelError(
            f"the state of {env} cannot be set without a function that does it. {without_model(env)} To pass that "
            "function, use EnvSampler(env, set_state, damage)."
        )
    if getattr(inner, "fickle_passenger", False):
        raise ModelError(
            f"{env} has a fickle passenger: what happens depends on more than its state. Make it with "
            "fickle_passenger=False."
        )
    return _set_toy_state


def _set_toy_state(env: Any, state: int) -> None:
    env.unwrapped.s = state


# ---------------------------------------------------------------------- arguments


def _blame(state: int, action: int) -> Blame:
    return Blame(lambda: f"the environment failed at state {state}, action {action}", state=state, action=action)


def _num_states(env: Any, given: int | None, encode: Encode | None) -> int:
    """The number of states that can be observed: as given, or else that of the observation space."""
    encoded = given is not None and encode is not None
    size = None if encoded else discrete_size("observation", getattr(env, "observation_space", None))
    if given is not None:
        return count("num_states", given)
    if size is None:
        raise _not_discrete(env, "observation_space", "num_states and encode")
    return size


def _actions_of(env: Any, given: Actions | None) -> Actions:
    """The given actions, or else all of the action space, which must be numbered from 0 in any case."""
    size = discrete_size("action", getattr(env, "action_space", None))
    if given is not None:
        return given
    if size is None:
        raise _not_discrete(env, "action_space", "actions")
    return size


def _not_discrete(env: Any, name: str, what: str) -> ModelError:
    space = getattr(env, name, None)
    return ModelError(f"the environment's {name} must be discrete, from 0; it is {space}. Give {what}.")
