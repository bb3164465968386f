"""``learn_from_logs``: the budgets of a world that only left a log.

A log says what came of the choices that somebody made.  Nobody can ask it for more, so most choices stay *unknown*:
they were never made, or not often enough to be sure that all of their outcomes were seen.  The shield refuses them.

**What is promised.**  Suppose that

1. no outcome is rarer than μ;
2. what happens depends on state and action alone (the log is one of a Markov decision process);
3. the log is complete: no step is missing *because of what came of it*.  A log from which crashes were removed says
   that nobody crashes.

A choice with j different outcomes (s', d) in the log is *known* once it was made N_j times, with (j + 1)(1 − μ)^{N_j}
≤ ε/(1 + ε) and ε = δ / |choices|: the rule *by count* of :mod:`almostsure.learn.evidence`.  Then with probability at
least 1 − δ all known choices are complete; so the budgets k' of the model in which everything else is refused (∞) are
nowhere below k* (proof in :mod:`almostsure.learn.minimal`), and a shield made of k' **never overspends**.  Where every
choice is known, k' = k*.

It does not matter how the actions were chosen, by whom, or whether with an eye on what had happened before: imagine
for each choice a list of outcomes drawn beforehand, from which the world reads on whenever the choice is made.  A
choice that is known although it has an unseen outcome had not seen it in the first N_j entries of its list, and
*that* has a probability which no policy can change.  Nor does the order of episodes in the log matter, since the rule
looks at nothing but counts.  (The rule *by silence* of ``learn_minimal_budget`` would need fewer steps, but is only
right if steps stand in the order in which they were made, by all agents together.  A log cannot be asked.)

The number of choices must not depend on the log either.  Where ``num_states`` and ``actions`` are not given, they are
read off the log, and the statement says that the log was taken to show them all.

``unknown="allow"`` promises nothing: its k is that of what was seen, hence k ≤ k*.  What it refuses is unsafe for
certain.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.budget.solve import minimal_budget
from almostsure.errors import FileError, ModelError
from almostsure.learn.bounds import count, unit
from almostsure.learn.evidence import Evidence
from almostsure.learn.kernel import Kernel, Unknown, check_unknown, kernel_of
from almostsure.learn.logs import minari
from almostsure.learn.logs.columns import Encode, Piece, typed
from almostsure.learn.logs.follow import Follower
from almostsure.learn.logs.parquet import read_parquet
from almostsure.learn.logs.seen import Seen
from almostsure.learn.logs.tables import Columns, is_table, read_csv, read_table
from almostsure.learn.minimal import LearnedBudget, uniform_samples
from almostsure.learn.sampler import Source, blank_of
from almostsure.learn.simulators import Actions, action_row
from almostsure.model.mdp import Bools, Initial, Ints
from almostsure.model.validate import MAX_DAMAGE

COMPLETE = "This takes the log for complete, and what happens to depend on state and action alone."
ENCODED = "It is about the abstraction that encode makes: real states that share a number may differ."
SHOWN = "The states and actions that the log shows are taken for all that there are."


def learn_from_logs(
    log: Any,
    *,
    mu: float,
    delta: float,
    unknown: Unknown = "refuse",
    num_states: int | None = None,
    actions: Actions | None = None,
    initial: Initial | None = None,
    max_damage: int = MAX_DAMAGE,
    columns: Mapping[str, str] | None = None,
    encode: Encode | None = None,
) -> LearnedBudget:
    """Learn budgets, and a shield, from a log of what was done.

    Parameters
    ----------
    log
        - the path of a ``.csv`` or ``.parquet`` file, which is read piece by piece;
        - a table: a mapping from names to arrays, a data frame, an Arrow table or a structured array;
        - a trajectory: a mapping as above, with one state more than actions and no next states;
        - a Minari dataset, or episodes of one;
        - several of these, one after another: a list or a generator.

        A table has the columns ``state``, ``action``, ``next_state``, ``damage`` (or ``cumulative_damage``), and
        where there are such ``reward``, ``terminated``, ``truncated``, ``episode`` and ``step``; the short names
        ``s``, ``a``, ``s'``, ``r``, ``d`` and ``cost`` are understood.  Rows must stand in order, episode by episode.
        Without ``episode``, episodes end where ``terminated`` or ``truncated`` says so.
    mu
        No outcome is rarer than this, in (0, 1).  A log that proves it too large is refused.
    delta
        The probability of failure that is acceptable, in (0, 1).
    unknown
        What becomes of choices that were not made often enough: ``"refuse"`` them, or ``"allow"`` them until they
        are seen to be unsafe.
    num_states, actions
        Which states and actions there are: states are 0 … num_states − 1, and ``actions`` is how many every state has,
        or the ids for each state, as a list of lists or as a function of the state.  By default what a dataset's
        spaces say, or what the log shows.
    initial
        The initial state, or a mapping from states to probabilities.  By default where the log's episodes began, as
        often as they did.
    max_damage
        The largest damage of one step.
    columns
        What the log calls its columns, by our names, where it has names of its own: ``{"damage": "cost"}``.  For a
        Minari dataset, the key under which its infos hold the damage; ``"outer/inner"`` for a nested one.
    encode
        ``encode(observation) -> int`` for states that are not numbers.

    Returns
    -------
    LearnedBudget
        ``.budget``, ``.shield``, ``.statement`` in plain words, and ``.kernel`` with the counts.  Steps flagged
        ``terminated`` lead to an extra state after all others, in which nothing happens any more; what is refused
        leads to another one after that, which hurts for ever.

    Raises
    ------
    ModelError
        The log contradicts itself or lacks something; the message says where.
    UnknownName
        The log has no such column or key; the message names the nearest.
    FileError
        A file cannot be read; ``CorruptFile`` if it is damaged or truncated.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.learn import learn_from_logs
    >>> log = {"s": [0, 0, 0] * 40, "a": [0, 0, 1] * 40, "s'": [0, 0, 1] * 40, "d": [1, 0, 0] * 40,
    ...        "terminated": [False, False, True] * 40}
    >>> learned = learn_from_logs(log, mu=0.2, delta=0.05, num_states=2, actions=2)
    >>> print(learned)
    If no outcome is rarer than 20 %, this budget is nowhere below k*: its shield never overspends, with probability
    at least 0.95. This takes the log for complete, and what happens to depend on state and action alone.
      120 samples, 41% of the 290 that Lemma 4 takes
      3 of 5 choices are known; the other 2 are refused
    >>> learned.shield.allowed(0, 0), learned.shield.allowed(0, 1)
    (array([1]), array([0, 1]))
    """
    mu, delta = unit("mu", mu), unit("delta", delta)
    check_unknown(unknown)
    if num_states is None and encode is None:
        num_states = minari.space_size(log, "observation_space")
    if actions is None:
        actions = minari.space_size(log, "action_space")
    number = None if num_states is None else count("num_states", num_states)
    seen = _count(read_log(log, columns, encode), number, _damage_limit(max_damage), encode)
    source = _source(seen, number, actions, initial, max_damage, is_encoded=encode is not None)
    kernel = kernel_of(source, seen.tally(source.blank, source.end), None)
    known = known_choices(kernel, mu, delta)
    mdp = kernel.to_mdp(unknown, known=known if unknown == "refuse" else None)
    return LearnedBudget(
        minimal=minimal_budget(mdp), kernel=kernel, accepted=known, mu=mu, delta=delta, budget=None,
        uniform_samples=uniform_samples(source, mu, delta), unknown=unknown,
    )  # fmt: skip


def known_choices(kernel: Kernel, mu: float, delta: float) -> Bools:
    """Which choices were made so often that all of their outcomes were seen, by count, [num_choices]."""
    is_end = kernel.blank.successor == (-1 if kernel.end is None else kernel.end)
    choices, pairs = int(np.count_nonzero(~is_end)), kernel.blank.num_states * kernel.num_damages
    evidence = Evidence(mu, delta, choices, pairs, count_share=1.0)
    levels = np.bincount(kernel.choice, minlength=kernel.samples.size)
    return np.asarray(evidence.accepted_by_count(levels, kernel.samples) | is_end)


# ---------------------------------------------------------------------- reading


def read_log(log: Any, columns: Columns, encode: Encode | None) -> Iterator[Piece]:
    """The pieces of a log of any kind."""
    if isinstance(log, (str, PathLike)):
        return _read_file(os.fspath(log), columns)
    if minari.is_dataset(log):
        return minari.read_episodes(log.iterate_episodes(), columns, encode)
    if minari.is_episode(log):
        return minari.read_episodes([log], columns, encode)
    if is_table(log):
        return read_table(log, columns)
    if isinstance(log, Iterable):
        return _read_several(log, columns, encode)
    raise ModelError(f"a log must be a path, a table, a Minari dataset or several of them; got {type(log).__name__}")


def _read_several(log: Iterable[Any], columns: Columns, encode: Encode | None) -> Iterator[Piece]:
    for are_episodes, group in itertools.groupby(log, minari.is_episode):
        if are_episodes:
            yield from minari.read_episodes(group, columns, encode)
        else:
            yield from itertools.chain.from_iterable(read_log(part, columns, encode) for part in group)


def _read_file(path: str, columns: Columns) -> Iterator[Piece]:
    ending = os.path.splitext(path)[1].lower()
    if ending == ".csv":
        return read_csv(path, columns)
    if ending in (".parquet", ".pq"):
        return read_parquet(path, columns)
    raise FileError(f"{path!r} must end in .csv, .parquet or .pq. Load a Minari dataset with minari.load_dataset.")


def _count(pieces: Iterator[Piece], num_states: int | None, max_damage: int, encode: Encode | None) -> Seen:
    seen, follower = Seen(), Follower(max_damage)
    for piece in pieces:
        if not len(piece.columns["action"]):
            continue  # an empty table, or an empty batch of a file
        rows = typed(piece, encode, max_damage)
        if num_states is not None:
            _check_range("state", rows.state, num_states, piece)
            _check_range("next_state", rows.next_state, num_states, piece)
        seen.add(follower.follow(rows))
    if not seen.rows:
        raise ModelError("a log must hold at least one step; this one is empty")
    return seen


def _check_range(name: str, values: Ints, size: int, piece: Piece) -> None:
    if values.max() >= size:
        at = int(np.argmax(values >= size))
        raise ModelError(f"{name} must lie in 0 … {size - 1}; got {values[at]} at {piece.place(at)}")


def _damage_limit(max_damage: int) -> int:
    if count("max_damage", max_damage, least=0) > MAX_DAMAGE:
        raise ModelError(f"max_damage must be an integer 0 … {MAX_DAMAGE}; got {max_damage!r}")
    return int(max_damage)


# ---------------------------------------------------------------------- the space


class _Space:
    """The states and actions of a log, for :func:`blank_of`."""

    def __init__(self, num_states: int, actions: Actions, end: int | None, initial: Initial) -> None:
        self.num_states, self.initial = num_states + (end is not None), initial
        self._actions, self._end = actions, end

    def actions(self, state: int) -> npt.ArrayLike:
        return [0] if state == self._end else action_row(self._actions, state)


def _source(
    seen: Seen, num_states: int | None, actions: Actions | None, initial: Initial | None, max_damage: int,
    *, is_encoded: bool,
) -> Source:  # fmt: skip
    shown = SHOWN if num_states is None or actions is None else ""
    states = seen.num_states if num_states is None else num_states
    actions = seen.num_actions if actions is None else actions
    end = states if seen.ends else None
    episodes = sum(seen.starts.values())
    start: Initial = {state: times / episodes for state, times in sorted(seen.starts.items())}
    blank = blank_of(_Space(states, actions, end, start if initial is None else initial))
    caveats = (COMPLETE, ENCODED if is_encoded else "", shown)
    return Source(
        sampler=None, blank=blank, model=None, max_damage=max_damage, identity="log",
        caveat=" ".join(filter(None, caveats)), end=end,
    )  # fmt: skip
