"""Systems of the symbolic-control literature: a DC-DC converter, a vehicle among obstacles, adaptive cruise control.

The first two are the examples of SCOTS (Rungger and Zamani, HSCC 2016), with its cells.  Their differential equations
are solved in closed form instead of by Runge–Kutta steps, so the images are sound.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from almostsure.abstract.enclosure.interval import Interval
from almostsure.abstract.grid import Grid

System = dict[str, Any]  # the arguments of abstract
State = tuple[Any, ...]

# ---------------------------------------------------------------------- the DC-DC converter

EXPONENTIAL = 1e-13  # the absolute error allowed for the matrix exponential


@functools.cache
def _converter(mode: int) -> tuple[tuple[float, ...], ...]:
    """The affine map of 0.5 s in one mode: rows of (coefficient of x0, of x1, constant)."""
    from scipy.linalg import expm

    capacity, inductance, r_c, r_l, r_o, source = 70.0, 3.0, 0.005, 0.05, 1.0, 1.0
    if mode == 0:
        matrix = [[-r_l / inductance, 0.0], [0.0, -1 / (capacity * (r_o + r_c))]]
    else:
        matrix = [
            [-(r_l + r_o * r_c / (r_o + r_c)) / inductance, -r_o / (5 * inductance * (r_o + r_c))],
            [5 * r_o / ((r_o + r_c) * capacity), -1 / (capacity * (r_o + r_c))],
        ]
    extended = np.zeros((3, 3))
    extended[:2, :2], extended[0, 2] = matrix, source / inductance
    return tuple(tuple(row) for row in expm(0.5 * extended)[:2].tolist())


def dcdc_step(state: State, mode: int) -> State:
    """The inductor's current and (five times) the capacitor's voltage after 0.5 s."""
    return tuple(
        sum((_about(c) * x for c, x in zip(row, (*state, 1.0), strict=True) if c), Interval(0.0, 0.0))
        for row in _converter(mode)
    )


def _about(coefficient: float) -> Interval:
    return Interval(coefficient - EXPONENTIAL, coefficient + EXPONENTIAL)


# Keep current and voltage in a box by switching.
CONVERTER: System = dict(
    step=dcdc_step,
    grid=Grid((1.15, 5.45), (1.55, 5.85), (800, 799), names=("current", "voltage")),
    actions=[0, 1],
    action_names=("charge", "feed"),
)


# ---------------------------------------------------------------------- the vehicle

OBSTACLES = (  # x from, x to, y from, y to
    (1, 1.2, 0, 9), (2.2, 2.4, 0, 5), (2.2, 2.4, 6, 10), (3.4, 3.6, 0, 9), (4.6, 4.8, 1, 10),
    (5.8, 6, 0, 6), (5.8, 6, 7, 10), (7, 7.2, 1, 10), (8.2, 8.4, 0, 8.5), (8.4, 9.3, 8.3, 8.5),
    (9.3, 10, 7.1, 7.3), (8.4, 9.3, 5.9, 6.1), (9.3, 10, 4.7, 4.9), (8.4, 9.3, 3.5, 3.7), (9.3, 10, 2.3, 2.5),
)  # fmt: skip
STEERING = tuple(itertools.product((-0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9), repeat=2))  # speed, angle of the wheels


def vehicle_step(state: State, action: tuple[float, float]) -> State:
    """A bicycle after 0.3 s: x and y of its centre of mass, and its heading.

    With constant inputs the heading turns at a constant rate w, and the path is an arc: the mean of cos over the turn
    is cos at its middle times sin(w t / 2) / (w t / 2).  The heading occurs once, so the image of x and y is exact.
    """
    speed, wheels = action
    slip = math.atan(math.tan(wheels) / 2)
    half = speed * math.tan(wheels) * 0.3 / 2
    way = Interval.of(speed / math.cos(slip) * 0.3 * (math.sin(half) / half if half else 1.0))
    way = way * Interval(1 - 1e-14, 1 + 1e-14)  # the rounding of the constants
    x, y, heading = state
    middle = heading + Interval(slip + half - 1e-14, slip + half + 1e-14)
    return x + way * np.cos(middle), y + way * np.sin(middle), heading + Interval(2 * half - 1e-14, 2 * half + 1e-14)


def in_obstacle(state: State) -> Any:
    """Whether the vehicle touches one of the walls."""
    x, y, _ = state
    return functools.reduce(
        lambda a, b: a | b, (((x >= a) & (x <= b)) & ((y >= c) & (y <= d)) for a, b, c, d in OBSTACLES)
    )


# Through a maze to the corner at (9.5, 0.5); the minimal budget is the number of steps of 0.3 s.
VEHICLE: System = dict(
    step=vehicle_step,
    grid=Grid((-0.1, -0.1, -3.5), (10.1, 10.1, 3.5), (51, 51, 35), names=("x", "y", "heading")),
    actions=STEERING,
    forbidden=in_obstacle,
    goal=lambda s: (s[0] >= 9) & (s[0] <= 9.51) & (s[1] >= 0) & (s[1] <= 0.51),
    initial=((0.4, 0.4, 0.0), (0.4, 0.4, 0.0)),
)


# ---------------------------------------------------------------------- adaptive cruise control


def cruise_step(state: State, force: float) -> State:
    """Own speed and distance to the car in front, which drives at about 15 m/s, after 0.5 s."""
    speed, distance = state
    speed = np.clip(speed + 0.5 * (force - 0.02 * speed), 0.0, 35.0)
    return speed, np.minimum(distance + 0.5 * (15.0 - speed), 150.0)


# Never closer than 1.2 s behind the car in front, whose speed varies by 2 m/s.
CRUISE_CONTROL: System = dict(
    step=cruise_step,
    grid=Grid((0.0, 0.0), (35.0, 151.0), (140, 302), names=("speed", "distance")),
    actions=[-3.0, -1.0, 0.0, 2.0],
    forbidden=lambda s: s[1] < 1.2 * s[0],
    disturbance=((0.0, -1.0), (0.0, 1.0)),
    initial=((14.0, 60.0), (16.0, 80.0)),
)

SYSTEMS = {"dcdc": CONVERTER, "vehicle": VEHICLE, "cruise-control": CRUISE_CONTROL}
