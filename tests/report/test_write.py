"""``write_report``: a single file, correct numbers, and hostile names that stay text."""

import base64
import os
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import almostsure as asure
from almostsure.errors import ArgumentError, FileError, UnknownName
from almostsure.model import Steps
from almostsure.report import write_report
from almostsure.report.variables import _parts
from almostsure.report.words import percent
from almostsure.testing import mdps
from almostsure.testing.families import chain, garnet, rings

PNG = b"\x89PNG\r\n\x1a\n" + b"rest"


def test_the_file_loads_nothing_from_outside(hazard):
    text = hazard.read_text("utf-8")
    assert len(text) < 500_000
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', text.split('id="data"')[0]) == []
    assert "default-src 'none'" in text
    assert "unsafe-inline" not in text


def test_the_policy_names_the_hash_of_the_script_and_of_the_style(hazard):
    import hashlib

    text = hazard.read_text("utf-8")
    for kind, piece in (
        ("script-src", text.rsplit("<script>", 1)[1].split("</script>")[0]),
        ("style-src", text.split("<style>")[1].split("</style>")[0]),
    ):
        digest = base64.b64encode(hashlib.sha256(piece.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in text


def test_the_summary(hazard, content_of):
    data = content_of(hazard)
    value = asure.solve_policy("hazard-map", asure.AlmostSure(3)).value
    assert data["headline"] == (
        f"From the start, damage can be kept to at most 3 in every single run, with an average return of {value:.2f}."
    )
    assert any("exceeds 3 in 31.9\u00a0% of its runs" in sentence for sentence in data["sentences"])


@pytest.mark.parametrize(
    ("probability", "text"),
    [
        (0, "0"),
        (1e-9, "almost 0"),
        (0.0009, "0.09"),
        (0.05, "5"),
        (0.33, "33"),
        (0.9991, "99.91"),
        (1 - 1e-7, "almost 100"),
    ],
)
def test_percentages_have_no_trailing_zeros_and_are_never_rounded_to_0_or_100(probability, text):
    assert percent(probability) == f"{text}\u00a0%"


def test_numbers_are_those_of_the_package(hazard, content_of):
    data, mdp = content_of(hazard), asure.example("hazard-map")
    solution = asure.solve_policy(mdp, asure.AlmostSure(3))
    assert [k for k, _ in data["curve"]] == list(range(len(data["curve"])))
    np.testing.assert_allclose([value for _, value in data["curve"][:4]], solution.curve, rtol=1e-9)
    expected = asure.solve_policy(mdp, asure.Expected(3))
    found = {plan["kind"]: plan for plan in data["plans"]}
    assert found["expected"]["value"] == pytest.approx(expected.value)
    assert found["expected"]["overspends"] == pytest.approx(asure.evaluate(mdp, expected.policy).exceeds(3))
    assert found["assured"]["overspends"] == 0
    assert found["assured"]["worst"] <= 3
    assert data["proof"]["fingerprint"] == mdp.fingerprint
    assert data["proof"]["broken"] == ""


def test_limit_risk_seed_and_command_are_used(tmp_path, content_of):
    path = write_report(
        "corridor",
        tmp_path / "r.html",
        budget=2,
        limit=1.5,
        risk=0.25,
        seed=2**64 - 1,
        command="almostsure report x",
        name="Corridor",
    )
    data = content_of(path)
    assert data["name"] == "Corridor"
    assert [data["plans"][1]["limit"], data["plans"][2]["risk"]] == [1.5, 0.25]
    assert (data["proof"]["seed"], data["proof"]["command"]) == (str(2**64 - 1), "almostsure report x")


def test_the_command_of_the_report_writes_it_again(tmp_path, content_of):
    told = {"budget": 2, "risk": np.float64(0.25), "time_limit": 1e-6, "name": "Corridor"}
    first = write_report("corridor", tmp_path / "r.html", **told)
    command = content_of(first)["proof"]["command"]
    options = "budget=2, risk=0.25, time_limit=1e-06, name='Corridor'"
    assert command == f"almostsure.report.write_report('corridor', \"report.html\", {options})"
    again = eval(command.replace("report.html", str(tmp_path / "again.html")), {"almostsure": asure})  # noqa: S307
    assert again.read_bytes() == first.read_bytes()
    pictured = write_report("paper", tmp_path / "r.html", figures=[("A title", PNG, "")])
    assert content_of(pictured)["proof"]["command"].endswith('"report.html", figures=figures)')


def test_the_same_arguments_give_the_same_bytes(hazard, tmp_path):
    again = write_report("hazard-map", tmp_path / "again.html", budget=3)
    assert again.read_bytes() == hazard.read_bytes()


def test_without_a_budget_one_is_chosen_and_explained(quicksand, content_of):
    data = content_of(quicksand)
    curve = np.array([np.nan if value is None else value for _, value in data["curve"]])
    gain = np.nanmax(curve) - curve[data["least"]]
    assert curve[data["budget"]] >= curve[data["least"]] + gain * 0.99 - 1e-4
    assert any("No budget was given" in sentence for sentence in data["sentences"])


def test_promises_of_a_learned_model_are_about_the_model(tmp_path, content_of):
    learned = asure.learn_minimal_budget("corridor", mu=0.2, delta=0.01, seed=0).mdp
    learned.save(tmp_path / "learned.umb")
    for mdp in (learned, asure.load(tmp_path / "learned.umb")):
        content = content_of(write_report(mdp, tmp_path / "r.html", budget=3))
        assert "in every single run of the model, which was learned from samples" in content["headline"]
        assert "none in the model, which was learned from samples" in [fact["note"] for fact in content["facts"]]
        assert content["model"]["learned"].startswith("Learned from 1,620 samples. If no outcome is rarer than 20 %, ")
        assert any(content["model"]["learned"] in sentence for sentence in content["sentences"])


def test_an_explored_model_is_not_called_learned(tmp_path, content_of):
    content = content_of(write_report(asure.explore("CliffWalking-v1"), tmp_path / "r.html", budget=0))
    assert "in every single run of the model, which was found by playing" in content["headline"]
    assert "none in the model, which was found by playing" in [fact["note"] for fact in content["facts"]]


def test_figures_are_appended(tmp_path, content_of):
    path = write_report("paper", tmp_path / "r.html", figures=[("A title", PNG, "A caption")])
    assert content_of(path)["figures"][0]["caption"] == "A caption"
    with pytest.raises(ArgumentError, match="figure 'no' must be the bytes of a PNG file"):
        write_report("paper", tmp_path / "r.html", figures=[("no", b"GIF89a", "")])


# ---------------------------------------------------------------------- models of all kinds


def report_of(mdp, tmp_path, **options):
    return write_report(mdp, tmp_path / "r.html", **options)


def test_an_infeasible_budget_names_one_that_suffices(tmp_path, content_of):
    data = content_of(report_of("quicksand", tmp_path, budget=1))
    assert data["headline"] == "From the start, a budget of 1 cannot be kept for certain; 2 can."
    assert "does not suffice" in data["plans"][0]["problem"]
    assert data["curve"][2][1] is not None  # the return with 2


def test_a_model_without_finite_budget(tmp_path, content_of):
    hopeless = asure.from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [1, 1], [1, 1])
    data = content_of(report_of(hopeless, tmp_path))
    assert "no finite budget suffices" in data["headline"]
    assert data["least"] is None
    assert all(plan["problem"] for plan in data["plans"])


def test_an_unbounded_return(tmp_path, content_of):
    free = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [0, 1], terminal=[1])
    data = content_of(report_of(free, tmp_path, budget=2))
    assert any("no bound" in sentence for sentence in data["sentences"])
    assert data["curve"][0] == [0, "inf"]


