"""The engine, compared with linear programmes on the unfolded model, with exact evaluation and with other methods.

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
from almostsure.errors import LimitReached, NoSafeAction, UnboundedReturn
from almostsure.model.build.grid import grid_family
from almostsure.plan.assured import engine, exact, explore
from almostsure.plan.assured.component import component, gains, sweeps
from almostsure.plan.assured.layers import solve_layers
from almostsure.policy.evaluation.evaluate import evaluate
from almostsure.policy.policy import Policy
from almostsure.testing import mdps, random_union
from almostsure.testing.families import garnet

slow = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


METHODS = {
    "plain": {"PLAIN": 10**9},
    "as always": {"PLAIN": 0},
    "direct": {"PLAIN": 0, "SMALL": 0, "DIRECT": 10**9},
    "mixed": {"PLAIN": 0, "SMALL": 0, "DIRECT": 0},
    "sweeps": {"PLAIN": 0, "SMALL": 0, "DIRECT": 0, "MIXED": 0},
}


def solved(mdp, budget, *, method="as always", discount=1.0, tolerance=1e-8):
    """Bounds and choices of all pairs by one of the engine's methods, or None where the start has no finite return."""
    of_choice = minimal_budget(mdp, cap=budget).of_choice
    with pytest.MonkeyPatch.context() as patch:
        for name, value in METHODS[method].items():
            patch.setattr(next(module for module in (engine, component, sweeps) if hasattr(module, name)), name, value)
        try:
            found = solve_layers(mdp, of_choice, budget, discount=discount, tolerance=tolerance)
        except UnboundedReturn:
            return None
        except LimitReached as error:
            if "the return is not defined" not in str(error):
                raise
            return None
    if np.isposinf(found.lower).any():
        return None
    return found.lower, found.upper, found.choice


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
            assert high - low <= 3e-8 * scale
            assert low - 1e-6 * scale <= wanted[state, remaining] <= high + 1e-6 * scale
            assert low - 1e-7 * scale <= achieved[state, remaining] <= high + 1e-7 * scale


def random_model(seed):
    """A small model with many cycles; rewards negative, free, of one sign or mixed, terminal states or none."""
    rng = np.random.default_rng(seed)
    rewards = [(-1.0,), (0.0, -1.0), (0.0, 0.0, -2.0, 1.0), (0.0,), (1.0, 0.0), (-0.5, -3.0, 0.25)][rng.integers(6)]
    return random_union(rng, states=6, damages=(1, 2), rewards=rewards).build()


