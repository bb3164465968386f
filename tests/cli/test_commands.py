"""Every command, in a process of its own, as text and as JSON; and the JSON is what the documentation says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import almostsure as asure

DOCS = Path(__file__).resolve().parents[2] / "docs" / "json.md"
SIZES = {"name", "fingerprint", "states", "choices", "outcomes", "learned"}
# The paper's checks and figures take a quarter of a minute; three checks show the command as well.
FEWER_CHECKS = """
from almostsure.paper import reproduction
reproduction.CLAIMS = reproduction.CLAIMS[:3]
reproduction.FIGURES = {}
from almostsure.cli import main
main()
"""
COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {  # by name: arguments, and what the text must say
    "demo": (("-o", "report.html"), r"never more than 3 +31\.54 +2\.05 +3 +0 %"),
    "models": (("quicksand",), r"# ~ S \. ~ \. # # \. \. \. #"),
    "budget": (("saved.umb", "-o", "new.safetensors"), r"the start +needs a budget of 2"),
    "explain": (("quicksand", "r2c2"), r"r2c2 needs 2: nature can force 2 damage"),
    "suggest": (("hazard-map",), r"suggested +9: more than 9 hardly pays"),
    "frontier": (("corridor", "--budget", "2"), r"never more +on average +difference"),
    "solve": (("hazard-map", "--budget", "3"), r"best return +31\.53587464"),
    "simulate": (("hazard-map", "--budget", "3", "-n", "500"), r"0 of 500 episodes took more than 3 damage"),
    "learn": (("hazard-map", "--budget", "1"), r"with probability at least 0\.95"),
    "compare": (
        ("corridor", "--budget", "3", "--steps", "300", "--seeds", "1", "-l", "shielded", "-o", "rows.csv"),
        r"shielded Q-learning +0 +0 %",
    ),
    "abstract": (
        ("Pendulum-v1", "--cells", "60,60", "-o", "upright.safetensors"),
        r"the start +needs a budget of at most 0",
    ),
    "check": (("saved.umb", "saved.safetensors"), r"saved\.safetensors: the certificate holds"),
    "convert": (("paper", "paper.umb"), r"paper: 2 states, 3 choices → paper\.umb"),
    "export": (("quicksand", "shield.h", "--budget", "5"), r"quicksand: 86 states, 317 choices → shield\.h"),
    "report": (("paper", "--budget", "2", "-o", "paper.html"), r"The report is paper\.html"),
    "paper": (("-o", "figures"), r"Proposition 1 .* holds"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("commands")
    mdp = asure.example("quicksand")
    mdp.save(path / "saved.umb")
    asure.minimal_budget(mdp).save(path / "saved.safetensors")
    return path


def call(command: str, folder: Path, environment: Callable[..., dict[str, str]], *more: str) -> Any:
    program = ["-c", FEWER_CHECKS] if command == "paper" else ["-m", "almostsure"]
    return subprocess.run(
        [sys.executable, *program, command, *COMMANDS[command][0], *more],
        capture_output=True, encoding="utf-8", cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
    )  # fmt: skip


def documented(command: str) -> set[str]:
    """The keys that the page lists for a command, beside those that all have."""
    section = DOCS.read_text("utf-8").partition(f"\n## `{command}`\n")[2].partition("\n#")[0]
    return set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))


@pytest.mark.parametrize("command", COMMANDS)
def test_as_text(command: str, folder: Path, environment: Callable[..., dict[str, str]]) -> None:
    done = call(command, folder, environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert re.search(COMMANDS[command][1], done.stdout), done.stdout
    *_, last = re.split(r"\n(?=Next:)", done.stdout)
    assert last.startswith("Next:")
    assert "almostsure " in last or "file://" in last


@pytest.mark.parametrize("command", COMMANDS)
def test_as_json(command: str, folder: Path, environment: Callable[..., dict[str, str]]) -> None:
    done = call(command, folder, environment, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "NaN" not in done.stdout
    assert "Infinity" not in done.stdout
    found = json.loads(done.stdout)
    assert found["command"] == command
    assert found["version"] == asure.__version__
    assert (found["model"] is None) == (command == "paper")
    assert command == "paper" or set(found["model"]) == SIZES
    assert set(found) - {"command", "version", "model"} == documented(command)


def test_every_command_is_tested() -> None:
    from almostsure.cli.app import app

    assert {command.name for command in app.registered_commands} == set(COMMANDS)


# ---------------------------------------------------------------------- what they answer


def test_budget_saves_what_check_verifies(here: Callable[..., Any]) -> None:
    assert here("budget", "quicksand", "-o", "budget.safetensors").code == 0
    done = here("check", "quicksand", "budget.safetensors", "--json")
    assert done.code == 0
    assert done.json["verdict"] == "verified"
    assert done.json["minimal_budget"] == 2


def test_infinity_is_a_word(here: Callable[..., Any]) -> None:
    found = here("budget", "quicksand", "--json").json
    assert found["histogram"][-1] == {"minimal_budget": "inf", "states": 18}
    assert "inf" in found["of_state"]
    assert here("solve", "gym:FrozenLake-v1", "--budget", "0", "--json").json["expected_length"] == "inf"
    assert here("solve", "paper", "--limit", "3", "--json").json["worst_damage"] == "inf"


def test_budgets_of_states_have_names_to_join_by(here: Callable[..., Any]) -> None:
    found = here("budget", "quicksand", "--json").json
    needs = dict(zip(found["state_names"], found["of_state"], strict=True))
    assert needs["r2c2"] == 2
    asure.from_transitions([0], [0], [1], [1], [0], [0], terminal=[1]).save(Path("plain.umb"))
    assert here("budget", "plain.umb", "--json").json["state_names"] is None


def test_no_damage_on_average_is_solved_and_shown(here: Callable[..., Any]) -> None:
    shown = here("solve", "hazard-map", "--limit", "0").out
    assert "worst damage  0" in shown
    assert "deterministic, on states, of 134 states\n" in shown
    assert "remaining" not in shown


def test_the_next_step_is_about_the_same_problem(here: Callable[..., Any]) -> None:
    shown = here("solve", "corridor", "--limit", "0.3", "--discount", "0.9").out
    assert "discounted    0.3 of 0.3 damage" in shown
    assert shown.endswith(
        "  almostsure simulate corridor --limit 0.3 --discount 0.9\n"
        "  almostsure report corridor --limit 0.3 --discount 0.9\n"
    )
    shown = here("frontier", "corridor", "--budget", "2", "--discount", "0.9").out
    assert shown.endswith("  almostsure report corridor --budget 2 --discount 0.9\n")
    shown = here("solve", "corridor", "--budget", "3", "--horizon", "6").out
    assert shown.endswith("Next: almostsure simulate corridor --budget 3 --horizon 6\n")
    shown = here("solve", "corridor", "--budget", "3", "--horizon", "6", "--discount", "0.9").out
    assert shown.endswith("Next: almostsure simulate corridor --budget 3 --horizon 6 --discount 0.9\n")
    played = here("simulate", "corridor", "--budget", "3", "--horizon", "6", "--discount", "0.9", "-n", "10").out
    assert played.endswith("Next: almostsure solve corridor --budget 3 --horizon 6 --discount 0.9\n")
    shown = here("solve", "corridor", "--budget", "3", "--risk", "0.12345678").out
    assert "--budget 3 --risk 0.12345678\n" in shown
    refused = here("solve", "quicksand", "--budget", "0", "--horizon", "20", "--discount", "0.9").err
    assert re.search(r"Next: almostsure solve quicksand --budget \d --horizon 20 --discount 0\.9$", refused.rstrip())
    shown = here("export", "quicksand", "q.py", "--budget", "2", "--risk", "0.25", "--horizon", "20").out
    assert shown.endswith("Next: almostsure solve quicksand --budget 2 --risk 0.25 --horizon 20\n")
    shown = here("abstract", "MountainCar-v0", "--cells", "20,20", "--pattern", "2", "--cap", "3").out
    assert "almostsure abstract MountainCar-v0 --cells 20,20 --cap 3 --pattern 3\n" in shown
    shown = here("abstract", "MountainCar-v0", "--cells", "20,20", "--cap", "3").out
    assert "Next:" not in shown  # 3^13 sequences would be too many


def test_a_shield_that_refuses_the_start_is_exported_with_a_warning(here: Callable[..., Any]) -> None:
    for options, why in (
        (("--budget", "1"), "warning: the start needs 2: with a budget of 1 this shield refuses it\n"),
        (
            ("--budget", "1", "--horizon", "50"),
            "warning: the start needs more than the cap 1: with a budget of 1 this shield refuses it\n",
        ),
        (("--budget", "2"), ""),
        ((), ""),
    ):
        done = here("export", "quicksand", "q.py", *options, "--json")
        assert (done.code, done.err) == (0, why)


def test_export_has_one_empty_line_before_the_next_step(here: Callable[..., Any]) -> None:
    out = here("export", "quicksand", "q.py").out
    assert "\n\nNext:" in out
    assert "\n\n\n" not in out


def test_what_has_no_value_is_null(here: Callable[..., Any]) -> None:
    curve = here("solve", "quicksand", "--budget", "2", "--json").json["curve"]
    assert curve[:2] == [None, None]
    assert curve[2] == pytest.approx(asure.solve_policy("quicksand", asure.AlmostSure(2)).value)


def test_solve_takes_all_three_constraints(here: Callable[..., Any]) -> None:
    for options, kind in (
        (("--budget", "3"), "almost sure"),
        (("--limit", "3"), "expected"),
        (("--budget", "3", "--risk", "0.1"), "chance"),
        ((), "almost sure"),
    ):
        assert here("solve", "hazard-map", *options, "--json").json["constraint"]["kind"] == kind


def test_simulate_plays_a_saved_policy(here: Callable[..., Any]) -> None:
    assert here("solve", "hazard-map", "--budget", "3", "-o", "policy.safetensors").code == 0
    done = here("simulate", "hazard-map", "--policy", "policy.safetensors", "-n", "50", "--show", "0", "--json").json
    direct = asure.simulate("hazard-map", asure.solve_policy("hazard-map", asure.AlmostSure(3)), 50, seed=0)
    assert done["mean_return"] == pytest.approx(direct.returns.mean())
    assert done["overspent"] == 0
    assert done["trajectory"][0]["state"] == "r6c0"
    assert "Episode 0" in here("simulate", "paper", "--budget", "2", "-n", "5", "--show", "0").out


def test_simulate_plays_what_solve_finds_with_the_same_discount(here: Callable[..., Any]) -> None:
    # 5 at once, or 6 after a step: which is better depends on the discount.
    rows = [(0, 0, 2, 1, 5, 0), (0, 1, 1, 1, 0, 0), (1, 0, 2, 1, 6, 0)]
    asure.from_transitions(*zip(*rows, strict=True), terminal=[2]).save("m.umb")
    for discount, mean in (("1", 6.0), ("0.5", 5.0)):
        options = ("m.umb", "--budget", "0", "--discount", discount)
        assert here("solve", *options, "--json").json["value"] == pytest.approx(mean)
        played = here("simulate", *options, "-n", "5", "--json").json
        assert (played["mean_return"], played["discount"]) == (mean, float(discount))
    assert here("solve", "m.umb", "--budget", "0", "-o", "patient.safetensors").code == 0
    of_policy = ("simulate", "m.umb", "--policy", "patient.safetensors", "--discount", "0.5", "-n", "5")
    assert here(*of_policy, "--json").json["mean_return"] == 3.0
    assert "return (discount 0.5)     3      3     3           3\n" in here(*of_policy).out


def test_solve_keeps_the_tolerance_asked_for(here: Callable[..., Any]) -> None:
    loose = here("solve", "hazard-map", "-b", "3", "--tolerance", "0.01", "--json").json
    assert loose["lower"] <= 31.5358747
    assert loose["upper"] >= 31.5358746
    assert loose["upper"] - loose["lower"] <= 0.01
    assert "proved to lie in" in here("solve", "hazard-map", "-b", "3", "--tolerance", "0.01").out
    assert here("solve", "paper", "--tolerance", "0").code == 2


def test_an_unbounded_return_names_the_option_and_the_states(here: Callable[..., Any]) -> None:
    rows = [(0, 0, 1, 1, 1, 0), (1, 0, 0, 1, 0, 0)]
    asure.from_transitions(*zip(*rows, strict=True), state_names=["a=0, b=1", "a=1, b=0"]).save("m.umb")
    refused = here("solve", "m.umb", "--budget", "0")
    assert refused.code == 1
    said = " ".join(refused.err.split())
    assert "among: a=0, b=1; a=1, b=0. Give the cycle a cost, or use --discount below 1." in said


def test_tables_say_which_budgets_they_leave_out(here: Callable[..., Any]) -> None:
    long = " ".join(here("suggest", "paper", "--most", "40").out.split())
    assert "16 of 41 rows are shown; --json has all" in long
    assert "are shown" not in here("suggest", "paper", "--most", "5").out


def test_simulate_cuts_episodes(here: Callable[..., Any]) -> None:
    done = here("simulate", "hazard-map", "-b", "3", "-n", "20", "--max-steps", "5", "--json").json
    assert done["truncated"] == 20


def test_explain_tells_of_traps(here: Callable[..., Any]) -> None:
    done = here("explain", "quicksand", "r7c3")
    assert done.code == 0
    assert "It goes round for ever, with damage each time: r7c3 → r7c3." in done.out
    assert here("explain", "quicksand", "r2c2", "north", "--json").json["minimal_budget"] == 4
    assert here("explain", "paper", "0", "0", "--json").json["minimal_budget"] == 1  # by number


def test_no_finite_budget_is_a_negative_answer(here: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "lost.txt").write_text("SX")
    (tmp_path / "stuck.map").write_text("X")
    trapped = asure.from_transitions([0], [0], [0], [1], [0], [1])
    trapped.save(tmp_path / "trapped.umb")
    done = here("budget", "trapped.umb")
    assert done.code == 1
    assert "no finite budget suffices" in done.out
    assert here("solve", "trapped.umb").code == 1
    assert here("budget", "lost.txt").code == 0


def test_learn_reads_a_log(here: Callable[..., Any], tmp_path: Path) -> None:
    rows = ["state,action,next_state,damage,terminated", *["0,0,0,1,0", "0,0,0,0,0", "0,1,1,0,1"] * 60]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    done = here("learn", "log.csv", "--mu", "0.2", "-o", "log.umb", "--json")
    assert done.json["exact_minimal_budget"] is None
    assert done.json["output"] == ["log.umb", "log.safetensors"]
    assert here("check", "log.umb", "log.safetensors").code == 0
    assert done.code == 0
    shown = " ".join(here("learn", "log.csv", "--mu", "0.1234567", "--delta", "0.001").out.split())
    assert shown.endswith("almostsure learn log.csv --mu 0.1234567 --delta 0.001 -o learned.umb")
    refused = here("learn", "log.csv")
    assert refused.code == 2
    assert "--mu 0.05" in refused.err


def test_compare_says_that_a_model_was_learned(here: Callable[..., Any]) -> None:
    learned = here("learn", "corridor", "--mu", "0.3", "-o", "learned.umb")
    assert learned.code == 0
    done = here("compare", "learned.umb", "--budget", "2", "--steps", "300", "--seeds", "1", "-l", "shielded")
    assert "The model: Learned from" in " ".join(done.out.split())


def test_compare_says_what_its_numbers_are(here: Callable[..., Any]) -> None:
    about = ("compare", "corridor", "--budget", "2", "--steps", "300", "-l", "unconstrained", "--seeds")
    many = " ".join(here(*about, "5").out.split())
    assert re.search(r"unconstrained Q-learning [\d.]+ ± [\d.]+ ", many)
    assert "Numbers are means over 5 seeds, violations included, ± 95 % confidence." in many
    few = " ".join(here(*about, "2").out.split())
    assert "±" not in few
    assert re.search(r"unconstrained Q-learning [\d.]+ … [\d.]+ ", few)
    assert "Ranges are from the least to the largest of 2 seeds." in few


def test_learn_says_no_where_no_budget_suffices(here: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "short.csv").write_text("state,action,next_state,damage\n0,0,0,1\n")
    done = here("learn", "short.csv", "--mu", "0.2", "-o", "learned.umb")
    assert done.code == 1
    assert "its minimal budget is unknown" in done.out
    budget = here("budget", "learned.umb").out
    assert "the start    no finite budget is known to suffice" in budget
    assert "1 state is not known to be safe with any finite budget." in budget
    assert "no budget up to 3 is known to suffice" in here("budget", "learned.umb", "--cap", "3").out
    assert "what 0 needs is unknown" in here("explain", "learned.umb").out
    assert "claims   what the start needs is unknown" in here("check", "learned.umb", "learned.safetensors").out
    assert "no finite budget is known to suffice from the start" in here("suggest", "learned.umb").err
    assert here("report", "learned.umb", "-o", "r.html").code == 0
    assert "The minimal budget of the start is unknown" in (tmp_path / "r.html").read_text("utf-8")


def test_models_are_named_the_same_way_everywhere(here: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "walk.map").write_text("S.~.G\n..#..")
    for name, more in (
        ("walk.map", ("--constants", "slip=0.1,step_reward=-1")),
        ("paper", ("--constants", "damage_probability=0.6")),
        ("gym:FrozenLake-v1", ("--constants", "is_slippery=false")),
        ("gym:CliffWalking-v1", ("--damage", "2 if reward<=-100")),
    ):
        for command in ("budget", "explain", "solve"):
            assert here(command, name, *more).code == 0
    assert here("budget", "gym:CliffWalking-v1", "--damage", "2 if reward<=-100", "--json").json["minimal_budget"] == 0


def test_a_goal_without_reward_leads_to_the_question_how_probable_it_is(
    here: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("stormpy")
    (tmp_path / "slip.prism").write_text(
        "mdp module m x : [0..2] init 0; [a] x=0 -> 0.5 : (x'=1) + 0.5 : (x'=2); [b] x=0 -> (x'=2); endmodule"
    )
    asked = ("solve", "slip.prism", "--damage", "x=2", "--goal", "x=1", "--budget", "1")
    assert "--reward x=1 --goal x=1 --budget 1" in here(*asked).out
    assert here(*asked, "--reward", "steps", "--cost", "steps").out.endswith("--reward x=1 --goal x=1 --budget 1\n")
    assert json.loads(here(*asked, "--reward", "x=1", "--json").out)["value"] == 0.5
    assert "a budget of 0: no step of the model does damage\n" in here("budget", "slip.prism", "--damage", "x=3").out


def test_prism_models(here: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("stormpy")
    (tmp_path / "walk.prism").write_text(
        "mdp\nconst int N;\nmodule walk\n  x : [0..N] init 0;\n"
        "  [go] x<N -> 0.5:(x'=x+1) + 0.5:(x'=x);\n  [stop] x=N -> true;\nendmodule\n"
        'label "wet" = x=1;\nrewards "gain" [go] true : 1; endrewards\n'
    )
    options = ("--constants", "N=3", "--damage", "wet", "--reward", "gain")
    assert here("budget", "walk.prism", *options).code == 1  # nobody need ever leave the water
    untold = here("budget", "walk.prism")
    assert untold.code == 3
    assert "--damage NAME" in untold.err
    offered = here("models", "walk.prism", "--constants", "N=3")
    assert offered.code == 0
    assert "labels 'wet'; rewards 'gain'; actions 'go', 'stop'; variables 'x'" in " ".join(offered.out.split())
    assert "variables 'x'" in here("models", "walk.prism", "--constants", "N=3", "--json").json["offered"]
    unready = here("models", "walk.prism")
    assert unready.code == 3
    assert "It has labels 'wet'; rewards 'gain'. constants must have a value; N has none." in unready.err
    missing = here("budget", "walk.prism", "--damage", "wet")
    assert "--constants 'N=…'" in missing.err
    done = here("convert", "walk.prism", "walk.umb", *options)
    assert done.code == 0
    assert asure.load(tmp_path / "walk.umb").num_states == 4


def test_version_and_help(almostsure: Callable[..., Any]) -> None:
    assert almostsure("--version").out == f"almostsure {asure.__version__}\n"
    shown = almostsure("--help")
    assert shown.code == 0
    assert all(command in shown.out for command in COMMANDS)


def test_help_shows_flags_as_they_are_typed(here: Callable[..., Any]) -> None:
    for arguments in (("--help",), ("convert", "--help")):
        shown = here(*arguments)
        assert "--help" in shown.out
        assert "bool" not in shown.out.lower()


def test_help_is_quick() -> None:
    program = "import sys; sys.argv = ['almostsure', '--help']; from almostsure.cli import main\n"
    program += "try: main()\nexcept SystemExit: pass\n"
    program += "print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded.isdisjoint({"numba", "scipy", "gymnasium", "highspy", "matplotlib", "umbi", "stormpy"})


def test_completion_knows_models_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from almostsure.cli.options import complete_model, complete_result

    monkeypatch.chdir(tmp_path)
    for name in ("quarry.umb", "quarry.safetensors", "quarry.pdf", ".hidden.umb"):
        (tmp_path / name).touch()
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "deep.prism").touch()
    assert list(complete_model("qu")) == ["quicksand", "quarry.umb"]
    assert list(complete_model("mod")) == ["models/"]
    assert list(complete_model("models/")) == ["models/deep.prism"]
    assert list(complete_model("gym:F")) == ["gym:FrozenLake-v1"]
    assert list(complete_model("nowhere/")) == []
    assert list(complete_result("q")) == ["quarry.safetensors"]


def test_completion_answers_the_shell(almostsure: Callable[..., Any]) -> None:
    asked = {"_ALMOSTSURE_COMPLETE": "complete_bash", "COMP_WORDS": "almostsure budget hazard", "COMP_CWORD": "2"}
    done = almostsure(**asked)
    assert done.out.split() == ["hazard-map"]


def test_where_runs_end_elsewhere_solve_says_how_often_the_goal_is_reached(
    here: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("stormpy")
    lines = (
        "mdp module m x : [0..3] init 0; {} [go] x=0 -> 0.25 : (x'=1) + 0.75 : (x'=2); endmodule",
        'label "home" = x=2;',
    )
    for name, more, reached in (("lost", "", 0.75), ("found", "[go] x=1 -> (x'=2);", None)):
        (tmp_path / f"{name}.prism").write_text("\n".join(lines).format(more))
        arguments = ("solve", f"{name}.prism", "--damage", "x=1", "--goal", "home", "--cost", "steps")
        done = here(*arguments, "--json")
        assert done.json["ends"] == 1.0
        assert done.json["reaches_goal"] == (None if reached is None else pytest.approx(reached))
        assert ("reaches the goal  75 %" in here(*arguments).out) == (reached is not None)
