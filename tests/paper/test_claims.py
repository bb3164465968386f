"""All claims of the paper pass, with text, and fail if the library is broken on purpose."""

from __future__ import annotations

import math
import re
import runpy
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from matplotlib.image import imread

import almostsure as asure
from almostsure import paper
from almostsure.errors import ArgumentError, Interrupted, UnknownName
from almostsure.paper import experiments, memory, minimal, sampling, search
from almostsure.paper.claim import FAILS, HOLDS, LOOSE, Trial, claim
from almostsure.testing import mdps

DRAW = runpy.run_path(str(Path(__file__).resolve().parents[2] / "docs" / "pictures" / "paper" / "draw.py"))
NAMES = [check.key for check in paper.CLAIMS]


@pytest.mark.parametrize("name", NAMES)
def test_the_claim_passes(name):
    found = paper.check(name)
    assert found.passed, found
    assert found.verdict in (HOLDS, LOOSE)
    assert found.statement
    assert found.value
    assert found.comment or found.verdict == HOLDS, "a loose claim needs a comment"
    assert DRAW["row"](found) in DRAW["PAGE"].read_text("utf-8"), "run: python docs/pictures/paper/draw.py"


@pytest.mark.parametrize("name", DRAW["PICTURES"])
def test_the_pictures_of_the_page_are_up_to_date(name):
    drawn, stored = (imread(source, "png") for source in (BytesIO(DRAW["picture"](name)), DRAW["FOLDER"] / name))
    assert drawn.shape == stored.shape
    assert np.abs(drawn - stored).mean() < 0.01, "run: python docs/pictures/paper/draw.py"


def test_all_statements_of_the_paper_are_checked():
    """Two propositions, five lemmas, three theorems, two algorithms, and so on; but not all definitions."""
    names = {check.name for check in paper.CLAIMS}
    for kind, number in (("Proposition", 2), ("Lemma", 5), ("Theorem", 3), ("Algorithm", 2)):
        assert {f"{kind} {n}" for n in range(1, number + 1)} <= names
    assert {"Definition 4", "Remark 1", "Remark 2", "Equations (9), (10)", "Experiment I", "Experiment II"} <= names
    assert len(set(NAMES)) == len(NAMES)


def test_claims_are_found_by_name_and_by_key():
    assert paper.check("Theorem 2") == paper.check("theorem_2")
    with pytest.raises(UnknownName, match=r"unknown claim 'theorem_22'. Did you mean 'theorem_2'\?"):
        paper.check("theorem_22")
    with pytest.raises(ArgumentError, match="Lemma 3 has several parts: lemma_3_decomposition, lemma_3_bellman"):
        paper.check("Lemma 3")


# ---------------------------------------------------------------------- on the user's own model


@pytest.mark.parametrize("check", [check for check in paper.CLAIMS if check.takes_model], ids=lambda check: check.key)
def test_the_claim_passes_on_another_model(check):
    """A model with a cycle, several starts and damages above 1."""
    rows = [(0, 0, 1, 0.5, 1, 1), (0, 0, 2, 0.5, 0, 0), (0, 1, 2, 1, 0, 2), (1, 0, 3, 1, 2, 1), (2, 0, 3, 1, 1, 0)]
    rows += [(2, 1, 0, 1, 1, 0)]
    columns = (list(column) for column in zip(*rows, strict=True))
    found = check(asure.from_transitions(*columns, terminal=[3], initial={0: 0.5, 2: 0.5}))
    assert found.passed, found
    assert "3 models" not in found.value


def test_a_model_with_an_end_state():
    found = paper.check("Algorithm 2", "gym:Taxi-v4")
    assert found.passed, found


@settings(max_examples=8)
@given(mdps(max_states=4, max_actions=2, max_outcomes=2, max_damage=2))
@pytest.mark.parametrize("check", [check for check in paper.CLAIMS if check.takes_model], ids=lambda check: check.key)
def test_the_claim_passes_on_random_models(check, mdp):
    found = check(mdp)
    assert found.passed, found


def test_models_on_which_a_claim_cannot_be_tried():
    with pytest.raises(ArgumentError, match="is about the paper's own example; leave out the model"):
        paper.check("termination", "corridor")
    with pytest.raises(ArgumentError, match=r"a model must have at most 1,000 states; got 1,600"):
        paper.check("theorem_2", "archipelago")