@pytest.mark.parametrize("block", range(20))
def test_random_models_agree_with_a_programme_on_the_unfolded_model(block):
    """Every method, on 2,500 models in all, half of them with a discount too."""
    count = 0
    for seed in range(125 * block, 125 * (block + 1)):
        mdp = random_model(seed)
        for discount in (1.0, 0.9) if seed % 2 else (1.0,):
            method = list(METHODS)[seed // 2 % len(METHODS)]
            found = solved(mdp, 2, method=method, discount=discount)
            if found is not None:
                count += 1
                check(mdp, 2, discount, found)
    assert count > 100


@given(mdps(max_states=5, max_damage=3), st.integers(0, 3), st.sampled_from([1.0, 0.95, 0.5]))
@slow
def test_hostile_models_agree_with_a_programme_on_the_unfolded_model(mdp, budget, discount):
    found = solved(mdp, budget, discount=discount)
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


def test_gains_on_the_way():
    agree_on(treasures(12, 1.6, seed=2), 1)


def test_gains_that_go_on_for_ever():
    assert solved(treasures(46, 4.0), 0) is None


@given(mdps(max_states=6, max_damage=2), st.sampled_from([1.0, 0.9]))
@slow
def test_more_budget_is_never_worse(mdp, discount):
    found = solved(mdp, 3, discount=discount)
    if found is not None:
        for less, more in itertools.pairwise(np.where(np.isnan(found[1]), -np.inf, found[1])):
            assert (more >= less - 1e-7).all()


# ---------------------------------------------------------------------- larger models


def agree_on(mdp, budget, discount=1.0, tolerance=1e-8):
    """Solve everything as always, directly, by mixed rounds and by sweeps, and see that bounds overlap."""
    answers = [
        solved(mdp, budget, method=method, discount=discount, tolerance=tolerance)
        for method in ("as always", "direct", "mixed", "sweeps")
    ]
    of_choice = minimal_budget(mdp, cap=budget).of_choice
    for (lower, upper, choice), other in itertools.permutations(answers, 2):
        good = np.isfinite(lower)
        assert (good == np.isfinite(other[0])).all()
        assert (lower[good] <= other[1][good]).all()
        assert ((upper[good] - lower[good]) <= tolerance * np.maximum(1, np.abs(lower[good]))).all()
        assert (of_choice[choice[choice >= 0]] <= np.nonzero(choice >= 0)[0]).all()
    return answers[0]


def with_rewards(mdp, reward):
    """The same model with other rewards, one per outcome."""
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


def test_many_layers_of_a_grid_on_which_only_the_goal_pays():
    """Values are all but equal, and what was found with less left says nothing about how to get on."""
    found = solve_policy(grid_family(80, seed=3), AlmostSure(25))
    assert found.lower <= 1 <= found.upper <= found.lower + 1e-8


@pytest.mark.parametrize("seed", range(3))
def test_random_sparse_models(seed):
    mdp = garnet(400, seed=seed, damage_rate=0.02, terminal_rate=0.02)
    agree_on(with_rewards(mdp, -np.abs(mdp.reward)), 2)
    agree_on(with_rewards(mdp, np.minimum(mdp.reward, 0.0)), 2)
    agree_on(mdp, 2, discount=0.95)


def test_a_slow_pocket_is_solved_directly(monkeypatch):
    """A corridor without a drift: sweeps alone would take tens of thousands of rounds."""
    length = 300
    pockets = []
    settle = sweeps.Sweeper._settle
    monkeypatch.setattr(sweeps.Sweeper, "_settle", lambda self, *a: pockets.append(settle(self, *a)) or pockets[-1])
    inner = np.arange(1, length)
    s = np.repeat(np.r_[inner, length], 2)
    t = np.stack([np.r_[inner - 1, length - 1], np.r_[inner + 1, length]], axis=1).ravel()
    mdp = from_transitions(
        s, np.zeros_like(s), t, np.full(s.size, 0.5), -np.ones(s.size), np.zeros(s.size, int), terminal=[0]
    )
    lower, upper, _ = solved(mdp, 0, method="sweeps")
    exact = -np.arange(length + 1) * (2 * length + 1.0 - np.arange(length + 1))
    assert (lower[0] <= exact).all()
    assert (exact <= upper[0]).all()
    assert pockets


def test_scattered_models_are_solved_by_mixed_rounds(monkeypatch):
    """Hardly any way out, and no locality: the one slow mode is found by mixing."""
    called = []
    mdp = garnet(1000, seed=5, damage_rate=0.0, terminal_rate=0.0005, branching=6)
    mix = sweeps.Sweeper._mix
    monkeypatch.setattr(sweeps.Sweeper, "_mix", lambda self: called.append(mix(self)) or called[-1])
    agree_on(with_rewards(mdp, -1.0), 0, tolerance=1e-6)
    assert called
    assert all(called)


# ---------------------------------------------------------------------- the front door


@pytest.mark.parametrize("tolerance", [1e-17, 1e-300, 5e-324])
def test_a_tolerance_that_numbers_cannot_give_comes_back_with_what_they_give(tolerance):
    mdp = with_rewards(grid_family(30, seed=1), -1.0)
    with pytest.raises(LimitReached, match=f"further apart than the tolerance {tolerance:g} allows") as caught:
        solve_policy(mdp, AlmostSure(18), tolerance=tolerance)
    found = caught.value.solution
    assert 0 < found.upper - found.lower < 1e-9 * abs(found.value)
    assert found.evaluate().expected_return == pytest.approx(found.value)


def test_sweeps_that_do_not_settle_leave_no_bounds(monkeypatch):
    monkeypatch.setattr(engine, "SMALL", 0)
    for name in ("DIRECT", "THIN"):
        monkeypatch.setattr(component, name, 0)
    monkeypatch.setattr(sweeps, "UPDATES_PER_POSITION", -1)
    monkeypatch.setattr(sweeps, "MIXED", 0)
    mdp = with_rewards(grid_family(30, seed=1), -1.0)
    with pytest.raises(LimitReached, match="the bounds −∞ … ∞ are further apart"):
        solve_policy(mdp, AlmostSure(18))


def test_more_pairs_than_can_be_numbered_are_refused():
    mdp = asure.example("hazard-map")
    none = np.zeros(0, np.int64)
    with pytest.raises(LimitReached, match="make more pairs than 32 bits can count"):
        engine.Engine(mdp, minimal_budget(mdp).of_choice, 2**32, none, 1.0)


def test_only_what_the_start_can_reach_is_solved_unless_everything_is_asked_for():
    rows = [(0, 0, 1, 1, -1, 0), (0, 1, 2, 1, 0, 1), (3, 0, 2, 1, -5, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[1, 2])
    found, everywhere = (solve_policy(mdp, AlmostSure(1), everywhere=e) for e in (False, True))
    assert found.value == everywhere.value == 0
    assert found.curve.tolist() == everywhere.curve.tolist() == [-1, 0]
    assert found.layers is None
    assert everywhere.policy.act(3, 1) == 0
    assert everywhere.layers.upper[1].tolist() == pytest.approx([0, 0, 0, -5])
    with pytest.raises(NoSafeAction, match=r"."):
        found.policy.act(3, 1)


def test_probabilities_that_are_slightly_off_are_divided_by_their_sum():
    mdp = from_transitions([0, 0], [0, 0], [0, 1], [0.5, 0.5 - 5e-10], [-1, -1], [0, 0], terminal=[1])
    found = solve_policy(mdp, AlmostSure(0))
    assert found.lower <= -(1 - 5e-10) / (0.5 - 5e-10) <= found.upper


def test_progress_is_reported():
    seen = []
    mdp = with_rewards(grid_family(12, seed=0), -1.0)
    solve_layers(mdp, minimal_budget(mdp).of_choice, 3, report=lambda done, of: seen.append((done, of)))
    assert all(done <= of for done, of in seen)
    assert seen == sorted(seen)


def test_models_read_from_files_have_wide_indices(tmp_path):
    mdp = with_rewards(grid_family(8, seed=0), -1.0)
    mdp.save(tmp_path / "grid.umb")
    again = asure.load(tmp_path / "grid.umb")
    for ours, theirs in zip(solved(mdp, 1), solved(again, 1), strict=True):
        assert np.array_equal(ours, theirs, equal_nan=True)


@pytest.mark.parametrize("plain", [0, 10**9])
def test_a_search_that_runs_out_of_room_goes_on_with_more(plain, monkeypatch):
    monkeypatch.setattr(engine, "PLAIN", plain)
    mdp = garnet(60, branching=2, seed=0, damage_rate=0.1, terminal_rate=0.1)
    of_choice = minimal_budget(mdp).of_choice
    before = solve_layers(mdp, of_choice, 2, discount=0.9)
    monkeypatch.setattr(explore, "ROOM", 8)
    after = solve_layers(mdp, of_choice, 2, discount=0.9)
    assert (before.choice == after.choice).all()
    np.testing.assert_array_equal(before.lower, after.lower)


@pytest.mark.parametrize(("compiled", "plainly"), [(False, True), (True, False)])
def test_models_of_medium_size_use_what_is_compiled_already(compiled, plainly, monkeypatch):
    monkeypatch.setattr(engine, "is_compiled", lambda kernel: compiled)
    mdp = garnet(60, branching=2, seed=0, damage_rate=0.1, terminal_rate=0.1)
    monkeypatch.setattr(engine, "PLAIN", 3 * mdp.num_outcomes)
    starts = 2 * mdp.num_states + mdp.initial_states
    assert engine.Engine(mdp, minimal_budget(mdp).of_choice, 2, starts, 0.9).plainly is plainly


@pytest.mark.parametrize("method", ["plain", "as always"])
def test_what_the_start_cannot_reach_changes_nothing(method, monkeypatch):
    monkeypatch.setattr(engine, "PLAIN", METHODS[method]["PLAIN"])
    mdp = garnet(20, branching=2, seed=3, damage_rate=0.1, terminal_rate=0.1).with_reward(-1.0)
    shift = 20 * np.repeat(np.arange(100), mdp.num_outcomes)
    columns = [np.tile(column, 100) for column in mdp.columns()]
    columns[0], columns[2] = columns[0] + shift, columns[2] + shift
    alone, among = (solve_policy(model, AlmostSure(2)) for model in (mdp, from_transitions(*columns)))
    assert (among.lower, among.upper) == (alone.lower, alone.upper)
    assert (among.policy.choice[:, :20] == alone.policy.choice).all()


# ---------------------------------------------------------------------- where steps cost nothing


def free_grid(size, seed, *, wait, share=0.03):
    """A map of ends that pay, water and slips to every side, on which steps cost nothing: any way may look as good."""
    rng = np.random.default_rng(seed)
    water, ends = rng.random((size, size)) < 0.1, rng.random((size, size)) < share
    water[0, 0], ends[0, 0], ends[-1, -1] = False, False, True
    prize = np.where(ends, rng.choice([0.0, 0.5, 1.0], size=(size, size)), 0.0).ravel()
    prize[-1] = 1.0
    row, column = (x.ravel() for x in np.indices((size, size)))
    moves = [(-1, 0), (0, 1), (1, 0), (0, -1), (0, 0)]
    beside = np.stack([np.clip(row + y, 0, size - 1) * size + np.clip(column + x, 0, size - 1) for y, x in moves], 1)
    live = np.flatnonzero(~ends.ravel())
    s, a, k = (x.ravel() for x in np.meshgrid(live, np.arange(5 if wait else 4), np.arange(5), indexing="ij"))
    t = np.where(k < 4, beside[s, np.minimum(k, 3)], beside[s, a])
    p, meant = np.where(k < 4, 0.1, 0.6), k == 4
    damage = meant & water.ravel()[t]
    return from_transitions(s, a, t, p, prize[t], damage, terminal=np.flatnonzero(ends.ravel()), num_states=size**2)


def best_by_iteration(mdp, budget):
    """The best return at the start, from below."""
    needed, worth = minimal_budget(mdp).of_choice, np.zeros((budget + 1, mdp.num_states))
    for _ in range(100_000):
        before = worth.copy()
        for left in range(budget + 1):
            after = left - mdp.damage.astype(int)
            ahead = np.where(after >= 0, worth[np.maximum(after, 0), mdp.successor], 0.0)
            of_choice = np.add.reduceat(mdp.probability * (mdp.reward + ahead), mdp.outcome_ptr[:-1])
            best = np.maximum.reduceat(np.where(needed <= left, of_choice, -np.inf), mdp.choice_ptr[:-1])
            worth[left] = np.where(best > -np.inf, best, 0.0)
        if np.abs(worth - before).max() < 1e-13:
            break
    return worth[budget, 0]


@pytest.mark.parametrize("seed", range(8))
def test_free_steps_that_all_look_as_good(seed):
    mdp = free_grid(11 + seed % 4, seed, wait=seed % 3 == 0, share=(0.0, 0.02)[seed % 2])
    found = solve_policy(mdp, AlmostSure(2))
    assert found.lower - 1e-7 <= best_by_iteration(mdp, 2) <= found.upper + 1e-9
    assert found.upper - found.lower <= 1e-8
    assert found.evaluate().expected_return == pytest.approx(found.value, abs=1e-7)


def test_whoever_surely_gets_the_most_is_settled_at_once():
    """With one end everybody gets there, but some policies take longer than 10²⁰ steps."""
    found = solve_policy(free_grid(20, 4, wait=True, share=0.0), AlmostSure(2))
    assert 1 - 1e-12 <= found.lower <= 1 <= found.upper <= 1 + 1e-12
    assert found.evaluate().expected_length < 1000


def test_errors_of_exits_do_not_double_from_one_component_to_the_next():
    """Columns that lead to each other, one after the other, of places that are worth the same but for an error."""
    n = 81
    x, y, h = (part.ravel() for part in np.indices((n, n, 4)))
    at = lambda x, y, h: (np.clip(x, 0, n - 1) * n + np.clip(y, 0, n - 1)) * 4 + h % 4  # noqa: E731
    east = [(at(x + 1, y, h), 0.8), (at(x, y + 1, h), 0.1), (at(x, y, h + 1), 0.1)]
    north = [(at(x, y + 1, h), 0.8), (at(x + 1, y, h), 0.1), (at(x, y - 1, h), 0.1)]
    turn = [(at(x, y, h + 1), 0.5), (at(x, y, h + 3), 0.5)]
    ends = (x == n - 1) & (y == n - 1)
    hot = (h == 3) & ((x + 2 * y) % 13 == 0)
    choices = [(0, east, ~ends & (x < n - 1)), (1, north, ~ends & (y < n - 1)), (2, turn, ~ends)]
    rows = [
        np.stack([np.flatnonzero(live), np.full(live.sum(), a), to[live], np.full(live.sum(), p)])
        for a, ways, live in choices
        for to, p in ways
    ]
    s, a, t, p = np.concatenate(rows, axis=1)
    s, a, t = s.astype(int), a.astype(int), t.astype(int)
    mdp = from_transitions(s, a, t, p, ends[t].astype(float), hot[t].astype(int), terminal=np.flatnonzero(ends))
    found = solve_policy(mdp, AlmostSure(1))
    assert found.upper - found.lower <= 1e-8


def test_places_to_rest_are_left_after_others_were_settled():
    """Who rests at 2 and 3 leads to who rests at 0 and 1, and these are settled first."""
    here = [(0, 0, 1, 0), (1, 0, 0, 0), (0, 1, 4, 10), (0, 2, 2, -1)]
    there = [(2, 0, 3, 0), (3, 0, 2, 0), (3, 1, 0, -8), (2, 1, 4, 5)]
    rows = [(s, a, t, 1, r, 0) for s, a, t, r in here + there]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[4], initial=3)
    for method in METHODS:
        lower, upper, choice = solved(mdp, 0, method=method)
        assert lower[0] == pytest.approx([10, 10, 5, 5, 0])
        assert upper[0] == pytest.approx([10, 10, 5, 5, 0])
        assert evaluate(mdp, Policy(mdp, choice=choice, budget=0)).expected_return == pytest.approx(5)


def test_who_leads_only_to_those_that_were_settled_is_settled_too():
    """Hubs get 10 or go on, leaves pay and come to a hub: once the hubs are settled, no leaf stays."""
    hubs, each = 60, 240
    hub, leaf, end = np.arange(hubs), hubs + np.arange(hubs * each), hubs + hubs * each
    rng = np.random.default_rng(0)
    s = np.concatenate([hub, hub, np.repeat(hub, each), leaf])
    a = np.concatenate([np.zeros(2 * hubs, int), np.ones(leaf.size, int), np.zeros(leaf.size, int)])
    t = np.concatenate([np.full(hubs, end), (hub + 1) % hubs, leaf, rng.integers(hubs, size=leaf.size)])
    p = np.concatenate([np.full(2 * hubs, 0.5), np.full(leaf.size, 1 / each), np.ones(leaf.size)])
    r = np.concatenate([np.full(hubs, 10.0), np.zeros(hubs + leaf.size), -1 - rng.random(leaf.size)])
    mdp = from_transitions(s, a, t, p, r, np.zeros(s.size, int), terminal=[end], initial=hubs, normalise=True)
    found = solve_policy(mdp, AlmostSure(0), everywhere=True)
    assert found.value == pytest.approx(10 + r[-leaf.size])
    assert found.upper - found.lower <= 1e-8


@pytest.mark.parametrize(("loss", "error", "says"), [
    (0.5, UnboundedReturn, "reward can be collected for ever"),
    (1.0, LimitReached, "only decided among at most 0 pairs"),
])  # fmt: skip
def test_large_components_with_gains_and_losses(monkeypatch, loss, error, says):
    """A cycle that gains is found whatever its size; only whether gains and losses cancel out has a limit."""
    monkeypatch.setattr(gains, "GAINFUL", 0)
    monkeypatch.setattr(exact, "FEW", 0)
    rows = [(0, 0, 1, 1, 1, 0), (1, 0, 0, 1, -loss, 0), (0, 1, 2, 1, 0, 0)]
    with pytest.raises(error, match=says):
        solve_policy(from_transitions(*zip(*rows, strict=True), terminal=[2]), AlmostSure(0))


def test_who_leads_only_to_exits_without_errors_is_bounded_too():
    """Others come to the hub for nothing, where all end; what a step to them costs is not a double."""
    size = 30
    rows = [(0, 0, 0, 1.0, 0.0, 0)]
    for x in range(1, size):
        rows += [(0, x, x, 1.0, 0.0, 0), (x, 0, size + x, 1 / 3, -0.1 * x, 0), (x, 0, size, 2 / 3, -0.7 * x, 0)]
    rows += [(size + x, 0, 0, 1.0, 0.0, 0) for x in range(size)]
    mdp = from_transitions(*zip(*rows, strict=True), initial=17)
    for method in METHODS:
        lower, upper, _ = solved(mdp, 0, method=method)
        assert lower[0, 17] <= -8.5 <= upper[0, 17] <= lower[0, 17] + 1e-8
