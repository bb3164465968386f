"""``from_table`` and ``from_gymnasium``: models from Python tables, and from the tables of Gymnasium's environments.

A table maps a state to its actions, and an action to its outcomes.  Gymnasium's ``env.unwrapped.P`` is such a table,
with outcomes ``(probability, next state, reward, terminated)``.  An outcome with ``terminated`` ends the episode, even
if its next state has outcomes in the table (as in Taxi).  So it leads to a terminal state:

- the next state itself, if episodes never continue there (it is not initial, and all outcomes that lead to it from
  other states are terminated), or if all its outcomes are self-loops without reward and damage;
- otherwise an additional state, the model's ``end``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import numpy as np

from almostsure.arguments import mapping, names_right_word
from almostsure.errors import ModelError, UnknownName
from almostsure.model.build.damage import Damage, damage_function, damage_of
from almostsure.model.build.environment import make_environment, one_environment
from almostsure.model.build.given import initial_distribution
from almostsure.model.build.transitions import build
from almostsure.model.build.validate import as_damage
from almostsure.model.layout import Layout
from almostsure.model.mdp import MDP, Initial
from almostsure.model.naming import distinct
from almostsure.model.space import Naming
from almostsure.wording import brief


class _Row(NamedTuple):
    state: int
    action: int
    next_state: int
    probability: float
    reward: float
    damage: int
    terminated: bool


@names_right_word
def from_table(
    table: Mapping[Any, Any] | Sequence[Any],
    damage: Damage | None = None,
    *,
    terminal: Iterable[Hashable] | str | int = (),
    initial: Any = None,
    action_names: Sequence[str] | None = None,
    labels: Mapping[str, Iterable[Hashable]] | None = None,
    normalise: bool = False,
) -> MDP:
    """Build a model from a table ``{state: {action: [(probability, next_state, reward, damage), …]}}``.

    Parameters
    ----------
    table
        A mapping, or a list with one entry per state.  States and actions are integers, or names (strings or other
        hashable values, shown as text), numbered in the order in which they appear.  The list may be left out for a
        single outcome, and reward and damage if they are 0.
    damage
        For tables in Gymnasium's form, whose outcomes end in ``terminated``: as for :func:`almostsure.from_gymnasium`.
    terminal
        The terminal state or states.  Only these may be missing from the table.
    initial
        The initial state, a mapping from states to probabilities, or one probability for each state of the table and of
        ``terminal``; by default the first state of the table.
    action_names, labels, normalise
        As for :func:`almostsure.from_transitions`.  Named actions are numbered in the order of ``action_names``, or in
        which they appear.

    Examples
    --------
    >>> from almostsure.model import from_table
    >>> table = {"circle": {"left": (1.0, "circle", 1, 1), "right": (1.0, "square")}}
    >>> mdp = from_table(table, terminal="square")
    >>> mdp.outcomes("circle", "left")
    [Outcome(next_state=0, probability=1.0, reward=1.0, damage=1)]
    """
    if damage is not None:
        damage = damage_function(damage)
    entries = _entries(table)
    listed = [terminal] if isinstance(terminal, (str, int, np.integer)) else list(terminal)
    states, actions = _Labels("state", [*entries, *listed]), _action_labels(entries, action_names)
    start = {0: 1.0} if initial is None or not entries else _translate(initial, states)
    rows = list(_rows(entries, states, actions, damage))
    ends = [states.index(state) for state in listed]
    if damage is not None:
        rows, more = _end_episodes(rows, len(states), start)
        ends += more
    return _assemble(
        rows,
        len(states),
        ends,
        initial=start,
        state_names=states.names,
        action_names=action_names or actions.names,
        labels={
            name: _carriers(name, given, states) for name, given in mapping("labels", labels, "names to states").items()
        },
        normalise=normalise,
    )


def from_gymnasium(
    env_or_id: Any,
    damage: Damage | str | None = None,
    *,
    initial: Initial | None = None,
    normalise: bool = False,
    **make_kwargs: Any,
) -> MDP:
    """Build a model from the table ``P`` inside a Gymnasium environment (FrozenLake, CliffWalking, Taxi, …).

    Parameters
    ----------
    env_or_id
        An environment, or the id of one, which is made with ``gymnasium.make(id, **make_kwargs)``.
    damage
        ``damage(s, a, s2, r, terminated)`` returns the damage of an outcome, an integer 0 … 255.  Or a rule such as
        ``"reward<=-100"`` (see :mod:`almostsure.model.build.damage`).  FrozenLake, CliffWalking and Taxi need none.
    initial
        By default the environment's ``initial_state_distrib``, or state 0 if it has none.
    normalise
        Rescale the probabilities of each choice to sum to 1.
    **make_kwargs
        Passed to ``gymnasium.make``, such as ``is_slippery=True``.

    Examples
    --------
    >>> from almostsure.model.build.tables import from_gymnasium
    >>> from_gymnasium("CliffWalking-v1", lambda s, a, s2, r, terminated: int(r == -100))
    <MDP: 48 states, 189 choices, 189 outcomes, starts in r3c0>
    """
    with _opened(env_or_id, make_kwargs) as env:
        table = table_of(env)
        damage = damage_of(env, damage)
        naming = _naming_of(env, len(table))
        start = _start_of(env) if initial is None else initial
    where, weights = initial_distribution(start, len(table), naming.get("state_names"))
    starts = dict(zip(where.tolist(), weights.tolist(), strict=True))
    states, actions = _Labels("state", table), _Labels("action", ())
    rows, ends = _end_episodes(_rows(table, states, actions, damage), len(table), starts)
    return _assemble(rows, len(table), ends, initial=starts, normalise=normalise, **naming)


# ---------------------------------------------------------------------- reading a table


class _Labels:
    """The numbers of labels: integers themselves, other labels in the order in which they appear."""

    def __init__(self, what: str, labels: Iterable[Hashable]) -> None:
        found = dict.fromkeys(labels)
        self.what = what
        self.plain = all(isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in found)
        self._index = {x: int(x) if self.plain else i for i, x in enumerate(found)}  # type: ignore[call-overload]
        self.names = None if self.plain else tuple(str(x) for x in found)

    def __len__(self) -> int:
        return max(self._index.values(), default=-1) + 1

    def __contains__(self, label: object) -> bool:
        if self.plain and isinstance(label, (bool, np.bool_)):
            return False  # True == 1 in Python, but is not a state
        return isinstance(label, Hashable) and label in self._index

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._index)

    def index(self, label: Any, what: str = "") -> int:
        if label not in self:
            raise UnknownName(what or self.what, label, self._index)
        return self._index[label]


def _entries(table: Any) -> dict[Any, Any]:
    if not isinstance(table, (Mapping, list, tuple)):
        raise ModelError(f"a table must map states to actions to outcomes; got {type(table).__name__}")
    entries = dict(table) if isinstance(table, Mapping) else dict(enumerate(table))
    for state, row in entries.items():
        if not isinstance(row, (Mapping, list, tuple)):
            raise ModelError(f"state {state!r} must map its actions to outcomes; got {row!r}")
    return entries


def _action_labels(entries: Mapping[Any, Any], names: Sequence[str] | None) -> _Labels:
    found = _Labels("action", (action for row in entries.values() for action in _actions(row)))
    return found if names is None or found.plain else _Labels("action", names)


def _actions(row: Any) -> Iterable[Any]:
    return row if isinstance(row, Mapping) else range(len(row))


def _rows(entries: Mapping[Any, Any], states: _Labels, actions: _Labels, damage: Damage | None) -> Iterator[_Row]:
    for state, row in entries.items():
        for action in _actions(row):
            number = int(action) if actions.plain else actions.index(action)
            for outcome in _outcomes(row[action]):
                yield _row(outcome, state, action, states, number, damage, entries)


def _without_rows(label: Any, entries: Mapping[Any, Any], states: _Labels) -> UnknownName:
    """The error that a next state is not in the table: one may be a typo, several are probably terminal states."""
    outcomes = (one for row in entries.values() for action in _actions(row) for one in _outcomes(row[action]))
    named = (one[1] for one in outcomes if isinstance(one, (tuple, list)) and len(one) > 1)
    missing = {state for state in named if isinstance(state, Hashable) and state not in states}
    remedy = "Every next state must be in the table or in terminal=."
    if len(missing) < 2:
        return UnknownName("state", label, states, remedy)
    remedy = f"{len(missing):,} next states have no rows. {remedy[:-1]}, which lists the terminal states."
    return UnknownName("state", label, (), remedy)


def _outcomes(outcomes: Any) -> Any:
    """A list of outcomes; a single outcome may be given without a list."""
    single = isinstance(outcomes, tuple) and outcomes and not isinstance(outcomes[0], (tuple, list))
    return [outcomes] if single or not isinstance(outcomes, (list, tuple)) else outcomes


def _row(
    outcome: Any,
    state: Any,
    action: Any,
    states: _Labels,
    number: int,
    damage: Damage | None,
    entries: Mapping[Any, Any],
) -> _Row:
    place = f"state {state!r}, action {action!r}"
    try:
        given: tuple[Any, ...] = tuple(outcome)
        weight, successor, gain, last = given + (0, 0)[: 4 - len(given)]
        probability, reward = float(weight), float(gain)
    except (TypeError, ValueError):
        raise ModelError(
            f"an outcome must be (probability, next_state, reward, {'terminated' if damage else 'damage'}); "
            f"got {outcome!r} at {place}"
        ) from None
    ended = damage is not None and bool(last)
    value = last if damage is None else damage(state, action, successor, reward, ended)
    if damage is not None and value is None:
        raise ModelError(f"damage(…) must return an integer 0 … 255; it returned None at {place}. Is a return missing?")
    if damage is None and isinstance(last, (bool, np.bool_)):
        raise ModelError(
            f"the last entry of an outcome must be its damage; got {last} at {place}. For Gymnasium's (probability, "
            "next_state, reward, terminated) pass damage=, a function that returns the damage."
        )
    if successor not in states:
        raise _without_rows(successor, entries, states)
    amount = as_damage(value)
    if amount is None:
        raise ModelError(f"damages must be integers 0 … 255; got {value!r} at {place}. Scale or round them first.")
    return _Row(states.index(state), number, states.index(successor), probability, reward, amount, ended)


def _translate(initial: Any, states: _Labels) -> dict[int, float]:
    """The initial distribution over the states of the table and of ``terminal``, by number."""
    if isinstance(initial, Mapping):
        return {states.index(state, "initial state"): weight for state, weight in initial.items()}
    if isinstance(initial, Hashable):
        return {states.index(initial, "initial state"): 1.0}
    where, weights = initial_distribution(initial, len(states), None)
    return dict(zip(where.tolist(), weights.tolist(), strict=True))


def _carriers(name: str, given: Any, states: _Labels) -> list[int]:
    """The states that carry a label, which is given as one truth value per state or as a list of states."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ModelError(f"label {name!r} must be one truth value per state, or a list of states; got {brief(given)}")
    listed = list(given)
    truths = (states.plain or True not in states) and all(isinstance(x, (bool, np.bool_)) for x in listed)
    if truths and len(listed) == len(states):
        return [at for at, holds in enumerate(listed) if holds]
    return [states.index(state) for state in listed]


