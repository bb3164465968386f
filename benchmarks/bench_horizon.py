"""Horizons and risks compared with plain sweeps, `solve_policy` and Storm; return versus risk; the simulated risk.

    python benchmarks/bench_horizon.py [horizon] [risk] [function] [simulated] [learners] [--size N] [--json FILE]

Without names, all but the last are run.  Times are processor seconds; for p̄ and Storm, the best of three.

horizon    T = 1,000 on the N×N grid, and T plain vectorised sweeps of the operator, which must give the same values
risk       p̄ within 1e-8 for Δ = 5, `solve_policy` for all states, and Storm's Pmin on the unfolded model (with
           stormpy), which must agree to 1e-6
function   `from_function`: outcomes per second, without the time of the function itself
simulated  10⁸ steps of a random agent inside a RiskShield: the share of overspent episodes, and the stated risk
learners   return versus risk for archipelago, hazard map and warehouse: the best policy inside the shield, tabular
           Q-learning with replays and MaskablePPO, three seeds each, with exactly evaluated risks; about an hour
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import almostsure as asure
from almostsure.budget.minimal import INFINITE
from almostsure.gym.deep import Settings, ShieldedPPO
from almostsure.gym.envs.warehouse import Situation, warehouse
from almostsure.learn.deployment import truncated_sums
from almostsure.learn.learners import ShieldedQ
from almostsure.model.build.grid import grid_family
from almostsure.model.mdp import MDP

BUDGET, STEPS = 5, 1_000
RISKS, SEEDS = (0.0, 0.01, 0.1, 0.5, 1.0), 3
LEARNERS, TABULAR_STEPS = ("tabular", "MaskablePPO"), 1_000_000


def timed(function: Callable[[], Any], times: int = 1) -> tuple[Any, float]:
    """The result of a function, and the least time of some calls."""
    least = math.inf
    for _ in range(times):
        start = time.process_time()
        result = function()
        least = min(least, time.process_time() - start)
    return result, least


# ---------------------------------------------------------------------- horizon


def sweeps(mdp: MDP, steps: int) -> np.ndarray:
    """T plain vectorised sweeps of the operator."""
    values = np.zeros(mdp.num_states, np.int32)
    outcomes, choices = mdp.outcome_ptr[:-1].astype(np.int64), mdp.choice_ptr[:-1].astype(np.int64)
    damage = mdp.damage.astype(np.int32)
    for _ in range(steps):
        worst = np.maximum.reduceat(values[mdp.successor] + damage, outcomes)
        values = np.minimum.reduceat(worst, choices)
    return values


def horizon(size: int) -> dict[str, Any]:
    mdp = grid_family(size, seed=0)
    asure.minimal_budget(grid_family(60, seed=1), horizon=200)  # compiled
    found, ours = timed(lambda: asure.minimal_budget(mdp, horizon=STEPS))
    plain, theirs = timed(lambda: sweeps(mdp, STEPS))
    same = bool(np.array_equal(np.minimum(found.of_state, INFINITE), plain))
    settles = asure.minimal_budget(mdp, horizon=10 * STEPS, cap=20)
    return {
        "states": mdp.num_states, "steps": STEPS, "ours_s": ours, "sweeps_s": theirs, "ratio": ours / theirs,
        "equal": same, "rises": int(found.rises.value.size), "settled with cap 20 after": settles.settled,
    }  # fmt: skip


# ---------------------------------------------------------------------- risk


def risk(size: int) -> dict[str, Any]:
    mdp = grid_family(size, seed=0)
    for some in (grid_family(60, seed=1), grid_family(100, seed=1)):  # compiled
        asure.RiskShield(some, 2, 1.0)
        asure.solve_policy(some, asure.AlmostSure(5), everywhere=True)
    shield, ours = timed(lambda: asure.RiskShield(mdp, BUDGET, 1.0), times=3)
    needed = asure.minimal_budget(mdp).smallest_budget()
    _, policy = timed(lambda: asure.solve_policy(mdp, asure.AlmostSure(max(BUDGET, needed)), everywhere=True))
    row: dict[str, Any] = {
        "states": mdp.num_states, "budget": BUDGET, "ours_s": ours, "solve_policy_s": policy, "ratio": ours / policy,
    }  # fmt: skip
    try:
        import stormpy  # noqa: F401
    except ImportError:
        return row
    values, storm = storm_pmin(mdp, BUDGET)  # only its solution is timed; ours begins with the model's arrays
    row |= {"storm_s": storm, "times_faster": storm / ours}
    row["difference"] = float(np.abs(values - shield.least[BUDGET]).max())
    return row


def unfolded(mdp: MDP, budget: int) -> MDP:
    """The model on (state, remaining), with one more state for "overspent"; entering it has reward 1."""
    size, rows = mdp.num_states, budget + 1
    choice = mdp.outcome_choices()
    left = np.arange(rows)[:, None] - mdp.damage.astype(np.int64)
    after = np.where(left < 0, rows * size, left * size + mdp.successor)
    state = np.arange(rows)[:, None] * size + mdp.choice_states()[choice]

    def each(column: np.ndarray) -> np.ndarray:
        return np.broadcast_to(column, left.shape).ravel()

    columns = each(state), each(mdp.choice_action[choice]), after.ravel(), each(mdp.probability)
    nothing = np.zeros(after.size)
    labels = {"over": [rows * size]}
    start = budget * size + int(mdp.initial_states[0])
    return asure.from_transitions(
        *columns, nothing, nothing.astype(int), num_states=rows * size + 1, terminal=[rows * size], initial=start,
        labels=labels,
    )  # fmt: skip


def storm_pmin(mdp: MDP, budget: int) -> tuple[np.ndarray, float]:
    """Pmin of overspending on the unfolded model, by Storm's sound default at 1e-6; only the solution is timed."""
    import stormpy

    model = asure.model.to_storm(unfolded(mdp, budget))
    formula = stormpy.parse_property('Pmin=? [F "over"]')
    result, spent = timed(lambda: stormpy.model_checking(model, formula), times=3)
    values = np.array([result.get_value(budget * mdp.num_states + s) for s in range(mdp.num_states)])
    return values, spent


