"""``solve_policy``, compared with independent linear programmes and with the best mixture of all policies."""

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from almostsure import example, from_transitions
from almostsure.errors import ArgumentError, Infeasible, LimitReached, UnboundedReturn
from almostsure.learn import learn_from_logs
from almostsure.plan.constraints import AlmostSure, Chance, Expected
from almostsure.plan.programme import occupation
from almostsure.plan.solve import solve_policy
from almostsure.policy.augment import augment
from almostsure.policy.evaluation.evaluate import evaluate
from almostsure.policy.policy import Policy
from almostsure.policy.simulation.simulate import simulate
from almostsure.testing import mdps


def solved(mdp, constraint, **options):
    """The solution, or None if it is infeasible, or infinity if there is no bound."""
    try:
        return solve_policy(mdp, constraint, **options)
    except Infeasible:
        return None
    except UnboundedReturn:
        return math.inf


# ---------------------------------------------------------------------- closed forms of the paper


@pytest.mark.parametrize("q", [1.0, 0.6])
@pytest.mark.parametrize("budget", [0, 1, 5])
def test_the_assured_return_of_the_paper(paper, q, budget):
    solution = solve_policy(paper(q), AlmostSure(budget))
    assert solution.value == pytest.approx(budget / q, abs=1e-10)
    assert solution.curve.tolist() == pytest.approx([k / q for k in range(budget + 1)])
    assert solution.lower <= solution.value <= solution.upper
    assert solution.policy.act(0, 0) == 1
    assert all(solution.policy.act(0, k) == 0 for k in range(1, budget + 1))
    everywhere = solve_policy(paper(q), AlmostSure(budget), everywhere=True)
    assert everywhere.layers.upper[:, 0].tolist() == pytest.approx(solution.curve.tolist())
    assert simulate(paper(q), solution.policy, 200, seed=0).damages.tolist() == [budget] * 200


@pytest.mark.parametrize("q", [1.0, 0.6])
@pytest.mark.parametrize("c", [0.5, 1, 5, 20])
def test_the_expectation_constrained_return_of_the_paper(paper, q, c):
    solution = solve_policy(paper(q), Expected(c))
    assert solution.value == pytest.approx(c / q, rel=1e-12)
    assert solution.policy.probabilities(0)[0] == pytest.approx(c / (q + c), rel=1e-12)
    assert solution.used == pytest.approx(c, rel=1e-12)
    assert solution.price == pytest.approx(1 / q, rel=1e-9)
    assert solution.upper - solution.lower < 1e-8


def test_with_a_discount_damage_counts_as_reward_does(paper):
    solution = solve_policy(paper(), Expected(0.5), discount=0.9)
    # Left with probability p: Σ 0.9ᵗ pᵗ⁺¹ = p / (1 − 0.9 p) = 0.5, for reward and for damage.
    assert solution.value == pytest.approx(0.5, abs=1e-10)
    assert solution.policy.probabilities(0)[0] == pytest.approx(0.5 / 1.45, abs=1e-9)
    assert solution.evaluate().discounted_damage == pytest.approx(0.5)


# ---------------------------------------------------------------------- independent programmes


def safe_choices(model):
    """The choices of an augmented model from which damage can be avoided for ever, by plain elimination."""
    owner, choice = model.choice_states(), model.outcome_choices()
    bad = np.bincount(choice, model.damage, minlength=model.num_choices) > 0
    while True:
        dead = np.bincount(owner, ~bad, minlength=model.num_states) == 0
        worse = bad | (np.bincount(choice, dead[model.successor], minlength=model.num_choices) > 0)
        if (worse == bad).all():
            return ~bad
        bad = worse


def independent_values(model, allowed, discount):
    """The best return of each state with the allowed choices: the smallest V with V ≥ r + discount P V."""
    ends, owner, choice = model.is_terminal(), model.choice_states(), model.outcome_choices()
    moves = np.zeros((model.num_choices, model.num_states))
    np.add.at(moves, (choice, model.successor), discount * model.probability)
    moves[np.arange(model.num_choices), owner] -= 1
    reward = np.bincount(choice, model.probability * model.reward, minlength=model.num_choices)
    used = allowed & ~ends[owner]
    alive = np.bincount(owner, allowed, minlength=model.num_states) > 0
    if not used.any():
        return np.where(alive, 0.0, np.nan)
    bounds = [(0, 0) if ends[s] or not alive[s] else (None, None) for s in range(model.num_states)]
    answer = linprog(np.ones(model.num_states), A_ub=moves[used], b_ub=-reward[used], bounds=bounds)
    assert answer.status == 0
    return np.where(alive, answer.x, np.nan)


