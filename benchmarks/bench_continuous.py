"""Continuous environments: how fast upper budgets are proved, and learners inside the shield beside their rivals.

    python benchmarks/bench_continuous.py solve
    python benchmarks/bench_continuous.py play [--steps N]
    python benchmarks/bench_continuous.py tighten
    python benchmarks/bench_continuous.py bound
    python benchmarks/bench_continuous.py learn [--steps N] [--seeds S …] [--only TASK …]

``solve`` prints CPU seconds without compilation, the memory and the share of proved cells, beside what SCOTS 0.2 takes
(g++ -O3, measured on the machine of docs/benchmarks.md).  ``play`` plays random allowed actions in Gymnasium's own
vector of CartPoles, and 10⁵ episodes of MountainCar by its policy; it fails if a pole falls or a car is late.
``tighten`` shows what cutting cells into pieces gives, and what it costs.  ``bound`` proves that no car starting at
−0.6 arrives within 100 steps, whatever it plays.  ``learn`` trains MaskablePPO inside the shield and, with the
same network and settings, plain PPO, PPO-Lagrangian and Sauté PPO.  It fails if a shielded run overspends.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium
import numba as nb
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TimeLimit, TransformAction
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

import almostsure as asure
from almostsure import Grid
from almostsure.abstract.images import Images
from almostsure.gym import ShieldedEnv
from almostsure.gym.deep.regimes import Price

SCOTS = {"dcdc": "0.30 s, 593,089 cells, 49 MB", "vehicle": "2.4 s, 48,018 cells, 252 MB"}
SETTINGS = dict(n_steps=512, batch_size=128, n_epochs=5, learning_rate=1e-3, gamma=0.98, device="cpu")
PENALTY = 10.0  # of Sauté, per step while overspent

# ---------------------------------------------------------------------- solving


def solve() -> int:
    print("| system | cells | choices | CPU seconds | cells proved | the start needs at most | SCOTS 0.2 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in ("dcdc", "vehicle", "cruise-control", "MountainCar-v0", "Pendulum-v1", "CartPole-v1"):
        small = asure.abstract(name)
        small = asure.abstract(name, small.grid.with_cells([min(n, 12) for n in small.grid.cells]))
        small.minimal_budget()  # compiles
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


def play(steps: int) -> int:
    return play_cart_pole(steps) + play_mountain_car(100_000) + play_gymnasium_car(1_000)


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
            run = shield.after(run, actions, np.where(cells < 0, shield.space.unknown, cells))
    took = time.process_time() - began
    print(
        f"CartPole-v1: {played:,} random allowed steps, {falls} falls, {forced / played:.0%} forced, {took:.0f} CPU s"
    )
    return int(falls)


def car_step(position: Any, velocity: Any, actions: Any) -> tuple[Any, Any]:
    """Gymnasium's MountainCar, for many cars at once."""
    velocity = np.clip(velocity + (actions - 1) * 0.001 + np.cos(3 * position) * (-0.0025), -0.07, 0.07)
    position = np.clip(position + velocity, -1.2, 0.6)
    return position, np.where((position <= -1.2) & (velocity < 0), 0.0, velocity)


def play_mountain_car(episodes: int) -> int:
    """The proved policy in many cars, whose steps are those of Gymnasium to the last bit or nearly so."""
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
    """Cells cut into pieces: the hull of their images tends to the exact one, which no other form can beat."""
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
    """Mark all cells that cells of a block may lead to; whether the goal is among them.  Two coordinates."""
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
    """Everything that MountainCar may have reached after t steps, for every sequence of actions at once."""
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


# ---------------------------------------------------------------------- tasks


class Task(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that says its damage, and pays for following a target that moves to and fro."""

    def __init__(self, env: Any, *, axis: int, amplitude: float, scale: float, harm: Callable[..., int]) -> None:
        super().__init__(env)
        self.axis, self.amplitude, self.scale, self.harm, self.time = axis, amplitude, scale, harm, 0

    @property
    def target(self) -> float:
        return self.amplitude * float(np.sin(self.time / 100))

    def step(self, action: Any) -> Any:
        observation, _, terminated, truncated, info = self.env.step(action)
        self.time += 1
        reward = 1.0 - min(1.0, abs(float(observation[self.axis]) - self.target) / self.scale)
        damage = self.harm(observation, terminated)
        return observation, reward, terminated, truncated, info | {"damage": damage}


def cart_pole() -> Any:
    env = gymnasium.make("CartPole-v1")
    return Task(env, axis=0, amplitude=0.5, scale=1.0, harm=lambda seen, ended: int(ended))


class Upright(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pendulum that starts near upright and ends when it leans more than 0.4 radians."""

    def reset(self, **more: Any) -> Any:
        return self.env.reset(**more | {"options": {"x_init": 0.1, "y_init": 0.1}})

    def step(self, action: Any) -> Any:
        observation, reward, _, truncated, info = self.env.step(action)
        return observation, reward, abs(np.arctan2(observation[1], observation[0])) > 0.4, truncated, info


def pendulum() -> Any:
    torques = asure.abstract("Pendulum-v1").actions
    env = gymnasium.make("Pendulum-v1")
    listed = TransformAction(env, lambda a: np.array([torques[a]], np.float32), Discrete(len(torques)))
    return Task(Upright(listed), axis=1, amplitude=0.1, scale=0.5, harm=lambda seen, ended: int(ended))


WALLS = ((2.0, 2.4, 0.0, 3.4), (2.0, 2.4, 4.2, 6.0), (4.0, 4.4, 0.0, 1.4), (4.0, 4.4, 2.2, 6.0))
DRIVES = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (1.0, -1.0), (-1.0, 0.0))  # speed, turn