def test_bounded_below_and_unbounded_above_shows_the_bounded_part(tmp_path, content_of):
    # Damage 1 leads to a state with infinite return; without damage the return is 5.
    mdp = asure.from_transitions([0, 0, 1], [0, 1, 0], [2, 1, 1], [1, 1, 1], [5, 0, 1], [0, 1, 0], terminal=[2])
    data = content_of(report_of(mdp, tmp_path))
    assert (data["budget"], data["curve"][:2]) == (0, [[0, 5.0], [1, "inf"]])
    assert "With a budget of 1, the return would be unbounded." in data["sentences"]


def test_a_minimal_budget_with_which_runs_may_not_end(tmp_path, content_of):
    map_of = asure.from_map("S~G", step_reward=-1, goal_reward=10)
    for budget, said in ((0, "With a budget of 0 the return is −∞."), (1, "The least budget that can be kept")):
        content = content_of(report_of(map_of, tmp_path, budget=budget))
        told = "With 0 it is safe, but does not surely end, and costs add up for ever; from 1 on it ends."
        assert told in content["sentences"]
        assert any(sentence.startswith(said) for sentence in content["sentences"])
        assert content["facts"][0]["note"].endswith(", but with which runs may not end")


def test_a_model_without_rewards(tmp_path, content_of):
    mdp = asure.from_transitions([0, 0], [0, 1], [1, 1], [1, 1], [0, 0], [2, 1], terminal=[1])
    data = content_of(report_of(mdp, tmp_path))
    assert not data["rewarded"]
    assert any("no rewards" in sentence for sentence in data["sentences"])


@pytest.mark.parametrize("damage", [0, 1])
def test_one_state(tmp_path, content_of, damage):
    data = content_of(report_of(asure.from_transitions([0], [0], [0], [1], [0], [damage]), tmp_path))
    assert data["least"] == (None if damage else 0)


