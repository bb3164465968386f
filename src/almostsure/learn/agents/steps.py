"""One block of steps of tabular Q-learning on (state, remaining), for several copies of the model that share a table.

This is the plain twin; :mod:`almostsure.learn.agents.steps_kernel` compiles the very same functions.  Random numbers
come in as an array, so that both give the same result to the bit.

Copies move in turn, one step each, and each step is learned from at once: what one copy was taught is known to the
next, and a surprise of one copy stops the block before another can repeat it.

A step teaches *every* remaining budget at once: what happens does not depend on the budget, and what would be left of
each is arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

CLOCK, LANE, EPISODES, REFUSALS, DRAWN, SURPRISE, WAS_LEFT, STALE, PLANNED = range(9)  # what ``count`` holds
COUNTS = 9
DRAWS = 4  # random numbers a step: explore or not, what, the outcome, and the next start


def learn(
    choice_ptr: Any, outcome_ptr: Any, successor: Any, cumulative: Any, reward: Any, damage: Any, is_terminal: Any,
    initial: Any, initial_cumulative: Any,
    allowed: Any, value: Any, harm: Any, tries: Any, seen: Any, rate: Any, price: Any,
    state: Any, left: Any, taken: Any, gained: Any, hurt: Any, count: Any, draws: Any,
    ends: Any, returns: Any, damages: Any,
    budget: int, steps: int, horizon: int, penalty: float, price_rate: float, explore: float, watching: bool,
) -> None:  # fmt: skip
    """Go on until the random numbers or the steps are used up, or until something new is seen while watching.

    ``allowed``, ``value``, ``harm`` and ``tries`` are [layers, num_choices]; one layer is a learner that ignores the
    budget, otherwise the last layer is that of the overspent.  The lanes' arrays are [copies].
    """
    layers = allowed.shape[0]
    while count[DRAWN] < draws.shape[0] and count[CLOCK] < steps:
        draw, lane = draws[count[DRAWN]], count[LANE]
        first, last = choice_ptr[state[lane]], choice_ptr[state[lane] + 1]
        row = layer_of(left[lane], layers)
        played = best(allowed[row], value[row], harm[row], price[0], first, last)
        if played >= 0:
            open_choices = number_of(allowed[row], first, last)
            count[REFUSALS] += open_choices < last - first
            if draw[0] < explore:
                played = pick(allowed[row], first, last, int(draw[1] * open_choices))
            outcome = first_above(cumulative, outcome_ptr[played], draw[2])
            note(outcome, left[lane], seen, count)
            teach(
                choice_ptr, successor, reward, damage, is_terminal, allowed, value, harm, tries, rate, price[0],
                played, outcome, penalty,
            )  # fmt: skip
            move(successor[outcome], reward[outcome], damage[outcome], state, left, taken, gained, hurt, count)
        if played < 0 or is_terminal[state[lane]] or taken[lane] >= horizon:
            excess = (hurt[lane] - budget) / max(budget, 1)
            price[0] = max(0.0, price[0] + price_rate * max(-1.0, min(1.0, excess)))
            restart(initial, initial_cumulative, draw[3], budget, state, left, taken, gained, hurt, count,
                    ends, returns, damages)  # fmt: skip
        next_turn(state, count)
        if watching and count[SURPRISE] >= 0:
            break


def note(outcome: int, remaining: int, seen: Any, count: Any) -> None:
    """Count an outcome; if it is the first of its kind, that is a surprise."""
    count[SURPRISE], count[WAS_LEFT] = (outcome if seen[outcome] == 0 else -1), remaining
    seen[outcome] += 1


def move(
    after: int, gain: float, cost: int, state: Any, left: Any, taken: Any, gained: Any, hurt: Any, count: Any
) -> None:
    """Let an outcome happen to the copy whose turn it is."""
    lane = count[LANE]
    state[lane] = after
    left[lane] -= cost
    gained[lane] += gain
    hurt[lane] += cost
    taken[lane] += 1
    count[CLOCK] += 1


def restart(
    initial: Any, initial_cumulative: Any, draw: float, budget: int, state: Any, left: Any, taken: Any, gained: Any,
    hurt: Any, count: Any, ends: Any, returns: Any, damages: Any,
) -> None:  # fmt: skip
    """Note the episode that has ended, and begin another."""
    lane, episode = count[LANE], count[EPISODES]
    ends[episode], returns[episode], damages[episode] = count[CLOCK], gained[lane], hurt[lane]
    count[EPISODES] += 1
    state[lane] = initial[first_above(initial_cumulative, 0, draw)]
    left[lane], taken[lane], gained[lane], hurt[lane] = budget, 0, 0.0, 0


def next_turn(state: Any, count: Any) -> None:
    """It is the next copy's turn, with new random numbers."""
    count[DRAWN] += 1
    count[LANE] = (count[LANE] + 1) % state.size


def teach(
    choice_ptr: Any, successor: Any, reward: Any, damage: Any, is_terminal: Any,
    allowed: Any, value: Any, harm: Any, tries: Any, rate: Any, price: float,
    played: int, outcome: int, penalty: float,
) -> None:  # fmt: skip
    """Move the values of a choice towards what an outcome says, in every layer in which it is allowed."""
    layers = allowed.shape[0]
    after, cost = successor[outcome], int(damage[outcome])
    for row in range(layers):
        if not allowed[row, played]:
            continue
        remaining = row - cost if row < layers - 1 else -1
        target, dose = reward[outcome], float(cost)
        if penalty > 0.0 and remaining < 0:
            target = -penalty
        if not is_terminal[after]:  # being cut is no end: only a terminal state has nothing to come
            below = layer_of(remaining, layers)
            follow = best(
                allowed[below], value[below], harm[below], price, choice_ptr[after], choice_ptr[after + 1]
            )  # fmt: skip
            if follow >= 0:
                target += value[below, follow]
                dose += harm[below, follow]
        step = rate[min(tries[row, played], rate.size - 1)]
        tries[row, played] += 1
        value[row, played] += step * (target - value[row, played])
        harm[row, played] += step * (dose - harm[row, played])


def layer_of(remaining: int, layers: int) -> int:
    """The row of a remaining budget: the only one, or the last for the overspent."""
    if layers == 1:
        return 0
    return remaining if remaining >= 0 else layers - 1


def best(allowed: Any, value: Any, harm: Any, price: float, first: int, last: int) -> int:
    """The first allowed choice with the best score, or −1 if none is allowed."""
    found, score = -1, -math.inf
    for choice in range(first, last):
        if allowed[choice] and value[choice] - price * harm[choice] > score:
            found, score = choice, value[choice] - price * harm[choice]
    return found


def number_of(allowed: Any, first: int, last: int) -> int:
    """How many choices of a range are allowed."""
    number = 0
    for choice in range(first, last):
        number += allowed[choice]
    return number


def pick(allowed: Any, first: int, last: int, skip: int) -> int:
    """The allowed choice after ``skip`` others."""
    for choice in range(first, last):
        if allowed[choice]:
            if skip == 0:
                return choice
            skip -= 1
    return -1


def first_above(cumulative: Any, at: int, draw: float) -> int:
    """The first index whose cumulative probability exceeds the draw; the last one of a range always does."""
    while cumulative[at] <= draw:
        at += 1
    return at
