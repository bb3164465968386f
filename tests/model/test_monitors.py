"""Products with monitors."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import almostsure as asure
from almostsure import INFINITE, from_function, from_transitions, minimal_budget, product
from almostsure.errors import ArgumentError, LimitReached, ModelError, UnknownName
from almostsure.model import ENDED, FORBIDDEN, Automaton, Monitor, Refill, SecondBudget, Steps
from almostsure.testing import mdps


@pytest.fixture
def field():
    """A line of cells 0 … 4: 2 is a station, 4 the end; going left or right costs a step."""
    rows = [(s, a, min(max(s + (1, -1)[a], 0), 4), 1.0, float(s == 3 and a == 0), 0) for s in range(4) for a in (0, 1)]
    return from_transitions(
        *zip(*rows, strict=True), terminal=[4], action_names=["right", "left"], labels={"station": [2], "end": [4]}
    )


@given(mdps(max_states=5, max_damage=2), st.integers(0, 8))
def test_a_number_of_steps_is_the_horizon(mdp, steps):
    with_steps = product(mdp, Steps(steps))
    assert minimal_budget(with_steps).smallest_budget() == minimal_budget(mdp, horizon=steps).smallest_budget()


@given(mdps(max_states=5, max_damage=3))
def test_a_monitor_that_remembers_nothing_changes_nothing(mdp):
    same = product(mdp, Monitor(start=None, step=lambda memory, *_: memory))
    found, exact = minimal_budget(same), minimal_budget(mdp)
    states = same.origin.parts.states
    assert np.array_equal(found.of_state, exact.of_state[states])


@given(mdps(max_states=5, max_damage=2), st.integers(0, 4))
def test_a_second_budget_for_the_same_damage_is_the_budget(mdp, budget):
    second = product(mdp, SecondBudget(mdp.damage, budget))
    start = minimal_budget(mdp).smallest_budget()
    found = minimal_budget(second).smallest_budget()
    assert found == (start if start <= budget else INFINITE)


@given(mdps(max_states=4, max_damage=2), st.integers(0, 3), st.randoms(use_true_random=False))
def test_policies_that_keep_the_product_keep_both_budgets(mdp, budget, random):
    other = np.array([random.randrange(3) for _ in range(mdp.num_outcomes)])
    both = product(mdp, SecondBudget(other, budget))
    need = minimal_budget(both).smallest_budget()
    if need == INFINITE:
        return
    shield = asure.Shield(minimal_budget(both))
    parts = both.origin.parts
    run = shield.begin(int(both.initial_states[0]), need)
    for _ in range(30):
        outcome = random.choice(both.outcomes(run[0], random.choice(shield.allowed(*run).tolist())))
        run = (outcome.next_state, run[1] - outcome.damage)
        assert run[1] >= 0
        assert parts.memories[run[0]] >= 0
        assert parts.states[run[0]] >= 0


def test_a_tank_is_refilled_at_stations(field):
    for capacity, need in ((1, INFINITE), (2, 0), (4, 0)):
        tank = product(field, Refill(cost=1, capacity=capacity, at="station"))
        assert minimal_budget(tank).smallest_budget() == need
    low = product(field, Refill(1, 3, at=[2], level=1))
    assert minimal_budget(low).smallest_budget() == INFINITE
    assert low.state_name(low.initial_state) == "0 | 1"


def test_terminal_states_cost_nothing():
    mdp = from_transitions([0], [0], [1], [1], [0], [0], terminal=[1])
    assert minimal_budget(product(mdp, Refill(1, 1, at=[0]))).smallest_budget() == 0
    assert minimal_budget(product(mdp, SecondBudget(1, 1))).smallest_budget() == 0


def test_never_b_before_a():
    rows = [(0, 0, 1, 1, 0, 0), (0, 1, 2, 1, 0, 0), (1, 0, 2, 1, 0, 0), (2, 0, 3, 1, 1, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[3], labels={"a": [1], "b": [2]})
    edges = {("no", "a"): "yes", ("no", "b"): "trap", ("yes", "b"): "yes", ("yes", "a"): "yes"}
    rule = product(mdp, Automaton(edges, start="no", forbidden=["trap"]))
    minimal = minimal_budget(rule)
    assert (minimal.of("0 | no", 0), minimal.of("0 | no", 1)) == (0, INFINITE)
    assert rule.label("forbidden").sum() == 1
    assert minimal_budget(rule, horizon=0).of("forbidden") == INFINITE
    with pytest.raises(ModelError, match=r"the automaton has no edge from 'no' for 'b'\. Add one"):
        product(mdp, Automaton({("no", "a"): "yes", ("yes", "b"): "yes"}, start="no"))
    with pytest.raises(UnknownName, match="unknown label 'c'"):
        product(mdp, Automaton({("no", "c"): "yes"}, start="no"))


def test_damage_may_be_replaced_and_runs_may_end(field):
    def step(count, state, action, next_state, damage, labels):
        if "end" in labels:
            return ENDED
        return (count, 3) if count == 2 else count + 1

    model = product(field, Monitor(start=0, step=step))
    assert minimal_budget(model).smallest_budget() == 3  # the fourth step would do damage, but ends the run
    assert model.state_names[-1] == "ended"


def test_monitors_may_be_nested(field):
    model = product(product(field, Steps(10)), SecondBudget(lambda s, a, *_: int(a == 1), 1))
    assert model.state_name(model.initial_state) == "0 | 10 | 1"
    assert minimal_budget(model).smallest_budget() == 0


def test_only_reachable_pairs_are_built_and_large_products_are_fast():
    size = 20_000
    chain = from_transitions(
        np.arange(size), np.zeros(size), np.r_[1:size, 0], np.ones(size), np.zeros(size), np.zeros(size)
    )
    model = product(chain, SecondBudget(np.zeros(size), 1000))
    assert model.num_states == size


@pytest.mark.parametrize(
    ("monitor", "error", "message"),
    [
        (
            Monitor(0, lambda m, *_: m + 1),
            LimitReached,
            r"more than max_states = 1,000 states; one of the last",
        ),
        (Monitor(0, lambda m, *_: [m]), ModelError, r"a monitor's memory must be hashable; got \[0\]"),
        (Monitor(0, lambda m, *_: 1 / 0), ModelError, "the monitor failed with memory 0 at .*ZeroDivisionError"),
        (Refill(1, 3, at=[]), ModelError, "at must name one or more states"),
        (Refill(1, 3, at="statoin"), UnknownName, "Did you mean 'station'"),
        (Refill(1, 3, at=[2], level=4), ArgumentError, r"level must be 0 … 3, the capacity; got 4"),
        (SecondBudget(-1, 3), ModelError, "damage must be a whole number, 0 or more; got -1"),
        (SecondBudget([1, 2], 3), ModelError, r"damage must be one number per outcome \(9\)"),
        (SecondBudget("station", -1), ArgumentError, "budget must be at least 0"),
        ("monitor", ArgumentError, "a monitor must have start, letters and read"),
    ],
)
def test_bad_monitors(field, monitor, error, message):
    with pytest.raises(error, match=message):
        product(field, monitor, max_states=1000)


def test_verdicts_have_names():
    assert [repr(FORBIDDEN), repr(ENDED)] == ["FORBIDDEN", "ENDED"]


def test_locations_without_an_edge_cannot_be_forbidden():
    for wrong in ("tarp", ["tarp"], iter(["tarp"])):
        with pytest.raises(UnknownName, match="unknown forbidden location 'tarp'"):
            Automaton({("no", "a"): "trap"}, start="no", forbidden=wrong)
    assert Automaton({("no", "a"): "trap"}, start="no", forbidden="trap").forbidden == {"trap"}


def test_a_pair_is_a_memory_and_a_damage(field):
    with pytest.raises(ModelError, match=r"is \(memory, damage\).* Return a memory that is a pair as"):
        product(field, Monitor("x", lambda memory, s, a, *_: (s, "left")))
    pairs = product(field, Monitor("x", lambda memory, s, a, *_: ((s, a), None)))
    assert (0, 0) in pairs.origin.parts.memories


@pytest.mark.parametrize("start", [(0, 0), (), (0, 0, 0)])
def test_a_bare_pair_is_refused_where_the_start_is_a_tuple(field, start):
    def misread(memory, state, action, *_):
        memory = tuple(memory)  # fails if the pair was read as (memory, damage)
        return (None if state else 1, 0)

    with pytest.raises(ModelError, match=r"must be a tuple, like the start; got \(1, 0\) at .* as \(\(1, 0\), None\)"):
        product(field, Monitor(start, misread))
    with pytest.raises(ModelError, match=r"got \(None, 0\) at state 0"):
        product(field, Monitor(start, lambda *_: (None, 0)))
    marked = product(field, Monitor(start, lambda memory, s, a, *_: ((s, a), 2) if a else ((1, 0), None)))
    assert (marked.max_damage, set(marked.origin.parts.memories) >= {(1, 0), (0, 1)}) == (2, True)
    assert product(field, Monitor(start, lambda *_: (ENDED, 3))).max_damage == 3
    assert (4, 5, 6) in product(field, Monitor(start, lambda *_: (4, 5, 6))).origin.parts.memories


def test_each_monitor_at_its_limits():
    spending, tank = SecondBudget(0, 5), Refill(1, 4, at=[0])
    assert [spending.read(2, cost) for cost in (0, 1, 2, 3)] == [2, 1, 0, FORBIDDEN]
    assert [tank.read(2, (cost, 0)) for cost in (0, 1, 2, 3)] == [2, 1, 0, FORBIDDEN]
    assert [tank.read(2, (cost, 1)) for cost in (0, 2, 3)] == [4, 4, FORBIDDEN]
    assert [Steps(9).read(left, 0) for left in (3, 2, 1, 0)] == [2, 1, ENDED, (ENDED, 0)]
    assert (spending.start, tank.start, Refill(1, 4, [0], 0).start, Refill(1, 4, [0], 4).start) == (5, 4, 0, 4)
    assert (SecondBudget(0, 0).start, Refill(1, 0, [0]).start, Steps(0).start) == (0, 0, 0)
    for level in (-1, 5):
        with pytest.raises(ArgumentError, match=f"^level must be 0 … 4, the capacity; got {level}$"):
            _ = Refill(1, 4, [0], level).start
    rule = Automaton({("a", "x"): "b", ("a", frozenset("xy")): "c", ("b", frozenset("x")): "trap"}, "a", ["trap"])
    assert [rule.read("a", frozenset(letter)) for letter in ("", "x", "xy")] == ["a", "b", "c"]
    assert rule.read("b", frozenset("x")) is FORBIDDEN
    with pytest.raises(
        ModelError, match=r"^the automaton has no edge from 'b' for frozenset\(\{'[xy]', '[xy]'\}\)\. Add"
    ):
        rule.read("b", frozenset("xy"))


def test_a_product_state_by_state():
    """Two steps with damage, of which the monitor counts one; the third must never happen."""
    rows = [(0, 0, 0, 0.5, 1, 2), (0, 0, 1, 0.5, 3, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[1], labels={"home": [1]})
    model = product(
        mdp, Monitor(2, lambda left, s, a, t, d, labels: (left - 1, 7) if d and left else FORBIDDEN if d else left)
    )
    assert model.state_names == ("0 | 2", "1 | 2", "0 | 1", "1 | 1", "0 | 0", "1 | 0", "forbidden")
    assert {name: np.flatnonzero(holds).tolist() for name, holds in model.labels.items()} == {
        "home": [1, 3, 5], "forbidden": [6],
    }  # fmt: skip
    found = [[(o.next_state, o.reward, o.damage) for o in model.outcomes(s, 0)] for s in (0, 2, 4, 6)]
    assert found == [[(1, 3, 0), (2, 1, 7)], [(3, 3, 0), (4, 1, 7)], [(5, 3, 0), (6, 1, 1)], [(6, 0, 1)]]
    assert model.is_terminal().tolist() == [False, True, False, True, False, True, False]
    parts = model.origin.parts
    assert (parts.states.tolist(), parts.memories) == ([0, 1, 0, 1, 0, 1, -1], [2, 2, 1, 1, 0, 0, None])


def test_limits_of_products_are_exact(field, monkeypatch):
    model = product(field, Steps(3))
    assert product(field, Steps(3), max_states=model.num_states - 1) == model  # the state "ended" does not count
    with pytest.raises(
        LimitReached, match=rf"max_states = {model.num_states - 2} states; one of the last is state \d with memory 1"
    ):
        product(field, Steps(3), max_states=model.num_states - 2)
    monkeypatch.setattr("almostsure.model.products.MAX_MEMORIES", 3)
    assert product(field, Steps(3)) == model
    with pytest.raises(
        LimitReached, match=r"^a monitor must have at most 3 memories; got more, such as 1\. If they grow"
    ):
        product(field, Steps(4))


def test_the_default_limit_is_that_of_from_function():
    limits = [inspect.signature(make).parameters["max_states"].default for make in (product, from_function)]
    assert limits == [5_000_000] * 2


def test_equal_memories_are_counted_once(monkeypatch):
    monkeypatch.setattr("almostsure.model.products.MAX_MEMORIES", 3)
    noisy = SecondBudget(lambda s, a, *_: int(a == 2), 2)
    assert len(set(product("quicksand", noisy).origin.parts.memories) - {None}) <= 3


@pytest.mark.parametrize("damage", [0, 255, np.int64(7)])
def test_damages_that_a_monitor_may_return(field, damage):
    assert product(field, Monitor(0, lambda memory, *_: (memory, damage))).max_damage == damage


@pytest.mark.parametrize("damage", [-1, 256, True, 1.0])
def test_damages_that_a_monitor_must_not_return(field, damage):
    with pytest.raises(ModelError, match=rf"is \(memory, damage\), damage 0 … 255; got \(0, {damage}\)\. Return"):
        product(field, Monitor(0, lambda memory, *_: (memory, damage)))


def test_amounts_name_the_first_and_count_the_others(field):
    wrong = np.zeros(field.num_outcomes)
    wrong[[3, 5]] = 0.5, -1
    where = r"0\.5 at choice 3 \(state 1, action 'left'\) \(and 1 more outcome\)$"
    with pytest.raises(ModelError, match=f"^damage must be a whole number, 0 or more; got {where}"):
        product(field, SecondBudget(wrong, 3))
    large = np.zeros(field.num_outcomes)
    large[0] = 2**31 - 1
    product(field, SecondBudget(large, 3))
    large[0] = 2**31
    with pytest.raises(ModelError, match=r"got 2\.14748e\+09 at choice 0"):
        product(field, SecondBudget(large, 3))


def test_a_monitor_without_return_is_refused():
    def step(memory, state, action, next_state, damage, labels):
        if damage:
            return FORBIDDEN

    with pytest.raises(
        ModelError, match=r"it returned None at state 11, action \d, next state \d+\. Is a return missing"
    ):
        product("quicksand", Monitor(start=0, step=step))
    product("quicksand", Monitor(start=None, step=step))  # None is the memory
