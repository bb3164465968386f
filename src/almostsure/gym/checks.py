"""What shielded environments refuse, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import VectorWrapper
from gymnasium.wrappers import Autoreset, DelayObservation, MaxAndSkipObservation, RepeatAction, StickyAction

from almostsure.budget.answer import INFINITE
from almostsure.errors import ArgumentError, ModelError, ModelMismatch, NoSafeAction, UnknownName
from almostsure.gym.autoreset import read
from almostsure.gym.lookup import outcome_numbers
from almostsure.gym.overseer import Overseer
from almostsure.learn.ledger import Ledger
from almostsure.learn.online import OnlineShield
from almostsure.model.mdp import MDP, Bools

StateOf = Callable[[Any, Any], Any]  # (observation, environment) → a state of the model, by index or name

FORBIDDEN = ("raise", "replace")
NOWHERE = -1  # where a transition that the model does not know led, in a ledger

HIDING: dict[type, str] = {  # wrappers that no shield can be around, and what it must see
    Autoreset: "every reset",
    StickyAction: "which action is played",
    RepeatAction: "every step",
    MaxAndSkipObservation: "every step",
    DelayObservation: "the present state",
}


def check_forbidden(forbidden: str) -> None:
    """Refuse an unknown way to deal with forbidden actions."""
    if forbidden not in FORBIDDEN:
        raise UnknownName("value of forbidden", forbidden, FORBIDDEN, f"Choose from {', '.join(FORBIDDEN)}.")


def check_actions(overseer: Overseer, actions: Any) -> None:
    """Refuse action spaces that a shield cannot mask, or another one than the model's."""
    if not isinstance(actions, Discrete) or actions.start != 0:
        raise ArgumentError(
            f"a shield is for discrete actions numbered from 0; the environment has {actions}. Let the agent choose "
            "among finitely many: wrap it in gymnasium.wrappers.TransformAction, with a Discrete space of "
            "commands and a function that turns a command into the environment's action."
        )
    if actions.n != overseer.num_actions:
        raise ModelMismatch(
            f"the environment has {actions.n} actions and the shield's model {overseer.num_actions}: the shield is for "
            "another environment. Where the last actions are never available, name them all in action_names."
        )


def check_observations(overseer: Overseer, observations: Any, state_of: StateOf | None) -> None:
    """Refuse observations that are not the model's states."""
    if state_of is not None:
        if not callable(state_of):
            raise ArgumentError(f"state_of must be a function of (observation, env); got {state_of!r}")
        return
    if not isinstance(observations, Discrete) or observations.start != 0:
        raise ArgumentError(
            f"observations of {observations} are not states of a model. Pass state_of, a function that returns the "
            "model's state of (observation, env)."
        )
    if overseer.num_states not in (observations.n, observations.n + 1):  # one more: where episodes end
        raise ModelMismatch(
            f"the environment has {observations.n} states and the shield's model {overseer.num_states}: the shield is "
            "for another environment. If observations must be translated, pass state_of."
        )
    overseer.has_extra_end = overseer.num_states == observations.n + 1


def check_same_model(overseer: Overseer, env: Any, state_of: StateOf | None) -> None:
    """Refuse an environment that knows its own model, or its table, where that is not the shield's."""
    layers = list(_layers(env))
    for layer in layers:
        if type(layer) in HIDING:
            name = type(layer).__name__
            raise ArgumentError(
                f"a shield must see {HIDING[type(layer)]}; {name} inside hides that. Put ShieldedEnv inside of it: "
                f"{name}(ShieldedEnv(…))."
            )
    translated = any(isinstance(layer, (gymnasium.ActionWrapper, gymnasium.ObservationWrapper)) for layer in layers)
    if translated or state_of is not None or overseer.online is not None:
        return
    model = getattr(env.unwrapped, "mdp", None)
    if isinstance(model, MDP) and model != overseer.mdp:
        _check_model(overseer, model)
    table = getattr(env.unwrapped, "P", None)
    if isinstance(table, Mapping) and table and all(isinstance(row, Mapping) for row in table.values()):
        _check_table(overseer, table)


def _layers(env: Any) -> Iterator[Any]:
    while isinstance(env, (gymnasium.Wrapper, VectorWrapper)):
        yield env
        env = env.env


def _check_model(overseer: Overseer, model: MDP) -> None:
    """Refuse a model that has outcomes which the shield's does not have, where the shield may allow something."""
    mdp, why = overseer.mdp, "has other states or actions"
    if (model.num_states, model.num_actions) == (mdp.num_states, mdp.num_actions):
        allowed = overseer.of_choice() < INFINITE
        may = np.zeros((mdp.num_states, mdp.num_actions), np.bool_)
        may[mdp.choice_states()[allowed], mdp.choice_action[allowed]] = True
        new = ~np.isin(outcome_numbers(model), outcome_numbers(mdp))
        new &= may[model.choice_states(), model.choice_action][model.outcome_choices()]
        if not new.any() and np.array_equal(model.is_terminal(), mdp.is_terminal()):
            return  # it was learned, for example
        why = "ends elsewhere"
        if new.any():
            at = int(np.argmax(new))
            where = model.describe_choice(int(model.outcome_choices()[at]))
            after, damage = model.describe_state(int(model.successor[at])), int(model.damage[at])
            why = f"leads from {where} to {after} with damage {damage}, which the shield's says is impossible"
    raise ModelMismatch(
        f"the shield is for another model than the environment's, which {why}. Use Shield(env.unwrapped.mdp, …)."
    )


