"""``--monitor``: every command about a model takes it."""

import json

import almostsure as asure
from almostsure.cli.app import run


def answer(capsys, *arguments):
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_monitors_by_name(capsys):
    assert answer(capsys, "budget", "paper", "--monitor", "steps=3")["minimal_budget"] == 0
    for wrong in ("steps=x", "tank=3", "second=wet"):
        assert run(["budget", "paper", "--monitor", wrong]) != 0
    assert "must have the form" in capsys.readouterr().err


def test_an_automaton_from_a_file(capsys, tmp_path):
    rows = [(0, 0, 1, 1, 0, 0), (0, 1, 2, 1, 0, 0), (1, 0, 2, 1, 0, 0), (2, 0, 3, 1, 1, 0)]
    site = asure.from_transitions(*zip(*rows, strict=True), terminal=[3], labels={"inspected": [1], "bridge": [2]})
    site.save(tmp_path / "site.umb")
    edges = [["new", "inspected", "fine"], ["new", "bridge", "trap"], ["fine", "bridge", "fine"]]
    rule = tmp_path / "rule.json"
    rule.write_text(json.dumps({"start": "new", "forbidden": ["trap"], "edges": edges}))
    use = ["budget", str(tmp_path / "site.umb"), "--monitor", f"automaton={rule}"]
    assert answer(capsys, *use)["minimal_budget"] == 0
    for text, message in (
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not an automaton"),
        ('{"start": 0, "edges": [[1]]}', "is not an automaton"),
        ('{"start": "new", "forbiden": ["trap"], "edges": []}', "unknown key"),
        ('{"start": "a", "edges": [["a", "bridge", "b"], ["a", "bridge", "c"]]}', "two edges with the same source"),
        ('{"start": "new", "forbidden": ["tarp"], "edges": [["new", "bridge", "trap"]]}', "No edge leads there"),
        ('{"start": "new", "edges": [["new", "brigde", "trap"]]}', "unknown label 'brigde'"),
    ):
        rule.write_text(text)
        assert run(use) == 3
        assert message in capsys.readouterr().err
    rule.unlink()
    assert run(use) == 3
    assert "cannot read the automaton" in capsys.readouterr().err


def test_every_command_about_a_model_takes_monitors(capsys, tmp_path):
    with_steps, saved = ["paper", "--monitor", "steps=3"], str(tmp_path / "b.safetensors")
    assert run(["budget", *with_steps, "-o", saved]) == 0
    assert f"almostsure check paper --monitor steps=3 {saved}" in " ".join(capsys.readouterr().out.split())
    assert answer(capsys, "check", "paper", saved, "--monitor", "steps=3")["verdict"] == "verified"
    assert run(["check", "paper", saved]) == 3  # a budget of another model
    for command in (["explain"], ["suggest"], ["frontier"], ["convert"], ["export"], ["report", "-o"]):
        name, *option = command
        output = {"convert": "m.umb", "export": "s.h", "report": "r.html"}.get(name)
        rest = [] if output is None else [*option, str(tmp_path / output)]
        assert run([name, "paper", *rest, "--monitor", "steps=3"]) == 0, command
    capsys.readouterr()


def test_monitors_are_for_all_models(here, tmp_path) -> None:
    assert here("models", "corridor", "--monitor", "steps=3", "--json").json["model"]["states"] > 8
    few = ("-l", "shielded", "--steps", "50", "--seeds", "1", "--budget", "1")
    assert here("compare", "corridor", *few, "--monitor", "steps=3").code == 0
    (tmp_path / "log.csv").write_text("state,action,next_state,damage\n0,0,0,0\n")
    refused = here("learn", "log.csv", "--mu", "0.1", "--monitor", "steps=3")
    assert "--monitor is for models that are sampled, and not for logs" in " ".join(refused.err.split())