def test_a_wrong_solver_is_noticed_on_another_model(monkeypatch):
    monkeypatch.setattr(minimal, "minimal_budget", wrong_minimal(lambda k: np.minimum(k, 1)))
    found = paper.check("Theorem 2", "quicksand")
    assert found.verdict == FAILS
    assert found.comment.startswith("counterexample: ")


@pytest.mark.parametrize("name", ["lemma_2", "lemma_1", "algorithm_2", "remark_1"])
def test_other_seeds_pass_too(name):
    other = paper.check(name, seed=11)
    assert other.passed, other


def test_the_same_seed_gives_the_same_claim():
    one, same, other = (paper.check("Theorem 1", "corridor", seed=seed) for seed in (1, 1, 2))
    assert one == same != other


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None, 2**64 - 1])
def test_seeds_are_whole_numbers(seed):
    with pytest.raises(ArgumentError, match="seed must be"):
        paper.check("Proposition 1", seed=seed)


# ---------------------------------------------------------------------- a broken library is noticed


def wrong_minimal(change):
    """A solver that returns changed budgets of choices."""

    def solve(mdp):
        true = asure.minimal_budget(mdp)
        return SimpleNamespace(
            of_choice=change(true.of_choice.astype(np.int64)),
            of_state=true.of_state,
            smallest_budget=true.smallest_budget,
        )

    return solve


def too_hopeful(mdp, samples, **options):
    """A kernel builder that observes damage although there is none."""
    kernel = asure.learn.count_outcomes(mdp, samples, **options)
    return replace(kernel, damage=np.minimum(kernel.damage + 1, 255).astype(np.uint8))


