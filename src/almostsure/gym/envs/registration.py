"""Registers the environments of this package with Gymnasium.

>>> import gymnasium, almostsure.gym
>>> env = gymnasium.make("almostsure/Paper-v0", damage_probability=0.6)
>>> env.unwrapped.mdp
<MDP: 2 states, 3 choices, 4 outcomes, starts in circle>

``gymnasium.make("almostsure.gym:almostsure/Paper-v0")`` needs no import.  Each has its exact model in
``env.unwrapped.mdp``, and ``gymnasium.make_vec`` makes vectorised environments, which are faster.

Agents without masks must be able to play them, so every state has every action: in a one-way cell, all actions have
the outcomes of its only one.  This leaves all minimal budgets of states unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from almostsure.gym.envs.model_env import ModelEnv, ModelVectorEnv
from almostsure.gym.envs.render import Draw, Drawing
from almostsure.gym.envs.warehouse import draw, warehouse
from almostsure.model.arrays import spans
from almostsure.model.build.examples import example, map_of
from almostsure.model.build.grid import Map, from_map
from almostsure.model.build.transitions import build
from almostsure.model.mdp import MDP

Drawn = tuple[MDP, Draw | None]  # a model, and a drawing function if it has no map


def paper(*, damage_probability: float = 1.0) -> Drawn:
    """The paper's running example: *left* has reward 1 and may do damage, *right* ends the episode."""
    return example("paper", damage_probability=damage_probability), draw_paper


def draw_paper(state: int) -> Drawing:
    """The circle and the square."""
    return Drawing(("( )>[ ]",), (0, 1 if state == 0 else 5))


def hazard_map(
    *, text: Map | None = None, slip: float = 0.1, step_reward: float = -1.0, goal_reward: float = 50.0, **more: Any
) -> Drawn:
    """A map from text, as :func:`almostsure.from_map` reads it; by default two rivers between start and goal."""
    drawing: Map = map_of("hazard-map") if text is None else text
    mdp = from_map(drawing, slip=slip, step_reward=step_reward, goal_reward=goal_reward, **more)
    return with_all_actions(mdp), None


def named(name: str, /, **parameters: Any) -> Drawn:
    """One of the package's examples."""
    return with_all_actions(example(name, **parameters)), None


def with_all_actions(mdp: MDP) -> MDP:
    """The model in which actions that a state does not have get the outcomes of its first one."""
    has = mdp.by_action(np.ones(mdp.num_choices, np.bool_), False)
    missing, action = np.nonzero(~has & ~mdp.is_terminal()[:, None])
    if not missing.size:
        return mdp
    copied, of = spans(mdp.outcome_ptr, mdp.choice_ptr[missing])
    columns = mdp.columns()
    added = missing[of], action[of], *(column[copied] for column in columns[2:])
    both = [np.concatenate(column) for column in zip(columns, added, strict=True)]
    return build(both, num_states=mdp.num_states, initial=mdp.starts, **mdp.naming())


def robot(*, pause: float = 0.2) -> Drawn:
    """The warehouse robot; see :mod:`almostsure.gym.envs.warehouse`."""
    mdp, situations = warehouse(pause=pause)
    return mdp, partial(draw, situations)


BUILDERS: dict[str, tuple[Callable[..., Drawn], int]] = {  # by name: the builder, and the time limit
    "Paper": (paper, 100),
    "HazardMap": (hazard_map, 300),
    "Corridor": (partial(named, "corridor"), 100),
    "Quicksand": (partial(named, "quicksand"), 300),
    "Archipelago": (partial(named, "archipelago"), 1000),
    "Warehouse": (robot, 300),
}


def make_single(*, builder: str, render_mode: str | None = None, **parameters: Any) -> ModelEnv:
    """A single environment; the entry point for Gymnasium."""
    mdp, drawing = BUILDERS[builder][0](**parameters)
    return ModelEnv(mdp, render_mode=render_mode, draw=drawing)


def make_vector(
    *,
    builder: str,
    num_envs: int = 1,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    **parameters: Any,
) -> ModelVectorEnv:
    """A vectorised environment; the entry point for Gymnasium."""
    mdp, _ = BUILDERS[builder][0](**parameters)
    return ModelVectorEnv(mdp, num_envs, max_episode_steps=max_episode_steps)


def environment_names() -> tuple[str, ...]:
    """The ids of all environments of this package.

    Examples
    --------
    >>> environment_names()[0]
    'almostsure/Paper-v0'
    """
    return tuple(f"almostsure/{name}-v0" for name in BUILDERS)


def register() -> None:
    """Register the environments with Gymnasium, unless they are registered already."""
    for name, (_, limit) in BUILDERS.items():
        key = f"almostsure/{name}-v0"
        if key not in gymnasium.registry:
            gymnasium.register(
                key,
                entry_point=f"{__name__}:make_single",
                vector_entry_point=f"{__name__}:make_vector",
                max_episode_steps=limit,
                kwargs={"builder": name},
            )
