"""Ready abstractions: environments of Gymnasium, and systems of the symbolic-control literature.

The dynamics of an environment use the same order of operations as Gymnasium, so that the enclosures hold for its
float64 results too, and not only in real arithmetic.  Its float32 observations are enclosed as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from almostsure.abstract.abstraction import Abstraction, abstract
from almostsure.abstract.grid import Grid
from almostsure.abstract.known.systems import SYSTEMS, State, System
from almostsure.errors import UnknownName

Pattern = int | Sequence[Sequence[int]] | None


def known(name: str, *, grid: Grid | None = None, pattern: Pattern = None) -> Abstraction:
    """The abstraction of a known system, with its default grid and patterns unless others are given."""
    if name not in KNOWN:
        raise UnknownName(
            "system", name, KNOWN, f"There are {', '.join(KNOWN)}; for others use abstract(step, grid, actions, …)."
        )
    system = KNOWN[name]
    chosen = system.get("pattern") if pattern is None else pattern
    return abstract(**system | {"name": name, "grid": grid or system["grid"], "pattern": chosen})


# ---------------------------------------------------------------------- CartPole

TILT = 12 * 2 * math.pi / 360  # radians at which the pole has fallen


def cart_pole_step(state: State, action: int) -> State:
    """Gymnasium's CartPole, Euler steps of 0.02 s; action 1 pushes right."""
    gravity, total, length, mass, tau = 9.8, 0.1 + 1.0, 0.5, 0.1, 0.02
    mass_length = mass * length
    x, speed, angle, turn = state
    force = 10.0 if action == 1 else -10.0
    cosine, sine = np.cos(angle), np.sin(angle)
    push = (force + mass_length * np.square(turn) * sine) / total
    turning = (gravity * sine - cosine * push) / (length * (4.0 / 3.0 - mass * np.square(cosine) / total))
    pushing = push - mass_length * turning * cosine / total
    return x + tau * speed, speed + tau * pushing, angle + tau * turn, turn + tau * turning


# The pole never falls and the cart never leaves the track; both would end the episode, so they are forbidden.
CART_POLE: System = dict(
    step=cart_pole_step,
    grid=Grid((-2.4, -2.0, -0.2094, -2.5), (2.4, 2.0, 0.2094, 2.5), (60, 40, 40, 40),
              names=("position", "velocity", "angle", "angular velocity")),
    actions=[0, 1],
    forbidden=lambda s: (s[0] < -2.4) | (s[0] > 2.4) | (s[2] < -TILT) | (s[2] > TILT),
    pattern=5,
    observation_error="float32",
    initial=((-0.05,) * 4, (0.05,) * 4),
    action_names=("left", "right"),
)  # fmt: skip


# ---------------------------------------------------------------------- MountainCar


def mountain_car_step(state: State, action: int) -> State:
    """Gymnasium's MountainCar; the actions push left, not at all, or right."""
    position, velocity = state
    velocity = velocity + ((action - 1) * 0.001 + np.cos(3 * position) * (-0.0025))
    velocity = np.clip(velocity, -0.07, 0.07)
    position = np.clip(position + velocity, -1.2, 0.6)
    return position, np.where((position <= -1.2) & (velocity < 0), 0.0, velocity)


# Arrival at the flag: the minimal budget is the number of steps that suffice from every state of a cell.
MOUNTAIN_CAR: System = dict(
    step=mountain_car_step,
    grid=Grid((-1.201, -0.0701), (0.601, 0.0701), (600, 400), names=("position", "velocity")),
    actions=[0, 1, 2],
    goal=lambda s: (s[0] >= 0.5) & (s[1] >= 0.0),
    pattern=[(push,) * length for length in (1, 5, 12) for push in (0, 2)],
    observation_error="float32",
    initial=((-0.6, 0.0), (-0.4, 0.0)),
    action_names=("left", "none", "right"),
)


# ---------------------------------------------------------------------- Pendulum

TORQUES = (-2.0, -1.0, 0.0, 1.0, 2.0)


def pendulum_step(state: State, torque: float) -> State:
    """Gymnasium's Pendulum; 0 is upright."""
    angle, speed = state
    speed = np.clip(speed + (3 * 10.0 / (2 * 1.0) * np.sin(angle) + 3.0 / (1.0 * 1.0**2) * torque) * 0.05, -8.0, 8.0)
    return angle + speed * 0.05, speed


def pendulum_state(observation: Any) -> State:
    """The angle and the angular velocity from cos, sin and velocity, for one observation or many."""
    seen = np.asarray(observation, np.float64)
    return np.arctan2(seen[..., 1], seen[..., 0]), seen[..., 2]


ANGLES = ("angle", "angular velocity")

# The pendulum stays upright within 0.4 radians, with five torques; it starts within 0.1 of standing still.
PENDULUM: System = dict(
    step=pendulum_step,
    grid=Grid((-0.4, -1.6), (0.4, 1.6), (160, 160), names=ANGLES),
    actions=TORQUES,
    forbidden=lambda s: (s[0] < -0.4) | (s[0] > 0.4),
    pattern=2,
    observation_error=(1e-7, 1e-6),  # cos and sin are rounded to float32
    initial=((-0.1, -0.1), (0.1, 0.1)),
    state_of=pendulum_state,
)

# The pendulum from anywhere to where "Pendulum-v1" holds it upright; the minimal budget is the number of steps.  From
# every state of the goal, the abstraction "Pendulum-v1" needs a budget of 0.
SWING_UP = PENDULUM | dict(
    grid=Grid((-math.pi, -8.001), (math.pi, 8.001), (400, 320), periodic=(0,), names=ANGLES),
    forbidden=None,
    goal=lambda s: (np.abs(s[0]) <= 0.2) & (np.abs(s[1]) <= 0.5),
    pattern=[(torque,) * length for length in (1, 3, 8) for torque in (0, 2, 4)],
    initial=((-math.pi, -1.0), (math.pi, 1.0)),
)

KNOWN: dict[str, System] = {
    "CartPole-v1": CART_POLE,
    "MountainCar-v0": MOUNTAIN_CAR,
    "Pendulum-v1": PENDULUM,
    "swing-up": SWING_UP,
    **SYSTEMS,
}
