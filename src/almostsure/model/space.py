"""The states and actions that models, samplers, logs, shields, wrappers and learners share.

A :class:`Space` has the states, the actions of each state, their names and the initial distribution.  It has no
outcomes; an :class:`almostsure.MDP` is a space with outcomes.

States 0 … ``num_observed`` − 1 can be observed in an environment or a log.  At most two more states follow:

- ``end``, the terminal state of ended episodes;
- ``unknown``, which represents all unobserved states and outcomes.  It has a self-loop with damage, so no finite budget
  suffices there; messages call it *unknown*, since the reason is missing data.

A choice is a state–action pair; those of state ``s`` are ``choice_ptr[s]`` … ``choice_ptr[s+1] − 1``, by action.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from almostsure.arguments import one_of, whole
from almostsure.errors import ArgumentError, Blame, ModelError, UnknownName
from almostsure.model.arrays import (
    Bools,
    Floats,
    Ints,
    action_dtype,
    digest,
    frozen,
    index_dtype,
    owners,
    ptr_of,
    spans,
)
from almostsure.model.build.given import Actions, Initial, action_rows, initial_distribution, positive
from almostsure.model.build.validate import check_choices, check_initial
from almostsure.model.labels import Labels, read_labels, with_more_states
from almostsure.model.layout import Layout
from almostsure.model.naming import checked_names, distinct, shown, split_values, state_with, unknown_name
from almostsure.wording import brief, counted

Encode = Callable[[Any], int | str]

END, UNKNOWN = "end", "unknown"
BY_NAME = (
    "A model that was loaded from a file only knows its states by name: pass str(state), or "
    "ByName(mdp)(observation, env) of almostsure.learn; to shield an environment, pass state_of=ByName(mdp)."
)


class Naming(TypedDict, total=False):
    """Optional properties of states and actions: see :class:`Space`."""

    state_names: Sequence[str] | None
    action_names: Sequence[str] | None
    layout: Layout | None
    end: int | None
    unknown: int | None
    labels: Labels | None
    encode: Encode | None


class Space:
    """States, actions, their names, the initial distribution, the end and the unknown; immutable.

    :meth:`from_actions` is a simpler way to build one.

    Parameters
    ----------
    choice_ptr, choice_action
        Offsets of each state's choices, [num_states + 1], and the action of each choice, [num_choices].
    initial
        The initial states and their probabilities.
    state_names, action_names
        Names by state and by action id, used in all messages.
    layout
        The positions of the states in a drawing.
    end, unknown
        The state of ended episodes, and the state that represents everything unobserved, if they exist.  They are the
        last states, in this order.
    labels
        Named sets of states, each as one truth value per state or as a list of states.
    encode
        A function from an observation to a state (index or name); None if observations are states.  It is neither
        compared nor written to files.
    """

    __slots__ = (
        "_fingerprint",
        "_state_index",
        "action_names",
        "choice_action",
        "choice_ptr",
        "encode",
        "end",
        "initial_probabilities",
        "initial_states",
        "labels",
        "layout",
        "num_actions",
        "state_names",
        "unknown",
        "__weakref__",
    )

    choice_ptr: Ints  # [num_states + 1]
    choice_action: Ints  # [num_choices]
    initial_states: Ints  # [number of initial states]
    initial_probabilities: Floats  # [number of initial states]
    num_actions: int  # one more than the largest action id, or the number of action names

    def __init__(
        self,
        *,
        choice_ptr: Ints,
        choice_action: Ints,
        initial: tuple[Ints, Floats],
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        layout: Layout | None = None,
        end: int | None = None,
        unknown: int | None = None,
        labels: Labels | None = None,
        encode: Encode | None = None,
    ) -> None:
        self._fingerprint: str | None = None
        self._state_index: dict[str, int] | None = None
        self.end, self.unknown = None, None  # set below: messages use them once they are valid
        self.state_names = None
        self.action_names = checked_names("action", action_names)
        self.choice_ptr, self.choice_action = choice_ptr, choice_action
        check_choices(choice_ptr, choice_action, self.describe_choice)
        frozen(choice_ptr)
        frozen(choice_action)
        self.state_names = checked_names("state", state_names, exactly=self.num_states)
        self.num_actions = self._count_actions()
        states, probabilities = initial
        self.initial_states, self.initial_probabilities = frozen(np.array(states)), frozen(np.array(probabilities))
        check_initial(self.initial_states, self.initial_probabilities, self.num_states)
        if layout is not None and layout.cell.shape != (self.num_states,):
            raise ModelError(f"a layout must place each of the {self.num_states} states; got {layout.cell.size} places")
        self.layout = layout
        self.end, self.unknown = self._last_states(end, unknown)
        self.labels = read_labels(labels, self.num_states, self.state)
        self.encode = encode

    @classmethod
    def from_actions(
        cls,
        num_observed: int,
        actions: Actions,
        *,
        initial: Initial = 0,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        end: bool = False,
        encode: Encode | None = None,
    ) -> Space:
        """The space of an environment, a sampler or a log.

        Parameters
        ----------
        num_observed
            The number of states that can be observed.
        actions
            The number of actions of every state, or the action ids of each state, as a sequence or a function.
        initial
            The initial state (index or name), a mapping from states to probabilities, or one probability per state.
        state_names, action_names
            Names of the observed states and of the actions.
        end
            Whether to add a state for ended episodes.
        encode
            A function from an observation to a state.

        Examples
        --------
        >>> from almostsure.model.space import Space
        >>> space = Space.from_actions(3, 2, end=True)
        >>> space.num_states, space.num_observed, space.end, space.num_choices
        (4, 3, 3, 7)
        """
        count = positive("num_states", num_observed)
        rows = action_rows(actions, count)
        action = np.concatenate(rows)
        space = Space(
            choice_ptr=ptr_of([row.size for row in rows]),
            choice_action=action.astype(action_dtype(int(action.max()) + 1)),
            initial=initial_distribution(initial, count, state_names),
            state_names=state_names,
            action_names=action_names,
            encode=encode,
        )
        return space.with_end() if end else space

    # ------------------------------------------------------------------ sizes

    @property
    def num_states(self) -> int:
        """The number of states, including the end and the unknown."""
        return self.choice_ptr.size - 1

    @property
    def num_choices(self) -> int:
        """The number of choices (state–action pairs)."""
        return self.choice_action.size

    @property
    def num_observed(self) -> int:
        """The number of states that can be observed: all but the end and the unknown."""
        return self.num_states - (self.end is not None) - (self.unknown is not None)

    def choice_states(self) -> Ints:
        """The state of each choice, [num_choices]."""
        return owners(self.choice_ptr)

    @property
    def initial_state(self) -> int:
        """The initial state, if there is only one."""
        if self.initial_states.size != 1:
            raise ModelError(
                f"the model must have a single initial state; got {self.initial_states.size}. "
                "Use initial_states and initial_probabilities."
            )
        return int(self.initial_states[0])

    @property
    def starts(self) -> dict[int, float]:
        """The initial states and their probabilities, as a dictionary."""
        return dict(zip(self.initial_states.tolist(), self.initial_probabilities.tolist(), strict=True))

    # ------------------------------------------------------------------ lookup

    def observed(self, observation: Any) -> int:
        """The state of an observation: by ``encode``, or as an index or a name of an observed state."""
        state = observation
        if self.encode is not None:
            with Blame(lambda: f"encode failed for the observation {brief(observation)}"):
                state = self.encode(observation)
        try:
            index = self.state(state)
        except UnknownName:
            index = self.num_observed
        if index >= self.num_observed:
            source = "encode must return" if self.encode is not None else "an observation must be"
            named = "" if self.state_names is None else " or its name"
            raise ModelError(
                f"{source} a state 0 … {self.num_observed - 1}{named}; got {brief(state)}."
                + ("" if self.encode is not None else " Pass encode= to turn observations into states.")
            )
        return index

    @property
    def _variables(self) -> Mapping[str, npt.NDArray[Any]]:
        """The variables of a program's states, each [num_states]; empty for other models."""
        return {}

    def state(self, state: int | str | tuple[Any, ...] | frozenset[Any] | Mapping[str, Any]) -> int:
        """The index of a state given by index or name.

        A state of a program can also be given by the values of all variables, in any order: ``"y=0, up=true"``, or
        ``{"y": 0, "up": True}``.  A state of an environment can also be given by its observation, if that is a
        dictionary, a tuple or an array.
        """
        if isinstance(state, int):
            return _index("state", state, self.num_states)
        if isinstance(state, str):
            return self._state_by_name(state)
        encode = getattr(self, "encode", None)  # not yet set while labels are read
        by_value = isinstance(state, (tuple, frozenset))
        is_observation = by_value or isinstance(state, dict) or (isinstance(state, np.ndarray) and state.ndim > 0)
        if encode is not None and is_observation:
            with Blame(lambda: f"encode failed for the state {brief(state)}"):
                index = encode(state)
            return self.state(index)
        if by_value and self.state_names and str(state) in self.state_names:
            raise UnknownName("state", state, (), BY_NAME)
        if isinstance(state, Mapping) and self._variables:
            return state_with(self._variables, state, self.state_names)
        if is_observation and not by_value and self.state_names and self.state_names[0].startswith("("):
            raise UnknownName("state", brief(state), (), BY_NAME)
        return _index("state", state, self.num_states)

    def _state_by_name(self, name: str) -> int:
        if self._state_index is None:
            extra = {END: self.end, UNKNOWN: self.unknown} if self.state_names is None else {}
            named = {name: state for state, name in enumerate(self.state_names or ())}
            self._state_index = named | {name: state for name, state in extra.items() if state is not None}
        if name in self._state_index:
            return self._state_index[name]
        if self._variables and (values := split_values(name)):
            return state_with(self._variables, values, self.state_names)
        if self.state_names is None:
            raise UnknownName("state", name, (), f"This model's states have no names; use 0 … {self.num_states - 1}.")
        raise unknown_name("state", name, self.state_names)

    def label(self, name: str) -> Bools:
        """A mask of the states that carry a label, [num_states]."""
        one_of("label", name, self.labels)
        return self.labels[name]

    def action(self, action: int | str) -> int:
        """The id of an action given by id or name."""
        if isinstance(action, str):
            if self.action_names is None:
                remedy = f"This model's actions have no names; use 0 … {self.num_actions - 1}."
                raise UnknownName("action", action, (), remedy)
            if action not in self.action_names:
                raise unknown_name("action", action, self.action_names)
            return self.action_names.index(action)
        return _index("action", action, self.num_actions)

    def choices(self, state: int | str | Mapping[str, Any]) -> range:
        """The choices of a state."""
        s = self.state(state)
        return range(int(self.choice_ptr[s]), int(self.choice_ptr[s + 1]))

    def actions(self, state: int | str | Mapping[str, Any]) -> Ints:
        """The action ids of a state, ascending."""
        of_state = self.choices(state)
        return self.choice_action[of_state.start : of_state.stop]

    def choice(self, state: int | str | Mapping[str, Any], action: int | str) -> int:
        """The index of the choice of ``action`` at ``state``."""
        s, a = self.state(state), self.action(action)
        actions = self.choice_action[int(self.choice_ptr[s]) : int(self.choice_ptr[s + 1])]
        at = int(actions.searchsorted(a))
        if at == actions.size or actions[at] != a:
            names = ", ".join(self.action_name(int(x)) for x in actions)
            name = self.action_name(a)
            error = UnknownName("action", name, ())
            error.args = (f"action {name!r} is not available at {self.describe_state(s)}, which has: {names}.",)
            raise error
        return int(self.choice_ptr[s]) + at

    def choice_state(self, choice: int) -> int:
        """The state of a choice."""
        return int(np.searchsorted(self.choice_ptr, choice, side="right")) - 1

    def find_choices(self, states: Ints, actions: Ints) -> Ints:
        """The choice of each pair of a state and an action, [n]; −1 if there is no such choice."""
        known = np.flatnonzero((states >= 0) & (states < self.num_states))
        choices, owner = spans(self.choice_ptr, states[known])
        meant = self.choice_action[choices] == actions[known][owner]
        result = np.full(states.size, -1, np.int64)
        result[known[owner[meant]]] = choices[meant]
        return result

    def by_action(self, of_choice: npt.NDArray[Any], otherwise: Any) -> npt.NDArray[Any]:
        """Values of choices, [..., num_choices], as a table by state and action, [..., num_states, num_actions].

        ``otherwise`` fills the entries of actions that a state does not have.
        """
        shape = (*of_choice.shape[:-1], self.num_states, self.num_actions)
        table = np.full(shape, otherwise, of_choice.dtype)
        table[..., self.choice_states(), self.choice_action] = of_choice
        return table

    # ------------------------------------------------------------------ names

    def state_name(self, state: int) -> str:
        """The name of a state, or its index if it has none."""
        if self.state_names is not None:
            return self.state_names[state]
        return END if state == self.end else UNKNOWN if state == self.unknown else str(state)

    def action_name(self, action: int) -> str:
        """The name of an action, or its id if it has none."""
        return str(action) if self.action_names is None else self.action_names[action]

    def describe_state(self, state: int) -> str:
        """A state as messages show it: its index, and its name if it has one."""
        name = self.state_name(state)
        return f"state {state}" if name == str(state) and self.state_names is None else f"state {state} {name!r}"

    def describe_choice(self, choice: int) -> str:
        """A choice as messages show it: its index, state and action."""
        if not 0 <= choice < self.choice_action.size:
            return f"choice {choice}"
        state, action = self.choice_state(choice), int(self.choice_action[choice])
        names = self.action_names or ()
        named = repr(names[action]) if 0 <= action < len(names) else action
        return f"choice {choice} ({self.describe_state(state)}, action {named})"

    # ------------------------------------------------------------------ other spaces

    @property
    def space(self) -> Space:
        """The space itself; of a model, its states and actions without the outcomes."""
        return self if type(self) is Space else Space(**Space._fields(self))

    def with_end(self) -> Space:
        """The space with a state for ended episodes added; itself if it has one."""
        if self.end is not None:
            return self.space
        if self.unknown is not None:
            raise ModelError("the end must come before the unknown. Call with_end() first, then with_unknown().")
        return self._with_state(END, end=self.num_states)

    def with_unknown(self) -> Space:
        """The space with a state for everything unobserved added; itself if it has one."""
        return self.space if self.unknown is not None else self._with_state(UNKNOWN, unknown=self.num_states)

    def _with_state(self, name: str, **role: int) -> Space:
        fields = Space._fields(self)
        count = self.num_choices + 1
        fields["choice_ptr"] = np.append(self.choice_ptr, count).astype(index_dtype(count + 1))
        fields["choice_action"] = np.append(self.choice_action, self.choice_action.dtype.type(0))
        if self.state_names is not None:
            fields["state_names"] = distinct([*self.state_names, name])
        fields["labels"] = with_more_states(self.labels, 1)
        fields["layout"] = self.layout and self.layout.with_more_states(1)
        return Space(**fields | role)

    def _fields(self) -> dict[str, Any]:
        return {
            "choice_ptr": self.choice_ptr,
            "choice_action": self.choice_action,
            "initial": (self.initial_states, self.initial_probabilities),
            **self.naming(),
        }

    def naming(self) -> Naming:
        """The optional properties of states and actions, as keyword arguments of constructors."""
        return {
            "state_names": self.state_names,
            "action_names": self.action_names,
            "layout": self.layout,
            "end": self.end,
            "unknown": self.unknown,
            "labels": dict(self.labels),
            "encode": self.encode,
        }

    # ------------------------------------------------------------------ identity

    @property
    def fingerprint(self) -> str:
        """A hash of the content, without names, labels, layout and encode; equal content has equal fingerprints."""
        if self._fingerprint is None:
            self._fingerprint = self._hash()
        return self._fingerprint

    def _hash(self) -> str:
        arrays = {"choice_ptr": self.choice_ptr, "choice_action": self.choice_action}
        return digest("space", arrays, self._start_and_roles())

    def _start_and_roles(self) -> bytes:
        order = np.argsort(self.initial_states, kind="stable")
        start = self.initial_states[order].astype("<i8").tobytes()
        start += self.initial_probabilities[order].astype("<f8").tobytes()
        # Without an end and an unknown nothing is added, so that fingerprints of older files stay valid.
        return start + (b"" if self.num_observed == self.num_states else f"\n{self.end} {self.unknown}".encode())

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or (self.num_choices == other.num_choices and self.fingerprint == other.fingerprint)

    def has_same_choices(self, other: Space) -> bool:
        """Whether two spaces have the same states and actions, apart from the initial distribution."""
        return (
            np.array_equal(self.choice_ptr, other.choice_ptr)
            and np.array_equal(self.choice_action, other.choice_action)
            and (self.end, self.unknown) == (other.end, other.unknown)
        )

    def otherwise_named(self, other: Space) -> str:
        """The first state or action that has another name in ``other``, in words; empty if there is none."""
        states, actions = min(self.num_observed, other.num_observed), min(self.num_actions, other.num_actions)
        for what, ours, theirs, size in (
            ("state", self.state_names, other.state_names, states),
            ("action", self.action_names, other.action_names, actions),
        ):
            if ours is not None and theirs is not None and ours[:size] != theirs[:size]:
                at = next(i for i in range(size) if ours[i] != theirs[i])
                return f"{what} {at} is {ours[at]!r}, not {theirs[at]!r}"
        return ""

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __copy__(self) -> Space:
        return self  # immutable

    def __deepcopy__(self, memo: dict[int, Any]) -> Space:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._fields()), ()  # the constructor makes the arrays read-only again

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and hasattr(self, "encode"):  # which is set last
            if not hasattr(self, name):
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            raise AttributeError(f"{name} cannot be changed: a model is immutable. Build another one.")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        extra = "".join(f", {name}" for name, at in ((END, self.end), (UNKNOWN, self.unknown)) if at is not None)
        size = f"{counted(self.num_observed, 'state')}{extra}, {counted(self.num_choices, 'choice')}"
        return f"<Space: {size}, starts in {self._shown_start()}>"

    def _shown_start(self) -> str:
        if self.initial_states.size > 1:
            return f"one of {self.initial_states.size}"
        return shown(self.state_name(int(self.initial_states[0])))

    # ------------------------------------------------------------------ checks

    def _count_actions(self) -> int:
        used = int(self.choice_action.max()) + 1
        if self.action_names is None:
            return used
        if len(self.action_names) < used:
            got = counted(len(self.action_names), "name")
            raise ModelError(f"action_names must name every action 0 … {used - 1}; got {got}")
        return len(self.action_names)

    def _last_states(self, end: int | None, unknown: int | None) -> tuple[int | None, int | None]:
        last = self.num_states - 1
        if unknown is not None:
            if unknown != last:
                raise ModelError(f"unknown must be the last state, {last}; got {unknown}")
            last -= 1
        if end is not None and end != last:
            raise ModelError(f"end must be the last state before the unknown, {last}; got {end}")
        if last < 0 or (end is not None and last < 1):
            raise ModelError("a space must have a state besides the end and the unknown; got none")
        return (None if end is None else int(end)), (None if unknown is None else int(unknown))


def _index(what: str, given: object, count: int) -> int:
    """``given`` as an index below ``count``; anything else (True, NaN, None, an array) raises UnknownName."""
    try:
        index = whole(what, given)
    except ArgumentError:
        index = -1
    if not 0 <= index < count:
        raise UnknownName(what, given, (), f"{what.capitalize()}s are 0 … {count - 1}.")
    return index
