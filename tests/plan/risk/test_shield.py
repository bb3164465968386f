"""``RiskShield``: the worst agent inside it, exactly, and what it forbids."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import almostsure as asure
from almostsure import Shield, from_transitions, minimal_budget
from almostsure.errors import ArgumentError, Infeasible, ModelError, ModelMismatch, NoSafeAction
from almostsure.plan.risk import least as module
from almostsure.plan.risk.least import least_risk
from almostsure.plan.risk.shield import RiskShield
from almostsure.shield.protocol import Guard
from almostsure.testing import garnet, mdps


@pytest.fixture
def road():
    """Cross at once, at a risk of 30 %, or walk round; where one crossed one may cross again."""
    rows = [(0, 0, 0, 0.7, 5, 0), (0, 0, 0, 0.3, 5, 1), (0, 1, 1, 1, 0, 0)]
    return from_transitions(*zip(*rows, strict=True), terminal=[1], action_names=["cross", "round"])


def exact(mdp, choice):
    """The outcomes of a choice in exact numbers: the stored floats divided by their exact sum."""
    where = range(int(mdp.outcome_ptr[choice]), int(mdp.outcome_ptr[choice + 1]))
    shares = [Fraction(float(mdp.probability[o])) for o in where]
    return [
        (share / sum(shares), int(mdp.successor[o]), int(mdp.damage[o])) for share, o in zip(shares, where, strict=True)
    ]


def choices_of(mdp, states, actions):
    keys = mdp.choice_states().astype(np.int64) * mdp.num_actions + mdp.choice_action
    return np.searchsorted(keys, states * mdp.num_actions + actions)


def worst_agent(shield, run, steps, known):
    """The greatest probability with which an agent inside the shield overspends within some steps, exactly."""
    state, remaining, _ = run
    if remaining < 0:
        return Fraction(1)
    if steps == 0:
        return Fraction(0)
    if (run, steps) not in known:
        values = []
        for action in shield.allowed(*run).tolist():
            outcomes = exact(shield.mdp, shield.mdp.choice(state, action))
            ahead = [(p, shield.after(run, action, t, d)) for p, t, d in outcomes]
            values.append(sum(p * worst_agent(shield, after, steps - 1, known) for p, after in ahead))
        known[run, steps] = max(values)
    return known[run, steps]


@settings(max_examples=100)
@given(mdps(max_states=4, max_actions=2), st.integers(0, 2), st.floats(0, 1))
def test_the_worst_agent_never_exceeds_the_risk(mdp, budget, risk):
    least = RiskShield(mdp, budget, 1.0).least[budget, mdp.initial_states].max()
    shield = RiskShield(mdp, budget, risk := max(risk, float(least)))
    share = [Fraction(float(p)) for p in mdp.initial_probabilities]
    found = sum(
        p * worst_agent(shield, shield.begin(int(s), budget), 4, {})
        for p, s in zip(share, mdp.initial_states, strict=True)
    ) / sum(share)
    assert found <= Fraction(risk)


def test_a_model_built_for_it_attains_the_risk(road):
    risk = 0.3 + 1e-14  # what the crossing takes, rounded up
    shield = RiskShield(road, 0, risk)
    assert risk - 1e-12 <= worst_agent(shield, shield.begin(0, 0), 3, {}) <= risk


def test_more_risk_allows_more_crossings(road):
    crossings = []
    for risk in (0.0, 0.25, 0.31, 0.6, 0.9, 1.0):
        shield = RiskShield(road, 0, risk)
        run, count = shield.begin(0, 0), 0
        while count < 20 and 0 in shield.allowed(*run):
            run, count = shield.after(run, 0, 0, 0), count + 1
        crossings.append(count)
    assert crossings == [0, 0, 1, 2, 6, 20]


@settings(max_examples=100)
@given(mdps(max_states=6, max_damage=2), st.integers(0, 3))
def test_risk_zero_is_the_shield_and_risk_one_forbids_nothing(mdp, budget):
    minimal = minimal_budget(mdp)
    free = RiskShield(mdp, budget, 1.0)
    for s in range(mdp.num_states):
        assert free.allowed(s, budget, 1.0).tolist() == mdp.actions(s).tolist()
        assert free.allowed(s, -1, 1.0).tolist() == mdp.actions(s).tolist()
        for action in mdp.actions(s).tolist():
            for _, after, damage in exact(mdp, mdp.choice(s, action)):
                assert free.risk_after(s, budget, 1.0, action, after, damage) == 1.0
        if minimal.of(s) <= budget:
            assert free.allowed(s, budget, 0.0).tolist() == Shield(minimal).allowed(s, budget).tolist()
            assert free.least_risk(s, budget) == 0.0
        else:
            assert free.least_risk(s, budget) > 0.0
            with pytest.raises(NoSafeAction, match=r"keeps the risk at 0 with \d left: the least is"):
                free.allowed(s, budget, 0.0)


@settings(max_examples=100)
@given(mdps(max_states=6, max_damage=2), st.integers(0, 3))
def test_the_least_risk_is_enclosed_and_compiled_is_plain(mdp, budget):
    needed = minimal_budget(mdp).of_state
    plain = least_risk(mdp, needed, budget, 1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PLAIN_WORK", 0)
        compiled = least_risk(mdp, needed, budget, 1e-9)
    assert (plain.upper - plain.lower).max() <= 1e-9
    assert (compiled.upper - compiled.lower).max() <= 1e-9
    assert (plain.lower <= compiled.upper).all()
    assert (compiled.lower <= plain.upper).all()
    values = np.zeros((budget + 1, mdp.num_states))
    for _ in range(3000):  # from below, by definition
        for k in range(budget + 1):
            for s in range(mdp.num_states):
                values[k, s] = min(
                    sum(float(p) * (1.0 if d > k else values[k - d, t]) for p, t, d in exact(mdp, c))
                    for c in mdp.choices(s)
                )
        if (values >= plain.upper - 1e-7).all():
            break
    assert (values <= plain.upper + 1e-12).all()
    assert (values >= plain.lower - 1e-7).all()


def test_values_are_at_least_the_risk_of_some_action():
    """The condition on which the proof rests, in floats, on a large model."""
    mdp = asure.example("quicksand")
    for sweep in ("plain", "compiled"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "PLAIN_WORK", 0 if sweep == "compiled" else 10**9)
            shield = RiskShield(mdp, 2, 1.0)
        for remaining in range(3):
            for s in range(mdp.num_states):
                least = shield.least_risk(s, remaining)
                assert shield.allowed(s, remaining, least).size


def test_masks_are_the_allowed_actions_and_runs_come_in_arrays():
    mdp = asure.example("hazard-map")
    shield = RiskShield(mdp, 1, 0.4)
    assert isinstance(shield, Guard)
    rng = np.random.default_rng(0)
    runs = shield.begin(np.full(64, mdp.initial_state), 1)
    one = shield.begin(mdp.initial_state, 1)
    assert [column[0] for column in runs] == list(one)
    for _ in range(30):
        masks = shield.mask(*runs)
        for i in range(0, 64, 9):
            row = [column[i].item() for column in runs]
            assert np.flatnonzero(masks[i]).tolist() == shield.allowed(*row).tolist()
        action = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        choice = choices_of(mdp, runs[0], action)
        outcome = [rng.integers(mdp.outcome_ptr[c], mdp.outcome_ptr[c + 1]) for c in choice]
        after, damage = mdp.successor[outcome].astype(np.int64), mdp.damage[outcome].astype(np.int64)
        ahead = shield.after(runs, action, after, damage)
        for i in range(0, 64, 9):
            row = tuple(column[i].item() for column in runs)
            single = shield.after(row, int(action[i]), int(after[i]), int(damage[i]))
            assert single == tuple(column[i].item() for column in ahead)
        runs = ahead


def test_many_hostile_episodes_stay_within_the_risk():
    mdp, risk = asure.example("hazard-map"), 0.1
    shield = RiskShield(mdp, 0, risk)
    rng = np.random.default_rng(1)
    runs, overspent, episodes = shield.begin(np.full(4000, mdp.initial_state), 0), 0, 4000
    for _ in range(120):  # whoever still has risk to spend takes the most dangerous action that is allowed
        alive = runs[1] >= 0
        masks = shield.mask(*runs)
        weights = np.where(masks, rng.random(masks.shape), -1.0)
        action = weights.argmax(axis=1)
        choice = choices_of(mdp, runs[0], action)
        sums = np.cumsum(mdp.probability)
        base = np.where(mdp.outcome_ptr[choice] > 0, sums[mdp.outcome_ptr[choice] - 1], 0.0)
        outcome = np.searchsorted(sums, base + rng.random(choice.size) * 0.999999999, side="right")
        runs = shield.after(runs, action, mdp.successor[outcome].astype(np.int64), mdp.damage[outcome].astype(np.int64))
        assert ((runs[2] >= 0) & (runs[2] <= 1)).all()
        assert (runs[1][~alive] < 0).all()
    overspent = int((runs[1] < 0).sum())
    assert overspent / episodes <= risk + 5 * np.sqrt(risk * (1 - risk) / episodes)


def test_bad_input(road):
    for risk in (-0.1, 1.5, float("nan"), True, "half"):
        with pytest.raises(ArgumentError, match="risk must be"):
            RiskShield(road, 0, risk)
    forced = from_transitions([0, 0], [0, 0], [1, 1], [0.75, 0.25], [0, 0], [0, 2], terminal=[1])
    with pytest.raises(Infeasible, match=r"a risk of 0.1 is not enough: .* than 1 damage .* below 0\.25") as caught:
        RiskShield(forced, 1, 0.1)
    assert caught.value.needed == pytest.approx(0.25)
    shield = RiskShield(road, 1, 0.5)
    with pytest.raises(ArgumentError, match="budget must be at most 1, the shield's budget; got 2"):
        shield.begin(0, 2)
    for risk in (1.5, -0.1, float("nan")):
        with pytest.raises(ArgumentError, match="risk must be"):
            shield.mask([0, 0], 1, [0.5, risk])
    with pytest.raises(ModelMismatch, match="impossible"):
        shield.after(shield.begin(0, 1), 1, 0, 0)
    with pytest.raises(NoSafeAction, match="was not allowed with a risk of 0"):
        RiskShield(road, 0, 0.0).risk_after(0, 0, 0.0, "cross", 0, 0)


def test_a_learned_model_is_refused():
    rows = [(0, 0, 1, 1.0, 0, 0), (1, 0, 1, 1.0, 0, 1)]
    learned = asure.MDP(
        from_transitions(*zip(*rows, strict=True)).arrays, initial=(np.array([0]), np.array([1.0])), unknown=1
    )
    with pytest.raises(ModelError, match="this model was learned"):
        RiskShield(learned, 1, 0.5)


def test_loops_that_are_hardly_ever_left_do_not_delay_it():
    leak = 2.0**-40
    rows = [(0, 0, 0, 1 - leak, 0, 0), (0, 0, 1, leak / 4, 0, 1), (0, 0, 1, leak * 3 / 4, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[1])
    for work in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "PLAIN_WORK", work)
            shield = RiskShield(mdp, 0, 0.3)
        assert shield.least_risk(0, 0) == pytest.approx(0.25, abs=1e-12)
        assert shield.allowed(0, 0, shield.least_risk(0, 0)).tolist() == [0]


def test_something_is_allowed_at_the_least_risk_on_the_compiled_path():
    mdp = garnet(800, 3, 3, seed=3, damage_rate=0.2, max_damage=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PLAIN_WORK", 0)
        shield = RiskShield(mdp, 3, 1.0)
    for remaining in range(4):
        states = np.arange(mdp.num_states)
        assert shield.mask(states, remaining, shield.least[remaining]).any(axis=1).all()


def test_a_model_of_counted_frequencies_is_refused(road, tmp_path):
    learned = asure.learn_minimal_budget(road, mu=0.25, delta=0.1, seed=0).minimal.mdp
    learned.save(tmp_path / "learned.umb")
    for mdp in (learned, asure.load(tmp_path / "learned.umb")):
        with pytest.raises(ModelError, match="this model was learned"):
            RiskShield(mdp, 1, 0.5)


def test_a_start_that_surely_overspends_beside_one_that_does_not_is_an_error_without_a_warning():
    mdp = from_transitions([0, 1], [0, 0], [1, 2], [1, 1], [0, 0], [0, 1], terminal=[2], initial={0: 0.5, 1: 0.5})
    with pytest.raises(Infeasible, match=r"more than 0 damage cannot be ruled out at a risk below 1\.0"):
        RiskShield(mdp, 0, 0.5)
