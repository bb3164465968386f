"""One component: which pairs can leave it almost surely, compared with the plain twin, and their first values."""

import numpy as np
import pytest

from almostsure import AlmostSure, from_transitions, solve_policy
from almostsure.errors import UnboundedReturn
from almostsure.kernels import plain
from almostsure.plan import graph as twin
from almostsure.plan.assured import engine
from almostsure.plan.assured.component import component, parts
from almostsure.plan.assured.steps import Part

from ..test_engine import solved


def drawn(rng: np.random.Generator) -> tuple[Part, np.ndarray]:
    """A component with some choices that may leave it, and the owners of its choices."""
    size = int(rng.integers(1, 14))
    ptr = np.concatenate([[0], np.cumsum(rng.integers(0, 4, size))]).astype(np.uint32)
    lengths = rng.integers(1, 4, int(ptr[-1]))
    entry_ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    entries, choices = int(entry_ptr[-1]), lengths.size
    part = Part(
        ptr, entry_ptr, rng.integers(size, size=entries).astype(np.uint32), rng.random(entries),
        rng.normal(size=choices), np.arange(choices, dtype=np.uint32), (rng.random(choices) < 0.15) * 0.5,
        np.empty(size + 1, np.uint32), np.empty(entries, np.uint32),
    )  # fmt: skip
    return part, np.repeat(np.arange(size), np.diff(ptr))


def test_who_surely_leaves_is_what_the_plain_twin_says():
    find, lost = plain(parts.leave_surely), 0
    for seed in range(300):
        part, owner = drawn(np.random.default_rng(seed))
        size = part.ptr.size - 1
        usable, queue = np.ones(owner.size, np.bool_), np.empty(size, np.uint32)
        queue = queue[: find(part, size, usable, queue)]
        graph = twin.ChoiceGraph(
            num_states=size, owner=owner, entry_choice=np.repeat(np.arange(owner.size), np.diff(part.entry_ptr)),
            entry_state=part.column.astype(int),
        )  # fmt: skip
        live, expected, _ = twin.surely_leave(graph, part.leak > 0)
        assert np.sort(queue).tolist() == np.flatnonzero(live).tolist()
        assert (usable[live[owner]] == expected[live[owner]]).all()
        lost += not live.all()
        _check_order(part, queue, usable)
    assert 50 < lost < 290


def _check_order(part: Part, queue: np.ndarray, usable: np.ndarray) -> None:
    """Each has a usable choice that may leave, or lead to somebody listed before."""
    before: set[int] = set()
    for x in queue.tolist():
        assert any(
            usable[k]
            and (part.leak[k] > 0 or before & set(part.column[part.entry_ptr[k] : part.entry_ptr[k + 1]].tolist()))
            for k in range(part.ptr[x], part.ptr[x + 1])
        )
        before.add(x)


def test_positions_are_dropped_in_place_as_elsewhere():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        part, owner = drawn(rng)
        size = part.ptr.size - 1
        usable, queue = np.ones(owner.size, np.bool_), np.empty(size, np.uint32)
        order = np.sort(queue[: plain(parts.leave_surely)(part, size, usable, queue)])
        room = component.make_part(size, owner.size, part.column.size)
        sizes = plain(parts.reorder)(part, order, usable, room)
        assert plain(parts.reorder)(part, order, usable, part) == sizes
        for here, there in zip(
            plain(parts.fitted)(part, (order.size, *sizes))[:7],
            plain(parts.fitted)(room, (order.size, *sizes))[:7],
            strict=True,
        ):
            assert here.tolist() == there.tolist()
        kept = usable & np.isin(owner, order)
        assert plain(parts.fitted)(room, (order.size, *sizes)).origin.tolist() == np.flatnonzero(kept).tolist()


@pytest.mark.parametrize("way_out", [False, True])
def test_who_cannot_get_out_without_risk_is_known_before_the_equations(monkeypatch, way_out):
    """A corridor with a pocket that is only left with the risk of a trap, or for a damage of 2 as well."""
    size = 40
    end, near, far, trap = range(size, size + 4)
    rows = [(x, 0, x + 1, 1, -1, 0) for x in range(size)] + [(x, 1, x - 1, 1, -1, 0) for x in range(1, size)]
    rows += [(0, 2, size - 2, 1, -1, 1), (1, 2, 2, 0.5, -1, 0), (1, 2, near, 0.5, -1, 0), (near, 0, far, 1, -1, 0)]
    rows += [(far, 0, near, 1, -1, 0), (far, 1, 0, 0.5, -1, 0), (far, 1, trap, 0.5, -1, 0), (trap, 0, trap, 1, -1, 0)]
    rows += [(near, 1, end, 1, -1, 2)] if way_out else []
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[end])
    lost = []
    lose = component.Component.set_lost
    monkeypatch.setattr(
        component.Component, "set_lost", lambda self, which: lost.append(which.size) or lose(self, which)
    )
    lower, upper, _ = solved(mdp, 3, method="sweeps")
    # with nothing left there is no hint, and they are searched for; with more left they are known
    assert lost == ([2, 2] if way_out else [2, 2, 2, 2])
    for bounds, others in zip((lower, upper), solved(mdp, 3, method="direct")[:2], strict=True):
        assert np.isneginf(bounds).tolist() == np.isneginf(others).tolist()
        assert bounds[np.isfinite(bounds)] == pytest.approx(others[np.isfinite(others)], abs=1e-6)
    assert np.isneginf(lower[:, [near, far]]).tolist() == [[True, True]] * 2 + [[not way_out] * 2] * 2


