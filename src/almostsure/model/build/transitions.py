"""``from_transitions``, and ``build``, which builds all models in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any, NamedTuple, NoReturn, Unpack

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more, names_right_word
from almostsure.errors import ModelError
from almostsure.model.arrays import ptr_of
from almostsure.model.build.given import Initial, initial_distribution
from almostsure.model.build.validate import MAX_DAMAGE, SUM_TOLERANCE, are_damages, column
from almostsure.model.labels import Labels
from almostsure.model.layout import Layout
from almostsure.model.mdp import MDP, Arrays, Columns, Floats, Ints, action_dtype, index_dtype
from almostsure.model.naming import named
from almostsure.model.origin import Origin
from almostsure.model.space import Naming

MAX_ACTION = 2**31 - 2
BYTES_PER_OUTCOME = 150  # needed to build a model: six columns, their sorted copies, and the model
ROUNDING = 1e-15  # allowed rounding error of a sum of probabilities, per term
NAMES_REMEDY = " Use from_table for states and actions with names, or number them and pass state_names=, action_names=."
COLUMNS = ("states", "actions", "next_states", "probabilities", "rewards", "damages")


@names_right_word
def from_transitions(
    states: npt.ArrayLike,
    actions: npt.ArrayLike,
    next_states: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    rewards: npt.ArrayLike,
    damages: npt.ArrayLike,
    *,
    num_states: int | None = None,
    terminal: Iterable[int] = (),
    initial: Initial = 0,
    action_names: Sequence[str] | None = None,
    state_names: Sequence[str] | None = None,
    labels: Labels | None = None,
    layout: Layout | None = None,
    normalise: bool = False,
) -> MDP:
    """Build a model from six equal-length sequences, one entry per outcome, in any order.

    Parameters
    ----------
    states, actions, next_states
        Integers from 0.
    probabilities, rewards, damages
        Damages are integers 0 … 255.  The probabilities of entries that are otherwise equal are added up;
        entries with probability 0 are left out.
    num_states
        By default the number of names, or one more than the largest state in the columns.
    terminal
        The terminal states; their self-loops without damage and reward may be left out.
    initial
        The initial state (index or name), a mapping from states to probabilities, or one probability per state.
    action_names, state_names
        Names by action id and by state.
    labels
        Named sets of states, each as one truth value per state or as a list of states: ``{"goal": [3, 7]}``.
    layout
        The positions of the states in a drawing.
    normalise
        Rescale the probabilities of each choice to sum to 1.  Otherwise they must do so within 1e-9.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    >>> mdp
    <MDP: 2 states, 3 choices, 3 outcomes, starts in 0>
    """
    return build(
        (states, actions, next_states, probabilities, rewards, damages),
        numbered=True,
        num_states=num_states,
        terminal=terminal,
        initial=initial,
        action_names=action_names,
        state_names=state_names,
        labels=labels,
        layout=layout,
        normalise=normalise,
    )


def build(
    given: Sequence[npt.ArrayLike],
    *,
    numbered: bool = False,
    num_states: int | None = None,
    terminal: Iterable[int] = (),
    initial: Initial = 0,
    origin: Origin | None = None,
    normalise: bool = False,
    **naming: Unpack[Naming],
) -> MDP:
    """Build a model from its six columns.

    Messages name an entry by its state and action, and also by its number if ``numbered``, that is, if the user knows
    the columns.  See :class:`almostsure.model.space.Space` for ``naming``.
    """
    s, a, t = (_indices(name, x) for name, x in zip(COLUMNS[:3], given[:3], strict=True))
    state_names = naming.get("state_names")
    place = _Place(s, a, t, state_names, naming.get("action_names"), numbered)
    p, r = (place.numbers(COLUMNS[at], given[at], "numbers").astype(np.float64, copy=False) for at in (3, 4))
    damages = place.numbers("damages", given[5], f"integers 0 … {MAX_DAMAGE}")
    _check_lengths((s, a, t, p, r, damages))
    ends = _ends(terminal)
    count = _count_states(num_states, state_names, (s, t, ends))
    _check_values(p, r, place)
    d = _damages(damages, place)
    columns = Columns(s, a, t, p, r, d)
    if ends.size:
        _check_terminal(columns, ends, place)
    columns = _with_loops(_possible(columns, ends), ends, count, state_names)
    return MDP(
        _compress(_merge(_sort(columns, count)), count, normalise=normalise),
        initial=initial_distribution(initial, count, state_names),
        origin=origin,
        **naming,
    )


# ---------------------------------------------------------------------- reading the columns


class _Place(NamedTuple):
    """The columns that messages name an entry by."""

    states: Ints
    actions: Ints
    next_states: Ints
    state_names: Sequence[str] | None
    action_names: Sequence[str] | None
    numbered: bool

    def numbers(self, name: str, values: npt.ArrayLike, wanted: str) -> npt.NDArray[Any]:
        """A column of numbers; the error for other values names the first such entry."""
        try:
            return column(name, values, "iufb", wanted)
        except ModelError as error:
            problem = error
        listed = list(values) if isinstance(values, Iterable) else []
        bad = np.array([not isinstance(value, (Real, np.bool_)) for value in listed], np.bool_)
        if bad.any() and bad.size == self.states.size:
            self.fail(bad, f"{name} must be {wanted}; got {listed[int(np.argmax(bad))]!r}", "")
        raise problem

    def fail(self, bad: npt.NDArray[np.bool_], rule: str, remedy: str) -> NoReturn:
        """Raise ModelError for the first bad entry, with the number of others."""
        at = int(np.argmax(bad))
        s, a, t = (int(column[at]) for column in self[:3])
        shown = (
            f"state {s}{named(self.state_names, s)}, action {a}{named(self.action_names, a)}, "
            f"next state {t}{named(self.state_names, t)}"
        )
        where = f"entry {at} ({shown})" if self.numbered else shown
        more = and_more(int(np.count_nonzero(bad)) - 1, "entry" if self.numbered else "outcome")
        raise ModelError(f"{rule} at {where}{more}. {remedy}".rstrip(), state=s, action=a, outcome=at)


def _indices(name: str, values: npt.ArrayLike) -> Ints:
    array, limit = column(name, values, "iuf", "integers", NAMES_REMEDY), MAX_ACTION if name == "actions" else 2**62
    rules = [(array >= 0, "must not be negative"), (array <= limit, f"must be at most {limit}")]
    if array.dtype.kind == "f":
        rules.insert(0, ((array == np.floor(array)) & (np.abs(array) < 2**53), "must be integers"))
    for good, rule in rules:
        if not good.all():
            at = int(np.argmin(good))
            raise ModelError(f"{name} {rule}; got {array[at]} at entry {at}.", outcome=at)
    # uint64 combined with int64 would become float64 and lose digits
    return array.astype(np.int64) if array.dtype.kind == "f" or array.dtype == np.uint64 else array


def _damages(array: npt.NDArray[Any], place: _Place) -> npt.NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    bad = ~are_damages(array)
    if bad.any():
        first = array[np.argmax(bad)]
        remedy = "Scale or round them first; with_damage does so with scale=, the unit of damage."
        place.fail(bad, f"damages must be integers 0 … {MAX_DAMAGE}; got {first}", remedy)
    return array.astype(np.uint8)


def _ends(terminal: Iterable[int]) -> Ints:
    try:
        listed = terminal if isinstance(terminal, np.ndarray) else list(terminal)
    except TypeError:
        raise ModelError(f"terminal must be a collection of states; got {terminal!r}") from None
    return np.unique(_indices("terminal", listed))


def _check_lengths(columns: Sequence[npt.NDArray[Any]]) -> None:
    lengths = [x.size for x in columns]
    if len(set(lengths)) > 1:
        listed = ", ".join(f"{name} {n}" for name, n in zip(COLUMNS, lengths, strict=True))
        raise ModelError(f"the six columns must have equal lengths; got {listed}")


def _count_states(num_states: int | None, names: Sequence[str] | None, columns: Iterable[Ints]) -> int:
    seen = max((int(x.max()) + 1 for x in columns if x.size), default=0)
    count = num_states if num_states is not None else len(names) if names is not None else seen
    if not isinstance(count, (int, np.integer)):
        raise ModelError(f"num_states must be an integer; got {num_states!r}")
    if count < 1:
        raise ModelError("a model must have at least one state; got none")
    if seen > count:
        raise ModelError(
            f"states must lie in 0 … {count - 1}; got {seen - 1}. Raise num_states or correct the index.",
            state=seen - 1,
        )
    return int(count)


def _check_values(p: Floats, r: Floats, place: _Place) -> None:
    for good, rule, values in (
        ((p >= 0) & (p <= 1 + SUM_TOLERANCE), "probabilities must lie in 0 … 1", p),
        (np.isfinite(r), "rewards must be finite", r),
    ):
        if not good.all():
            place.fail(~good, f"{rule}; got {values[np.argmin(good)]}", "")


def _check_terminal(columns: Columns, ends: Ints, place: _Place) -> None:
    s, _, t, p, r, d = columns
    bad = np.isin(s, ends) & (p != 0) & ((t != s) | (r != 0) | (d != 0))
    if bad.any():
        at = int(np.argmax(bad))
        place.fail(
            bad,
            f"terminal state {s[at]} must only have self-loops without damage and reward, or no outcomes; got "
            f"reward {r[at]:g} and damage {d[at]}",
            f"Take state {s[at]} out of terminal=, or give it no outcomes.",
        )


def _possible(columns: Columns, ends: Ints) -> Columns:
    """Leave out entries with probability 0; a choice that only has such entries is an error."""
    s, a, _, p, _, _ = columns
    if p.all():
        return columns
    keep = p != 0
    width = int(a.max()) + 1
    if int(s.max()) < 2**62 // width:
        key = s.astype(np.int64) * width + a
        gone = np.setdiff1d(key[~keep], key[keep])
        gone = gone[~np.isin(gone // width, ends)]
        if gone.size:
            state, action = divmod(int(gone[0]), width)
            raise ModelError(
                f"probabilities of state {state}, action {action} must sum to 1; got 0"
                f"{and_more(gone.size - 1, 'choice')}. Leave out the entries of actions that are not available.",
                state=state, action=action,
            )  # fmt: skip
    return _take(columns, keep)


def _take(columns: Columns, index: npt.NDArray[Any]) -> Columns:
    return Columns(*(column[index] for column in columns))


def _with_loops(columns: Columns, ends: Ints, count: int, names: Sequence[str] | None) -> Columns:
    """Add the self-loops of terminal states without outcomes, and check that every state has a choice."""
    s = columns.state
    _check_enough(s, ends, count, names)
    has = np.zeros(count, np.bool_)
    has[s] = True
    missing = ends[~has[ends]]
    has[missing] = True
    if not has.all():
        raise _no_choice(int(np.argmin(has)), int((~has).sum()) - 1, names)
    if not missing.size:
        return columns
    none = np.zeros(missing.size, np.uint8)
    loops = missing, none, missing, none + 1.0, none, none
    return Columns(*(np.concatenate(pair) for pair in zip(columns, loops, strict=True)))


def _check_enough(s: Ints, ends: Ints, count: int, names: Sequence[str] | None) -> None:
    """Refuse more states than entries, before memory for the states is allocated."""
    if count > s.size + ends.size:
        present = np.union1d(s, ends)
        gaps = np.flatnonzero(present != np.arange(present.size))
        first = int(gaps[0]) if gaps.size else present.size
        raise _no_choice(first, count - present.size - 1, names)


def _no_choice(state: int, more: int, names: Sequence[str] | None) -> ModelError:
    return ModelError(
        f"every state must have a choice; state {state}{named(names, state)} has none{and_more(more, 'state')}. "
        "If it is terminal, list it in terminal=.",
        state=state,
    )


# ---------------------------------------------------------------------- sorting, merging, compressing


def _sort(columns: Columns, count: int) -> Columns:
    """Sort by (state, action, successor), then ties by (damage, reward, probability), into new columns.

    Sorting one combined integer is several times faster than a lexsort of three columns.  Most models have few ties, so
    the other columns are only sorted within them.
    """
    s, a, t, _, _, _ = columns
    width = int(a.max()) + 1
    if count * width * count < 2**62:
        key = s.astype(np.int64)
        for column, factor in ((a, width), (t, count)):
            key *= factor
            key += column
        if (key[1:] < key[:-1]).any():
            order = np.argsort(key, kind="stable")  # nearly linear if the entries are almost sorted
            key = key[order]
            columns = _take(columns, order)
        same = key[1:] == key[:-1]
        del key
    else:
        columns = _take(columns, np.lexsort((t, a, s)))
        same = np.logical_and.reduce([column[1:] == column[:-1] for column in columns[:3]])
    s, a, t, p, r, d = columns
    r = r + 0.0  # −0.0 becomes 0.0, so that equal content has equal bytes
    if same.any():
        p, d = p.copy(), d.copy()  # these may be the caller's arrays
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        group = np.cumsum(~np.append(False, same))[tied]
        order = tied[np.lexsort((p[tied], r[tied], d[tied], group))]
        p[tied], r[tied], d[tied] = p[order], r[order], d[order]
    return Columns(s, a, t, p, r, d)


def _merge(columns: Columns) -> Columns:
    """Add up the probabilities of entries that are otherwise equal."""
    s, a, t, p, r, d = columns
    same = np.ones(s.size - 1, np.bool_)
    for values in (t, a, s, d, r):
        same &= values[1:] == values[:-1]
    if not same.any():
        return columns
    first = np.flatnonzero(np.append(True, ~same))
    return _take(columns, first)._replace(probability=np.add.reduceat(p, first))


def _compress(columns: Columns, count: int, *, normalise: bool) -> Arrays:
    s, a, t, p, r, d = columns
    starts = np.flatnonzero(np.append(True, (s[1:] != s[:-1]) | (a[1:] != a[:-1])))
    outcome_ptr: Ints = np.append(starts, s.size).astype(index_dtype(s.size + 1))
    sums = np.add.reduceat(p, starts)
    # Sums that are off by more than rounding, but within the tolerance, are rescaled here once, so that later code can
    # rely on sums of 1.  Sums that are 1 up to rounding are not, so that rebuilding a model gives the same model.
    width = np.diff(outcome_ptr)
    off = np.abs(sums - 1)
    rescaled = (off > ROUNDING * (width + 2)) & (off <= SUM_TOLERANCE)
    if normalise or rescaled.any():
        p = p / np.repeat(np.where(rescaled | normalise, sums, 1.0), width)
    return Arrays(
        choice_ptr=ptr_of(np.bincount(s[starts], minlength=count)),
        choice_action=a[starts].astype(action_dtype(int(a.max()) + 1)),
        outcome_ptr=outcome_ptr,
        successor=t.astype(index_dtype(count)),
        probability=np.array(p),  # a copy, since this may be the caller's array
        reward=r,
        damage=np.array(d),
    )
