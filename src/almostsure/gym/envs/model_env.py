"""Gymnasium environments that sample a model: a single one, and a vectorised one.

Observations are state indices and actions are action ids.  ``info`` holds the ``damage`` of the step and the
``action_mask`` of the state after it, in the form that ``Discrete.sample`` takes.  Playing an action that the state
does not have is an error, never a no-op.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, final

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TimeLimit

from almostsure.arguments import count, names_right_word, one_of, whole
from almostsure.errors import ArgumentError, ModelError
from almostsure.gym.autoreset import Infos, Resets, with_columns
from almostsure.gym.envs.render import MODES, Draw, Renderer, Scene, on_map
from almostsure.model.mdp import MDP, Bools, Outcome
from almostsure.model.source import Model, as_model
from almostsure.policy.simulation.streams import running_sums

Numbers = npt.NDArray[np.int64]


@names_right_word
def to_gymnasium(
    model: Model, *, render_mode: str | None = None, max_episode_steps: int | None = None
) -> gymnasium.Env[Any, Any]:
    """A Gymnasium environment that samples the model.

    Parameters
    ----------
    model
        A model, an example's name, or a path.
    render_mode
        ``"ansi"`` for text, ``"rgb_array"`` for pictures or ``"human"`` for a window, if the model has a layout;
        pictures and windows need pygame.
    max_episode_steps
        Truncate episodes after that many steps; by default never, so that episodes may be infinite.

    Examples
    --------
    >>> from almostsure.gym import to_gymnasium
    >>> env = to_gymnasium("corridor")
    >>> state, info = env.reset(seed=0)
    >>> info["action_mask"]
    array([1, 1, 1, 1], dtype=int8)
    >>> state, reward, terminated, truncated, info = env.step(1)
    >>> int(state), reward, info["damage"]
    (1, -1.0, 0)
    """
    limit = None if max_episode_steps is None else count("max_episode_steps", max_episode_steps)
    env = ModelEnv(as_model(model), render_mode=render_mode)
    return env if limit is None else TimeLimit(env, limit)


class _Choice(NamedTuple):
    """The outcomes of a choice, and their cumulative probabilities."""

    cumulated: list[float]
    outcomes: list[Outcome]


@final
class ModelEnv(gymnasium.Env[np.int64, np.int64]):
    """The environment behind :func:`to_gymnasium`.

    ``reset(seed=…)`` seeds the sampling, and ``reset(options={"state": …})`` starts in a given state, by index or
    by name.  ``env.mdp`` is the model.

    Parameters
    ----------
    mdp
        The model.
    render_mode
        ``"ansi"``, ``"rgb_array"``, ``"human"`` or None.
    draw
        A function from states to drawings; by default the model's map, if it has one.

    Examples
    --------
    >>> import almostsure as asure
    >>> env = ModelEnv(asure.example("paper"))
    >>> state, info = env.reset(seed=0)
    >>> env.step(0)[:3]
    (np.int64(0), 1.0, False)
    """

    metadata = {"render_modes": list(MODES), "render_fps": 4}  # noqa: RUF012  # as gymnasium.Env declares it

    def __init__(self, mdp: MDP, *, render_mode: str | None = None, draw: Draw | None = None) -> None:
        mdp.require_probabilities("an environment")
        self.mdp = mdp
        self.render_mode = render_mode
        self.observation_space = Discrete(mdp.num_states)
        self.action_space = Discrete(mdp.num_actions)
        self._renderer: Renderer | None = None
        if render_mode is not None:
            one_of("render mode", render_mode, MODES)
            if draw is None and mdp.layout is not None:
                draw = partial(on_map, mdp.layout)
            if draw is None:
                raise ModelError("a model must have a layout to be drawn; this one has none. Pass render_mode=None.")
            self._renderer = Renderer(draw, render_mode, self.metadata["render_fps"])
        self._is_terminal = mdp.is_terminal()
        self._choices: dict[tuple[int, int], _Choice] = {}  # filled as they are played
        self._masks: dict[int, npt.NDArray[np.int8]] = {}
        self._state: int | None = None
        self._over = self._damaged = False  # damaged: by the last step
        self._last = ""  # the last action's name
        self._damage = 0  # of the episode so far

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Start an episode in the model's initial state, or in ``options["state"]``."""
        super().reset(seed=seed)
        if options and "state" in options:
            self._state = self.mdp.state(options["state"])
        else:
            at = _draw(list(accumulate(self.mdp.initial_probabilities.tolist())), self.np_random)
            self._state = int(self.mdp.initial_states[at])
        self._last, self._damage, self._over, self._damaged = "", 0, False, False
        if self.render_mode == "human":
            self.render()
        return np.int64(self._state), self._info(self._state, 0)

    def step(self, action: Any) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Play an action, by id or name; the state must have it."""
        if self._over:
            raise ResetNeeded("the episode is over; call reset()")
        if self._state is None:
            raise ResetNeeded("call reset() before the first step()")
        try:
            choice = self._choices[self._state, action]
        except (KeyError, TypeError):  # TypeError: an array with one entry
            choice = self._choice(self._state, self.mdp.action(action))
        state, _, reward, damage = choice.outcomes[_draw(choice.cumulated, self.np_random)]
        self._state, self._over = state, bool(self._is_terminal[state])
        self._damage += damage
        if self.render_mode is not None:
            self._last, self._damaged = self.mdp.action_name(self.mdp.action(action)), damage > 0
            if self.render_mode == "human":
                self.render()
        return np.int64(state), reward, self._over, False, self._info(state, damage)

    def _choice(self, state: int, action: int) -> _Choice:
        """The outcomes of an action.  In an initial state that is terminal, every action is a self-loop."""
        played = int(self.mdp.actions(state)[0]) if self._is_terminal[state] else action
        outcomes = self.mdp.outcomes(state, played)
        result = _Choice(list(accumulate(outcome.probability for outcome in outcomes)), outcomes)
        self._choices[state, action] = result
        return result

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The mask of the current state's actions; the method that sb3-contrib calls."""
        if self._state is None:
            raise ResetNeeded("call reset() before action_masks()")
        return self._mask(self._state).astype(np.bool_)

    def _mask(self, state: int) -> npt.NDArray[np.int8]:
        mask = self._masks.get(state)
        if mask is None:
            mask = np.zeros(self.mdp.num_actions, np.int8)
            mask[self.mdp.actions(state)] = 1
            self._masks[state] = mask
        return mask.copy()

    def _info(self, state: int, damage: int) -> dict[str, Any]:
        return {"damage": damage, "action_mask": self._mask(state)}

    def render(self) -> Any:
        """The state as text, as an image of rows × columns × 3 bytes, or in a window."""
        if self._renderer is None:
            gymnasium.logger.warn("render() needs a render_mode: to_gymnasium(model, render_mode='ansi')")
            return None
        if self._state is None:
            raise ResetNeeded("call reset() before render()")
        return self._renderer.show(Scene(self._state, self._last, self._damage, self._damaged))

    def picture(self, state: int, action: int = -1, damage: int = 0, *, hurt: bool = False) -> Any:
        """The rendering of a state after an action (−1 at the start), with the damage of the episode so far."""
        if self._renderer is None:
            raise ArgumentError("the environment has no render mode: make it with render_mode='rgb_array' or 'ansi'")
        return self._renderer.show(Scene(state, "" if action < 0 else self.mdp.action_name(action), damage, hurt))

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._renderer is not None:
            self._renderer.close()


