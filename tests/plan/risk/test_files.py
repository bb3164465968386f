"""Files and exports of risk shields."""

import shutil
import subprocess

import numpy as np
import pytest

import almostsure as asure
from almostsure import RiskShield, from_transitions
from almostsure.errors import CorruptFile, ModelMismatch
from almostsure.files import save_tensors
from almostsure.testing.families import garnet

from ...exported import load

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


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
