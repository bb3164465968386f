"""DRN files of other programs and of this package."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings

from almostsure import (
    MDP,
    from_transitions,
    minimal_budget,
)
from almostsure.errors import (
    AlmostSureError,
    FileError,
    ModelError,
)
from almostsure.model.files import load
from almostsure.model.source import as_model
from almostsure.model.storm.read import from_prism
from almostsure.model.storm.write import to_storm

from .programs import (
    by_name,
    models,
)


def test_probabilities_of_a_drn_file_that_do_not_sum_to_one(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "sum.drn"
    path.write_text(
        "@type: MDP\n@parameters\n\n@reward_models\n\n@nr_states\n2\n@nr_choices\n2\n@model\n"
        "state 0 init\n\taction 0\n\t\t0 : 0.6\n\t\t1 : 0.5\nstate 1 end\n\taction 0\n\t\t1 : 1\n"
    )
    with pytest.raises(AlmostSureError, match=r"sum") as caught:
        from_prism(path, damage="end")
    assert "normalise" not in str(caught.value)


def test_drn(program: Path, tmp_path: Path) -> None:
    import stormpy
    from stormpy.io import export_to_drn, instantiate_constants, parse_prism_program

    parsed, _ = instantiate_constants(parse_prism_program(program), "N=2")
    path = tmp_path / "walk.drn"
    export_to_drn(stormpy.build_model(parsed, options=stormpy.BuilderOptions(build_full=True)), path)
    found = from_prism(path, damage="toll", reward="half")
    wanted = from_prism(program, damage="toll", reward="half", constants="N=2")
    assert found == wanted
    assert found.action_names == wanted.action_names
    assert found.state_names is None
    with pytest.raises(ModelError, match="a DRN file has no constants"):
        from_prism(path, damage="toll", constants="N=2")


def test_rewards_that_a_drn_file_cannot_hold_are_not_read_as_zero(tmp_path: Path) -> None:
    from stormpy.io import export_to_drn

    path = tmp_path / "lost.drn"
    export_to_drn(to_storm(from_transitions([0, 0], [0, 0], [0, 1], [0.5, 0.5], [0, 0], [1, 0], terminal=[1])), path)
    with pytest.raises(FileError, match=r"lost.drn: reward 'damage' .* has no values. DRN files cannot hold"):
        from_prism(path, damage="damage")


@pytest.mark.parametrize("zero", ["0", "0.0", "0.", "00", "0e-3", "0 \r"])
@pytest.mark.parametrize("counted", [True, False])
def test_outcomes_with_probability_zero_do_not_exist(program: Path, tmp_path: Path, zero: str, counted: bool) -> None:
    text = (
        "@type: MDP\n@parameters\n\n@reward_models\nharm\n@nr_states\n2\n@nr_choices\n2\n@model\n"
        "state 0 [0] init\n\taction go [3]\n\t\t1 : 1\nstate 1 [0] end\n\taction rest [0]\n\t\t1 : 1\n"
    )
    text = text if counted else text.replace("@nr_choices\n2\n", "")
    plain, listed = tmp_path / "plain.drn", tmp_path / "listed.drn"
    plain.write_text(text)
    listed.write_text(text.replace("[3]\n", f"[3]\n\t\t0 : {zero}\n"), newline="")
    mdp = from_prism(listed, damage="harm")
    assert mdp == from_prism(plain, damage="harm")
    assert mdp.num_outcomes == 2
    assert minimal_budget(mdp).of(0) == 3


def test_drn_compressed_and_without_the_number_of_choices(program: Path, tmp_path: Path) -> None:
    text = (
        "@type: MDP\n@parameters\n\n@reward_models\n\n@nr_states\n2\n@nr_choices\n3\n@model\n"
        "state 0 init\n\taction a\n\t\t0 : 0.5\n\t\t1 : 0.5\n\taction b\n\t\t1 : 1\n"
        "state 1 end\n\taction a\n\t\t1 : 1\n"
    )
    path = tmp_path / "plain.drn"
    path.write_text(text)
    wanted = from_prism(path, damage="end")
    path.write_text(text.replace("@nr_choices\n3\n", ""))
    assert from_prism(path, damage="end") == wanted
    packed = tmp_path / "packed.drn.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert from_prism(packed, damage="end") == wanted
    assert from_prism(packed, damage='"end" & !"init"') == wanted
    assert as_model(packed, damage="end", goal="end").is_terminal().tolist() == [False, True]
    packed.write_bytes(gzip.compress(text.encode())[:-9])
    with pytest.raises(ModelError, match=r"packed.drn.gz: the compressed data are damaged"):
        from_prism(packed, damage="end")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mdp=models())
def test_drn_files_keep_budgets_and_returns(mdp: MDP, tmp_path: Path) -> None:
    import stormpy

    assume(mdp.damage.any() and mdp.reward.any())  # Storm drops a reward structure of zeros
    path = tmp_path / "model.drn"
    mdp.save(path)
    options = stormpy.io.DirectEncodingParserOptions()
    options.build_choice_labeling = True
    model = stormpy.build_model_from_drn(str(path), options=options)
    stormpy.io.export_to_umb(model, str(tmp_path / "back.umb"))
    back = load(tmp_path / "back.umb")
    assert minimal_budget(back).of_state[: mdp.num_states].tolist() == minimal_budget(mdp).of_state.tolist()
    assert back.num_states == mdp.num_states + back.label("relay").sum() if "relay" in back.labels else mdp.num_states
    per_step = (back.probability * back.reward).sum() - (mdp.probability * mdp.reward).sum()
    assert "relay" in back.labels or per_step == pytest.approx(0)


def test_drn_files_restore_the_model(race: Path, tmp_path: Path) -> None:
    mdp = from_prism(race, damage="heat", scale=2, goal="done", cost="steps")
    mdp.save(tmp_path / "race.drn")
    back = from_prism(tmp_path / "race.drn", damage="damage", reward="reward")
    assert by_name(back) == by_name(mdp)
    assert back.label("done").tolist() == mdp.label("done").tolist()
    assert sorted(back.origin.rewards["heat"]) == pytest.approx(sorted(mdp.origin.rewards["heat"]))
