"""The environment's own rendering of the recorded episodes.

For each step of a recorded episode, the environment is set to the state and rendered.  This needs an environment of
this package, or one with its state in ``env.unwrapped.s`` and a table ``P``, like Gymnasium's toy-text environments;
then every rendered step must be in the table.  Other environments cannot be set to a state, and running them again
would lead to other states.  For these, and for environments without pictures, the page says why there are none.
"""

from __future__ import annotations

import base64
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.errors import AlmostSureError, ArgumentError, ModelMismatch
from almostsure.model.build.damage import known_damage
from almostsure.model.mdp import MDP
from almostsure.policy.simulation.episodes import Trajectory

MODE = "rgb_array"
PNG = b"\x89PNG\r\n\x1a\n"  # the signature of PNG files
MOST_PICTURES = 300  # distinct pictures in a file
MOST_BYTES = 3_000_000  # of all pictures together
LONGEST_SIDE = 800  # pixels; of larger pictures every second, third, … pixel is used
QUIET = {"PYGAME_HIDE_SUPPORT_PROMPT": "1", "SDL_VIDEODRIVER": "dummy"}  # no output, and no window

Image = npt.NDArray[np.uint8]  # [rows, columns, 3]


class Moment(NamedTuple):
    """A state of an episode, with the last step."""

    state: int
    before: int = -1  # the state before
    action: int = -1
    damage: int = 0  # of the episode so far
    damaged: bool = False  # whether the last step did damage


Render = Callable[[Moment], Image]


class Album:
    """The distinct pictures of a report; ``note`` gives the reason if there are none, or not all."""

    def __init__(self, mdp: MDP, env: Any = None) -> None:
        self.note = ""
        self._base, self._state = _without_monitors(mdp)
        self._pictures: dict[str, int] = {}  # PNG files in base64, and their numbers
        self._number: dict[Moment, int] = {}
        self._made: Any = None  # an environment that was made here, and is closed here
        self._render: Render | None = None
        if env is not None:
            self._open(env)

    def _open(self, env: Any) -> None:
        if isinstance(env, Mapping):
            env = self._made = self._or_note(_make(env))
        elif not hasattr(env, "render_mode"):
            raise ArgumentError(f"env must be a Gymnasium environment, or the arguments that make one; got {env!r}")
        elif env.render_mode != MODE:
            env = self._or_note(f"it was made without render_mode={MODE!r}")
        if env is not None:
            self._render = self._or_note(_renderer(env, self._base))

    def _or_note(self, found: Any) -> Any:
        """The argument itself, unless it is a string: that is the reason why there is none, for the note."""
        if isinstance(found, str):
            self.note = f"The environment's own pictures: {found}."
            return None
        return found

    @property
    def pictures(self) -> list[str]:
        """PNG files in base64."""
        return list(self._pictures)

    def close(self) -> None:
        """Close the environment, if it was made here."""
        if self._made is not None:
            self._made.close()

    def frames(self, path: Trajectory, steps: int) -> list[int] | None:
        """The number of the picture of the start and of each step, −1 for none; None if there are no pictures."""
        if self._render is None:
            return None
        with _quiet():
            return [self._frame(moment) for moment in self._moments(path, steps)]

    def _moments(self, path: Trajectory, steps: int) -> Iterator[Moment]:
        """The moments of an episode, in states of the environment's model."""
        states = self._state[path.states[: steps + 1]].tolist()
        spent = np.cumsum(path.damages).tolist()
        yield Moment(states[0])
        for t, after in enumerate(states[1:]):
            yield Moment(after, states[t], int(path.actions[t]), spent[t], bool(path.damages[t]))

    def _frame(self, moment: Moment) -> int:
        if moment not in self._number:
            text = self._rendered(moment)
            self._number[moment] = self._pictures.setdefault(text, len(self._pictures)) if text else -1
        return self._number[moment]

    def _rendered(self, moment: Moment) -> str:
        """The picture in base64; empty for states that the environment does not have, and if the file is full."""
        if self._render is None or moment.state < 0:
            return ""
        if len(self._pictures) >= MOST_PICTURES or sum(map(len, self._pictures)) >= MOST_BYTES:
            self._or_note(f"this file has {len(self._pictures)} of them; later steps have none")
            return ""
        try:
            return base64.b64encode(png(self._render(moment))).decode("ascii")
        except AlmostSureError:
            raise
        except Exception as error:  # a user's renderer may raise anything
            self._render = self._or_note(f"it could not be rendered ({error})")
            return ""


