"""Checks that a shield was made for an environment, before it is played."""

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

GYMNASIUM = ("gymnasium.envs", "gymnasium.wrappers")  # modules whose environments and wrappers report no damage
VALUES = ("(", "-", *"0123456789")  # first characters of names of states that are observations
BY_NAME = (
    " If explore made the model and it was loaded from a file, pass state_of=almostsure.learn.ByName(mdp), or "
    "ByName(mdp, key=…) with explore's key."
)


def check_kind(env: Any, wanted: type) -> None:
    """Raise unless the environment is of the ``wanted`` kind, single or vector."""
    if isinstance(env, wanted):
        return
    remedy = "Make one with gymnasium.make, or a vector with gymnasium.make_vec."
    if isinstance(env, (VectorEnv, gymnasium.Env)):
        remedy = f"Put {'ShieldedVectorEnv' if isinstance(env, VectorEnv) else 'ShieldedEnv'} around it."
    raise ArgumentError(f"env must be a gymnasium {wanted.__name__}; got {type(env).__name__}. {remedy}")


def check_state_of(state_of: Any) -> None:
    """Raise unless ``state_of`` can be called with an observation and its environment."""
    try:
        inspect.signature(state_of).bind(None, None)
    except ValueError:  # a builtin without a signature
        return
    except TypeError:
        raise ArgumentError(
            f"state_of must be a function of (observation, env), such as {state_of_example()}; got {state_of!r}"
        ) from None


def check_actions(space: Space, actions: Any) -> None:
    """Raise unless the action space can be masked, and has as many actions as the model."""
    size = discrete_size("action", actions)
    if size is None:
        raise ArgumentError(
            f"a shield needs discrete actions numbered from 0; the environment has {actions}. Wrap it in "
            "gymnasium.wrappers.TransformAction, with a Discrete space and a function from its numbers to the "
            "environment's actions."
        )
    if size != space.num_actions:
        raise ModelMismatch(
            f"the environment has {size} actions and the shield's model {space.num_actions}: the shield is for "
            "another environment. If the model lacks the last actions because they are never available, name all "
            "actions in action_names."
        )


def check_named_actions(space: Space, env: Any) -> None:
    """Raise if a log numbers actions alphabetically, unless the environment's own model has them in the same order."""
    own = getattr(env.unwrapped, "mdp", None)
    if (
        isinstance(space.encode, Logged)
        and space.encode.names_actions
        and not (isinstance(own, MDP) and own.action_names == space.action_names)
    ):
        raise ArgumentError(
            "the shield was learned from a log with names of actions, and the environment numbers its actions in an "
            f"unknown order. List them in its order: learn_from_logs(…, actions={list(space.action_names or ())})."
        )


def count_observations(space: Space, env: Any, observations: Any) -> int:
    """The size of the observation space; raises unless the observations are the shield's states.

    Environments that play an ``MDP`` also show its ``end`` state; those inside a vector may be such environments.
    """
    loaded = BY_NAME if space.encode is None and (space.state_names or ("",))[0].startswith(VALUES) else ""
    size = discrete_size("observation", observations)
    if size is None:
        example = state_of_example(observations.spaces if isinstance(observations, Dict) else None)
        returns = "by number or name" if loaded else f"such as {example}"
        returns = "by number (those of the model have no names)" if space.state_names is None else returns
        raise ArgumentError(
            f"observations must be states of the model; the observation space is {observations}.{loaded} "
            f"{'Or pass' if loaded else 'Pass'} state_of, a function of (observation, env) that returns the state, "
            f"{returns}, or learn the shield with encode=."
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
    differs = next((s for s, name in enumerate(names) if name in numbered and name != str(s)), None)
    if differs is not None and not shows_indices(env, observations):
        raise ModelMismatch(
            f"observations must be numbers of the model's states; the model numbers them differently: the state named "
            f"{names[differs]!r} has number {differs}.{loaded} If observations are the model's own numbers, pass "
            "state_of=lambda observation, env: observation."
        )
    return size


def check_cells(guard: Watching, env: Any, budget: int) -> None:
    """Raise for one of Gymnasium's own environments, which report no damage, if cells do not determine it either."""
    if not all(type(layer).__module__.startswith(GYMNASIUM) for layer in (*layers(env), env.unwrapped)):
        return  # other environments may report damage
    if unclear := guard.unclear(budget):
        raise ModelError(
            f"the environment must report damage in info['damage'] or info['cost'], since {unclear:,} cells are only "
            f"partly unsafe and do not determine it; {env.unwrapped} does not. Wrap it: "
            "ShieldedEnv(DamageTracker(env, damage), …), with damage(observation, action, next_observation, reward, "
            "terminated)."
        )


def _is_translated(env: Any) -> bool:
    kinds = (gymnasium.ActionWrapper, gymnasium.ObservationWrapper)
    return any(isinstance(layer, kinds) for layer in layers(env))


# ---------------------------------------------------------------------- environments with a model or table of outcomes


class _Rows(NamedTuple):
    """The possible outcomes of an environment, one entry each."""

    state: npt.NDArray[np.int64]
    action: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]
    damage: npt.NDArray[np.int64]  # −1 if unknown
    terminated: Bools


