"""What would help where no finite budget suffices."""

import pytest

import almostsure as asure
from almostsure import from_transitions, minimal_budget
from almostsure.errors import Infeasible
from almostsure.plan import suggest_budget
from almostsure.plan.instead import forcing, instead

WALK = ((-1, 0.4), (0, 0.2), (1, 0.4))


@pytest.fixture
def bog():
    """A path that slips into a bog with a tenth; nobody leaves it, and every second step there hurts."""
    rows = [(0, 0, 1, 0.1, 0, 0), (0, 0, 3, 0.9, 1, 0), (1, 0, 2, 1, 0, 1), (2, 0, 1, 1, 0, 0)]
    return from_transitions(*zip(*rows, strict=True), terminal=[3], state_names=["path", "bog", "mud", "home"])


def test_the_error_and_the_suggestion_say_what_would_help(bog):
    words = (
        r"damage can be forced again and again in bog\.\nFor a number of steps, a finite budget suffices: 50 for 100 "
        r"steps and 500 for 1,000 steps .*\nOr accept a risk: overspending can be kept as improbable as 0\.1 with 1, "
        r"0\.1 with 2, 0\.1 with 5"
    )
    for ask in (lambda: asure.solve_policy(bog, asure.AlmostSure(3)), lambda: suggest_budget(bog)):
        with pytest.raises(Infeasible, match=words):
            ask()
    assert forcing(minimal_budget(bog)).tolist() == [1]


def test_where_a_budget_suffices_nothing_is_said():
    assert instead(minimal_budget("quicksand")) == []
    pit = from_transitions([0], [0], [0], [1], [0], [1])
    assert instead(minimal_budget(pit))[-1].startswith("In the long run every budget is exceeded")
    assert instead(minimal_budget(pit, cap=3)) == []
    forbidden = from_transitions([0], [0], [0], [1], [0], [1], labels={"forbidden": [0]})
    assert len(instead(minimal_budget(forbidden))) == 2  # no number of steps helps


def test_of_large_models_only_what_may_help_is_said(monkeypatch):
    pit = asure.from_transitions([0], [0], [0], [1], [0], [1])
    assert "1,000 for 1,000 steps" in instead(asure.minimal_budget(pit))[1]
    monkeypatch.setattr("almostsure.plan.instead.LARGE", 0)
    assert instead(asure.minimal_budget(pit))[1:] == [
        "A number of steps, minimal_budget(mdp, horizon=T), or a stated risk, RiskShield, may help."
    ]


def test_risks_that_close_in_slowly_are_not_waited_for(monkeypatch):
    size, ends = 100, [(99, 1, 100, 1, 0, 3)]  # a walk that hurts at one end for ever; the other has a way out
    ways = [(s, 0, min(max(s + by, 0), size - 1), p, 0, int(s + by < 0)) for s in range(size) for by, p in WALK]
    walk = from_transitions(*zip(*ways, *ends, strict=True), initial=50, terminal=[size])
    wait = ["Or accept a risk: RiskShield computes how small it can be, which takes a while for this model."]
    assert instead(minimal_budget(walk))[2:] == wait
    monkeypatch.setattr("almostsure.plan.instead.SWEEPS", 200_000)
    assert instead(minimal_budget(walk))[2].startswith("Or accept a risk: overspending can be kept as improbable as 1 ")


@pytest.mark.parametrize(("count", "shown"), [(2, "x=0, y=0; x=1, y=0."), (5, "x=3, y=0; and 1 more state.")])
def test_names_that_hold_commas_are_told_apart(count, shown):
    names = [f"x={state}, y=0" for state in range(count)]
    ring = [(state + 1) % count for state in range(count)]
    mdp = from_transitions(range(count), [0] * count, ring, [1] * count, [0] * count, [1] * count, state_names=names)
    assert instead(minimal_budget(mdp))[0].endswith(shown)
