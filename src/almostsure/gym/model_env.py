"""A Gymnasium environment that samples a model.

Observations are state indices and actions are action ids.  ``info`` holds the ``damage`` of the step and the
``action_mask`` of the state just reached, in the form that ``Discrete.sample`` takes.  An action that the state does
not have is an error, never a no-op.
"""

from __future__ import annotations

from os import PathLike
from typing import Any, final

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.wrappers import TimeLimit

from almostsure.errors import ArgumentError, ModelError, UnknownName
from almostsure.model.mdp import MDP
from almostsure.model.numbers import whole
from almostsure.model.source import as_model

Image = npt.NDArray[np.uint8]

CELL = 24  # pixels a side
WALL, FLOOR, GOAL, PIT, AGENT = (
    np.array(colour, np.uint8)
    for colour in ((70, 74, 82), (244, 241, 232), (96, 170, 104), (38, 30, 46), (221, 108, 32))
)
SHALLOW, DEEP = np.array([160, 205, 228]), np.array([20, 74, 140])  # the least and the largest damage


def to_gymnasium(
    model: MDP | str | PathLike[str], *, render_mode: str | None = None, max_steps: int | None = None
) -> gymnasium.Env[Any, Any]:
    """A Gymnasium environment that samples the model.

    Parameters
    ----------
    model
        A model, an example's name, or a path.
    render_mode
        ``"ansi"`` for text or ``"rgb_array"`` for pictures, if the model has a layout.
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


@final
class ModelEnv(gymnasium.Env[np.int64, np.int64]):
    """The environment behind :func:`to_gymnasium`.

    ``reset(seed=…)`` seeds the sampling, and ``reset(options={"state": …})`` starts in a given state, by index or
    by name.  ``env.mdp`` is the model.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012  # as gymnasium.Env declares it

    def __init__(self, mdp: MDP, *, render_mode: str | None = None) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UnknownName("render mode", render_mode, self.metadata["render_modes"], "There are: ansi, rgb_array.")
        if render_mode is not None and mdp.layout is None:
            raise ModelError("a model must have a layout to be drawn; this one has none. Pass render_mode=None.")
        self.mdp = mdp
        self.render_mode = render_mode
        self.observation_space = Discrete(mdp.num_states)
        self.action_space = Discrete(mdp.num_actions)
        self._is_terminal = mdp.is_terminal()
        self._background: Image | None = None
        self._state: int | None = None
        self._over = False
        self._last = ""
        self._total = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Start an episode in the model's initial state, or in ``options["state"]``."""
        super().reset(seed=seed)
        if options and "state" in options:
            self._state = self.mdp.state(options["state"])
        else:
            at = _draw(self.mdp.initial_probabilities, self.np_random)
            self._state = int(self.mdp.initial_states[at])
        self._last, self._total, self._over = "", 0, False
        return np.int64(self._state), self._info(0)

    def step(self, action: Any) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Play an action, by id or name; the state must have it."""
        if self._over:
            raise ResetNeeded("the episode is over; call reset()")
        if self._state is None:
            raise ResetNeeded("call reset() before the first step()")
        at = self._sample(self._state, self.mdp.action(action))
        self._state, damage = int(self.mdp.successor[at]), int(self.mdp.damage[at])
        self._over = bool(self._is_terminal[self._state])
        self._last = self.mdp.action_name(self.mdp.action(action))
        self._total += damage
        return np.int64(self._state), float(self.mdp.reward[at]), self._over, False, self._info(damage)

    def _sample(self, state: int, action: int) -> int:
        """A random outcome.  In a start that is terminal already, any action leads nowhere."""
        choice = self.mdp.choices(state)[0] if self._is_terminal[state] else self.mdp.choice(state, action)
        begin, end = self.mdp.outcome_ptr[choice : choice + 2].tolist()
        return int(begin) + _draw(self.mdp.probability[begin:end], self.np_random)

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which actions the current state has, as sb3-contrib asks for it."""
        if self._state is None:
            raise ResetNeeded("call reset() before action_masks()")
        mask = np.zeros(self.mdp.num_actions, np.bool_)
        mask[self.mdp.actions(self._state)] = True
        return mask

    def _info(self, damage: int) -> dict[str, Any]:
        return {"damage": damage, "action_mask": self.action_masks().astype(np.int8)}

    # ------------------------------------------------------------------ drawing

    def render(self) -> Any:
        """The map with the agent on it, as text or as an image of rows × columns × 3 bytes."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs a render_mode: to_gymnasium(model, render_mode='ansi')")
            return None
        if self._state is None:
            raise ResetNeeded("call reset() before render()")
        return self._text() if self.render_mode == "ansi" else self._picture()

    def _text(self) -> str:
        assert self.mdp.layout is not None  # checked when the environment was made
        rows = [list(row) for row in self.mdp.layout.text]
        place = self.mdp.layout.place(self._state or 0)
        if place is not None:
            rows[place[0]][place[1]] = "@"
        status = f"{self._last or 'start'}, damage so far {self._total}"
        return "\n".join([*("".join(row) for row in rows), status])

    def _picture(self) -> Image:
        assert self.mdp.layout is not None
        if self._background is None:
            self._background = _background(self.mdp)
        picture = self._background.copy()
        place = self.mdp.layout.place(self._state or 0)
        if place is not None:
            top, left = (CELL * x for x in place)
            away = (np.arange(CELL) - CELL / 2) ** 2
            picture[top : top + CELL, left : left + CELL][away + away[:, None] <= (0.34 * CELL) ** 2] = AGENT
        return picture


def _draw(probabilities: npt.NDArray[np.float64], rng: np.random.Generator) -> int:
    """A random index.  The last one takes what rounding leaves over."""
    cumulated = np.cumsum(probabilities)
    return min(int(np.searchsorted(cumulated, rng.random(), side="right")), probabilities.size - 1)


def _background(mdp: MDP) -> Image:
    """The map without the agent: walls, floor, water the darker the more it hurts, pits and goals."""
    layout = mdp.layout
    assert layout is not None
    colours = np.tile(WALL, (layout.rows * layout.columns, 1))
    drawn = np.flatnonzero(layout.cell >= 0)
    hurts = np.zeros(mdp.num_states)
    np.maximum.at(hurts, mdp.successor, mdp.damage)
    depth = ((hurts - 1) / max(mdp.max_damage - 1, 1))[drawn, None]
    water = SHALLOW + depth * (DEEP - SHALLOW)
    colour = np.where(hurts[drawn, None] > 0, water, FLOOR)
    colour[_is_pit(mdp)[drawn]] = PIT
    colour[mdp.is_terminal()[drawn]] = GOAL
    colours[layout.cell[drawn]] = colour.astype(np.uint8)
    picture = colours.reshape(layout.rows, layout.columns, 3).repeat(CELL, axis=0).repeat(CELL, axis=1)
    picture[::CELL] = picture[:, ::CELL] = WALL  # thin lines between the cells
    return picture


def _is_pit(mdp: MDP) -> npt.NDArray[np.bool_]:
    """Which states can never be left and hurt."""
    state = np.repeat(mdp.choice_states(), np.diff(mdp.outcome_ptr))
    stays = (mdp.successor == state) & (mdp.damage > 0)
    return np.asarray(np.logical_and.reduceat(stays, mdp.outcome_ptr[mdp.choice_ptr[:-1]]))
