"""Shields with a stated risk: horizons, files, exports."""

import shutil
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import almostsure as asure
from almostsure import RiskShield, from_transitions, minimal_budget, product
from almostsure.errors import ArgumentError, CertificateError, CorruptFile, ModelMismatch, NoSafeAction
from almostsure.files import save_tensors
from almostsure.model import Automaton
from almostsure.plan.risk import least as module
from almostsure.plan.risk.certificate import Promise, check_risks
from almostsure.shield import HorizonShield
from almostsure.testing import mdps
from almostsure.testing.families import garnet

from ...exported import load

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


# ---------------------------------------------------------------------- horizons


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


# ---------------------------------------------------------------------- files and exports


def shields():
    yield RiskShield(asure.example("hazard-map"), 1, 1.0)
    pit = [(0, 0, 1, 0.5, 0, 0), (0, 0, 0, 0.5, 0, 1), (1, 0, 0, 1, 0, 0), (1, 1, 0, 0.25, 0, 2), (1, 1, 1, 0.75, 0, 0)]
    yield RiskShield(from_transitions(*zip(*pit, strict=True)), 1, 1.0, horizon=5)


def walk(shield, seed=0, steps=40):
    """Runs inside the shield, at random: (run, action, next state, damage)."""
    rng, mdp = np.random.default_rng(seed), shield.mdp
    run = shield.begin(int(mdp.initial_states[0]))
    for _ in range(steps):
        if shield.horizon is not None and run[3] == 0:
            run = shield.begin(int(mdp.initial_states[0]))
        action = int(rng.choice(shield.allowed(*run)))
        o = rng.choice(len(mdp.outcomes(run[0], action)))
        outcome = list(mdp.outcomes(run[0], action))[o]
        yield run, action, outcome.next_state, outcome.damage
        run = shield.after(run, action, outcome.next_state, outcome.damage)


def test_files_and_modules_say_what_the_shield_says(tmp_path):
    for number, whole in enumerate(shields()):
        start = int(whole.mdp.initial_states[0])
        shield = RiskShield(
            whole.mdp, whole.budget, min(1, whole.least_risk(start, whole.budget) + 0.3), horizon=whole.horizon
        )
        shield.save(tmp_path / "risk.safetensors")
        loaded = RiskShield.load(tmp_path / "risk.safetensors", shield.mdp)
        exported = load(shield.export_numpy(tmp_path / f"risk_{number}")[0])
        assert exported.begin(start) == shield.begin(start)[1:3]
        for run, action, after, damage in walk(shield):
            steps = run[3:]
            expected = shield.after(run, action, after, damage)
            assert loaded.after(run, action, after, damage) == expected
            assert loaded.allowed(*run).tolist() == shield.allowed(*run).tolist() == exported.allowed(*run).tolist()
            assert exported.risk_after(*run[:3], action, after, damage, *steps) == expected[2]
        with pytest.raises(ValueError, match="risk must be a probability"):
            exported.allowed(0, 1, 1.5, *([1] if shield.horizon else []))
        with pytest.raises(exported.UnknownState, match="unknown state"):
            exported.allowed(shield.mdp.num_states, 1, 0.5, *([1] if shield.horizon else []))


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_the_header_says_what_the_shield_says(tmp_path):
    for shield in shields():
        calls, expected = [], []
        for run, action, after, damage in walk(shield):
            steps = run[3] if shield.horizon else 0
            rho = float(run[2]).hex()
            calls.append(f"one({run[0]}u, {run[1]}, {rho}, {steps}u, {action}u, {after}u, {damage});")
            expected.append(f"{shield.allowed(*run).size} {shield.after(run, action, after, damage)[2].hex()}")
        shield.export_c(tmp_path / "risk.h", name="robot")
        (tmp_path / "main.c").write_text(
            '#include <stdio.h>\n#include "risk.h"\n'
            "static void one(uint32_t s, int32_t k, double r, uint32_t t, uint32_t a, uint32_t n, int32_t d) {\n"
            f"  uint8_t mask[{shield.mdp.num_actions}];\n"
            '  printf("%d %a\\n", robot_allowed(s, k, r, t, mask), robot_risk_after(s, k, r, t, a, n, d));\n}\n'
            "int main(void) {\n  " + "\n  ".join(calls) + "\n  return 0;\n}\n"
        )
        build = [COMPILER, "-std=c99", "-Wall", "-Wextra", "-Werror", "main.c", "-o", "main", "-lm"]
        subprocess.run(build, cwd=tmp_path, check=True)
        output = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
        found = [line.split() for line in output.splitlines()]
        assert [(n, float.fromhex(r)) for n, r in found] == [
            (n, float.fromhex(r)) for n, r in (line.split() for line in expected)
        ]


def test_files_that_claim_too_little_are_refused(tmp_path):
    for shield in shields():
        shield.save(tmp_path / "risk")
        with pytest.raises(ModelMismatch, match="another model"):
            RiskShield.load(tmp_path / "risk", garnet(5, 2, 2, seed=9))
        strings = {"budget": str(shield.budget), "risk": (1.0).hex(), "horizon": str(shield.horizon or "")}
        about = {"kind": "risk shield", "model": shield.mdp.fingerprint, "strings": strings}
        low = shield.least.copy()
        at = np.unravel_index(np.argmax(low), low.shape)
        assert low[at] > 0
        low[at] *= 0.9
        high = np.where(shield.least == 0, 1e-9, shield.least)
        for wrong in (low, high, low[:-1], low - 1.0):
            save_tensors(tmp_path / "low", arrays={"least": np.ascontiguousarray(wrong)}, **about)
            with pytest.raises(CorruptFile, match="does not hold a risk shield of its model"):
                RiskShield.load(tmp_path / "low", shield.mdp)


# ---------------------------------------------------------------------- the check


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
        ((top, 0, 0.0199), r"state 0 with 1 left is too small: every action has a larger one than 0\.0199"),
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
    with pytest.raises(CertificateError, match="what is forbidden must have a risk of 1"):
        check_risks(mdp, true._replace(least=np.where(forbidden, 0.5, true.least)))
