"""The cost of a shield around a Gymnasium environment, compared with the bare one in the same run; ten million steps.

The peer is the environment itself.  Bare and shielded steps take turns, in vectors with the same random play and its
resets, and processor time is compared, so that the load of the machine affects both.  Then random allowed actions are
played in all environments of this package: an overspent budget or an empty mask ends the benchmark.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import almostsure as asure
from almostsure.gym import ModelVectorEnv, ShieldedEnv, ShieldedVectorEnv, environment_names, ready
from almostsure.shield import Guard

LAKE = "FrozenLake8x8-v1"
COPIES = 64
UP = 3  # along the northern shore without falling: an episode that does not end
TOYS = ("FrozenLake-v1", LAKE, "CliffWalking-v1", "Taxi-v4")
ROOMS = ("MiniGrid-LavaGapS5-v0", "MiniGrid-LavaGapS7-v0", "MiniGrid-LavaCrossingS9N2-v0", "MiniGrid-DistShift1-v0")


def in_turns(
    bare: Callable[[], object], shielded: Callable[[], object], *, block: int, turns: int
) -> tuple[float, float]:
    """Microseconds of processor time per step, the least of many blocks."""
    times: tuple[list[float], list[float]] = [], []
    for _ in range(turns):
        for step, kept in zip((bare, shielded), times, strict=True):
            start = time.process_time()
            for _ in range(block):
                step()
            kept.append((time.process_time() - start) / block * 1e6)
    return min(times[0]), min(times[1])


def single(title: str, shield: Guard) -> None:
    def make() -> Any:
        return gymnasium.make(LAKE, max_episode_steps=10**9)

    bare, shielded = make(), ShieldedEnv(make(), shield, 1)
    bare.reset(seed=0)
    shielded.reset(seed=0)
    alone, guarded = in_turns(lambda: bare.step(UP), lambda: shielded.step(UP), block=500, turns=40)
    show(title, alone, guarded)
    print(f"{'':<22} a step takes {guarded - alone:.2f} µs more")


def show(title: str, alone: float, guarded: float) -> None:
    print(f"{title:<22} bare {alone:7.2f} µs   shielded {guarded:7.2f} µs   {guarded / alone:5.2f}×")


def vector(shield: asure.Shield, mode: AutoresetMode) -> None:
    def make() -> Any:
        return gymnasium.make_vec(LAKE, COPIES, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})

    bare, shielded, rng = make(), ShieldedVectorEnv(make(), shield, 1), np.random.default_rng(0)
    bare.reset(seed=0)
    shielded.reset(seed=0)
    times: tuple[list[float], list[float]] = [], []
    for _ in range(1000):
        masks = shielded.action_masks()
        actions = (rng.random(masks.shape) * masks).argmax(axis=1)  # the same for both
        for envs, kept in zip((bare, shielded), times, strict=True):
            start = time.process_time()
            envs.step(actions)
            kept.append((time.process_time() - start) * 1e6)
    show(f"{COPIES} copies, {mode.value}", float(np.median(times[0])), float(np.median(times[1])))


def wander(envs: ShieldedVectorEnv, steps: int, rng: np.random.Generator) -> None:
    """Play random allowed actions in all copies."""
    _, infos = envs.reset(seed=0)
    for _ in range(steps // envs.num_envs + 1):
        masks = infos["action_mask"]
        if not masks.any(axis=1).all():
            sys.exit("an empty mask")
        _, _, _, _, infos = envs.step((rng.random(masks.shape) * masks).argmax(axis=1))
        if (infos["remaining"] < 0).any():
            sys.exit("an overspent budget")


def models(steps: int, rng: np.random.Generator) -> int:
    played = 0
    for name in environment_names():
        mdp = gymnasium.make(name).unwrapped.mdp  # type: ignore[attr-defined]
        shield = asure.Shield(asure.minimal_budget(mdp))
        for budget in (shield.minimal.smallest_budget(), shield.minimal.smallest_budget() + 2):
            envs = ShieldedVectorEnv(ModelVectorEnv(mdp, 512, max_episode_steps=200), shield, budget)
            wander(envs, steps // 2, rng)
            played += report(name, budget, envs, steps // 2)
    return played


def toys(steps: int, rng: np.random.Generator) -> int:
    played = 0
    for name in TOYS:
        known = ready(name)
        envs = ShieldedVectorEnv(SyncVectorEnv([known.make] * COPIES), known.shield(), 1)
        wander(envs, steps, rng)
        played += report(name, 1, envs, steps)
    return played


def rooms(steps: int, rng: np.random.Generator) -> int:
    played = 0
    for name in ROOMS:
        env = ready(name).shielded(1)
        env.reset(seed=0)
        for _ in range(steps):
            *_, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(env.action_masks()))))
            if info["remaining"] < 0:
                sys.exit("an overspent budget")
            if terminated or truncated:
                env.reset()
        played += report(name, 1, env, steps)
    return played


def report(name: str, budget: int, env: Any, steps: int) -> int:
    ledger = env.ledger
    if ledger.violations or ledger.worst > budget:
        sys.exit(f"{name}: a violation")
    print(
        f"{name:<32} budget {budget}   {steps:>9,} steps   {ledger.episodes:>9,} episodes   worst damage {ledger.worst}"
    )
    return steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10_000_000, help="random steps over all environments")
    steps = parser.parse_args().steps
    mdp = asure.from_gymnasium(LAKE, lambda s, a, s2, r, terminated: int(terminated and r == 0))
    shield = asure.Shield(asure.minimal_budget(mdp))
    single("one environment", shield)
    single("one, with a risk", asure.RiskShield(mdp, 1, 0.1))
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        vector(shield, mode)
    rng = np.random.default_rng(0)
    begin = time.perf_counter()
    in_rooms = rooms(steps // 1000, rng)
    in_toys = toys(steps // 40, rng)
    rest = max(steps - in_rooms - in_toys, 0)
    played = in_rooms + in_toys + models(rest // len(environment_names()) + 1, rng)
    print(f"{played:,} shielded random steps in {time.perf_counter() - begin:.0f} s: no violation, no empty mask")


if __name__ == "__main__":
    main()
