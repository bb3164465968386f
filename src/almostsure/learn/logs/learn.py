"""``learn_from_logs``: minimal budgets from a log of past episodes.

No further samples can be drawn, so most choices stay *unknown*: they were never made, or not often enough to conclude
that all of their outcomes were seen.  The shield refuses them.

**The guarantee.**  Suppose that

1. no outcome is rarer than μ;
2. what happens depends only on state and action (the log is one of a Markov decision process);
3. the log is complete: no step is missing *because of its outcome*.  A log from which crashes were removed says that
   crashes do not happen.

A choice with j different outcomes (s', d) in the log is *known* once it was made N_j times, with (j + 1)(1 − μ)^{N_j}
≤ ε/(1 + ε) and ε = δ / |choices|: the rule *by count* of :mod:`almostsure.learn.evidence`.  Then with probability at
least 1 − δ all known choices are complete.  So the budgets k' of the model in which every other choice is refused (∞)
are nowhere below k* (proof in :mod:`almostsure.learn.minimal`), and a shield made of k' **never overspends**.  If every
choice is known, k' = k*.

It does not matter how the actions were chosen; they may depend on earlier outcomes.  Think of the outcomes of each
choice as a list that was drawn beforehand, of which the next entry is used whenever the choice is made.  If a known
choice has an unseen outcome, that outcome is not among the first N_j entries of its list, and the probability of this
is independent of the policy.  Nor does the order of episodes in the log matter, since the rule uses only counts.  (The
rule *by silence* of ``learn_minimal_budget`` would need fewer steps, but it is only valid for steps in the order in
which they were made, by all agents together, which a log need not have.)

The number of choices must not depend on the log either.  If ``num_states`` and ``actions`` are not given, they are
taken from the log, and the statement says that the log is assumed to show all of them.

A log whose own counts refute μ is refused (:mod:`almostsure.learn.evidence` has the test).

``unknown="allow"`` guarantees nothing: its k is that of the empirical model, so k ≤ k*.  What it refuses is unsafe for
certain.

**Logs.**  A log is the path of a ``.csv`` or ``.parquet`` file, which is read in pieces; a table (a mapping from names
to arrays, a data frame, an Arrow table or a structured array); a trajectory (a mapping with one state more than actions
and no next states); a Minari dataset, or episodes of one; or several of these, one after another.

A table has the columns ``state``, ``action``, ``next_state``, ``damage`` (or ``cumulative_damage``), and optionally
``reward``, ``terminated``, ``truncated``, ``episode`` and ``step``; the short names ``s``, ``a``, ``s'``, ``r``, ``d``
and ``cost`` are understood.  States and actions are integers from 0, or names.  Rows must be in order, episode by
episode.  Without ``episode``, episodes end at rows that are ``terminated`` or ``truncated``.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from almostsure.arguments import count, names_right_word, one_of
from almostsure.errors import ArgumentError, LimitReached, ModelError
from almostsure.learn.bounds import unit
from almostsure.learn.counts import UNKNOWN, Counts, Unknown
from almostsure.learn.evidence import Evidence, check_mu
from almostsure.learn.logs import minari
from almostsure.learn.logs.columns import Piece, Reader, typed
from almostsure.learn.logs.follow import Follower
from almostsure.learn.logs.read import Columns, is_table, read_file, read_table
from almostsure.learn.logs.seen import Seen
from almostsure.learn.minimal import Goal, LearnedBudget, learned_budget
from almostsure.model.arrays import Bools, Ints
from almostsure.model.build.given import Actions, Initial
from almostsure.model.build.validate import MAX_DAMAGE
from almostsure.model.naming import Logged
from almostsure.model.space import Encode, Space

COMPLETE = "This assumes that the log is complete, and that what happens depends only on state and action."
ENCODED = "It is about the abstraction that encode makes: real states that share a number may differ."
SHOWN = "It also assumes that the log shows all states and actions."
MOST_CHOICES = 1 << 27  # one gigabyte for each array with one entry per choice
SPARSEST, FEW = 100, 1_000  # numbers may be as large as FEW + SPARSEST times the number of different ones


@names_right_word
def learn_from_logs(
    log: Any,
    *,
    mu: float,
    delta: float,
    unknown: Unknown = "refuse",
    num_states: int | None = None,
    actions: Actions | Sequence[str] | None = None,
    initial: Initial | None = None,
    max_damage: int = MAX_DAMAGE,
    columns: Mapping[str, str] | None = None,
    encode: Encode | None = None,
) -> LearnedBudget:
    """Learn budgets, and a shield, from a log.

    Parameters
    ----------
    log
        A file, a table, a trajectory, a Minari dataset, or several of these (:mod:`almostsure.learn.logs.learn`).
    mu, delta
        No outcome is rarer than ``mu``, and the result may be wrong with probability ``delta``; both in (0, 1).
    unknown
        How to treat choices that were not made often enough: ``"refuse"`` or ``"allow"`` them.
    num_states, actions, initial, max_damage
        The number of states; the number of actions of every state, or the ids for each state, or the names of all
        actions; the initial states; and the largest damage of a step.  By default those of a dataset's spaces or of the
        log.  If actions have names in the log, list them in the order of the environment's numbers.
    columns, encode
        The names of columns in the log, by our names: ``{"damage": "cost"}``; and a function from an observation to a
        state, a number or a name, which the shield keeps.

    Raises
    ------
    ModelError, UnknownName, FileError
        The log contradicts itself, is incomplete, or cannot be read; the message says where.
    ArgumentError
        The log refutes ``mu``.

    Examples
    --------
    >>> log = {"s": [0, 0, 0] * 40, "a": [0, 0, 1] * 40, "s'": [0, 0, 1] * 40, "d": [1, 0, 0] * 40,
    ...        "terminated": [False, False, True] * 40}
    >>> learned = learn_from_logs(log, mu=0.2, delta=0.05, num_states=2, actions=2)
    >>> print(learned)
    If no outcome is rarer than 20 %, this budget is nowhere below k*: its shield never overspends, with probability
    at least 0.95. This assumes that the log is complete, and that what happens depends only on state and action.
      120 samples, 52% of the paper's sample bound (232)
      3 of 5 choices are known; the other 2 are refused
    >>> learned.shield.allowed(0, 0), learned.shield.allowed(0, 1)
    (array([1]), array([0, 1]))
    """
    mu, delta = unit("mu", mu), unit("delta", delta)
    one_of("value for unknown=:", unknown, UNKNOWN)
    given = _given(log, Given(num_states, actions, initial), encode)
    reader = Reader(encode, count("max_damage", max_damage, least=0, most=MAX_DAMAGE), given.num_states)
    seen = _read_all(read_log(log, columns, encode), reader)
    counts = _counts(seen, given, reader)
    check_mu(counts, mu)
    return learned_budget(counts, known_choices(counts, mu, delta), Goal(mu, delta, None), unknown)


def _given(log: Any, given: Given, encode: Encode | None) -> Given:
    """The states and actions that are known before the log is read: the given ones, or those of a dataset's spaces."""
    num_states, actions, initial = given
    if num_states is None and encode is None:
        num_states = minari.space_size(log, "observation_space")
    if actions is None:
        actions = minari.space_size(log, "action_space")
    return Given(None if num_states is None else count("num_states", num_states), actions, initial)


