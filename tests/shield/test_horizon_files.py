"""``HorizonShield``: saved, loaded and verified, exported."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import almostsure as asure
from almostsure import INFINITE, from_transitions, minimal_budget
from almostsure.budget import HorizonBudget
from almostsure.budget.horizon import horizon_budget
from almostsure.errors import CertificateError, CorruptFile, ModelError, ModelMismatch, NoSafeAction
from almostsure.files import save_tensors
from almostsure.shield import HorizonShield

from ..exported import load

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def busy(seed, states=8, actions=3):
    """A model in which damage happens often."""
    rng = np.random.default_rng(seed)
    pairs = [(s, a) for s in range(states) for a in range(actions) for _ in range(2)]
    after, damage = rng.integers(states, size=len(pairs)), rng.integers(3, size=len(pairs))
    columns = zip(*pairs, strict=True)
    return from_transitions(*columns, after, np.full(len(pairs), 0.5), np.zeros(len(pairs)), damage)


def models():
    trap = asure.product(busy(3, 6, 2), asure.model.Refill(cost=1, capacity=2, at=[0, 1, 2]))
    return [*(busy(seed) for seed in range(4)), asure.example("quicksand"), trap]


def answers(ask, error, mdp, steps):
    result = []
    for state in range(mdp.num_states):
        for left in (-1, 0, 1, 2, 5, 12):
            for t in range(1, steps + 1):
                try:
                    result.append(list(ask(state, left, t)))
                except error:
                    result.append([])
    return result


def test_files_and_modules_allow_the_same_actions_as_the_shield(tmp_path):
    for number, mdp in enumerate(models()):
        shield = HorizonShield(minimal_budget(mdp, horizon=7, cap=None if number else 9))
        expected = answers(shield.allowed, NoSafeAction, mdp, 7)
        shield.save(tmp_path / "shield.safetensors")
        loaded = HorizonShield.load(tmp_path / "shield.safetensors", mdp)
        assert answers(loaded.allowed, NoSafeAction, mdp, 7) == expected
        module = load(shield.export_numpy(tmp_path / f"table_{number}")[0])
        assert answers(module.allowed, module.NoSafeAction, mdp, 7) == expected


def test_the_module_fails_closed(tmp_path):
    shield = HorizonShield(minimal_budget("quicksand", horizon=3))
    module = load(shield.export_numpy(tmp_path / "table")[0])
    for steps in (0, 4):
        with pytest.raises(ValueError, match=r"steps_left must lie in 1 … 3"):
            module.allowed(0, 1, steps)
    with pytest.raises(module.UnknownState, match="unknown state"):
        module.allowed(shield.mdp.num_states, 1, 1)


def test_a_shield_for_no_steps_is_exported_too(tmp_path):
    shield = HorizonShield(minimal_budget("quicksand", horizon=0))
    module = load(shield.export_numpy(tmp_path / "table")[0])
    with pytest.raises(ValueError, match=r"steps_left must lie in 1 … 0"):
        module.allowed(0, 1, 1)
    assert "#define ALMOSTSURE_HORIZON 0u" in shield.export_c(tmp_path / "shield.h").read_text()


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_the_header_allows_the_same_actions_as_the_shield(tmp_path):
    mdp = busy(1)
    shield = HorizonShield(minimal_budget(mdp, horizon=7))
    shield.export_c(tmp_path / "shield.h", name="robot")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "shield.h"\nint main(void) {\n'
        f"  static const int lefts[] = {{-1, 0, 1, 2, 5, 12}};\n  uint8_t mask[{mdp.num_actions}];\n"
        f"  for (uint32_t s = 0; s < {mdp.num_states}; s++) for (int i = 0; i < 6; i++)\n"
        "    for (uint32_t t = 1; t <= 7; t++) {\n"
        "      robot_allowed(s, lefts[i], t, mask);\n"
        f'      for (int a = 0; a < {mdp.num_actions}; a++) if (mask[a]) printf("%d ", a);\n      printf("\\n");\n'
        "    }\n  return robot_allowed(0, 1, 0, mask) == ROBOT_BEYOND_HORIZON ? 0 : 1;\n}\n"
    )
    build = [COMPILER, "-std=c99", "-Wall", "-Wextra", "-Werror", "main.c", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    output = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    found = [[int(a) for a in line.split()] for line in output.splitlines()]
    assert found == answers(shield.allowed, NoSafeAction, mdp, 7)


def test_a_budget_that_claims_too_little_is_refused(tmp_path):
    for seed in range(6):
        mdp = busy(seed)
        minimal = minimal_budget(mdp, horizon=6)
        HorizonShield(minimal)
        rises = minimal.rises
        assert rises.value.size
        for at in range(rises.value.size):
            value = rises.value.copy()
            value[at] -= 1
            lowered = replace(minimal, rises=rises._replace(value=value))
            with pytest.raises(CertificateError, match=r"needs|rises must be"):
                HorizonShield(lowered)
            late = rises.step.copy()
            late[at] += 1
            with pytest.raises(CertificateError, match=r"needs|rises must be"):
                HorizonShield(replace(minimal, rises=rises._replace(step=late)))
    trap = from_transitions([0], [0], [0], [1], [0], [1], labels={"forbidden": [0]})
    minimal = minimal_budget(trap, horizon=2)
    assert minimal.of(0) == INFINITE
    nothing = minimal.rises._replace(ptr=np.array([0, 0]), step=np.zeros(0, np.int32), value=np.zeros(0, np.int32))
    with pytest.raises(CertificateError, match="is forbidden, and must need ∞"):
        HorizonShield(replace(minimal, rises=nothing))


def test_files_of_others_are_refused(tmp_path):
    mdp = busy(0)
    shield = HorizonShield(minimal_budget(mdp, horizon=6))
    shield.save(tmp_path / "shield")
    with pytest.raises(ModelMismatch, match="another model"):
        HorizonShield.load(tmp_path / "shield", busy(1))
    rises = shield.minimal.rises._asdict() | {"value": np.maximum(shield.minimal.rises.value - 1, 0)}
    strings = {"horizon": "6", "cap": "", "settled": ""}
    save_tensors(tmp_path / "low", kind="horizon shield", model=mdp.fingerprint, arrays=rises, strings=strings)
    with pytest.raises(CorruptFile, match="does not hold a horizon shield of its model"):
        HorizonShield.load(tmp_path / "low", mdp)


@pytest.mark.parametrize(
    ("cap", "message"),
    [
        ("-1", "cap must be 0 … 2147483646, or None; got -1"),
        (str(INFINITE), "cap must be 0 … 2147483646, or None; got 2147483647"),
        ("1", "values of rises must be at most the cap 1, or INFINITE; got"),
    ],
)
def test_a_cap_that_the_values_cannot_have_is_refused(tmp_path, cap, message):
    mdp = busy(0)
    minimal = minimal_budget(mdp, horizon=6)
    assert minimal.rises.value.max() > 1
    strings = {"horizon": "6", "cap": cap, "settled": ""}
    arrays = minimal.rises._asdict()
    save_tensors(tmp_path / "b", kind="horizon budget", model=mdp.fingerprint, arrays=arrays, strings=strings)
    with pytest.raises(CorruptFile, match=message):
        HorizonBudget.load(tmp_path / "b", mdp)
    with pytest.raises(ModelError, match=message):
        replace(minimal, cap=int(cap))


def test_steps_that_no_key_can_hold_are_refused(tmp_path):
    """A rise after 2⁶² steps would overflow the keys used to look up needs."""
    rows = [(0, 0, 2, 1, 0, 0), (0, 1, 3, 1, 0, 0), (1, 0, 1, 1, 0, 1), (2, 0, 3, 1, 0, 5), (3, 0, 3, 1, 0, 0)]
    mdp = asure.from_transitions(*zip(*rows, strict=True))
    ptr, step, value = map(np.asarray, asure.minimal_budget(mdp, horizon=10).rises)
    end = int(ptr[2])
    forged = {"ptr": np.r_[ptr[:2], ptr[2:] + 1], "step": np.insert(step.astype(np.int64), end, 2**62)}
    forged["value"] = np.insert(value, end, 11).astype(np.int32)
    strings = {"horizon": "10", "cap": "", "settled": ""}
    save_tensors(tmp_path / "huge", kind="horizon shield", model=mdp.fingerprint, arrays=forged, strings=strings)
    with pytest.raises(CorruptFile, match="with steps 0 … 2³¹ − 2"):
        HorizonShield.load(tmp_path / "huge", mdp)


def test_the_claim_that_no_value_rises_is_verified():
    pit = asure.from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [0, 0], [0, 1])
    rises = asure.minimal_budget(pit, horizon=10).rises
    with pytest.raises(CertificateError, match="no value may rise after 10 steps"):
        asure.check_minimal_budget(pit, horizon_budget(pit, rises, 10, None, 10))
