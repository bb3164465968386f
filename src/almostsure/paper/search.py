"""Exhaustive searches on small models.

They are simple and slow on purpose, and share no code with the solvers that are compared with them: they enumerate
policies, trajectories and histories one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from almostsure.model.build.function import from_function
from almostsure.model.mdp import MDP

MOST_POLICIES = 100  # that are tried per model
MOST_HISTORIES = 2_000  # that are enumerated
MOST_STEPS = 6
History = tuple[Any, ...]  # s0, a0, r1, d1, s1, …
Decide = Callable[[History, int], Mapping[int, float]]  # history and remaining budget → shares of actions


def policies(mdp: MDP, budget: int, rng: np.random.Generator) -> list[dict[tuple[int, int], int]]:
    """All deterministic policies on (state, remaining), or a sample if they are too many."""
    states = np.flatnonzero(~mdp.is_terminal()).tolist()
    options = {(s, k): mdp.actions(s).tolist() for k in range(budget + 1) for s in states}
    if math.prod(map(len, options.values())) <= MOST_POLICIES:
        picked: Iterable[Sequence[int]] = itertools.product(*options.values())
    else:
        picked = ([int(rng.choice(x)) for x in options.values()] for _ in range(MOST_POLICIES))
    return [dict(zip(options, actions, strict=True)) for actions in picked]


def overspends(mdp: MDP, policy: Mapping[tuple[int, int], int], budget: int) -> bool:
    """Whether a policy on (state, remaining) may overspend from the start, by search over all reachable pairs."""
    is_terminal = mdp.is_terminal()
    queue, seen = [(s, budget) for s in mdp.initial_states.tolist()], set()
    while queue:
        state, remaining = pair = queue.pop()
        if pair in seen or is_terminal[state]:
            continue
        seen.add(pair)
        for outcome in mdp.outcomes(state, policy[pair]):
            if outcome.damage > remaining:
                return True
            queue.append((outcome.next_state, remaining - outcome.damage))
    return False


def unrolled(mdp: MDP) -> MDP:
    """The model truncated after a few steps: no state is visited twice, and its histories can be enumerated."""
    owner, is_terminal = mdp.choice_states()[mdp.outcome_choices()], mdp.is_terminal()
    histories = np.bincount(mdp.initial_states, minlength=mdp.num_states)  # the number that end in each state
    steps, number = 0, 0
    while steps < MOST_STEPS:
        histories = np.bincount(mdp.successor, np.where(is_terminal, 0, histories)[owner], minlength=mdp.num_states)
        number += int(histories.sum())
        if steps > 0 and number > MOST_HISTORIES:
            break
        steps += 1

    def outcomes(pair: tuple[int, int], action: int) -> list[Any]:
        following = mdp.outcomes(pair[0], action)
        return [(o.probability, (o.next_state, pair[1] + 1), o.reward, o.damage) for o in following]

    def actions(pair: tuple[int, int]) -> list[int]:
        return [] if is_terminal[pair[0]] or pair[1] == steps else mdp.actions(pair[0]).tolist()

    return from_function(outcomes, initial={(s, 0): p for s, p in mdp.starts.items()}, actions=actions)


def follow(mdp: MDP, decide: Decide, budget: int) -> Iterator[tuple[History, int, float, float]]:
    """All histories that a history policy may produce, with remaining budget, probability and return."""
    is_terminal = mdp.is_terminal()
    queue: list[tuple[History, int, float, float]] = [((s,), budget, p, 0.0) for s, p in mdp.starts.items()]
    while queue:
        history, remaining, chance, gained = item = queue.pop()
        yield item
        for action, share in {} if is_terminal[history[-1]] else decide(history, remaining).items():
            for o in mdp.outcomes(history[-1], action):
                after = (*history, action, o.reward, o.damage, o.next_state)
                queue.append((after, remaining - o.damage, chance * share * o.probability, gained + o.reward))
