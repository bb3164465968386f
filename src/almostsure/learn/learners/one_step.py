"""The one-step mask, a baseline without a shield, for tabular and deep learners.

An action is allowed if its worst damage in the next step does not exceed the remaining budget; if no action is, those
with the least worst damage are.  It looks one step ahead, and fails where damage can be forced later.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.budget.minimal import INFINITE
from almostsure.memory import require
from almostsure.model.arrays import Bools, Ints
from almostsure.model.mdp import MDP
from almostsure.model.space import Space


def next_damages(mdp: MDP) -> Ints:
    """The worst damage of each choice in the next step, [num_choices]."""
    worst: Ints = np.maximum.reduceat(mdp.damage, mdp.outcome_ptr[:-1].astype(np.int64)).astype(np.int64)
    return worst


def allowed_by(needs: npt.NDArray[Any], budget: int) -> Bools:
    """The choices that need at most what is left, for 0 … budget left; none if overspent: [budget + 2, num_choices]."""
    entries = (budget + 2) * needs.size
    require(3 * entries, f"a learner's table of what is allowed ({entries:,} entries)", "Train with a smaller budget.")
    remaining = np.append(np.arange(budget + 1), -1)
    allowed: Bools = (needs[None, :] <= remaining[:, None]) & (needs < INFINITE)
    return allowed


def with_fallback(space: Space, needs: npt.NDArray[Any], allowed: Bools) -> Bools:
    """The table [layers, num_choices], plus the choices that need least in states without an allowed choice."""
    starts, owner = space.choice_ptr[:-1].astype(np.int64), space.choice_states()
    least = needs == np.minimum.reduceat(needs, starts)[owner]
    none = ~np.logical_or.reduceat(allowed, starts, axis=1)[:, owner]
    completed: Bools = allowed | (none & least)
    return completed


def one_step_mask(mdp: MDP, budget: int) -> Bools:
    """The one-step mask, [budget + 2, num_choices]; the last layer is for overspent budgets."""
    needs = next_damages(mdp)
    return with_fallback(mdp, needs, allowed_by(needs, budget))
