"""What the environment itself draws of the recorded episodes.

A picture belongs to one step of a run that the page plays: the environment is put into the state that the run is in,
and draws it.  That needs an environment of this package, or one that keeps its state in ``env.unwrapped.s`` beside a
table ``P``, as Gymnasium's own toy environments do; then every drawn step is looked up in the table.  Other
environments could only be played again, and chance would lead them elsewhere: for these, and for those that draw no
pictures, the page says so.
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
PNG = b"\x89PNG\r\n\x1a\n"  # how the files begin
MOST_PICTURES = 300  # different ones in a file
MOST_BYTES = 3_000_000  # of all of them
LONGEST_SIDE = 800  # pixels; of a larger picture every second, third, … is kept
QUIET = {"PYGAME_HIDE_SUPPORT_PROMPT": "1", "SDL_VIDEODRIVER": "dummy"}  # nothing on stdout, and no window

Image = npt.NDArray[np.uint8]  # [rows, columns, 3]


class Moment(NamedTuple):
    """Where a run is, and how it came there."""

    state: int
    before: int = -1
    action: int = -1
    damage: int = 0  # so far
    hurt: bool = False  # by the last step


Paint = Callable[[Moment], Image]


class Album:
    """The pictures of a report, each once; ``note`` says why there are none, or not all."""

    def __init__(self, mdp: MDP, env: Any = None) -> None:
        self.note = ""
        self._base, self._state = _without_monitors(mdp)
        self._pictures: dict[str, int] = {}  # PNG files in base64, and their numbers
        self._number: dict[Moment, int] = {}
        self._made: Any = None  # an environment that is closed here, because it was made here
        self._paint: Paint | None = None
        if env is not None:
            self._open(env)

    def _open(self, env: Any) -> None:
        if isinstance(env, Mapping):
            env = self._made = self._or_note(_make(env))
        elif not hasattr(env, "render_mode"):
            raise ArgumentError(f"env must be a Gymnasium environment, or the arguments that make one; got {env!r}")
        elif env.render_mode != MODE:
            env = self._or_note(f"it draws none, as it was made without render_mode={MODE!r}")
        if env is not None:
            self._paint = self._or_note(_painter(env, self._base))

    def _or_note(self, found: Any) -> Any:
        """What was found; nothing, and the note, where it is a sentence that says why there is nothing."""
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
        """For the start and each step of a run the number of its picture, −1 where it has none; None without any."""
        if self._paint is None:
            return None
        with _quiet():
            return [self._frame(moment) for moment in self._moments(path, steps)]

    def _moments(self, path: Trajectory, steps: int) -> Iterator[Moment]:
        """The start and the steps of a run, in states of the environment's model."""
        states = self._state[path.states[: steps + 1]].tolist()
        spent = np.cumsum(path.damages).tolist()
        yield Moment(states[0])
        for t, after in enumerate(states[1:]):
            yield Moment(after, states[t], int(path.actions[t]), spent[t], bool(path.damages[t]))

    def _frame(self, moment: Moment) -> int:
        if moment not in self._number:
            text = self._drawn(moment)
            self._number[moment] = self._pictures.setdefault(text, len(self._pictures)) if text else -1
        return self._number[moment]

    def _drawn(self, moment: Moment) -> str:
        """A picture; nothing for a state that the environment does not have, and once the file has enough."""
        if self._paint is None or moment.state < 0:
            return ""
        if len(self._pictures) >= MOST_PICTURES or sum(map(len, self._pictures)) >= MOST_BYTES:
            self._or_note(f"this file has {len(self._pictures)} of them, and later steps have none")
            return ""
        try:
            return base64.b64encode(png(self._paint(moment))).decode("ascii")
        except AlmostSureError:
            raise
        except Exception as error:  # whatever somebody else's renderer may raise
            self._paint = self._or_note(f"it could not draw itself ({error})")
            return ""


def _without_monitors(mdp: MDP) -> tuple[MDP, npt.NDArray[np.int64]]:
    """The model without what monitors remember, and for each state the one that it has there; −1 for none."""
    state = np.arange(mdp.num_states)
    while (parts := mdp.origin.parts) is not None:
        state = np.where(state < 0, -1, parts.states[state])
        mdp = parts.base
    return mdp, state


# ---------------------------------------------------------------------- environments


def _make(options: Mapping[str, Any]) -> Any:
    """The environment that ``gymnasium.make(**options)`` makes, with pictures; or why it has none."""
    import gymnasium

    try:
        with _quiet():
            with closing(gymnasium.make(**options)) as plain:
                modes = plain.metadata.get("render_modes", [])
            if MODE in modes:
                return gymnasium.make(**options, render_mode=MODE)
    except Exception as error:  # whatever somebody else's environment may raise
        return f"{options.get('id')} could not be made with them ({error})"
    return f"{options['id']} has no render mode {MODE}"


def _painter(env: Any, mdp: MDP) -> Paint | str:
    """What draws the states of a model; or why the environment cannot be put into them."""
    from almostsure.gym.envs.model_env import ModelEnv

    inner = env.unwrapped
    if isinstance(inner, ModelEnv):
        if inner.mdp.fingerprint != mdp.fingerprint:
            raise ModelMismatch("env must be an environment of the report's model; it is one of another model")
        return lambda moment: inner.picture(moment.state, moment.action, moment.damage, hurt=moment.hurt)
    with _quiet():
        start, _ = inner.reset(seed=0)
    table: Any = getattr(inner, "P", None)
    state: Any = getattr(inner, "s", None)
    if table is None or state is None or not np.array_equal(state, start):
        return "it cannot be put into the states of a recorded run"
    return partial(_from_table, inner, table, mdp)


def _from_table(env: Any, table: Any, mdp: MDP, moment: Moment) -> Image:
    """The picture after a step, which must be in the environment's table."""
    state = moment.state
    if moment.before >= 0:
        outcomes = [outcome for outcome in table[moment.before][moment.action] if outcome[0] > 0]
        if state == mdp.end:  # which stands for all states in which an episode ends
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
    """Where an episode ended; where it was before if the table and the damage leave that open."""
    hurts = known_damage(env)
    ends = {
        after for _, after, reward, ended in outcomes
        if ended and (hurts is None or (hurts(moment.before, moment.action, after, reward, True) > 0) == moment.hurt)
    }  # fmt: skip
    return ends.pop() if len(ends) == 1 else moment.before


@contextmanager
def _quiet() -> Iterator[None]:
    """Drawing opens no window and prints nothing."""
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
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits for each of three colours
    return PNG + _piece(b"IHDR", head) + _piece(b"IDAT", zlib.compress(rows.tobytes(), 9)) + _piece(b"IEND", b"")


def _piece(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
