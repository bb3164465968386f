"""Shell completion, naming the model, and the errors for wrong names."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.main import get_command

import almostsure as asure
from almostsure.budget.solve import minimal_budget
from almostsure.cli.app import app
from almostsure.cli.commands.check import run_checker
from almostsure.cli.commands.learn import LEARNERS
from almostsure.cli.exits import BAD_MODEL
from almostsure.cli.options import complete_model
from almostsure.cli.output import budget_column
from almostsure.cli.task import Task, complete_action, complete_state
from almostsure.errors import ArgumentError, UnknownName
from almostsure.learn.learners import learners
from almostsure.model.origin import Origin

PROGRAM = """mdp
module walk
  x : [0..3] init 0;
  [go] x<3 -> 0.5:(x'=x+1) + 0.5:(x'=0);
endmodule
label "wet" = x=2;
rewards "fuel" [go] true : 1; endrewards
"""


def refusal(done) -> str:
    """What a command says that does not understand its model."""
    assert done.code == BAD_MODEL
    return done.err


def before(model: str) -> SimpleNamespace:
    return SimpleNamespace(params={"model": model})


def test_states_actions_and_learners_are_completed() -> None:
    assert list(complete_state(before("quicksand"), "r2c"))[:2] == ["r2c1", "r2c2"]
    assert list(complete_action(before("quicksand"), "e")) == ["east"]
    learner = next(one for one in get_command(app).commands["compare"].params if one.name == "learner")
    assert [item.value for item in learner.shell_complete(SimpleNamespace(params={}), "sh")] == ["shielded"]
    assert list(LEARNERS) == list(learners)
    assert "gym:almostsure/Warehouse-v0" in list(complete_model("gym:"))


def test_completion_of_an_unknown_model_offers_nothing() -> None:
    assert list(complete_state(before("quicksnad"), "r")) == []
    assert list(complete_action(before(""), "")) == []


def test_environments_of_this_package_are_registered_when_they_are_asked_for() -> None:
    code = "from almostsure.cli.task import Task; print(Task('models', 'gym:almostsure/Paper-v0').mdp)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("<MDP: 2 states")


BOAT = """
import gymnasium

