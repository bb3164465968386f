"""The compiled engine in hard cases: large structures, interruptions, limits."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from almostsure import INFINITE, check_minimal_budget, from_transitions, minimal_budget
from almostsure.budget.compiled import compact, engine, higher_levels, level_zero, peeling
from almostsure.budget.compiled.engine import solve_levels
from almostsure.budget.minimal import NO_CAP
from almostsure.errors import Interrupted, LimitReached
from almostsure.kernels import Kernel, plain
from almostsure.model.mdp import Support
from almostsure.testing.families import chain, garnet, ladder, rings

MILLION = 1_000_000


def support_of(outcomes_of_choice, successor, damage, choices_of_state=None):
    """A support without a model, for sizes at which building the model would take longer than solving it."""
    outcome_ptr = np.append(0, np.cumsum(outcomes_of_choice)).astype(np.int32)
    per_state = np.ones(outcome_ptr.size - 1, int) if choices_of_state is None else choices_of_state
    arrays = {
        "choice_ptr": np.append(0, np.cumsum(per_state)).astype(np.int32),
        "outcome_ptr": outcome_ptr,
        "successor": np.asarray(successor).astype(np.int32),
        "damage": np.asarray(damage).astype(np.uint8),
    }
    for array in arrays.values():
        array.flags.writeable = False  # as a model's are: otherwise the kernels are compiled once more
    return Support(**arrays)


def solve(support, cap=NO_CAP):
    return solve_levels(support, cap=cap, report=lambda level, settled: None)


def proved(mdp, **options):
    """The budgets of states, by the compiled engine, with their certificate verified."""
    return minimal_budget(mdp, backend="compiled", check="always", **options).of_state


# ---------------------------------------------------------------------- worst cases, with values known by construction


def long_chain(order, damage, *, ways_back):
    """``order[i]`` leads to ``order[i + 1]``, the last to the end; edges back cost the same and lead anywhere."""
    length = order.size
    after = np.empty(length + 1, np.int64)
    after[order] = np.append(order[1:], length)
    after[length] = length
    hurts = np.append(np.full(length, damage), 0)
    if not ways_back:
        return support_of(np.ones(length + 1, int), after, hurts)
    back = np.append(np.full(length, order[0]), length)
    return support_of(
        np.ones(2 * (length + 1), int),
        np.stack([after, back], 1).ravel(),
        np.repeat(hurts, 2),
        np.full(length + 1, 2),
    )


ORDERS = {
    "in order": np.arange(MILLION),
    "reversed": np.arange(MILLION)[::-1],
    "shuffled": np.random.default_rng(0).permutation(MILLION),
}


@pytest.mark.parametrize("damage", [1, 255])
@pytest.mark.parametrize("ways_back", [False, True], ids=["acyclic", "one component"])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_a_million_levels(order, ways_back, damage):
    """Without edges back all states are peeled; with them, every state waits for its own level."""
    answer = solve(long_chain(order, damage, ways_back=ways_back))
    np.testing.assert_array_equal(answer.of_state[order], damage * np.arange(MILLION, 0, -1))
    assert answer.of_state[-1] == 0


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_a_million_steps_without_damage_into_a_trap(order):
    """Level 0 alone has a chain of dependencies as long as the model."""
    support = long_chain(order, 0, ways_back=False)
    damage = support.damage.copy()
    damage[-1] = 1
    answer = solve(support_of(np.diff(support.outcome_ptr), support.successor, damage))
    assert (answer.of_state == INFINITE).all()


@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("shuffled_seed", [None, 1])
def test_a_ladder_with_very_many_levels(connected, shuffled_seed):
    mdp = ladder(100_000, connected=connected, shuffled_seed=shuffled_seed)
    v = proved(mdp)
    assert np.sort(v).tolist() == [0, 0, *range(1, 100_001)]
    assert v[mdp.initial_state] == 100_000


def test_a_wide_ladder():
    mdp = ladder(300, width=300, connected=True)
    np.testing.assert_array_equal(proved(mdp)[:-1], np.repeat(np.arange(301), 300))


@pytest.mark.parametrize(("depth", "size"), [(2, 50_000), (300, 100), (30_000, 3)])
def test_cycles_within_cycles(depth, size):
    for connected in (False, True):
        mdp = rings(depth, size=size, connected=connected)
        np.testing.assert_array_equal(proved(mdp)[:-1], np.repeat(np.arange(depth), size))


@pytest.mark.parametrize("seed", range(8))
def test_few_are_ruled_out_by_each_sweep(seed, monkeypatch):
    """A chain in bad order into a trap, beside a safe state: the ranks of all sweeps together prove ∞."""
    order = 1 + np.random.default_rng(seed).permutation(15)
    damage = np.append(np.zeros(14, int), 1)
    after = np.append(order[1:], order[-1])
    mdp = from_transitions(order, np.zeros(15), after, np.ones(15), np.zeros(15), damage, terminal=[0])
    assert proved(mdp).tolist() == [0] + [INFINITE] * 15
    monkeypatch.setattr(engine, "_Compact", None)  # no state is left for the higher levels
    assert proved(mdp).tolist() == [0] + [INFINITE] * 15


def test_progress_tells_how_many_are_settled(monkeypatch):
    """After every level above 0: the number of states that need at most that level."""
    monkeypatch.setattr(engine, "PATIENCE", 0)
    mdp = ladder(5, connected=True)
    needs, told = minimal_budget(mdp, backend="plain").of_state, []
    solve_levels(mdp.support, cap=NO_CAP, report=lambda level, settled: told.append((level, settled)))
    above = [(level, settled) for level, settled in told if level]
    assert above == [(level, int((needs <= level).sum())) for level, _ in above]
    assert {1, 2, 3} <= {level for level, _ in above}


def test_almost_everything_infinite():
    mdp = garnet(100_000, damage_rate=0.3, seed=3)
    v = proved(mdp)
    assert 0.9 < (v == INFINITE).mean() < 1


@pytest.mark.parametrize("damage_rate", [0.1, 0.15, 0.2])
def test_random_graphs_pass_the_check(damage_rate):
    mdp = garnet(50_000, damage_rate=damage_rate, max_damage=3, seed=4)
    v = proved(mdp)
    assert np.unique(v).size > 1
    for cap in (0, 1, 3):
        np.testing.assert_array_equal(proved(mdp, cap=cap), np.where(v > cap, INFINITE, v))


def test_nothing_damaging():
    assert not proved(garnet(50_000, damage_rate=0)).any()


def test_everything_damaging_and_no_end():
    assert (proved(garnet(50_000, damage_rate=1, terminal_rate=0)) == INFINITE).all()


def test_a_hub_that_all_states_reach_and_that_reaches_all_states():
    """A choice with a hundred thousand outcomes is not examined from its first outcome at every level."""
    count = 100_000
    mdp = chain(count, connected=True)
    choice = mdp.outcome_choices()
    columns = [mdp.choice_states()[choice], mdp.choice_action[choice], mdp.successor, mdp.damage]
    hub = np.full(count, count + 1), np.zeros(count, int), np.arange(count), np.zeros(count, int)
    to_hub = np.arange(count), np.full(count, 2), np.full(count, count + 1), np.ones(count, int)
    s, a, t, d = (np.concatenate(parts) for parts in zip(columns, hub, to_hub, strict=True))
    both = from_transitions(s, a, t, np.ones(s.size), np.zeros(s.size), d, num_states=count + 2, normalise=True)
    v = proved(both)
    np.testing.assert_array_equal(v[:count], np.arange(count, 0, -1))
    assert v[count + 1] == count  # the hub's worst outcome is the head of the chain


def test_many_outcomes_per_choice(crowds, algorithm_1_of_crowd):
    crowd = crowds(150, 50, max_damage=4, max_states=60, max_choices=2, max_outcomes=60)
    expected = algorithm_1_of_crowd(crowd)
    np.testing.assert_array_equal(solve(crowd.mdp.support).of_choice, expected)


# ---------------------------------------------------------------------- large damages: jumps over empty levels


@pytest.mark.parametrize("backend", ["plain", "compiled"])
def test_empty_levels_are_jumped_over(backend):
    mdp = chain(40, damage=255, connected=True)
    minimal = minimal_budget(mdp, backend=backend, check="always")
    np.testing.assert_array_equal(minimal.of_state[:-1], 255 * np.arange(40, 0, -1))
    capped = minimal_budget(mdp, backend=backend, cap=1000, check="always")
    assert sorted(capped.histogram()) == [0, 255, 510, 765, INFINITE]


@pytest.mark.parametrize("backend", ["plain", "compiled"])
def test_levels_more_than_255_apart(backend):
    """A peeled state of a high value is the only event between two levels that are far apart."""
    steps = 9
    s = [*range(steps), 10, 10, 11]
    a = [0] * steps + [0, 1, 0]
    t = [*range(1, steps), 9, 0, 11, 10]
    d = [255] * steps + [0, 0, 1]
    mdp = from_transitions(s, a, t, np.ones(len(s)), np.zeros(len(s)), d, terminal=[9], num_states=12)
    minimal = minimal_budget(mdp, backend=backend, check="always")
    assert minimal.of_state.tolist() == [*(255 * i for i in range(steps, 0, -1)), 0, 255 * steps, 255 * steps + 1]


# ---------------------------------------------------------------------- the limit of 32 bits


def test_a_finite_budget_that_does_not_fit_is_an_error():
    length = 2**31 // 255 + 2
    support = long_chain(np.arange(length), 255, ways_back=False)
    with pytest.raises(
        LimitReached, match=r"finite budgets must be below 2147483647.*Scale the damages down, or pass cap"
    ):
        solve(support)
    answer = solve(support, cap=1000)
    assert answer.of_state[-5:].tolist() == [INFINITE, 765, 510, 255, 0]


@pytest.fixture
def far_away(monkeypatch):
    """A two-state cycle that costs 255 to leave, to a peeled state whose value is as large as values get."""
    real = peeling.peel

    def peel_and_raise(*arguments):
        node = arguments[3]
        settled = real(*arguments)
        node[2 * 2] = INFINITE - 100
        return settled

    monkeypatch.setattr(peeling, "peel", peel_and_raise)
    return from_transitions([0, 0, 1, 2], [0, 1, 0, 0], [2, 1, 0, 3], [1] * 4, [0] * 4, [255, 0, 1, 1], terminal=[3])


def test_a_level_that_does_not_fit_is_an_error(far_away):
    with pytest.raises(LimitReached, match="finite budgets must be below"):
        solve(far_away.support)
    assert solve(far_away.support, cap=9).of_state.tolist() == [INFINITE, INFINITE, INFINITE, 0]


# ---------------------------------------------------------------------- interruption


@pytest.fixture(scope="module")
def hard(crowds, algorithm_1_of_crowd):
    """Needs all kernels: level 0 is long and in bad order, some states are peeled, the rest takes many levels."""
    crowd = crowds(300, 60, max_damage=3, max_states=12)
    mdp, k = crowd.mdp, algorithm_1_of_crowd(crowd)
    length = 3000
    order = np.random.default_rng(5).permutation(length) + mdp.num_states
    choice = mdp.outcome_choices()
    columns = [mdp.choice_states()[choice], mdp.choice_action[choice], mdp.successor, mdp.damage]
    trap = order, np.zeros(length, int), np.append(order[1:], order[-1]), np.append(np.zeros(length - 1, int), 1)
    s, a, t, d = (np.concatenate(parts) for parts in zip(columns, trap, strict=True))
    whole = from_transitions(s, a, t, np.ones(s.size), np.zeros(s.size), d, normalise=True)
    return whole, np.append(k, np.full(length, INFINITE))


def check_kept(mdp, truth, error):
    """The partial result is exact up to its cap, as its certificate proves, and its text says so."""
    kept = error.kept
    if kept is None:
        assert "there is no partial result" in str(error)
        return -1
    np.testing.assert_array_equal(kept.of_choice, np.where(truth > kept.cap, INFINITE, truth))
    check_minimal_budget(mdp, kept)
    assert "interrupted" in repr(kept)
    assert f"budgets up to {kept.cap} are exact" in str(error)
    return kept.cap


def test_interrupted_at_every_report(hard, monkeypatch):
    mdp, truth = hard
    monkeypatch.setattr(engine, "PATIENCE", 0)  # a report after every level
    caps = []
    for moment in range(1000):
        calls = iter([None] * moment)

        def report(level, settled, calls=calls):
            if next(calls, "now") == "now":
                raise KeyboardInterrupt

        monkeypatch.setattr("almostsure.progress.Bar.update", lambda bar, done, note, report=report: report(0, 0))
        try:
            minimal_budget(mdp, backend="compiled")
        except Interrupted as error:
            caps.append(check_kept(mdp, truth, error))
        else:
            break
    assert caps[0] == -1
    assert caps == sorted(caps)
    assert {1, 2, 3} <= set(caps)


KERNELS = ("sweep", "spread", "peel", "extract", "file_witnesses", "advance")


@pytest.mark.parametrize("cap", [None, 2])
@pytest.mark.parametrize("name", KERNELS)
def test_interrupted_in_a_kernel(hard, name, cap, monkeypatch):
    """Python handles Ctrl-C when the kernel returns; raised there, it does not depend on the thread."""
    mdp, truth = hard
    home = next(module for module in (level_zero, peeling, compact, higher_levels) if hasattr(module, name))
    real = getattr(home, name)

    def interrupted(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(home, name, interrupted)
    with pytest.raises(Interrupted, match="interrupted") as caught:
        minimal_budget(mdp, backend="compiled", cap=cap)
    kept_cap = check_kept(mdp, truth, caught.value)
    if name in ("sweep", "spread"):
        assert kept_cap == -1
    else:
        assert kept_cap >= 0


def test_interrupted_while_compiling_nothing_is_kept(monkeypatch):
    """The kernels are compiled by solving a small model, whose answer must not be returned."""
    real = higher_levels.advance

    def interrupted(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    engine.warm_up.cache_clear()
    monkeypatch.setattr(higher_levels, "advance", interrupted)
    with pytest.raises(Interrupted, match="there is no partial result") as caught:
        minimal_budget(chain(5000), backend="compiled")
    assert caught.value.kept is None


def test_interrupted_is_a_keyboard_interrupt(hard, monkeypatch):
    """Programs that handle Ctrl-C handle this too."""

    def raise_interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(level_zero, "sweep", raise_interrupt)
    with pytest.raises(KeyboardInterrupt, match="there is no partial result"):
        minimal_budget(hard[0], backend="compiled")


# ---------------------------------------------------------------------- pieces


def test_kernels_are_cached_and_let_other_threads_run():
    """The two halves of a sweep run at the same time, and kernels are compiled only once."""
    found = {
        f"{module.__name__}.{name}": kernel.compiled() if isinstance(kernel, Kernel) else kernel
        for module in (compact, higher_levels, level_zero, peeling)
        for name, kernel in vars(module).items()
        if hasattr(kernel, "py_func")
    }
    assert len(found) >= 14
    assert not [name for name, kernel in found.items() if not kernel.targetoptions.get("nogil")]
    assert not [name for name, kernel in found.items() if type(kernel._cache).__name__ == "NullCache"]


def test_limits_have_their_measured_values():
    """They affect the running time and how often progress is reported, not results; see tests/model/test_limits.py."""
    assert (engine.SLOW_SWEEPS, engine.FEW, engine.PATIENCE) == (8, 1 / 16, 2**21)
    assert (engine.THREADS, engine.ROUNDS, peeling.NEVER) == (2, 4, 2**40)


@pytest.mark.parametrize(
    ("sizes", "width"),
    [([1], 1), ([1, 1, 1], 1), ([2, 2], 2), ([2, 1], 0), ([1, 2], 0), ([3] * 5000, 3), ([3] * 4096, 3)]
    + [([3] * at + [2] + [3] * (5000 - at), 0) for at in (1, 4094, 4095, 4096, 4097, 4999, 5000)],
)
def test_strides(sizes, width):
    assert plain(peeling.stride)(np.append(0, np.cumsum(sizes))) == width


def test_the_compact_game_is_sorted():
    outcomes = np.array([9 << 8, 1 << 8, (2 << 8) | 7, 3 << 8, (4 << 8) | 255, 5 << 8])
    plain(compact.damaging_first)(outcomes, 1, 5)
    assert outcomes.tolist() == [9 << 8, (2 << 8) | 7, (4 << 8) | 255, 3 << 8, 1 << 8, 5 << 8]


# ---------------------------------------------------------------------- memory

MEASURE = """
from pathlib import Path
from almostsure.budget.minimal import NO_CAP
from almostsure.budget.compiled.engine import estimate, solve_levels
from almostsure.testing.families import garnet
from almostsure.model.files import load
import sys

