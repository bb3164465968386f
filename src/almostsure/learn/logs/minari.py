"""Minari datasets: episodes with T actions, T + 1 observations and, if infos were recorded, T + 1 of these.

Info 0 is that of the reset; the damage of step t is in info t + 1.  Minari itself is not imported: an object with
``iterate_episodes`` is taken for a dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import ModelError, UnknownName
from almostsure.learn.logs.columns import NAMES, Piece, encoded
from almostsure.learn.logs.read import CHUNK, Columns
from almostsure.model.space import Encode

DAMAGE = ("damage", "cumulative_damage")


def is_dataset(log: Any) -> bool:
    """Whether a log is a Minari dataset."""
    return hasattr(log, "iterate_episodes")


def is_episode(log: Any) -> bool:
    """Whether a log is one episode of a Minari dataset."""
    return all(hasattr(log, name) for name in ("observations", "actions", "terminations", "infos"))


def space_size(dataset: Any, name: str) -> int | None:
    """The number of states or actions in a dataset's space; None if it is not discrete or does not begin with 0."""
    space = getattr(dataset, name, None)
    size = getattr(space, "n", None)
    return int(size) if isinstance(size, (int, np.integer)) and not getattr(space, "start", 0) else None


def read_episodes(episodes: Any, columns: Columns, encode: Encode | None) -> Iterator[Piece]:
    """The pieces of a dataset, of several episodes each."""
    waiting: list[dict[str, npt.NDArray[Any]]] = []
    size = 0
    for episode in episodes:
        one = _columns(episode, columns, encode)
        if waiting and one.keys() != waiting[0].keys():
            raise ModelError(
                f"all episodes must have the same infos about damage; those of episode {int(episode.id)} differ from "
                "those before it. Learn from episodes that agree."
            )
        waiting.append(one)
        size += one["action"].size
        if size >= CHUNK:
            yield _together(waiting)
            waiting, size = [], 0
    if size:
        yield _together(waiting)


def _together(episodes: list[dict[str, npt.NDArray[Any]]]) -> Piece:
    columns = {name: np.concatenate([one[name] for one in episodes]) for name in episodes[0]}
    episode, step = columns["episode"], columns["step"]
    return Piece(columns, lambda i: f"step {step[i]} of episode {episode[i]}", is_encoded=True)


def _columns(episode: Any, columns: Columns, encode: Encode | None) -> dict[str, npt.NDArray[Any]]:
    name, actions = int(episode.id), np.asarray(episode.actions)
    size = len(episode.rewards)
    if actions.ndim != 1 or actions.dtype.kind not in "iu":
        raise ModelError(
            f"actions must be integers; those of episode {name} are of {actions.dtype}, shape {list(actions.shape)}"
        )
    states = _states(episode.observations, size, name, encode)
    return {
        "state": states[:-1], "next_state": states[1:], "action": actions, "reward": np.asarray(episode.rewards),
        "terminated": np.asarray(episode.terminations), "truncated": np.asarray(episode.truncations),
        "episode": np.full(size, name), "step": np.arange(size),
        **_damages(episode, columns, size),
    }  # fmt: skip


# ---------------------------------------------------------------------- observations


def _states(observations: Any, size: int, name: int, encode: Encode | None) -> npt.NDArray[Any]:
    if encode is not None:
        each = [_at(observations, t) for t in range(_length(observations))]
        states = np.asarray(encoded("observation", each, encode, lambda t: f"step {t} of episode {name}"))
    else:
        states = np.asarray(observations) if not isinstance(observations, (Mapping, tuple)) else np.zeros((0, 0))
        if states.ndim != 1 or states.dtype.kind not in "iu":
            raise ModelError(
                f"observations must be integers; those of episode {name} are not. "
                "Pass encode=, a function that numbers them."
            )
    if len(states) != size + 1:
        raise ModelError(f"episode {name} must have one observation more than steps; got {len(states)} and {size}")
    return states


def _at(observations: Any, t: int) -> Any:
    """Observation t, from arrays that may be nested in mappings and tuples."""
    if isinstance(observations, Mapping):
        return {key: _at(value, t) for key, value in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_at(value, t) for value in observations)
    return observations[t]


def _length(observations: Any) -> int:
    if isinstance(observations, Mapping):
        observations = tuple(observations.values())
    return _length(observations[0]) if isinstance(observations, tuple) else len(observations)


# ---------------------------------------------------------------------- damage


def _damages(episode: Any, columns: Columns, size: int) -> dict[str, npt.NDArray[Any]]:
    """The damage and the cumulative damage of each step, as far as the infos of an episode hold them."""
    wanted, there = dict(columns or {}), _flat(episode.infos or {})
    for ours in wanted:
        if ours not in DAMAGE:
            raise UnknownName("key of columns", ours, DAMAGE, "For a dataset, only the damage can be named.")
    name, found = int(episode.id), {}
    remedy = f"Episode {name} has: {', '.join(there) or 'none; record them with record_infos=True'}."
    for ours in DAMAGE:
        keys = [wanted[ours]] if ours in wanted else [name for name in NAMES[ours] if name in there]
        if ours in wanted and wanted[ours] not in there:
            raise UnknownName("key of infos", wanted[ours], there, remedy)
        if any(not np.array_equal(there[keys[0]], there[key]) for key in keys[1:]):  # DamageTracker writes it twice
            raise ModelError(
                f"infos {keys[0]!r} and {keys[1]!r} could both be the {ours}, and they differ; name one with columns="
            )
        if keys:
            found[ours] = _damage(np.asarray(there[keys[0]]), ours, keys[0], size, name)
    if not found:
        raise UnknownName("key of infos", "damage", there, f"{remedy} Name one with columns={{'damage': …}}.")
    return found


def _flat(infos: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The arrays of infos by name; those of an inner mapping as ``outer/inner``."""
    result: dict[str, Any] = {}
    for key, value in infos.items():
        result.update(_flat(value, f"{prefix}{key}/") if isinstance(value, Mapping) else {f"{prefix}{key}": value})
    return result


def _damage(values: npt.NDArray[Any], ours: str, key: str, size: int, name: int) -> npt.NDArray[Any]:
    if values.ndim != 1 or values.size not in (size, size + 1):
        raise ModelError(
            f"infos[{key!r}] must hold one number per step, and one for the reset; episode {name} has {size} steps and "
            f"infos of shape {list(values.shape)}"
        )
    if values.size == size:
        return values
    if values[0] != 0 and values[0] == values[0]:
        raise ModelError(
            f"{ours} must be 0 before the first step; infos[{key!r}] of episode {name} has {values[0]} there"
        )
    return values[1:]
