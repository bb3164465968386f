"""Simulation: steps per second on the 12×12 hazard map, compiled and plain, compared with a loop over Gymnasium steps.

    python benchmarks/bench_simulate.py [--quick]

The policy is the assured one for a budget of 3.  Compilation is excluded from the rates and shown separately.  Plain
simulation, and compiled with one thread and with all cores, must give the same numbers, or the benchmark fails.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import almostsure as asure
from almostsure.crew import LocalCrew, cores
from almostsure.policy.simulation.plain import play_plain
from almostsure.policy.simulation.simulate import play_compiled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer episodes")
    episodes = 20_000 if parser.parse_args().quick else 1_000_000

    mdp = asure.example("hazard-map")
    policy = asure.solve_policy(mdp, asure.AlmostSure(3)).policy
    few = asure.simulate(mdp, policy, 10, seed=1)
    tables, rules = few._tables, few._rules

    begin = time.perf_counter()
    play_compiled(tables, rules, 1, 10)
    print(f"first compiled call       {time.perf_counter() - begin:6.2f} s (with a warm cache, loading it)")

    _, _, steps, _ = timed(f"compiled, {cores()} threads", lambda: play_compiled(tables, rules, 1, episodes))
    timed("compiled, 1 thread", lambda: play_compiled(tables, rules, 1, episodes, LocalCrew(1)))
    some = min(episodes, 50_000)
    plain = timed("plain NumPy", lambda: play_plain(tables, rules, 1, some))
    if not np.array_equal(plain[2], steps[:some]):
        raise SystemExit("plain and compiled play must agree")
    timed("Gymnasium, step by step", lambda: gymnasium_loop(mdp, policy, 300))


def timed(name, play):  # type: ignore[no-untyped-def]
    wall, cpu = time.perf_counter(), time.process_time()
    results = play()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    steps = int(results[2].sum())
    print(f"{name:24}  {steps / wall / 1e6:8.2f} million steps per second ({wall:.2f} s wall, {cpu:.2f} s CPU)")
    return results


def gymnasium_loop(mdp, policy, episodes):  # type: ignore[no-untyped-def]
    """The same episodes by a hand-written loop."""
    env = asure.to_gymnasium(mdp)
    lengths = []
    for episode in range(episodes):
        state, _ = env.reset(seed=episode)
        remaining, done, steps = 3, False, 0
        while not done:
            state, _, terminated, truncated, info = env.step(policy.act(int(state), remaining))
            remaining -= int(info.get("damage", 0))
            done, steps = terminated or truncated, steps + 1
        lengths.append(steps)
    return None, None, np.array(lengths), None


if __name__ == "__main__":
    main()
