"""What the baselines without a shield are: one definition each, which tabular and deep learners share.

*One-step mask*: an action is allowed if its worst next damage does not exceed what remains; where no action is, those
with the least worst damage are.  That is what people do who look one step ahead: it fails where damage can be forced
later.

*Sauté* (Sootla et al., 2022): a step that leaves one overspent, and every step after it, is paid −penalty in place of
its reward.
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
    """The worst damage of each choice's very next step, [num_choices]."""
    worst: Ints = np.maximum.reduceat(mdp.damage, mdp.outcome_ptr[:-1].astype(np.int64)).astype(np.int64)
    return worst


def allowed_by(needs: npt.NDArray[Any], budget: int) -> Bools:
    """Which choices may be made with 0 … budget left, and none once overspent: [budget + 2, num_choices]."""
    entries = (budget + 2) * needs.size
    require(3 * entries, f"a learner's table of what is allowed ({entries:,} entries)", "Train with a smaller budget.")
    remaining = np.append(np.arange(budget + 1), -1)
    allowed: Bools = (needs[None, :] <= remaining[:, None]) & (needs < INFINITE)
    return allowed


def with_fallback(space: Space, needs: npt.NDArray[Any], allowed: Bools) -> Bools:
    """The same table [layers, num_choices], with the choices that need least wherever a state has none."""
    starts, owner = space.choice_ptr[:-1].astype(np.int64), space.choice_states()
    least = needs == np.minimum.reduceat(needs, starts)[owner]
    none = ~np.logical_or.reduceat(allowed, starts, axis=1)[:, owner]
    completed: Bools = allowed | (none & least)
    return completed


def one_step_mask(mdp: MDP, budget: int) -> Bools:
    """The one-step mask, [budget + 2, num_choices]; the last layer is that of the overspent."""
    needs = next_damages(mdp)
    return with_fallback(mdp, needs, allowed_by(needs, budget))


def saute_penalty(least: float, most: float) -> float:
    """The default penalty, for rewards between ``least`` and ``most``.

    No reward makes up for it, and to stay overspent in order to avoid what steps cost does not pay.
    """
    return max(most - least, -2 * least) or 1.0
