"""All results at a prompt, in a notebook and as a picture: readable text, and axes that are returned."""

import pytest

import almostsure as asure
from almostsure.errors import ModelError, UnknownName
from almostsure.learn import Episode, Ledger, learners

plt = pytest.importorskip("matplotlib.pyplot", reason="needs the extra almostsure[plot]")


@pytest.fixture(scope="module")
def results():
    mdp = asure.example("corridor")
    minimal, solution = asure.minimal_budget(mdp), asure.solve_policy(mdp, asure.AlmostSure(3))
    ledger = Ledger()
    ledger.note(Episode(1, steps=5, reward=3.0, damage=1, budget=2, interventions=0, ended="terminated"))
    return {
        "MDP": mdp,
        "MinimalBudget": minimal,
        "Shield": asure.Shield(minimal),
        "Policy": solution.policy,
        "Solution": solution,
        "Evaluation": asure.evaluate(mdp, solution.policy),
        "Episodes": asure.simulate(mdp, solution.policy, 100, seed=1),
        "Explanation": asure.minimal_budget("quicksand").explain("r2c2"),
        "Frontier": asure.plan.frontier(mdp, 2, risks=[0, 0.1]),
        "Suggestion": asure.plan.suggest_budget(mdp),
        "LearnedBudget": asure.learn_minimal_budget(mdp, mu=0.1, delta=0.05, seed=1),
        "Ledger": ledger,
        "Comparison": asure.compare(mdp, 2, ["shielded"], steps=200, seeds=1),
    }


RESULTS = ["MDP", "MinimalBudget", "Shield", "Policy", "Solution", "Evaluation", "Episodes", "Explanation"]
RESULTS += ["Frontier", "Suggestion", "LearnedBudget", "Ledger", "Comparison"]


def test_numbers_are_in_one_column(results):
    lines = str(results["Evaluation"]).splitlines()
    assert len(lines) == 6
    assert all(line[16] == " " and line[17] not in " " for line in lines)


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_readable_at_a_prompt(results, name):
    for text in (repr(results[name]), str(results[name])):
        assert f"{name}(" not in text
        assert "array(" not in text
        assert max(map(len, text.splitlines())) < 200
    if name != "Comparison":
        assert repr(results[name]).startswith(f"<{name}: ")


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_a_card_in_a_notebook(results, name):
    assert results[name]._repr_html_().startswith("<")


@pytest.mark.parametrize("name", ["MDP", "MinimalBudget", "Policy", "Episodes", "Frontier", "Suggestion", "Comparison"])
def test_a_result_is_drawn_on_axes(results, name):
    given = plt.subplots()[1]
    assert results[name].plot(ax=given) is given
    made = results[name].plot()
    made.figure.canvas.draw()
    assert made is not given
    plt.close("all")


def test_models_without_a_map_have_bars_or_an_error_with_a_remedy():
    mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    assert asure.minimal_budget(mdp).plot().get_xlabel() == "minimal budget"
    with pytest.raises(ModelError, match="almostsure report draws any model"):
        mdp.plot()
    plt.close("all")


def test_a_policy_is_drawn_for_a_remaining_budget(results):
    whole, little = (results["Policy"].plot(remaining=left) for left in (3, 0))
    assert [text.get_text() for text in whole.texts] != [text.get_text() for text in little.texts]
    assert little.get_title() == "with 0 left"
    plt.close("all")


def test_an_unknown_measure_gets_a_suggestion(results):
    with pytest.raises(UnknownName, match="Did you mean 'return'"):
        results["Comparison"].plot(measure="returns")


def test_results_of_training_and_counting_are_readable_too():
    run = learners.ShieldedQ().train("corridor", 3, steps=300, seed=0)
    assert repr(run).startswith("<Training: ")
    assert "array(" not in repr(run)
    assert repr(learners.learn_barrier("corridor", steps=300, seed=0)).startswith("<Barrier: ")
    learned = asure.learn_minimal_budget("corridor", mu=0.1, delta=0.05, seed=1)
    assert repr(learned.counts).startswith("<Counts: ")
