"""All kinds of files of the package: how they are written, and what is read from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import almostsure as asure
from almostsure.abstract.upper import UpperBudget
from almostsure.budget import HorizonBudget
from almostsure.errors import AlmostSureError
from almostsure.learn import OnlineShield, count_outcomes
from almostsure.learn.ledger import Episode, Ledger, Surprise, Violation, read_ledger
from almostsure.learn.sampling.checkpoint import Checkpoint
from almostsure.learn.sampling.samplers import as_sampler
from almostsure.plan import RiskShield
from almostsure.shield import HorizonShield

MODEL = asure.from_transitions([0, 0, 1], [0, 1, 0], [0, 1, 2], [1, 1, 1], [1, 0, 0], [1, 0, 1], terminal=[2])


class Kind(NamedTuple):
    """A kind of file: a function that writes one, and a function that returns its content."""

    write: Callable[[Path], object]
    read: Callable[[Path], Any]


def budget_of(minimal: asure.MinimalBudget) -> tuple[Any, ...]:
    return (minimal.of_state.tolist(), minimal.of_choice.tolist(), minimal.rank.tolist(), minimal.cap, minimal.engine)


def budgets() -> Kind:
    return Kind(asure.minimal_budget(MODEL).save, lambda path: budget_of(asure.MinimalBudget.load(path, MODEL)))


def shields() -> Kind:
    shield = asure.Shield(asure.minimal_budget(MODEL))
    return Kind(shield.save, lambda path: budget_of(asure.Shield.load(path, MODEL).minimal))


def horizon_budgets() -> Kind:
    def read(path: Path) -> Any:
        found = HorizonBudget.load(path, MODEL)
        return found.horizon, found.cap, found.settled, [found.at(steps).of_state.tolist() for steps in range(4)]

    return Kind(asure.minimal_budget(MODEL, horizon=3).save, read)


def horizon_shields() -> Kind:
    shield = HorizonShield(asure.minimal_budget(MODEL, horizon=3))

    def read(path: Path) -> Any:
        found = HorizonShield.load(path, MODEL)
        return found.horizon, [found.minimal.at(steps).of_state.tolist() for steps in range(4)]

    return Kind(shield.save, read)


def risk_shields() -> Kind:
    def read(path: Path) -> Any:
        found = RiskShield.load(path, MODEL)
        return found.budget, found.risk, found.horizon, found.least.tolist()

    return Kind(RiskShield(MODEL, 1, 1.0).save, read)


def policies() -> Kind:
    def read(path: Path) -> Any:
        policy = asure.Policy.load(path, MODEL)
        arrays = policy.choice, policy.probability
        return policy.budget, [None if array is None else array.tolist() for array in arrays]

    return Kind(asure.solve_policy(MODEL, asure.AlmostSure(2)).policy.save, read)


def checkpoints() -> Kind:
    source, run = as_sampler(MODEL), {"kind": "a test"}
    counts = count_outcomes(MODEL, 3, seed=1)

    def read(path: Path) -> Any:
        found, position = Checkpoint(path, source, run, 0).begin(1, {"done": 0})
        return {name: array.tolist() for name, array in found.to_arrays().items()}, position

    return Kind(lambda path: Checkpoint(path, source, run, 0).write(counts, {"done": 9}), read)


def online_shields() -> Kind:
    shield = OnlineShield(num_states=2, actions=2, needed=1)
    shield.watch(0, 1, 1, 3)
    shield.ledger.note(Violation(1, 0, 1, 1, 3, remaining=2, allowed=True, new=True))

    def read(path: Path) -> Any:
        found = OnlineShield.load(path, shield.space)
        arrays = {**found.counts.to_arrays(), **found.ledger.to_arrays()}
        return found.unknown, found.needed, str(found.ledger), {name: array.tolist() for name, array in arrays.items()}

    return Kind(shield.save, read)


def upper_budgets() -> Kind:
    def step(state: Any, action: Any) -> Any:
        return (state[0] + action,)

    system = asure.abstract(step, asure.Grid([0.0], [1.0], [4]), [-0.25, 0.25], unsafe=lambda state: state[0] > 0.6)
    return Kind(system.minimal_budget().save, lambda path: UpperBudget.load(path, system).of_state.tolist())


def ledgers() -> Kind:
    ledger = Ledger()

    def write(path: Path) -> None:
        ledger.record(path)
        ledger.note(Surprise(1, 0, 1, 2, 3, raised=4))
        ledger.note(Violation(7, 0, 1, 1, 3, remaining=2, allowed=True, new=False))
        ledger.note(Episode(1, 5, math.pi, 3, 2, 0, "violation"))

    def read(path: Path) -> Any:
        found = read_ledger(path)
        return found.surprises, found.violations, found.steps, {n: a.tolist() for n, a in found.to_arrays().items()}

    return Kind(write, read)


def models() -> Kind:
    model = asure.from_transitions([0, 0], [0, 0], [0, 1], [0.5, 0.5], [1, 0], [1, 0], terminal=[1])

    def read(path: Path) -> Any:
        found = asure.load(path)
        return found.fingerprint, found.state_names, found.action_names, found.layout, dict(found.labels)

    return Kind(model.save, read)


def tables() -> Kind:
    space: dict[str, Any] = {"__name__": "exported"}

    def write(path: Path) -> None:
        if not (link := path.with_suffix(".npz")).is_symlink():
            link.symlink_to(path)
        module, _ = asure.Shield(asure.minimal_budget(MODEL)).export_numpy(path.with_suffix(".py"))
        space["__file__"] = str(module)
        exec(compile(module.read_text(), str(module), "exec"), space)

    def read(path: Path) -> Any:
        space["read_table"].cache_clear()
        try:
            return [space["allowed"](0, left).tolist() for left in (1, 2)]
        except space["DamagedTable"] as error:
            raise AlmostSureError(str(error)) from error

    return Kind(write, read)


KINDS = [
    budgets, shields, horizon_budgets, horizon_shields, risk_shields, policies, checkpoints, online_shields,
    upper_budgets, ledgers, models, tables,
]  # fmt: skip
