"""Continuous environments: how fast upper budgets are proved, how tight they are, and whether they hold.

    python benchmarks/bench_abstract.py [solve | play | tighten | bound | enclose]

``solve`` prints CPU seconds without compilation, the memory and the share of proved cells, and the seconds of SCOTS 0.2
(g++ -O3, measured on the machine of docs/benchmarks.md).  ``play`` plays random allowed actions in Gymnasium's own
vector of CartPoles, and 10⁵ episodes of the MountainCar policy; it fails if a pole falls or a car is late.  ``tighten``
shows the gain and the cost of cutting cells into pieces.  ``bound`` proves that no policy brings a car from −0.6 to the
goal within 100 steps.  ``enclose`` compares a million random steps of each of Gymnasium's environments with their
enclosures.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import replace
from typing import Any

import gymnasium
import numba as nb
import numpy as np

import almostsure as asure
from almostsure import Grid
from almostsure.abstract.enclosure.images import Images

SCOTS = {"dcdc": "0.30 s, 593,089 cells, 49 MB", "vehicle": "2.4 s, 48,018 cells, 252 MB"}

# ---------------------------------------------------------------------- solving


def solve() -> int:
    print("| system | cells | choices | CPU seconds | cells proved | the start needs at most | SCOTS 0.2 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in ("dcdc", "vehicle", "cruise-control", "MountainCar-v0", "Pendulum-v1", "CartPole-v1"):
        cells = asure.abstract(name).grid.cells
        few = [min(n, 12) for n in cells[1:]]
        small = asure.abstract(name, asure.abstract(name).grid.with_cells([300 if max(cells) > 254 else 12, *few]))
        small.minimal_budget()  # compiles, for indices of one byte or two
        model = asure.abstract(name)
        began = time.process_time()
        found = model.minimal_budget()
        took = time.process_time() - began
        proved = int((found.of_state != asure.INFINITE).sum())
        start = found.smallest_budget()
        print(
            f"| {name} | {model.num_cells:,} | {model.patterns.count} | {took:.2f} | {proved:,} "
            f"({proved / model.num_cells:.1%}) | {'∞' if start == asure.INFINITE else start} | {SCOTS.get(name, '')} |",
            flush=True,
        )
    print(f"\n{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB at most, all of them in one process")
    return 0


# ---------------------------------------------------------------------- playing


def play() -> int:
    return play_cart_pole(10_000_000) + play_mountain_car(100_000) + play_gymnasium_car(1_000)


def play_cart_pole(steps: int, copies: int = 20_000) -> int:
    """Random allowed actions in Gymnasium's own vector of CartPoles, each step compared with its enclosure."""
    shield = asure.Shield(asure.minimal_budget(asure.abstract("CartPole-v1")))
    model, rng = shield.abstraction, np.random.default_rng(0)
    env = gymnasium.make_vec("CartPole-v1", copies, vectorization_mode="vector_entry_point")
    began, played, forced, falls = time.process_time(), 0, 0, 0
    while played < steps:
        seen, _ = env.reset(seed=played)
        run = shield.begin(model.cells_of(seen), 0)
        for _ in range(500):
            masks = shield.mask(*run)
            actions = np.argmax(rng.random(masks.shape) * masks, axis=1)
            before = seen
            seen, _, terminated, _, _ = env.step(actions)
            shield.watch(before, actions, seen)
            played, forced, falls = (
                played + copies,
                forced + int((masks.sum(axis=1) == 1).sum()),
                falls + terminated.sum(),
            )
            cells = model.cells_of(seen)
            run = shield.follow(run, actions, np.where(cells < 0, shield.space.unknown, cells))
    took = time.process_time() - began
    print(
        f"CartPole-v1: {played:,} random allowed steps, {falls} falls, {forced / played:.0%} forced, {took:.0f} CPU s"
    )
    return int(falls)