def test_where_more_left_opens_a_short_cut_hints_mislead():
    """A slippery corridor of 60 cells: with a damage of 1, those far behind get to the end at once."""
    size = 60
    rows = [(x, 0, x + 1, 0.8, -1, 0) for x in range(size)] + [(x, 0, max(x - 1, 0), 0.2, -1, 0) for x in range(size)]
    rows += [(x, 1, max(x - 1, 0), 1, -1, 0) for x in range(size)] + [(0, 2, size, 1, -1, 1)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[size])
    lower, _, choice = solved(mdp, 2, method="sweeps")
    expected = solved(mdp, 2, method="direct")
    assert lower == pytest.approx(expected[0], abs=1e-6)
    assert (choice == expected[2]).all()
    assert lower[:, 0] == pytest.approx([lower[0, 0], -1, -1])


def test_only_where_more_left_allows_more_are_the_sure_taken_for_sure(monkeypatch):
    """Among tied choices it does not: what ends with nothing left may never end with more, for a better return."""
    size = 30
    end, reward, rest = range(size, size + 3)
    rows = [(x, a, min(x + 1, size - 1), p, -1, 0) for x in range(size - 1) for a, p in ((0, 0.9), (1, 0.1))]
    rows += [(x, a, max(x - 1, 0), p, -1, 0) for x in range(size - 1) for a, p in ((0, 0.1), (1, 0.9))]
    rows += [(size - 1, 0, end, 1, -1, 0), (5, 2, reward, 1, 99, 1)]
    rows += [(reward, 0, rest, 1, 0, 0), (rest, 0, reward, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[end])
    stranded = []
    strand = component.Component._remove_lost
    monkeypatch.setattr(
        component.Component,
        "_remove_lost",
        lambda self, hint: stranded.append(self.engine.is_monotone) or strand(self, hint),
    )
    lower, _, choice = solved(mdp, 1, method="sweeps")
    assert stranded
    assert all(stranded)
    assert (lower[1, : size - 1] > 0).all()
    assert (lower[0, :size] < 0).all()
    expected = solved(mdp, 1, method="direct")
    assert lower == pytest.approx(expected[0], abs=1e-6)
    assert (choice == expected[2]).all()


@pytest.mark.parametrize("everywhere", [False, True])
def test_gold_beyond_a_risk_is_without_bound_for_the_lost_too(monkeypatch, everywhere):
    """Who may fall into a pit or get to endless gold: one answer, whether or not they were known as lost before."""
    size = 40
    goal, gold, pit, risk = range(size, size + 4)
    rows = [(s, 0, (s + 1) % size, 0.9, -1, 0) for s in range(size)]
    rows += [(s, 0, max(s - 1, 0), 0.1, -1, 0) for s in range(size)]
    rows += [(size - 1, 1, goal, 1, -1, 0), (size - 1, 2, gold, 1, -1, 1), (gold, 0, gold, 1, 1, 0)]
    rows += [(pit, 0, pit, 1, -1, 0), (0, 1, risk, 0.5, -1, 0), (0, 1, 1, 0.5, -1, 0)]
    rows += [(risk, 0, 0, 0.5, -1, 0), (risk, 0, pit, 0.5, -1, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[goal], initial=risk)
    for module, name in ((engine, "PLAIN"), (engine, "SMALL"), (component, "DIRECT")):
        monkeypatch.setattr(module, name, 0)
    with pytest.raises(UnboundedReturn, match="reward can be collected for ever"):
        solve_policy(mdp, AlmostSure(2), everywhere=everywhere)


@pytest.mark.parametrize("cost", [1e39, 1e200])
def test_costs_beyond_single_precision_are_finite(cost):
    """Everybody up to a state that is only left at such a cost surely leaves, whatever is guessed of the order."""
    size, gate = 5000, 100
    rows = [(s, 0, (s + 1) % size, 1.0, -cost if s == gate else -1.0, 0) for s in range(size)]
    rows += [(s, 1, max(s - 1, 0), 1.0, -1.0, 0) for s in range(size) if s != gate] + [(200, 2, size, 1.0, -1.0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), num_states=size + 1, terminal=[size])
    lower, upper, _ = solved(mdp, 0)
    assert (lower[0, : gate + 1] <= -cost).all()
    assert (upper[0, : gate + 1] >= -cost * (1 + 1e-12) - size).all()
    assert (upper[0, gate + 1 : 200] > -1000).all()


def test_where_every_step_costs_more_than_single_precision_holds_somebody_leaves():
    size = 5000
    rows = [(s, a, (s + (1, -1)[a]) % size, 1.0, -1e39, 0) for s in range(size) for a in range(2)]
    rows.append((200, 2, size, 1.0, -1e39, 0))
    mdp = from_transitions(*zip(*rows, strict=True), num_states=size + 1, terminal=[size])
    lower, upper, _ = solved(mdp, 0)
    assert (lower[0, :size] <= -1e39).all()
    assert (upper[0, :size] >= -1e39 * size).all()
