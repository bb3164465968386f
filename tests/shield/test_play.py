"""Theorem 1 in simulations: allowed actions never overspend, and refused ones can be made to."""

import numpy as np
import pytest

import almostsure as asure
from almostsure.budget.minimal import INFINITE
from almostsure.errors import NoSafeAction
from almostsure.shield import Shield
from almostsure.testing.families import garnet

MODELS = 2000


def play_at_random(shield: Shield, budget: int, rng: np.random.Generator, *, plays: int, steps: int) -> np.ndarray:
    """The remaining budgets after shielded random play from every safe state, [plays]."""
    mdp = shield.mdp
    state = rng.choice(np.flatnonzero(shield.minimal.of_state <= budget), plays)
    remaining = np.full(plays, budget)
    for _ in range(steps):
        mask = shield.mask(state, remaining)
        action = np.argmax(mask * rng.random(mask.shape), axis=1)
        choice = np.array([mdp.choice(int(s), int(a)) for s, a in zip(state, action, strict=True)])
        begin, end = mdp.outcome_ptr[choice], mdp.outcome_ptr[choice + 1]
        outcome = rng.integers(begin, end)  # any possible outcome, with equal probabilities
        state, remaining = mdp.successor[outcome], remaining - mdp.damage[outcome]
        assert (remaining >= 0).all()
    return remaining


def test_shielded_play_never_overspends(make) -> None:
    spent = 0
    for seed in range(MODELS):
        shield = Shield(asure.minimal_budget(make(seed)))
        rng = np.random.default_rng(seed)
        budget = int(rng.integers(0, 8))
        if (shield.minimal.of_state <= budget).any():
            spent += int((budget - play_at_random(shield, budget, rng, plays=8, steps=12)).sum())
    assert spent > MODELS  # there was enough damage to avoid


def test_shielded_play_on_a_larger_model() -> None:
    mdp = garnet(2000, 3, 2, seed=5, damage_rate=0.3, max_damage=3, reach=20, terminal_rate=0.05)
    shield = Shield(asure.minimal_budget(mdp))
    assert len(shield.minimal.histogram()) > 20
    for budget in (0, 3, 15, 31):
        play_at_random(shield, budget, np.random.default_rng(budget), plays=500, steps=60)


def nature(shield: Shield, choice: int, owed: int, rank: int) -> int:
    """An outcome after which at least ``owed`` can be forced, with progress: see ``almostsure.budget.certificate``."""
    mdp, minimal = shield.mdp, shield.minimal
    best = -1
    for outcome in range(int(mdp.outcome_ptr[choice]), int(mdp.outcome_ptr[choice + 1])):
        successor, damage = int(mdp.successor[outcome]), int(mdp.damage[outcome])
        after = int(minimal.of_state[successor])
        pays = after == INFINITE or damage + after >= owed if owed < INFINITE else after == INFINITE
        if pays and (damage or after > owed or minimal.rank[successor] < rank):
            return outcome
        if pays:
            best = outcome
    return best


def force(shield: Shield, choice: int, remaining: int, rng: np.random.Generator) -> int:
    """Overspend against an agent that plays at random after ``choice``; returns the number of steps."""
    mdp, minimal = shield.mdp, shield.minimal
    owed, rank = int(minimal.of_choice[choice]), INFINITE
    for step in range(10_000):
        outcome = nature(shield, choice, owed, rank)
        assert outcome >= 0, "nature has no move"
        remaining -= int(mdp.damage[outcome])
        if remaining < 0:
            return step
        state = int(mdp.successor[outcome])
        owed, rank = int(minimal.of_state[state]), int(minimal.rank[state])
        assert owed > remaining
        with pytest.raises(NoSafeAction, match="no action of state"):
            shield.allowed(state, remaining)
        choice = int(rng.choice(mdp.choices(state)))
    raise AssertionError("nature never got there")


def test_every_refused_choice_can_be_made_to_overspend(make) -> None:
    refused = 0
    for seed in range(MODELS // 2):
        shield = Shield(asure.minimal_budget(make(seed)))
        rng = np.random.default_rng(seed)
        for choice, needed in enumerate(shield.minimal.of_choice.tolist()):
            if needed:
                # One unit less than needed; a large budget if none suffices.
                refused += force(shield, choice, needed - 1 if needed < INFINITE else 17, rng) >= 0
    assert refused > MODELS


def test_one_unit_less_than_a_state_needs_is_refused(make) -> None:
    for seed in range(300):
        shield = Shield(asure.minimal_budget(make(seed)))
        for state, needed in enumerate(shield.minimal.of_state.tolist()):
            if needed < INFINITE:
                assert shield.allowed(state, needed).size
            with pytest.raises(NoSafeAction, match=f"no action of state {state} is safe with"):
                shield.allowed(state, needed - 1)
