"""Completion, the model that a command line names, and what bad names are answered with."""

from types import SimpleNamespace

import pytest

import almostsure as asure
from almostsure.cli.commands.learning import LEARNERS
from almostsure.cli.options import Task, complete_action, complete_learner, complete_model, complete_state
from almostsure.cli.output import budget_column
from almostsure.errors import ModelError, UnknownName

PROGRAM = """mdp
module walk
  x : [0..3] init 0;
  [go] x<3 -> 0.5:(x'=x+1) + 0.5:(x'=0);
endmodule
label "wet" = x=2;
rewards "fuel" [go] true : 1; endrewards
"""


def before(model: str) -> SimpleNamespace:
    return SimpleNamespace(params={"model": model})


def test_states_actions_and_learners_are_completed() -> None:
    assert list(complete_state(before("quicksand"), "r2c"))[:2] == ["r2c1", "r2c2"]
    assert list(complete_action(before("quicksand"), "e")) == ["east"]
    assert "shielded" in list(complete_learner("sh"))
    assert list(complete_learner("")) == list(LEARNERS)
    assert "gym:almostsure/Warehouse-v0" in list(complete_model("gym:"))


def test_completion_of_an_unknown_model_offers_nothing() -> None:
    assert list(complete_state(before("quicksnad"), "r")) == []
    assert list(complete_action(before(""), "")) == []


def test_environments_of_this_package_have_models() -> None:
    assert Task("budget", "gym:almostsure/Warehouse-v0").mdp.num_states == 3921
    with pytest.raises(UnknownName, match=r"Did you mean 'almostsure/Warehouse-v0'\?"):
        _ = Task("budget", "gym:almostsure/Warehouse").mdp
    with pytest.raises(ModelError, match="--damage must be left out: almostsure/Warehouse-v0 has its own model"):
        _ = Task("budget", "gym:almostsure/Warehouse-v0", damage="reward<0").mdp


def test_a_program_without_damage_says_what_it_has(tmp_path) -> None:
    pytest.importorskip("stormpy")
    path = tmp_path / "walk.prism"
    path.write_text(PROGRAM)
    with pytest.raises(ModelError, match=r"--damage NAME\. .* has labels 'wet'; rewards 'fuel'; actions 'go'"):
        _ = Task("budget", str(path)).mdp


def test_a_program_whose_constants_have_no_value_says_what_it_has_too(tmp_path) -> None:
    pytest.importorskip("stormpy")
    path = tmp_path / "walk.prism"
    path.write_text(
        PROGRAM.replace("module walk", 'const double p;\n// label "dry" = x=1;\nmodule walk').replace(
            "0.5:(x'=0)", "p:(x'=0)"
        )
    )
    names = r"It has labels 'wet'; rewards 'fuel'\. constants must have a value; p has none\. Pass --constants 'p=…'"
    with pytest.raises(ModelError, match=rf"--damage NAME\. {names}"):
        _ = Task("budget", str(path)).mdp


def test_scaled_budgets_have_a_heading_for_both_units() -> None:
    mdp = asure.example("corridor")
    assert budget_column(mdp) == ("Δ", str)
    title, shown = budget_column(mdp.with_damage(mdp.damage * 1.0, scale=0.5))
    assert (title, shown(3)) == ("Δ (in the file's unit)", "3 (1.5)")
