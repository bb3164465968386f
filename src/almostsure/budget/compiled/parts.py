"""The arrays and constants that the kernels of the compiled engine share, and an overview of the algorithm.

``docs/budget.md`` has the algorithm and its proof; these files use the same terms.  The engine runs in a few steps,
each with a few short loops over arrays:

``sweep``, ``spread`` (:mod:`~almostsure.budget.compiled.level_zero`)
    Level 0 on the whole model.  A state is *doomed* if each of its choices has a damaging outcome or one that leads to
    a doomed state.  Every other state relies on one good choice, and is only examined again when that turns bad.  The
    states that are not doomed have k* = 0.
``peel`` (:mod:`~almostsure.budget.compiled.peeling`)
    Settles doomed states whose successors are all settled, in topological order.  Acyclic parts need no levels.
``sweep`` again, in rounds
    If most states are doomed, finds those with k* = ∞, so that they need not be copied.  A damaging outcome is then
    good if it leads to a state that is known to be finite.
``extract`` (:mod:`~almostsure.budget.compiled.compact`)
    Copies the remaining states into a compact game.
``advance`` (:mod:`~almostsure.budget.compiled.higher_levels`)
    Runs the levels above 0 on the compact game.  Every state has a *value*: settled states their k*, suspects of the
    current level ``L`` the tentative value ``L``, all others INFINITE.  An outcome ``(s', d)`` is *bad* at level ``L``
    exactly if ``value[s'] + d > L``.  For each choice of a dead state one bad outcome is stored, its *witness*, and the
    choice is filed under the witness's target.  When a target is settled at level ``M``, the choices filed there with
    damage ``d`` fall due at level ``M + d``.  A choice that falls due looks for another witness.  If there is none, its
    state becomes a suspect, and so do, at the same level, the states that relied on its being dead.  Each suspect then
    looks for a good choice to rely on.  Those that find none are dead again, and the others are settled.

A damage-free witness must have a smaller *rank* (step of death) than the state that it serves, so that no two states
justify each other.  These ranks are the certificate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.model.mdp import Ints

INFINITE = np.int32(2**31 - 1)
NO_CAP = 2**31 - 2
unsigned = np.uint64  # for indices: Numba then omits the test for negative ones
UNSETTLED = np.int32(-1)
NOWHERE = -1  # the end of a list
UNLINKED = -2  # a choice that is not filed under a witness
BUCKETS = 256  # damages are smaller, so levels that fall due never collide
DAMAGE_BITS, DAMAGE_MASK = 8, 255  # the bits of an outcome of the compact game that hold its damage
MANY = 32  # with more outcomes, a search goes on where it stopped last
ALIVE, DOOMED, PEELED = 0, 1, 2  # the kinds of states after level 0 and peeling

FINITE, HOPED, LOST = 0, 2, 3  # the kinds of states in sweeps: bad to reach if odd; bad to reach with damage if not 0
LEVEL, RANKS, SETTLED, EVENT = 0, 1, 2, 3  # the entries of ``tally``
DONE, MORE, TOO_LARGE, WIDEN = 0, 1, 2, 3  # what ``advance`` returns


class NarrowSupport(NamedTuple):
    """The support of a model, in the narrowest types."""

    choice_ptr: Ints  # [num_states + 1]
    outcome_ptr: Ints  # [num_choices + 1]
    successor: Ints  # [num_outcomes]
    damage: npt.NDArray[np.uint8]  # [num_outcomes]


class Hope(NamedTuple):
    """What sweeps know of each state."""

    kind: npt.NDArray[np.uint8]  # [num_states], FINITE, HOPED or LOST
    relies: Ints  # [num_states], the good choice that a hoped state relies on
    rank: Ints  # [num_states], the step at which it was lost


class Watch(NamedTuple):
    """Linked lists of the states that rely on each state, and a stack of lists that are being traversed."""

    watchers: Ints  # [num_states], the first entry of each list
    following: Ints  # [num_outcomes], the next entry
    state: Ints  # [num_outcomes], the state that watches
    choice: Ints  # [num_outcomes], the choice that it relies on
    stack: Ints  # [num_states + 1]


class Small(NamedTuple):
    """The compact game: an outcome is one integer, with its damage in the low bits."""

    choice_ptr: Ints  # [states + 1]
    outcome_ptr: Ints  # [choices + 1]
    outcome: npt.NDArray[Any]  # [outcomes]
    reached: Ints  # [choices], outcomes of a long choice before this one stay good


class Board(NamedTuple):
    """The compact game, and the state of the solution at the current level."""

    choice_ptr: Ints
    outcome_ptr: Ints
    outcome: npt.NDArray[Any]
    reached: Ints
    value: npt.NDArray[np.int32]  # [states]
    rank: Ints  # [states]
    filed: Ints  # [2 · states], the first choices filed under a state: with damage-free witnesses, with damaging ones
    card: Ints  # [2 · choices], the next choice in the same list, and the state of the choice
    harm: npt.NDArray[np.uint8]  # [choices], the damage of the witness
    due: Ints  # [BUCKETS], the first choice that falls due at a level


class Scratch(NamedTuple):
    """Work arrays that every level overwrites."""

    relies: Ints  # [states], the choice that a suspect relies on
    watchers: Ints  # [states], the first entry of the list of choices that rely on a suspect
    following: Ints  # [room], the next entry
    choice: Ints  # [room], the choice that relies on it
    queue: Ints  # [states], the suspects
    dead: Ints  # [states], the states that died at this level