@given(mdps(max_states=4, max_damage=3, proper=True), st.integers(0, 3), st.sampled_from([1.0, 0.8]))
@settings(max_examples=60)
def test_assured_values_equal_a_programme_on_the_augmented_model(mdp, budget, discount):
    bigger = augment(mdp, budget)
    values = independent_values(bigger, safe_choices(bigger), discount)
    curve = values[:-1].reshape(budget + 1, -1)[:, mdp.initial_states] @ mdp.initial_probabilities
    solution = solved(mdp, AlmostSure(budget), discount=discount)
    if solution is None:
        assert math.isnan(curve[-1])
        return
    assert solution.curve == pytest.approx(curve, abs=1e-6, nan_ok=True)
    assert solution.lower - 1e-6 <= curve[-1] <= solution.upper + 1e-6
    known = solution.curve[~np.isnan(solution.curve)]
    assert (np.diff(known) >= -1e-9).all()
    assert np.isnan(solution.curve[: solution.curve.size - known.size]).all()


def independent_optimum(moves, owner, reward, cost, initial, limit):
    """The best flow through a model in which everything ends; the columns of terminal states are left out."""
    states = initial.size
    balance = np.zeros((states, owner.size))
    balance[owner, np.arange(owner.size)] = 1
    answer = linprog(-reward, A_eq=balance - moves.T, b_eq=initial, A_ub=[cost], b_ub=[limit])
    return None if answer.status == 2 else -answer.fun


def columns(mdp, budget):
    """Moves, owners, rewards and costs of all non-terminal choices; on (state, remaining) with a budget."""
    layers = 1 if budget is None else budget + 2
    size = layers * mdp.num_states
    ends, initial = mdp.is_terminal(), np.zeros(size)
    initial[(0 if budget is None else budget) * mdp.num_states + mdp.initial_states] = mdp.initial_probabilities
    parts = []
    for layer, state in itertools.product(range(layers), np.flatnonzero(~ends).tolist()):
        for action in mdp.actions(state).tolist():
            row, reward, cost = np.zeros(size), 0.0, 0.0
            for o in mdp.outcomes(state, action):
                if budget is None:
                    below, pays = 0, o.damage
                else:
                    over = layer == budget + 1 or o.damage > layer
                    below, pays = (budget + 1 if over else layer - o.damage), float(over and layer <= budget)
                row[below * mdp.num_states + o.next_state] += o.probability
                reward, cost = reward + o.probability * o.reward, cost + o.probability * pays
            parts.append((row, layer * mdp.num_states + state, reward, cost))
    keep = np.flatnonzero(~np.tile(ends, layers))
    position = np.full(size, -1)
    position[keep] = np.arange(keep.size)
    moves = np.array([p[0][keep] for p in parts])
    return moves, position[[p[1] for p in parts]], *(np.array([p[i] for p in parts]) for i in (2, 3)), initial[keep]


@given(mdps(max_states=4, proper=True), st.one_of(st.none(), st.integers(0, 2)), st.sampled_from([0.05, 0.5, 1]))
@settings(max_examples=60)
def test_expectation_and_chance_equal_an_independent_programme(mdp, budget, limit):
    assume(not mdp.is_terminal().all())
    solution = solved(mdp, Expected(limit) if budget is None else Chance(budget, limit))
    if mdp.is_terminal()[mdp.initial_states].all():
        wanted = 0.0
    else:
        wanted = independent_optimum(*columns(mdp, budget), limit)
    if wanted is None:
        assert solution is None
        return
    assert solution.value == pytest.approx(wanted, abs=1e-6)
    assert solution.lower - 1e-6 <= wanted <= solution.upper + 1e-6
    check(mdp, solution)