def test_layouts_graphs_mosaics_and_levels(tmp_path, content_of, hazard):
    assert content_of(hazard)["view"]["kind"] == "map"
    assert content_of(report_of("paper", tmp_path))["view"]["kind"] == "graph"
    assert content_of(report_of(rings(4, size=20), tmp_path))["view"]["kind"] == "mosaic"
    large = content_of(report_of(garnet(4100, 2, 2, damage_rate=0.02, reward_scale=0.0), tmp_path, budget=1))
    assert large["view"]["kind"] == "levels"
    assert any("Details of most states" in note for note in large["notes"])


@pytest.mark.parametrize("cost", [2.0, 0.1])
def test_large_models_with_positive_rewards(tmp_path, content_of, cost):
    plain = garnet(2_500, 3, 2, seed=1, damage_rate=0.05, terminal_rate=0.05)
    choice = plain.outcome_choices()
    state = plain.choice_states()[choice]
    reward = np.where(np.random.default_rng(0).random(choice.size) < 0.1, 1.0, -cost) * ~plain.is_terminal()[state]
    mdp = asure.from_transitions(
        state, plain.choice_action[choice], plain.successor, plain.probability, reward, plain.damage,
        terminal=np.flatnonzero(plain.is_terminal()),
    )  # fmt: skip
    data = content_of(report_of(mdp, tmp_path, budget=1))
    if cost == 2:
        assert data["plans"][0]["value"] == pytest.approx(asure.solve_policy(mdp, asure.AlmostSure(1)).value, abs=1e-6)
    else:
        assert "reward can be collected for ever" in data["plans"][0]["problem"]


def test_the_levels_of_a_long_chain_are_grouped(tmp_path, content_of):
    path = report_of(chain(400), tmp_path)
    data = content_of(path)
    assert path.stat().st_size < 2_000_000
    assert len(data["layers"]) <= 33
    assert {0, 399, 400} <= set(data["layers"])
    assert len(data["levels"]["need"]) <= 41
    assert data["levels"]["last"][-1] == 400
    assert data["safeStates"] == [min(layer + 1, 401) for layer in data["layers"]]
    assert sum(data["levels"]["count"]) == 401


def test_the_time_limit(tmp_path, content_of):
    """Parts that are left out with a short limit are present with a longer one."""
    patient = content_of(report_of("corridor", tmp_path, budget=3))
    hasty = content_of(report_of("corridor", tmp_path, budget=3, time_limit=0.025))
    assert patient["notes"] == []
    assert patient["plans"][1]["value"] is not None
    assert any("a linear programme over" in note for note in hasty["notes"])
    assert hasty["plans"][0]["value"] == patient["plans"][0]["value"]
    with pytest.raises(ArgumentError, match="time_limit must be positive; got 0"):
        report_of("corridor", tmp_path, time_limit=0)
    with pytest.raises(ArgumentError, match="time_limit must be a number; got 'soon'"):
        report_of("corridor", tmp_path, time_limit="soon")


def test_a_budget_that_is_far_too_large(tmp_path, content_of):
    path = report_of("paper", tmp_path, budget=120)
    data = content_of(path)
    assert path.stat().st_size < 500_000
    assert [120, 120.0] in data["curve"]
    starts = data["distributions"]["starts"]
    assert len(starts) <= 42
    assert 121 in starts  # bars do not extend across the budget
    huge = content_of(report_of("paper", tmp_path, budget=2**31 - 2))
    assert "would take longer than the time limit" in huge["plans"][0]["problem"]


def test_states_that_share_a_cell(tmp_path, content_of):
    from almostsure.model.layout import Layout
    from almostsure.model.mdp import MDP

    plain = asure.from_transitions(
        [0, 1], [0, 0], [2, 2], [1, 1], [1, 1], [0, 4], terminal=[2], initial={0: 0.5, 1: 0.5}
    )
    layout = Layout(rows=1, columns=2, cell=np.array([0, 0, 1], np.int32), text=("ab",))
    shared = MDP(plain.arrays, initial=(plain.initial_states, plain.initial_probabilities), layout=layout)
    view = content_of(report_of(shared, tmp_path))["view"]
    assert view["crowded"]


@settings(max_examples=15)
@given(mdps())
def test_any_model_has_a_report(mdp):
    with tempfile.TemporaryDirectory() as folder:
        text = write_report(mdp, Path(folder) / "r.html").read_text("utf-8")
    assert text.count("</script>") == 2


# ---------------------------------------------------------------------- bad input


