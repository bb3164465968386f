"""``python -m almostsure.warm``: compile the kernels ahead of time, so that no first use waits for the compiler."""

from __future__ import annotations

import time

from almostsure.abstract.known.environments import known
from almostsure.budget import certificate
from almostsure.budget.compiled import engine
from almostsure.budget.solve import minimal_budget
from almostsure.learn.learners import qlearning
from almostsure.learn.sampling import count
from almostsure.model.build.grid import grid_family
from almostsure.plan import AlmostSure, RiskShield, solve_policy
from almostsure.plan.assured import layers
from almostsure.policy.simulation import simulate


def main() -> None:
    """Compile all kernels that are not yet in the cache."""
    start = time.perf_counter()
    for module in (engine, certificate, simulate, layers, count, qlearning):
        module.warm_up()
    _horizons_and_risks()
    _grids()
    print(f"Kernels are compiled and cached ({time.perf_counter() - start:.1f} s).")


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
