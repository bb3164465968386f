"""``python -m almostsure.warm``: compile the kernels ahead of time, so that no first use waits for the compiler."""

from __future__ import annotations

import time

from almostsure.abstract.known.environments import known
from almostsure.budget.compiled import engine
from almostsure.budget.solve import minimal_budget
from almostsure.crew import as_crew, cores
from almostsure.learn.learners import qlearning
from almostsure.learn.sampling import count
from almostsure.model.build.grid import grid_family
from almostsure.plan import AlmostSure, RiskShield, solve_policy
from almostsure.plan.assured import layers
from almostsure.policy.simulation import simulate


def main() -> None:
    """Compile everything that is not yet in the cache, on two cores if there are."""
    start = time.perf_counter()
    parts = layers.warm_up, _others  # each about half of the work
    with as_crew(min(cores(), len(parts))).open(lambda part: parts[part]()) as each:
        list(each(range(len(parts))))
    print(f"Kernels are compiled and cached ({time.perf_counter() - start:.1f} s).")


def _others() -> None:
    for module in (engine, simulate, count, qlearning):
        module.warm_up()
    minimal_budget(grid_family(150, seed=0), check="always")  # large enough for the compiled check
    _horizons_and_risks()
    _grids()


def _horizons_and_risks() -> None:
    mdp = grid_family(100, seed=0)  # large enough for compiled code
    minimal_budget(mdp, horizon=50)
    solve_policy(mdp, AlmostSure(20), horizon=10)
    RiskShield(mdp, 5, 1.0)
    RiskShield(mdp, 2, 1.0, horizon=10)


def _grids() -> None:
    for name in ("Pendulum-v1", "MountainCar-v0"):  # the levels, and the steps to a goal
        for cells in ((10, 10), (300, 3)):  # cell numbers of one byte, and of two
            known(name, grid=known(name).grid.with_cells(cells)).minimal_budget()


if __name__ == "__main__":
    main()
