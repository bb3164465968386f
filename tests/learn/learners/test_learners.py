"""Tabular learners: shielded ones never overspend, all of them learn, and compiled code agrees with plain code."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import almostsure as asure
from almostsure.errors import ArgumentError, Infeasible, ModelMismatch, NoSafeAction, NotEnoughMemory
from almostsure.learn import FunctionSampler, OnlineShield, count_outcomes, learn_minimal_budget
from almostsure.learn.deployment import deployment
from almostsure.learn.learners import (
    LagrangianQ,
    MaskedQ,
    SauteQ,
    ShieldedQ,
    UnconstrainedQ,
    learn_barrier,
    learners,
    session,
)
from almostsure.learn.learners.world import playground
from almostsure.shield import Shield
from almostsure.testing import mdps

SHIELDED = [ShieldedQ]
EVERY = [*SHIELDED, UnconstrainedQ, LagrangianQ, SauteQ, MaskedQ]


def optimistic(mdp):
    return OnlineShield(mdp, unknown="allow")


def same(one, other):
    columns = [np.array_equal(getattr(one, name), getattr(other, name)) for name in ("ends", "returns", "damages")]
    return all(columns) and one.policy == other.policy and one.restricted_steps == other.restricted_steps


# ---------------------------------------------------------------------- never more than the budget


@pytest.mark.parametrize("kind", SHIELDED)
@settings(max_examples=30, deadline=None)
@given(mdp=mdps(max_damage=5), extra=st.integers(0, 3), seed=st.integers(0, 2**30))
def test_a_shielded_learner_never_overspends(kind, mdp, extra, seed):
    shield = asure.Shield(asure.minimal_budget(mdp))
    budget = shield.minimal.smallest_budget() + extra
    assume(budget < asure.INFINITE)
    training = kind(max_steps=20).train(mdp, budget, steps=100, seed=seed)
    assert (training.damages <= budget).all()
    assert shield.is_feasible(training.policy, budget)
    assert asure.evaluate(mdp, training.policy, budget=budget).overspends == 0


@pytest.mark.parametrize("kind", SHIELDED)
@settings(max_examples=30, deadline=None)
@given(mdp=mdps(max_damage=5), extra=st.integers(0, 3), seed=st.integers(0, 2**30))
def test_every_violation_under_an_optimistic_shield_is_a_surprise(kind, mdp, extra, seed):
    budget = asure.minimal_budget(mdp).smallest_budget() + extra
    assume(budget < asure.INFINITE)
    shield = optimistic(mdp)
    training = kind(max_steps=20, shield=shield).train(mdp, budget, steps=100, seed=seed)
    found = shield.ledger.violations
    assert all(v.new and v.allowed and v.damage > v.remaining >= 0 for v in found)
    assert len({v[1:5] for v in found}) == len(found) == int((training.damages > budget).sum())
    assert shield.ledger.steps == 100
    assert int(shield.counts.times.sum()) == 100


@pytest.mark.parametrize("kind", SHIELDED)
def test_no_violation_in_long_training(kind, hazard):
    learned = learn_minimal_budget(hazard, mu=0.1, delta=0.01, budget=3, seed=1).shield
    careful = OnlineShield(hazard, needed=200, known=count_outcomes(hazard, 200, seed=1))
    for shield in (None, learned, careful):
        training = kind(shield=shield).train(hazard, 3, steps=100_000, seed=0)
        assert training.ends.size > 500
        assert training.damages.max() <= 3
        assert training.restricted_steps > 0
        assert asure.evaluate(hazard, training.policy, budget=3).overspends == 0


def test_a_complete_shield_learns_nothing_new(hazard):
    careful = OnlineShield(hazard, needed=200, known=count_outcomes(hazard, 200, seed=1))
    before = careful.of_choice
    exact = ShieldedQ().train(hazard, 3, steps=50_000, seed=0)
    assert np.array_equal(ShieldedQ(shield=careful).train(hazard, 3, steps=50_000, seed=0).returns, exact.returns)
    assert np.array_equal(before, careful.of_choice)
    assert not careful.ledger.violations


def test_one_step_masking_overspends():
    corridor = asure.example("corridor")
    masked = MaskedQ().train(corridor, 2, steps=4_000, seed=0)
    assert (masked.damages > 2).mean() > 0.5
    assert asure.evaluate(corridor, masked.policy, budget=2).overspends == 1
    shielded = ShieldedQ().train(corridor, 2, steps=4_000, seed=0)
    assert shielded.damages.max() <= 2
    assert asure.evaluate(corridor, shielded.policy, budget=2).overspends == 0


def test_one_step_masking_suffices_if_no_damage_is_forced_later():
    paper = asure.example("paper")
    training = MaskedQ().train(paper, 3, steps=2_000, seed=0)
    assert training.damages.max() <= 3


def rarely_hurts(chance):
    """One step, which does damage with a small probability."""
    outcomes = [0, 0], [0, 0], [1, 1], [1 - chance, chance], [1.0, 1.0], [0, 1]
    return asure.from_transitions(*outcomes, terminal=[1])


def test_the_evaluation_finds_rare_overspending_under_a_wrong_shield():
    """Neither the shield nor training has seen any damage, but the deployed policy may overspend."""
    mdp = rarely_hurts(1e-5)
    ignorant = Shield(asure.minimal_budget(count_outcomes(mdp, 10, seed=0).to_mdp()))
    training = ShieldedQ(shield=ignorant).train(mdp, 0, steps=500, seed=0)
    assert not training.damages.any()
    assert 0 < asure.evaluate(mdp, training.policy, budget=0).overspends < 1e-4


@pytest.mark.parametrize("steps", [500, 50_000], ids=["plain", "compiled"])
@pytest.mark.parametrize("sampled", [False, True])
def test_outcomes_that_are_impossible_in_the_shields_model_are_refused(steps, sampled):
    """Overspending under a shield that learns no more is an error, and is not only counted."""
    mdp = rarely_hurts(0.01)
    ignorant = Shield(asure.minimal_budget(count_outcomes(rarely_hurts(1e-9), 10, seed=0).to_mdp()))

    def step(state, action, rng):
        return 1, 1.0, int(rng.random() < 0.01)

    world = FunctionSampler(step, 2, 1, terminal=[1], max_damage=1) if sampled else mdp
    with pytest.raises(ModelMismatch, match=r"with damage 1, which .* impossible\. It was learned without seeing this"):
        ShieldedQ(shield=ignorant).train(world, 0, steps=steps, seed=0)
    with pytest.raises(ModelMismatch, match="says is impossible"):
        asure.compare(world, 1, ShieldedQ(shield=ignorant), steps=steps, seeds=1)


def test_outcomes_that_a_frozen_shield_never_saw_are_refused():
    paper = asure.example("paper")
    with pytest.raises(ModelMismatch, match="says is impossible"):
        ShieldedQ(shield=optimistic(paper).freeze()).train(paper, 1, steps=500, seed=0)


def test_the_shield_of_another_model_is_refused():
    one, other = (asure.from_map(rows, slip=0.1) for rows in (["S.~.G", "....."], ["S...G", "~~~~~"]))
    shield = Shield(asure.minimal_budget(one))
    with pytest.raises(ModelMismatch, match=r"belongs to another model .* than the one that is trained on"):
        ShieldedQ(shield=shield).train(other, 0, steps=2_000, seed=0)
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        asure.compare(other, 9, ShieldedQ(shield=shield), steps=2_000, seeds=1)
    again = asure.from_map(["S.~.G", "....."], slip=0.1)
    assert ShieldedQ(shield=shield).train(again, 0, steps=2_000, seed=0).damages.max() == 0


@pytest.mark.parametrize("kind", [optimistic, lambda mdp: optimistic(mdp).freeze()], ids=["online", "frozen"])
@pytest.mark.parametrize("theirs", [["S.~.G", ".....", "....."], ["S.G"]], ids=["more", "fewer"])
def test_a_shield_of_other_states_is_refused(kind, theirs):
    ours = asure.from_map(["S.~.G", "....."], slip=0.1)
    with pytest.raises(ModelMismatch, match="belongs to other states and actions"):
        ShieldedQ(shield=kind(asure.from_map(theirs, slip=0.1))).train(ours, 1, steps=100, seed=0)


@pytest.mark.parametrize("actions", [1, 3])
def test_a_shield_of_other_actions_is_refused(actions):
    sampler = FunctionSampler(lambda state, action, rng: (1, 0.0, 0), 2, 2, terminal=[1], max_damage=1)
    shield = OnlineShield(num_states=2, actions=actions, unknown="allow")
    with pytest.raises(ModelMismatch, match="belongs to other states and actions"):
        ShieldedQ(shield=shield).train(sampler, 1, steps=100, seed=0)


def test_a_shield_without_a_safe_action_in_an_initial_state_is_refused():
    rows = [0, 1], [0, 0], [2, 2], [1.0, 1.0], [0.0, 0.0], [0, 0]
    one = asure.from_transitions(*rows, terminal=[2])
    both = asure.from_transitions(*rows, terminal=[2], initial={0: 0.5, 1: 0.5})
    seen = OnlineShield(one)
    seen.watch(0, 0, 2, 0)
    seen.end(2)
    with pytest.raises(NoSafeAction, match="state 1"):
        ShieldedQ(shield=seen.freeze()).train(both, 1, steps=100, seed=0)


@pytest.mark.parametrize("shield", [None, optimistic], ids=["exact", "online"])
def test_a_learned_model_is_trained_in_although_it_has_the_state_unknown(shield):
    learned = asure.learn_minimal_budget("hazard-map", mu=0.1, delta=0.01, budget=1, seed=1)
    assert learned.mdp.unknown is not None
    training = ShieldedQ(shield=shield).train(learned.mdp, 1, steps=2_000, seed=0)
    if shield is None:
        assert training.damages.max() <= 1
    assert asure.compare(learned.mdp, 1, steps=500, seeds=1).rows[0]["training_violations"] == 0


# ---------------------------------------------------------------------- learning


@pytest.mark.parametrize("kind", SHIELDED)
@pytest.mark.parametrize(
    ("model", "budget", "steps", "slack"),
    [("paper", 5, 3_000, 0), ("corridor", 2, 4_000, 0), ("hazard-map", 1, 100_000, 0.5), ("hazard-map", 3, 100_000, 1)],
)
def test_the_optimum_is_approached(kind, model, budget, steps, slack):
    best = asure.solve_policy(model, asure.AlmostSure(budget)).value
    mdp = asure.example(model)
    training = kind().train(mdp, budget, steps=steps, seed=0)
    found = asure.evaluate(mdp, training.policy).expected_return
    assert best - slack - 1e-6 <= found <= best + 1e-6


def test_the_second_experiment_of_the_paper():
    mdp = asure.example("paper", damage_probability=0.6)
    training = ShieldedQ().train(mdp, 5, steps=20_000, seed=1)
    assert asure.evaluate(mdp, training.policy).expected_return == pytest.approx(5 / 0.6)
    assert training.damages.max() <= 5


@pytest.mark.parametrize("kind", EVERY)
def test_truncation_is_not_termination(kind):
    """Although every episode is truncated after one step, the larger reward later is preferred."""
    mdp = asure.from_transitions(
        [0, 0, 1], [0, 1, 0], [2, 1, 2], [1] * 3, [1, 0, 5], [0] * 3, terminal=[2], initial={0: 0.5, 1: 0.5}
    )
    training = kind(max_steps=1).train(mdp, 1, steps=2_000, seed=0)
    assert training.policy.act(0, 1) == 1


@pytest.mark.parametrize("kind", SHIELDED)
def test_an_initial_state_may_be_terminal(kind):
    mdp = asure.from_transitions([0], [0], [1], [1.0], [1.0], [0], terminal=[1], initial={0: 0.5, 1: 0.5})
    training = kind().train(mdp, 0, steps=100, seed=0)
    assert set(training.returns.tolist()) == {0.0, 1.0}


def test_a_price_of_damage_lowers_it(hazard):
    free, priced = (kind().train(hazard, 1, steps=100_000, seed=0).policy for kind in (UnconstrainedQ, LagrangianQ))
    free, priced = (asure.evaluate(hazard, policy, budget=1) for policy in (free, priced))
    assert priced.exceeds(1) < 0.5 < free.exceeds(1)
    assert free.expected_return > priced.expected_return or np.isinf(free.expected_return)


def test_the_penalty_deters_from_overspending():
    mdp = asure.example("corridor")
    policy = SauteQ().train(mdp, 2, steps=20_000, seed=0).policy
    assert asure.evaluate(mdp, policy).expected_return == pytest.approx(9)
    mild = SauteQ(penalty=1e-3).train(mdp, 2, steps=20_000, seed=0).policy
    assert asure.evaluate(mdp, mild).overspends == 1


@pytest.mark.parametrize(("rewards", "penalty"), [((-1.0, 50.0), 51), ((-1.0, -1.0), 2), ((0.0, 0.0), 1)])
def test_the_default_penalty(rewards, penalty):
    mdp = asure.from_transitions([0, 0], [0, 1], [1, 1], [1, 1], rewards, [1, 0], terminal=[1])
    assert SauteQ().rules(playground(mdp)) == {"penalty": penalty}


@pytest.mark.parametrize("rewards", [(-1.0, -1.5), (0.0, 0.0)])
def test_the_default_penalty_is_worse_than_any_step(rewards):
    mdp = asure.from_transitions([0, 0], [0, 1], [1, 1], [1, 1], rewards, [1, 0], terminal=[1])
    policy = SauteQ().train(mdp, 0, steps=2_000, seed=0).policy
    assert asure.evaluate(mdp, policy).overspends == 0


# ---------------------------------------------------------------------- reproducible, plain or compiled


@pytest.mark.parametrize("kind", EVERY)
def test_a_seed_gives_one_result_compiled_or_not(kind, hazard, monkeypatch):
    runs = []
    for work in (10**9, 0, 0):
        monkeypatch.setattr(session, "PLAIN_WORK", work)
        runs.append(kind(max_steps=100).train(hazard, 2, steps=800, seed=5))
    assert same(runs[0], runs[1])
    assert same(runs[1], runs[2])
    assert not same(runs[0], kind(max_steps=100).train(hazard, 2, steps=800, seed=6))


def test_replays_give_one_result_compiled_or_not(hazard, monkeypatch):
    learner = ShieldedQ(max_steps=100, explore=0.1, discount=0.99, replays=3)
    runs = []
    for work in (10**9, 0):
        monkeypatch.setattr(session, "PLAIN_WORK", work)
        runs.append(learner.train(hazard, 2, steps=800, seed=5))
    assert same(*runs)


def test_replays_need_fewer_steps(hazard):
    best = asure.solve_policy(hazard, asure.AlmostSure(2)).value
    short = [ShieldedQ(replays=replays).train(hazard, 2, steps=20_000, seed=0).policy for replays in (0, 8)]
    plain, replayed = (deployment(playground(hazard), policy, 2).reward for policy in short)
    assert plain < replayed
    assert best - 0.5 < replayed <= best + 1e-6


@pytest.mark.parametrize("kind", SHIELDED)
def test_online_shields_give_one_result_too(kind, hazard, monkeypatch):
    runs, shields = [], [optimistic(hazard), optimistic(hazard)]
    for work, shield in zip((10**9, 0), shields, strict=True):
        monkeypatch.setattr(session, "PLAIN_WORK", work)
        runs.append(kind(max_steps=100, shield=shield).train(hazard, 2, steps=500, seed=5))
    assert same(*runs)
    assert shields[0].ledger == shields[1].ledger
    assert len(shields[0].ledger.surprises) > 50


def test_a_function_makes_a_fresh_shield_for_each_run(hazard):
    made = []

    def make(mdp):
        made.append(optimistic(mdp))
        return made[-1]

    learner = ShieldedQ(shield=make)
    one, other = (learner.train(hazard, 2, steps=2_000, seed=3) for _ in range(2))
    assert same(one, other)
    assert len(made) == 2


# ---------------------------------------------------------------------- barrier learning


def everywhere(mdp):
    """The same model, started in any state."""
    choice = mdp.outcome_choices()
    count = mdp.num_states
    return asure.from_transitions(
        mdp.choice_states()[choice], mdp.choice_action[choice], mdp.successor, mdp.probability, mdp.reward, mdp.damage,
        num_states=count, initial=dict.fromkeys(range(count), 1 / count),
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(mdps(max_damage=2), st.integers(0, 2**30))
def test_doomed_choices_need_a_budget_above_0(mdp, seed):
    minimal = asure.minimal_budget(mdp)
    assume(minimal.smallest_budget() == 0)
    found = learn_barrier(mdp, steps=300, seed=seed, max_steps=10)
    assert not (found.doomed & (minimal.of_choice == 0)).any()
    violations = found.shield.ledger.violations
    assert all(v.new and v.allowed and v.damage > 0 for v in violations)
    assert len(violations) == int((found.training.damages > 0).sum())
    assert len(violations) <= int((mdp.damage > 0).sum())


def test_a_long_run_finds_the_whole_barrier():
    corridor = asure.from_map(["S.~.G", ".....", "..X.."], slip=0.1, step_reward=-1.0)
    minimal = asure.minimal_budget(corridor)
    found = learn_barrier(corridor, steps=100_000, max_steps=50)
    reached = np.bincount(found.shield.counts.choice, minlength=corridor.num_choices) > 0
    assert np.array_equal(found.doomed[reached], minimal.of_choice[reached] > 0)
    assert reached.sum() > corridor.num_choices / 2
    assert found.training.damages[found.training.ends > 50_000].max() == 0
    assert "doomed" in str(found)


def test_a_doomed_start_is_noticed():
    with pytest.raises(NoSafeAction, match="safe with 0 left"):
        learn_barrier("quicksand", steps=5_000)


def test_the_whole_barrier_is_found_if_episodes_start_in_every_state():
    mdp = everywhere(asure.example("paper", damage_probability=0.5))
    found = learn_barrier(mdp, steps=500)
    assert np.array_equal(found.doomed, asure.minimal_budget(mdp).of_choice > 0)


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize("kind", SHIELDED)
def test_bad_input(kind, hazard):
    with pytest.raises(Infeasible, match="needs 2"):
        kind().train(asure.example("quicksand"), 1, steps=10, seed=0)
    with pytest.raises(ModelMismatch, match="other states and actions"):
        kind(shield=asure.Shield(asure.minimal_budget("paper"))).train(hazard, 1, steps=10, seed=0)
    with pytest.raises(ArgumentError, match="shield must be"):
        kind(shield="exact").train(hazard, 1, steps=10, seed=0)
    with pytest.raises(NoSafeAction, match="some of its actions are unknown, and refused"):
        kind(shield=OnlineShield(hazard)).train(hazard, 1, steps=10, seed=0)
    with pytest.raises(ArgumentError, match="steps must be at least 1"):
        kind().train(hazard, 1, steps=0, seed=0)


@pytest.mark.parametrize("kind", EVERY)
def test_max_steps_must_be_a_number_of_steps(kind):
    with pytest.raises(ArgumentError, match="max_steps must be at least 1"):
        kind(max_steps=0)


@pytest.mark.parametrize("kind", EVERY)
def test_budgets_and_seeds_are_checked(kind, hazard):
    with pytest.raises(ArgumentError, match="budget must be a whole number, 0 or more"):
        kind().train(hazard, -1, steps=10, seed=0)
    with pytest.raises(ArgumentError, match="seed must be at least 0"):
        kind().train(hazard, 1, steps=10, seed=-1)


@pytest.mark.parametrize("kind", [*SHIELDED, SauteQ, MaskedQ])
def test_too_large_tables_are_refused(kind, hazard):
    with pytest.raises(NotEnoughMemory, match="Train with a smaller budget"):
        kind().train(hazard, 2**31 - 2, steps=10, seed=0)


def test_other_settings_are_checked():
    with pytest.raises(ArgumentError, match="explore must be a share"):
        ShieldedQ(explore=1.5)
    with pytest.raises(ArgumentError, match=r"discount must lie in \(0, 1\]"):
        ShieldedQ(discount=0.0)
    with pytest.raises(ArgumentError, match="replays must be at least 0"):
        ShieldedQ(replays=-1)
    sampler = FunctionSampler(lambda state, action, rng: (0, 0.0, 0), 1, 1)
    with pytest.raises(ArgumentError, match="replays must be 0 if there is no model"):
        ShieldedQ(replays=1).train(sampler, 0, steps=10, seed=0)
    with pytest.raises(ArgumentError, match="price_rate must be positive"):
        LagrangianQ(price_rate=-1.0)
    with pytest.raises(ArgumentError, match="penalty must be a number; got NaN"):
        SauteQ(penalty=float("nan"))
    with pytest.raises(ArgumentError, match="max_steps must be at least 1"):
        learn_barrier("paper", max_steps=0)


def test_names_are_different():
    assert len({learner.name for learner in learners.values()}) == len(learners) == 5


def test_rewards_after_rare_outcomes_are_found() -> None:
    def step(state: int, action: int, rng: np.random.Generator) -> tuple[int, float, int]:
        if state == 0:
            return int(rng.random() < 0.1), 0.0, 0
        return 2, 100.0 if action == 0 else -50.0, 0

    assert playground(FunctionSampler(step, num_states=3, actions=2, terminal=[2])).rewards == (-50.0, 100.0)