def car_step(position: Any, velocity: Any, actions: Any) -> tuple[Any, Any]:
    """A step of Gymnasium's MountainCar, for many cars at once."""
    velocity = np.clip(velocity + (actions - 1) * 0.001 + np.cos(3 * position) * (-0.0025), -0.07, 0.07)
    position = np.clip(position + velocity, -1.2, 0.6)
    return position, np.where((position <= -1.2) & (velocity < 0), 0.0, velocity)


def play_mountain_car(episodes: int) -> int:
    """The proved policy in many cars, whose steps are equal to Gymnasium's up to rounding."""
    env: Any = gymnasium.make("MountainCar-v0").unwrapped
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(10_000):
        env.state = position, velocity = rng.uniform((-1.2, -0.07), (0.6, 0.07))
        action = int(rng.integers(3))
        env.step(action)
        assert np.allclose(env.state, car_step(position, velocity, action), rtol=0, atol=1e-15)
    policy = asure.minimal_budget(asure.abstract("MountainCar-v0")).policy()
    bound = policy.minimal.smallest_budget()
    position, velocity = rng.uniform(-0.6, -0.4, episodes), np.zeros(episodes)
    rests, steps, on = np.full(episodes, -1), np.zeros(episodes, np.int64), np.ones(episodes, np.bool_)
    while on.any() and steps.max() <= bound:
        seen = np.stack([position[on], velocity[on]], axis=1).astype(np.float32)
        actions, rests[on] = policy.act(seen, rests[on])
        position[on], velocity[on] = car_step(position[on], velocity[on], actions)
        steps[on] += 1
        on &= ~((position >= 0.5) & (velocity >= 0))
    late = int((on | (steps > bound)).sum())
    print(f"MountainCar-v0: {episodes:,} episodes, {late} late, at most {steps.max()} steps of {bound} proved")
    return late


def play_gymnasium_car(episodes: int) -> int:
    policy = asure.minimal_budget(asure.abstract("MountainCar-v0")).policy()
    env, late, most = gymnasium.make("MountainCar-v0"), 0, 0
    for episode in range(episodes):
        seen, _ = env.reset(seed=episode)
        bound, rests, steps, there = policy.minimal.of(seen.tolist()), None, 0, False
        while not there and steps <= bound:
            actions, rests = policy.act(seen[None], rests)
            seen, _, there, _, _ = env.step(int(actions[0]))
            steps += 1
        late, most = late + (not there or steps > bound), max(most, steps)
    print(f"MountainCar-v0 in Gymnasium itself: {episodes:,} episodes, {late} late, at most {most} steps")
    return late


# ---------------------------------------------------------------------- tightening