def test_hostile_names_stay_data(hostile, tmp_path, content_of):
    path = report_of(hostile, tmp_path)
    text = path.read_text("utf-8")
    assert text.count("<script") == 2
    assert "<img" not in text
    assert "\u2028" not in text
    assert content_of(path)["states"]["names"][0].startswith("</script>")


def test_a_hostile_command_and_hostile_figures(tmp_path):
    bad = "</script><script>alert(1)</script>"
    text = report_of("paper", tmp_path, command=bad, figures=[(bad, PNG, bad)]).read_text("utf-8")
    assert text.count("<script") == 2


def test_nothing_is_written_on_a_bad_argument(tmp_path):
    for options, message in (
        ({"budget": -1}, "budget must be a whole number"),
        ({"budget": 1.5}, "budget must be a whole number"),
        ({"limit": -1}, "limit must be a finite number"),
        ({"risk": 2}, "risk must be a probability"),
        ({"seed": -1}, "seed must be a whole number"),
    ):
        with pytest.raises(ArgumentError, match=message):
            report_of("paper", tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_model_and_an_unwritable_place(tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'quicksand'"):
        report_of("quiksand", tmp_path)
    with pytest.raises(FileError, match="cannot write"):
        write_report("paper", tmp_path / "missing" / "r.html")
    with pytest.raises(FileError, match="not a file"):
        write_report("paper", tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_continuous_system_has_a_page_too(tmp_path):
    def step(state, action):
        return state[0] + 0.1 * state[1], state[1] + 0.1 * action

    system = asure.abstract(
        step, asure.Grid([-1.0, -1.0], [1.0, 1.0], [20, 20]), [-1.0, 1.0], unsafe=lambda state: abs(state[0]) > 0.8
    )
    pages = [
        write_report(some, tmp_path / name)
        for some, name in ((system, "a.html"), (asure.minimal_budget(system), "b.html"))
    ]
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert "<svg" in pages[0].read_text("utf-8") or "data:image/png" in pages[0].read_text("utf-8")


@pytest.mark.parametrize("size", [200, 480])
def test_rivers_that_are_one_cell_wide_are_seen_on_large_maps(tmp_path, content_of, size):
    cells = np.full((size, size), ".")
    cells[:, size // 2] = cells[size // 3] = "~"
    cells[5, 5], cells[0, 0], cells[-1, -1] = "~", "S", "G"
    view = content_of(write_report(asure.from_map(cells), tmp_path / "r.html", budget=2, time_limit=1))["view"]
    assert view["side"] == size // 160 + (size % 160 > 0)
    damage = np.frombuffer(base64.b64decode(view["damage"]["bytes"]), np.uint8).reshape(view["rows"], view["columns"])
    assert damage[:, size // 2 // view["side"]].all()
    assert damage[size // 3 // view["side"]].all()
    assert damage.sum() == sum(damage.shape) - 1  # a single cell among many is left out


def test_a_mean_damage_below_the_limit_is_stated(hazard, tmp_path, content_of):
    texts = content_of(hazard)["sentences"]
    assert any(text.startswith("The best policy with at most 3 damage on average returns ") for text in texts)
    texts = content_of(write_report("gym:FrozenLake-v1", tmp_path / "r.html", budget=1))["sentences"]
    start = "The best policy with at most 1 damage on average takes 0.18, returns "
    assert any(text.startswith(start) for text in texts)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("(('charged', 1), ('position', (0, 4)))", {"charged": 1, "position 1": 0, "position 2": 4}),
        ("ended at (('x', 1), ('y', 2))", {"x": 1, "y": 2, "ended": "yes"}),
        ("(3, 4, True)", {"part 1": 3, "part 2": 4, "part 3": True}),
        ("(3, 'a', (1, None))", {"part 1": 3, "part 2": "a", "part 3 1": 1, "part 3 2": "None"}),
        ("(robot, 3", {"part 1": "robot", "part 2": 3}),
        ("robot r5c6, forklift 0", {"robot row": 5, "robot column": 6, "forklift": 0}),
        ("x=3, y=-2", {"x": 3, "y": -2}),
        ("r5c6", {"row": 5, "column": 6}),
        ("(" * 400 + ")" * 400, {"part 1": ""}),
    ],
)
def test_names_are_read_as_variables(name, parts):
    assert _parts(name) == parts


def test_the_memory_of_monitors_is_a_variable(tmp_path, content_of):
    counted = asure.product(asure.product("quicksand", Steps(5)), Steps(4))
    view = content_of(report_of(counted, tmp_path, time_limit=1))["view"]
    values = dict(zip(view["names"], view["values"], strict=True))
    assert list(values) == ["row", "column", "memory", "memory 2"]
    assert [view["names"][axis] for axis in view["axes"]] == ["row", "column"]
    assert values["memory"] == ["2", "3", "4", "5"]
    assert values["memory 2"] == ["1", "2", "3", "4"]
