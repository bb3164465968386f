"""k* by Storm, as an experienced user would compute it: the peer of ``bench_budget.py``.

Storm computes the states from which *bad* states can surely be avoided by a graph search (``prob0E``).  To use it,
every damaging outcome passes through a relay state, one per pair of successor and damage.  At level L a relay is *bad*
if its cost, d + v(s'), is not known to be at most L, and an exit otherwise.  States that can avoid bad relays have
v ≤ L.  There is one search per level; levels at which no relay changes are skipped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from almostsure import INFINITE, MDP, from_transitions
from almostsure.model.storm.write import to_storm


@dataclass(frozen=True, kw_only=True)
class StormRun:
    """Storm's result, and the seconds of each part."""

    of_state: np.ndarray
    levels: int
    build: float  # from arrays to Storm's model
    convert: float  # bit vectors to and from Python
    check: float  # the searches alone


def with_relays(mdp: MDP) -> tuple[MDP, np.ndarray, np.ndarray]:
    """The model with all damage taken in relay states; their successors and damages, in order."""
    count = mdp.num_states
    choice = mdp.outcome_choices()
    hurts = mdp.damage > 0
    pairs, relay = np.unique(mdp.successor[hurts].astype(np.int64) * 256 + mdp.damage[hurts], return_inverse=True)
    target, damage = pairs // 256, pairs % 256
    successor = mdp.successor.astype(np.int64)
    successor[hurts] = count + relay
    columns = (
        np.append(mdp.choice_states()[choice], count + np.arange(pairs.size)),
        np.append(mdp.choice_action[choice], np.zeros(pairs.size, np.uint8)),
        np.append(successor, target),
        np.append(mdp.probability, np.ones(pairs.size)),
    )
    nothing = np.zeros(columns[0].size, np.uint8)
    return from_transitions(*columns, nothing, nothing, num_states=count + pairs.size), target, damage


def solve_by_storm(mdp: MDP) -> StormRun:
    """All levels of k*, by one graph search per level."""
    from stormpy.datastructures import BitVector
    from stormpy.developer import perform_prob01_min

    start = time.perf_counter()
    relayed, target, damage = with_relays(mdp)
    game = to_storm(relayed)
    build = time.perf_counter() - start
    del relayed
    size = game.nr_states
    value = np.full(mdp.num_states, INFINITE, np.int64)
    level, levels, check = 0, 0, 0.0
    start = time.perf_counter()
    while True:
        cost = value[target] + damage
        affordable = np.flatnonzero(cost <= level) + mdp.num_states
        bad = BitVector(size, (np.flatnonzero(cost > level) + mdp.num_states).tolist())
        onward = BitVector(size, np.setdiff1d(np.arange(size), affordable, assume_unique=True).tolist())
        before = time.perf_counter()
        safe, _ = perform_prob01_min(game, onward, bad)
        check += time.perf_counter() - before
        settled = np.fromiter(safe, np.int64, safe.get_number_of_set_bits())
        settled = settled[settled < mdp.num_states]
        value[settled[value[settled] == INFINITE]] = level
        levels += 1
        later = value[target] + damage
        later = later[(later > level) & (later < INFINITE)]
        if not later.size:
            break
        level = int(later.min())
    convert = time.perf_counter() - start - check
    return StormRun(of_state=value, levels=levels, build=build, convert=convert, check=check)