def check_outcomes(guard: Guard, env: Any) -> None:
    """Raise if the environment's own model or table has outcomes that the guard's model does not have.

    Only choices that the guard may allow are compared.
    """
    mdp = guard.space
    if not isinstance(mdp, MDP) or _is_translated(env):
        return  # no model, or wrappers change its numbers
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
    wrong = np.flatnonzero(_wrong(mdp, guard, rows))
    if wrong.size:
        at = int(wrong[0])
        state, action, after, damage = (int(column[at]) for column in rows[:4])
        doing = "" if damage < 0 else f" with damage {damage}"
        reason = "learning did not observe it (learn more, or with a smaller mu), or " if mdp.origin.counted else ""
        raise ModelMismatch(
            f"the environment leads from {mdp.describe_state(state)}, action {mdp.action_name(action)}, to "
            f"{mdp.describe_state(after)}{doing}, {'and terminates' if rows.terminated[at] else 'and continues'}; in "
            f"the shield's model this is impossible: {reason}the shield is for another environment (another map?). "
            "Build its model from this one: from_gymnasium(env, damage), or env.unwrapped.mdp."
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
    state, action, after, damages, terminated = np.array(rows, np.int64).reshape(-1, 5).T
    return _Rows(state, action, after, damages, terminated.astype(np.bool_))


def damage_where_needed(guard: Guard, env: Any) -> Damage | None:
    """The damage of a well-known environment that does not report it, if the guard's model does not determine it.

    None if the guard's model has other damages: then the environment must report them.
    """
    damage, table = known_damage(env), getattr(env.unwrapped, "P", None)
    if damage is None or _is_translated(env):
        return None
    if not isinstance(guard, Shield):
        return None if isinstance(guard.space, MDP) else damage
    if not isinstance(table, Mapping):
        return None
    rows, own = _of_table(table, known_damage(env.unwrapped)), _of_model(guard.mdp)
    transitions = np.unique(_numbers(guard.mdp, own.state, own.action, own.after, own.damage)) // 256
    agrees = not _wrong(guard.mdp, guard, rows).any()
    return damage if agrees and np.unique(transitions).size < transitions.size else None


def _wrong(mdp: MDP, guard: Guard, rows: _Rows) -> Bools:
    """A mask of the outcomes that the guard's model does not have, of choices that it allows with some budget."""
    state, action, after, damage, terminated = rows
    own = _of_model(mdp)
    is_terminal = mdp.is_terminal()
    is_left = np.zeros(mdp.num_states, np.bool_)  # states that the environment leaves for others
    is_left[state[state != after]] = True
    has_damage = bool((damage >= 0).any())
    known = _numbers(mdp, own.state, own.action, own.after, own.damage if has_damage else None)

    def has(target: npt.NDArray[np.int64]) -> Bools:
        return np.isin(_numbers(mdp, state, action, target, np.maximum(damage, 0) if has_damage else None), known)

    continues = has(after) & (~is_terminal[after] | ~is_left[after])
    ends = has(after) & is_terminal[after]
    if mdp.end is not None:
        ends |= has(np.full_like(after, mdp.end))
    wrong: Bools = _may_be_played(mdp, guard)[state, action] & ~np.where(terminated, ends, continues)
    return wrong


def _numbers(mdp: MDP, state: Any, action: Any, after: Any, damage: Any) -> npt.NDArray[np.int64]:
    """One number per transition, and damage if it is given."""
    number: npt.NDArray[np.int64] = (state * mdp.num_actions + action) * mdp.num_states + after
    return number if damage is None else number * 256 + damage


def _may_be_played(mdp: MDP, guard: Guard) -> Bools:
    """A mask of the actions that the guard allows with some budget in nonterminal states, [num_states, num_actions]."""
    if isinstance(guard, Shield):
        allowed: Bools = guard.minimal.of_choice < INFINITE
    else:  # all choices that cannot lead to the unknown state
        unknown = mdp.num_states if mdp.unknown is None else mdp.unknown
        allowed = np.maximum.reduceat(mdp.successor, mdp.outcome_ptr[:-1].astype(np.int64)) < unknown
    may = mdp.by_action(allowed, False)
    may[mdp.is_terminal()] = False
    return may


def shows_indices(env: Any, observations: Any) -> bool:
    """Whether an environment plays an ``MDP``, and its observations are indices of states."""
    model = getattr(getattr(env, "unwrapped", env), "mdp", None)
    return isinstance(model, MDP) and isinstance(observations, Discrete) and observations.n == model.num_states


def has_names(space: Space, env: Any) -> bool:
    """Whether the model that an environment plays has the names of ``space``, so that an index means the same state."""
    own: MDP = env.unwrapped.mdp
    return (own.state_names is None) == (space.state_names is None) and not own.otherwise_named(space)


def most_steps(env: Any) -> int | None:
    """The number of steps after which an environment truncates episodes, from its TimeLimit or its own limit."""
    spec = getattr(env, "spec", None)
    found = [getattr(spec, "max_episode_steps", None), getattr(env.unwrapped, "max_episode_steps", None)]
    found += [getattr(layer, "_max_episode_steps", None) for layer in layers(env) if isinstance(layer, TimeLimit)]
    limits = [int(steps) for steps in found if steps is not None and steps > 0]
    return min(limits) if limits else None
