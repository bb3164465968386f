"""``from_function``: a model from a Python function that lists the outcomes of a state and an action.

States are any hashable values: numbers, strings, tuples, frozen dataclasses.  They are found by breadth-first search
from the initial states.  If they are the integers 0 … n − 1, they are their own indices.  Otherwise they are numbered
in the order in which they are found, and named by ``str``; then look them up by name, such as ``"10"``: an integer is
always an index.  ``mdp.encode`` returns the number of a value, so environments whose observations are the same values
can be shielded directly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np

from almostsure.arguments import mapping, names_right_word, whole
from almostsure.errors import ArgumentError, Blame, Interrupted, LimitReached, ModelError, UnknownName
from almostsure.model.build.transitions import build
from almostsure.model.build.validate import SUM_TOLERANCE
from almostsure.model.mdp import MDP
from almostsure.model.naming import checked_names, distinct
from almostsure.progress import Bar
from almostsure.wording import brief, state_of_example

Outcomes = Callable[[Any, Any], Iterable[tuple[float, Hashable, float, int]]]
Actions = Sequence[Hashable] | Callable[[Any], Iterable[Hashable]]

MAX_STATES = 5_000_000
RULE = "outcomes must return or yield tuples (probability, next_state, reward, damage)"


@names_right_word
def from_function(
    outcomes: Outcomes,
    *,
    initial: Hashable | Mapping[Any, float],
    actions: Actions,
    action_names: Sequence[str] | None = None,
    labels: Mapping[str, Callable[[Any], bool]] | None = None,
    key: Callable[[Any], Hashable] | None = None,
    max_states: int = MAX_STATES,
) -> MDP:
    """Explore a model from its initial states.

    Parameters
    ----------
    outcomes
        ``outcomes(state, action)`` returns or yields ``(probability, next_state, reward, damage)`` for each outcome.
    initial
        The initial state, or a mapping from states to probabilities, such as ``{first: 0.5, second: 0.5}``.
    actions
        The actions of every state, or a function of the state.  A state without actions is terminal.  Actions that are
        integers from 0 are their own ids; others are numbered in the order in which they are found, and named.
    action_names
        The names of all actions by number, such as in the order of the environment.
    labels
        Named sets of states, each as a function of the state that returns whether it carries the label.
    key
        A function from observations of an environment to states, for ``mdp.encode``, if they differ.
    max_states
        Stop with an error if there are more, for example because states never repeat.

    Examples
    --------
    A counter that may overflow: each "up" adds 1 or 2, and does damage 1 beyond 3.

    >>> import almostsure as asure
    >>> def outcomes(count, action):
    ...     if action == "stop":
    ...         return [(1, "stopped", count, 0)]
    ...     return [(0.5, min(count + n, 3), 0, int(count + n > 3)) for n in (1, 2)]
    >>> mdp = asure.from_function(
    ...     outcomes, initial=0, actions=lambda state: [] if state == "stopped" else ["up", "stop"]
    ... )
    >>> asure.minimal_budget(mdp).of("3", "up"), asure.minimal_budget(mdp).of("1", "up")
    (1, 0)
    """
    if not callable(outcomes):
        raise ArgumentError(f"outcomes must be a function of (state, action); got {outcomes!r}")
    holding = _holding(labels)
    search = _Search(outcomes, actions, whole("max_states", max_states))
    first = {state: float(share) for state, share in _starts(initial) if search.number(state, "initial") >= 0}
    with Bar("exploring", None) as bar:
        try:
            search.run(bar)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted after {search.explored:,} states; {len(search.states) - search.explored:,} more were "
                "found but not explored. Fewer actions or coarser states make the model smaller."
            ) from None
    return search.model(first, action_names, holding, key)


@final
class _Search:
    """Breadth-first search: states are numbered as they are found, and explored in that order."""

    def __init__(self, outcomes: Outcomes, actions: Actions, max_states: int) -> None:
        self.outcomes, self.max_states = outcomes, max_states
        self.actions = actions if callable(actions) else _always(actions)
        self.states: list[Any] = []
        self.index: dict[Any, int] = {}
        self.action_index: dict[Any, int] = {}
        self.explored = 0
        self.terminal: list[int] = []
        self.choices: list[tuple[int, int, int]] = []  # state, action, number of outcomes
        self.rows: list[tuple[float, int, float, int]] = []  # probability, next state, reward, damage

    def number(self, state: Any, where: str) -> int:
        """The number of a state; a new state gets the next one."""
        try:
            known = self.index.get(state)
        except TypeError:
            raise ModelError(
                f"states must be hashable; got {brief(state)} ({where}). Use tuples instead of lists and arrays."
            ) from None
        if known is not None:
            return known
        if len(self.states) >= self.max_states:
            raise LimitReached(
                f"there are more than max_states = {self.max_states:,} states; the last one found is {brief(state)}. "
                "If parts of it grow forever, bound them or leave them out of the state; otherwise raise max_states."
            )
        self.index[state] = len(self.states)
        self.states.append(state)
        return len(self.states) - 1

    def run(self, bar: Bar) -> None:
        """Explore all reachable states."""
        while self.explored < len(self.states):
            self._explore(self.explored)
            self.explored += 1
            bar.update(self.explored, f"{self.explored:,} states, {len(self.rows):,} outcomes")

    def _explore(self, at: int) -> None:
        state, before = self.states[at], len(self.choices)
        for action in self._actions_of(state):
            rows = self._outcomes_of(state, action)
            self.choices.append((at, self._action(action, state), len(rows)))
            self.rows += rows
        if len(self.choices) == before:
            self.terminal.append(at)

    def _actions_of(self, state: Any) -> list[Any]:
        with Blame(lambda: f"actions({brief(state)}) failed"):
            return list(self.actions(state))

    def _action(self, action: Any, state: Any) -> int:
        """The number of an action."""
        try:
            return self.action_index.setdefault(action, len(self.action_index))
        except TypeError:
            raise ModelError(f"actions must be hashable; got {brief(action)} at {brief(state)}") from None

    def _outcomes_of(self, state: Any, action: Any) -> list[tuple[float, int, float, int]]:
        """The outcomes of a choice, with their next states numbered."""
        index = self.index
        result = []
        with Blame(lambda: f"outcomes({brief(state)}, {brief(action)}) failed"):
            returned = self.outcomes(state, action)
            returned = list(returned) if hasattr(returned, "__iter__") else returned  # runs a generator
        with Blame(lambda: f"{RULE}; got {brief(returned)} at {_place(state, action)}"):
            for probability, after, reward, damage in returned:
                known = index.get(after)
                number = self.number(after, _place(state, action)) if known is None else known
                result.append((probability, number, reward, damage))
            total = math.fsum([row[0] for row in result])
        if not abs(total - 1.0) <= SUM_TOLERANCE:
            if not result:
                raise ModelError(f"{_place(state, action)} has no outcomes; terminal states must have no actions")
            raise ModelError(f"the outcomes' probabilities must sum to 1; got {total:.12g} at {_place(state, action)}")
        return result

    def model(
        self,
        initial: Mapping[Any, float],
        action_names: Sequence[str] | None,
        labels: Mapping[str, Callable[[Any], bool]],
        key: Callable[[Any], Hashable] | None,
    ) -> MDP:
        """The model of the explored states."""
        self._keep_integers()
        initial = {self.index[state]: share for state, share in initial.items()}
        ids, names = _numbered(list(self.action_index), action_names)
        states = [s for s, _, size in self.choices for _ in range(size)]
        actions = [ids[a] for _, a, size in self.choices for _ in range(size)]
        probability, after, reward, damage = zip(*self.rows, strict=True) if self.rows else ((), (), (), ())
        return build(
            (states, actions, after, probability, reward, damage),
            num_states=len(self.states),
            terminal=self.terminal,
            initial=initial,
            state_names=names_of(self.states),
            action_names=names,
            labels={name: [_holds(name, holds, state) for state in self.states] for name, holds in labels.items()},
            encode=Encode(self.index, key),
        )

    def _keep_integers(self) -> None:
        """Renumber states that are the integers 0 … n − 1, so that they are their own indices."""
        found = self.states
        if any(type(state) is not int for state in found) or sorted(found) != list(range(len(found))):
            return
        self.choices = [(found[s], a, size) for s, a, size in self.choices]
        self.rows = [(p, found[t], r, d) for p, t, r, d in self.rows]
        self.terminal = [found[s] for s in self.terminal]
        self.states = sorted(found)
        self.index = {state: state for state in self.states}


@final
class Encode:
    """The number of a state, or of an observation that ``key`` turns into one; it can be pickled."""

    def __init__(self, index: dict[Any, int], key: Callable[[Any], Hashable] | None) -> None:
        self.index, self.key = index, key

    def __call__(self, observation: Any) -> int:
        """The number of an observation's state."""
        state = observation if self.key is None else self.key(observation)
        try:
            return self.index[state]
        except (KeyError, TypeError) as error:
            message = f"{brief(state)} was not reached when the model was explored from its initial states."
            if isinstance(error, TypeError):
                example = state_of_example(state if isinstance(state, Mapping) else None)
                message += f" States must be hashable, which arrays are not: pass a function, such as {example}."
            raise ModelError(message) from None


