"""The compiled engine against linear programmes on the unfolded model, the plain engine and exact evaluation.

The twin here shares nothing with the engines: sets by naive fixed points over Python dictionaries, values by HiGHS.
"""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import almostsure as asure
from almostsure import AlmostSure, from_transitions, minimal_budget, solve_policy
from almostsure.errors import LimitReached, UnboundedReturn
from almostsure.model.families import garnet
from almostsure.model.grid import grid_family
from almostsure.plan.assured import layers as plain
from almostsure.plan.assured import sweep_pockets
from almostsure.plan.assured.layers import solve_layers
from almostsure.plan.assured.sweep import solve_sweeping
from almostsure.plan.assured.sweep_ground import Ground, may_gain
from almostsure.testing import mdps

slow = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def compiled(mdp, budget, *, discount=1.0, tolerance=1e-8):
    """Bounds and choices of the compiled engine, or None where it leaves the model to the plain one."""
    ground = Ground.read(mdp, minimal_budget(mdp, cap=budget).of_choice, budget, discount)
    try:
        return solve_sweeping(ground, tolerance)
    except LimitReached:
        if may_gain(ground):
            return None
        raise


class Unfolded:
    """The shielded model on (state, remaining), as dictionaries."""

    def __init__(self, mdp, budget, discount):
        of_choice = minimal_budget(mdp, cap=budget).of_choice
        self.discount = discount
        self.choices = {}
        for remaining, state in itertools.product(range(budget + 1), range(mdp.num_states)):
            allowed = {}
            for c in mdp.choices(state):
                if of_choice[c] <= remaining:
                    outcomes = mdp.outcomes(state, int(mdp.choice_action[c]))
                    allowed[c] = (
                        sum(o.probability * o.reward for o in outcomes),
                        [((o.next_state, remaining - o.damage), o.probability) for o in outcomes],
                    )
            if allowed:
                self.choices[state, remaining] = allowed

    def rests(self):
        """Where one can stay for ever without reward: values are at least 0 there."""
        keep = set(self.choices)
        while True:
            left = {
                s for s in keep
                if any(abs(r) < 1e-15 and all(t in keep for t, _ in to) for r, to in self.choices[s].values())
            }  # fmt: skip
            if left == keep:
                return keep
            keep = left

    def finite(self):
        """Where some policy surely comes to where one can rest."""
        alive, rests = set(self.choices), self.rests()
        while True:
            reached = rests & alive
            while True:
                more = {
                    s for s in alive - reached
                    if any(
                        all(t in alive for t, _ in to) and any(t in reached for t, _ in to)
                        for _, to in self.choices[s].values()
                    )
                }  # fmt: skip
                if not more:
                    break
                reached |= more
            if reached == alive:
                return alive
            alive = reached

    def values(self):
        """The least numbers that no choice exceeds."""
        states = sorted(self.finite() if self.discount == 1 else self.choices)
        at = {s: i for i, s in enumerate(states)}
        rows, right = [], []
        for s in states:
            for reward, to in self.choices[s].values():
                if all(t in at for t, _ in to):
                    row = np.zeros(len(states))
                    row[at[s]] -= 1
                    for t, p in to:
                        row[at[t]] += self.discount * p
                    rows.append(row)
                    right.append(-reward)
        rests = self.rests() if self.discount == 1 else ()
        bounds = [(0 if s in rests else None, None) for s in states]
        if not states:
            return {}
        answer = linprog(np.ones(len(states)), A_ub=np.array(rows), b_ub=right, bounds=bounds)
        assert answer.status == 0, answer.message
        return dict(zip(states, answer.x, strict=True))

    def evaluate(self, choice):
        """Expected returns of a policy on the states where it comes to rest, surely; −∞ elsewhere."""
        states = sorted(self.choices)
        if not states:
            return {}
        at = {s: i for i, s in enumerate(states)}
        matrix, reward = np.zeros((len(states), len(states))), np.zeros(len(states))
        for s in states:
            reward[at[s]], to = self.choices[s][int(choice[s[1], s[0]])]
            for t, p in to:
                matrix[at[s], at[t]] += self.discount * p
        if self.discount == 1:
            reach = np.linalg.matrix_power(np.eye(len(states)) + matrix > 0, len(states)) > 0
            recurrent = np.array([all(reach[j, i] for j in np.flatnonzero(reach[i])) for i in range(len(states))])
            matrix[recurrent] = 0
            lost = recurrent & np.array([np.abs(reward[reach[i]]).max() > 1e-15 for i in range(len(states))])
            reward[recurrent] = 0
            lost = (reach & lost[None]).any(axis=1)
        else:
            lost = np.zeros(len(states), bool)
        found = np.linalg.solve(np.eye(len(states)) - matrix, reward)
        return {s: -np.inf if lost[i] else found[i] for s, i in at.items()}