def check(mdp, solution):
    """A policy keeps its promise when it is evaluated exactly, and when it is played."""
    result = evaluate(mdp, solution.policy, discount=solution.discount)
    assert result.expected_return == pytest.approx(solution.value, abs=1e-7)
    match solution.constraint:
        case AlmostSure():
            assert result.overspends == 0
            assert not simulate(mdp, solution.policy, 50, seed=1, max_steps=50).overspent.any()
        case Expected(limit=limit):
            assert result.discounted_damage <= limit + 1e-9
            assert solution.used == result.discounted_damage
        case Chance(risk=risk):
            assert result.overspends <= risk + 1e-9
            assert solution.used == pytest.approx(result.overspends, abs=1e-12)


# ---------------------------------------------------------------------- properties, on anything


@given(mdps(max_states=5, max_damage=3), st.integers(0, 3), st.sampled_from([1.0, 0.9]))
@settings(max_examples=150)
def test_assured_policies_are_feasible_and_weaker_constraints_allow_more(mdp, budget, discount):
    sure = solved(mdp, AlmostSure(budget), discount=discount)
    if sure is None or sure == math.inf or not math.isfinite(sure.value):
        return
    check(mdp, sure)
    for weaker in (Expected(budget), Chance(budget, 0), Chance(budget, 1)):
        try:
            other = solved(mdp, weaker, discount=discount)
        except LimitReached as error:
            assert "no policy attains" in str(error)  # noqa: PT017
            continue
        assert other is not None
        assert other == math.inf or other.value >= sure.value - 1e-7
        if weaker == Chance(budget, 0):
            assert other.value == sure.value


@given(mdps(max_states=4, max_damage=2), st.integers(0, 2))
@settings(max_examples=150)
def test_no_risk_is_certainty_for_the_programme_as_well(mdp, budget):
    """The linear programme with a risk of 0 knows nothing of shields, and finds what the layers find."""
    from almostsure.plan.programme.flow import flow_of
    from almostsure.plan.programme.occupation import Endless, NoEnd, Programme

    try:
        sure = solve_policy(mdp, AlmostSure(budget)).value
    except Infeasible:
        sure = None
    except UnboundedReturn as error:
        assume("no bound" in str(error))
        sure = math.inf
    try:
        answer = Programme(flow_of(mdp, budget), 1.0).solve(0.0)
        found = None if answer is None else answer.value
    except Endless:
        found = math.inf
    except NoEnd:
        found = None
    # From several initial states, plus infinity and minus infinity may meet.
    assume(mdp.initial_states.size == 1 or sure != math.inf)
    if sure is None or sure == -math.inf:
        assert found is None
    else:
        assert found == pytest.approx(sure, abs=1e-6)


def points(mdp, budget=None):
    """Cost and return of every deterministic policy."""
    layers = 1 if budget is None else budget + 2
    for pick in itertools.product(*[mdp.choices(s) for s in range(mdp.num_states)] * layers):
        policy = Policy(mdp, choice=np.array(pick, np.int32).reshape(layers, -1), budget=budget)
        result = evaluate(mdp, policy)
        yield result.expected_damage if budget is None else result.overspends, result.expected_return


def best_mixture(found, limit):
    """The best return of a lottery over policies, drawn once at the start; None: infeasible."""
    found = [
        (d, r) for d, r in found if math.isfinite(d) and r > -math.inf
    ]  # a return without a value does not compete
    cheap, dear = [x for x in found if x[0] <= limit + 1e-9], [x for x in found if x[0] > limit + 1e-9]
    if not cheap:
        return None
    best = max(r for _, r in cheap)
    for (d, r), (e, q) in itertools.product(cheap, dear):
        share = min((limit - d) / (e - d), 1.0)
        if share > 1e-9:
            best = max(best, math.inf if math.inf in (r, q) else (1 - share) * r + share * q)
    return best


@given(mdps(max_states=3, max_actions=2, max_damage=2), st.sampled_from([0, 0.5, 1, 2.5]), st.booleans())
@settings(max_examples=120)
def test_expectation_equals_the_best_lottery_over_policies(mdp, limit, large):
    found = list(points(mdp))
    wanted = best_mixture(found, limit)
    solution = _solve_as(mdp, Expected(limit), large)
    value = value_of(solution)
    if any(d == math.inf for d, _ in found):
        # Who may take endless damage can also stop after a while, which no deterministic policy does.
        assert wanted is None or (value is not None and value >= wanted - 1e-7)
    elif wanted is None or wanted == math.inf:
        assert value == wanted
    else:
        assert value == pytest.approx(wanted, abs=1e-7)
    if value not in (None, math.inf):
        check(mdp, solution)
    elif value != solution:
        assert evaluate(mdp, solution.policy).expected_damage <= limit + 1e-9


