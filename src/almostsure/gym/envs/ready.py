"""``ready``: well-known environments with their damage and their exact models.

==============  ===================================================================
FrozenLake      1 for falling into a hole
CliffWalking    1 for falling off the cliff
Taxi            1 for a pick-up or drop-off that is not possible there
MiniGrid        1 for walking into lava (Lava…, DistShift…), see :mod:`almostsure.gym.envs.minigrid`
almostsure      according to the model
==============  ===================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import gymnasium

from almostsure.budget.solve import minimal_budget
from almostsure.errors import ArgumentError, UnknownName
from almostsure.gym.damage import DamageTracker
from almostsure.gym.envs.minigrid import make_room, read_room
from almostsure.gym.guarded import StateOf
from almostsure.gym.shielded import ShieldedEnv
from almostsure.model.build.damage import KNOWN, Damage, known_damage
from almostsure.model.build.environment import make_environment, module_and_id
from almostsure.model.build.tables import from_gymnasium
from almostsure.model.mdp import MDP
from almostsure.shield.shield import Shield


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ready:
    """An environment with its exact model, its damage and its ``state_of`` function.

    Examples
    --------
    >>> lake = ready("FrozenLake-v1")
    >>> lake.mdp.num_states, lake.shielded(budget=1).budget
    (16, 1)
    """

    make: Callable[..., gymnasium.Env[Any, Any]]  # accepts options of gymnasium.make, such as render_mode
    mdp: MDP
    damage: Damage | None  # of (s, a, s2, r, terminated); None if the damage follows from the model
    state_of: StateOf | None  # None if observations are states

    def shield(self) -> Shield:
        """The shield of the model."""
        return Shield(minimal_budget(self.mdp))

    def shielded(self, budget: int, **options: Any) -> ShieldedEnv:
        """A shielded environment; options are those of :class:`ShieldedEnv`."""
        return ShieldedEnv(self.make(), self.shield(), budget, state_of=self.state_of, **options)


def ready(name: str, *, map_seed: int = 0, **make_kwargs: Any) -> Ready:
    """A well-known environment with its damage and its exact model.

    Parameters
    ----------
    name
        Its id: FrozenLake, CliffWalking, Taxi, a room of MiniGrid, or one of this package.
    map_seed
        The seed of a MiniGrid room's map.
    **make_kwargs
        Passed to ``gymnasium.make``, such as ``is_slippery=True``.

    Examples
    --------
    >>> from almostsure.gym import ready
    >>> cliff = ready("CliffWalking-v1", is_slippery=True)
    >>> cliff.shield().minimal.smallest_budget()
    0
    >>> env = cliff.shielded(budget=2)
    >>> observation, info = env.reset(seed=0)
    >>> observation
    array([36,  2])
    """
    if not isinstance(name, str):
        raise ArgumentError(f"name must be the id of an environment; got {type(name).__name__}. Pass env.spec.id.")
    _, env_id = module_and_id(name)
    if env_id.startswith("MiniGrid-"):
        make = partial(make_room, env_id, map_seed, **make_kwargs)
        mdp, states = read_room(make)
        return Ready(make=make, mdp=mdp, damage=None, state_of=states)
    try:
        env = make_environment(name, **make_kwargs)
    except UnknownName as error:
        raise _unknown(env_id) from error
    try:
        found = getattr(env.unwrapped, "mdp", None)
        if isinstance(found, MDP):
            return Ready(make=partial(make_environment, name, **make_kwargs), mdp=found, damage=None, state_of=None)
        damage = known_damage(env.unwrapped)
        if damage is None:
            raise _unknown(env_id)
        make = partial(make_tracked, name, damage, **make_kwargs)
        return Ready(make=make, mdp=from_gymnasium(env, damage), damage=damage, state_of=None)
    finally:
        env.close()


def make_tracked(name: str, damage: Damage, **make_kwargs: Any) -> gymnasium.Env[Any, Any]:
    """An environment that reports its damage, which states alone do not always determine (a slip, or a bump?)."""
    return DamageTracker(make_environment(name, **make_kwargs), damage)


def _unknown(name: str) -> UnknownName:
    """The error for an environment that is not known, with the ids of those that are."""
    toys = [key for key, spec in gymnasium.registry.items() if str(spec.entry_point) in KNOWN]
    own = [key for key in gymnasium.registry if key.startswith("almostsure/")]
    return UnknownName(
        "ready environment",
        name,
        [*toys, *ROOMS, *own],
        f"There are: {', '.join([*toys, *ROOMS, *own])}. For others, build a model with from_gymnasium(env, damage), "
        "from_transitions or learn_minimal_budget.",
    )


ROOMS = ("MiniGrid-…",)  # all deterministic rooms
