"""``evaluate``, compared with enumerating all trajectories and with simulation."""

import math
from functools import partial
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from almostsure import from_transitions
from almostsure.errors import ArgumentError, ModelError, NoSafeAction
from almostsure.policy.evaluation.evaluate import evaluate
from almostsure.policy.evaluation.worst import worst_damage
from almostsure.policy.policy import Policy
from almostsure.policy.rows import Rest
from almostsure.policy.simulation.simulate import simulate
from almostsure.testing import mdps

module = import_module("almostsure.policy.evaluation.evaluate")  # the function has its name
randoms = st.randoms(use_true_random=False)


def some_policy(mdp, random, budget=None):
    """A policy that plays some actions of each state; with a budget on (state, remaining) and once overspent."""

    def spread(state, remaining=None):
        actions = mdp.actions(state).tolist()
        some = random.sample(actions, random.randint(1, len(actions)))
        return {a: 1 / len(some) for a in some}

    policy = Policy.from_function(mdp, spread, budget=budget)
    return policy if budget is None else policy.with_overspent(lambda s: spread(s))


MOST = 25  # larger damages are not distinguished


def unrolled(mdp, policy, budget, discount):
    """Return, damage, length and distribution by enumerating all trajectories, merged by (state, damage)."""
    ends = mdp.is_terminal()
    mass = {(int(s), 0): p for s, p in zip(mdp.initial_states, mdp.initial_probabilities, strict=True)}
    ended = np.zeros(MOST + 1)
    gained = hurt = length = 0.0
    step = 0
    while mass:
        ahead = {}
        for (state, spent), m in mass.items():
            if ends[state]:
                ended[spent] += m
                continue
            length += m
            shares = policy.probabilities(state, None if policy.budget is None else budget - spent)
            for action in np.flatnonzero(shares).tolist():
                for o in mdp.outcomes(state, action):
                    p = m * shares[action] * o.probability
                    gained += p * discount**step * o.reward
                    hurt += p * o.damage
                    key = (o.next_state, min(spent + o.damage, MOST))
                    ahead[key] = ahead.get(key, 0.0) + p
        mass = {key: m for key, m in ahead.items() if m > 1e-13}
        step += 1
    return gained, hurt, length, ended


@given(mdps(max_states=4, proper=True), randoms, st.one_of(st.none(), st.integers(0, 4)), st.sampled_from([1.0, 0.7]))
@settings(max_examples=40)
def test_equal_to_enumerating_all_trajectories(mdp, random, budget, discount):
    policy = some_policy(mdp, random, budget)
    result = evaluate(mdp, policy, discount=discount)
    gained, hurt, length, distribution = unrolled(mdp, policy, budget, discount)
    assert result.accuracy < 1e-9
    assert result.expected_return == pytest.approx(gained, abs=1e-6)
    assert result.expected_damage == pytest.approx(hurt, abs=1e-6)
    assert result.expected_length == pytest.approx(length, abs=1e-6)
    assert result.ends == pytest.approx(1)
    known = np.pad(result.damage_distribution, (0, MOST))[:MOST]
    assert np.allclose(known, distribution[:MOST], atol=1e-8)
    if budget is not None:
        assert result.overspends == pytest.approx(distribution[budget + 1 :].sum(), abs=1e-8)


@given(mdps(max_states=5), randoms, st.one_of(st.none(), st.integers(0, 3)))
@settings(max_examples=60)
def test_simulation_agrees(mdp, random, budget):
    policy = some_policy(mdp, random, budget)
    result = evaluate(mdp, policy)
    count = 2_000
    episodes = simulate(mdp, policy, count, seed=random.getrandbits(40), max_steps=400)
    if result.ends > 1 - 1e-9 and result.expected_length < 20 and not episodes.truncated.any():
        for exact, seen in (
            (result.expected_return, episodes.returns),
            (result.expected_damage, episodes.damages),
            (result.expected_length, episodes.lengths),
        ):
            assert abs(seen.mean() - exact) <= 6 * seen.std() / math.sqrt(count) + 1e-6 + 1e-3 * abs(exact)
    if budget is not None and result.ends > 1 - 1e-9:
        share = float(episodes.overspent.mean())
        spread = math.sqrt(result.overspends * (1 - result.overspends) / count)
        assert abs(share - result.overspends) <= 6 * spread + 2e-3


