"""Whether an environment is the one that a shield was made for, as far as that can be seen before it is played."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Dict, Discrete
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import TimeLimit

from almostsure.budget.minimal import INFINITE
from almostsure.errors import ArgumentError, ModelError, ModelMismatch
from almostsure.model.build.damage import Damage, known_damage
from almostsure.model.build.environment import discrete_size, layers
from almostsure.model.mdp import MDP, Bools
from almostsure.model.naming import Logged
from almostsure.model.space import Space
from almostsure.shield.protocol import Guard, Watching
from almostsure.shield.shield import Shield
from almostsure.wording import state_of_example

GYMNASIUM = ("gymnasium.envs", "gymnasium.wrappers")  # where environments and wrappers are that say no damage
VALUES = ("(", "-", *"0123456789")  # how the names of states begin that are observations
BY_NAME = (
    " If explore made the model and it was loaded from a file, pass state_of=almostsure.learn.ByName(mdp), or "
    "ByName(mdp, key=…) with explore's key."
)


def check_kind(env: Any, wanted: type) -> None:
    """Refuse a vector environment where a single one is ``wanted``, a single one in place of a vector, and the like."""
    if isinstance(env, wanted):
        return
    remedy = "Make one with gymnasium.make, or a vector with gymnasium.make_vec."
    if isinstance(env, (VectorEnv, gymnasium.Env)):
        remedy = f"Put {'ShieldedVectorEnv' if isinstance(env, VectorEnv) else 'ShieldedEnv'} around it."
    raise ArgumentError(f"env must be a gymnasium {wanted.__name__}; got {type(env).__name__}. {remedy}")


def check_state_of(state_of: Any) -> None:
    """Refuse what cannot be called with an observation and its environment."""
    try:
        inspect.signature(state_of).bind(None, None)
    except ValueError:  # a builtin that does not say what it takes
        return
    except TypeError:
        raise ArgumentError(
            f"state_of must be a function of (observation, env), such as {state_of_example()}; got {state_of!r}"
        ) from None


def check_actions(space: Space, actions: Any) -> None:
    """Refuse action spaces that a shield cannot mask, or another one than the model's."""
    size = discrete_size("action", actions)
    if size is None:
        raise ArgumentError(
            f"a shield is for discrete actions numbered from 0; the environment has {actions}. Let the agent choose "
            "among finitely many: wrap it in gymnasium.wrappers.TransformAction, with a Discrete space of "
            "commands and a function that turns a command into the environment's action."
        )
    if size != space.num_actions:
        raise ModelMismatch(
            f"the environment has {size} actions and the shield's model {space.num_actions}: the shield is for "
            "another environment. Where the last actions are never available, name them all in action_names."
        )


def check_named_actions(space: Space, env: Any) -> None:
    """Refuse actions that a log numbers by the alphabet, unless the environment plays a model that does so, too."""
    own = getattr(env.unwrapped, "mdp", None)
    if (
        isinstance(space.encode, Logged)
        and space.encode.names_actions
        and not (isinstance(own, MDP) and own.action_names == space.action_names)
    ):
        raise ArgumentError(
            "the shield was learned from a log with names of actions, which do not say how the environment numbers "
            f"them. List them in its order: learn_from_logs(…, actions={list(space.action_names or ())})."
        )


def count_observations(space: Space, env: Any, observations: Any) -> int:
    """How many states the environment shows; refused where its observations are not the shield's states.

    Whoever plays a model of ours shows its end, too; so may what a vector environment hides.
    """
    loaded = BY_NAME if space.encode is None and (space.state_names or ("",))[0].startswith(VALUES) else ""
    size = discrete_size("observation", observations)
    if size is None:
        example = state_of_example(observations.spaces if isinstance(observations, Dict) else None)
        returns = "by number or name" if loaded else f"such as {example}"
        raise ArgumentError(
            f"observations of {observations} are not states of a model.{loaded} {'Or pass' if loaded else 'Pass'} "
            f"state_of, a function of (observation, env) that returns the state, {returns}, or learn the shield with "
            "encode=."
        )
    numbers = {space.num_observed}
    if shows_indices(env, observations) or isinstance(env, VectorEnv):
        numbers.add(space.num_states)
    if size not in numbers:
        raise ModelMismatch(
            f"the environment has {size} states and the shield's model {space.num_observed}: the shield is "
            f"for another environment.{loaded} If observations must be translated, pass state_of."
        )
    names = space.state_names or ()
    numbered = {str(state) for state in range(len(names))}
    taken = next((s for s, name in enumerate(names) if name in numbered and name != str(s)), None)
    if taken is not None and not shows_indices(env, observations):
        raise ModelMismatch(
            f"the environment shows numbers, and the shield's model has others: what it names {names[taken]!r} is its "
            f"state {taken}.{loaded} If observations are the model's own numbers, pass state_of=lambda observation, "
            "env: observation."
        )
    return size


