"""The Markov decision process with damage: one sparse, read-only form that every algorithm reads.

States own *choices* (state–action pairs), choices own *outcomes* ``(successor, probability, reward, damage)``.
Both levels are stored as offsets into flat arrays, so that states may have different action sets and a choice
may reach the same successor with several rewards and damages::

    choices of state s    choice_ptr[s] … choice_ptr[s+1] − 1        each with its action id
    outcomes of choice c  outcome_ptr[c] … outcome_ptr[c+1] − 1      each with its four numbers

Choices are ordered by (state, action), outcomes by (successor, damage, reward), so equal content gives equal
arrays and an equal fingerprint.  A *terminal* state is one whose every outcome is a damage-free, reward-free
self-loop; nothing ever happens there.

A model costs 21 bytes an outcome, 5 a choice and 4 a state below 2³¹ outcomes and 256 actions: 23 bytes an
outcome at three outcomes a choice and four choices a state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import whole
from almostsure.errors import ArgumentError, ModelError, UnknownName
from almostsure.model.arrays import (
    ARRAY_NAMES,
    Arrays,
    Bools,
    Floats,
    Ints,
    Sizes,
    Support,
    action_dtype,
    fingerprint,
    index_dtype,
    terminal_states,
)
from almostsure.model.layout import Layout
from almostsure.model.naming import checked_names, shown
from almostsure.model.validate import check_arrays, check_initial

__all__ = [
    "ARRAY_NAMES", "MDP", "Arrays", "Bools", "Floats", "Initial", "Ints", "Outcome", "Sizes", "Support",
    "action_dtype", "fingerprint", "index_dtype",
]  # fmt: skip

Initial = int | str | Mapping[int | str, float] | Sequence[float] | npt.NDArray[Any]

LONGEST_SHOWN = 60  # characters of a name that is an example of names
SUGGEST_FROM = 10_000  # comparing a misspelt name with a million others would take a minute


class Outcome(NamedTuple):
    """What one choice may lead to."""

    next_state: int
    probability: float
    reward: float
    damage: int


@final
class MDP:
    """A finite Markov decision process whose outcomes carry a reward and a damage 0 … 255.

    Build one with :func:`almostsure.from_transitions` or another ``from_…`` function, or load one with
    :func:`almostsure.load`.  It is immutable; its arrays are read-only.

    Parameters
    ----------
    arrays
        The content, or a function that fetches it on first use (a memory-mapped file is not read before).
    sizes
        Needed with a function only.
    initial
        The start: states and their probabilities.
    state_names, action_names
        Names by state and by action id; they appear in every message.
    layout
        Where the states stand in a drawing.
    """

    __slots__ = (
        "_arrays", "_fetch", "_fingerprint", "_num_actions", "_state_index", "action_names",
        "initial_probabilities", "initial_states", "layout", "sizes", "state_names", "__weakref__",
    )  # fmt: skip

    def __init__(
        self,
        arrays: Arrays | Callable[[], Arrays],
        *,
        sizes: Sizes | None = None,
        initial: tuple[Ints, Floats],
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        layout: Layout | None = None,
        fingerprint: str | None = None,
    ) -> None:
        self._state_index: dict[str, int] | None = None
        self._fingerprint = fingerprint
        self._arrays: Arrays | None = None
        if isinstance(arrays, Arrays):
            self._fetch: Callable[[], Arrays] | None = None
            sizes = Sizes(states=arrays.num_states, choices=arrays.num_choices, outcomes=arrays.num_outcomes)
        elif sizes is None:
            raise TypeError("sizes must be given with a function that fetches the arrays")
        else:
            self._fetch = arrays
        self.sizes = sizes
        self.initial_states, self.initial_probabilities = map(_frozen, initial)
        self.state_names = checked_names("state", state_names, exactly=sizes.states)
        self.action_names = checked_names("action", action_names)
        self._num_actions = None if self.action_names is None else len(self.action_names)
        self.layout = layout
        if isinstance(arrays, Arrays):
            self._accept(arrays)
        check_initial(self.initial_states, self.initial_probabilities, sizes.states)

    # ------------------------------------------------------------------ content

    @property
    def arrays(self) -> Arrays:
        """All arrays, validated.  A model from a file is read and validated here, on first use."""
        fetch = self._fetch  # read before looking at _arrays: another thread may be fetching, and clear it
        if self._arrays is None:
            assert fetch is not None  # an MDP without arrays was given a fetcher
            self._accept(fetch())
            self._fetch = None
        assert self._arrays is not None
        return self._arrays

    def _accept(self, arrays: Arrays) -> None:
        found = Sizes(states=arrays.num_states, choices=arrays.num_choices, outcomes=arrays.num_outcomes)
        if found != self.sizes:
            raise ModelError(f"the arrays must have the announced sizes {self.sizes}; got {found}")

        def describe(choice: int) -> str:
            if not 0 <= choice < arrays.choice_action.size:
                return f"choice {choice}"
            state = int(np.searchsorted(arrays.choice_ptr, choice, side="right")) - 1
            action = self._describe_action(int(arrays.choice_action[choice]))
            return f"choice {choice} ({self.describe_state(state)}, {action})"

        check_arrays(arrays, describe)
        num_actions = int(arrays.choice_action.max()) + 1
        if self.action_names is None:
            self._num_actions = num_actions
        elif len(self.action_names) < num_actions:
            raise ModelError(
                f"action_names must name every action 0 … {num_actions - 1}; got {len(self.action_names)} names"
            )
        for name in ARRAY_NAMES:
            getattr(arrays, name).flags.writeable = False
        self._arrays = arrays

    @property
    def num_states(self) -> int:
        """How many states there are."""
        return self.sizes.states

    @property
    def num_choices(self) -> int:
        """How many state–action pairs there are."""
        return self.sizes.choices

    @property
    def num_outcomes(self) -> int:
        """How many outcomes there are, over all choices."""
        return self.sizes.outcomes

    @property
    def num_actions(self) -> int:
        """One more than the largest action id, or the number of action names."""
        if self._num_actions is None:
            self._num_actions = int(self.choice_action.max()) + 1
        return self._num_actions

    @property
    def max_damage(self) -> int:
        """The largest damage of any outcome."""
        return int(self.damage.max())

    @property
    def choice_ptr(self) -> Ints:
        """Offsets of each state's choices, [num_states + 1]."""
        return self.arrays.choice_ptr

    @property
    def choice_action(self) -> Ints:
        """Action id of each choice, [num_choices]."""
        return self.arrays.choice_action

    @property
    def outcome_ptr(self) -> Ints:
        """Offsets of each choice's outcomes, [num_choices + 1]."""
        return self.arrays.outcome_ptr

    @property
    def successor(self) -> Ints:
        """Next state of each outcome, [num_outcomes]."""
        return self.arrays.successor

    @property
    def probability(self) -> Floats:
        """Probability of each outcome, [num_outcomes]."""
        return self.arrays.probability

    @property
    def reward(self) -> Floats:
        """Reward of each outcome, [num_outcomes]."""
        return self.arrays.reward

    @property
    def damage(self) -> npt.NDArray[np.uint8]:
        """Damage of each outcome, [num_outcomes]."""
        return self.arrays.damage

    @property
    def support(self) -> Support:
        """Successors and damages alone: all that k* depends on.  Shares the model's memory."""
        a = self.arrays
        return Support(choice_ptr=a.choice_ptr, outcome_ptr=a.outcome_ptr, successor=a.successor, damage=a.damage)

    @property
    def nbytes(self) -> int:
        """Memory of the model's arrays in bytes."""
        return self.arrays.nbytes

    # ------------------------------------------------------------------ derived, computed when asked for

    def choice_states(self) -> Ints:
        """The state of each choice, [num_choices]."""
        dtype = index_dtype(self.num_states)
        return np.repeat(np.arange(self.num_states, dtype=dtype), np.diff(self.choice_ptr))

    def outcome_choices(self) -> Ints:
        """The choice of each outcome, [num_outcomes]."""
        dtype = index_dtype(self.num_choices)
        return np.repeat(np.arange(self.num_choices, dtype=dtype), np.diff(self.outcome_ptr))

    def is_terminal(self) -> Bools:
        """Which states are terminal: every outcome is a damage-free, reward-free self-loop, [num_states]."""
        return terminal_states(self.arrays)

    @property
    def initial_state(self) -> int:
        """The initial state, where there is only one."""
        if self.initial_states.size != 1:
            raise ModelError(
                f"the model starts in one of {self.initial_states.size} states, not in one. "
                "Use initial_states and initial_probabilities."
            )
        return int(self.initial_states[0])

    # ------------------------------------------------------------------ looking things up

    def state(self, state: int | str) -> int:
        """The index of a state given by index or name."""
        if isinstance(state, str):
            return self._state_by_name(state)
        return _index("state", state, self.num_states)

    def _state_by_name(self, name: str) -> int:
        if self.state_names is None:
            raise UnknownName("state", name, (), f"This model's states have no names; use 0 … {self.num_states - 1}.")
        if self._state_index is None:
            self._state_index = {n: i for i, n in enumerate(self.state_names)}
        if name not in self._state_index:
            raise _unknown("state", name, self.state_names)
        return self._state_index[name]

    def action(self, action: int | str) -> int:
        """The id of an action given by id or name."""
        if isinstance(action, str):
            if self.action_names is None or action not in self.action_names:
                raise _unknown("action", action, self.action_names or ())
            return self.action_names.index(action)
        return _index("action", action, self.num_actions)

    def choices(self, state: int | str) -> range:
        """The choices of a state."""
        s = self.state(state)
        return range(int(self.choice_ptr[s]), int(self.choice_ptr[s + 1]))

    def actions(self, state: int | str) -> Ints:
        """The action ids of a state, ascending."""
        of_state = self.choices(state)
        return self.choice_action[of_state.start : of_state.stop]

    def choice(self, state: int | str, action: int | str) -> int:
        """The index of the choice of ``action`` at ``state``."""
        s, a = self.state(state), self.action(action)
        actions = self.actions(s)
        at = int(np.searchsorted(actions, a))
        if at == actions.size or actions[at] != a:
            names = ", ".join(self.action_name(int(x)) for x in actions)
            raise UnknownName("action", self.action_name(a), (), f"S{self.describe_state(s)[1:]} has: {names}.")
        return int(self.choice_ptr[s]) + at

    def outcomes(self, state: int | str, action: int | str) -> list[Outcome]:
        """What may happen when ``action`` is taken at ``state``."""
        c = self.choice(state, action)
        where = slice(int(self.outcome_ptr[c]), int(self.outcome_ptr[c + 1]))
        a = self.arrays
        columns = (a.successor[where], a.probability[where], a.reward[where], a.damage[where])
        return [Outcome(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def state_name(self, state: int) -> str:
        """The name of a state, or its index where it has none."""
        return str(state) if self.state_names is None else self.state_names[state]

    def action_name(self, action: int) -> str:
        """The name of an action, or its id where it has none."""
        return str(action) if self.action_names is None else self.action_names[action]

    def describe_state(self, state: int) -> str:
        """A state as messages show it: its index, and its name if it has one."""
        return f"state {state}" if self.state_names is None else f"state {state} {self.state_names[state]!r}"

    def _describe_action(self, action: int) -> str:
        known = self.action_names is not None and 0 <= action < len(self.action_names)
        return f"action {self.action_names[action]!r}" if known and self.action_names else f"action {action}"

    def describe_choice(self, choice: int) -> str:
        """A choice as messages show it: its index, state and action."""
        state = int(np.searchsorted(self.choice_ptr, choice, side="right")) - 1
        action = self._describe_action(int(self.choice_action[choice]))
        return f"choice {choice} ({self.describe_state(state)}, {action})"

    # ------------------------------------------------------------------ identity

    @property
    def fingerprint(self) -> str:
        """A hash of the content (not of names and layout); equal models have equal fingerprints."""
        arrays = self.arrays  # fetching them also checks the fingerprint that came with a file
        if self._fingerprint is None:
            self._fingerprint = fingerprint(arrays, self.initial_states, self.initial_probabilities)
        return self._fingerprint

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MDP):
            return NotImplemented
        return self is other or (self.sizes == other.sizes and self.fingerprint == other.fingerprint)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __copy__(self) -> MDP:
        return self  # nothing in it can change

    def __deepcopy__(self, memo: dict[int, Any]) -> MDP:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (
            {name: getattr(self.arrays, name) for name in ARRAY_NAMES},
            (self.initial_states, self.initial_probabilities),
            self.state_names,
            self.action_names,
            self.layout,
        )

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and hasattr(self, name):
            raise AttributeError(f"{name} cannot be changed: a model is immutable. Build another one.")
        object.__setattr__(self, name, value)

    def save(self, path: str | PathLike[str], *, relay: bool = False) -> None:
        """Write the model to a UMB file, atomically.  See :func:`almostsure.load`.

        With ``relay``, outcomes that Storm cannot tell apart (same choice, same successor, different reward
        or damage) pass through extra relay states, so that Storm reads the file too.
        """
        from almostsure.model.files import save

        save(self, path, relay=relay)

    # ------------------------------------------------------------------ for people

    def __repr__(self) -> str:
        start = (
            shown(self.state_name(int(self.initial_states[0]))) if self.initial_states.size == 1
            else f"one of {self.initial_states.size}"
        )  # fmt: skip
        return (
            f"<MDP: {self.num_states:,} states, {self.num_choices:,} choices, "
            f"{self.num_outcomes:,} outcomes, starts in {start}>"
        )

    def _repr_html_(self) -> str:
        from almostsure.model.html import model_card

        return model_card(self)

    def summary(self) -> str:
        """A few lines about the model: its size, damage, rewards, terminal states, start and memory."""
        from almostsure.model.describe import summary

        return summary(self)


def _unknown(what: str, name: str, names: Sequence[str]) -> UnknownName:
    """The error that names the nearest, or else what names look like here."""
    error = UnknownName(what, name, names[:SUGGEST_FROM])
    if error.nearest is not None or not names:
        return error
    some = ", ".join(f"{known[:LONGEST_SHOWN]!r}" for known in names[:4])
    return UnknownName(what, name, (), f"{what.capitalize()}s are named {some}{', …' if len(names) > 4 else '.'}")


def _index(what: str, given: object, count: int) -> int:
    """``given`` as an index below ``count``; anything else (True, NaN, None, an array) is unknown."""
    try:
        index = whole(what, given)
    except ArgumentError:
        index = -1
    if not 0 <= index < count:
        raise UnknownName(what, given, (), f"{what.capitalize()}s are 0 … {count - 1}.")
    return index


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = np.array(array)
    array.flags.writeable = False
    return array


def _rebuild(
    arrays: dict[str, npt.NDArray[Any]],
    initial: tuple[Ints, Floats],
    state_names: Sequence[str] | None,
    action_names: Sequence[str] | None,
    layout: Layout | None,
) -> MDP:
    """Unpickle a model through its validation, which also makes its arrays read-only again."""
    return MDP(Arrays(**arrays), initial=initial, state_names=state_names, action_names=action_names, layout=layout)
