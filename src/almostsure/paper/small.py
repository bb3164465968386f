"""Small random models, and what can be said about them by trying everything.

The searches here are plain and slow on purpose, and share no code with the solvers that they are compared with: they
enumerate policies, trajectories and histories one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from almostsure.budget.minimal import INFINITE
from almostsure.model.build.transitions import from_transitions
from almostsure.model.mdp import MDP, Outcome

Plan = Mapping[tuple[int, int], int]  # (state, remaining) → action
MOST_PLANS = 400  # policies of one model that are tried
MOST_ROUNDS = 50_000  # states times policies whose longest walks are searched


def random_models(
    rng: np.random.Generator,
    count: int,
    *,
    states: int = 4,
    actions: int = 2,
    outcomes: int = 2,
    damage: int = 1,
    ends: int = False,
) -> Iterator[MDP]:
    """Random models whose last state is terminal; the larger ``count``, the stranger the strangest of them.

    With ``ends``, every step leads to a later state, so that there are finitely many trajectories.  Without, there are
    damage-free cycles, traps that hurt for ever, and states that nobody reaches.
    """
    for _ in range(count):
        size = int(rng.integers(max(2, states - 2), states + 1))
        rows: list[tuple[Any, ...]] = []
        for state in range(size - 1):
            for action in range(int(rng.integers(1, actions + 1))):
                rows += _outcomes(rng, state, action, size, outcomes, damage, bool(ends))
        columns: list[Any] = [list(column) for column in zip(*rows, strict=True)]
        yield from_transitions(*columns, num_states=size, terminal=[size - 1])


def _outcomes(
    rng: np.random.Generator, state: int, action: int, size: int, most: int, damage: int, ends: bool
) -> list[tuple[Any, ...]]:
    """A choice's outcomes, in sixteenths, so that sums are exact; danger pays, so that there is something to weigh."""
    number = int(rng.integers(1, most + 1))
    cuts = np.sort(rng.choice(np.arange(1, 16), size=number - 1, replace=False))
    shares = np.diff([0, *cuts, 16]) / 16
    hurts, first = rng.integers(0, damage + 1, number), state + 1 if ends else 0
    return [
        (state, action, int(rng.integers(first, size)), share, float(rng.integers(-2, 3) + 3 * d), int(d))
        for share, d in zip(shares, hurts, strict=True)
    ]


# ---------------------------------------------------------------------- every policy


def plans(mdp: MDP, budget: int, rng: np.random.Generator) -> list[dict[tuple[int, int], int]]:
    """All deterministic policies on (state, remaining), or a sample of them where there are more than MOST_PLANS."""
    living = np.flatnonzero(~mdp.is_terminal()).tolist()
    pairs = [(s, k) for k in range(budget + 1) for s in living]
    options = [mdp.actions(s).tolist() for s, _ in pairs]
    if math.prod(map(len, options)) <= MOST_PLANS:
        picked: Iterable[Sequence[int]] = itertools.product(*options)
    else:
        picked = ([int(rng.choice(x)) for x in options] for _ in range(MOST_PLANS))
    return [dict(zip(pairs, actions, strict=True)) for actions in picked]


def overspends(mdp: MDP, plan: Plan, budget: int) -> bool:
    """Whether a policy may take more than ``budget`` damage from the start: by following all that can happen."""
    is_terminal = mdp.is_terminal()
    queue, seen = [(mdp.initial_state, budget)], set()
    while queue:
        state, remaining = pair = queue.pop()
        if pair in seen or is_terminal[state]:
            continue
        seen.add(pair)
        for outcome in mdp.outcomes(state, plan[pair]):
            if outcome.damage > remaining:
                return True
            queue.append((outcome.next_state, remaining - outcome.damage))
    return False


def worst_damages(mdp: MDP, choices: Sequence[int]) -> list[int]:
    """The most damage that a stationary policy may take from each state, INFINITE where it has no bound.

    The longest walk: after as many rounds as there are states it repeats one, and what still grows then grows for ever.
    """
    worst = [0] * mdp.num_states
    moves = [_outcomes_of(mdp, choice) for choice in choices]
    for _ in range(mdp.num_states):
        worst = [max(o.damage + worst[o.next_state] for o in moves[s]) for s in range(mdp.num_states)]
    for _ in range(mdp.num_states):
        further = [max(o.damage + worst[o.next_state] for o in moves[s]) for s in range(mdp.num_states)]
        worst = [INFINITE if after > before else before for before, after in zip(worst, further, strict=True)]
    return worst


def stationary(mdp: MDP, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """All deterministic stationary policies, as choices, or a sample of them where there are too many to try."""
    options = [list(mdp.choices(s)) for s in range(mdp.num_states)]
    most = max(MOST_ROUNDS // mdp.num_states, 10)
    if math.prod(map(len, options)) <= most:
        return list(itertools.product(*options))
    return [tuple(int(rng.choice(option)) for option in options) for _ in range(most // 10)]


def least_budgets(mdp: MDP, policies: Iterable[Sequence[int]]) -> list[int]:
    """The least worst damage of each choice over stationary policies, one after the other."""
    least = [INFINITE] * mdp.num_choices
    for choices in policies:
        worst = worst_damages(mdp, choices)
        for c in range(mdp.num_choices):
            need = max(o.damage + worst[o.next_state] for o in _outcomes_of(mdp, c))
            least[c] = min(least[c], need, INFINITE)
    return least


def _outcomes_of(mdp: MDP, choice: int) -> list[Outcome]:
    state = int(np.searchsorted(mdp.choice_ptr, choice, side="right")) - 1
    return mdp.outcomes(state, int(mdp.choice_action[choice]))


# ---------------------------------------------------------------------- every history


def histories(mdp: MDP, longest: int) -> Iterator[tuple[Any, ...]]:
    """Every history (s0, a0, r1, d1, s1, …) of at most ``longest`` steps from the initial state."""
    layer: list[tuple[Any, ...]] = [(mdp.initial_state,)]
    is_terminal = mdp.is_terminal()
    for step in range(longest + 1):
        yield from layer
        if step < longest:
            layer = [
                (*history, int(action), o.reward, o.damage, o.next_state)
                for history in layer
                if not is_terminal[history[-1]]
                for action in mdp.actions(history[-1])
                for o in mdp.outcomes(history[-1], int(action))
            ]


def is_acyclic(mdp: MDP) -> bool:
    """Whether no state that is not terminal can be visited twice."""
    is_terminal, owner = mdp.is_terminal(), mdp.choice_states()[mdp.outcome_choices()]
    left = ~is_terminal
    while left.any():
        inner = left[owner] & left[mdp.successor]
        last = left & ~np.isin(np.arange(mdp.num_states), owner[inner])  # whose successors are all done
        if not last.any():
            return False
        left &= ~last
    return True


def starting_in(mdp: MDP, state: int) -> MDP:
    """The same model with another initial state."""
    return MDP(
        mdp.arrays, initial=(np.array([state]), np.ones(1)), state_names=mdp.state_names, action_names=mdp.action_names
    )