@given(mdps(max_states=5), randoms, st.one_of(st.none(), st.integers(0, 3)))
def test_probabilities_add_up(mdp, random, budget):
    result = evaluate(mdp, some_policy(mdp, random, budget))
    assert result.damage_distribution.sum() + result.beyond == pytest.approx(1, abs=1e-9)
    assert (result.damage_distribution >= 0).all()
    assert result.endless <= result.beyond + 1e-9
    assert (result.expected_damage == math.inf) == (result.endless > 0)
    assert (result.expected_length == math.inf) == (result.ends < 1 - 1e-9)


# ---------------------------------------------------------------------- the paper's numbers


def test_the_assured_policy_of_the_paper(paper):
    """Damage 5 on the left, then right: a negative-binomial return with mean 5/0.6 and minimum 5, always damage 5."""
    result = evaluate(paper(0.6), [[1, 0]] + [[0, 0]] * 5)
    assert result.expected_return == pytest.approx(5 / 0.6, abs=1e-12)
    assert result.damage_distribution.tolist() == pytest.approx([0, 0, 0, 0, 0, 1])
    assert result.overspends == 0


@pytest.mark.parametrize("q", [1.0, 0.6])
def test_the_expectation_constrained_policy_of_the_paper(paper, q):
    c = 5.0
    result = evaluate(paper(q), {0: {"left": c / (q + c), "right": q / (q + c)}}, budget=5)
    assert result.expected_return == pytest.approx(c / q, rel=1e-12)
    assert result.expected_damage == pytest.approx(c, rel=1e-12)
    # The damage is geometric: it exceeds any n with probability (c / (1 + c))^(n + 1).
    assert result.exceeds(5) == pytest.approx((c / (1 + c)) ** 6, rel=1e-9)


def test_a_discount_only_affects_the_return(paper):
    result = evaluate(paper(), [[1, 0], [0, 0], [0, 0]], discount=0.5)
    assert result.expected_return == pytest.approx(1.5)
    assert result.discounted_damage == pytest.approx(1.5)
    assert result.expected_damage == pytest.approx(2)
    assert "discount 0.5" in str(result)


# ---------------------------------------------------------------------- runs without an end


def test_endless_damage(paper):
    result = evaluate(paper(), lambda s: 0)
    assert (result.expected_return, result.expected_damage, result.expected_length) == (math.inf,) * 3
    assert (result.ends, result.endless, result.beyond) == (0, 1, 1)


def test_endless_waiting(coin):
    result = evaluate(coin, [0, 0])
    assert (result.expected_return, result.expected_damage, result.expected_length) == (0, 0, math.inf)
    assert result.damage_distribution.tolist() == [1]


@pytest.mark.parametrize(("reward", "value"), [(1, math.inf), (-1, -math.inf), (0, 0)])
def test_endless_reward(reward, value):
    mdp = from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [reward, reward], [0, 0])
    assert evaluate(mdp, [0, 0]).expected_return == value


def test_the_sum_of_rewards_that_cancel_out_is_undefined():
    mdp = from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [1, -1], [0, 0])
    assert math.isnan(evaluate(mdp, [0, 0]).expected_return)
    assert evaluate(mdp, [0, 0], discount=0.5).expected_return == pytest.approx(1 / 1.5)


def test_the_sum_of_plus_and_minus_infinity_is_undefined():
    mdp = from_transitions([0, 0, 1, 2], [0, 0, 0, 0], [1, 2, 1, 2], [0.5, 0.5, 1, 1], [0, 0, 1, -1], [0] * 4)
    assert math.isnan(evaluate(mdp, [0, 0, 0]).expected_return)