def drive(state: Any, action: tuple[float, float]) -> Any:
    """A unicycle, 0.25 s; walls of a room 6 by 6 stop it."""
    x, y, heading = state
    speed, turn = action
    x, y = x + 0.25 * speed * np.cos(heading), y + 0.25 * speed * np.sin(heading)
    return np.clip(x, 0.0, 6.0), np.clip(y, 0.0, 6.0), heading + 0.25 * turn


def touches(state: Any) -> Any:
    x, y, _ = state
    inside = [(x >= a) & (x <= b) & (y >= c) & (y <= d) for a, b, c, d in WALLS]
    return inside[0] | inside[1] | inside[2] | inside[3]


class Vehicle(gymnasium.Env[Any, Any]):
    """Drive through two walls with gaps to the far side; a touch is damage 1, progress is paid."""

    observation_space, action_space = Box(-10, 10, (3,), np.float64), Discrete(len(DRIVES))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = (0.5, float(self.np_random.uniform(1, 5)), float(self.np_random.uniform(-0.5, 0.5)))
        return np.array(self.state), {}

    def step(self, action: int) -> Any:
        before = self.state
        x, y, heading = (float(value) for value in drive(self.state, DRIVES[action]))
        self.state = (x, y, (heading + np.pi) % (2 * np.pi) - np.pi)
        there = x > 5.0
        reward = (x - before[0]) + (5.0 if there else 0.0) - 0.01
        return np.array(self.state), reward, there, False, {"damage": int(bool(touches(self.state)))}


def vehicle_model() -> Any:
    grid = Grid((0, 0, -np.pi), (6, 6, np.pi), (60, 60, 48), periodic=(2,), names=("x", "y", "heading"))
    return asure.abstract(drive, grid, DRIVES, unsafe=touches, initial=((0.5, 1, -0.5), (0.5, 5, 0.5)))


class Arrival(gymnasium.Wrapper[Any, Any, Any, Any]):
    """MountainCar, whose damage is the number of steps."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, info | {"damage": 1}


@dataclass(frozen=True)
class Setting:
    title: str
    make: Callable[[], Any]
    model: Callable[[], Any]
    budget: int
    regimes: tuple[str, ...] = ("shielded", "plain", "lagrangian", "saute")
    limit: int = 500
    counted: str = "episodes over budget"


TASKS = {
    "cartpole": Setting(
        "CartPole-v1, follow a target", cart_pole, lambda: asure.abstract("CartPole-v1"), 0, counted="falls"
    ),
    "pendulum": Setting(
        "Pendulum-v1, upright, follow a target",
        pendulum,
        lambda: asure.abstract("Pendulum-v1"),
        0,
        limit=200,
        counted="falls",
    ),
    "vehicle": Setting("vehicle, 2 touches", Vehicle, vehicle_model, 2, limit=100),
    "mountaincar": Setting(
        "MountainCar-v0, arrival within 120",
        lambda: Arrival(gymnasium.make("MountainCar-v0")),
        lambda: asure.abstract("MountainCar-v0"),
        120,
        limit=200,
        counted="episodes not arrived in time",
    ),
}

# ---------------------------------------------------------------------- learning


@dataclass
class Book:
    """Damage and return of the episodes of a training run."""

    returns: list[float] = field(default_factory=list)
    damages: list[int] = field(default_factory=list)


class Noting(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Note the true return and damage of every episode, whatever the learner is paid."""

    def __init__(self, env: Any, book: Book) -> None:
        super().__init__(env)
        self.book, self.total, self.damage = book, 0.0, 0

    def reset(self, **more: Any) -> Any:
        self.total, self.damage = 0.0, 0
        return self.env.reset(**more)

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.total, self.damage = self.total + float(reward), self.damage + int(info["damage"])
        if terminated or truncated:
            self.book.returns.append(self.total)
            self.book.damages.append(self.damage)
        return observation, reward, terminated, truncated, info