def check(mdp, budget, discount, *answers):
    """Bounds contain the true values, masks agree, and the policy is worth what it should be."""
    unfolded = Unfolded(mdp, budget, discount)
    wanted = unfolded.values()
    for lower, upper, choice in answers:
        check_answer(mdp, budget, unfolded, wanted, lower, upper, choice)


def check_answer(mdp, budget, unfolded, wanted, lower, upper, choice):
    achieved = unfolded.evaluate(choice)
    for remaining, state in itertools.product(range(budget + 1), range(mdp.num_states)):
        low, high = lower[remaining, state], upper[remaining, state]
        if (state, remaining) not in unfolded.choices:
            assert np.isnan(low)
            assert np.isnan(high)
            assert choice[remaining, state] == -1
        elif (state, remaining) not in wanted:
            assert low == high == -np.inf
            assert choice[remaining, state] in unfolded.choices[state, remaining]
        else:
            scale = max(1, abs(low))
            assert high - low <= 1e-8 * scale
            assert low - 1e-6 * scale <= wanted[state, remaining] <= high + 1e-6 * scale
            assert low - 1e-7 * scale <= achieved[state, remaining] <= high + 1e-7 * scale


def random_model(seed):
    """A small model with many cycles; rewards negative, free, of one sign or mixed, terminal states or none."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 7))
    rewards = [(-1.0,), (0.0, -1.0), (0.0, 0.0, -2.0, 1.0), (0.0,), (1.0, 0.0), (-0.5, -3.0, 0.25)][rng.integers(6)]
    rows, terminal = [], []
    for s in range(count):
        if rng.random() < 0.2:
            terminal.append(s)
            continue
        for a in range(int(rng.integers(1, 4))):
            to = rng.choice(count, size=min(count, int(rng.integers(1, 4))), replace=False)
            weights = rng.integers(1, 5, to.size)
            for t, w in zip(to, weights, strict=True):
                damage = int(rng.integers(1, 3)) if rng.random() < 0.25 else 0
                rows.append((s, a, t, w / weights.sum(), float(rng.choice(rewards)), damage))
    if not rows:
        terminal = list(range(count))
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 6
    return from_transitions(*columns, num_states=count, terminal=terminal, normalise=True)


@pytest.mark.parametrize("block", range(20))
def test_random_models_agree_with_a_programme_on_the_unfolded_model(block):
    """Both engines, on 2,500 models in all, half of them with a discount too."""
    solved = 0
    for seed in range(125 * block, 125 * (block + 1)):
        mdp = random_model(seed)
        for discount in (1.0, 0.9) if seed % 2 else (1.0,):
            found = compiled(mdp, 2, discount=discount)
            if found is not None:
                solved += 1
                other = solve_layers(mdp, minimal_budget(mdp, cap=2).of_choice, 2, discount=discount)
                check(mdp, 2, discount, found, (other.lower, other.upper, other.choice))
    assert solved > 100


@given(mdps(max_states=5, max_damage=3), st.integers(0, 3), st.sampled_from([1.0, 0.95, 0.5]))
@slow
def test_hostile_models_agree_with_a_programme_on_the_unfolded_model(mdp, budget, discount):
    found = compiled(mdp, budget, discount=discount)
    if found is not None:
        check(mdp, budget, discount, found)


def treasures(size, worth, seed=0):
    """A map on which every third cell of every third row gains; each step costs 1."""
    mdp = grid_family(size, seed=seed)
    choice = mdp.outcome_choices()
    owner = mdp.choice_states()[choice]
    row, column = np.divmod(mdp.successor, size)
    reward = np.where((row % 3 == 0) & (column % 3 == 0) & (mdp.successor != owner), worth - 1.0, -1.0)
    return from_transitions(
        owner, mdp.choice_action[choice], mdp.successor, mdp.probability, np.where(mdp.is_terminal()[owner], 0, reward),
        mdp.damage, num_states=mdp.num_states, normalise=True,
    )  # fmt: skip


def test_gains_on_the_way_do_not_need_the_plain_engine(monkeypatch):
    mdp = treasures(46, 1.6, seed=2)
    of_choice = minimal_budget(mdp, cap=1).of_choice
    assert may_gain(Ground.read(mdp, of_choice, 1, 1.0))
    lower, upper, _ = compiled(mdp, 1)
    monkeypatch.setattr(plain, "PLAIN_STATES", 10**9)
    other = solve_layers(mdp, of_choice, 1)
    good = np.isfinite(lower)
    assert good.sum() > mdp.num_states
    assert (good == np.isfinite(other.lower)).all()
    assert (np.maximum(lower, other.lower)[good] <= np.minimum(upper, other.upper)[good] + 1e-9).all()


@pytest.mark.parametrize("worth", [4.0, 2.1])
def test_gains_that_go_on_for_ever_are_left_to_the_plain_engine(worth):
    mdp = treasures(46, worth)
    assert compiled(mdp, 0) is None


@given(mdps(max_states=6, max_damage=2), st.sampled_from([1.0, 0.9]))
@slow
def test_both_engines_agree_and_more_budget_is_never_worse(mdp, discount):
    found = compiled(mdp, 3, discount=discount)
    if found is None:
        return
    lower, upper, _ = found
    other = solve_layers(mdp, minimal_budget(mdp, cap=3).of_choice, 3, discount=discount)
    assert (np.isnan(lower) == np.isnan(other.lower)).all()
    assert (np.isneginf(lower) == np.isneginf(other.lower)).all()
    good = np.isfinite(lower)
    scale = 1e-12 * np.maximum(1, np.abs(lower[good]))
    assert (lower[good] <= other.upper[good] + scale).all()
    assert (other.lower[good] <= upper[good] + scale).all()
    for less, more in itertools.pairwise(np.where(np.isnan(upper), -np.inf, upper)):
        assert (more >= less - 1e-7).all()


# ---------------------------------------------------------------------- larger models


def agree_on(mdp, budget, discount=1.0, tolerance=1e-8):
    lower, upper, choice = compiled(mdp, budget, discount=discount, tolerance=tolerance)
    of_choice = minimal_budget(mdp, cap=budget).of_choice
    other = plain_layers(mdp, of_choice, budget, discount, tolerance)
    good = np.isfinite(lower)
    assert (good == np.isfinite(other.lower)).all()
    scale = np.maximum(1, np.abs(lower[good]))
    assert (np.maximum(lower[good] - other.upper[good], other.lower[good] - upper[good]) <= 1e-12 * scale).all()
    assert ((upper[good] - lower[good]) <= tolerance * scale).all()
    assert (of_choice[choice[choice >= 0]] <= np.nonzero(choice >= 0)[0]).all()
    return lower, upper, choice


def plain_layers(mdp, of_choice, budget, discount, tolerance):
    limit, plain.PLAIN_STATES = plain.PLAIN_STATES, 10**9
    try:
        return solve_layers(mdp, of_choice, budget, discount=discount, tolerance=tolerance)
    finally:
        plain.PLAIN_STATES = limit


def with_rewards(mdp, reward):
    """The same model with other rewards, one an outcome."""
    owner = mdp.choice_states()[mdp.outcome_choices()]
    action = mdp.choice_action[mdp.outcome_choices()]
    reward = np.where(mdp.is_terminal()[owner], 0.0, reward)
    return from_transitions(
        owner, action, mdp.successor, mdp.probability, reward, mdp.damage,
        num_states=mdp.num_states, normalise=True, initial=int(mdp.initial_states[0]),
    )  # fmt: skip


@pytest.fixture(scope="module")
def grid():
    return grid_family(30, seed=1)


def test_a_grid_with_step_costs(grid):
    lower, *_ = agree_on(with_rewards(grid, -1.0), 3)
    assert np.isneginf(lower).any() or np.isfinite(lower).any()


def test_a_grid_with_a_reward_at_the_goal_only_collapses_what_is_free(grid):
    agree_on(with_rewards(grid, (grid.reward > 0).astype(float)), 2)


def test_a_grid_with_costs_and_a_prize(grid):
    agree_on(with_rewards(grid, np.where(grid.reward > 0, 50.0, -1.0)), 2)


def test_a_discounted_grid(grid):
    agree_on(with_rewards(grid, (grid.reward > 0).astype(float)), 2, discount=0.99)
    agree_on(with_rewards(grid, -1.0), 2, discount=0.99)


@pytest.mark.parametrize("seed", range(3))
def test_random_sparse_models(seed):
    mdp = garnet(400, seed=seed, damage_rate=0.02, terminal_rate=0.02)
    agree_on(with_rewards(mdp, -np.abs(mdp.reward)), 2)
    agree_on(with_rewards(mdp, np.minimum(mdp.reward, 0.0)), 2)
    agree_on(mdp, 2, discount=0.95)


def test_a_slow_pocket_is_solved_directly(monkeypatch):
    """A corridor without a drift: sweeps alone would take tens of thousands of rounds."""
    length = 300
    solved = []
    settle = sweep_pockets.Sweeper._settle
    monkeypatch.setattr(
        sweep_pockets.Sweeper, "_settle", lambda self, *a: solved.append(settle(self, *a)) or solved[-1]
    )
    inner = np.arange(1, length)
    s = np.repeat(np.r_[inner, length], 2)
    t = np.stack([np.r_[inner - 1, length - 1], np.r_[inner + 1, length]], axis=1).ravel()
    mdp = from_transitions(
        s, np.zeros_like(s), t, np.full(s.size, 0.5), -np.ones(s.size), np.zeros(s.size, int), terminal=[0]
    )
    lower, upper, _ = compiled(mdp, 0)
    exact = -np.arange(length + 1) * (2 * length + 1.0 - np.arange(length + 1))
    assert (lower[0] <= exact).all()
    assert (exact <= upper[0]).all()
    assert solved


def test_scattered_models_are_solved_by_gmres(monkeypatch):
    """Hardly any way out, and no locality: the one slow mode is found by GMRES."""
    called = []
    mdp = garnet(1000, seed=5, damage_rate=0.0, terminal_rate=0.0005, branching=6)
    approach = sweep_pockets.Sweeper._approach
    monkeypatch.setattr(
        sweep_pockets.Sweeper, "_approach", lambda self, m, *a: called.append(m.size) or approach(self, m, *a)
    )
    agree_on(with_rewards(mdp, -1.0), 0, tolerance=1e-6)
    assert set(called) == {1000}


# ---------------------------------------------------------------------- the front door


def test_large_models_go_to_the_compiled_engine(monkeypatch):
    mdp = with_rewards(grid_family(12, seed=3), -1.0)
    small = solve_policy(mdp, AlmostSure(2))
    monkeypatch.setattr(plain, "PLAIN_STATES", 10)
    large = solve_policy(mdp, AlmostSure(2))
    assert large.curve == pytest.approx(small.curve, rel=1e-8, nan_ok=True)


def test_gains_for_ever_are_left_to_the_plain_engine(monkeypatch):
    monkeypatch.setattr(plain, "PLAIN_STATES", 1)
    mdp = from_transitions([0, 0, 1], [0, 1, 0], [1, 2, 0], [1, 1, 1], [1, 0, 0.5], [0, 0, 0], terminal=[2])
    with pytest.raises(UnboundedReturn, match="among: 0, 1") as caught:
        solve_policy(mdp, AlmostSure(1))
    assert set(caught.value.cycle) == {0, 1}


def test_a_tolerance_that_numbers_cannot_give_is_refused(monkeypatch):
    monkeypatch.setattr(plain, "PLAIN_STATES", 1)
    monkeypatch.setattr(plain, "STUBBORN", 0)
    mdp = with_rewards(grid_family(30, seed=1), -1.0)
    of_choice = minimal_budget(mdp, cap=1).of_choice
    with pytest.raises(LimitReached, match="could not be proved in 64-bit numbers"):
        solve_layers(mdp, of_choice, 1, tolerance=1e-17)
    monkeypatch.setattr(sweep_pockets, "UPDATES_PER_POSITION", 1)
    with pytest.raises(LimitReached, match="did not settle within 1 updates a state"):
        solve_layers(mdp, of_choice, 1)


def test_where_sweeps_do_not_settle_a_small_model_is_solved_exactly(monkeypatch):
    mdp = with_rewards(grid_family(30, seed=1), -1.0)
    of_choice = minimal_budget(mdp, cap=1).of_choice
    exact = solve_layers(mdp, of_choice, 1)
    monkeypatch.setattr(plain, "PLAIN_STATES", 1)
    monkeypatch.setattr(sweep_pockets, "UPDATES_PER_POSITION", 1)
    assert np.array_equal(solve_layers(mdp, of_choice, 1).lower, exact.lower, equal_nan=True)


def test_probabilities_that_are_slightly_off_are_read_as_meant():
    mdp = from_transitions([0, 0], [0, 0], [0, 1], [0.5, 0.5 - 5e-10], [-1, -1], [0, 0], terminal=[1])
    lower, upper, _ = compiled(mdp, 0)
    assert lower[0, 0] <= -2 * (1 - 5e-10)
    assert upper[0, 0] == pytest.approx(-2, rel=1e-8)


def test_progress_is_reported(monkeypatch):
    monkeypatch.setattr(plain, "PLAIN_STATES", 1)
    seen = []
    mdp = with_rewards(grid_family(8, seed=0), -1.0)
    solve_layers(mdp, minimal_budget(mdp).of_choice, 3, report=seen.append)
    assert seen == [0, 1, 2, 3]


def test_models_read_from_files_have_wide_indices(tmp_path):
    mdp = with_rewards(grid_family(8, seed=0), -1.0)
    mdp.save(tmp_path / "grid.umb")
    again = asure.load(tmp_path / "grid.umb")
    for ours, theirs in zip(compiled(mdp, 1), compiled(again, 1), strict=True):
        assert np.array_equal(ours, theirs, equal_nan=True)