def value_of(solution):
    """None: infeasible, or minus infinity, which does not compete."""
    if solution is None or solution == math.inf:
        return solution
    return None if solution.value == -math.inf else solution.value


@given(
    mdps(max_states=2, max_actions=2, max_damage=2), st.integers(0, 1), st.sampled_from([0.1, 0.5, 1]), st.booleans()
)
@settings(max_examples=100)
def test_chance_equals_the_best_lottery_over_policies(mdp, budget, risk, large):
    wanted = best_mixture(list(points(mdp, budget)), risk)
    solution = _solve_as(mdp, Chance(budget, risk), large)
    value = value_of(solution)
    if wanted is None or wanted == math.inf:
        assert value == wanted
    else:
        assert value == pytest.approx(wanted, abs=1e-7)
        check(mdp, solution)


def _solve_as(mdp, constraint, large):
    """Solve with HiGHS, or as if the model were large; what no policy attains counts as unbounded here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(occupation, "SMALL", 0 if large else 10**9)
        try:
            return solved(mdp, constraint)
        except LimitReached as error:
            assert "no policy attains" in str(error)  # noqa: PT017
            return math.inf


def test_large_problems_agree_with_highs():
    mdp = example("hazard-map")
    for constraint in (Expected(1.5), Chance(3, 0.02)):
        small, large = (_solve_as(mdp, constraint, large) for large in (False, True))
        assert large.value == pytest.approx(small.value, abs=1e-7)
        randomised = [
            (layer, state)
            for layer in range(large.policy.num_layers)
            for state in range(mdp.num_states)
            if np.count_nonzero(large.policy.shares(state, layer)) > 1
        ]
        assert len(randomised) == 1  # a vertex plays at random in one place only
        check(mdp, large)


# ---------------------------------------------------------------------- coming to rest


def test_the_best_may_be_to_toss_a_coin_once(coin):
    solution = solve_policy(coin, Expected(0.5))
    assert solution.value == pytest.approx(0.5)
    assert solution.policy.rest is not None
    assert "go 0.5, rest 0.5" in str(solution.policy)
    check(coin, solution)
    chance = solve_policy(coin, Chance(0, 0.3))
    assert chance.value == pytest.approx(0.3)
    assert (chance.used, chance.price) == (pytest.approx(0.3), pytest.approx(1))
    assert "0.3 of 0.3 is used; 1 % more is worth at most 0.01" in str(chance)
    assert "worth" not in str(solve_policy(coin, Chance(0, 1)))


def test_no_memory_where_none_is_needed(coin):
    assert solve_policy(coin, Expected(0)).policy.rest is None
    assert solve_policy(coin, Expected(1)).policy.is_deterministic


def test_rest_with_a_discount_is_an_ordinary_choice(coin):
    solution = solve_policy(coin, Expected(0.5), discount=0.9)
    assert solution.policy.rest is None
    assert solution.value == pytest.approx(0.5)


def test_once_overspent_the_return_is_all_that_counts():
    """Having overspent, the policy takes the second, damaging reward as well."""
    rows = [(0, 0, 1, 1, 1, 1), (0, 1, 2, 1, 0, 0), (1, 0, 2, 1, 10, 5), (1, 1, 2, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2])
    solution = solve_policy(mdp, Chance(0, 0.25))
    assert solution.value == pytest.approx(0.25 * 11)
    assert solution.policy.act(1, -1) == 0


# ---------------------------------------------------------------------- what cannot be


def test_what_a_learned_model_does_not_know_is_not_called_impossible():
    steps = {"state": [0, 1], "action": [0, 1], "next_state": [1, 2], "reward": [1.0, 1.0], "damage": [0, 1]}
    mdp = learn_from_logs(steps | {"terminated": [False, True]}, mu=0.5, delta=0.1).mdp
    with pytest.raises(Infeasible, match=r"no policy is known to have a finite .* does not know count as unsafe"):
        solve_policy(mdp, Expected(1))
    with pytest.raises(Infeasible, match=r"is not known to be held at 0\.1 .* 1 is the least known\. Choices that the"):
        solve_policy(mdp, Chance(1, 0.1))


def test_infeasible_says_what_would_do():
    rows = [(0, 0, 1, 0.5, 0, 2), (0, 0, 1, 0.5, 0, 0), (0, 1, 1, 1, 0, 1)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[1])
    with pytest.raises(Infeasible, match="a budget of 0 does not suffice from state 0; 1 would") as sure:
        solve_policy(mdp, AlmostSure(0))
    assert sure.value.needed == 1
    with pytest.raises(Infeasible, match=r"cannot be held at 0\.5 .* 1 is the least") as mean:
        solve_policy(mdp, Expected(0.5))
    assert mean.value.needed == pytest.approx(1)
    with pytest.raises(
        Infeasible, match=r"the risk of more than 0 damage cannot be held at 0\.2 .* 0\.5 is the least"
    ) as odds:
        solve_policy(mdp, Chance(0, 0.2))
    assert odds.value.needed == pytest.approx(0.5)
    with pytest.raises(Infeasible, match="without any risk, a budget of 0 does not suffice") as none:
        solve_policy(mdp, Chance(0, 0))
    assert none.value.needed == pytest.approx(0.5)
    assert solve_policy(mdp, Expected(mean.value.needed)).value == 0
    assert solve_policy(mdp, Chance(0, odds.value.needed)).value == 0


def test_infeasible_for_ever():
    mdp = from_transitions([0], [0], [0], [1], [0], [1])
    with pytest.raises(
        Infeasible, match="no budget suffices from state 0: damage can be forced again and again"
    ) as error:
        solve_policy(mdp, AlmostSure(3))
    assert error.value.needed == math.inf
    with pytest.raises(Infeasible, match="no policy has a finite expected damage"):
        solve_policy(mdp, Expected(100))


@pytest.mark.parametrize("constraint", [AlmostSure(0), Expected(0.5), Chance(0, 0.5), Chance(0, 0)])
def test_where_costs_add_up_for_ever_the_return_is_minus_infinity_whatever_the_constraint(constraint):
    mdp = from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [-1, 0], [0, 1], terminal=[1])
    solution = solve_policy(mdp, constraint)
    assert solution.value == solution.lower == solution.upper == -math.inf
    assert evaluate(mdp, solution.policy).expected_damage == solution.used == 0
    assert "−∞" in str(solution)
    stuck = from_transitions([0], [0], [0], [1], [-1], [0])
    assert solve_policy(stuck, constraint).value == -math.inf


def test_without_an_assured_policy_a_limit_without_finite_return_is_infeasible():
    # A damage of 2 once in a while: 1 on average, but never surely at most 1; and staying costs for ever.
    rows = [(0, 0, 0, 0.5, -1, 2), (0, 0, 1, 0.5, -1, 0), (1, 0, 1, 1, -1, 0)]
    mdp = from_transitions(*np.array(rows).T)
    with pytest.raises(Infeasible, match="every policy has a return of minus infinity"):
        solve_policy(mdp, Expected(5))


def test_unbounded_names_the_cycle(paper):
    rows = [(0, 0, 1, 1, 1, 0), (1, 0, 0, 1, 0, 0), (0, 1, 2, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2], state_names=["a", "b", "end"])
    for constraint in (Expected(1), Chance(1, 0.5)):
        with pytest.raises(
            UnboundedReturn, match=r"reward can be collected for ever in a; b\. Use a discount"
        ) as error:
            solve_policy(mdp, constraint)
        assert error.value.cycle == (0, 1)
    assert solve_policy(mdp, Expected(1), discount=0.9).value == pytest.approx(1 / (1 - 0.81))
    with pytest.raises(UnboundedReturn, match="has no bound"):
        solve_policy(paper(), Chance(3, 0.1))  # once overspent, left for ever


def test_unbounded_only_if_the_constraint_lets_you_there():
    """The gold mine lies behind a damaging door."""
    rows = [(0, 0, 1, 1, 0, 1), (0, 1, 2, 1, 0, 0), (1, 0, 1, 1, 1, 0), (1, 1, 2, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2])
    assert solve_policy(mdp, Expected(0)).value == 0
    with pytest.raises(UnboundedReturn, match="collected for ever in 1"):
        solve_policy(mdp, Expected(0.01))


def test_a_best_that_no_policy_attains():
    """Ever rarer and ever longer visits to a place that is costly to get away from."""
    rows = [(0, 0, 0, 1, 0, 0), (0, 1, 1, 1, -1, 0), (1, 0, 1, 1, 1, 1), (1, 1, 2, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2])
    with pytest.raises(LimitReached, match=r"no policy attains the best return, 0\.5.* longer visits to 1"):
        solve_policy(mdp, Expected(0.5))


def test_rewards_that_cancel_out_on_a_cycle():
    """Picking up and putting down for ever is worth nothing; the way out counts."""
    rows = [(0, 0, 1, 1, 1, 0), (1, 0, 0, 1, -1, 0), (1, 1, 2, 1, 2, 1), (0, 1, 2, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2])
    assert solve_policy(mdp, Expected(1)).value == pytest.approx(3)


# ---------------------------------------------------------------------- arguments


def test_a_discounted_return_and_a_risk_do_not_mix(paper):
    with pytest.raises(ArgumentError, match=r"risk between 0 and 1 must have discount=1; got 0\.9"):
        solve_policy(paper(), Chance(2, 0.1), discount=0.9)
    assert solve_policy(paper(), Chance(2, 0), discount=0.9).value == pytest.approx(1.9)
    assert solve_policy(paper(), Chance(2, 1), discount=0.9).value == pytest.approx(10)


def test_arguments_out_of_range(paper):
    with pytest.raises(ArgumentError, match="discount must lie in"):
        solve_policy(paper(), AlmostSure(1), discount=0)
    with pytest.raises(ArgumentError, match="tolerance must be positive"):
        solve_policy(paper(), Expected(1), tolerance=0)
    with pytest.raises(ArgumentError, match="constraint must be AlmostSure, Expected or Chance; got 3"):
        solve_policy(paper(), 3)


def test_a_tolerance_that_numbers_cannot_meet(paper):
    with pytest.raises(LimitReached, match="further apart than the tolerance 1e-16 allows") as caught:
        solve_policy(paper(0.6), Expected(5), tolerance=1e-16)
    lower, upper = re.findall(r"the bounds (\S+) … (\S+) are", str(caught.value))[0]
    assert float(lower) < float(upper)


def test_curves_of_the_weaker_constraints(coin):
    assert solve_policy(coin, Expected(2)).curve == pytest.approx([0, 1, 1])
    assert solve_policy(coin, Chance(1, 0.3)).curve == pytest.approx([0.3, 1])


def test_an_initial_distribution():
    rows = [(0, 0, 2, 1, 1, 0), (1, 0, 2, 1, 3, 1), (1, 1, 2, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[2], initial={0: 0.5, 1: 0.5})
    assert solve_policy(mdp, AlmostSure(0)).value == pytest.approx(0.5)
    assert solve_policy(mdp, AlmostSure(1)).value == pytest.approx(2)
    assert solve_policy(mdp, Expected(0.25)).value == pytest.approx(1.25)
    assert solve_policy(mdp, Chance(0, 0.25)).value == pytest.approx(1.25)


def test_solutions_read_well(paper):
    text = str(solve_policy(paper(), Expected(2)))
    assert "best return  2" in text
    assert "2 of 2 on average; one unit more is worth at most 1" in text
    assert repr(solve_policy(paper(), AlmostSure(2))) == "<Solution: return 2 with never more than 2 damage>"
    assert repr(solve_policy(paper(), AlmostSure(2), horizon=9)).endswith("never more than 2 damage, within 9 steps>")


def test_more_damage_or_risk_adds_at_most_its_price():
    for less, more in ((Expected(1), Expected(2)), (Chance(4, 0.01), Chance(4, 0.02))):
        one, two = solve_policy("hazard-map", less), solve_policy("hazard-map", more)
        step = 1 if isinstance(less, Expected) else 0.01
        assert two.value - one.value <= one.price * step + 1e-9


def test_a_risk_of_one_is_no_limit_and_rare_outcomes_have_a_remedy():
    rows = [
        (1, 0, 0, 1e-12, 0, 1), (1, 0, 1, 1 - 1e-12, 0, 2), (1, 2, 0, 0.2, 1, 0), (1, 2, 1, 0.8, -1.5, 0),
    ]  # fmt: skip
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[0], initial=1)
    assert solve_policy(mdp, Chance(4, 1), discount=0.9).value == 0
    slow = from_transitions([0, 0], [0, 0], [0, 1], [1 - 1e-12, 1e-12], [1, 0], [0, 0], terminal=[1])
    with pytest.raises(LimitReached, match=r"too many orders of magnitude\. Pass a horizon") as reached:
        solve_policy(slow, Expected(1e-9), discount=0.5)
    known = reached.value.solution
    assert "The error's solution never takes more than 0 damage and returns" in str(reached.value)
    assert known.constraint == Expected(1e-9)
    assert (known.lower, known.upper) == pytest.approx((2, 2))
    assert simulate(slow, known.policy, episodes=10, seed=0, max_steps=50).damages.max() == 0
    assert solve_policy(slow, Expected(1e-9), discount=0.5, horizon=100).value == pytest.approx(2)


def test_no_risk_has_no_price(paper):
    text = str(solve_policy(paper(), Chance(2, 0)))
    assert "risk         0 of 0 is used" in text
    assert "nan" not in text


def test_a_policy_that_may_never_end_says_so(coin, paper):
    assert "ends         never" in str(solve_policy(coin, AlmostSure(0)))
    assert "ends" not in str(solve_policy(paper(), AlmostSure(3)))


def test_a_model_by_name():
    assert solve_policy("paper", AlmostSure(2)).value == pytest.approx(2)


def test_a_return_that_no_number_holds_is_no_answer():
    large = 1.7e308
    mdp = from_transitions([0, 1], [0, 0], [1, 2], [1.0, 1.0], [large, large], [0, 0], terminal=[2])
    with pytest.raises(LimitReached, match="Scale the rewards down"):
        solve_policy(mdp, AlmostSure(0))


def test_where_there_is_no_end_a_goal_is_missing():
    found = solve_policy(from_transitions([0], [0], [0], [1], [-1], [0]), AlmostSure(3))
    assert found.value == -math.inf
    assert str(found).endswith("costs add up for ever: name a goal when reading the model")
    assert "name a goal" in found._repr_html_()


@pytest.mark.parametrize("constraint", [AlmostSure(0), Expected(1.0)])
def test_a_fair_cycle_with_chances_is_worth_nothing(constraint):
    rows = [(0, 0, 1, 1 / 3, -0.5), (0, 0, 2, 2 / 3, -0.5), (1, 0, 0, 1, 0.1), (2, 0, 0, 1, 0.7), (0, 1, 3, 1, 5)]
    mdp = from_transitions(*zip(*rows, strict=True), [0] * len(rows), terminal=[3])
    assert solve_policy(mdp, constraint).value == pytest.approx(5, abs=1e-6)


def test_no_damage_on_average_needs_no_memory():
    solution = solve_policy("hazard-map", Expected(0))
    assert solution.policy.is_stationary
    assert solution.policy.act(solution.mdp.initial_state) == 2
    assert "is worth" not in str(solution)
    assert solution.value == solve_policy("hazard-map", AlmostSure(0)).value


def test_failing_may_be_cheaper_than_the_goal():
    """Trying again costs 1, and arrives or fails with a probability of 1/4 each: nothing says that half of it fails."""
    rows = [(0, 0, 0, 0.5, -1, 0), (0, 0, 1, 0.25, -1, 0), (0, 0, 2, 0.25, -1, 0), (3, 0, 0, 1, 0, 0)]
    columns = list(zip(*rows, strict=True))
    mdp = from_transitions(*columns, terminal=[1, 2], initial=3, labels={"goal": [1], "busy": [0]})
    found = solve_policy(mdp, AlmostSure(0))
    assert found.value == pytest.approx(-2)
    assert found.reaches("goal") == pytest.approx(0.5)
    with pytest.raises(ArgumentError, match="computed for states that all end runs, not 'busy'"):
        found.reaches("busy")
    with pytest.raises(ArgumentError, match="computed for a policy without a horizon"):
        solve_policy(mdp, AlmostSure(0), horizon=3).reaches("goal")
