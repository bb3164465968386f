"""Learning: how fast outcomes are drawn and counted, how many samples are needed, and how often a guarantee fails.

``--repetitions 2000`` (the default) is the number of repetitions for each line of the study of failures; ``--long``
adds 10⁹ samples of a model with 10⁴ choices.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import almostsure as asure
from almostsure.learn import OnlineShield, count_outcomes, learn_minimal_budget, samples_needed
from almostsure.learn.minimal import reachable_choices
from almostsure.testing.families import garnet


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


# ---------------------------------------------------------------------- speed


def by_hand(mdp: asure.MDP, samples: int, seed: int) -> np.ndarray:
    """Hand-written NumPy: one sorted search for all samples of a choice, then a count."""
    rng = np.random.default_rng(seed)
    counts = np.zeros(mdp.num_outcomes, np.int64)
    for choice in range(mdp.num_choices):
        begin, end = mdp.outcome_ptr[choice : choice + 2].tolist()
        limits = np.cumsum(mdp.probability[begin:end])[:-1]
        drawn = np.searchsorted(limits, rng.random(samples), side="right")
        counts[begin:end] = np.bincount(drawn, minlength=end - begin)
    return counts


def speed() -> None:
    models = {
        "hazard-map, 533 choices": asure.example("hazard-map"),
        "10,000 choices, 3 outcomes": garnet(2_500, 4, 3, seed=1, damage_rate=0.02),
        "10,000 choices, 30 outcomes": garnet(2_500, 4, 30, seed=1, damage_rate=0.02),
    }
    for name, mdp in models.items():
        samples = 40_000_000 // mdp.num_choices
        count_outcomes(mdp, samples, seed=0)  # compiles
        ours = min(timed(partial(count_outcomes, mdp, samples, seed=1)) for _ in range(3))
        theirs = timed(partial(by_hand, mdp, samples // 10, 1)) * 10
        budget = samples * mdp.num_choices
        rates = f"{budget / ours / 1e6:6.0f} M samples/s   by hand {budget / theirs / 1e6:5.0f} M/s"
        print(f"{name:<30} {rates}   {theirs / ours:5.1f}×")


def counting() -> None:
    """The time of counting alone, with a sampler that takes no time."""
    mdp = garnet(2_500, 4, 3, seed=1, damage_rate=0.02)

    class Ready:
        num_states, max_damage = mdp.num_states, 1
        answers = np.random.default_rng(0).integers(0, mdp.num_states, 1 << 11) % 3

        def actions(self, state: int) -> np.ndarray:
            return mdp.actions(state)

        def sample(self, states: np.ndarray, actions: np.ndarray, rng: object) -> tuple[np.ndarray, ...]:
            return self.answers[: states.size], np.zeros(states.size), np.zeros(states.size)

    took = timed(lambda: count_outcomes(Ready(), 400, seed=1))
    print(f"counting a vectorised sampler's answers: {4_000_000 / took / 1e6:.1f} M samples/s on one core")


def long_run() -> None:
    mdp = garnet(2_500, 4, 3, seed=1, damage_rate=0.02)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = timed(lambda: count_outcomes(mdp, 100_000, seed=1))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"10⁹ samples of 10⁴ choices: {took:.1f} s, {1000 / took:.0f} M/s, peak memory grew by {grown:.0f} MiB")


# ---------------------------------------------------------------------- how many samples


def economy() -> None:
    print("samples used, as a share of the paper's N · choices at the same δ")
    for name, mu, budgets in (("hazard-map", 0.1, (0, 1, 2, 3, 6)), ("archipelago", 0.05, (0, 3, 6, 10, 24))):
        for delta in (0.1, 0.05, 0.01):
            runs = [learn_minimal_budget(name, mu=mu, delta=delta, budget=budget, seed=1) for budget in budgets]
            sharp = runs[0].uniform_samples["sharp"] / runs[0].uniform_samples["paper"]
            shares = "  ".join(f"Δ={run.budget}: {run.samples / run.uniform_samples['paper']:.0%}" for run in runs)
            print(f"  {name:<12} δ={delta:<5} {shares}   (sharp bound, all choices: {sharp:.0%})")


# ---------------------------------------------------------------------- how often it is wrong


def doors(count: int, trapped: int) -> asure.MDP:
    """Doors, some of which do damage with probability 0.2; a learner that misses one of these is wrong."""
    rows = [(0, door, 1, 0.8 if door < trapped else 1.0, 0, 0) for door in range(count)]
    rows += [(0, door, 1, 0.2, 0, 1) for door in range(trapped)]
    return asure.from_transitions(*zip(*rows, strict=True), terminal=[1])


def failures(repetitions: int) -> None:
    print(f"how often the learned budget is wrong, in {repetitions:,} repetitions")
    cases = (
        ("1 of 40 doors", doors(40, 1), 0.2, 0),
        ("39 of 40 doors", doors(40, 39), 0.2, 0),
        ("hazard-map", asure.example("hazard-map"), 0.1, 2),
    )
    for name, mdp, mu, budget in cases:
        truth = asure.minimal_budget(mdp)
        reached = reachable_choices(mdp, truth.of_choice, budget)
        for delta in (0.2, 0.05):
            line = [f"  {name:<14} δ={delta:<5}"]
            for bound in ("paper", "sharp"):
                each = samples_needed(mdp.num_states, mdp.num_actions, mu=mu, delta=delta, bound=bound)
                wrong = sum(uniform_is_wrong(mdp, truth, each, seed) for seed in range(repetitions))
                line.append(f"{bound} {wrong / repetitions:.4f}")
            wrong = used = 0
            for seed in range(repetitions):
                learned = learn_minimal_budget(mdp, mu=mu, delta=delta, budget=budget, seed=seed, workers=1)
                mine = learned.minimal.of_choice[: mdp.num_choices]
                right = (mine >= truth.of_choice).all() and (mine == truth.of_choice)[reached].all()
                wrong, used = wrong + (not right), used + learned.samples
            share = used / repetitions / learned.uniform_samples["paper"]
            line.append(f"adaptive, Δ={budget}: {wrong / repetitions:.4f} with {share:.0%} of the paper's samples")
            print("   ".join(line), flush=True)


def uniform_is_wrong(mdp: asure.MDP, truth: asure.MinimalBudget, each: int, seed: int) -> bool:
    counts = count_outcomes(mdp, each, seed=seed, workers=1)
    if counts.choice.size == mdp.num_outcomes:  # all outcomes were observed
        return False
    return not np.array_equal(asure.minimal_budget(counts.to_mdp()).of_choice, truth.of_choice)


# ---------------------------------------------------------------------- online


def online() -> None:
    mdp = garnet(100_000, 4, 3, seed=1, damage_rate=0.02)  # 1.2 million outcomes
    counts = count_outcomes(mdp, 2, seed=1)
    shield = OnlineShield(mdp, unknown="allow", known=counts)
    shield.allowed(0, 100)
    full = timed(lambda: asure.minimal_budget(counts.to_mdp(), check="never"))
    rng, times, watched = np.random.default_rng(0), [], []
    states = mdp.choice_states()
    for _ in range(3_000):
        choice = int(rng.integers(mdp.num_choices))
        outcome = int(rng.integers(mdp.outcome_ptr[choice], mdp.outcome_ptr[choice + 1]))
        step = (
            int(states[choice]),
            int(mdp.choice_action[choice]),
            int(mdp.successor[outcome]),
            int(mdp.damage[outcome]),
        )
        start = time.perf_counter()
        surprised = shield.watch(*step)
        (times if surprised else watched).append(time.perf_counter() - start)
    median = statistics.median(times)
    print(f"a surprise in a model of {mdp.num_outcomes:,} outcomes: median {median * 1e6:.0f} µs, "
          f"{median / full:.5%} of a full solve ({full:.2f} s), worst {max(times) * 1e3:.0f} ms")  # fmt: skip
    print(f"a transition without surprise: median {statistics.median(watched) * 1e6:.1f} µs")
    safe = np.flatnonzero(shield.of_state < asure.INFINITE)
    asked = rng.choice(safe, 1_000_000)
    left = int(shield.of_state[safe].max())
    frozen = shield.freeze()
    shield.mask(asked, left)
    frozen.mask(asked, left)
    ours, theirs = timed(lambda: shield.mask(asked, left)), timed(lambda: frozen.mask(asked, left))
    print(f"masks between surprises: {1 / ours:.0f} M/s, a frozen shield {1 / theirs:.0f} M/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--long", action="store_true", help="also 10⁹ samples")
    options = parser.parse_args()
    speed()
    counting()
    if options.long:
        long_run()
    economy()
    online()
    failures(options.repetitions)


if __name__ == "__main__":
    sys.exit(main())
