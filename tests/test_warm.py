"""After ``python -m almostsure.warm`` nothing is compiled any more."""

import pkgutil
import sys

import pytest

import almostsure as asure
from almostsure import warm
from almostsure.kernels import Kernel, is_compiled
from almostsure.learn.learners import ShieldedQ
from almostsure.model.build.grid import grid_family


@pytest.fixture(scope="module")
def compiled():
    """The names of kernels that are compiled after ``warm``."""
    from numba.core import event

    warm.main()
    with event.install_recorder("numba:compile") as recorder:
        yield lambda: [some.data["dispatcher"].__qualname__ for _, some in recorder.buffer if some.is_start]


def a_model():
    return grid_family(80, seed=3)


CALLS = {
    "the minimal budget, checked": lambda: asure.check_minimal_budget(a_model(), asure.minimal_budget(a_model())),
    "the minimal budget within steps": lambda: asure.minimal_budget(a_model(), horizon=30),
    "a policy": lambda: asure.solve_policy(a_model(), asure.AlmostSure(25)),
    "a policy that counts steps": lambda: asure.solve_policy(a_model().with_reward(-1.0), asure.AlmostSure(25)),
    "a policy on a large map": lambda: asure.solve_policy(
        grid_family(250, seed=2).with_reward(-1.0), asure.AlmostSure(9)
    ),
    "a discounted policy": lambda: asure.solve_policy(a_model(), asure.AlmostSure(25), discount=0.9),
    "a policy for all states": lambda: asure.solve_policy(a_model(), asure.AlmostSure(25), everywhere=True),
    "a policy for some steps": lambda: asure.solve_policy(a_model(), asure.AlmostSure(25), horizon=20),
    "a policy that pays on average": lambda: asure.solve_policy(asure.example("hazard-map"), asure.Expected(1.0)),
    "a shield with a risk": lambda: asure.RiskShield(a_model(), 3, 1.0),
    "a shield with a risk and steps": lambda: asure.RiskShield(a_model(), 3, 1.0, horizon=20),
    "episodes": lambda: asure.simulate(
        a_model(), asure.solve_policy(a_model(), asure.AlmostSure(25)).policy, 200_000, budget=25, max_steps=50
    ),
    "an evaluation": lambda: asure.evaluate(
        a_model(), asure.solve_policy(a_model(), asure.AlmostSure(25)).policy, budget=25
    ),
    "a learned budget": lambda: asure.learn_minimal_budget(asure.example("hazard-map"), mu=0.05, delta=0.1),
    "a learner": lambda: ShieldedQ().train(asure.example("hazard-map"), 2, steps=200_000, seed=1),
}


@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_compiled_any_more(call, compiled):
    CALLS[call]()
    assert compiled() == []


def kernels():
    """The kernels of the package that Python calls, by name; the others are compiled with their callers."""
    for module in pkgutil.walk_packages(asure.__path__, "almostsure."):
        for name, value in vars(sys.modules.get(module.name, warm)).items():
            options = getattr(value, "options" if isinstance(value, Kernel) else "targetoptions", {})
            is_inner = options.get("no_cpython_wrapper") or options.get("inline") == "always"
            if hasattr(value, "py_func") and value.py_func.__module__ == module.name and not is_inner:
                yield f"{module.name}.{name}", value


def test_every_kernel_is_compiled(compiled):
    found = dict(kernels())
    assert len(found) > 60
    assert [name for name, kernel in found.items() if not is_compiled(kernel)] == []