def _starts(initial: Any) -> Iterable[tuple[Any, float]]:
    """The initial states and their probabilities."""
    if isinstance(initial, (list, set)):
        raise ModelError(
            f"initial must be a state or a mapping from states to probabilities; got {brief(initial)}. "
            "Several initial states are a mapping, {first: 0.5, second: 0.5}; a state with several parts is a tuple."
        )
    return initial.items() if isinstance(initial, Mapping) else [(initial, 1.0)]


def _always(actions: Any) -> Callable[[Any], Iterable[Hashable]]:
    if isinstance(actions, (str, bytes)) or not isinstance(actions, Iterable) or not (listed := list(actions)):
        raise ArgumentError(f"actions must be one or more actions, or a function of the state; got {actions!r}")
    return lambda state: listed


def _numbered(found: list[Any], names: Sequence[str] | None) -> tuple[list[int], Sequence[str] | None]:
    """The id of each action, and the names: the given ones, or for actions that are not ids, their own."""
    if all(isinstance(a, (int, np.integer)) and not isinstance(a, bool) and a >= 0 for a in found):
        return [int(action) for action in found], names
    own = names_of(found)
    if names is None:
        return list(range(len(found))), own
    ids = {name: at for at, name in enumerate(checked_names("action", names) or ())}
    for name in own:
        if name not in ids:
            raise UnknownName("action", name, ids, f"The action_names are: {', '.join(ids)}.")
    return [ids[name] for name in own], names


def names_of(values: list[Any]) -> list[str]:
    """Names of values: by ``str`` if these are distinct, otherwise by ``repr``, with a number after repeated ones."""
    names = list(map(str, values))
    return names if len(set(names)) == len(names) else distinct(map(repr, values))


def _holding(labels: Mapping[str, Callable[[Any], bool]] | None) -> Mapping[str, Callable[[Any], bool]]:
    """The labels, after checking that they are functions."""
    for name, holds in (found := mapping("labels", labels, "names to functions of the state")).items():
        if not callable(holds):
            raise ModelError(f"label {name!r} must be a function of the state; got {brief(holds)}")
    return found


def _holds(name: str, holds: Callable[[Any], bool], state: Any) -> bool:
    with Blame(lambda: f"label {name!r} failed at state {brief(state)}"):
        return bool(holds(state))


def _place(state: Any, action: Any) -> str:
    return f"state {brief(state)}, action {brief(action)}"
