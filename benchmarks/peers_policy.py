"""Discounted returns inside the shield by general MDP solvers, on the model with the budget unfolded into the states.

    python benchmarks/peers_policy.py NAME FILE.npz BUDGET DISCOUNT     one run, prints one line of JSON

NAME is ``mdpsolver`` or ``quantecon``; each is optional, and only imported on request.  Both only maximise discounted
returns.  As for Storm, unsafe choices are left out beforehand, and only the solution is measured.
"""

from __future__ import annotations

import itertools
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from almostsure.model.mdp import MDP

sys.path.insert(0, str(Path(__file__).parent))

from storm_policy import load, unfold

TOLERANCE = 1e-6
Solver = Callable[[MDP, float], tuple[np.ndarray, float, float]]  # values, wall seconds, processor seconds


def by_quantecon(model: MDP, discount: float) -> tuple[np.ndarray, float, float]:
    """Modified policy iteration on state-action pairs with sparse transitions."""
    from quantecon.markov import DiscreteDP
    from scipy.sparse import csr_matrix

    moves = csr_matrix(
        (model.probability, model.successor, model.outcome_ptr), shape=(model.num_choices, model.num_states)
    )
    gains = np.add.reduceat(model.probability * model.reward, model.outcome_ptr[:-1])
    problem = DiscreteDP(gains, moves, discount, model.choice_states(), model.choice_action)
    wall, cpu = time.perf_counter(), time.process_time()
    values = problem.solve(method="modified_policy_iteration", epsilon=TOLERANCE, max_iter=100_000).v
    return values, time.perf_counter() - wall, time.process_time() - cpu


def by_mdpsolver(model: MDP, discount: float) -> tuple[np.ndarray, float, float]:
    """Modified policy iteration with its own settings, on one core, from nested lists."""
    import mdpsolver

    gains = np.add.reduceat(model.probability * model.reward, model.outcome_ptr[:-1]).tolist()
    chance, column = model.probability.tolist(), model.successor.tolist()
    outcomes, choices = model.outcome_ptr.tolist(), model.choice_ptr.tolist()
    spans = [range(begin, end) for begin, end in itertools.pairwise(choices)]
    problem = mdpsolver.model()
    problem.mdp(
        discount=discount,
        rewards=[[gains[c] for c in span] for span in spans],
        tranMatProbs=[[chance[outcomes[c] : outcomes[c + 1]] for c in span] for span in spans],
        tranMatColumns=[[column[outcomes[c] : outcomes[c + 1]] for c in span] for span in spans],
    )
    wall, cpu = time.perf_counter(), time.process_time()
    problem.solve(algorithm="mpi", tolerance=TOLERANCE, parallel=False)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return np.array(problem.getValueVector()), wall, cpu


SOLVERS: dict[str, Solver] = {"quantecon": by_quantecon, "mdpsolver": by_mdpsolver}


def main() -> None:
    name, file, budget, discount = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    mdp, of_choice = load(file)
    model, pairs = unfold(mdp, of_choice, budget, 1.0)
    try:
        values, wall, cpu = SOLVERS[name](model, discount)
    except ImportError:
        print(json.dumps({"absent": True}))
        return
    table = np.full((budget + 1, mdp.num_states), np.nan)
    table.ravel()[pairs] = values
    np.save(file + ".values.npy", table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall": wall, "cpu": cpu, "peak_mb": peak}))


if __name__ == "__main__":
    main()