class Rival(gymnasium.Wrapper[Any, Any, Any, Any]):
    """What the Lagrangian and Sauté pay; Sauté shows what remains."""

    def __init__(self, env: Any, regime: str, budget: int, price: Price) -> None:
        super().__init__(env)
        self.regime, self.budget, self.price, self.left, self.ended = regime, budget, price, budget, []
        if regime == "saute":
            low, high = (
                np.append(end, 2.0 * side)
                for end, side in ((env.observation_space.low, -1.0), (env.observation_space.high, 1.0))
            )
            self.observation_space = Box(low, high, dtype=np.float64)

    def seen(self, observation: Any) -> Any:
        share = np.clip((self.left + 1) / (self.budget + 1), -1.0, 1.0)
        return np.append(np.asarray(observation, np.float64), share) if self.regime == "saute" else observation

    def reset(self, **more: Any) -> Any:
        self.left = self.budget
        observation, info = self.env.reset(**more)
        return self.seen(observation), info

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.left -= int(info["damage"])
        if self.regime == "saute" and self.left < 0:
            reward = -PENALTY
        if self.regime == "lagrangian":
            numbers = (np.array([float(reward)]), np.array([info["damage"]]), np.array([self.left]))
            reward = float(self.price.pay(*numbers)[0])
            if terminated or truncated:
                self.ended.append(self.budget - self.left)
        return self.seen(observation), reward, terminated, truncated, info


class Shown(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Show the target, where there is one, and pass the mask on."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        space = env.observation_space
        self.task = next_task(env)
        if self.task is not None:
            self.observation_space = Box(np.append(space.low, -1.0), np.append(space.high, 1.0), dtype=np.float64)

    def observation(self, observation: Any) -> Any:
        return observation if self.task is None else np.append(np.asarray(observation, np.float64), self.task.target)

    def reset(self, **more: Any) -> Any:
        observation, info = self.env.reset(**more)
        return self.observation(observation), info

    def step(self, action: Any) -> Any:
        observation, *rest = self.env.step(action)
        return self.observation(observation), *rest

    def action_masks(self) -> Any:
        return self.env.get_wrapper_attr("action_masks")()


def next_task(env: Any) -> Task | None:
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, Task):
            return env
        env = env.env
    return None


class Raise(BaseCallback):
    """Let the price of damage learn after each rollout."""

    def __init__(self, env: Rival) -> None:
        super().__init__()
        self.env = env

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.env.price.learn(self.env.ended)
        self.env.ended.clear()


def train(setting: Setting, shield: Any, regime: str, seed: int, steps: int) -> Book:
    book = Book()
    env = Noting(TimeLimit(setting.make(), setting.limit), book)
    if regime == "shielded":
        inside = Shown(ShieldedEnv(env, shield, setting.budget))
        agent: Any = MaskablePPO("MlpPolicy", inside, seed=seed, **SETTINGS)
        agent.learn(steps)
        return book
    rival = Rival(env, regime, setting.budget, Price(setting.budget, 0.1))
    agent = PPO("MlpPolicy", Shown(rival), seed=seed, **SETTINGS)
    agent.learn(steps, callback=Raise(rival))
    return book


def learn(steps: int, seeds: list[int], only: list[str]) -> int:
    failed = 0
    print("| task | learner | counted in training | episodes | return of the last fifth |")
    print("| --- | --- | --- | --- | --- |")
    for name in only:
        setting = TASKS[name]
        shield = asure.Shield(asure.minimal_budget(setting.model()))
        for regime in setting.regimes:
            books = [train(setting, shield, regime, seed, steps) for seed in seeds]
            over = sum(sum(damage > setting.budget for damage in book.damages) for book in books)
            episodes = sum(len(book.returns) for book in books)
            last = [float(np.mean(book.returns[-max(len(book.returns) // 5, 1) :])) for book in books]
            failed += over if regime == "shielded" else 0
            print(
                f"| {setting.title} | {regime} | {over:,} {setting.counted} | {episodes:,} | "
                f"{min(last):.1f} … {max(last):.1f} |",
                flush=True,
            )
    print(f"\n{steps:,} steps, seeds {seeds}")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("solve", "play", "tighten", "bound", "learn"))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=list(TASKS), default=list(TASKS))
    arguments = parser.parse_args()
    if arguments.part == "play":
        return play(arguments.steps or 10_000_000)
    if arguments.part == "learn":
        return learn(arguments.steps or 20_000, arguments.seeds, arguments.only)
    return {"solve": solve, "tighten": tighten, "bound": bound}[arguments.part]()


if __name__ == "__main__":
    sys.exit(main())
