"""What a shield asks of its numbers and of the budget that it is made of."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.budget.answer import INFINITE
from almostsure.budget.certificate import show
from almostsure.budget.result import Budget, known_total
from almostsure.errors import ArgumentError, CertificateError, Infeasible, ModelMismatch
from almostsure.model.mdp import MDP, Ints
from almostsure.model.numbers import whole as whole
from almostsure.model.source import Model, as_model
from almostsure.model.validate import and_more

CHUNK = 1 << 16  # choices looked at together

# ---------------------------------------------------------------------- numbers


def whole_array(name: str, values: npt.ArrayLike) -> Ints:
    """``values`` as an array of integers, if they are whole numbers."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:  # nested sequences of different lengths, for example
        raise ArgumentError(f"{name} must be whole numbers; {error}") from None
    if array.dtype.kind in "iu":
        return array
    if array.size == 0 and array.dtype.kind == "f":
        return array.astype(np.int64)  # an empty list
    if array.dtype.kind != "f":
        raise ArgumentError(f"{name} must be whole numbers; got {array.dtype}")
    good = (np.abs(array) < 2**53) & (array == np.floor(array))  # NaN and ∞ are not
    if not good.all():
        at = int(np.argmin(good))
        more = and_more(int(good.size - np.count_nonzero(good)) - 1, "entry")
        raise ArgumentError(f"{name} must be whole numbers; got {array.ravel()[at]} at entry {at}{more}.")
    return array.astype(np.int64)


# ---------------------------------------------------------------------- budgets


def check_model(model: Model, budget: Budget) -> MDP:
    """The model; raise ModelMismatch unless ``budget`` was made for it."""
    if not isinstance(model, (MDP, str, PathLike)) or not isinstance(budget, Budget):
        raise ArgumentError(
            f"a model and its budget must be given; got {type(model).__name__}, {type(budget).__name__}"
        )
    mdp = as_model(model)
    if budget.mdp is not mdp and budget.mdp != mdp:
        raise ModelMismatch(
            f"the budget belongs to another model ({budget.mdp.fingerprint[:16]}, {budget.mdp.num_states} states) "
            f"than the one given ({mdp.fingerprint[:16]}, {mdp.num_states} states). Solve again with solve_budget(mdp)."
        )
    return mdp


def check_never_too_small(mdp: MDP, budget: Budget) -> None:
    """Refuse a budget that is too small anywhere: it would let damage through.

    This is the half of the certificate that safety rests on: where every choice claims at least d + v(s') for
    each of its outcomes, the claims are at least k*.  Budgets whose whole certificate was verified are trusted.
    """
    if budget.checked:
        return
    least = np.minimum.reduceat(budget.of_choice, mdp.choice_ptr[:-1])
    wrong = np.flatnonzero((least != budget.of_state) | (least < 0))
    if wrong.size:
        s = int(wrong[0])
        raise CertificateError(
            f"the budget of {mdp.describe_state(s)} must be the least of its choices' budgets, and 0 or more; "
            f"got {show(budget.of_state[s])}, and {show(least[s])} for the choices{and_more(wrong.size - 1, 'state')}.",
            state=s,
        )
    for first in range(0, mdp.num_choices, CHUNK):
        _check_chunk(mdp, budget, first, min(first + CHUNK, mdp.num_choices))


def _check_chunk(mdp: MDP, budget: Budget, first: int, last: int) -> None:
    begin, end = int(mdp.outcome_ptr[first]), int(mdp.outcome_ptr[last])
    cost = budget.of_state[mdp.successor[begin:end]].astype(np.int64) + mdp.damage[begin:end]
    worst = np.maximum.reduceat(cost, mdp.outcome_ptr[first:last].astype(np.int64) - begin)
    small = budget.of_choice[first:last] < np.minimum(worst, INFINITE)
    if budget.cap is not None:  # what exceeds the cap must read INFINITE
        small |= (worst > budget.cap) & (budget.of_choice[first:last] < INFINITE)
    if small.any():
        at = int(np.argmax(small))
        raise CertificateError(
            f"the budget of {mdp.describe_choice(first + at)} is too small for a shield: it claims "
            f"{show(budget.of_choice[first + at])}, but an outcome costs {show(min(int(worst[at]), INFINITE))}. "
            "Solve again with solve_budget(mdp).",
            choice=first + at,
        )


def require_total(mdp: MDP, budget: Budget, total: object) -> int:
    """``total`` as an int that the budget knows about and that every initial state can do with."""
    number = known_total(budget, total)
    require_start(mdp, budget, number)
    return number


def require_start(mdp: MDP, budget: Budget, total: int) -> None:
    """Raise Infeasible if some initial state needs more than ``total``."""
    needs: npt.NDArray[Any] = budget.of_state[mdp.initial_states]
    needed = int(needs.max())
    if needed <= total:
        return
    where = mdp.describe_state(int(mdp.initial_states[int(np.argmax(needs))]))
    if needed < INFINITE:
        raise Infeasible(f"a total of {total} is not enough at the start: {where} needs {needed}.", needed=needed)
    if budget.cap is not None:
        raise Infeasible(
            f"a total of {total} is not enough at the start: {where} needs more than the cap {budget.cap}."
        )
    raise Infeasible(f"no total is enough at the start: {where} needs ∞.", needed=float("inf"))
