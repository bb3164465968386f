"""Shields that learn while an agent runs: known choices, refusals, and the number of violations."""

import pickle

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import almostsure as asure
from almostsure.errors import (
    ArgumentError,
    CorruptFile,
    FileError,
    ModelError,
    ModelMismatch,
    NoSafeAction,
    UnknownName,
)
from almostsure.files import load_tensors, save_tensors
from almostsure.learn import Counts, EnvSampler, Episode, OnlineShield, count_outcomes, samples_needed
from almostsure.shield.protocol import Guard
from almostsure.testing import mdps


def draw(mdp, state, action, rng):
    outcomes = mdp.outcomes(state, action)
    weights = np.array([o.probability for o in outcomes])
    return outcomes[rng.choice(len(outcomes), p=weights / weights.sum())]


def episode(mdp, shield, budget, rng, steps=30):
    """Random play under the shield; returns the step in which no action was safe, or None."""
    state, left = int(rng.choice(mdp.initial_states, p=mdp.initial_probabilities)), budget
    for step in range(steps):
        try:
            actions = shield.allowed(state, left)
        except NoSafeAction:
            return step
        outcome = draw(mdp, state, int(action := rng.choice(actions)), rng)
        shield.watch(state, int(action), outcome.next_state, outcome.damage, reward=outcome.reward, remaining=left)
        state, left = outcome.next_state, left - outcome.damage
    return None


# ---------------------------------------------------------------------- the optimistic one


@settings(max_examples=60)
@given(mdps(max_damage=3), st.integers(0, 4), st.integers(0, 2**30))
def test_every_violation_reveals_a_damaging_outcome(mdp, budget, seed):
    shield, rng = OnlineShield(mdp, unknown="allow"), np.random.default_rng(seed)
    for _ in range(15):
        before = len(shield.ledger.surprises)
        stuck = episode(mdp, shield, budget, rng)
        if stuck:  # only right after a surprise
            assert len(shield.ledger.surprises) > before
            assert shield.ledger.surprises[-1].step == shield.ledger.steps
    violations = shield.ledger.violations
    assert all(v.new and v.allowed and v.damage > v.remaining >= 0 for v in violations)
    places = {(v.state, v.action, v.next_state, v.damage) for v in violations}
    assert len(places) == len(violations)
    damaging = {
        (c, t, d)
        for c, t, d in zip(mdp.outcome_choices().tolist(), mdp.successor.tolist(), mdp.damage.tolist(), strict=True)
        if d
    }
    assert len(violations) <= len(damaging)


@settings(max_examples=60)
@given(mdps(max_damage=3), st.integers(0, 2**30))
def test_budgets_are_those_of_the_outcomes_seen(mdp, seed):
    shield, rng = OnlineShield(mdp, unknown="allow"), np.random.default_rng(seed)
    truth = asure.minimal_budget(mdp)
    for _ in range(40):
        choice = int(rng.integers(mdp.num_choices))
        state, action = int(mdp.choice_states()[choice]), int(mdp.choice_action[choice])
        outcome = draw(mdp, state, action, rng)
        before = shield.of_choice
        surprised = shield.watch(state, action, outcome.next_state, outcome.damage)
        assert (shield.of_choice >= before).all()
        assert surprised or np.array_equal(shield.of_choice, before)
    assert (shield.of_choice <= truth.of_choice).all()
    frozen = shield.freeze()
    assert np.array_equal(frozen.minimal.of_choice, shield.of_choice)
    assert np.array_equal(frozen.minimal.of_state, shield.of_state)
    for state in range(mdp.num_states):
        for left in (0, 1, 5):
            try:
                expected = frozen.allowed(state, left).tolist()
            except NoSafeAction:
                with pytest.raises(NoSafeAction, match="is safe with"):
                    shield.mask([state], left)
                continue
            assert shield.allowed(state, left).tolist() == expected
            assert np.flatnonzero(shield.mask([state], left)[0]).tolist() == expected


