"""Models some of whose outcomes may be impossible: no command claims that less would not suffice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import almostsure as asure
from almostsure.errors import Infeasible, ModelError, NoSafeAction
from almostsure.model.origin import FROM_ZERO, INTERVALS, Origin
from almostsure.plan import suggest_budget
from almostsure.report import write_report
from almostsure.shield import HorizonShield


def model(uncertain: str = FROM_ZERO, *, pit: bool = False) -> asure.MDP:
    """One step that may hurt; in the pit, it is taken for ever."""
    after, ends = ([0, 0], []) if pit else ([1, 2], [1, 2])
    mdp = asure.from_transitions([0, 0], [0, 0], after, [0.5, 0.5], [0, 0], [0, 1], terminal=ends)
    return mdp.with_origin(Origin(uncertain=uncertain))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    mdp = model()
    mdp.save(tmp_path / "iv.umb")
    asure.minimal_budget(mdp).save(tmp_path / "for-ever.safetensors")
    asure.minimal_budget(mdp, horizon=3).save(tmp_path / "steps.safetensors")
    return tmp_path


@pytest.mark.parametrize("result", ["for-ever", "steps"])
def test_check_claims_that_the_budget_suffices_and_no_more(
    folder: Path, result: str, almostsure: Callable[..., Any]
) -> None:
    shown = almostsure("check", "iv.umb", f"{result}.safetensors", cwd=folder)
    text = " ".join(shown.out.split())
    assert shown.code == 0
    assert "the start needs at most 1" in text
    assert "It does not claim that no smaller budget suffices" in text
    assert "no smaller budget can be promised" not in text
    told = almostsure("check", "iv.umb", f"{result}.safetensors", "--json", cwd=folder).json
    assert (told["upper_bound"], told["uncertain"], told["minimal_budget"]) == (True, FROM_ZERO, 1)


def test_check_claims_the_least_where_every_outcome_is_possible(tmp_path: Path, almostsure: Callable[..., Any]) -> None:
    mdp = model(INTERVALS)
    mdp.save(tmp_path / "iv.umb")
    asure.minimal_budget(mdp).save(tmp_path / "b.safetensors")
    text = " ".join(almostsure("check", "iv.umb", "b.safetensors", cwd=tmp_path).out.split())
    assert "claims the start needs 1 " in text
    assert "no smaller budget can be promised with probability one" in text
    assert "almostsure solve" not in text


def test_commands_offer_only_what_works(folder: Path, almostsure: Callable[..., Any]) -> None:
    offered = {}
    for words in (
        ("budget", "iv.umb"),
        ("budget", "iv.umb", "--horizon", "3"),
        ("check", "iv.umb", "for-ever.safetensors"),
        ("check", "iv.umb", "steps.safetensors"),
    ):
        text = almostsure(*words, cwd=folder).out.split("Next:")[1]
        assert "suggest" not in text
        assert "solve" not in text
        offered |= {line.strip(): words for line in text.splitlines() if "almostsure" in line}
    assert {line.split(" export ")[1] for line in offered if " export " in line} == {
        "iv.umb shield.py",
        "iv.umb shield.py --horizon 3",
    }
    for line in offered:
        words = line[line.index("almostsure ") :].split()[1:]
        assert almostsure(*words, cwd=folder).code == 0


def test_budget_for_some_steps(folder: Path, almostsure: Callable[..., Any]) -> None:
    text = " ".join(almostsure("budget", "iv.umb", "--horizon", "3", cwd=folder).out.split())
    assert "needs a budget of at most 1 for 3 steps" in text
    assert "nature can force 1 damage within 3 steps if all intervals are positive." in text
    assert almostsure("budget", "iv.umb", "--horizon", "3", "--json", cwd=folder).json["upper_bound"] is True
    assert almostsure("explain", "iv.umb", "--json", cwd=folder).json["upper_bound"] is True


def test_results_and_errors_say_at_most() -> None:
    minimal, within = asure.minimal_budget(model()), asure.minimal_budget(model(), horizon=3)
    assert minimal.less_may_do
    assert "the start needs a budget of at most 1 for 3 steps" in repr(within)
    assert "the start needs a budget of at most 1 for 3 steps" in repr(HorizonShield(within))
    for refused in (
        lambda: asure.Shield(minimal).allowed(0, 0),
        lambda: HorizonShield(within).allowed(0, 0, 3),
    ):
        with pytest.raises(NoSafeAction, match="it needs at most 1"):
            refused()
    with pytest.raises(Infeasible, match=r"a budget of 0 is not known to be enough at the start: .* needs at most 1"):
        asure.Shield(minimal).random_policy(0)


def test_what_needs_probabilities_says_so_by_its_own_name() -> None:
    with pytest.raises(ModelError, match=r"^suggest_budget needs the probabilities"):
        suggest_budget(model())


def test_what_is_lost_is_lost_if_all_intervals_are_positive() -> None:
    minimal = asure.minimal_budget(model(pit=True))
    assert minimal.explain().headline.endswith("for ever, if all intervals are positive.")
    with pytest.raises(NoSafeAction, match="needs ∞ if all intervals are positive"):
        asure.Shield(minimal).allowed(0, 5)
    capped = asure.minimal_budget(model(pit=True), horizon=9, cap=3)
    assert "no budget up to 3 suffices at the start for 9 steps if all intervals are positive" in repr(capped)


def test_the_report_says_at_most(tmp_path: Path) -> None:
    text = write_report(model(), tmp_path / "report.html").read_text("utf-8")
    assert "The least budget that can be kept from the start is at most 1" in text
    assert '"atMost":"at most "' in text
    text = write_report(model(), tmp_path / "report.html", budget=0).read_text("utf-8")
    assert "a budget of 0 is not known to be kept for certain; 1 can" in text
    assert "can be forced if all intervals are positive" in text
    text = write_report(model(INTERVALS), tmp_path / "report.html").read_text("utf-8")
    assert "The least budget that can be kept from the start is 1" in text
    assert '"atMost":""' in text
