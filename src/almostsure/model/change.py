"""Replacing the damage or the reward of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError, ModelError
from almostsure.model.build.transitions import build
from almostsure.model.labels import traps
from almostsure.model.mdp import MDP, Floats
from almostsure.model.umb.foreign import Scale, as_scale, scaled

Given = str | Mapping[str, float] | npt.ArrayLike | Callable[[int, int, int, float, bool], float]


def with_damage(mdp: MDP, damage: Given, scale: Scale | None = None) -> MDP:
    """See :meth:`almostsure.MDP.with_damage`."""
    values = scaled(per_outcome(mdp, damage, "damage"), scale)
    unit = Fraction(1) if scale is None else as_scale(scale)
    return _rebuilt(mdp, damage=values, reward=mdp.reward, unit=unit)


def with_reward(mdp: MDP, reward: Given) -> MDP:
    """See :meth:`almostsure.MDP.with_reward`."""
    return _rebuilt(mdp, damage=mdp.damage, reward=per_outcome(mdp, reward, "reward"), unit=mdp.origin.scale)


def _rebuilt(mdp: MDP, *, damage: npt.NDArray[Any], reward: Floats, unit: Fraction) -> MDP:
    columns = mdp.columns()
    terminal = mdp.is_terminal()[columns.state]  # terminal states stay terminal
    trap = traps(mdp.labels, mdp.num_states, mdp.unknown)[columns.state]  # these keep their damage
    damage = np.where(trap, mdp.damage, np.where(terminal, 0, damage))
    return build(
        columns._replace(reward=np.where(terminal, 0.0, reward), damage=damage),
        num_states=mdp.num_states,
        initial=mdp.starts,
        **mdp.naming(),
        origin=mdp.origin.derived(scale=unit, parts=None),
    )


def per_outcome(mdp: MDP, given: Any, what: str) -> Floats:
    """One number per outcome, [num_outcomes], from any form that users may give."""
    if isinstance(given, str):
        given = {given: 1}
    if isinstance(given, Mapping) and not given:
        raise ArgumentError(f"{what} must name one or more labels; got none")
    if isinstance(given, Mapping):
        parts = [float(value) * mdp.label(name)[mdp.successor] for name, value in given.items()]
        added: Floats = np.sum(parts, axis=0, dtype=np.float64)
        return added
    if callable(given):
        values = np.array(_called(mdp, given, what), np.float64)
    else:
        try:
            values = np.asarray(given, np.float64)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{what} must be a label, numbers or a function; got {given!r}") from error
        values = np.full(mdp.num_outcomes, values) if values.ndim == 0 else values
    if values.shape != (mdp.num_outcomes,):
        raise ModelError(f"{what} must be one number per outcome ({mdp.num_outcomes}); got shape {values.shape}")
    return values


def _called(mdp: MDP, function: Callable[..., float], what: str) -> list[float]:
    state, action, after, _, reward, _ = mdp.columns()
    columns = state, action, after, reward, mdp.is_terminal()[after]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    try:
        return [float(function(*row)) for row in rows]
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"{what} must be a function of (state, action, next_state, reward, terminated) to a number; {error}"
        ) from error