BREAKS = [
    ("termination", memory, "example", lambda name: asure.example("corridor")),
    ("proposition_1", memory, "solve_policy", lambda mdp, c: asure.solve_policy(mdp, asure.AlmostSure(c.budget // 2))),
    ("lemma_1", memory, "forget_budget", lambda image: tuple(image[:1])),
    ("lemma_2", memory, "solve_policy", lambda mdp, c: asure.solve_policy(mdp, asure.Expected(c.budget))),
    ("lemma_2", memory, "_shares", lambda often: dict.fromkeys(often, 1 / len(often))),
    ("lemma_3_decomposition", minimal, "evaluate", lambda mdp, p, budget=0: asure.evaluate(mdp, p, budget=budget)),
    ("lemma_3_bellman", minimal, "barrier", lambda mdp, budget: np.zeros((budget + 1, mdp.num_choices))),
    ("monotonicity", minimal, "barrier", lambda mdp, budget: paper.barrier(mdp, budget)[::-1]),
    ("definition_4", minimal, "minimal_budget", wrong_minimal(lambda k: np.minimum(k, 1))),
    ("theorem_1", asure.Shield, "is_feasible", lambda *arguments: True),
    ("theorem_2", minimal, "minimal_budget", wrong_minimal(lambda k: np.minimum(k, 2))),
    ("proposition_2", minimal.reference, "budget_operator", lambda mdp, k: -np.asarray(k)),
    ("algorithm_1", minimal.reference, "budget_operator", lambda mdp, k: np.asarray(k)),
    ("theorem_3", minimal, "minimal_budget", wrong_minimal(lambda k: k + 1)),
    ("algorithm_2", sampling, "count_outcomes", too_hopeful),
    ("lemma_4", sampling, "samples_needed", lambda *size, **options: asure.samples_needed(*size, **options) // 2),
    ("lemma_5", sampling, "minimal_budget", wrong_minimal(lambda k: k + 1)),
    ("remark_1", sampling, "minimal_budget", wrong_minimal(lambda k: k - 1)),
    ("remark_2", sampling, "trim", lambda minimal, budget: asure.shield.trim(minimal, budget - 1)),
    ("experiment_1_assured", experiments, "BUDGET", 4),
    ("experiment_1_expected", experiments, "DAMAGE_PROBABILITY", {1: 0.5, 2: 0.6}),
    ("experiment_2_assured", experiments, "DAMAGE_PROBABILITY", {1: 1.0, 2: 0.5}),
    ("experiment_2_assured", experiments, "negative_binomial", lambda p: experiments.geometric(5)),
    ("experiment_2_expected", experiments, "DAMAGE_PROBABILITY", {1: 1.0, 2: 0.5}),
    ("experiment_2_damage", experiments, "LIMITS", (1.0, 2.0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "where", "what", "broken"), BREAKS, ids=[row[0] for row in BREAKS])
@pytest.mark.usefixtures("fresh")
def test_a_broken_library_makes_the_claim_fail(name, where, what, broken, monkeypatch):
    monkeypatch.setattr(where, what, broken)
    if name == "experiment_2_damage":  # the two experiments must be about the same limits
        experiments.experiment(1, 0)
        monkeypatch.setattr(experiments, "DAMAGE_PROBABILITY", {1: 1.0, 2: 0.6})
        monkeypatch.setattr(experiments, "Expected", lambda limit: asure.Expected(2 * limit))
    if name == "experiment_1_assured":
        monkeypatch.setattr(experiments, "AlmostSure", lambda budget: asure.AlmostSure(budget + 1))
    found = paper.check(name)
    assert found.verdict == FAILS
    assert not found.passed
    assert found.comment.startswith("counterexample: ") or re.match(r"\w+: ", found.comment)


def test_an_error_of_the_library_refutes_a_claim(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(minimal, "barrier", refuse)
    found = paper.check("lemma_3_bellman")
    assert (found.verdict, found.comment) == (FAILS, "RuntimeError: no")


def test_an_interruption_is_not_a_refutation(monkeypatch):
    def stop(*_):
        raise Interrupted("stopped")

    monkeypatch.setattr(minimal, "barrier", stop)
    with pytest.raises(Interrupted, match="stopped"):
        paper.check("lemma_3_bellman")


def test_a_check_that_tries_nothing_fails():
    @claim("Nothing", "at all")
    def nothing(trial: Trial) -> str:
        """Try no case."""
        return "all is well"

    assert nothing().verdict == FAILS


# ---------------------------------------------------------------------- closed forms and searches


@pytest.mark.parametrize("number", [1, 2])
def test_the_experiments_are_exact(number):
    p = experiments.DAMAGE_PROBABILITY[number]
    found = paper.experiment(number)
    np.testing.assert_allclose(found.assured.reward, experiments.negative_binomial(p), atol=1e-12)
    np.testing.assert_allclose(found.assured.damage, np.eye(experiments.SUPPORT)[5], atol=1e-12)
    for limit, run in found.expected.items():
        np.testing.assert_allclose(run.reward, experiments.geometric(limit / p), atol=1e-11)
        np.testing.assert_allclose(run.damage, experiments.geometric(limit), atol=1e-11)
        assert run.facts.overspends == pytest.approx((limit / (1 + limit)) ** 6, abs=1e-12)


def test_the_distributions_have_their_moments():
    counts = np.arange(experiments.SUPPORT)
    assert counts @ experiments.negative_binomial(0.6) == pytest.approx(25 / 3)
    assert experiments.spread(experiments.negative_binomial(0.6)) == pytest.approx(math.sqrt(5 * 0.4) / 0.6)
    assert counts @ experiments.geometric(3) == pytest.approx(3)


def test_the_searches_are_right_on_a_known_model():
    mdp, rng = asure.example("paper"), np.random.default_rng(0)
    assert search.policies(mdp, 0, rng) == [{(0, 0): 0}, {(0, 0): 1}]
    assert len(search.policies(mdp, 2, rng)) == 8
    assert search.overspends(mdp, {(0, 0): 0, (0, 1): 1}, 0)
    assert not search.overspends(mdp, {(0, 0): 1, (0, 1): 0}, 1)
    assert search.unrolled(mdp).num_states == 13  # circle after 0 … 6 steps, square after 1 … 6
    followed = list(search.follow(search.unrolled(mdp), lambda history, left: {0: 0.5, 1: 0.5}, 2))
    assert [item[1:] for item in followed if len(item[0]) == 5] == [(2, 0.5, 0.0), (1, 0.5, 1.0)]
    assert sum(chance for history, _, chance, _ in followed if len(history) == 25 or history[-4:-1] == (1, 0, 0)) == 1


def test_outcomes_too_rare_to_see_or_to_sample():
    rows = [(0, 0, 1, 1 - 1e-12, 1, 0), (0, 0, 1, 1e-12, 0, 255), (0, 1, 1, 1, 0, 0)]
    mdp = asure.from_transitions(*zip(*rows, strict=True), terminal=[1])
    for seed in range(4):  # some of the policies play the action that does damage once in 10¹² times
        assert paper.check("Lemma 1", mdp, seed=seed).passed
    claim = paper.check("Remark 1", mdp)
    assert claim.passed
    assert "too many to draw" in claim.value