def test_an_endless_fair_game_has_value_0():
    mdp = from_transitions([0, 0], [0, 0], [0, 0], [0.5, 0.5], [1, -1], [0, 0])
    assert evaluate(mdp, [0]).expected_return == 0


def test_coming_to_rest(coin):
    rest = Rest(probability=np.array([[0.25, 0.0]]), choice=np.array([0, -1]))
    result = evaluate(coin, Policy(coin, choice=np.array([[1, 2]], np.int32), rest=rest))
    assert (result.expected_return, result.ends, result.expected_length) == (0.75, 0.75, math.inf)
    assert result.damage_distribution.tolist() == [0.25, 0.75]


# ---------------------------------------------------------------------- budgets and gaps


def test_overspending_by_a_policy_that_is_undefined_then(paper):
    result = evaluate(paper(0.5), [[0, 0], [0, 0]])
    assert result.overspends == pytest.approx(1)
    assert math.isnan(result.expected_return)
    assert result.damage_distribution.tolist() == [0, 0]


def test_a_start_with_more_or_less_than_the_policys_budget(paper):
    table = [[1, 0], [0, 0], [0, 0]]
    assert evaluate(paper(), table, budget=1).expected_return == pytest.approx(1)
    assert evaluate(paper(), table, budget=7).expected_return == pytest.approx(7)  # the top layer is used until it fits


def test_a_state_at_which_the_policy_is_undefined(paper):
    with pytest.raises(NoSafeAction, match="reaches state 0 with 1 left, where it is undefined") as caught:
        evaluate(paper(), [[1, 0], [-1, 0], [0, 0]])
    assert (caught.value.state, caught.value.remaining) == (0, 1)
    assert "made for" not in str(caught.value)


@pytest.mark.parametrize("play", [evaluate, worst_damage, partial(simulate, episodes=10, seed=1)])
def test_the_error_of_an_undefined_policy_names_a_budget_other_than_its_own(paper, play):
    with pytest.raises(NoSafeAction, match=r"It was made for a budget of 2: leave out the budget, or solve with every"):
        play(paper(), [[-1, 0], [-1, 0], [1, 0]], budget=1)


@pytest.mark.parametrize("play", [evaluate, partial(simulate, episodes=10)])
def test_the_error_of_a_failing_function_has_its_arguments(play):
    with pytest.raises(
        ModelError, match=r"called with the state's number, \d+; the name is mdp\.state_name\(\d+\): TypeE"
    ):
        play("hazard-map", lambda state: state[2], budget=2)


def test_a_long_tail_is_cut_and_counted():
    mdp = from_transitions([0, 0], [0, 0], [0, 1], [0.9999, 0.0001], [0, 0], [1, 0], terminal=[1])
    result = evaluate(mdp, [0, 0])
    assert result.expected_damage == pytest.approx(9999, rel=1e-9)
    assert result.beyond == pytest.approx(0.9999**1000, rel=1e-9)
    assert result.exceeds(10) == pytest.approx(0.9999**11, rel=1e-9)
    with pytest.raises(ArgumentError, match=r"known up to 999 damage; got 2000. Evaluate the policy with that budget"):
        result.exceeds(2000)
    assert evaluate(mdp, [0, 0], budget=2000).overspends == pytest.approx(0.9999**2001, rel=1e-9)


def test_overspending_without_a_budget(paper):
    with pytest.raises(ArgumentError, match="no budget to overspend: evaluate with budget="):
        _ = evaluate(paper(), [1, 0]).overspends


def test_rare_risks_keep_their_digits():
    mdp = from_transitions([0, 0], [0, 0], [1, 1], [1 - 1e-12, 1e-12], [0, 0], [0, 1], terminal=[1])
    assert evaluate(mdp, [[0, 0]], budget=0).overspends == pytest.approx(1e-12, rel=1e-6)


