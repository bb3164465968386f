"""Risk shields for a number of steps."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import almostsure as asure
from almostsure import RiskShield, from_transitions, minimal_budget
from almostsure.errors import ArgumentError, NoSafeAction
from almostsure.plan.risk import least as module
from almostsure.shield import HorizonShield
from almostsure.testing import mdps


def worst(mdp, shield, run, steps):
    """The greatest probability with which an agent inside the shield overspends within its steps, exactly."""
    if run[1] < 0:
        return Fraction(1)
    if steps == 0:
        return Fraction(0)
    best = Fraction(0)
    for a in shield.allowed(*run).tolist():
        outcomes = mdp.outcomes(run[0], a)
        total = sum(Fraction(o.probability) for o in outcomes)
        risk = sum(
            Fraction(o.probability)
            / total
            * worst(mdp, shield, shield.after(run, a, o.next_state, o.damage), steps - 1)
            for o in outcomes
        )
        best = max(best, risk)
    return best


@given(mdps(max_states=3, max_damage=2), st.integers(1, 3), st.integers(0, 2), st.sampled_from([0.0, 0.2, 0.6, 1.0]))
def test_the_worst_agent_within_the_steps_never_exceeds_the_risk(mdp, steps, budget, extra):
    least = RiskShield(mdp, budget, 1.0, horizon=steps)
    start = int(mdp.initial_states[0])
    risk = min(1.0, max(least.least_risk(int(s), budget) for s in mdp.initial_states) + extra)
    shield = RiskShield(mdp, budget, risk, horizon=steps)
    run = shield.begin(start, budget)
    assert worst(mdp, shield, run, steps) <= Fraction(run[2]) + Fraction(1, 10**12) * (run[2] > 0)


@given(mdps(max_states=5, max_damage=2), st.integers(1, 6), st.integers(0, 3))
def test_without_risk_it_is_the_shield_for_the_steps_and_compiled_is_plain(mdp, steps, budget):
    minimal = minimal_budget(mdp, horizon=steps)
    free, sure = RiskShield(mdp, budget, 1.0, horizon=steps), HorizonShield(minimal)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PLAIN_STEPS", -1)
        compiled = RiskShield(mdp, budget, 1.0, horizon=steps)
    np.testing.assert_allclose(compiled.least, free.least, rtol=1e-12)
    for t in range(1, steps + 1):
        for k in range(budget + 1):
            for s in range(mdp.num_states):
                assert (free.least_risk(s, k, t) == 0) == (minimal.at(t).of(s) <= k)
                assert free.allowed(s, k, 1.0, t).tolist() == mdp.actions(s).tolist()
                for shield in (free, compiled):
                    assert shield.allowed(s, k, shield.least_risk(s, k, t), t).size
                    if minimal.at(t).of(s) <= k:
                        assert shield.allowed(s, k, 0.0, t).tolist() == sure.allowed(s, k, t).tolist()


def test_many_steps_approach_what_holds_for_ever():
    mdp = asure.example("hazard-map")
    ever, within = RiskShield(mdp, 1, 1.0), RiskShield(mdp, 1, 1.0, horizon=400)
    start = int(mdp.initial_states[0])
    values = [within.least_risk(start, 1, t) for t in (1, 10, 50, 400)]
    assert values == sorted(values)
    assert values[-1] <= ever.least_risk(start, 1) + 1e-12
    shorter = within.within(10)
    assert shorter.horizon == 10
    assert shorter.least_risk(start, 1) == values[1]
    assert within.within(1000) is within
    assert ever.within(10) is ever


def test_bad_input_with_a_horizon():
    pit = from_transitions([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0, 0], [0, 1])
    shield = RiskShield(pit, 0, 0.9, horizon=3)
    run = shield.begin(0, 0)
    for bad in (-1, 2.5):
        with pytest.raises(ArgumentError, match="horizon"):
            RiskShield(pit, 0, 0.9, horizon=bad)
    with pytest.raises(ArgumentError, match="steps_left must be given"):
        shield.allowed(0, 0, 0.9)
    with pytest.raises(ArgumentError, match=r"steps_left must lie in 0 … 3"):
        shield.allowed(0, 0, 0.9, 4)
    with pytest.raises(NoSafeAction, match="no step is left of the horizon 3"):
        shield.allowed(0, 0, 0.9, 0)
    with pytest.raises(ArgumentError, match="steps_left is for a shield with a horizon"):
        RiskShield(pit, 0, 1.0).allowed(0, 0, 1.0, 2)
    for risk in (-0.1, 1.1, float("nan")):
        with pytest.raises(ArgumentError, match=r"risk must be a (probability|number)"):
            shield.mask([0], [0], [risk], [2])
    for _ in range(3):
        run = shield.after(run, 0, 0, 0)
    with pytest.raises(ArgumentError, match="the horizon is over"):
        shield.after(run, 0, 0, 0)
