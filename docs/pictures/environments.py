"""Put three of the package's environments, as they draw themselves, into environments.png.

python docs/pictures/environments.py
"""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
from matplotlib import image

import almostsure.gym  # noqa: F401  registers the environments

TARGET = Path(__file__).with_name("environments.png")
GAP = 14  # pixels between the pictures


def frame(name: str, seed: int, actions: list[str]) -> np.ndarray:
    """One environment after some steps, as pixels."""
    env = gymnasium.make(f"almostsure/{name}-v0", render_mode="rgb_array")
    env.reset(seed=seed)
    for action in actions:
        env.step(env.unwrapped.mdp.action(action))
    return env.render()


def main() -> None:
    """Put the three beside each other."""
    robot = frame("Warehouse", 3, ["west", "north", "north", "east", "east", "west", "west", "west", "north"])
    sand = frame("Quicksand", 2, ["east", "east"])
    paper = frame("Paper", 3, ["left", "left"])
    height = max(robot.shape[0] + GAP + paper.shape[0], sand.shape[0])
    page = np.full((height, robot.shape[1] + GAP + sand.shape[1], 3), 255, np.uint8)
    below, aside = robot.shape[0] + GAP, (robot.shape[1] - paper.shape[1]) // 2
    middle = (height - sand.shape[0]) // 2
    page[: robot.shape[0], : robot.shape[1]] = robot
    page[below : below + paper.shape[0], aside : aside + paper.shape[1]] = paper
    page[middle : middle + sand.shape[0], robot.shape[1] + GAP :] = sand
    image.imsave(TARGET, page)


if __name__ == "__main__":
    main()