# ---------------------------------------------------------------------- a model from a function


def function(size: int) -> dict[str, Any]:
    side = size

    def outcomes(state: tuple[int, int], action: int) -> list[tuple[float, tuple[int, int], float, int]]:
        x, y = state
        ahead = (min(x + 1, side - 1), y) if action else (x, min(y + 1, side - 1))
        return [(0.9, ahead, 0.0, 0), (0.1, state, 0.0, 1)]

    def alone() -> None:
        for x in range(side):
            for y in range(side):
                outcomes((x, y), 0)
                outcomes((x, y), 1)

    mdp, ours = timed(lambda: asure.from_function(outcomes, initial=(0, 0), actions=[0, 1]))
    _, own = timed(alone)
    return {"outcomes": mdp.num_outcomes, "s": ours, "own_s": own, "per_second": mdp.num_outcomes / (ours - own)}


# ---------------------------------------------------------------------- simulated


def simulated(size: int, steps: int = 10**8) -> dict[str, Any]:
    """Random play inside the model of a RiskShield, many episodes at once."""
    mdp, budget, limit = asure.example("hazard-map"), 1, 0.1
    inside = asure.RiskShield(mdp, budget, limit).restrict()
    counts = np.diff(inside.mdp.choice_ptr)
    uniform = asure.Policy(inside.mdp, probability=np.repeat(1.0 / counts, counts)[None])
    exact = asure.evaluate(inside.mdp, uniform, budget=budget).overspends
    played = over = episodes = seed = 0
    start = time.process_time()
    while played < steps:
        some = asure.simulate(inside.mdp, uniform, 1_000_000, budget=budget, seed=seed, max_steps=1_000)
        played, over, episodes = (
            played + int(some.lengths.sum()),
            over + int(some.overspent.sum()),
            episodes + len(some),
        )
        seed += 1
    spent = time.process_time() - start
    return {
        "steps": played, "episodes": episodes, "stated_risk": limit, "exact_risk": exact,
        "simulated_risk": over / episodes, "steps_per_s": played / spent,
    }  # fmt: skip


