"""What the kernels of the compiled engine share: arrays that belong together, and a few numbers.

Read ``docs/budget.md`` for the algorithm and its proof; the words in these files are the words there.  The engine runs
in a few steps, each a few short loops over arrays:

``sweep``, ``spread`` (:mod:`~almostsure.budget.compiled.level_zero`)
    level 0 on the whole model.  A state is *doomed* if each of its choices has a damaging outcome or one that
    leads to a doomed state; every other state relies on one good choice and is looked at again only when that
    turns bad.  The rest has k* = 0.
``peel`` (:mod:`~almostsure.budget.compiled.peeling`)
    doomed states whose successors are all settled, in topological order.  Acyclic parts never see a level.
``rule_out`` (:mod:`~almostsure.budget.compiled.peeling`)
    finds, where most states are doomed, those that no budget helps, so that they need not be copied.
``extract`` (:mod:`~almostsure.budget.compiled.compact`)
    copies what is left into a compact game of its own.
``advance`` (:mod:`~almostsure.budget.compiled.higher_levels`)
    runs the levels above 0 on it.  Every state carries a *value*: settled states their k*, suspects of the
    current level ``L`` the tentative value ``L``, all others INFINITE.  An outcome ``(s', d)`` is *bad* at level
    ``L`` exactly if ``value[s'] + d > L``.  Each dead state keeps, for each choice, one bad outcome: its
    *witness*.  The choice is filed under the witness's target.  When a target settles at level ``M``, what is
    filed there with damage ``d`` falls due at level ``M + d``.  A fallen choice looks for another witness; if
    there is none, its state becomes a suspect, and so do, at once, those that relied on its death.  Suspects
    then try to rely on one good choice each; whoever finds none is dead again.  The survivors settle.

A damage-free witness must be of smaller *rank* (step of death) than the state it serves, so that no two states
justify each other.  These ranks are the certificate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.model.mdp import Ints

INFINITE = np.int32(2**31 - 1)
NO_CAP = 2**31 - 2
unsigned = np.uint64  # for indices: Numba then spares the test for negative ones
UNSETTLED = np.int32(-1)
NOWHERE = -1  # end of a list
UNLINKED = -2  # a choice that is filed under no witness
BUCKETS = 256  # damages are below this, so levels that fall due never collide
DAMAGE_BITS, DAMAGE_MASK = 8, 255  # where an outcome of the compact game keeps its damage
MANY = 32  # outcomes of a state
ALIVE, DOOMED, PEELED = 0, 1, 2  # what a state is after level 0 and peeling

FINITE, HOPED, LOST = 0, 2, 3  # bit 0: bad to reach, bit 1: bad to reach with damage
LEVEL, RANKS, SETTLED, EVENT = 0, 1, 2, 3  # what ``tally`` holds
DONE, MORE, TOO_LARGE, WIDEN = 0, 1, 2, 3  # how ``advance`` ends


class Game(NamedTuple):
    """The support of a model, in the narrowest types."""

    choice_ptr: Ints  # [num_states + 1]
    outcome_ptr: Ints  # [num_choices + 1]
    successor: Ints  # [num_outcomes]
    damage: npt.NDArray[np.uint8]  # [num_outcomes]


class Doom(NamedTuple):
    """What level 0 finds out about each state."""

    doomed: npt.NDArray[np.uint8]  # [num_states] ALIVE or DOOMED
    relies: Ints  # [num_states] the good choice that a state relies on while it is alive
    rank: Ints  # [num_states] the step at which it was doomed


class Watch(NamedTuple):
    """Lists of those who rely on a state, and the states whose lists are being walked through."""

    watchers: Ints  # [num_states] first entry of each list
    following: Ints  # [num_outcomes] next entry
    state: Ints  # [num_outcomes] who watches
    choice: Ints  # [num_outcomes] because of which choice
    stack: Ints  # [num_states + 1]


class Small(NamedTuple):
    """The compact game: an outcome is one integer, its damage in the low bits."""

    choice_ptr: Ints  # [states + 1]
    outcome_ptr: Ints  # [choices + 1]
    outcome: npt.NDArray[Any]  # [outcomes]
    reached: Ints  # [choices] how many outcomes of a long choice are good for ever; empty if no choice is long


class Board(NamedTuple):
    """The compact game and what is known about it at the present level."""

    choice_ptr: Ints
    outcome_ptr: Ints
    outcome: npt.NDArray[Any]
    reached: Ints
    value: npt.NDArray[np.int32]  # [states]
    rank: Ints  # [states]
    filed: Ints  # [2 · states] first choices filed under a state: damage-free witnesses, damaging ones
    card: Ints  # [2 · choices] the next choice in the same list, and the state of the choice
    hurt: npt.NDArray[np.uint8]  # [choices] damage of the witness
    due: Ints  # [BUCKETS] first choice that falls at a level


class Scratch(NamedTuple):
    """Memory that every level uses anew."""

    relies: Ints  # [states] the choice that a suspect relies on
    watchers: Ints  # [states] first entry of the list of those who rely on a suspect
    following: Ints  # [room] next entry
    choice: Ints  # [room] the choice that is relied on
    queue: Ints  # [states] suspects
    dead: Ints  # [states] those that died at this level
