"""The PPO learners: only the shielded ones never overspend."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

import almostsure as asure
from almostsure.errors import ArgumentError
from almostsure.gym.deep import LagrangianPPO, Settings, ShieldedPPO, deep_learners
from almostsure.learn.comparison.compare import compare

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def table():
    small = Settings(n_envs=16, max_episode_steps=60)
    learners = [dataclasses.replace(learner, settings=small) for learner in deep_learners.values()]
    return compare("hazard-map", 3, learners, steps=4_000, seeds=[7])


def test_only_the_shielded_never_overspend(table):
    rows = {row["learner"]: row for row in table.rows}
    shielded = rows.pop(ShieldedPPO().name)
    assert shielded["training_violations"] == 0
    assert shielded["deployed_overspend"] == 0
    assert len(rows) == 5
    for name, row in rows.items():
        assert row["training_episodes"] > 10, name
        assert row["training_violation_rate"] > 0.01, name


def test_rows_and_curves(table):
    for run in table.runs:
        assert run.training.ends.max() <= 4_000
        assert (run.training.damages >= 0).all()
    assert set(table.curves) == {learner.name for learner in deep_learners.values()}
    assert {run.row["restricted_steps"] > 0 for run in table.runs if "mask" in run.row["learner"]} == {True}


def test_deployed_policies_are_defined_for_every_state_and_budget(table, hazard):
    for run in table.runs:
        result = asure.evaluate(hazard, run.training.policy, budget=3)
        assert result.overspends == pytest.approx(run.row["deployed_overspend"])
        assert run.training.policy.knows_overspent or run.row["learner"] == ShieldedPPO().name


def test_the_lagrangian_learns_a_price(hazard):
    quick = Settings(n_envs=16, n_steps=32)
    free, dear = (
        LagrangianPPO(settings=quick, price_rate=rate).train(hazard, 0, steps=6_000, seed=1) for rate in (0.0, 5.0)
    )
    assert dear.damages[-50:].mean() < free.damages[-50:].mean()


def test_the_same_seed_gives_the_same_row(hazard):
    learner = ShieldedPPO(settings=Settings(n_envs=8, n_steps=16))
    first, second = (learner.train(hazard, 2, steps=500, seed=3) for _ in range(2))
    assert first.policy == second.policy
    assert first.returns.tolist() == second.returns.tolist()


def test_a_small_run_of_the_benchmark(tmp_path):
    """The command that makes the documentation's table, with 1 % of its steps."""
    done = subprocess.run(
        [
            sys.executable, ROOT / "benchmarks" / "bench_deep.py", "--steps", "1000", "--seeds", "3",
            "--only", "shielded", "saute", "lagrangian",
            "--csv", tmp_path / "rows.csv", "--picture", tmp_path / "curves.png",
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "shielded: never over budget: True" in done.stdout
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 1 + 3
    assert (tmp_path / "curves.png").stat().st_size > 10_000


@pytest.mark.parametrize("learner", [*deep_learners.values(), ShieldedPPO(risk=0.1)], ids=lambda learner: learner.name)
def test_deep_learners_need_a_model(learner):
    coin = asure.learn.FunctionSampler(lambda s, a, rng: (1, 0.0, 0), 2, 1, terminal=[1])
    with pytest.raises(ArgumentError, match=r"got FunctionSampler\. Learn the model of a sampler: "):
        compare(coin, 0, learner, steps=10, seeds=1)


def test_with_a_risk_the_policy_stays_within_it():
    mdp, risk = asure.example("hazard-map"), 0.1
    small = Settings(n_envs=16, max_episode_steps=60)
    training = ShieldedPPO(risk=risk, settings=small).train(mdp, 1, steps=2_000, seed=7)
    inside = asure.RiskShield(mdp, 1, risk).restrict()
    assert asure.evaluate(inside.mdp, training.policy, budget=1).overspends <= risk
