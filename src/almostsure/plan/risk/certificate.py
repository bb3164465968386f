"""Files of risk shields, and what makes one safe: the table of p̄ is its own certificate.

This module reads and verifies; it does not solve.
"""

from __future__ import annotations

import math
from os import PathLike
from typing import NamedTuple

import numpy as np

from almostsure.arguments import check_budget, check_real
from almostsure.budget.horizon import check_steps, first_values
from almostsure.errors import ArgumentError, CertificateError, CorruptFile, ModelError
from almostsure.files import load_tensors, save_tensors
from almostsure.model.mdp import MDP, Floats
from almostsure.plan.risk.sums import EPSILON, risks_of, risks_within, sums_of

KIND = "risk shield"


class Promise(NamedTuple):
    """More than ``budget`` damage, within ``horizon`` steps if given, with a probability of at most ``risk``."""

    budget: int
    risk: float
    horizon: int | None
    least: Floats  # p̄: one row for each remaining budget, and for each number of steps left


def write_risks(path: str | PathLike[str], mdp: MDP, promise: Promise) -> None:
    """Write a file that holds the promise."""
    numbers = {"budget": promise.budget, "risk": promise.risk.hex(), "horizon": promise.horizon}
    strings = {name: "" if value is None else str(value) for name, value in numbers.items()}
    arrays = {"least": np.ascontiguousarray(promise.least)}
    save_tensors(path, kind=KIND, model=mdp.fingerprint, arrays=arrays, strings=strings)


def read_risks(path: str | PathLike[str], mdp: MDP) -> Promise:
    """The promise in a file that belongs to ``mdp``; nothing is verified yet."""
    arrays, strings = load_tensors(path, kind=KIND, model=mdp.fingerprint)
    try:
        budget, risk = check_budget(int(strings["budget"])), check_risk(float.fromhex(strings["risk"]))
        horizon = check_steps("horizon", int(strings["horizon"])) if strings["horizon"] else None
        return Promise(budget, risk, horizon, arrays["least"])
    except (ValueError, KeyError) as error:
        raise CorruptFile(f"{path!s} does not hold a {KIND} of its model: {error}", path=path) from error


def check_risks(mdp: MDP, promise: Promise) -> None:
    """What the proof asks of p̄: at least the least q̄ of the state's actions, and at the start no more than the risk."""
    budget, risk, horizon, least = promise
    rows = (budget + 1) * (1 if horizon is None else horizon + 1)
    if least.shape != (rows, mdp.num_states) or least.dtype != np.float64:
        raise CertificateError(f"risks must be {rows} rows of {mdp.num_states} numbers; got {least.shape}")
    if not ((least >= 0) & (least <= 1)).all():
        raise CertificateError("risks must be probabilities, 0 … 1")
    first = 0 if horizon is None else budget + 1  # with no step left nothing is asked of them
    if first and (least[:first, first_values(mdp) > 0] < 1).any():
        raise CertificateError("what is forbidden must have a risk of 1")
    sums, choices, begin = sums_of(mdp), np.arange(mdp.num_choices), mdp.choice_ptr[:-1].astype(np.int64)
    for row in range(first, rows):
        left = np.full(choices.size, row % (budget + 1))
        if horizon is None:
            found = risks_of(sums, least, left, choices)
        else:
            found = risks_within(sums, least, left, choices, np.full(choices.size, row - row % (budget + 1) - first))
        short = np.flatnonzero(np.minimum.reduceat(found, begin) > least[row])
        if short.size:
            raise CertificateError(f"the risk of {mdp.describe_state(int(short[0]))} is too small")
    if (needed := risk_at_start(mdp, least)) > risk:
        raise CertificateError(f"at the start the risk is {needed!r} (rounded up), more than the {risk:g} promised")


def risk_at_start(mdp: MDP, least: Floats) -> float:
    """The risk with which a run begins, rounded up: the start is a draw like any other."""
    states, found = mdp.initial_states, least[-1, mdp.initial_states]  # the last row has all steps and all the budget
    if states.size == 1:
        return float(found[0])
    return min(math.fsum(mdp.initial_probabilities * found) * (1 + (states.size + 4) * EPSILON), 1.0)


def check_risk(risk: object) -> float:
    """``risk`` as a float in [0, 1]."""
    value = check_real("risk", risk)
    if not 0 <= value <= 1:
        raise ArgumentError(f"risk must be a probability, 0 … 1; got {value:g}")
    return value


def known_probabilities(mdp: MDP) -> MDP:
    """The model, if it knows how probable its outcomes are."""
    mdp.require_probabilities("RiskShield")
    if mdp.unknown is not None or (mdp.origin is not None and mdp.origin.counted):
        raise ModelError(
            "a RiskShield needs the model's probabilities, and this model was learned: which outcomes are possible "
            "is known with the stated confidence, how probable they are is not. Use Shield, or a model with known "
            "probabilities."
        )
    return mdp
