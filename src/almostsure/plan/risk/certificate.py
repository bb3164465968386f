"""Files of risk shields, and the check that one is safe: the table of p̄ is its own certificate.

This module reads and verifies; it does not solve, and it shares no sums with the solver or the shield.  Floats are
integers over a power of two, so everything is compared in integers, without rounding:

- p̄(s, K) ≥ Σ p · p̄(s', K − d) for some action, where p̄ = 1 once overspent.  So, by induction over the steps, p̄ is never
  below the least probability of overspending, and an agent that starts with a risk ρ ≥ p̄ can keep it;
- p̄ = 0 exactly where k*(s) ≤ K.  That p̄ > 0 elsewhere follows from the first condition.  That p̄ = 0 there is checked
  by elimination: pairs with p̄ > 0 are unsafe if every action may overspend or lead to an unsafe pair, and in the end
  all of them must be unsafe;
- p̄ at the start is at most the promised risk.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from os import PathLike
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget, check_horizon
from almostsure.budget.certificate import forbidden_values
from almostsure.errors import CertificateError, ModelError
from almostsure.files import load_tensors, must_hold, save_tensors
from almostsure.model.mdp import MDP, Bools, Floats
from almostsure.plan.constraints import check_risk

KIND = "risk shield"


class Promise(NamedTuple):
    """More than ``budget`` damage, within ``horizon`` steps if given, with a probability of at most ``risk``."""

    budget: int
    risk: float
    horizon: int | None
    least: Floats  # p̄: one row for each remaining budget, and for each number of steps left


def write_risks(path: str | PathLike[str], mdp: MDP, promise: Promise) -> None:
    """Write the promise to a file."""
    numbers = {"budget": promise.budget, "risk": promise.risk.hex(), "horizon": promise.horizon}
    strings = {name: "" if value is None else str(value) for name, value in numbers.items()}
    arrays = {"least": np.ascontiguousarray(promise.least)}
    save_tensors(path, kind=KIND, model=mdp.fingerprint, arrays=arrays, strings=strings)


def read_risks(path: str | PathLike[str], mdp: MDP) -> Promise:
    """Read the promise from a file for ``mdp``, without verifying it."""
    arrays, strings = load_tensors(path, kind=KIND, model=mdp.fingerprint)
    with must_hold(path, f"a {KIND} of its model"):
        budget, risk = check_budget(int(strings["budget"])), check_risk(float.fromhex(strings["risk"]))
        horizon = check_horizon(int(strings["horizon"]), least=0) if strings["horizon"] else None
        return Promise(budget, risk, horizon, arrays["least"])


def _check_table(mdp: MDP, promise: Promise) -> None:
    """Raise unless the table has the model's shape, holds probabilities, and is 1 in forbidden states."""
    rows = (promise.budget + 1) * (1 if promise.horizon is None else promise.horizon + 1)
    least = promise.least
    if least.shape != (rows, mdp.num_states) or least.dtype != np.float64:
        raise CertificateError(f"risks must be {rows} rows of {mdp.num_states} numbers; got {least.shape}")
    if not ((least >= 0) & (least <= 1)).all():
        raise CertificateError("risks must be probabilities, 0 … 1")
    if promise.horizon is not None and (least[: promise.budget + 1, forbidden_values(mdp) > 0] < 1).any():
        raise CertificateError("forbidden states must have a risk of 1")


def check_risks(mdp: MDP, promise: Promise) -> None:
    """Verify all conditions of the module's docstring."""
    _check_table(mdp, promise)
    _check_zeros(mdp, promise)
    _check_sums(mdp, promise)
    whole, one = _whole(np.append(promise.least[-1, mdp.initial_states], promise.risk))
    shares, _ = _whole(mdp.initial_probabilities)
    if (shares * whole[:-1]).sum() > shares.sum() * whole[-1]:
        needed = float(Fraction((shares * whole[:-1]).sum(), shares.sum() * one))
        raise CertificateError(f"at the start the risk is {needed!r}, more than the {promise.risk:g} promised")