def check_cells(guard: Watching, env: Any, budget: int) -> None:
    """Refuse an environment of Gymnasium's own, which says no damage, where the cells do not say it either."""
    if not all(type(layer).__module__.startswith(GYMNASIUM) for layer in (*layers(env), env.unwrapped)):
        return  # who knows what it says
    if unclear := guard.unclear(budget):
        raise ModelError(
            f"{unclear:,} cells lie across the border of what is unsafe, so that they do not say whether entering them "
            f"hurts; the environment must, in info['damage'] or info['cost'], and {env.unwrapped} does not. Wrap it: "
            "ShieldedEnv(DamageTracker(env, damage), …), with damage(observation, action, next_observation, reward, "
            "terminated)."
        )


def _is_translated(env: Any) -> bool:
    kinds = (gymnasium.ActionWrapper, gymnasium.ObservationWrapper)
    return any(isinstance(layer, kinds) for layer in layers(env))


# ---------------------------------------------------------------------- environments that know what may happen in them


class _Rows(NamedTuple):
    """What an environment says may happen, one entry per outcome."""

    state: npt.NDArray[np.int64]
    action: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]
    damage: npt.NDArray[np.int64]  # −1 where it does not say
    terminated: Bools


def check_outcomes(guard: Guard, env: Any) -> None:
    """Refuse an environment that knows its own model, or table, with outcomes which the guard's model does not have.

    Only where the guard may allow something: what is always refused need not be known.
    """
    mdp = guard.space
    if not isinstance(mdp, MDP) or _is_translated(env):
        return  # there is no model, or its numbers are not those that the guard sees
    inner = env.unwrapped
    own, table = getattr(inner, "mdp", None), getattr(inner, "P", None)
    if isinstance(own, MDP):
        if own == mdp:
            return
        rows = _of_model(own)
    elif isinstance(table, Mapping) and table and all(isinstance(row, Mapping) for row in table.values()):
        rows = _of_table(table)
    else:
        return
    wrong = np.flatnonzero(~_possible(mdp, rows) & _may_be_played(mdp, guard, rows))
    if wrong.size:
        at = int(wrong[0])
        state, action, after, damage = (int(column[at]) for column in rows[:4])
        hurt = "" if damage < 0 else f" with damage {damage}"
        seen = "was learned without seeing it (learn more, or with a smaller mu), or is" if mdp.origin.counted else "is"
        raise ModelMismatch(
            f"the environment leads from {mdp.describe_state(state)}, action {mdp.action_name(action)}, to "
            f"{mdp.describe_state(after)}{hurt}, {'where it ends' if rows.terminated[at] else 'where it goes on'}: the "
            f"shield's model says that this is impossible, so it {seen} a shield for another environment (another "
            "map?). Build its model from this one: from_gymnasium(env, damage), or env.unwrapped.mdp."
        )


def _of_model(mdp: MDP) -> _Rows:
    state, action, after, _, _, damage = mdp.columns()
    state, action, after, damage = (column.astype(np.int64) for column in (state, action, after, damage))
    return _Rows(state, action, after, damage, mdp.is_terminal()[mdp.successor])