def known_choices(counts: Counts, mu: float, delta: float) -> Bools:
    """A mask of the choices that are known by count, [num_choices]."""
    is_end = counts.is_end()
    choices, pairs = int(np.count_nonzero(~is_end)), counts.space.num_states * (counts.max_damage + 1)
    evidence = Evidence(mu, delta, choices, pairs, count_share=1.0)
    return np.asarray(evidence.known_by_count(counts.outcomes_seen(), counts.samples) | is_end)


# ---------------------------------------------------------------------- reading


def read_log(log: Any, columns: Columns, encode: Encode | None) -> Iterator[Piece]:
    """The pieces of a log of any kind."""
    if isinstance(log, (str, PathLike)):
        return read_file(os.fspath(log), columns)
    if minari.is_dataset(log):
        return minari.read_episodes(log.iterate_episodes(), columns, encode)
    if minari.is_episode(log):
        return minari.read_episodes([log], columns, encode)
    if is_table(log):
        return read_table(log, columns)
    if isinstance(log, Iterable):
        return _read_several(log, columns, encode)
    raise ModelError(
        f"a log must be a path, a table, a Minari dataset or several of them; got {type(log).__name__}. A table has "
        "columns by name: {'state': […], 'action': […], 'next_state': […], 'damage': […]}."
    )


def _read_several(log: Iterable[Any], columns: Columns, encode: Encode | None) -> Iterator[Piece]:
    for are_episodes, group in itertools.groupby(log, minari.is_episode):
        if are_episodes:
            yield from minari.read_episodes(group, columns, encode)
        else:
            yield from itertools.chain.from_iterable(read_log(part, columns, encode) for part in _each_once(group))


def _each_once(parts: Iterable[Any]) -> Iterator[Any]:
    """The parts of a log; a file that is listed twice is refused, since its samples would be counted twice."""
    files: set[str] = set()
    for part in parts:
        if isinstance(part, (str, PathLike)):
            path = os.path.realpath(os.fspath(part))
            if path in files:
                raise ModelError(f"each file of a log must be named once; got {os.fspath(part)!r} twice. Remove one.")
            files.add(path)
        yield part