def _without_monitors(mdp: MDP) -> tuple[MDP, npt.NDArray[np.int64]]:
    """The model without monitors, and its state for each state of ``mdp``; −1 for none."""
    state = np.arange(mdp.num_states)
    while (parts := mdp.origin.parts) is not None:
        state = np.where(state < 0, -1, parts.states[state])
        mdp = parts.base
    return mdp, state


# ---------------------------------------------------------------------- environments


def _make(options: Mapping[str, Any]) -> Any:
    """The environment of ``gymnasium.make(**options)`` with pictures, or the reason why there is none."""
    import gymnasium

    try:
        with _quiet():
            with closing(gymnasium.make(**options)) as plain:
                modes = plain.metadata.get("render_modes", [])
            if MODE in modes:
                return gymnasium.make(**options, render_mode=MODE)
    except Exception as error:  # a user's environment may raise anything
        return f"{options.get('id')} could not be made with them ({error})"
    return f"{options['id']} has no render mode {MODE}"


def _renderer(env: Any, mdp: MDP) -> Render | str:
    """The function that renders states of a model, or the reason why there is none."""
    from almostsure.gym.envs.model_env import ModelEnv

    inner = env.unwrapped
    if isinstance(inner, ModelEnv):
        if inner.mdp.fingerprint != mdp.fingerprint:
            raise ModelMismatch("env must be an environment of the report's model; it is one of another model")
        return lambda moment: inner.picture(moment.state, moment.action, moment.damage, hurt=moment.damaged)
    with _quiet():
        start, _ = inner.reset(seed=0)
    table: Any = getattr(inner, "P", None)
    state: Any = getattr(inner, "s", None)
    if table is None or state is None or not np.array_equal(state, start):
        return "it cannot be set to the states of a recorded run"
    return partial(_from_table, inner, table, mdp)


def _from_table(env: Any, table: Any, mdp: MDP, moment: Moment) -> Image:
    """The picture after a step, which must be in the environment's table."""
    state = moment.state
    if moment.before >= 0:
        outcomes = [outcome for outcome in table[moment.before][moment.action] if outcome[0] > 0]
        if state == mdp.end:  # one state for all ends of episodes
            state = _end(env, outcomes, moment)
        if state != moment.before and all(after != state for _, after, _, _ in outcomes):
            step = f"{mdp.action_name(moment.action)} from {mdp.state_name(moment.before)}"
            raise ModelMismatch(
                f"env must be an environment of the report's model; in its table, {step} does not lead to "
                f"{mdp.state_name(moment.state)}"
            )
    env.s, env.lastaction = state, None if moment.action < 0 else moment.action
    image: Image = env.render()
    return image


def _end(env: Any, outcomes: list[Any], moment: Moment) -> int:
    """The state in which an episode ended; the state before if the table and the damage do not determine it."""
    damage = known_damage(env)
    ends = {
        after for _, after, reward, ended in outcomes
        if ended
        and (damage is None or (damage(moment.before, moment.action, after, reward, True) > 0) == moment.damaged)
    }  # fmt: skip
    return ends.pop() if len(ends) == 1 else moment.before


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep pygame from opening windows and printing."""
    added = [name for name in QUIET if name not in os.environ]
    os.environ.update({name: QUIET[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


# ---------------------------------------------------------------------- files


def png(image: npt.ArrayLike) -> bytes:
    """An image of rows × columns × 3 bytes as a PNG file."""
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise ValueError(f"a picture must be rows × columns × 3 bytes; got {pixels.dtype} of shape {pixels.shape}")
    every = -(-max(pixels.shape[:2]) // LONGEST_SIDE)
    pixels = np.ascontiguousarray(pixels[::every, ::every])
    height, width = pixels.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # the first byte of a row is its filter, 0 for none
    rows[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits for each of three colours
    return PNG + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