def _of_table(table: Mapping[Any, Any], damage: Damage | None = None) -> _Rows:
    rows = [
        (state, action, int(after), -1 if damage is None else int(damage(state, action, after, r, ends)), bool(ends))
        for state, row in table.items()
        for action, outcomes in row.items()
        for probability, after, r, ends in outcomes
        if probability
    ]
    state, action, after, said, terminated = np.array(rows, np.int64).T
    return _Rows(state, action, after, said, terminated.astype(np.bool_))


def damage_where_needed(guard: Guard, env: Any) -> Damage | None:
    """What counts as damage in a well-known environment that does not say it, where the guard cannot know it.

    None where the guard's model has another idea of what hurts: then the environment must say it.
    """
    damage, table = known_damage(env), getattr(env.unwrapped, "P", None)
    if damage is None or _is_translated(env):
        return None
    if not isinstance(guard, Shield):
        return None if isinstance(guard.space, MDP) else damage
    if not isinstance(table, Mapping):
        return None
    rows, own = _of_table(table, damage), _of_model(guard.mdp)
    transitions = np.unique(_numbers(guard.mdp, own.state, own.action, own.after, own.damage)) // 256
    agrees = not (~_possible(guard.mdp, rows) & _may_be_played(guard.mdp, guard, rows)).any()
    return damage if agrees and np.unique(transitions).size < transitions.size else None


def _possible(mdp: MDP, rows: _Rows) -> Bools:
    """Which outcomes the guard's model has."""
    state, action, after, damage, terminated = rows
    own = _of_model(mdp)
    is_terminal = mdp.is_terminal()
    passes = np.zeros(mdp.num_states, np.bool_)  # states that the environment leaves for others
    passes[state[state != after]] = True

    def has(target: npt.NDArray[np.int64]) -> Bools:
        hurt = np.maximum(damage, 0) if (damage >= 0).any() else None
        known = _numbers(mdp, own.state, own.action, own.after, None if hurt is None else own.damage)
        return np.isin(_numbers(mdp, state, action, target, hurt), known)

    goes_on = has(after) & (~is_terminal[after] | ~passes[after])
    ends = has(after) & is_terminal[after]
    if mdp.end is not None:
        ends |= has(np.full_like(after, mdp.end))
    return np.where(terminated, ends, goes_on)


def _numbers(mdp: MDP, state: Any, action: Any, after: Any, damage: Any) -> npt.NDArray[np.int64]:
    number: npt.NDArray[np.int64] = (state * mdp.num_actions + action) * mdp.num_states + after
    return number if damage is None else number * 256 + damage


def _may_be_played(mdp: MDP, guard: Guard, rows: _Rows) -> Bools:
    """Which outcomes belong to choices that the guard allows with some budget, in states where episodes go on."""
    if isinstance(guard, Shield):
        allowed: Bools = guard.minimal.of_choice < INFINITE
    else:  # all of which something is known
        unknown = mdp.num_states if mdp.unknown is None else mdp.unknown
        allowed = np.maximum.reduceat(mdp.successor, mdp.outcome_ptr[:-1].astype(np.int64)) < unknown
    may = mdp.by_action(allowed, False)
    may[mdp.is_terminal()] = False
    played: Bools = may[rows.state, rows.action]
    return played


def shows_indices(env: Any, observations: Any) -> bool:
    """Whether an environment plays a model of ours and shows its states by their index."""
    model = getattr(getattr(env, "unwrapped", env), "mdp", None)
    return isinstance(model, MDP) and isinstance(observations, Discrete) and observations.n == model.num_states


def has_names(space: Space, env: Any) -> bool:
    """Whether the model that an environment plays has the names of ``space``: an index means the same state then."""
    own: MDP = env.unwrapped.mdp
    return (own.state_names is None) == (space.state_names is None) and not own.otherwise_named(space)


def most_steps(env: Any) -> int | None:
    """After how many steps an environment ends every episode, if that is known: its TimeLimit's, or its own limit."""
    spec = getattr(env, "spec", None)
    found = [getattr(spec, "max_episode_steps", None), getattr(env.unwrapped, "max_episode_steps", None)]
    found += [getattr(layer, "_max_episode_steps", None) for layer in layers(env) if isinstance(layer, TimeLimit)]
    limits = [int(steps) for steps in found if steps is not None and steps > 0]
    return min(limits) if limits else None
