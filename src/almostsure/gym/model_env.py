"""A Gymnasium environment that samples a model.

Observations are state indices and actions are action ids.  ``info`` holds the ``damage`` of the step and the
``action_mask`` of the state just reached, in the form that ``Discrete.sample`` takes.  An action that the state does
not have is an error, never a no-op.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from os import PathLike
from typing import Any, NamedTuple, final

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.wrappers import TimeLimit

from almostsure.arguments import whole
from almostsure.errors import ArgumentError, ModelError, UnknownName
from almostsure.gym.painters import MapPainter, Painter, Scene
from almostsure.gym.window import Window
from almostsure.model.mdp import MDP, Outcome
from almostsure.model.source import as_model

MODES = ("ansi", "rgb_array", "human")


def to_gymnasium(
    model: MDP | str | PathLike[str], *, render_mode: str | None = None, max_steps: int | None = None
) -> gymnasium.Env[Any, Any]:
    """A Gymnasium environment that samples the model.

    Parameters
    ----------
    model
        A model, an example's name, or a path.
    render_mode
        ``"ansi"`` for text, ``"rgb_array"`` for pictures or ``"human"`` for a window (that needs pygame), if the model
        has a layout.
    max_steps
        Truncate episodes after so many steps; never by default, so an episode need not end.

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
    if max_steps is not None and whole("max_steps", max_steps) < 1:
        raise ArgumentError(f"max_steps must be 1 or more, or None; got {max_steps}")
    env = ModelEnv(as_model(model), render_mode=render_mode)
    return env if max_steps is None else TimeLimit(env, max_steps)


class _Choice(NamedTuple):
    """The outcomes of a choice, ready to be drawn from."""

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
    painter
        Who draws it; by default its map, where it has one.
    """

    metadata = {"render_modes": list(MODES), "render_fps": 4}  # noqa: RUF012  # as gymnasium.Env declares it

    def __init__(self, mdp: MDP, *, render_mode: str | None = None, painter: Painter | None = None) -> None:
        if render_mode is not None and render_mode not in MODES:
            raise UnknownName("render mode", render_mode, MODES, f"There are: {', '.join(MODES)}.")
        if render_mode is not None and mdp.layout is None and painter is None:
            raise ModelError("a model must have a layout to be drawn; this one has none. Pass render_mode=None.")
        self.mdp = mdp
        self.render_mode = render_mode
        self.observation_space = Discrete(mdp.num_states)
        self.action_space = Discrete(mdp.num_actions)
        self._painter = painter or (None if mdp.layout is None else MapPainter(mdp))
        self._window = Window("almostsure", self.metadata["render_fps"]) if render_mode == "human" else None
        self._is_terminal = mdp.is_terminal()
        self._choices: dict[tuple[int, int], _Choice] = {}  # filled as they are played
        self._masks: dict[int, npt.NDArray[np.int8]] = {}
        self._state: int | None = None
        self._over = self._hurt = False
        self._last = ""
        self._budget = 0

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
        self._last, self._budget, self._over, self._hurt = "", 0, False, False
        if self._window is not None:
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
        self._budget += damage
        if self.render_mode is not None:
            self._last, self._hurt = self.mdp.action_name(self.mdp.action(action)), damage > 0
            if self._window is not None:
                self.render()
        return np.int64(state), reward, self._over, False, self._info(state, damage)

    def _choice(self, state: int, action: int) -> _Choice:
        """What an action may lead to.  In a start that is terminal already, any action leads nowhere."""
        played = int(self.mdp.actions(state)[0]) if self._is_terminal[state] else action
        outcomes = self.mdp.outcomes(state, played)
        result = _Choice(list(accumulate(outcome.probability for outcome in outcomes)), outcomes)
        self._choices[state, action] = result
        return result

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which actions the current state has, as sb3-contrib asks for it."""
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
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs a render_mode: to_gymnasium(model, render_mode='ansi')")
            return None
        if self._state is None:
            raise ResetNeeded("call reset() before render()")
        assert self._painter is not None  # checked when the environment was made
        scene = Scene(self._state, self._last, self._budget, self._hurt)
        if self.render_mode == "ansi":
            return self._painter.text(scene)
        picture = self._painter.picture(scene)
        if self._window is None:
            return picture
        return self._window.show(picture)

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()


def _draw(cumulated: list[float], rng: np.random.Generator) -> int:
    """A random index.  The last one takes what rounding leaves over."""
    return min(bisect_right(cumulated, rng.random()), len(cumulated) - 1)
