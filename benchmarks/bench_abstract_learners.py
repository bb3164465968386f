"""Learners in continuous environments: inside the shield, and without it.

    python benchmarks/bench_abstract_learners.py [--steps N] [--seeds S …] [--only TASK …]

MaskablePPO inside the shield and, with the same network and settings, plain PPO, PPO-Lagrangian and Sauté PPO.  The
benchmark fails if a shielded run overspends.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TimeLimit, TransformAction
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

import almostsure as asure
from almostsure import Grid
from almostsure.gym import ShieldedEnv
from almostsure.gym.deep.learners import Price

SETTINGS = dict(n_steps=512, batch_size=128, n_epochs=5, learning_rate=1e-3, gamma=0.98, device="cpu")
PENALTY = 10.0  # of Sauté, per step while overspent

# ---------------------------------------------------------------------- tasks


class Task(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that reports its damage, with a reward for following a target that moves to and fro."""

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
    """A pendulum that starts near upright; the episode ends when it leans by more than 0.4 radians."""

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
    """A step of 0.25 s of a unicycle in a room of 6 by 6, whose walls stop it."""
    x, y, heading = state
    speed, turn = action
    x, y = x + 0.25 * speed * np.cos(heading), y + 0.25 * speed * np.sin(heading)
    return np.clip(x, 0.0, 6.0), np.clip(y, 0.0, 6.0), heading + 0.25 * turn


def touches(state: Any) -> Any:
    x, y, _ = state
    inside = [(x >= a) & (x <= b) & (y >= c) & (y <= d) for a, b, c, d in WALLS]
    return inside[0] | inside[1] | inside[2] | inside[3]


class Vehicle(gymnasium.Env[Any, Any]):
    """Drive through the gaps of two walls to the far side; touching a wall is damage 1, the reward is progress."""

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
    """The damages and returns of the episodes of a training run."""

    returns: list[float] = field(default_factory=list)
    damages: list[int] = field(default_factory=list)


class Noting(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper that records the true return and damage of all episodes, independent of the learner's reward."""

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
    """The wrapper with the reward of the Lagrangian or of Sauté; Sauté also shows the remaining budget."""

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
    """A wrapper that adds the target to the observation, if there is one, and passes the mask on."""

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
    """Update the Lagrange multiplier after each rollout."""

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
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=list(TASKS), default=list(TASKS))
    arguments = parser.parse_args()
    return learn(arguments.steps, arguments.seeds, arguments.only)


if __name__ == "__main__":
    sys.exit(main())
