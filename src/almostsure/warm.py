"""``python -m almostsure.warm``: compile the kernels now, so that no first use has to wait for them."""

from __future__ import annotations

import time


def main() -> None:
    """Compile everything that is not yet in the cache."""
    start = time.perf_counter()
    for compile_some in (_budgets, _policies, _horizons_and_risks, _grids, _learning):
        compile_some()
    print(f"Kernels are compiled and cached ({time.perf_counter() - start:.1f} s).")


def _budgets() -> None:
    from almostsure.budget import certificate
    from almostsure.budget.compiled import engine

    engine.warm_up()
    certificate.warm_up()


def _policies() -> None:
    from almostsure.plan.assured import layers
    from almostsure.policy.simulation.simulate import warm_up

    warm_up()
    layers.warm_up()


def _horizons_and_risks() -> None:
    from almostsure.budget.solve import minimal_budget
    from almostsure.model.build.grid import grid_family
    from almostsure.plan import AlmostSure, RiskShield, solve_policy

    mdp = grid_family(100, seed=0)  # large enough for compiled code
    minimal_budget(mdp, horizon=50)
    solve_policy(mdp, AlmostSure(20), horizon=10)
    RiskShield(mdp, 2, 1.0)
    RiskShield(mdp, 2, 1.0, horizon=10)


def _grids() -> None:
    from almostsure.abstract.known.environments import known

    for name in ("Pendulum-v1", "MountainCar-v0"):  # levels, and arrival
        for cells in ((10, 10), (300, 3)):  # whose numbers fit one byte, and two
            known(name, grid=known(name).grid.with_cells(cells)).minimal_budget()


def _learning() -> None:
    from almostsure.learn.learners import qlearning
    from almostsure.learn.sampling import count as sampling

    sampling.warm_up()
    qlearning.warm_up()


if __name__ == "__main__":
    main()
