"""All engines, compared with each other, Algorithm 1, brute force and Storm on tens of thousands of models."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from almostsure import INFINITE, check_minimal_budget, from_transitions, minimal_budget
from almostsure.budget.certificate import _find_compiled, _find_plain
from almostsure.budget.compiled.engine import solve_levels
from almostsure.budget.minimal import NO_CAP
from almostsure.budget.plain import solve_plain
from almostsure.budget.reference import algorithm_1
from almostsure.model.mdp import Support
from almostsure.testing import mdps


def compiled(support, cap=NO_CAP):
    return solve_levels(support, cap=cap, report=lambda level, settled: None)


def plain(support, cap=NO_CAP):
    return solve_plain(support, cap=cap)


ENGINES = (plain, compiled)

FAMILIES = [  # models, seed and shape: together well over 20,000
    (8000, 1, {"max_damage": 1}),
    (7000, 2, {"max_damage": 5}),
    (4000, 3, {"max_damage": 1, "max_states": 15}),
    (3000, 4, {"max_damage": 5, "max_states": 12, "max_outcomes": 2}),
    (1000, 5, {"max_damage": 2, "max_states": 40, "max_choices": 2}),
    (200, 6, {"max_damage": 255}),
    (20, 7, {"max_damage": 1, "max_states": 150, "max_choices": 2, "max_outcomes": 2}),
]


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda family: f"{family[0]}-models")
def solved(request, crowds, algorithm_1_of_crowd):
    count, seed, shape = request.param
    crowd = crowds(count, seed, **shape)
    return crowd, algorithm_1_of_crowd(crowd)


def test_families_are_large_and_hostile(crowds, algorithm_1_of_crowd):
    assert sum(count for count, _, _ in FAMILIES) > 20_000
    crowd = crowds(*FAMILIES[0][:2], **FAMILIES[0][2])
    k = algorithm_1_of_crowd(crowd)
    assert {0, 1, 2, 3, INFINITE} <= set(k.tolist())
    assert (crowd.sizes == 1).any()
    owner = crowd.choice_states[crowd.mdp.outcome_choices()]
    loops = crowd.mdp.successor == owner
    assert (loops & (crowd.mdp.damage > 0)).any()
    assert (loops & (crowd.mdp.damage == 0)).any()


@pytest.mark.parametrize("cap", [None, 0, 1, 2, 4, 11])
@pytest.mark.parametrize("engine", ENGINES)
def test_equals_algorithm_1_with_a_valid_certificate(solved, engine, cap, as_budget):
    crowd, expected = solved
    limit = NO_CAP if cap is None else cap
    answer = engine(crowd.mdp.support, limit)
    expected = np.where(expected > limit, INFINITE, expected)
    np.testing.assert_array_equal(answer.of_choice, expected)
    np.testing.assert_array_equal(answer.of_state, np.minimum.reduceat(expected, crowd.mdp.choice_ptr[:-1]))
    minimal = as_budget(crowd.mdp, answer)
    check_minimal_budget(crowd.mdp, minimal)
    for find in (_find_plain, _find_compiled):
        assert find(crowd.mdp, minimal) == (0, 0)


@pytest.mark.parametrize("backend", ["plain", "compiled"])
def test_one_by_one(solved, backend):
    crowd, expected = solved
    for number in range(min(250, crowd.sizes.size)):
        mdp = crowd.model(number)
        cap = None if number % 2 else number % 7
        minimal = minimal_budget(mdp, cap=cap, backend=backend, check="always")
        alone = algorithm_1(mdp).of_choice
        np.testing.assert_array_equal(alone, crowd.part(number, expected))
        np.testing.assert_array_equal(
            minimal.of_choice, alone if cap is None else np.where(alone > cap, INFINITE, alone)
        )


@settings(max_examples=200)
@given(mdps(max_states=7, max_damage=5), st.none() | st.integers(0, 12))
def test_hypothesis_models(mdp, cap):
    expected = algorithm_1(mdp).of_choice
    if cap is not None:
        expected[expected > cap] = INFINITE
    for backend in ("plain", "compiled"):
        minimal = minimal_budget(mdp, cap=cap, backend=backend, check="always")
        np.testing.assert_array_equal(minimal.of_choice, expected)


# ---------------------------------------------------------------------- properties


def test_numbering_does_not_matter(solved):
    crowd, expected = solved
    mdp = crowd.mdp
    name = np.random.default_rng(0).permutation(mdp.num_states)
    choice = mdp.outcome_choices()
    renamed = from_transitions(
        name[crowd.choice_states[choice]], mdp.choice_action[choice], name[mdp.successor], mdp.probability,
        mdp.reward, mdp.damage, num_states=mdp.num_states,
    )  # fmt: skip
    v = np.minimum.reduceat(expected, mdp.choice_ptr[:-1])
    for engine in ENGINES:
        np.testing.assert_array_equal(engine(renamed.support).of_state[name], v)


def test_wide_indices_give_the_same(solved):
    """A memory-mapped file has 64-bit indices."""
    crowd, expected = solved
    s = crowd.mdp.support
    wide = Support(
        choice_ptr=s.choice_ptr.astype(np.int64), outcome_ptr=s.outcome_ptr.astype(np.int64),
        successor=s.successor.astype(np.int64), damage=s.damage,
    )  # fmt: skip
    for engine in ENGINES:
        np.testing.assert_array_equal(engine(wide).of_choice, expected)


@settings(max_examples=60)
@given(mdps(max_states=5, max_damage=3), st.data())
def test_an_added_outcome_never_lowers_and_an_added_choice_never_raises(mdp, data):
    before = minimal_budget(mdp)
    choice = mdp.outcome_choices()
    columns = [
        mdp.choice_states()[choice], mdp.choice_action[choice], mdp.successor, mdp.probability, mdp.reward, mdp.damage,
    ]  # fmt: skip
    state = data.draw(st.integers(0, mdp.num_states - 1))
    entry = (data.draw(st.integers(0, mdp.num_states - 1)), 1.0, 0.0, data.draw(st.integers(0, 3)))
    old = int(data.draw(st.sampled_from(mdp.actions(state).tolist())))
    for action, worse in ((old, True), (mdp.num_actions, False)):
        grown = [np.append(column, x) for column, x in zip(columns, (state, action, *entry), strict=True)]
        after = minimal_budget(from_transitions(*grown, num_states=mdp.num_states, normalise=True))
        assert (after.of_state >= before.of_state if worse else after.of_state <= before.of_state).all()


@settings(max_examples=60)
@given(mdps(max_damage=3))
def test_probabilities_do_not_matter(mdp):
    choice = mdp.outcome_choices()
    weights = np.random.default_rng(mdp.num_outcomes).uniform(0.01, 1, mdp.num_outcomes)
    other = from_transitions(
        mdp.choice_states()[choice], mdp.choice_action[choice], mdp.successor, weights, mdp.reward, mdp.damage,
        num_states=mdp.num_states, normalise=True,
    )  # fmt: skip
    np.testing.assert_array_equal(minimal_budget(mdp).of_choice, minimal_budget(other).of_choice)


# ---------------------------------------------------------------------- brute force


def worst_damage(edges, count):
    """The largest damage of any walk from each state of a graph with edges (s, t, d); ∞ if a cycle does damage."""
    reach = np.eye(count, dtype=bool)
    for s, t, _ in edges:
        reach[s, t] = True
    for middle in range(count):
        reach |= reach[:, middle, None] & reach[None, middle, :]
    worst = np.zeros(count, np.int64)
    for s, t, d in edges:
        if d and reach[t, s]:
            worst[reach[:, s]] = INFINITE
    for _ in range(count):  # finite maxima are attained without repeating a state
        for s, t, d in edges:
            if worst[t] < INFINITE:
                worst[s] = max(worst[s], worst[t] + d)
    return worst


def by_brute_force(mdp):
    """k* as the minimum over all memoryless strategies."""
    count = mdp.num_states
    per_choice = [
        list(zip(mdp.successor[b:e].tolist(), mdp.damage[b:e].tolist(), strict=True))
        for b, e in itertools.pairwise(mdp.outcome_ptr.tolist())
    ]
    best = np.full(count, INFINITE, np.int64)
    for strategy in itertools.product(*(mdp.choices(s) for s in range(count))):
        edges = [(s, t, d) for s, choice in enumerate(strategy) for t, d in per_choice[choice]]
        best = np.minimum(best, worst_damage(edges, count))
    k = [max(INFINITE if best[t] == INFINITE else best[t] + d for t, d in outcomes) for outcomes in per_choice]
    return np.array(k)


@pytest.mark.parametrize(("max_damage", "seed"), [(1, 10), (5, 11), (255, 12)])
def test_equals_the_best_memoryless_strategy(crowds, max_damage, seed):
    crowd = crowds(500, seed, max_damage=max_damage, max_states=4)
    answers = [engine(crowd.mdp.support).of_choice for engine in ENGINES]
    for number in range(crowd.sizes.size):
        expected = by_brute_force(crowd.model(number))
        for answer in answers:
            np.testing.assert_array_equal(crowd.part(number, answer), expected)


# ---------------------------------------------------------------------- Storm


def unfolded(mdp, budget):
    """The model on (state, remaining budget), with one more state that means "overspent"."""
    count = mdp.num_states
    over = (budget + 1) * count
    choice = mdp.outcome_choices()
    s, a = mdp.choice_states()[choice].astype(np.int64), mdp.choice_action[choice]
    layer = np.arange(budget + 1)[:, None]
    left = layer - mdp.damage.astype(np.int64)
    t = np.where(left >= 0, left * count + mdp.successor, over)
    shape = t.shape
    p = np.broadcast_to(mdp.probability, shape)
    return from_transitions(
        (layer * count + s).ravel(), np.broadcast_to(a, shape).ravel(), t.ravel(), p.ravel(), np.zeros(t.size),
        np.zeros(t.size, int), num_states=over + 1, terminal=[over],
    )  # fmt: skip


@pytest.mark.parametrize(("count", "max_damage", "budget"), [(250, 1, 7), (150, 5, 12)])
def test_equals_storm(crowds, count, max_damage, budget):
    """Storm computes on the unfolded model the states from which overspending can surely be avoided."""
    pytest.importorskip("stormpy")
    from stormpy.datastructures import BitVector
    from stormpy.developer import perform_prob01_min

    from almostsure.model.storm.write import to_storm

    crowd = crowds(count, 20, max_damage=max_damage)
    mdp = crowd.mdp
    game = to_storm(unfolded(mdp, budget))
    over = mdp.num_states * (budget + 1)
    everywhere, overspent = BitVector(game.nr_states, True), BitVector(game.nr_states, [over])
    safe, _ = perform_prob01_min(game, everywhere, overspent)
    is_safe = np.zeros(game.nr_states, bool)
    is_safe[list(safe)] = True
    layers = is_safe[:over].reshape(budget + 1, mdp.num_states)
    expected = np.where(layers.any(axis=0), layers.argmax(axis=0), INFINITE)
    assert INFINITE in expected
    assert expected[expected < INFINITE].max() >= 3
    for engine in ENGINES:
        np.testing.assert_array_equal(engine(mdp.support, budget).of_state, expected)
