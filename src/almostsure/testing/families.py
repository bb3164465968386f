"""Seeded random and regular families of models, for tests and benchmarks, built without loops over states.

==================  ===================================================================================
:func:`garnet`      random sparse models after Archibald, McKinnon and Thomas, with tunable damage
:func:`ladder`      minimal budgets 0, 1, …, levels, with edges back, so that it is not acyclic
:func:`chain`       the longest dependency: every state depends on the next one
:func:`rings`       nested cycles, all connected by steps without damage
==================  ===================================================================================

``connected=True`` adds to every state an action that resets to the initial state, and never improves a policy.  The
minimal budgets stay the same, and the whole model becomes one strongly connected component, which is hard for solvers
that only decompose a model into components.
"""

from __future__ import annotations

import numpy as np

from almostsure.arguments import names_right_word
from almostsure.errors import ModelError
from almostsure.model.build.transitions import from_transitions
from almostsure.model.build.validate import MAX_DAMAGE
from almostsure.model.mdp import MDP, Ints

# Outcomes: states, action, next states, probability, reward and damage; a number applies to all states.
Parts = list[tuple[Ints, int, Ints, float, float, int | Ints]]


@names_right_word
def garnet(
    num_states: int,
    num_actions: int = 4,
    branching: int = 3,
    *,
    seed: int = 0,
    damage_rate: float = 0.1,
    max_damage: int = 1,
    terminal_rate: float = 0.01,
    reward_scale: float = 1.0,
    reach: int | None = None,
) -> MDP:
    """A random model: every choice has ``branching`` outcomes with random successors and probabilities.

    Parameters
    ----------
    num_states, num_actions, branching
        Sizes.  Successors are drawn with replacement, so a choice may have fewer outcomes, or several to one successor.
    seed
        Seed of the random numbers.
    damage_rate, max_damage
        Share of outcomes with damage, and the largest damage; damages are uniform in 1 … max_damage.
    terminal_rate
        Share of terminal states.  The last state is terminal unless it is 0, in which case none is.
    reward_scale
        Rewards are normal with this standard deviation.
    reach
        The largest distance of successors, as a difference of indices (modulo num_states); unlimited by default.
        Small values make long dependencies.

    Examples
    --------
    >>> garnet(100, 3, 2, seed=1)
    <MDP: 100 states, 298 choices, 595 outcomes, starts in 0>
    """
    _check_sizes(num_states=num_states, num_actions=num_actions, branching=branching)
    _check_within(MAX_DAMAGE, max_damage=max_damage)
    _check_within(1, damage_rate=damage_rate, terminal_rate=terminal_rate)
    rng = np.random.default_rng(seed)
    count = num_states * num_actions * branching
    s = np.repeat(np.arange(num_states, dtype=np.int32), num_actions * branching)
    a = np.tile(np.repeat(np.arange(num_actions, dtype=np.int32), branching), num_states)
    t = rng.integers(0, num_states, count, dtype=np.int32)
    if reach is not None:
        t = ((s.astype(np.int64) + rng.integers(-reach, reach + 1, count)) % num_states).astype(np.int32)
    d = rng.integers(min(1, max_damage), max_damage + 1, count, dtype=np.uint8)
    d *= rng.random(count) < damage_rate
    p = rng.random((num_states * num_actions, branching)) + 1e-3
    p /= p.sum(axis=1, keepdims=True)
    r = rng.normal(0.0, reward_scale, count)
    is_end = rng.random(num_states) < terminal_rate
    is_end[0], is_end[-1] = False, terminal_rate > 0 and num_states > 1
    keep = ~is_end[s]
    return from_transitions(
        s[keep], a[keep], t[keep], p.ravel()[keep], r[keep], d[keep],
        num_states=num_states, terminal=np.flatnonzero(is_end), normalise=True,
    )  # fmt: skip


@names_right_word
def ladder(levels: int, *, width: int = 1, connected: bool = False, shuffled_seed: int | None = None) -> MDP:
    """A model whose states need the budgets 0, 1, …, ``levels``.

    There are ``levels + 1`` rungs of ``width`` states, and a terminal state.  From rung i one action leads down with
    damage 1 (from rung 0 to the end, without damage).  The other one circles: it leads along the rung without damage,
    but may lead back to rung i + 1, so it never lowers the need.  The model starts on the highest rung.

    Parameters
    ----------
    levels
        The largest minimal budget, at least 0.
    width
        States per rung.
    connected
        Add the resets that make the model one strongly connected component, except for its end.
    shuffled_seed
        Renumber the states at random with this seed.

    Examples
    --------
    >>> import almostsure as asure
    >>> asure.minimal_budget(ladder(3)).histogram()
    {0: 2, 1: 1, 2: 1, 3: 1}
    """
    _check_sizes(levels=levels + 1, width=width)
    count = (levels + 1) * width
    every = np.arange(count, dtype=np.int64)
    rung, place = np.divmod(every, width)
    below = np.where(rung > 0, every - width, count)
    above = np.minimum(rung + 1, levels) * width + place
    beside = rung * width + (place + 1) % width
    climb, circle = 0, 1
    parts: Parts = [
        (every, climb, below, 1.0, 1.0, (rung > 0).astype(np.int64)),
        (every, circle, beside, 0.5, 0.0, 0),
        (every, circle, above, 0.5, 0.0, np.where(above == every, 1, 0)),  # on the top rung, a self-loop with damage
    ]
    return _joined(parts, count, start=count - 1, connected=connected, shuffled_seed=shuffled_seed)