def resident(which):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(which))

def solve(support):
    solve_levels(support, cap=NO_CAP, report=lambda level, settled: None)

solve(garnet(50, damage_rate=0.3).support)  # compile or load everything first
support = load(sys.argv[1]).support
support.successor.sum(), support.damage.sum(), support.outcome_ptr.sum(), support.choice_ptr.sum()
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
solve(support)
print(resident("VmHWM") - before, estimate(support))
"""


@pytest.mark.parametrize("damage_rate", [0.1, 0.3])  # almost all 0, almost all ∞
def test_memory_stays_below_the_estimate_and_sixteen_bytes_per_outcome(damage_rate, tmp_path):
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this system does not say how much memory was in use")
    mdp = garnet(100_000, damage_rate=damage_rate)
    mdp.save(tmp_path / "model.umb")
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, tmp_path / "model.umb"], capture_output=True, text=True, check=True
    )
    peak, expected = map(int, run.stdout.split())
    assert peak <= expected
    assert peak <= 16 * mdp.num_outcomes


def test_the_estimate_knows_when_indices_become_wide():
    """From 2**23 states on, a successor and its damage do not fit into 32 bits together."""

    class Sizes:
        def __init__(self, states, outcomes):
            self.num_states, self.num_choices, self.num_outcomes = states, outcomes, outcomes
            self.successor = np.empty(0, np.int32)

    outcomes = 54_000_000
    step = engine.estimate(Sizes(2**23, outcomes)) - engine.estimate(Sizes(2**23 - 1, outcomes))
    assert step > 2 * outcomes
    assert engine._index(Sizes(1000, 3 * 2**29)) is np.int32
    assert engine._index(Sizes(1000, 7 * 2**28)) is np.int64  # the pool of watchers is a quarter larger


@pytest.mark.parametrize(("dtype", "narrowed"), [(np.int32, 0), (np.int64, 5 * 5000 + 4 * 2000)])
def test_the_bytes_of_a_run_are_counted(dtype, narrowed):
    """16 + 8 indices per state, 3 indices and a byte per choice, a packed target and half an index per outcome."""
    compact_game = 48 * 1000 + 13 * 2000 + (4 + 1 + 2) * 5000
    assert engine._compact_size(1000, 2000, 5000, 4) == compact_game
    assert engine._compact_size(1000, 2000, 5000, 8) == 80 * 1000 + 25 * 2000 + 9 * 5000
    ends = np.linspace(0, 5000, 2001).astype(dtype), np.linspace(0, 2000, 1001).astype(dtype)
    nothing = np.zeros(5000, np.uint8)
    support = Support(choice_ptr=ends[1], outcome_ptr=ends[0], successor=nothing.astype(dtype), damage=nothing)
    assert engine.estimate(support) == narrowed + 17 * 1000 + 4 * 2000 + 3 * compact_game // 4
