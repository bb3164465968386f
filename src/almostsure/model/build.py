"""``from_transitions``: the one door through which every in-memory model is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import ModelError
from almostsure.model.layout import Layout
from almostsure.model.mdp import MDP, Arrays, Floats, Initial, Ints, action_dtype, index_dtype
from almostsure.model.validate import MAX_DAMAGE, SUM_TOLERANCE, and_more

COLUMNS = ("states", "actions", "next_states", "probabilities", "rewards", "damages")


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
    layout: Layout | None = None,
    normalise: bool = False,
) -> MDP:
    """Build a model from six equal-length sequences, one entry an outcome, in any order.

    Parameters
    ----------
    states, actions, next_states
        Integers from 0.
    probabilities, rewards, damages
        Damages are integers 0 … 255.  Entries that agree in everything but the probability add up; entries
        with probability 0 are left out.
    num_states
        By default one more than the largest state mentioned, or the number of names.
    terminal
        States in which nothing happens any more.  They may be given their damage- and reward-free self-loops
        or no outcomes at all.
    initial
        The initial state (index or name), a mapping from states to probabilities, or one probability a state.
    action_names, state_names
        Names by action id and by state.
    layout
        Where the states stand in a drawing.
    normalise
        Rescale the probabilities of each choice to sum to 1, for example after reading them from 32-bit
        floats.  Without it they must do so within 1e-9.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    >>> mdp
    <MDP: 2 states, 3 choices, 3 outcomes, starts in 0>
    """
    s, a, t = (_indices(name, x) for name, x in zip(COLUMNS[:3], (states, actions, next_states), strict=True))
    p, r = _floats("probabilities", probabilities), _floats("rewards", rewards)
    d = _damages(damages)
    _check_lengths((s, a, t, p, r, d))
    ends = _indices("terminal", np.asarray(list(terminal), dtype=np.int64))
    count = _count_states(num_states, state_names, (s, t, ends))
    _check_values(s, a, t, p, r, d)

    if not p.all():
        keep = p != 0
        s, a, t, p, r, d = (x[keep] for x in (s, a, t, p, r, d))
    _check_terminal(s, t, r, d, ends, count)
    missing = np.setdiff1d(ends, s)
    if missing.size:
        loops = (missing, np.zeros_like(missing), missing, np.ones(missing.size), np.zeros(missing.size), np.zeros(missing.size, np.uint8))
        s, a, t, p, r, d = (np.concatenate([x, y]) for x, y in zip((s, a, t, p, r, d), loops, strict=True))
    _check_every_state_has_a_choice(s, count, state_names)

    arrays = _compress(*_merge(*_sort(s, a, t, p, r, d, count)), count, normalise=normalise)
    return MDP(
        arrays,
        initial=_initial(initial, count, state_names),
        state_names=state_names,
        action_names=action_names,
        layout=layout,
    )


# ---------------------------------------------------------------------- reading the columns


def _indices(name: str, values: npt.ArrayLike) -> Ints:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1:
        raise ModelError(f"{name} must be one-dimensional; got shape {array.shape}")
    if array.dtype.kind not in "iu":
        whole = array.astype(np.float64) if array.dtype.kind in "fb" else None
        if whole is None or not np.isfinite(whole).all() or (whole != np.floor(whole)).any():
            raise ModelError(f"{name} must be integers; got {array.dtype} such as {array[0]!r}")
        array = whole.astype(np.int64)
    if array.min() < 0:
        at = int(np.argmin(array))
        raise ModelError(f"{name} must not be negative; got {array[at]} at entry {at}.", outcome=at)
    return array


def _floats(name: str, values: npt.ArrayLike) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{name} must be numbers; {error}") from None
    if array.ndim != 1 and array.size:
        raise ModelError(f"{name} must be one-dimensional; got shape {array.shape}")
    return array


def _damages(values: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    array = np.asarray(values)
    if array.dtype == np.uint8 and array.ndim == 1:
        return array
    wide = _floats("damages", values)
    bad = ~((wide >= 0) & (wide <= MAX_DAMAGE) & (wide == np.floor(wide)))
    if bad.any():
        at = int(np.argmax(bad))
        raise ModelError(
            f"damages must be integers 0 … {MAX_DAMAGE}; got {array[at]} at entry {at}"
            f"{and_more(int(bad.sum()) - 1, 'entry')}. Scale or round them first.",
            outcome=at,
        )
    return wide.astype(np.uint8)


def _check_lengths(columns: Sequence[npt.NDArray[Any]]) -> None:
    lengths = [x.size for x in columns]
    if len(set(lengths)) > 1:
        listed = ", ".join(f"{name} {n}" for name, n in zip(COLUMNS, lengths, strict=True))
        raise ModelError(f"the six columns must have equal lengths; got {listed}")


def _count_states(num_states: int | None, names: Sequence[str] | None, columns: Iterable[Ints]) -> int:
    seen = max((int(x.max()) + 1 for x in columns if x.size), default=0)
    count = num_states if num_states is not None else len(names) if names is not None else seen
    if count < 1:
        raise ModelError("a model must have at least one state; got none")
    if seen > count:
        raise ModelError(
            f"states must lie in 0 … {count - 1}; got {seen - 1}. Raise num_states or mend the index.", state=seen - 1
        )
    return count


def _check_values(s: Ints, a: Ints, t: Ints, p: Floats, r: Floats, d: npt.NDArray[np.uint8]) -> None:
    for bad, rule, values in (
        (~((p >= 0) & (p <= 1 + SUM_TOLERANCE)), "probabilities must lie in 0 … 1", p),
        (~np.isfinite(r), "rewards must be finite", r),
    ):
        if bad.any():
            at = int(np.argmax(bad))
            raise ModelError(
                f"{rule}; got {values[at]} at entry {at} (state {s[at]}, action {a[at]}, next state {t[at]})"
                f"{and_more(int(bad.sum()) - 1, 'entry')}.",
                state=int(s[at]), action=int(a[at]), outcome=at,
            )  # fmt: skip


def _check_terminal(s: Ints, t: Ints, r: Floats, d: npt.NDArray[np.uint8], ends: Ints, count: int) -> None:
    if not ends.size:
        return
    is_end = np.zeros(count, np.bool_)
    is_end[ends] = True
    bad = is_end[s] & ((t != s) | (r != 0) | (d != 0))
    if bad.any():
        at = int(np.argmax(bad))
        raise ModelError(
            f"terminal state {s[at]} must have damage- and reward-free self-loops or no outcomes; got "
            f"next state {t[at]}, reward {r[at]:g}, damage {d[at]} at entry {at}"
            f"{and_more(int(bad.sum()) - 1, 'entry')}. Take it out of terminal=, or drop the entry.",
            state=int(s[at]), outcome=at,
        )  # fmt: skip


def _check_every_state_has_a_choice(s: Ints, count: int, names: Sequence[str] | None) -> None:
    has = np.zeros(count, np.bool_)
    has[s] = True
    if not has.all():
        at = int(np.argmin(has))
        name = f" {names[at]!r}" if names is not None and at < len(names) else ""
        raise ModelError(
            f"every state must have a choice; state {at}{name} has none{and_more(int((~has).sum()) - 1, 'state')}. "
            "If nothing happens there any more, list it in terminal=.",
            state=at,
        )


# ---------------------------------------------------------------------- sorting, merging, compressing

Columns = tuple[Ints, Ints, Ints, Floats, Floats, npt.NDArray[np.uint8]]


def _sort(s: Ints, a: Ints, t: Ints, p: Floats, r: Floats, d: npt.NDArray[np.uint8], count: int) -> Columns:
    """Order by (state, action, successor), then ties by (damage, reward, probability).

    Sorting one combined integer is several times faster than a lexsort of three columns, and most models have
    few ties, so the other columns are only looked at inside them.
    """
    width = int(a.max()) + 1
    r = r + 0.0  # −0.0 becomes 0.0, so that equal content has equal bytes
    if count * width * count < 2**62:
        key = (s.astype(np.int64) * width + a) * count + t
        if (key[1:] < key[:-1]).any():
            order = np.argsort(key, kind="stable")
            key = key[order]
            s, a, t, p, r, d = (x[order] for x in (s, a, t, p, r, d))
        same = key[1:] == key[:-1]
    else:
        order = np.lexsort((t, a, s))
        s, a, t, p, r, d = (x[order] for x in (s, a, t, p, r, d))
        same = (s[1:] == s[:-1]) & (a[1:] == a[:-1]) & (t[1:] == t[:-1])
    if same.any():
        tied = np.flatnonzero(np.r_[same, False] | np.r_[False, same])
        group = np.cumsum(~np.r_[False, same])[tied]
        order = tied[np.lexsort((p[tied], r[tied], d[tied], group))]
        p[tied], r[tied], d = p[order], r[order], d.copy() if not d.flags.writeable else d
        d[tied] = d[order]
    return s, a, t, p, r, d


def _merge(s: Ints, a: Ints, t: Ints, p: Floats, r: Floats, d: npt.NDArray[np.uint8]) -> Columns:
    """Add up the probabilities of entries that agree in everything else."""
    same = (s[1:] == s[:-1]) & (a[1:] == a[:-1]) & (t[1:] == t[:-1]) & (d[1:] == d[:-1]) & (r[1:] == r[:-1])
    if not same.any():
        return s, a, t, p, r, d
    first = np.flatnonzero(np.r_[True, ~same])
    return s[first], a[first], t[first], np.add.reduceat(p, first), r[first], d[first]


def _compress(
    s: Ints, a: Ints, t: Ints, p: Floats, r: Floats, d: npt.NDArray[np.uint8], count: int, *, normalise: bool
) -> Arrays:
    starts = np.flatnonzero(np.r_[True, (s[1:] != s[:-1]) | (a[1:] != a[:-1])])
    outcome_ptr = np.append(starts, s.size).astype(index_dtype(s.size + 1))
    per_state = np.bincount(s[starts], minlength=count)
    choice_ptr = np.zeros(count + 1, index_dtype(starts.size + 1))
    np.cumsum(per_state, out=choice_ptr[1:])
    if normalise:
        sums = np.add.reduceat(p, starts)
        p = p / np.repeat(sums, np.diff(outcome_ptr))
    return Arrays(
        choice_ptr=choice_ptr,
        choice_action=a[starts].astype(action_dtype(int(a.max()) + 1)),
        outcome_ptr=outcome_ptr,
        successor=t.astype(index_dtype(count)),
        probability=_owned(p),
        reward=_owned(r),
        damage=_owned(d),
    )


def _owned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy unless nobody else can write to the array: a model must not change under its user's hands."""
    return array if array.base is None and array.flags.owndata and not array.flags.writeable else np.array(array)


def _initial(initial: Initial, count: int, names: Sequence[str] | None) -> tuple[Ints, Floats]:
    def index(state: Any) -> int:
        if isinstance(state, str):
            if names is None or state not in names:
                raise ModelError(f"initial state {state!r} is not among the state names")
            return list(names).index(state)
        return int(state)

    if isinstance(initial, (str, int, np.integer)):
        return np.array([index(initial)], np.int64), np.ones(1)
    if isinstance(initial, Mapping):
        pairs = [(index(k), float(v)) for k, v in initial.items() if v != 0]
        return np.array([k for k, _ in pairs], np.int64), np.array([v for _, v in pairs], np.float64)
    dense = _floats("initial", initial)
    if dense.size != count:
        raise ModelError(f"initial must be a state, a mapping, or one probability for each of the {count} states; got {dense.size} numbers")
    where = np.flatnonzero(dense)
    return where, dense[where]
