"""Draw a run of CartPole inside the set that is proved safe, as cartpole.png.

python docs/pictures/cartpole.py
"""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np

import almostsure as asure
from almostsure.gym import ShieldedEnv


def main() -> None:
    """Play 200 random allowed steps and draw them over the proved set."""
    minimal = asure.minimal_budget(asure.abstract("CartPole-v1"))
    env = ShieldedEnv(gymnasium.make("CartPole-v1"), asure.Shield(minimal), budget=0, observe="none")
    rng, run = np.random.default_rng(3), []
    observation, _ = env.reset(seed=3)
    for _ in range(200):
        run.append(observation)
        observation, _, terminated, _, _ = env.step(rng.choice(np.flatnonzero(env.action_masks())))
        assert not terminated
    figure = minimal.plot("angle", "angular velocity", trajectory=np.array(run))
    figure.axes[0].set_title("200 random allowed steps of CartPole-v1. Green: proved safe", fontsize=11)
    figure.savefig(Path(__file__).with_name("cartpole.png"), dpi=150)


if __name__ == "__main__":
    main()
