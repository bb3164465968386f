"""``example``: the example models, by name.

>>> from almostsure.model.build.examples import description, example, examples
>>> example("paper", damage_probability=0.6)
<MDP: 2 states, 3 choices, 4 outcomes, starts in circle>
>>> for name in examples:
...     print(f"{name:<12} {description(name)}")
paper        the paper's two states: left earns reward with damage, right ends the episode
hazard-map   two rivers between start and goal: each further unit of budget opens a shorter route
archipelago  islands in a dangerous sea: farther islands have better treasures
corridor     a one-way corridor with damage at its end: avoiding the next damage is not enough
quicksand    slopes that lead into quicksand: no finite budget suffices on them
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.arguments import one_of
from almostsure.errors import ModelError, UnknownName
from almostsure.model.build.grid import Cell, from_map
from almostsure.model.build.transitions import from_transitions
from almostsure.model.mdp import MDP, Bools


def example(name: str, **parameters: Any) -> MDP:
    """Build an example by its name.

    Parameters
    ----------
    name
        One of :func:`example_names`.
    parameters
        Parameters of the example, such as ``slip`` of a map or ``damage_probability`` of ``paper``.

    Examples
    --------
    >>> example("paper")
    <MDP: 2 states, 3 choices, 3 outcomes, starts in circle>
    >>> example("paper", damage_probability=0.6).num_outcomes
    4
    """
    one_of("example", name, examples)
    build = examples[name]
    known = inspect.signature(build).parameters
    for parameter in parameters:
        if parameter not in known:
            listed = f"It has: {', '.join(known)}." if known else "It has none."
            raise UnknownName(f"parameter of example {name!r}", parameter, known, listed)
    return build(**parameters)


def example_names() -> tuple[str, ...]:
    """The names of all examples.

    Examples
    --------
    >>> example_names()
    ('paper', 'hazard-map', 'archipelago', 'corridor', 'quicksand')
    """
    return tuple(examples)


def description(name: str) -> str:
    """A description of an example, in a few words."""
    first = (examples[name].__doc__ or "").partition("\n")[0]
    return first[:1].lower() + first[1:].removesuffix(".")


def paper(*, damage_probability: float = 1.0) -> MDP:
    """The paper's two states: left earns reward with damage, right ends the episode.

    The running example of Castellano et al. (2022).  In the circle, *left* stays there with reward 1 and, with
    probability ``damage_probability``, damage 1; *right* goes to the terminal square.  The probability is 1 in their
    first experiment and 0.6 in the second.
    """
    if not 0 <= damage_probability <= 1:
        raise ModelError(f"damage_probability must lie in 0 … 1; got {damage_probability}")
    outcomes = [(0, 0, 0, damage_probability, 1, 1), (0, 0, 0, 1 - damage_probability, 1, 0), (0, 1, 1, 1, 0, 0)]
    columns = zip(*(outcome for outcome in outcomes if outcome[3] > 0), strict=True)
    return from_transitions(*columns, terminal=[1], action_names=("left", "right"), state_names=("circle", "square"))


def map_of(name: str) -> list[str]:
    """The rows of an example's map."""
    return files("almostsure.model.build").joinpath("maps", f"{name}.txt").read_text("utf-8").split()


def hazard_map(*, slip: float = 0.1) -> MDP:
    """Two rivers between start and goal: each further unit of budget opens a shorter route.

    Every step has reward −1, the goal 50::

        ...~...#....
        ...~........        with budget 0   over both bridges, the long way
        ...~...#....                    1   swims the first river, and crosses the bridge in the north
        ...~...3....                    2   crosses the bridge in the south, and swims the second river
        ...~...3....                    3   swims both, where a slip does not matter
        .#.~...3.##.                    4   swims both, on a shorter way
        S..~...32..G                    6   straight through the deep water
        .#.~...3.##.
        ...~...~....        An agent next to a river may slip into it, so routes with a small budget
        ...#...~....        keep to the middle of the land.  There are two pits in the south-east.
        .......~..X.
        ...#...~X...
    """
    return from_map(map_of("hazard-map"), slip=slip, step_reward=-1.0, goal_reward=50.0)