# ---------------------------------------------------------------------- ending episodes


def _end_episodes(rows: Iterable[_Row], num_states: int, initial: Mapping[int, float]) -> tuple[list[_Row], list[int]]:
    """Make outcomes with ``terminated`` lead to terminal states; also returns these, the end as ``num_states``."""
    rows = [row for row in rows if row.probability != 0]
    starts = {state for state, weight in initial.items() if weight}
    named = {row.next_state for row in rows if row.terminated}
    continued = starts | {row.next_state for row in rows if not row.terminated and row.next_state != row.state}
    active = {row.state for row in rows if row.next_state != row.state or row.reward or row.damage}
    ends = named - (continued & active)
    result = [
        row._replace(next_state=num_states) if row.terminated and row.next_state not in ends else row
        for row in rows
        if row.state not in ends
    ]
    extra = any(row.next_state == num_states for row in result)
    return result, sorted(ends) + [num_states] * extra


def _assemble(
    rows: Sequence[_Row],
    count: int,
    ends: list[int],
    *,
    state_names: Sequence[str] | None = None,
    layout: Layout | None = None,
    **options: Any,
) -> MDP:
    """The model of the rows, with an additional end if ``ends`` has the state ``count``."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * 7
    options |= {"terminal": ends, "state_names": state_names, "layout": layout, "num_states": count}
    if count in ends:
        options |= {"num_states": count + 1, "end": count}
        options["state_names"] = state_names and distinct([*state_names, "end"])
        options["layout"] = layout and layout.with_more_states(1)
    return build(columns[:6], **options)


# ---------------------------------------------------------------------- environments of Gymnasium


@contextmanager
def _opened(env_or_id: Any, make_kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """The environment itself, or one made from its id, which is closed afterwards."""
    if isinstance(env_or_id, str):
        with closing(make_environment(env_or_id, **make_kwargs)) as made:
            yield made.unwrapped
    elif make_kwargs:
        raise ModelError(f"{', '.join(make_kwargs)} must be passed with an environment's id; got an environment")
    else:
        yield getattr(one_environment(env_or_id), "unwrapped", env_or_id)


def table_of(env: Any) -> Mapping[Any, Any]:
    """The transition table of an environment; without one, an error with the alternatives."""
    spec, env = getattr(env, "spec", None), getattr(env, "unwrapped", env)
    table = getattr(env, "P", None)
    if not isinstance(table, (Mapping, list, tuple)) or not len(table):
        raise ModelError(
            f"{type(env).__name__ if spec is None else spec.id} must have a transition table env.unwrapped.P; it has "
            f"none. {without_model(env)}"
        )
    if getattr(env, "fickle_passenger", False):
        raise ModelError(
            "env.unwrapped.P must describe the environment; it has no fickle passenger. Pass fickle_passenger=False."
        )
    entries = _entries(table)
    if set(entries) != set(range(len(entries))):
        raise ModelError(f"the states of env.unwrapped.P must be 0 … {len(entries) - 1}. Use from_table for others.")
    return {state: entries[state] for state in range(len(entries))}


def without_model(env: Any) -> str:
    """The alternatives for an environment without a transition table."""
    if type(getattr(env, "observation_space", None)).__name__ == "Box":
        return (
            "Its states are continuous: abstract(step, grid, actions, …) makes a finite model of them. For well-known "
            "environments the id suffices: abstract('CartPole-v1'), in a terminal almostsure abstract CartPole-v1."
        )
    return (
        "If it can be copied, asure.explore(env) finds its model by playing (with mu= and delta= for random "
        "transitions). Otherwise an OnlineShield learns while an agent plays: ShieldedEnv(env, OnlineShield(env, "
        "unknown='allow'), budget). If its state can be set, learn_minimal_budget learns from samples; if its outcomes "
        "can be listed, from_transitions makes a model."
    )


def _start_of(env: Any) -> Any:
    weights = getattr(env, "initial_state_distrib", None)
    if weights is None:
        return 0
    array = np.asarray(weights, dtype=np.float64)
    return array / array.sum() if array.sum() > 0 else array


ACTIONS = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("south", "north", "east", "west", "pickup", "dropoff"),
}


def _naming_of(env: Any, num_states: int) -> Naming:
    """Names of states and actions, and the map if there is one, of Gymnasium's own environments."""
    kind = type(env).__name__
    if kind not in ACTIONS:
        return {}
    if kind == "TaxiEnv":
        return {"action_names": ACTIONS[kind], "state_names": _taxi_names(env, num_states)}
    text = _map_of(env)
    layout = Layout(rows=len(text), columns=len(text[0]), cell=np.arange(num_states, dtype=np.int32), text=text)
    places = (divmod(cell, layout.columns) for cell in range(num_states))
    names = tuple(f"r{row}c{column}" for row, column in places)
    return {"action_names": ACTIONS[kind], "state_names": names, "layout": layout}


def _map_of(env: Any) -> tuple[str, ...]:
    if hasattr(env, "desc"):  # FrozenLake: start, frozen, hole, goal
        return tuple("".join(cell.decode() for cell in row).replace("F", ".") for row in env.desc)
    rows, columns = env.shape
    walk = ["." * columns for _ in range(rows - 1)]
    return (*walk, "S" + "C" * (columns - 2) + "G")


def _taxi_names(env: Any, num_states: int) -> tuple[str, ...]:
    stands = ("red", "green", "yellow", "blue", "taxi")
    decoded = (tuple(env.decode(state)) for state in range(num_states))
    return tuple(f"taxi r{row}c{column}, passenger {stands[who]} to {stands[to]}" for row, column, who, to in decoded)
