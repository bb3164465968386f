"""Comparisons with the plain twins of ``twins.py``; a difference is an AssertionError with its place.

Each check takes a union, its model and the twin's minimal budgets, and returns its counts.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import NamedTuple

import numpy as np
from twins import NEVER, Ints, forced_within, least_risks, minimal_budgets

import almostsure as asure
from almostsure import INFINITE, MDP, Policy, Shield, check_minimal_budget, minimal_budget
from almostsure.abstract import Grid, abstract
from almostsure.errors import AlmostSureError, NoSafeAction
from almostsure.model import Monitor, product
from almostsure.plan import RiskShield
from almostsure.policy.simulation import simulate as simulation
from almostsure.testing.unions import Union

simulation.PLAIN_STEPS = 0  # always use the compiled simulation
CLOSE = 1e-6  # of the least risk, whose tolerance is far smaller
ROUNDING = 1e-12
FORGERIES = 20


class Case(NamedTuple):
    """A union, its model, and the twin's k*."""

    union: Union
    mdp: MDP
    of_state: Ints
    of_choice: Ints


def case_of(union: Union, budget: int) -> Case:
    """The case of a union, whose runs begin in any state for which the budget suffices (or in the first)."""
    of_state, of_choice = minimal_budgets(union)
    enough = (of_state <= budget).astype(np.float64)
    initial = enough / enough.sum() if enough.any() else 0
    return Case(
        union,
        union.build(initial=initial),
        *(np.where(values == NEVER, INFINITE, values) for values in (of_state, of_choice)),
    )


def differ(what: str, found: np.ndarray, wanted: np.ndarray) -> None:
    """Fail at the first entry that differs."""
    if found.shape != wanted.shape or not (same := found == wanted).all():
        at = None if found.shape != wanted.shape else tuple(int(x) for x in np.argwhere(~same)[0])
        raise AssertionError(f"{what} differs from its twin at {at}: {found[at]} instead of {wanted[at]}")


def budgets(case: Case, rng: np.random.Generator) -> Counter[str]:
    """Compare both engines, with and without a cap, and check the certificate."""
    cap = int(rng.integers(0, 6))
    for backend in ("compiled", "plain"):
        found = minimal_budget(case.mdp, backend=backend, check="always")
        differ(f"k* of states ({backend})", found.of_state, case.of_state)
        differ(f"k* of choices ({backend})", found.of_choice, case.of_choice)
    capped = minimal_budget(case.mdp, backend="compiled", cap=cap, check="always")
    differ(f"k* with cap {cap}", capped.of_state, np.where(case.of_state > cap, INFINITE, case.of_state))
    return Counter(models=case.union.first.size - 1)


def alone(case: Case, rng: np.random.Generator) -> Counter[str]:
    """Solve some models separately: the results must be the same."""
    numbers = rng.integers(0, case.union.first.size - 1, 50).tolist()
    for number in numbers:
        union = case.union.model(number)
        found = minimal_budget(case_of(union, 0).mdp)
        part = slice(case.union.first[number], case.union.first[number + 1])
        differ(f"k* of model {number} alone", found.of_state, case.of_state[part])
    return Counter(alone=len(numbers))


def forgeries(case: Case, rng: np.random.Generator) -> Counter[str]:
    """Wrong budgets must be refused, with any ranks."""
    minimal = minimal_budget(case.mdp, check="never")
    for _ in range(FORGERIES):
        of_state, rank = minimal.of_state.copy(), minimal.rank.copy()
        at = rng.integers(0, of_state.size, rng.integers(1, 4))
        if rng.random() < 0.5:  # a whole model, shifted by one
            first = case.union.first
            at = np.arange(*first[np.searchsorted(first, at[0], side="right") - 1 :][:2])
        of_state[at] = np.where(of_state[at] == INFINITE, 3, np.maximum(of_state[at] + rng.choice([-1, 1]), 0))
        if rng.random() < 0.5:
            rank[at] = rng.integers(0, max(int(rank.max()), 1) + 1, at.size)
        if np.array_equal(of_state, minimal.of_state):
            continue
        owned, damage = case.mdp.outcome_choices(), case.mdp.damage.astype(np.int64)
        needed = np.zeros(minimal.of_choice.size, np.int64)
        np.maximum.at(needed, owned, np.minimum(damage + of_state[case.mdp.successor], INFINITE))
        forged = dataclasses.replace(minimal, of_state=of_state, of_choice=needed.astype(np.int32), rank=rank)
        try:
            check_minimal_budget(case.mdp, forged)
        except AlmostSureError:
            continue
        raise AssertionError(f"a forged certificate passed: the budgets of states {at.tolist()} were changed")
    return Counter(forgeries=FORGERIES)


