"""``python -m almostsure.warm``: compile the kernels now, so that no first use has to wait for them."""

from __future__ import annotations

import time


def main() -> None:
    """Compile everything that is not yet in the cache."""
    from almostsure.budget import certificate
    from almostsure.budget.compiled import levels
    from almostsure.learn import sampling
    from almostsure.learn.learners import registry
    from almostsure.policy.simulate import warm_up as warm_up_simulation

    start = time.perf_counter()
    levels.warm_up()
    certificate.warm_up()
    warm_up_simulation()
    sampling.warm_up()
    registry.warm_up()
    print(f"Kernels are compiled and cached ({time.perf_counter() - start:.1f} s).")


if __name__ == "__main__":
    main()