# ---------------------------------------------------------------------- learners


class Case(NamedTuple):
    """A model to train on, with the settings of the learners."""

    mdp: MDP
    budget: int
    deep_steps: int  # of MaskablePPO
    exploring: float = 0.9  # the share of its episodes with a random start
    entropy: tuple[float, float] = (0.1, 0.02)  # its coefficients: larger if ending early is a local optimum
    discount: float = 0.99  # of tabular Q-learning: smaller if steps cost nothing, so that delays do not pay
    features: np.ndarray | None = None  # the features of states that are not cells of a map


def cases() -> dict[str, Case]:
    """Models with a budget at which accepting some risk pays."""
    result = {
        "archipelago": Case(asure.example("archipelago"), 3, 60_000, exploring=0.0, discount=0.98),
        "hazard map": Case(asure.example("hazard-map"), 2, 300_000),
    }
    for name, pause in (("warehouse", 0.2), ("warehouse, rare pauses", 0.005)):
        mdp, situations = warehouse(pause=pause)
        result[name] = Case(mdp, 0, 500_000, entropy=(0.3, 0.01), features=one_hot(situations))
    return result


def one_hot(situations: Sequence[Situation | None]) -> np.ndarray:
    """The robot's cell, row and column, forklift, load and shelves, each one-hot; all 0 after the end."""
    parts = [None if at is None else (at.robot, *at.robot, *at[1:]) for at in situations]
    columns = []
    for part in range(6):
        known = sorted({at[part] for at in parts if at is not None})
        columns += [[at is not None and at[part] == value for at in parts] for value in known]
    return np.array(columns, np.float32).T


def learners(size: int) -> dict[str, Any]:
    """Return versus risk.  All returns are those of episodes truncated after 1,000 steps."""
    rows: dict[str, Any] = {}
    for name, case in cases().items():
        for limit in RISKS:
            row: dict[str, Any] = {"budget": case.budget, "best": best_inside(case, limit)}
            for who in LEARNERS:
                row[who] = [trained(case, limit, who, seed) for seed in range(SEEDS)]
            rows[f"{name}, {limit:g}"] = row
    return rows


def best_inside(case: Case, limit: float) -> float:
    """The best return inside the shield."""
    inside = asure.RiskShield(case.mdp, case.budget, limit).restrict().mdp
    return asure.solve_policy(inside.with_damage(0), asure.AlmostSure(0), horizon=STEPS).value


def trained(case: Case, limit: float, who: str, seed: int) -> dict[str, float]:
    """The exact return and risk of the learned policy; a risk above the stated one ends the benchmark."""
    mdp, budget = case.mdp, case.budget
    start = time.process_time()
    if who == "tabular":
        shield = asure.RiskShield(mdp, budget, limit)
        agent, steps = ShieldedQ(shield=shield, explore=0.05, discount=case.discount, replays=16), TABULAR_STEPS
    else:
        settings = Settings(discount=0.997, gae_lambda=0.97, ent_coef=case.entropy, exploring_starts=case.exploring)
        agent, steps = ShieldedPPO(risk=limit, settings=settings, features=case.features), case.deep_steps
    policy = agent.train(mdp, budget, steps=steps, seed=seed).policy
    spent = time.process_time() - start
    over = asure.evaluate(policy.mdp, policy, budget=budget).overspends
    if over > limit + 1e-9:
        raise SystemExit(f"{who} overspends with {over}, above {limit}")
    return {"return": truncated_sums(policy.mdp, policy, budget, STEPS)[0], "risk": over, "s": spent}


PARTS = {"horizon": horizon, "risk": risk, "function": function, "simulated": simulated, "learners": learners}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results = {}
    for name in given.parts or [part for part in PARTS if part != "learners"]:
        results[name] = PARTS[name](given.size)
        for key, value in results[name].items():
            print(f"{name:10} {key:26} {value}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