def masks(case: Case, rng: np.random.Generator) -> Counter[str]:
    """The shield allows what k* allows, row by row, and raises an error if that is nothing."""
    shield, union = Shield(minimal_budget(case.mdp, check="never")), case.union
    table = np.full((union.num_states, case.mdp.num_actions), INFINITE, np.int64)
    table[union.choice_states, case.mdp.choice_action] = case.of_choice
    states = rng.integers(0, union.num_states, 4000)
    extra = rng.integers(0, 4, states.size)
    safe = case.of_state[states] < INFINITE
    states, remaining = states[safe], (case.of_state[states] + extra)[safe]
    differ("the shield", shield.mask(states, remaining), table[states] <= remaining[:, None])
    for left in (0, 1, 5):
        differ("the shield's table", shield.choices(left), case.of_choice <= left)
    for state in rng.integers(0, union.num_states, 5).tolist():
        try:
            shield.allowed(state, min(int(case.of_state[state]), 1000) - 1)
        except NoSafeAction:
            continue
        raise AssertionError(f"the shield allows something at state {state}, which needs more")
    return Counter(masks=int(states.size))


def play(case: Case, rng: np.random.Generator, *, budget: int, steps: int) -> Counter[str]:
    """Simulate random agents inside the shield: no episode takes more damage than its budget."""
    shield, mdp = Shield(minimal_budget(case.mdp, check="never")), case.mdp
    weights = rng.random((budget + 1, mdp.num_choices)) ** 3
    weights *= np.stack([shield.choices(left) for left in range(budget + 1)])
    total = np.add.reduceat(weights, mdp.choice_ptr[:-1].astype(np.int64), axis=1)[:, mdp.choice_states()]
    shares = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    if not (case.of_state <= budget).any():
        return Counter()
    policy = Policy(mdp, probability=shares, budget=budget)
    episodes = asure.simulate(mdp, policy, max(steps // 40, 1), seed=int(rng.integers(2**31)), max_steps=200)
    worst = int(episodes.damages.max())
    assert worst <= budget, f"an episode with a budget of {budget} took {worst} damage"
    return Counter(steps=int(episodes.lengths.sum()), episodes=len(episodes))


def guarded(case: Case, rng: np.random.Generator) -> Counter[str]:
    """Play runs step by step with mask and after, on the raw columns."""
    shield, union = Shield(minimal_budget(case.mdp, check="never")), case.union
    number = np.zeros((union.num_states, case.mdp.num_actions), np.int64)
    number[union.choice_states, case.mdp.choice_action] = np.arange(case.mdp.num_choices)
    states = np.flatnonzero(case.of_state < INFINITE)[:2000]
    left = case.of_state[states] + rng.integers(0, 3, states.size)
    for _ in range(20 if states.size else 0):
        mask = shield.mask(states, left)
        action = np.argmax(mask * rng.random(mask.shape), axis=1)
        choice = number[states, action]
        outcome = rng.integers(union.outcome_ptr[choice], union.outcome_ptr[choice + 1])
        _, after = shield.after((states, left), action, union.target[outcome], union.damage[outcome])
        states, left = union.target[outcome], left - union.damage[outcome]
        differ("what remains", after, left)
        assert left.min() >= 0, f"a run inside the shield overspent at state {int(states[np.argmin(left)])}"
    return Counter(steps=20 * int(states.size))


def horizons(case: Case, rng: np.random.Generator) -> Counter[str]:
    """Compare the least damage that can be forced within a number of steps."""
    steps = int(rng.integers(0, 15))
    found = minimal_budget(case.mdp, horizon=steps)
    for left, wanted in enumerate(forced_within(case.union, steps)):
        differ(f"what can be forced within {left} steps", found.at(left).of_state, wanted)
    check_minimal_budget(case.mdp, found)
    return Counter(horizons=case.union.first.size - 1)


def risks(case: Case, rng: np.random.Generator) -> Counter[str]:
    """Least risks are close to the exact ones, never below, and the mean remaining risk does not increase."""
    budget, union = int(rng.integers(0, 3)), case.union
    shield = RiskShield(case.mdp, budget, 1.0)
    upper = np.vstack([shield.least, np.ones(union.num_states)])  # the last row: overspent
    lower, close = least_risks(union, budget, 2000)
    assert (upper[:-1] >= lower - ROUNDING).all(), "a least risk is too small"
    assert not close or (upper[:-1] <= lower + CLOSE).all(), "a least risk is too large"
    left = np.maximum(np.arange(budget + 1)[:, None] - union.damage, -1)
    used = np.add.reduceat(union.probability * upper[left, union.target], union.outcome_ptr[:-1], axis=1)
    least = np.minimum.reduceat(used, union.choice_ptr[:-1], axis=1)
    assert (upper[:-1] >= least - ROUNDING).all(), "least risks are not kept by any choice"
    row = int(rng.integers(0, budget + 1))
    risk = used[row] + (1 - used[row]) * rng.random(used.shape[1]) + ROUNDING
    number = np.diff(union.outcome_ptr)
    run = (union.state, np.full(union.state.size, row), np.minimum(np.repeat(risk, number), 1.0))
    _, _, after = shield.after(run, union.action, union.target, union.damage)
    mean = np.add.reduceat(union.probability * after, union.outcome_ptr[:-1])
    assert (mean <= risk + ROUNDING).all(), "more risk is left than there was"
    return Counter(risks=union.first.size - 1)


def grids(case: Case, rng: np.random.Generator) -> Counter[str]:
    """A finite model as a grid: state s is cell 2 s, and no outcome leads to the cells in between."""
    states, actions = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    targets = rng.integers(0, states, (2, states, actions))  # two outcomes each
    hurts = rng.integers(0, 4, states) * (rng.random(states) < 0.4)

    def look_up(x, row):
        value = row[-1]
        for s in range(states - 2, -1, -1):
            value = np.where(x < 2 * s + 1.5, row[s], value)
        return value

    grid = Grid([0.0], [2.0 * states], [2 * states])
    model = abstract(
        lambda state, action: [(look_up(state[0], 2.0 * targets[k, :, action] + 0.5),) for k in (0, 1)],
        grid, range(actions), unsafe=lambda state: look_up(state[0], hurts.astype(float)),
    )  # fmt: skip
    state, action = (x.ravel() for x in np.indices((states, actions)))
    target = targets.transpose(1, 2, 0).ravel()
    ptr = np.arange(0, 2 * state.size + 1, 2)
    half, none = np.full(2 * state.size, 0.5), np.zeros(2 * state.size)
    union = Union(
        np.repeat(state, 2), np.repeat(action, 2), target, half, none, hurts[target], ptr,
        np.arange(0, state.size + 1, actions), np.zeros(states, bool), np.array([0, states]),
    )  # fmt: skip
    wanted = minimal_budgets(union)[0]
    found = minimal_budget(model)
    differ("upper budgets of a grid", found.of_state[::2], np.where(wanted == NEVER, INFINITE, wanted))
    asure.check_upper(model, found.of_state)
    return Counter(grids=1)


def products(case: Case, rng: np.random.Generator) -> Counter[str]:
    """The product of a model with a random automaton, which may change the damages."""
    union = case.union.model(int(rng.integers(0, case.union.first.size - 1)))
    base = case_of(union, NEVER).mdp
    over = base.is_terminal()  # also where the only choice is a loop without damage and reward
    states, memories = union.num_states, 3
    goes = rng.integers(0, memories, (memories, states))
    extra = rng.integers(0, 2, (memories, states))

    def step(memory, state, action, target, damage, labels):
        return int(goes[memory, target]), int(min(damage + extra[memory, target], 255))

    outcomes = np.arange(union.state.size)
    memory, outcome = np.repeat(np.arange(memories), outcomes.size), np.tile(outcomes, memories)
    target, ended = union.target[outcome], over[union.state[outcome]]
    both = Union(
        memory * states + union.state[outcome], union.action[outcome],
        np.where(ended, memory, goes[memory, target]) * states + target,
        union.probability[outcome], union.reward[outcome],
        np.where(ended, 0, np.minimum(union.damage[outcome] + extra[memory, target], 255)),
        _repeated(union.outcome_ptr, memories), _repeated(union.choice_ptr, memories),
        np.tile(over, memories), np.array([0, memories * states]),
    )  # fmt: skip
    wanted = minimal_budgets(both)[0]
    model = product(base, Monitor(start=0, step=step))
    parts, found = model.origin.parts, minimal_budget(model).of_state
    at = np.array([m * states + s for s, m in zip(parts.states, parts.memories, strict=True)])
    differ("k* of a product", found, np.where(wanted[at] == NEVER, INFINITE, wanted[at]))
    return Counter(products=1)


def _repeated(ptr: Ints, times: int) -> Ints:
    return np.append(np.concatenate([ptr[:-1] + k * ptr[-1] for k in range(times)]), times * ptr[-1])