@names_right_word
def chain(length: int, *, damage: int = 1, connected: bool = False, shuffled_seed: int | None = None) -> MDP:
    """States 0, 1, …, ``length`` − 1 and the end, each a step with ``damage`` from the next.

    State i needs the budget ``damage * (length − i)``.  With damage 0, k* is 0 for all states.

    Parameters
    ----------
    length
        The number of steps to the end, at least 1.
    damage
        The damage of every step.
    connected
        Add the resets that make the model one strongly connected component, except for its end.
    shuffled_seed
        Renumber the states at random with this seed.

    Examples
    --------
    >>> import almostsure as asure
    >>> asure.minimal_budget(chain(4, damage=2)).smallest_budget()
    8
    """
    _check_sizes(length=length)
    _check_within(MAX_DAMAGE, damage=damage)
    every = np.arange(length, dtype=np.int64)
    return _joined(
        [(every, 0, every + 1, 1.0, 1.0, damage)], length, start=0, connected=connected, shuffled_seed=shuffled_seed
    )


@names_right_word
def rings(depth: int, *, size: int = 3, connected: bool = False, shuffled_seed: int | None = None) -> MDP:
    """Nested rings; steps without damage alone make them strongly connected.

    There are ``depth`` rings of ``size`` states; ring i, counted from the innermost, needs the budget i.  Walking leads
    around a ring, or by chance one ring inwards or outwards; on the outermost ring the latter is damage 1 instead, so
    an agent that only walks takes damage again and again.  Stepping in leads one ring inwards, with damage 1.  On the
    innermost ring the agent can also walk deterministically, or leave.  The model starts on the outermost ring.

    Parameters
    ----------
    depth, size
        The number of rings, and of states per ring.
    connected
        Add the resets that make the model one strongly connected component, except for its end.
    shuffled_seed
        Renumber the states at random with this seed.

    Examples
    --------
    >>> import almostsure as asure
    >>> asure.minimal_budget(rings(3)).smallest_budget()
    2
    """
    _check_sizes(depth=depth, size=size)
    count = depth * size
    every = np.arange(count, dtype=np.int64)
    ring, place = np.divmod(every, size)
    onward = ring * size + (place + 1) % size
    outward = np.minimum(ring + 1, depth - 1) * size + place
    walk, step_in, rest = 0, 1, 2
    parts: Parts = [
        (every, walk, onward, 0.5, 0.0, 0),
        (every, walk, np.where(ring > 0, every - size, onward), 0.25, 0.0, 0),
        (every, walk, outward, 0.25, 0.0, (outward == every).astype(np.int64)),
        (every, step_in, np.where(ring > 0, every - size, count), 1.0, 1.0, (ring > 0).astype(np.int64)),
        (every[:size], rest, onward[:size], 1.0, 0.0, 0),
    ]
    return _joined(parts, count, start=count - 1, connected=connected, shuffled_seed=shuffled_seed)


# ---------------------------------------------------------------------- shared


def _joined(parts: Parts, count: int, *, start: int, connected: bool, shuffled_seed: int | None) -> MDP:
    """The model of all parts, with state ``count`` as its end."""
    if connected:
        every = np.arange(count, dtype=np.int64)
        reset = 1 + max(part[1] for part in parts)
        # With damage, since the start may need 0: so the reset never lowers a need.
        parts = [*parts, (every, reset, np.full(count, start), 1.0, 0.0, 1)]
    sizes = [part[0].size for part in parts]
    s, a, t, p, r, d = (
        np.concatenate([np.broadcast_to(column, size) for column, size in zip(columns, sizes, strict=True)])
        for columns in zip(*parts, strict=True)
    )
    name = np.arange(count + 1)
    if shuffled_seed is not None:
        name[:count] = np.random.default_rng(shuffled_seed).permutation(count)
    return from_transitions(
        name[s], a, name[t], p, r, d, num_states=count + 1, terminal=[count], initial=int(name[start])
    )


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ModelError(f"{name} must be at least 1; got {size}")


def _check_within(most: int, **given: float) -> None:
    for name, value in given.items():
        if not 0 <= value <= most:
            raise ModelError(f"{name} must lie in 0 … {most}; got {value}")