def _read_all(pieces: Iterator[Piece], reader: Reader) -> Seen:
    """Check and count all rows of a log."""
    seen, follower = Seen(), Follower(reader.max_damage)
    for piece in pieces:
        if not len(piece.columns["action"]):
            continue  # an empty table, or an empty batch of a file
        rows = typed(piece, reader)
        seen.add(rows, *follower.follow(rows))
    if not seen.rows:
        raise ModelError("a log must hold at least one step; this one is empty")
    return seen


# ---------------------------------------------------------------------- states and actions


class Given(NamedTuple):
    """The arguments about states and actions."""

    num_states: int | None
    actions: Actions | Sequence[str] | None
    initial: Initial | None


class _Numbering(NamedTuple):
    """The numbering of the states or actions in the space."""

    size: int
    names: tuple[str, ...] | None
    order: Ints  # the number in the space, by the number that :class:`Labels` gave


def _counts(seen: Seen, given: Given, reader: Reader) -> Counts:
    states = _states(seen, given, reader)
    actions, of_state = _actions(seen, given, reader)
    if states.size * actions.size > MOST_CHOICES:
        raise LimitReached(
            f"{states.size:,} states and {actions.size:,} actions are too many to count. Number them from 0 on, "
            "without gaps: encode= can do that for states."
        )
    episodes = sum(seen.starts.values())
    starts: Initial = {int(states.order[one]): times / episodes for one, times in sorted(seen.starts.items())}
    by_name = states.names is not None, actions.names is not None and given.actions is None
    if reader.encode is not None:
        by_name = False, by_name[1]  # it returns states as the log has them
    space = Space.from_actions(
        states.size,
        of_state,
        initial=starts if given.initial is None else given.initial,
        state_names=states.names,
        action_names=actions.names,
        end=seen.ends > 0,
        encode=Logged(encode=reader.encode, names_states=by_name[0], names_actions=by_name[1])
        if any(by_name)
        else reader.encode,
    )
    shown = SHOWN if given.num_states is None or given.actions is None else ""
    caveats = (COMPLETE, ENCODED if reader.encode is not None else "", shown)
    counts = Counts(space, max_damage=reader.max_damage, caveat=" ".join(filter(None, caveats)))
    seen.count_into(counts, states.order, actions.order)
    return counts


def _states(seen: Seen, given: Given, reader: Reader) -> _Numbering:
    if reader.states.names is not None:
        if given.num_states is not None:
            raise ArgumentError("num_states is for states that are numbers; those of this log are names. Leave it out.")
        return _sorted(reader.states.names)
    shown = seen.states()
    size = given.num_states or _size("state", "num_states=", shown)
    if given.num_states is None and reader.states.highest < FEW + SPARSEST * shown.size:
        size = max(size, reader.states.highest + 1)  # includes states that were shown when an episode ended
    return _Numbering(size, None, np.arange(int(shown[-1]) + 1))


def _actions(seen: Seen, given: Given, reader: Reader) -> tuple[_Numbering, Actions]:
    listed: Any = given.actions
    names = reader.actions.names
    are_names = isinstance(listed, (list, tuple)) and bool(listed) and all(isinstance(one, str) for one in listed)
    if names is not None and listed is None:
        numbering = _sorted(names)
        return numbering, numbering.size
    if are_names and names is not None:
        missing = [name for name in names if name not in listed]
        if missing:
            raise ModelError(f"actions must name all actions of the log; it shows {missing[0]!r}, too")
        order = np.array([listed.index(name) for name in names])
        return _Numbering(len(listed), tuple(listed), order), len(listed)
    if are_names or names is not None:
        kinds = ("names", "numbers") if are_names else ("numbers", "names")
        raise ArgumentError(f"actions must be {kinds[1]}, as in the log; got {kinds[0]}")
    shown = seen.actions()
    size = _size("action", "actions=", shown) if listed is None else int(shown[-1]) + 1
    return _Numbering(size, None, np.arange(int(shown[-1]) + 1)), size if listed is None else listed


def _sorted(names: Mapping[str, int]) -> _Numbering:
    """Names in alphabetical order, so that the order of the log does not matter."""
    ordered, order = np.unique(np.array([*names], np.object_), return_inverse=True)
    return _Numbering(ordered.size, tuple(ordered.tolist()), order)


def _size(what: str, option: str, shown: Ints) -> int:
    """The number of states or actions if the log shows all of them; refused if the numbers have large gaps."""
    size = int(shown[-1]) + 1
    if size > FEW + SPARSEST * shown.size:
        raise LimitReached(
            f"the log shows {shown.size:,} different {what}s, and one of them has the number {size - 1:,}. Number them "
            f"from 0 on, without gaps, or say how many there are: {option}{size:,}."
        )
    return size