def test_long_runs_settle(hazard):
    shield, rng = OnlineShield(hazard, unknown="allow"), np.random.default_rng(1)
    for _ in range(150):
        episode(hazard, shield, 1, rng, steps=40)
    early = len(shield.ledger.surprises)
    late = OnlineShield(hazard, unknown="allow", known=shield.counts)
    for _ in range(30):
        episode(hazard, late, 1, rng, steps=40)
    assert len(late.ledger.surprises) < early / 4
    assert (late.of_choice >= shield.of_choice).all()  # budgets never fall


# ---------------------------------------------------------------------- the default


def test_unknown_choices_are_refused():
    shield = OnlineShield("paper")
    with pytest.raises(NoSafeAction, match="some of its actions are unknown, and refused"):
        shield.allowed("circle", 100)
    assert shield.watch("circle", "right", "square", 0)
    with pytest.raises(NoSafeAction, match="unknown"):
        shield.allowed("circle", 0)  # the square is unknown
    shield.watch("square", 0, "square", 0)
    assert shield.allowed("circle", 0).tolist() == [1]
    assert shield.mask([0, 1], 0).tolist() == [[False, True], [True, False]]
    shield.watch("circle", "left", "circle", 1)
    assert shield.allowed("circle", 1).tolist() == [0, 1]
    assert not shield.watch("circle", "left", "circle", 1)
    assert shield.watch("circle", "left", "circle", 2)  # a surprise about a known choice
    assert shield.allowed("circle", 1).tolist() == [1]


def test_needed_is_how_often_a_choice_must_be_seen():
    shield = OnlineShield("paper", needed=3)
    for seen in range(3):
        with pytest.raises(NoSafeAction, match="unknown"):
            shield.allowed("square", 0)
        assert shield.watch("square", 0, "square", 0) == (seen == 0)
    assert shield.allowed("square", 0).tolist() == [0]
    late = OnlineShield("paper", needed=2)  # the last sample that is needed is itself new
    late.watch("square", 0, "square", 0)
    late.watch("square", 0, "circle", 0)
    assert late.of_choice[2] == asure.INFINITE  # the circle is unknown
    late.watch("circle", 1, "square", 0)
    late.watch("circle", 1, "square", 0)
    assert late.of_choice.tolist() == [asure.INFINITE, 0, 0]


@settings(max_examples=40)
@given(mdps(max_damage=3), st.integers(0, 2**30), st.integers(1, 4))
def test_a_refusing_shield_is_that_of_its_known_choices(mdp, seed, needed):
    shield, rng = OnlineShield(mdp, needed=needed), np.random.default_rng(seed)
    for step in range(60):
        choice = int(rng.integers(mdp.num_choices))
        state, action = int(mdp.choice_states()[choice]), int(mdp.choice_action[choice])
        outcome = draw(mdp, state, action, rng)
        shield.watch(state, action, outcome.next_state, outcome.damage)
        if step % 10 == 9:
            frozen = shield.freeze().minimal
            assert np.array_equal(frozen.of_choice[: mdp.num_choices], shield.of_choice)


def test_enough_samples_make_it_safe(hazard):
    needed = samples_needed(hazard.num_states, hazard.num_actions, mu=0.1, delta=0.01, num_damages=4)
    known = count_outcomes(hazard, needed, seed=1)
    shield, rng = OnlineShield(hazard, needed=needed, known=known), np.random.default_rng(1)
    assert np.array_equal(shield.of_choice, asure.minimal_budget(hazard).of_choice)
    for _ in range(100):
        assert episode(hazard, shield, 2, rng, steps=50) is None
    assert shield.ledger.violations == []
    assert shield.ledger.surprises == []
    promise = shield.confidence(0.1)
    assert promise.delta <= 0.01
    assert promise.statement.startswith("If no outcome is rarer than 10 %, this shield never overspends with")
    assert "promise nothing" in str(OnlineShield(hazard, unknown="allow").confidence(0.1))
    assert OnlineShield(hazard).confidence(0.1).delta == 1
    with pytest.raises(ArgumentError, match="mu must be at most the probability of the rarest outcome"):
        shield.confidence(0.6)


# ---------------------------------------------------------------------- the ledger, files