class Boat(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(2)

    def __init__(self, rock=1, wind=0):
        self.rock, self.wind = rock, wind

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self.at, {}

    def step(self, far):
        self.at = min(self.at + 1 + int(far) + self.wind, 3)
        return self.at, 1.0, self.at == 3, False, {"cost": int(self.at == self.rock)}

gymnasium.register("Boat-v0", entry_point=Boat)
"""


@pytest.fixture
def harbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The working directory has a module that registers a boat, which nobody knows afterwards."""
    import gymnasium

    (tmp_path / "boat_for_options.py").write_text(BOAT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("boat_for_options", None)
    gymnasium.registry.pop("Boat-v0", None)


@pytest.mark.usefixtures("harbour")
def test_an_environment_that_says_its_damage_is_played() -> None:
    boat = Task("budget", "gym:boat_for_options:Boat-v0", damage="cost", constants="rock=2")
    assert minimal_budget(boat.mdp).of("0", 1) == 1
    assert minimal_budget(boat.mdp).smallest_budget() == 0
    with pytest.raises(
        ArgumentError, match=r"almostsure convert gym:boat_for_options:Boat-v0 --damage cost .* model\.umb"
    ):
        run_checker(boat, Path("budget.safetensors"))


@pytest.mark.usefixtures("harbour")
def test_a_played_environment_is_asked_for_the_damage_that_was_named(here) -> None:
    boat = "gym:boat_for_options:Boat-v0"
    assert minimal_budget(Task("budget", boat, damage="cost", constants="rock=3").mdp).smallest_budget() == 1
    assert "under 'damage'; it has ['cost'] after 0, action 0. Pass --damage, a rule" in refusal(
        here("budget", boat, "--damage", "damage")
    )
    cliff = here("budget", "gym:CliffWalking-v1", "--damage", "cost")  # whose ready rule was not asked for
    assert "info must hold the damage under 'cost'" in refusal(cliff)


@pytest.mark.usefixtures("harbour")
@pytest.mark.parametrize("option", ["scale", "reward", "cost", "goal"])
@pytest.mark.parametrize("damage", ["cost", "terminated"])
def test_an_environment_has_its_own_reward_whether_it_is_played_or_read(here, option: str, damage: str) -> None:
    done = here("budget", "gym:boat_for_options:Boat-v0", "--damage", damage, f"--{option}", "2")
    assert f"--{option} must be left out: an environment has its own reward" in refusal(done)


@pytest.mark.usefixtures("harbour")
def test_what_is_proved_of_a_played_environment_is_proved_of_what_was_found(here) -> None:
    boat = ("gym:boat_for_options:Boat-v0", "--damage", "cost")
    told = "Found by playing every action 4 times"
    assert here("budget", *boat, "--json").json["model"]["learned"].startswith(told)
    assert "in the model, which was found by playing, proved to lie in" in here("solve", *boat, "--budget", "0").out
    here("convert", *boat, "boat.umb")
    here("budget", "boat.umb", "-o", "boat.safetensors")
    checked = here("check", "boat.umb", "boat.safetensors").out
    assert told in checked
    assert "Proved, of the model as it was found: " in checked


@pytest.mark.usefixtures("harbour")
def test_a_played_environment_that_fails_was_made_all_the_same(here) -> None:
    boat = ("budget", "gym:boat_for_options:Boat-v0", "--damage", "cost", "--constants")
    assert "cannot be made with {'sail': 3}" in here(*boat, "sail=3").err
    failed = here(*boat, "wind=strong")
    assert failed.code == 3
    assert "the environment failed at step(0), after it showed 0: TypeError: " in failed.err
    assert "cannot be made" not in failed.err


@pytest.mark.usefixtures("harbour")
def test_a_played_environment_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium

    closed = []
    monkeypatch.setattr(gymnasium.Env, "close", lambda env: closed.append(env))
    _ = Task("budget", "gym:boat_for_options:Boat-v0", damage="cost").mdp
    assert len(closed) == 1


def test_environments_of_this_package_have_models(here) -> None:
    assert Task("budget", "gym:almostsure/Warehouse-v0").mdp.num_states == 3921
    with pytest.raises(UnknownName, match=r"Did you mean 'almostsure/Warehouse-v0'\?"):
        _ = Task("budget", "gym:almostsure/Warehose").mdp
    for damage in ("reward<0", "cost"):
        done = here("budget", "gym:almostsure/Warehouse-v0", "--damage", damage)
        assert "--damage must be left out: almostsure/Warehouse-v0 has its own model" in refusal(done)


def test_a_program_without_damage_says_what_it_has(here, tmp_path) -> None:
    pytest.importorskip("stormpy")
    (tmp_path / "walk.prism").write_text(PROGRAM)
    said = refusal(here("budget", "walk.prism"))
    assert re.search(r"--damage NAME\. .* has labels 'wet'; rewards 'fuel'; actions 'go'", said)


def test_a_program_whose_constants_have_no_value_says_what_it_has_too(here, tmp_path) -> None:
    pytest.importorskip("stormpy")
    (tmp_path / "walk.prism").write_text(
        PROGRAM.replace("module walk", 'const double p;\n// label "dry" = x=1;\nmodule walk').replace(
            "0.5:(x'=0)", "p:(x'=0)"
        )
    )
    names = "It has labels 'wet'; rewards 'fuel'. constants must have a value; p has none. Pass --constants 'p=…'."
    assert f"--damage NAME. {names}" in refusal(here("budget", "walk.prism"))


def test_scaled_budgets_have_a_heading_for_both_units() -> None:
    mdp = asure.example("corridor")
    assert budget_column(mdp) == ("Δ", str)
    title, shown = budget_column(mdp.with_damage(mdp.damage * 1.0, scale=0.5))
    assert (title, shown(3)) == ("Δ (in the file's unit)", "3 (1.5)")


# ---------------------------------------------------------------------- what all commands share

OWN = """
import gymnasium

class Step(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(1)
    P = {0: {0: [(1.0, 1, -1.0, True)]}, 1: {0: [(1.0, 1, 0.0, True)]}}
    initial_state_distrib = [1.0, 0.0]

gymnasium.register("OneStep-v0", entry_point=Step)
"""


def test_a_module_of_the_working_directory_registers_an_environment(here, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "one_step_of_mine.py").write_text(OWN)
    (tmp_path / "json.py").write_text("raise SystemExit('taken for the installed one')")
    model = "gym:one_step_of_mine:OneStep-v0"
    given = (model, "--damage", "reward<0")
    assert here("budget", *given, "-o", "b.safetensors", "--json").json["minimal_budget"] == 1
    assert sys.path[-1] == str(tmp_path)  # behind all others
    shown = here("check", *given, "b.safetensors").out
    assert "the certificate holds" in shown
    assert "and the module one_step_of_mine, which read gym:one_step_of_mine" in " ".join(shown.split())
    assert Task("budget", "gym:FrozenLake-v1").module == Task("budget", "a:b.umb").module == ""


@pytest.mark.parametrize(("text", "risk"), [("5%", 0.05), ("0.1 %", 0.001), ("0.25", 0.25), ("1e-3", 0.001)])
def test_probabilities_are_numbers_or_percentages(here, text: str, risk: float) -> None:
    asked = here("solve", "corridor", "--budget", "1", "--risk", text, "--json").json["constraint"]
    assert asked == {"kind": "chance", "budget": 1, "limit": None, "risk": risk}


@pytest.mark.parametrize("text", ["5x", "%", "1/0%", "five"])
def test_what_is_no_probability(here, text: str) -> None:
    for line in (["solve", "corridor", "--budget", "1", "--risk"], ["learn", "corridor", "--mu"]):
        done = here(*line, text)
        assert done.code == 2
        assert f"'{text}' is not a probability, such as 0.05 or 5%" in " ".join(done.err.split())


def test_without_a_budget_all_commands_take_the_same(here) -> None:
    for model, budget in (("corridor", 3), ("quicksand", 4)):
        assert here("solve", model, "--json").json["constraint"]["budget"] == budget
        assert here("simulate", model, "-n", "10", "--json").json["budget"] == budget
        assert here("frontier", model, "--json").json["budget"] == budget
        few = ("-l", "shielded", "--steps", "50", "--seeds", "1")
        assert here("compare", model, *few, "--json").json["budget"] == budget
    here("report", "corridor", "-o", "page.html", "--time-limit", "1")
    assert "this report is about 3: the first after which more hardly pays" in Path("page.html").read_text("utf-8")


def test_states_of_programs_are_named_by_their_variables_in_any_order(here, tmp_path):
    names = ["up=false, x=0", "up=true, x=1"]
    variables = {"up": np.array([False, True]), "x": np.array([0, 1], np.int8)}
    mdp = asure.from_transitions([0], [0], [1], [1], [0], [1], terminal=[1], state_names=names)
    mdp.with_origin(Origin(variables=variables)).save(tmp_path / "switch.umb")
    assert "up=false, x=0 needs 1" in here("explain", "switch.umb", "x=0, up=false").out
    assert "missing here: up" in here("explain", "switch.umb", "x=0").err