def tighten() -> int:
    """Cut cells into pieces: the hull of their images tends to the exact one, which is the tightest possible."""
    car = Grid((-1.201, -0.0701), (0.601, 0.0701), (300, 200))
    pole = Grid((-2.4, -1.6, -0.2094, -1.8), (2.4, 1.6, 0.2094, 1.8), (24, 24, 32, 32))
    cases = (
        (asure.abstract("MountainCar-v0", car), ((1, 1), (2, 1), (1, 2), (2, 2), (4, 4))),
        (asure.abstract("MountainCar-v0", car.with_cells((600, 400))), ((1, 1), (2, 2))),
        (asure.abstract("CartPole-v1", pole, pattern=6), ((1, 1, 1, 1), (1, 1, 2, 2), (1, 1, 4, 4))),
        (asure.abstract("Pendulum-v1", Grid((-0.4, -1.6), (0.4, 1.6), (40, 40))), ((1, 1), (2, 2), (4, 4))),
    )
    print("| system | cells | pieces per cell | the start needs at most | cells proved | CPU seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for model, splits in cases:
        for split in splits:
            began = time.process_time()
            found = replace(model, split=split).minimal_budget()
            took, shape = time.process_time() - began, " × ".join(map(str, model.grid.cells))
            share = float((found.of_state != asure.INFINITE).mean())
            pieces = " × ".join(map(str, split))
            print(
                f"| {model.name} | {shape} | {pieces} | {found.smallest_budget()} | {share:.2%} | {took:.1f} |",
                flush=True,
            )
    return 0


# ---------------------------------------------------------------------- a lower bound


@nb.njit(cache=True)
def spread(images: Images, width: int, reached: Any, after: Any) -> bool:
    """Mark all cells that cells of a block may lead to; returns whether the goal is among them.  Two coordinates."""
    ended = np.iinfo(images.counts.dtype).max
    for row in range(reached.shape[0]):
        for k in range(width):
            for q in range(images.start.shape[1]) if reached[row, k] else range(0):
                x = images.start[0, q] + row * images.stride[0, 0] + k * images.stride[0, 1]
                y = images.start[1, q] + row * images.stride[1, 0] + k * images.stride[1, 1]
                if images.counts[x] == ended:
                    return True
                for i in range(images.low[x], images.low[x] + images.counts[x]):
                    for j in range(images.low[y], images.low[y] + images.counts[y]):
                        after[i, j] = True
    return False


def bound(start: float = -0.6, cells: tuple[int, int] = (6_000, 2_800), planes: int = 120) -> int:
    """The cells that MountainCar may have reached after t steps, for all sequences of actions at once."""
    grid = Grid((-1.201, -0.0701), (0.601, 0.0701), cells, names=("position", "velocity"))
    model = asure.abstract("MountainCar-v0", grid, pattern=[(0,), (1,), (2,)])
    began = time.process_time()
    blocks = [model.images(first, min(first + planes, cells[0])) for first in range(0, cells[0], planes)]
    high = [edges[1:] for edges in grid.edges]
    goal = (high[0] >= 0.5)[:, None] & (high[1] >= 0.0)  # cells that touch it
    reached = np.zeros(cells, np.bool_)
    reached.reshape(-1)[grid.touching((start - 1e-7, -1e-7), (start + 1e-7, 1e-7))] = True
    steps = 0
    while not (reached & goal).any():
        after = np.zeros_like(reached)
        for number, images in enumerate(blocks):
            part = reached[number * planes : (number + 1) * planes]
            if part.any() and spread(images, cells[1], part, after):
                after |= goal
        reached, steps = after, steps + 1
    took = time.process_time() - began
    print(f"MountainCar-v0 from {start}: no sequence of actions arrives in fewer than {steps} steps ({took:.0f} CPU s)")
    return 0


# ---------------------------------------------------------------------- enclosures


def enclose(count: int = 1_000_000) -> int:
    """Check for random points and actions that the next state of the environment lies in the enclosure."""
    rng = np.random.default_rng(0)
    for name in ("CartPole-v1", "MountainCar-v0", "Pendulum-v1", "swing-up"):
        model = asure.abstract(name)
        states = rng.uniform(model.grid.low, model.grid.high, (count, model.grid.num_coordinates))
        actions, after = rng.integers(0, model.num_actions, count), np.empty_like(states)
        if name == "CartPole-v1":
            vector: Any = gymnasium.make_vec(name, count, vectorization_mode="vector_entry_point").unwrapped
            vector.reset(seed=0)
            vector.state = states.T.copy()
            vector.step(actions)
            after = vector.state.T
        else:
            env: Any = gymnasium.make("MountainCar-v0" if name == "MountainCar-v0" else "Pendulum-v1").unwrapped
            env.reset(seed=0)
            for i, action in enumerate(actions.tolist()):
                env.state = states[i].copy()
                env.step(action if name == "MountainCar-v0" else np.array([model.actions[action]], np.float32))
                after[i] = env.state
        model.check_step(states, actions, after)
        print(f"{name}: {count:,} random steps, all in their enclosures", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"solve": solve, "play": play, "tighten": tighten, "bound": bound, "enclose": enclose}
    parser.add_argument("part", nargs="?", choices=parts, help="all of them if it is not given")
    part = parser.parse_args().part
    return max(run() for name, run in parts.items() if part in (None, name))


if __name__ == "__main__":
    sys.exit(main())