def test_the_ledger_tells_when_and_where():
    shield = OnlineShield("paper", unknown="allow")
    shield.watch(0, 1, 1, 0, remaining=0)
    shield.watch(0, 0, 0, 2, remaining=1)
    shield.watch(0, 0, 0, 2, remaining=1)  # not allowed by the shield
    first, second = shield.ledger.violations
    assert (first.step, first.state, first.action, first.damage, first.remaining) == (2, 0, 0, 2, 1)
    assert (first.allowed, first.new, second.allowed, second.new) == (True, True, False, False)
    assert [s.step for s in shield.ledger.surprises] == [1, 2]
    assert "3 steps, 2 surprises (none raised the minimal budget of a state), 2 violations" in str(shield.ledger)
    assert "not allowed by the shield" in str(shield.ledger)
    assert "2 of 3 choices are known; the others are allowed" in repr(shield)
    shield.watch(1, 0, 1, 0, remaining=0)
    assert "3 of 3 choices are known\n" in repr(shield)


def test_an_incomplete_write_to_a_ledger_is_an_error(tmp_path, monkeypatch):
    shield = OnlineShield("paper", unknown="allow")
    shield.ledger.record(tmp_path / "ledger")
    monkeypatch.setattr("os.write", lambda file, content: len(content) // 2)
    with pytest.raises(FileError, match=r"cannot append to the ledger .* No space left"):
        shield.watch(0, 0, 0, 1, remaining=0)


@pytest.mark.parametrize("unknown", ["allow", "refuse"])
def test_saved_and_resumed(hazard, tmp_path, unknown):
    rng, path = np.random.default_rng(1), tmp_path / "shield"
    start = count_outcomes(hazard, 3, seed=1)
    straight = OnlineShield(hazard, unknown=unknown, known=start)
    for _ in range(5):
        episode(hazard, straight, 2, rng)
    straight.ledger.note(Episode(1, steps=9, reward=3.0, damage=2, budget=2, interventions=4, ended="terminated"))
    straight.save(path)
    resumed = OnlineShield.load(path, hazard)
    assert (resumed.unknown, resumed.needed) == (unknown, 1)
    assert resumed.ledger == straight.ledger
    assert np.array_equal(resumed.of_choice, straight.of_choice)
    first, second = np.random.default_rng(2), np.random.default_rng(2)
    for _ in range(5):
        episode(hazard, straight, 2, first)
        episode(hazard, resumed, 2, second)
    assert np.array_equal(resumed.of_choice, straight.of_choice)
    assert resumed.ledger.steps == straight.ledger.steps
    assert [s[:5] for s in resumed.ledger.surprises] == [s[:5] for s in straight.ledger.surprises]
    assert np.array_equal(resumed.counts.reward, straight.counts.reward)


def test_a_file_has_the_number_of_states(tmp_path):
    def encode(observation):
        return int(observation[0] > 0)

    env, path = gymnasium.make("CartPole-v1"), tmp_path / "shield"
    shield = OnlineShield(env, num_states=2, encode=encode)
    shield.watch(0, 1, 1, 3)
    shield.save(path)
    again = OnlineShield.load(path, env, encode=encode)
    assert again.space == shield.space
    assert again.counts.has_seen(again.space.choice(0, 1), 1, 3)
    assert OnlineShield.load(path, actions=2).space == shield.space
    for wrong in ({"num_states": 3, "encode": encode}, {"encode": encode, "actions": 3}):
        with pytest.raises(ModelMismatch, match="belongs to another model"):
            OnlineShield.load(path, env, **wrong)
    arrays, strings = load_tensors(path, kind="learning shield", model=None)
    told = {name: strings[name] for name in ("unknown", "needed", "steps")}
    for number in ("-1", "many", str(10**15)):
        lying = {**told, "num_states": number}
        save_tensors(path, kind="learning shield", model=strings["model"], arrays=arrays, strings=lying)
        with pytest.raises(CorruptFile, match="does not hold an online shield"):
            OnlineShield.load(path, env, encode=encode)
    save_tensors(path, kind="learning shield", model=strings["model"], arrays=arrays, strings=told)
    with pytest.raises(CorruptFile, match="does not hold an online shield: 'num_states'"):
        OnlineShield.load(path, env, encode=encode)


def test_wrong_files_are_refused(hazard, tmp_path):
    path = tmp_path / "shield"
    OnlineShield(hazard).save(path)
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        OnlineShield.load(path, "paper")
    asure.minimal_budget(hazard).save(path)
    with pytest.raises(CorruptFile, match="is not a learning shield file"):
        OnlineShield.load(path, hazard)
    empty = OnlineShield(hazard)
    none = {"ended": np.zeros(0, np.int64), "began": np.zeros((0, 2), np.int64)}
    arrays = {**empty.counts.to_arrays(), **none, **empty.ledger.to_arrays()}
    strings = {"unknown": "refuse", "needed": "1", "steps": "0"}

    def write(arrays, strings):
        model = hazard.space.fingerprint
        save_tensors(path, kind="learning shield", model=model, arrays=arrays, strings=strings)

    one = {"times": np.array([1]), "reward": np.array([0.0])}
    for wrong, match in (
        ({"key": np.array([2**60]), **one}, "do not exist, or are not in order"),
        ({"began": np.array([[0, 0]])}, "began must hold states, and how many episodes began there"),
        ({"began": np.array([[10**6, 1]])}, "began must hold states, and how many episodes began there"),
        ({"began": np.array([[0.0, np.nan]])}, "began must hold states, and how many episodes began there"),
        ({"ended": np.array([[3]])}, "ended must hold states"),
        ({"ended": np.array([0.5])}, "ended must hold states"),
        ({"sums": np.array([1.5] * 5)}, "sums must be 5 whole numbers, 0 or more"),
        ({"sums": np.array([-1] * 5)}, "sums must be 5 whole numbers, 0 or more"),
        ({"key": np.array([3]), **one}, "do not add up"),
        ({"key": np.array([3])}, "its arrays are not those"),
        ({"key": np.array([3]), "times": np.array([0]), "reward": np.array([0.0])}, "its numbers are not counts"),
    ):
        write({**arrays, **wrong}, strings)
        with pytest.raises(CorruptFile, match=match):
            OnlineShield.load(path, hazard)
    write(arrays, {**strings, "needed": "many"})
    with pytest.raises(CorruptFile, match="does not hold an online shield"):
        OnlineShield.load(path, hazard)
    write({"key": arrays["key"]}, strings)
    with pytest.raises(CorruptFile, match="it must hold key, times"):
        OnlineShield.load(path, hazard)


# ---------------------------------------------------------------------- tables, bad input


def test_masks_of_few_and_of_many_states_agree(hazard):
    shield = OnlineShield(hazard, unknown="allow", known=count_outcomes(hazard, 30, seed=1))
    states = np.flatnonzero(shield.of_state <= 1)
    few = [shield.mask(states[i : i + 1], 1)[0] for i in range(states.size)]
    for _ in range(20):
        many = shield.mask(states, 1)
    assert np.array_equal(many, np.array(few))
    assert shield.mask(states[:4].reshape(2, 2), 1).shape == (2, 2, 4)
    allowed = int(np.flatnonzero(many[0])[0])
    shield.watch(int(states[0]), allowed, int(states[0]), 3)  # a surprise
    assert not shield.mask(states[:1], 1)[0, allowed]


def test_bad_input(hazard):
    shield = OnlineShield(hazard, unknown="allow")
    with pytest.raises(UnknownName, match="There are: refuse, allow"):
        OnlineShield(hazard, unknown="perhaps")
    with pytest.raises(ArgumentError, match=r"needed must be left out .*; got 9\. Pass unknown"):
        OnlineShield(hazard, unknown="allow", needed=9)
    with pytest.raises(ArgumentError, match="needed must be at least 1"):
        OnlineShield(hazard, needed=0)
    with pytest.raises(ModelMismatch, match="must have the states and actions of the shield"):
        OnlineShield(hazard, known=count_outcomes("paper", 2))
    for bad in (0.5, -1, 256, None, float("nan")):
        with pytest.raises(ModelError, match="damage must be an integer 0 … 255"):
            shield.watch(0, 0, 0, bad)
    for bad in (float("nan"), float("inf"), "much", None):
        with pytest.raises(ModelError, match=r"reward must be a finite number; got .* at choice 0"):
            shield.watch(0, 0, 0, 0, reward=bad)
    with pytest.raises(UnknownName, match="unknown state 134"):
        shield.watch(0, 0, 134, 0)
    with pytest.raises(UnknownName, match="unknown state"):
        shield.watch(500, 0, 0, 0)
    with pytest.raises(UnknownName, match="unknown action"):
        shield.watch(0, 9, 0, 0)
    with pytest.raises(ArgumentError, match="remaining must be a whole number"):
        shield.watch(0, 0, 0, 0, remaining=0.5)
    with pytest.raises(UnknownName, match="unknown state -1"):
        shield.mask([0, -1], 1)
    with pytest.raises(ArgumentError, match=r"shapes that fit together; got \[2\] and \[3\]"):
        shield.mask([0, 1], [1, 2, 3])
    with pytest.raises(ArgumentError, match="known must be counts; got int"):
        OnlineShield(hazard, known=5)
    with pytest.raises(NoSafeAction, match="the budget is overspent by 1"):
        shield.allowed(0, -1)
    with pytest.raises(NoSafeAction, match="overspent by 2"):
        shield.mask([0], -2)
    assert shield.ledger.steps == 0
    assert not shield.of_choice.any()


# ---------------------------------------------------------------------- many steps at once


def test_repeats_are_counted():
    shield, plain = (OnlineShield("paper", unknown="allow") for _ in range(2))
    shield.watch("circle", "left", "circle", 1, reward=1.0)
    shield.repeat("circle", "left", "circle", 1, times=4, reward=1.0)
    for _ in range(5):
        plain.watch("circle", "left", "circle", 1, reward=1.0)
    assert shield.counts.times.tolist() == plain.counts.times.tolist() == [5]
    assert shield.counts.reward.tolist() == [1.0]
    assert len(shield.ledger.surprises) == 1
    with pytest.raises(ModelError, match="must have been watched before it is repeated"):
        shield.repeat("circle", "right", "square", 0, times=1)
    with pytest.raises(ArgumentError, match="times must be at least 1"):
        shield.repeat("circle", "left", "circle", 1, times=0)
    with pytest.raises(ModelError, match="reward must be a finite number"):
        shield.repeat("circle", "left", "circle", 1, times=1, reward=float("nan"))
    assert (
        str(shield.counts) == "5 samples of 1 of 3 choices showed 1 outcome"
    )  # without a seed, as they were not drawn


def test_repeats_make_choices_known():
    shield = OnlineShield("paper", needed=3)
    shield.watch("square", 0, "square", 0)
    shield.watch("circle", "right", "square", 0)
    with pytest.raises(NoSafeAction, match="unknown, and refused"):
        shield.allowed("circle", 0)
    shield.repeat("circle", "right", "square", 0, times=2)
    shield.repeat("square", 0, "square", 0, times=2)
    assert shield.allowed("circle", 0).tolist() == [1]


# ---------------------------------------------------------------------- a guard, around any environment


def test_it_is_a_guard():
    shield = OnlineShield("paper", unknown="allow")
    assert isinstance(shield, Guard)
    run = shield.begin("circle", 2)
    assert run == (0, 2)
    assert shield.allowed(*run).tolist() == [0, 1]
    run = shield.after(run, 0, 0, True)  # one unit of damage
    assert run == (0, 1)
    assert shield.of_choice.tolist() == [1, 0, 0]
    states, remaining = shield.begin(np.array([0, 0]), 3)
    states, remaining = shield.after((states, remaining), np.array([1, 1]), np.array([1, 1]), np.array([0, 2]))
    assert (states.tolist(), remaining.tolist()) == ([1, 1], [3, 1])
    many = np.array([0, 0]), np.array([1, 1])
    for said, refused in ((None, "must be told the damage of every step"), (float("nan"), "0 … 255; got nan")):
        with pytest.raises(ModelError, match=refused):
            shield.after((0, 1), 0, 0, said)
        for each in ([said] * 2, np.array([said] * 2)):
            with pytest.raises(ModelError, match=refused):
                shield.after(many, np.array([0, 0]), np.array([0, 0]), each)
    with pytest.raises(NoSafeAction, match="unknown, and refused"):
        OnlineShield("paper").begin("circle", 3)


def test_counts_of_an_environment_fit_whatever_its_starts_are():
    def put(env, state):
        env.unwrapped.s = state

    lake = gymnasium.make("FrozenLake-v1")
    known = count_outcomes(EnvSampler(lake, put, initial=3), 30, seed=0)
    shield = OnlineShield(lake, known=known)
    assert (shield.counts.samples[:64] == 30).all()
    assert shield.of_choice.tolist() == OnlineShield(known, known=known).of_choice.tolist()
    with pytest.raises(
        ModelMismatch,
        match=r"shield, 48 states with \d+ choices; they have 16 states with 65\. Use .* OnlineShield\(sampler",
    ):
        OnlineShield("CliffWalking-v1", known=known)


def test_shields_repeat_the_caveat_of_their_counts(tmp_path):
    known, said = Counts(OnlineShield(num_states=2, actions=1).space, caveat="If the log is complete."), []
    known.see(0, 1, 0, times=100)
    for shield in (OnlineShield(num_states=2, actions=1, known=known), OnlineShield(known, known=known)):
        shield.save(tmp_path / "shield")
        said += [shield, OnlineShield.load(tmp_path / "shield", num_states=2, actions=1)]
    assert [str(shield.confidence(0.5)).count("If the log is complete.") for shield in said] == [1, 1, 1, 1]


def test_the_spaces_of_an_environment_are_enough():
    lake = gymnasium.make("FrozenLake-v1")
    for shield in (OnlineShield(lake), OnlineShield("FrozenLake-v1"), OnlineShield(num_states=16, actions=4)):
        assert (shield.space.num_observed, shield.space.end, shield.space.num_actions) == (16, 16, 4)
        assert shield.space.unknown is None
    assert OnlineShield(lake).space.initial_state == 0
    assert OnlineShield(num_states=16, actions=4).space.initial_states.size == 16  # as they are not known
    cart = gymnasium.make("CartPole-v1")
    with pytest.raises(ModelError, match="Give num_states and encode"):
        OnlineShield(cart)
    shield = OnlineShield(cart, num_states=2, encode=lambda observation: int(observation[0] > 0), unknown="allow")
    assert shield.space.observed(cart.reset(seed=0)[0]) in (0, 1)
    with pytest.raises(ArgumentError, match="needs an environment, a model, or num_states and actions"):
        OnlineShield(num_states=3)


def test_the_ends_of_episodes_are_learned():
    shield = OnlineShield(num_states=2, actions=1)
    shield.watch(0, 0, shield.space.end, 0)
    assert shield.allowed(0, 0).tolist() == [0]  # nothing can happen after the end
    shield.end(shield.space.end)  # known already
    plain = OnlineShield("corridor", needed=3)
    last = asure.example("corridor").num_states - 1
    plain.end(last)
    plain.end(last)
    assert (plain.ledger.steps, plain.ledger.surprises) == (0, [])  # nothing was played
    assert plain.allowed(last, 0).size
    with pytest.raises(ModelError, match=r"one episode ended in .* and another went on from there"):
        plain.watch(last, int(plain.space.actions(last)[0]), 0, 0)
    plain.watch(0, int(plain.space.actions(0)[0]), 1, 0)
    with pytest.raises(ModelError, match=r"one episode ended in .* and another went on"):
        plain.end(0)


def test_other_processes_are_refused(tmp_path):
    shield = OnlineShield("paper", unknown="allow")
    with pytest.raises(ArgumentError, match=r"learns in one process.*DummyVecEnv"):
        pickle.dumps(shield)
    shield._process += 1  # as if it had been forked
    with pytest.raises(ArgumentError, match="learns in one process"):
        shield.watch("circle", "left", "circle", 0)


def test_the_error_names_unknown_choices_as_the_reason():
    shield = OnlineShield("paper")
    shield.watch("circle", "left", "circle", 0)
    shield.watch("circle", "right", "square", 0)
    with pytest.raises(NoSafeAction, match="some of its actions are unknown"):
        shield.allowed("square", 9)
    shield = OnlineShield("paper")
    shield.watch("circle", "right", "square", 0)
    shield.watch("circle", "left", "square", 0)
    with pytest.raises(NoSafeAction, match="its actions may lead to unknown choices"):
        shield.allowed("circle", 9)
    shield.watch("square", 0, "square", 1)
    with pytest.raises(NoSafeAction, match="no finite budget suffices there"):
        shield.allowed("circle", 9)
