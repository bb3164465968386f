"""Tabular learners: violations in ten million shielded training steps, steps per second, and the table of learners.

``--steps`` (10⁷ by default) is the length of each shielded training run.  The benchmark fails after any violation.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import almostsure as asure
from almostsure.learn import OnlineShield, learn_minimal_budget
from almostsure.learn.comparison.compare import compare
from almostsure.learn.learners import ShieldedQ, learn_barrier
from almostsure.testing.families import garnet


def by_hand(mdp: asure.MDP, budget: int, steps: int) -> float:
    """Steps per second of a simple Python loop over one copy, with a shield and a dictionary."""
    shield, rng = asure.Shield(asure.minimal_budget(mdp)), np.random.default_rng(0)
    values: dict[tuple[int, int, int], float] = {}
    terminal = mdp.is_terminal()
    state, left = mdp.initial_state, budget
    start = time.perf_counter()
    for _ in range(steps):
        actions = shield.allowed(state, left).tolist()
        action = max(actions, key=lambda a: values.get((state, left, a), 0.0))
        if rng.random() < 0.2:
            action = actions[rng.integers(len(actions))]
        outcomes = mdp.outcomes(state, action)
        after = outcomes[rng.choice(len(outcomes), p=[o.probability for o in outcomes])]
        target, below = after.reward, left - after.damage
        if not terminal[after.next_state]:
            follow = shield.allowed(after.next_state, below).tolist()
            target += max(values.get((after.next_state, below, a), 0.0) for a in follow)
        key = state, left, action
        values[key] = values.get(key, 0.0) + 0.1 * (target - values.get(key, 0.0))
        state, left = (mdp.initial_state, budget) if terminal[after.next_state] else (after.next_state, below)
    return steps / (time.perf_counter() - start)


def zero_violations(steps: int) -> int:
    """Train inside exact and learned-consistent shields; returns the number of overspent episodes."""
    sparse = garnet(2_500, 4, 3, seed=1, damage_rate=0.02)
    cases = [
        ("hazard-map", asure.example("hazard-map"), 3, 0.1),
        ("archipelago", asure.example("archipelago"), 6, 0.05),
        ("random, 10,000 choices", sparse, asure.minimal_budget(sparse).smallest_budget() + 2, None),
    ]
    violations = 0
    print(f"{'model':<24} {'learner':<44} {'M steps':>8} {'episodes':>10} {'violations':>10} {'M steps/s':>10}")
    for name, mdp, budget, mu in cases:
        runs = [ShieldedQ()]
        if mu is not None:
            learned = learn_minimal_budget(mdp, mu=mu, delta=0.01, budget=budget, seed=1)
            runs.append(ShieldedQ(name="shielded Q-learning, learned shield", shield=learned.shield))
            careful = OnlineShield(mdp, needed=200, known=asure.learn.count_outcomes(mdp, 200, seed=1))
            runs.append(ShieldedQ(name="shielded Q-learning, online, known choices", shield=careful))
        for learner in runs:
            learner.train(mdp, budget, steps=100_000, seed=1)  # compiles
            start = time.perf_counter()
            training = learner.train(mdp, budget, steps=steps, seed=0)
            took = time.perf_counter() - start
            bad = int((training.damages > budget).sum())
            violations += bad
            print(
                f"{name:<24} {learner.name:<44} {steps / 1e6:>8g} {training.ends.size:>10,} {bad:>10} "
                f"{steps / took / 1e6:>10.2f}",
                flush=True,
            )
    mdp = asure.example("hazard-map")
    print(f"by hand, a Python loop on the hazard map: {by_hand(mdp, 3, 20_000) / 1e6:.4f} M steps/s")
    return violations


def optimists(steps: int) -> int:
    """Train inside shields that know nothing at first: every violation must be an outcome not observed before."""
    wrong = 0
    for name, budget in (("hazard-map", 3), ("quicksand", 3), ("archipelago", 6)):
        mdp = asure.example(name)
        shield = OnlineShield(mdp, unknown="allow")
        training = ShieldedQ(shield=shield).train(mdp, budget, steps=steps, seed=0)
        found = shield.ledger.violations
        wrong += sum(not violation.new for violation in found)
        bad = training.ends[training.damages > budget]
        last = f", the last at step {bad.max():,}" if bad.size else ""
        print(f"{name}, from nothing: {bad.size} violations in {steps:,} steps{last}; "
              f"damaging outcomes: {int((mdp.damage > 0).sum()):,}")  # fmt: skip
    barrier = learn_barrier("hazard-map", steps=steps)
    print(
        f"barrier on the hazard map: {str(barrier).splitlines()[0]}, {len(barrier.shield.ledger.violations)} violations"
    )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    violations = zero_violations(options.steps)
    wrong = optimists(options.steps // 10)
    print()
    print(compare("hazard-map", 3, steps=100_000, seeds=options.seeds))
    if violations or wrong:
        print(f"FAILED: {violations} violations, {wrong} of them without a surprise")
    return int(bool(violations or wrong))


if __name__ == "__main__":
    sys.exit(main())
