"""The environments that several tests of shielded environments make."""

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
    """What hurts at the cliff."""
    return int(r == -100)


def apart(make, count):
    """Copies whose episodes end at different times."""
    return [partial(make, max_steps) for max_steps in range(19, 19 + 3 * count, 3)]


def small(name, **options):
    """An environment of ours; a small sea, since a large one takes long to draw."""
    if "Archipelago" in name:
        options["size"] = 12
    return gymnasium.make(name, **options)
