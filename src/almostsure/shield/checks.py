"""What a shield asks of its numbers and of the budget that it is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more
from almostsure.budget.answer import INFINITE
from almostsure.budget.certificate import show
from almostsure.budget.result import MinimalBudget, known_budget
from almostsure.errors import CertificateError, Infeasible
from almostsure.model.mdp import MDP

CHUNK = 1 << 16  # choices looked at together

# ---------------------------------------------------------------------- budgets


def check_never_too_small(minimal: MinimalBudget) -> None:
    """Refuse a budget that is too small anywhere: it would let damage through.

    This is the half of the certificate that safety rests on: where every choice claims at least d + v(s') for
    each of its outcomes, the claims are at least k*.  Budgets whose whole certificate was verified are trusted.
    """
    if minimal.checked:
        return
    mdp = minimal.mdp
    least = np.minimum.reduceat(minimal.of_choice, mdp.choice_ptr[:-1])
    wrong = np.flatnonzero((least != minimal.of_state) | (least < 0))
    if wrong.size:
        s = int(wrong[0])
        raise CertificateError(
            f"the budget of {mdp.describe_state(s)} must be the least of its choices' budgets, and 0 or more; "
            f"got {show(minimal.of_state[s])}, and {show(least[s])} for the "
            f"choices{and_more(wrong.size - 1, 'state')}.",
            state=s,
        )
    for first in range(0, mdp.num_choices, CHUNK):
        _check_chunk(mdp, minimal, first, min(first + CHUNK, mdp.num_choices))


def _check_chunk(mdp: MDP, minimal: MinimalBudget, first: int, last: int) -> None:
    begin, end = int(mdp.outcome_ptr[first]), int(mdp.outcome_ptr[last])
    cost = minimal.of_state[mdp.successor[begin:end]].astype(np.int64) + mdp.damage[begin:end]
    worst = np.maximum.reduceat(cost, mdp.outcome_ptr[first:last].astype(np.int64) - begin)
    small = minimal.of_choice[first:last] < np.minimum(worst, INFINITE)
    if minimal.cap is not None:  # what exceeds the cap must read INFINITE
        small |= (worst > minimal.cap) & (minimal.of_choice[first:last] < INFINITE)
    if small.any():
        at = int(np.argmax(small))
        raise CertificateError(
            f"the budget of {mdp.describe_choice(first + at)} is too small for a shield: it claims "
            f"{show(minimal.of_choice[first + at])}, but an outcome costs {show(min(int(worst[at]), INFINITE))}. "
            "Solve again with minimal_budget(mdp).",
            choice=first + at,
        )


def require_budget(minimal: MinimalBudget, budget: object) -> int:
    """``budget`` as an int that the budget knows about and that every initial state can do with."""
    number = known_budget(minimal, budget)
    require_start(minimal, number)
    return number


def require_start(minimal: MinimalBudget, budget: int) -> None:
    """Raise Infeasible if some initial state needs more than ``budget``."""
    mdp = minimal.mdp
    needs: npt.NDArray[Any] = minimal.of_state[mdp.initial_states]
    needed = int(needs.max())
    if needed <= budget:
        return
    where = mdp.describe_state(int(mdp.initial_states[int(np.argmax(needs))]))
    if needed < INFINITE:
        raise Infeasible(f"a budget of {budget} is not enough at the start: {where} needs {needed}.", needed=needed)
    if minimal.cap is not None:
        raise Infeasible(
            f"a budget of {budget} is not enough at the start: {where} needs more than the cap {minimal.cap}."
        )
    raise Infeasible(f"no budget is enough at the start: {where} needs ∞.", needed=float("inf"))