@pytest.mark.parametrize("states", [3, 40])
def test_errors_do_not_grow_with_the_number_of_layers(states):
    """Each unit of damage earns 1, in the first state until nothing is left; then the run walks to the end."""
    budget, walk = 3000, range(states)
    rows = (
        [(s, 0, s + 1, 0.75, 0.0, 0) for s in walk] + [(s, 0, s, 0.25, 0.0, 0) for s in walk] + [(0, 1, 0, 1.0, 1.0, 1)]
    )
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[states])
    found = evaluate(mdp, lambda state, left: int(state == 0 and left > 0), budget=budget)
    assert found.lower <= budget <= found.upper
    assert found.upper - found.lower <= 1e-11
    assert found.accuracy <= 1e-10


def test_a_model_by_name_and_a_uniform_policy():
    facts = evaluate("paper", np.full((2, 2), 0.5))
    assert facts.ends == pytest.approx(1)
    assert facts.expected_length == pytest.approx(2)


def test_a_random_policy_for_a_horizon(coin):
    policy = Policy(coin, probability=np.array([[0.75, 0.25, 1.0]] * 3), budget=1, block=[0, 0, 0])
    found = evaluate(coin, policy, budget=1)
    assert found.expected_return == pytest.approx(1 - 0.75**3, abs=1e-15)
    assert found.damage_distribution[:2].tolist() == pytest.approx([0.75**3, 1 - 0.75**3], abs=1e-15)


def test_a_policy_for_a_horizon_must_be_defined_where_it_goes():
    rows = [(0, 0, 1, 0.5, 0, 1), (0, 0, 2, 0.5, 0, 0), (1, 0, 2, 1, 0, 1), (1, 1, 2, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2])
    silent = Policy(mdp, choice=np.array([[0, -1, -1], [0, -1, -1]], np.int32), budget=1, block=[0, 0])
    with pytest.raises(NoSafeAction, match="state 1"):
        evaluate(mdp, silent, budget=1)
    rows += [(0, 1, 2, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2])
    at_random = Policy(mdp, probability=np.array([[0.5, 0.5, 0, 0, 0]] * 2), budget=1, block=[0, 0])
    with pytest.raises(NoSafeAction, match="state 1"):
        evaluate(mdp, at_random, budget=1)


def test_the_text_of_an_evaluation():
    mdp = from_transitions([0, 0], [0, 0], [0, 1], [0.5, 0.5], [1, 3], [1, 0], terminal=[1])
    result = evaluate(mdp, [0, 0], budget=2)
    assert str(result).startswith(
        "expected return  4\n"
        "expected damage  1\n"
        "expected length  2\n"
        "ends             1\n"
        "P(damage > 2)    0.125\n"
        "accuracy         "
    )
    assert repr(result) == "<Evaluation: return 4, damage 1 on average, P(damage > 2) = 0.125>"
    discounted = evaluate(mdp, [0, 0], discount=0.5)
    assert str(discounted).splitlines()[0] == "expected return  2.666666667 (discount 0.5)"
    assert repr(discounted) == "<Evaluation: return 2.66667, damage 1 on average>"
    with pytest.raises(
        ArgumentError, match=r"^there is no budget to overspend: evaluate with budget=, or call exceeds"
    ):
        _ = discounted.overspends


def test_a_long_tail_is_cut_and_says_so(monkeypatch):
    mdp = from_transitions([0, 0], [0, 0], [0, 1], [0.5, 0.5], [1, 3], [1, 0], terminal=[1])
    for levels, work, budget, size in ((3, 10**6, None, 3), (9, 8, None, 4), (3, 10**6, 5, 6), (1000, 10**7, None, 44)):
        monkeypatch.setattr(module, "LEVELS", levels)
        monkeypatch.setattr(module, "WORK", work)
        result = evaluate(mdp, [0, 0], budget=budget)
        assert result.damage_distribution.tolist() == [0.5 ** (n + 1) for n in range(size)]
        assert result.beyond == pytest.approx(0.5**size)
        assert result.exceeds(size - 1) == pytest.approx(0.5**size)
        with pytest.raises(
            ArgumentError, match=rf"^the distribution is known up to {size - 1} damage; got {size}\. Ev"
        ):
            result.exceeds(size)