def _draw(cumulated: list[float], rng: np.random.Generator) -> int:
    """A random index; the last one if rounding leaves the sum below the random number."""
    return min(bisect_right(cumulated, rng.random()), len(cumulated) - 1)


@final
class ModelVectorEnv(VectorEnv[Any, Any, Any]):
    """Many environments of one model; the step after the end of an episode begins the next one.

    ``infos`` holds ``damage`` and ``action_mask``, as for :func:`to_gymnasium`.

    Parameters
    ----------
    model
        A model, an example's name, or a path.
    num_envs
        The number of environments.
    max_episode_steps
        Truncate episodes after that many steps; by default never.

    Examples
    --------
    >>> from almostsure.gym import ModelVectorEnv
    >>> envs = ModelVectorEnv("corridor", 3)
    >>> states, infos = envs.reset(seed=0)
    >>> states, rewards, terminated, truncated, infos = envs.step(np.array([1, 1, 2]))
    >>> states, infos["damage"]
    (array([1, 1, 8]), array([0, 0, 0]))
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012  # as Gymnasium has it

    def __init__(self, model: Model, num_envs: int, *, max_episode_steps: int | None = None) -> None:
        self.mdp = as_model(model)
        self.mdp.require_probabilities("an environment")
        self.num_envs, self.render_mode = count("num_envs", num_envs), None
        self.max_episode_steps = None if max_episode_steps is None else count("max_episode_steps", max_episode_steps)
        self.single_observation_space = Discrete(self.mdp.num_states)
        self.single_action_space = Discrete(self.mdp.num_actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._draws, self._resets = Draws(self.mdp), Resets(self)
        self._state, self._steps = np.zeros((2, self.num_envs), np.int64)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Numbers, Infos]:
        """Begin episodes in all environments or in ``options["reset_mask"]``; at ``options["state"]``, if given."""
        self._seed(seed)
        options = options or {}
        selected = self._resets.selected(options)
        starts = self._draws.start(self.num_envs, self.np_random)
        if "state" in options:
            starts[:] = self.mdp.state(options["state"])
        self._state = np.where(selected, starts, self._state)
        self._steps = np.where(selected, 0, self._steps)
        self._resets.finish_reset(selected)
        return self._state.copy(), self._infos(np.zeros(self.num_envs, np.int64), selected)

    def _seed(self, seed: Any) -> None:
        """Seed the generator that all environments share, by one number or by one per environment."""
        if seed is None:
            return
        if isinstance(seed, (int, np.integer)):
            self._np_random, self._np_random_seed = seeding.np_random(int(seed))
        elif np.shape(seed) == (self.num_envs,):
            words = [0 if word is None else whole("seed", word) + 1 for word in seed]
            self._np_random, self._np_random_seed = np.random.default_rng(words), -1  # as Gymnasium says: unknown
        else:
            raise ArgumentError(f"seed must be a whole number, or {self.num_envs} of them; got {seed!r}")

    def step(self, actions: Any) -> tuple[Numbers, npt.NDArray[np.float64], Bools, Bools, Infos]:
        """Play one action in each environment; if its episode is over, begin the next one instead."""
        if self._resets.over is None:
            raise ResetNeeded("call reset() before step()")
        acting = ~self._resets.over
        state, reward, damage = self._draws.step(self._state, np.asarray(actions), acting, self.np_random)
        if not acting.all():
            state = np.where(acting, state, self._draws.start(self.num_envs, self.np_random))
        self._state = state
        self._steps = np.where(acting, self._steps + 1, 0)
        terminated = self._draws.is_terminal[state] & acting
        late = np.zeros_like(terminated) if self.max_episode_steps is None else self._steps >= self.max_episode_steps
        truncated = late & ~terminated
        self._resets.finish_step(terminated | truncated)
        return state.copy(), reward, terminated, truncated, self._infos(damage, self._resets.all_envs)

    def _infos(self, damage: Numbers, selected: Bools) -> Infos:
        return with_columns({}, selected, {"damage": damage, "action_mask": self._draws.has[self._state]})


class Draws:
    """Samples initial states and outcomes of a model, for many environments at once."""

    def __init__(self, mdp: MDP) -> None:
        self.mdp, self.is_terminal = mdp, mdp.is_terminal()
        self._choice = mdp.by_action(np.arange(mdp.num_choices), -1)
        self.has = (self._choice >= 0).astype(np.int8)
        ends = self.is_terminal
        self._choice[ends] = mdp.choice_ptr[:-1][ends, None]  # in a terminal initial state, actions are self-loops
        # The probabilities of a choice add up to 1, so that choice c has the interval c … c + 1 of the real line.
        # If rounding leaves the sum below 1, the last outcome has the rest.
        sums = running_sums(mdp.probability, mdp.outcome_ptr.astype(np.int64))
        self._line = mdp.outcome_choices() + np.minimum(sums, 1.0)
        self._starts = np.cumsum(mdp.initial_probabilities)

    def start(self, number: int, rng: np.random.Generator) -> Numbers:
        """Random initial states."""
        at = np.minimum(np.searchsorted(self._starts, rng.random(number), side="right"), self._starts.size - 1)
        states: Numbers = self.mdp.initial_states[at].astype(np.int64)
        return states

    def step(
        self, state: Numbers, action: npt.NDArray[Any], acting: Bools, rng: np.random.Generator
    ) -> tuple[Numbers, npt.NDArray[np.float64], Numbers]:
        """The next states, rewards and damages; those that are not ``acting`` have reward and damage 0."""
        is_whole = action.shape == state.shape and action.dtype.kind in "iu"
        if not is_whole or not ((action >= 0) & (action < self.mdp.num_actions)).all():
            raise ArgumentError(f"actions must be {state.size} ids 0 … {self.mdp.num_actions - 1}; got {action!r}")
        choice = self._choice[state, action]
        missing = (choice < 0) & acting
        if missing.any():
            at = int(np.argmax(missing))
            self.mdp.choice(int(state[at]), int(action[at]))  # raises, naming the actions that the state has
        choice = np.maximum(choice, 0)
        outcome = np.searchsorted(self._line, choice + rng.random(state.size), side="right")
        outcome = np.minimum(outcome, self.mdp.outcome_ptr[choice + 1] - 1)
        reward = np.where(acting, self.mdp.reward[outcome], 0.0)
        damage = np.where(acting, self.mdp.damage[outcome].astype(np.int64), 0)
        return self.mdp.successor[outcome].astype(np.int64), reward, damage
