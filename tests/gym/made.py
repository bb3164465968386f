"""Environments that several tests share."""

from functools import partial

import gymnasium

import almostsure as asure
from almostsure.gym import ShieldedEnv, to_gymnasium


def shield_of(mdp):
    return asure.Shield(asure.minimal_budget(mdp))


def shielded(model="hazard-map", budget=3, **options):
    mdp = asure.model.as_model(model)
    return ShieldedEnv(to_gymnasium(mdp), shield_of(mdp), budget, **options)


def cliff(max_steps=15):
    return gymnasium.make("CliffWalking-v1", max_episode_steps=max_steps)


def hurts(s, a, s2, r, terminated):
    """The damage of CliffWalking: falling off the cliff."""
    return int(r == -100)


def apart(make, count):
    """Copies whose episodes end at different times."""
    return [partial(make, max_steps) for max_steps in range(19, 19 + 3 * count, 3)]


def small(name, **options):
    """An environment of this package; a small archipelago, since rendering a large one takes long."""
    if "Archipelago" in name:
        options["size"] = 12
    return gymnasium.make(name, **options)


class Says(gymnasium.Env):
    """The costs of action 1 are taken from a list; the fourth step ends the episode."""

    observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(2)

    def __init__(self, *costs):
        self.costs, self.at, self.true, self.worst = costs, 0, 0, 0  # true: the damage of the episode

    def reset(self, *, seed=None, options=None):
        self.steps, self.true = 0, 0
        return 0, {}

    def step(self, action):
        cost = self.costs[self.at % len(self.costs)] if action == 1 else False
        self.at, self.steps, self.true = self.at + 1, self.steps + 1, self.true + cost
        self.worst = max(self.worst, self.true)
        return 0, 0.0, False, self.steps == 4, {"cost": cost}