def _check_table(overseer: Overseer, table: Mapping[Any, Any]) -> None:
    """Refuse a table that has outcomes which the model does not have, in any state that can be lived in."""
    mdp, is_terminal = overseer.mdp, overseer.mdp.is_terminal()
    known = set(zip(_states_actions(mdp), mdp.successor.tolist(), strict=True))
    end = mdp.num_states - 1  # where an extra state for the end would be

    def fits(choice: tuple[int, int], after: int, terminated: bool) -> bool:
        if terminated:
            return any((choice, at) in known and is_terminal[at] for at in (after, end))
        goes_on = not is_terminal[after] or all(out[1] == after for row in table[after].values() for out in row)
        return (choice, after) in known and goes_on

    for state, row in table.items():
        for action, outcomes in row.items() if not is_terminal[state] else ():
            for probability, after, _, terminated in outcomes:
                if probability and not fits((state, action), int(after), bool(terminated)):
                    raise ModelMismatch(
                        f"the environment's table leads from {mdp.describe_state(state)}, action "
                        f"{mdp.action_name(action)}, to {mdp.describe_state(int(after))}, "
                        f"{'where it ends' if terminated else 'where it goes on'}: for the shield's model that is "
                        "impossible, so it is a shield for another environment (another map?). Build its model from "
                        "this one: from_gymnasium(env, damage)."
                    )


def _states_actions(mdp: MDP) -> list[tuple[int, int]]:
    choice = mdp.outcome_choices()
    return list(zip(mdp.choice_states()[choice].tolist(), mdp.choice_action[choice].tolist(), strict=True))


def open_ledger(ledger: Ledger | str | PathLike[str] | None, shield: Any) -> Ledger:
    """The ledger in which a run is noted: an online shield's own, one that is given, or a new one."""
    given = isinstance(ledger, Ledger)
    if not given and ledger is not None and not isinstance(ledger, (str, PathLike)):
        raise ArgumentError(f"ledger must be a Ledger or the path of a file; got {ledger!r}")
    if isinstance(shield, OnlineShield):
        if given and ledger is not shield.ledger:
            raise ArgumentError("an OnlineShield keeps a ledger of its own: use shield.ledger, or pass a path.")
        result = shield.ledger
    else:
        result = ledger if isinstance(ledger, Ledger) else Ledger()
    return result if given or ledger is None else result.record(ledger)  # type: ignore[arg-type]


def check_resets(infos: dict[str, Any], who: Bools) -> None:
    """Refuse copies of an environment whose reset hurts."""
    for at in np.flatnonzero(who).tolist() if "damage" in infos else ():
        damage = read(infos, "damage", at)
        if damage:
            raise ModelError(f"a reset must do no damage; infos['damage'] of copy {at} is {damage!r} after it")


# ---------------------------------------------------------------------- errors


def strange(observation: Any, state: Any, overseer: Overseer) -> ModelError:
    """The error for an observation that is not a state of the model."""
    shown = repr(observation)
    shown = shown if len(shown) <= 200 else shown[:197] + "…"
    what = "" if state is observation else f" (state {state!r})"
    return ModelError(
        f"the observation {shown}{what} is not a state 0 … {overseer.num_states - 1} of the shield's model. "
        "Pass state_of, or build the model anew."
    )


def harm(said: Any) -> int:
    """The damage that an environment says, as far as that is a number, for the ledger of what should not be."""
    try:
        return max(int(said), 0)
    except (TypeError, ValueError, OverflowError):
        return 0


def no_action(action: Any, space: Any) -> ArgumentError:
    """The error for what is no action at all."""
    return ArgumentError(f"an action must be one of {space}; got {action!r}")


def refused(overseer: Overseer, state: int, action: int, remaining: int) -> NoSafeAction:
    """The error for an action that is not allowed."""
    mdp = overseer.mdp
    allowed = ", ".join(mdp.action_name(a) for a in sorted(overseer.row(state, remaining).allowed))
    return NoSafeAction(
        f"{mdp.action_name(action)} is not allowed at {mdp.describe_state(state)} with {remaining} left; allowed: "
        f"{allowed}. Sample from info['action_mask'], or pass forbidden='replace'.",
        state=state, remaining=remaining,
    )  # fmt: skip


def as_number(action: Any) -> int | None:
    """An action as an int, if it is a whole number of any type."""
    try:
        array = np.asarray(action)
    except ValueError:  # nested sequences of different lengths
        return None
    return int(array.item()) if array.size == 1 and array.dtype.kind in "iu" else None
