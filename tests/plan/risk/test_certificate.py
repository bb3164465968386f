"""Checking risk shields exactly: true tables pass, forged ones are refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almostsure import RiskShield, from_transitions, product
from almostsure.errors import CertificateError
from almostsure.model import Automaton
from almostsure.plan.risk.certificate import Promise, check_risks
from almostsure.testing import mdps


def promise_of(shield):
    return Promise(shield.budget, shield.risk, shield.horizon, shield.least.copy())


@given(mdps(max_states=4, max_damage=2), st.integers(0, 2), st.sampled_from([None, 1, 4]))
def test_every_shield_passes_the_exact_check_and_its_sums_are_never_too_small(mdp, budget, horizon):
    shield = RiskShield(mdp, budget, 1.0, horizon=horizon)
    check_risks(mdp, promise_of(shield))
    for steps in (None,) if horizon is None else range(1, horizon + 1):
        for left in range(budget + 1):
            row = left if steps is None else left + (steps - 1) * (budget + 1)
            for choice, found in enumerate(shield.risks_in(row).tolist()):
                state, action = int(mdp.choice_states()[choice]), int(mdp.choice_action[choice])
                assert found >= exact_risk(shield, state, action, left, steps)


def exact_risk(shield, state, action, left, steps):
    """Σ p · p̄' of a choice in fractions."""
    outcomes = list(shield.mdp.outcomes(state, action))
    before = () if steps is None else (steps - 1,)
    after = [
        Fraction(shield.least_risk(o.next_state, left - o.damage, *before)) if o.damage <= left else Fraction(1)
        for o in outcomes
    ]
    shares = [Fraction(o.probability) for o in outcomes]
    return sum(p * q for p, q in zip(shares, after, strict=True)) / sum(shares)


RISKY = [(0, 0, 1, 0.9, 0, 0), (0, 0, 1, 0.1, 0, 1), (1, 0, 2, 0.8, 0, 0), (1, 0, 2, 0.2, 0, 1)]


@pytest.mark.parametrize("horizon", [None, 4])
def test_forgeries_of_each_kind_are_rejected(horizon):
    mdp = from_transitions(*zip(*RISKY, strict=True), terminal=[2])
    true = promise_of(RiskShield(mdp, 1, 0.5, horizon=horizon))
    check_risks(mdp, true)
    top = len(true.least) - 1  # all steps and the whole budget; the row before has one less of the budget
    forged = [
        ((top, 0, 0.0199), r"state 0 with 1 left is too small: that of every action is above 0\.0199"),
        ((top, 0, 0.0), "state 0 with 1 left is too small"),  # 0 where the budget does not suffice
        ((top - 1, 1, np.nextafter(0.2, 0)), "state 1 with 0 left is too small"),  # the last digit counts
        ((top, 1, 1e-9), "state 1 must be 0: 1 left suffices there"),
        ((0, 2, 0.25), "state 2 must be 0: 0 left suffices there"),
        ((top, 0, 1.5), "risks must be probabilities"),
        ((top, 0, float("nan")), "risks must be probabilities"),
    ]
    for (row, state, value), message in forged:
        least = true.least.copy()
        least[row, state] = value
        with pytest.raises(CertificateError, match=message):
            check_risks(mdp, true._replace(least=least))
    with pytest.raises(CertificateError, match=r"at the start the risk is 0\.02\d*, more than the 0\.019 promised"):
        check_risks(mdp, true._replace(risk=0.019))
    with pytest.raises(CertificateError, match="rows of 3 numbers"):
        check_risks(mdp, true._replace(budget=0))
    with pytest.raises(CertificateError, match="rows of 3 numbers"):
        check_risks(mdp, true._replace(least=true.least.astype(np.float32)))


def test_a_forged_cycle_is_rejected():
    """Two states that vouch for each other: neither is safe, and neither can be struck out as long as both are 0."""
    mdp = from_transitions([0, 0, 1], [0, 0, 0], [1, 2, 0], [0.5, 0.5, 1], [0, 0, 0], [0, 1, 0], terminal=[2])
    true = promise_of(RiskShield(mdp, 0, 1.0))
    with pytest.raises(CertificateError, match="is too small"):
        check_risks(mdp, true._replace(least=np.zeros_like(true.least)))
    safe = from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [0, 0], [0, 0])
    with pytest.raises(CertificateError, match="state 0 must be 0"):
        check_risks(safe, Promise(0, 1.0, None, np.full((1, 2), 0.5)))


def test_what_is_forbidden_has_a_risk_of_one():
    ways = from_transitions(
        [0, 0, 1], [0, 1, 0], [1, 2, 2], [1, 1, 1], [0, 0, 0], [0, 0, 0], terminal=[2], labels={"b": [1]}
    )
    mdp = product(ways, Automaton({("a", "b"): "trap"}, start="a", forbidden=["trap"]))
    true = promise_of(RiskShield(mdp, 0, 1.0, horizon=2))
    check_risks(mdp, true)
    forbidden = true.least[0] == 1
    assert forbidden.sum() == 1
    with pytest.raises(CertificateError, match="forbidden states must have a risk of 1"):
        check_risks(mdp, true._replace(least=np.where(forbidden, 0.5, true.least)))