def corridor() -> MDP:
    """A one-way corridor with damage at its end: avoiding the next damage is not enough.

    There is a way round it.  Every step has reward −1, the goal 20::

        S>>>>>3G
        .######.
        ........

    A shield that only looks one step ahead lets an agent with budget 2 into the corridor, since the next steps do no
    damage.  At its end no action is left.  The minimal budget of all its one-way cells is 3.
    """
    return from_map(map_of("corridor"), step_reward=-1.0, goal_reward=20.0)


def quicksand(*, slip: float = 0.1) -> MDP:
    """Slopes that lead into quicksand: no finite budget suffices on them.

    Every step has reward −1, the goal 30::

        ############
        #~~~~.....G#
        #~S.~.##...#
        #~..~.##..X#
        #~~~~......#
        #..v...XX..#
        #..v...XX..#
        #.>X<......#
        #..^..>>>X.#
        #..........#
        ############

    The start needs a budget of 2: one unit to leave its island, and one more in case of a slip.  On the slopes, and in
    cells where every action may slip onto one, no finite budget suffices.
    """
    return from_map(map_of("quicksand"), slip=slip, step_reward=-1.0, goal_reward=30.0)


def archipelago(*, size: int = 40, seed: int = 6, slip: float = 0.05) -> MDP:
    """Islands in a dangerous sea: farther islands have better treasures.

    Shallow water does damage 1, deep water 2, and whirlpools cannot be left and do damage in every step.  Each island
    but the first, in the north-west, has a treasure that ends the episode, ``A``, ``B``, …, with reward 10, 20, …: the
    farther, the larger.  Steps have reward 0, so an agent without the budget for a crossing may stay on its island.

    Parameters
    ----------
    size
        The number of rows and columns of the sea; islands are ten cells apart.
    seed
        Seed of the random coast lines and whirlpools.
    slip
        Probability of drifting to the left, and to the right.
    """
    if size < ISLAND_SPACING:
        raise ModelError(f"size must be at least {ISLAND_SPACING}, for one island; got {size}")
    rng = np.random.default_rng(seed)
    drawing, centres = _islands(size, rng)
    treasures = [chr(ord("A") + number) for number in range(2 * (size // ISLAND_SPACING) - 2)]
    if len(treasures) > 16:
        raise ModelError(f"size must be at most 90, since treasures are A … P; got {size}")
    for east, south, row, column in centres:
        drawing[row, column] = treasures[east + south - 1] if east + south else "S"
    legend = {letter: Cell(terminal=True, reward=10.0 * (i + 1)) for i, letter in enumerate(treasures)}
    return from_map(["".join(row) for row in drawing], slip=slip, legend=legend)


ISLAND_SPACING = 10


def _islands(size: int, rng: np.random.Generator) -> tuple[npt.NDArray[Any], list[tuple[int, int, int, int]]]:
    """The map as characters, and of each island its place in the grid of islands and its row and column."""
    land, centres = np.zeros((size, size), np.bool_), []
    rows, columns = np.ogrid[:size, :size]
    for south in range(size // ISLAND_SPACING):
        for east in range(size // ISLAND_SPACING):
            row, column = ISLAND_SPACING // 2 + ISLAND_SPACING * np.array([south, east]) + rng.integers(-1, 2, 2)
            radius = 3.2 + 1.4 * rng.random()
            land |= (rows - row) ** 2 + (columns - column) ** 2 <= radius**2
            centres.append((east, south, int(row), int(column)))
    deep = ~_grown(_grown(land))
    drawing = np.where(land, ".", np.where(deep, "2", "~"))
    drawing[deep & (rng.random((size, size)) < 0.05)] = "X"
    return drawing, centres


def _grown(mask: Bools) -> Bools:
    """The mask extended by the neighbours of its cells."""
    wide = np.pad(mask, 1)
    grown: Bools = mask | wide[2:, 1:-1] | wide[:-2, 1:-1] | wide[1:-1, 2:] | wide[1:-1, :-2]
    return grown


examples: Mapping[str, Callable[..., MDP]] = MappingProxyType(
    {build.__name__.replace("_", "-"): build for build in (paper, hazard_map, archipelago, corridor, quicksand)}
)