def _check_sums(mdp: MDP, promise: Promise) -> None:
    """Raise unless p̄ is at least Σ p · p̄' of some action, in every row of the table."""
    rows = promise.budget + 1
    values, one = _whole(promise.least)
    shares, _ = _whole(mdp.probability)
    outcomes, choices = mdp.outcome_ptr[:-1].astype(np.int64), mdp.choice_ptr[:-1].astype(np.int64)
    total, owner = np.add.reduceat(shares, outcomes), mdp.choice_states()
    for row in range(0 if promise.horizon is None else rows, len(values)):
        ahead = 0 if promise.horizon is None else row - row % rows - rows  # where the rows with one step less begin
        left = row % rows - mdp.damage.astype(np.int64)
        after = np.where(left < 0, one, values[ahead + np.maximum(left, 0), mdp.successor])
        enough = np.add.reduceat(shares * after, outcomes) <= values[row][owner] * total
        short = np.flatnonzero(~np.logical_or.reduceat(enough.astype(np.bool_), choices))
        if short.size:
            raise CertificateError(
                f"the risk of {mdp.describe_state(int(short[0]))} with {row % rows} left is too small: that of every "
                f"action is above {float(promise.least[row, short[0]])!r}"
            )


def _check_zeros(mdp: MDP, promise: Promise) -> None:
    """Raise unless p̄ is 0 wherever the remaining budget suffices almost surely."""
    rows = promise.budget + 1
    blocks = promise.least.reshape(-1, rows, mdp.num_states) > 0
    if promise.horizon is None:
        unsafe = np.zeros_like(blocks[0])
        while (found := _lost(mdp, unsafe, blocks[0] & ~unsafe)).any():
            unsafe |= found
        _none_left(mdp, blocks[0] & ~unsafe)
        return
    _none_left(mdp, blocks[0] & (forbidden_values(mdp) == 0))
    for before, now in pairwise(blocks):
        _none_left(mdp, now & ~_lost(mdp, before, now))


def _lost(mdp: MDP, unsafe: Bools, asked: Bools) -> Bools:
    """The pairs among ``asked`` in which every action may overspend or lead to an unsafe pair; a mask."""
    outcomes, choices = mdp.outcome_ptr[:-1].astype(np.int64), mdp.choice_ptr[:-1].astype(np.int64)
    result = np.zeros_like(asked)
    for row in np.flatnonzero(asked.any(axis=1)).tolist():
        left = row - mdp.damage.astype(np.int64)
        bad = (left < 0) | unsafe[np.maximum(left, 0), mdp.successor]
        result[row] = np.logical_and.reduceat(np.logical_or.reduceat(bad, outcomes), choices)
    return result & asked


def _none_left(mdp: MDP, safe: Bools) -> None:
    """Raise if there is a safe pair with a positive risk: these are given as a mask."""
    if safe.any():
        left, state = (int(x[0]) for x in np.nonzero(safe))
        raise CertificateError(f"the risk of {mdp.describe_state(state)} must be 0: {left} left suffices there")


def _whole(numbers: Floats) -> tuple[npt.NDArray[np.object_], int]:
    """Floats as exact integers over a common power of two, and this power."""
    found, place = np.unique(numbers, return_inverse=True)
    ratios = [number.as_integer_ratio() for number in found.tolist()]
    one = max(below for _, below in ratios)
    whole = np.array([above * (one // below) for above, below in ratios], dtype=np.object_)
    return whole[place].reshape(numbers.shape), one


def risk_at_start(mdp: MDP, least: Floats) -> float:
    """The least risk of a run, rounded up: the mean of p̄ over the initial distribution."""
    states, found = mdp.initial_states, least[-1, mdp.initial_states]  # the last row has all steps and all the budget
    if states.size == 1:
        return float(found[0])
    return min(math.fsum(mdp.initial_probabilities * found) * (1 + (states.size + 4) * math.ulp(1.0)), 1.0)


def known_probabilities(mdp: MDP) -> MDP:
    """The model itself; raises if its probabilities are not known."""
    mdp.require_probabilities("RiskShield")
    if mdp.unknown is not None or mdp.origin.counted:
        raise ModelError(
            "a RiskShield needs the model's probabilities, and this model was learned: the possible outcomes are known "
            "with the stated confidence, but their probabilities are not. Use Shield, or a model with known "
            "probabilities."
        )
    return mdp
