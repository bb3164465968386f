"""Comparing learners: tidy rows, exact evaluation, curves with bands, and errors that say what to do."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import (
    AlmostSureError,
    ArgumentError,
    Infeasible,
    Interrupted,
    ModelError,
    UnknownName,
)
from almostsure.learn import FunctionSampler, OnlineShield
from almostsure.learn.comparison.compare import Learner, Training, compare
from almostsure.learn.comparison.result import COLUMNS, MARKED, TRUNCATED, _curve, track
from almostsure.learn.deployment import MAX_STEPS, mean_and_margin, truncated_sums
from almostsure.learn.learners import ShieldedQ
from almostsure.learn.learners.world import playground

KEYS = {
    "learner", "seed", "steps", "training_episodes", "training_violations", "training_violation_rate",
    "deployed_return", "fraction_of_optimum", "deployed_overspend", "deployed_mean_damage",
}  # fmt: skip


class Fixed:
    """A learner that returns a given policy, and pretends to have trained for three episodes."""

    def __init__(self, policy, name="fixed", fail=None):
        self.policy, self.name, self.fail = policy, name, fail

    def train(self, mdp, budget, *, steps, seed):
        if self.fail and seed >= 1:
            raise self.fail
        ends = np.array([1, steps // 2, steps])
        return Training(self.policy, ends, np.array([0.0, 1.0, 2.0 + seed]), np.array([0, budget, budget + 1]))


@pytest.fixture(scope="module")
def corridor():
    return asure.example("corridor")


@pytest.fixture(scope="module")
def small(corridor):
    return compare(corridor, 2, steps=2_000, seeds=2)


# ---------------------------------------------------------------------- results


def test_rows_are_tidy(small):
    assert len(small.rows) == 5 * 2
    assert all(set(row) >= KEYS for row in small.rows)
    assert [row["learner"] for row in small.rows[::2]] == list(small.learners)
    for row in small.rows:
        assert row["training_violation_rate"] == row["training_violations"] / row["training_episodes"]


def test_only_the_shielded_ones_are_safe(small):
    by_name = {row["learner"]: row for row in small.summary()}
    for name, row in by_name.items():
        assert (row["training_violations"] == 0) == name.startswith("shielded")
    assert by_name["shielded Q-learning"]["deployed_return"] == pytest.approx(9)
    assert by_name["shielded Q-learning"]["fraction_of_optimum"] == pytest.approx(1)
    assert by_name["unconstrained Q-learning"]["deployed_overspend"] == 1


def test_the_optimum_is_one_and_random_play_is_zero(corridor):
    shield = asure.Shield(asure.minimal_budget(corridor))
    best = asure.solve_policy(corridor, asure.AlmostSure(2)).policy
    random = shield.random_policy(2)
    rows = compare(corridor, 2, [Fixed(best, "best"), Fixed(random, "random")], steps=10, seeds=1).rows
    assert [row["fraction_of_optimum"] for row in rows] == pytest.approx([1, 0])
    exact = asure.evaluate(corridor, random)
    assert rows[1]["deployed_return"] == exact.expected_return
    assert rows[1]["deployed_mean_damage"] == exact.expected_damage


def test_an_infinite_return_is_that_of_truncated_episodes():
    """Waiting for ever at a reward of −1 has return −∞, which an episode of MAX_STEPS steps replaces."""
    mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [-1, 3], [0, 0], terminal=[1])
    row = compare(mdp, 0, [Fixed(asure.Policy.from_table(mdp, [0, 0]))], steps=10, seeds=1).rows[0]
    assert row["deployed_return"] == -MAX_STEPS
    assert row["deployed_ends"] == 0
    assert row["deployed_overspend"] == 0


def test_truncated_sums_are_exact_if_episodes_end(hazard):
    solution = asure.solve_policy(hazard, asure.AlmostSure(3))
    exact = asure.evaluate(hazard, solution.policy)
    assert truncated_sums(hazard, solution.policy, 3, 500) == pytest.approx(
        (exact.expected_return, exact.expected_damage)
    )
    first = truncated_sums(hazard, solution.policy, 3, 1)
    assert first == pytest.approx((-1.0, 0.0))
    loose = asure.solve_policy(hazard, asure.Chance(1, 0.2)).policy  # goes on once it has overspent
    exact = asure.evaluate(hazard, loose, budget=1)
    assert truncated_sums(hazard, loose, 1, 500) == pytest.approx((exact.expected_return, exact.expected_damage))


def test_an_unbounded_optimum_has_no_fractions():
    mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [0, 0], terminal=[1])
    result = compare(mdp, 0, "shielded", steps=200, seeds=1)
    assert result.optimum == math.inf
    assert math.isnan(result.rows[0]["fraction_of_optimum"])
    assert "∞" in repr(result)


def test_seeds_are_reproducible_and_may_be_chosen(corridor):
    one, other = (compare(corridor, 2, "one-step", steps=1_000, seeds=[7, 3]).rows for _ in range(2))
    assert one == other
    assert [row["seed"] for row in one] == [7, 3]


def test_learners_may_be_objects_names_or_both(corridor):
    mine = ShieldedQ(name="mine", shield=lambda mdp: OnlineShield(mdp, unknown="allow"))
    assert isinstance(mine, Learner)
    result = compare(corridor, 2, ["shielded", mine], steps=1_000, seeds=1)
    assert result.learners == ("shielded Q-learning", "mine")
    assert result.rows[1]["training_violations"] <= int((corridor.damage > 0).sum())


# ---------------------------------------------------------------------- curves


def test_curves(corridor):
    policy = asure.solve_policy(corridor, asure.AlmostSure(2)).policy
    curves = compare(corridor, 2, Fixed(policy), steps=100, seeds=2).curves["fixed"]
    assert curves["violations"].mean[-1] == 1
    assert curves["violations"].mean[-2] == 0
    assert curves["return"].mean[0] == 0
    assert curves["return"].mean[-1] == pytest.approx(2.5)
    assert curves["damage"].mean[-1] == 3
    last = curves["return"]
    assert last.lower[-1] < 2.5 < last.upper[-1]
    assert last.steps.tolist() == list(range(4, 101, 4))


def test_bands_are_ranges_of_few_seeds_and_never_show_impossible_values():
    steps, values = np.array([10]), np.array([[0.0], [0.0], [2.0], [0.0], [0.0]])
    few, many = _curve(steps, values[1:3], 3.0), _curve(steps, values, 3.0)
    mean, margin = mean_and_margin(values)
    assert (few.lower[0], few.mean[0], few.upper[0]) == (0, 1, 2)
    assert mean[0] - margin[0] < 0 == many.lower[0]
    assert many.upper[0] == mean[0] + margin[0] < 3
    assert _curve(steps, values, 1.0).upper[0] == 1
    assert _curve(steps, values, math.inf).lower[0] == mean[0] - margin[0]
    assert np.isnan(_curve(steps, values[:1], 3.0).upper).all()


def test_tables_show_ranges_of_few_seeds_and_intervals_of_many(corridor):
    result = compare(corridor, 2, "shielded", steps=50, seeds=1)

    def table(*overspends):
        runs = [replace(result.runs[0], row=result.rows[0] | {"deployed_overspend": one}) for one in overspends]
        return replace(result, runs=tuple(runs))

    assert "  0 … 0.49  " in repr(table(0.0, 0.49))
    assert "0 … 0.49" in table(0.0, 0.49)._repr_html_()
    assert "±" not in repr(table(0.0, 0.49, 0.2, 0.1))
    assert "  0.49  " in repr(table(0.49, 0.49))
    assert "  0.158 ± 0.252  " in repr(table(0.0, 0.49, 0.2, 0.1, 0.0))
    assert "  0.49  " in repr(table(0.49))


def test_learners_that_overspent_are_marked(corridor):
    policy = asure.solve_policy(corridor, asure.AlmostSure(2)).policy
    result = compare(corridor, 2, Fixed(policy), steps=100, seeds=2)  # it reports an episode that took 3
    row, _, notes = repr(result).splitlines()[1:]
    assert row.endswith("✕ overspent in training")
    assert notes == f"{COLUMNS}; {MARKED}"
    assert "✕ overspent in training" in result._repr_html_()
    assert result.curves["fixed"]["damage"].upper.max() == 3


def test_a_note_says_that_returns_are_truncated():
    loop = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [-1, -1], [0, 0], terminal=[1])
    goes_on = Fixed(asure.Policy.from_table(loop, [0, 0]))
    result = compare(loop, 2, goes_on, steps=100, seeds=1)
    assert result.rows[0]["deployed_return"] == -1000
    assert repr(result).splitlines()[-1] == TRUNCATED
    assert "of 1,000 steps" in TRUNCATED


def test_curves_begin_where_the_first_episode_ends():
    policy = asure.solve_policy("paper", asure.AlmostSure(1)).policy
    training = Training(policy, np.array([60, 70]), np.array([1.0, 3.0]), np.array([0, 2]))
    returns, damages, violations = track(training, np.linspace(0, 100, 5), 1)
    np.testing.assert_array_equal(returns, [np.nan, np.nan, 2.0, 2.0])
    np.testing.assert_array_equal(damages, [np.nan, np.nan, 1.0, 1.0])
    np.testing.assert_array_equal(violations, [0, 0, 1, 1])


def test_margins_are_students():
    mean, margin = mean_and_margin(np.array([[1.0], [2.0], [3.0]]))
    assert mean[0] == 2
    assert margin[0] == pytest.approx(4.302653 / math.sqrt(3))  # t quantile with 2 degrees of freedom
    assert np.isnan(mean_and_margin(np.array([[1.0]]))[1]).all()


# ---------------------------------------------------------------------- text, files and plots


def test_text_html_and_csv(small, tmp_path):
    text = repr(small)
    assert text.splitlines()[-2].startswith("budget 2; 2,000 steps, 2 seeds; random shielded play")
    assert "Sauté Q-learning" in text
    assert small._repr_html_().count("<tr>") == 6
    small.to_csv(tmp_path / "rows.csv")
    with open(tmp_path / "rows.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["learner"] for row in rows] == [row["learner"] for row in small.rows]
    assert float(rows[0]["deployed_return"]) == small.rows[0]["deployed_return"]


def test_the_plot_has_a_panel_for_each_measure(small):
    figure = small.plot().figure
    assert [axes.get_title() for axes in figure.axes] == [
        "return of a training episode", "damage of a training episode", "violations so far",
    ]  # fmt: skip
    assert all(len(axes.collections) == 5 for axes in figure.axes)  # bands
    for first, *others in (axes.lines[:5] for axes in figure.axes):  # of equal curves, the first still shows
        assert first.get_linewidth() > max(line.get_linewidth() for line in others)
    figure.canvas.draw()


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("learners", "error", "match"),
    [
        ("sheilded", UnknownName, "unknown learner 'sheilded'. Did you mean 'shielded'"),
        ([ShieldedQ()] * 2, ArgumentError, r"with different names; got .*\. Pass name= to tell them apart\.$"),
        ([], ArgumentError, "one or more"),
        ([ShieldedQ], ArgumentError, "have name and train.* Pass an instance: ShieldedQ"),
        (3, ArgumentError, "learners must be names or learners; got 3"),
    ],
)
def test_bad_learners(corridor, learners, error, match):
    with pytest.raises(error, match=match):
        compare(corridor, 2, learners, steps=10, seeds=1)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"steps": 1.5}, "steps must be a whole number"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"seeds": [1, 1]}, "different whole numbers"),
        ({"seeds": [-1]}, "different whole numbers"),
        ({"seeds": []}, "different whole numbers"),
        ({"seeds": ["a"]}, "a seed must be a whole number"),
    ],
)
def test_bad_numbers(corridor, options, match):
    with pytest.raises(ArgumentError, match=match):
        compare(corridor, 2, "shielded", **{"steps": 10, "seeds": 1, **options})


def test_a_budget_that_is_not_enough():
    with pytest.raises(Infeasible, match=r"a budget of 1 is not enough at the start: .* needs 2"):
        compare("quicksand", 1, steps=10, seeds=1)


def test_a_learner_must_return_a_training(corridor):
    class Wrong:
        name = "wrong"

        def train(self, mdp, budget, *, steps, seed):
            return "a policy"

    with pytest.raises(AlmostSureError, match="wrong must return a Training"):
        compare(corridor, 2, Wrong(), steps=10, seeds=1)


def test_training_columns_must_fit():
    policy = asure.solve_policy("paper", asure.AlmostSure(1)).policy
    with pytest.raises(ModelError, match="one number per episode"):
        Training(policy, np.array([1, 2]), np.array([1.0]), np.array([0]))


def test_ctrl_c_keeps_the_finished_runs(corridor):
    policy = asure.solve_policy(corridor, asure.AlmostSure(2)).policy
    with pytest.raises(Interrupted, match="stopped after 1 of 3 runs") as caught:
        compare(corridor, 2, Fixed(policy, fail=KeyboardInterrupt()), steps=10, seeds=3)
    assert [row["seed"] for row in caught.value.kept.rows] == [0]
    with pytest.raises(Interrupted, match="stopped after 0") as caught:
        compare(corridor, 2, Fixed(policy, fail=KeyboardInterrupt()), steps=10, seeds=[4])
    assert "no run was finished" in repr(caught.value.kept)


def test_ctrl_c_before_the_first_run_keeps_nothing(corridor, monkeypatch):
    def stopped(*_args):
        raise Interrupted("a solution is in the error's kept", kept="a solution")

    monkeypatch.setattr("almostsure.learn.comparison.compare.solve_policy", stopped)
    with pytest.raises(Interrupted, match="stopped before the first of 3 runs, while its model was solved") as caught:
        compare(corridor, 2, ["shielded"], steps=10, seeds=3)
    assert caught.value.kept is None


# ---------------------------------------------------------------------- without a model, and on several cores


def coin(state, action, rng):
    return (0, 1.0, int(rng.random() < 0.5)) if action == 0 else (1, 0.0, 0)


def test_policies_for_a_sampler_are_evaluated_by_playing():
    sampler = FunctionSampler(coin, 2, 2, terminal=[1], max_damage=1)
    learned = asure.learn_minimal_budget(sampler, mu=0.2, delta=0.01, seed=1)
    every = [ShieldedQ(shield=learned.shield), "unconstrained", "lagrangian", "saute", "one-step"]
    result = asure.compare(sampler, 2, every, steps=1_500, seeds=1)
    rows = {row["learner"]: row for row in result.rows}
    shielded = rows["shielded Q-learning"]
    assert (shielded["training_violations"], shielded["deployed_overspend"]) == (0, 0)
    assert 0 < shielded["deployed_overspend_upper"] < 0.01
    assert shielded["deployed_return_error"] > 0
    assert abs(shielded["deployed_return"] - 4) < 0.5  # two tails take 4 tosses on average
    assert rows["unconstrained Q-learning"]["deployed_overspend"] == 1
    assert np.isnan(shielded["fraction_of_optimum"])
    assert "evaluated in 1,000 episodes" in str(result)


def test_a_comparison_says_that_unknown_choices_overspend():
    log = {"s": [0] * 300, "a": [0] * 300, "s'": [1] * 300, "d": [0] * 300, "terminated": [True] * 300}
    learned = asure.learn_from_logs(log, mu=0.1, delta=0.01, num_states=2, actions=2)
    assert "Unknown choices end in a state with damage in every step" in str(compare(learned.mdp, 0, steps=50, seeds=1))
    known = asure.learn_minimal_budget("paper", mu=0.3, delta=0.1, seed=0).mdp
    assert "Unknown choices" not in str(compare(known, 1, steps=50, seeds=1))


def test_a_comparison_in_a_learned_model_says_so(corridor):
    learned = asure.learn_minimal_budget(corridor, mu=1 / 3, delta=0.05, seed=0)
    result = compare(learned.mdp, 2, "shielded", steps=200, seeds=1)
    assert result.learned == learned.mdp.origin.learned
    assert "the model: Learned from " in str(result)
    assert "If no outcome is rarer than 33.34 %" in result._repr_html_()
    assert "the model" not in str(compare(corridor, 2, "shielded", steps=200, seeds=1))


def test_the_default_shield_for_a_sampler_learns_during_training():
    result = asure.compare(FunctionSampler(coin, 2, 2, terminal=[1], max_damage=1), 2, "shielded", steps=500, seeds=1)
    assert result.rows[0]["training_violations"] <= 1  # there is one damaging outcome


def test_a_sampler_is_only_called_for_reachable_states():
    def step(state, action, rng):
        return {0: (3, -1.0, action), 3: (4, 5.0, 0)}[state]  # KeyError at 1 and 2, which cannot be reached

    sampler = FunctionSampler(step, 5, 2, terminal=[4], max_damage=1)
    assert playground(sampler).rewards == (-1, 5)
    result = asure.compare(sampler, 0, ["shielded", "unconstrained"], steps=100, seeds=1)
    assert [row["deployed_return"] for row in result.rows] == [4, 4]
    assert playground(FunctionSampler(step, 5, 2, terminal=[4], initial=4, max_damage=1)).rewards == (0, 0)


def test_environments_with_a_table_are_models():
    result = asure.compare("CliffWalking-v1", 1, "shielded", steps=500, seeds=1)
    assert result.sampled_episodes is None
    assert result.rows[0]["training_violations"] == 0


def test_workers_do_not_matter():
    first, second = (
        asure.compare("corridor", 2, ["shielded", "saute"], steps=1_000, seeds=2, workers=workers) for workers in (1, 2)
    )
    assert first.rows == second.rows
