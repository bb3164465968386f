"""The best return inside the shield by Storm, as an experienced user would compute it: the budget is unfolded into the
states, of which only the safe ones that the start can reach are kept (not measured), and Storm's sound solver does the
rest.

    python benchmarks/storm_policy.py FILE.npz BUDGET DISCOUNT      prints one line of JSON

The file has a model's arrays, its start and of_choice.  With DISCOUNT 1 all rewards are costs, until a terminal state
is reached.
"""  # noqa: D205

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from almostsure.model.mdp import MDP, Arrays, Ints
from almostsure.plan.assured.engine import Engine
from almostsure.plan.assured.explore import Graph

NAMES = ("choice_ptr", "choice_action", "outcome_ptr", "successor", "probability", "reward", "damage")
RUNS, ENOUGH = 5, 10.0  # the number of measurements, and the seconds after which no more are made


def load(file: str) -> tuple[MDP, Ints]:
    """The model of a file, and the needs of its choices."""
    found = np.load(file)
    mdp = MDP(Arrays(**{name: found[name] for name in NAMES}), initial=(found["initial"], np.ones(1)))
    return mdp, found["of_choice"] if "of_choice" in found else np.zeros(0, np.int64)


def measured(work: Callable[[], object]) -> dict[str, float]:
    """The wall and processor seconds of some work: the median of some runs."""
    walls: list[float] = []
    cpus: list[float] = []
    while len(walls) < RUNS and sum(walls) < ENOUGH:
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {"wall": statistics.median(walls), "cpu": statistics.median(cpus)}


def unfold(mdp: MDP, of_choice: Ints, budget: int, sign: float) -> tuple[MDP, Ints]:
    """The shielded model on the reachable pairs (state, remaining), the start first.

    Rewards are multiplied by the sign.  Also returns the pairs as numbers, remaining · states + state.
    """
    start = budget * mdp.num_states + mdp.initial_states.astype(np.int64)
    engine = Engine(mdp, of_choice, budget, start, 1.0)
    graph = engine.graph
    order = breadth_first(graph, int(engine.number[start[0]]) - 1)
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    choices = ranges(graph.ptr[order], graph.ptr[order + 1])
    entries = ranges(graph.entry_ptr[choices], graph.entry_ptr[choices + 1])
    origin = graph.origin[choices].astype(np.int64)
    outcome = ranges(mdp.outcome_ptr[origin], mdp.outcome_ptr[origin + 1])
    model = MDP(
        Arrays(
            choice_ptr=offsets(graph.ptr, order),
            choice_action=mdp.choice_action[origin],
            outcome_ptr=offsets(graph.entry_ptr, choices),
            successor=rank[graph.target[entries]].astype(np.int32),
            probability=mdp.probability[outcome],
            reward=sign * mdp.reward[outcome],
            damage=np.zeros(outcome.size, np.uint8),
        ),
        initial=(np.array([0]), np.ones(1)),
    )
    return model, graph.remaining[order].astype(np.int64) * mdp.num_states + graph.state[order]


def breadth_first(graph: Graph, start: int) -> Ints:
    """The pairs in the order in which Storm would number them, which is the order of its sweeps."""
    offset = graph.entry_ptr[graph.ptr].astype(np.int64)
    links = csr_array((np.ones(graph.target.size, np.int8), graph.target.astype(np.int64), offset))
    return breadth_first_order(links, start, return_predecessors=False).astype(np.int64)


def ranges(begin: Ints, end: Ints) -> Ints:
    """The numbers begin … end − 1 of several ranges, concatenated."""
    begin, end = begin.astype(np.int64), end.astype(np.int64)
    length = end - begin
    return np.arange(int(length.sum())) + np.repeat(end - np.cumsum(length), length)


def offsets(ptr: Ints, at: Ints) -> Ints:
    """The offsets of concatenated ranges."""
    length = ptr[at + 1].astype(np.int64) - ptr[at].astype(np.int64)
    return np.concatenate([[0], np.cumsum(length)]).astype(np.int32)


def main() -> None:
    import stormpy

    from almostsure.model.storm.write import to_storm

    file, budget, discount = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    mdp, of_choice = load(file)
    sign = -1.0 if discount == 1 else 1.0
    model, pairs = unfold(mdp, of_choice, budget, sign)
    game, table = to_storm(model), np.full((budget + 1, mdp.num_states), np.nan)
    del mdp, of_choice, model
    formula = 'R{"reward"}min=? [F "terminal"]' if discount == 1 else f'R{{"reward"}}max=? [Cdiscount={discount}]'
    parsed = stormpy.parse_property(formula)
    results = []
    answer = measured(lambda: results.append(stormpy.model_checking(game, parsed)))
    table.ravel()[pairs] = sign * np.array(results[0].get_value_vector())
    np.save(file + ".values.npy", table)
    answer |= {"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "states": pairs.size}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
