"""Planning in what has been counted so far, and acting on the plan: the steps of the optimistic learner.

The plain twins; :mod:`almostsure.learn.agents.steps_kernel` compiles the very same functions.

Outcomes do not depend on the budget, so that one count serves every layer.  A choice that was tried less than
``enough`` times is *unknown*, and worth ``unknown`` (R-max, Brafman and Tennenholtz 2002).  Layers are solved from the
lowest up, each with the lower ones known, by sweeps that start at 0: after n of them a value is about what can be had
in n more steps, also where waiting costs nothing.  A choice is kept as long as nothing is better, so that a
policy leads to what made a value rise, and does not wander about among equals.
"""

from __future__ import annotations

import math
from typing import Any

from almostsure.learn.agents.steps import (
    CLOCK,
    DRAWN,
    LANE,
    PLANNED,
    REFUSALS,
    STALE,
    SURPRISE,
    first_above,
    layer_of,
    learn,
    move,
    next_turn,
    note,
    number_of,
    restart,
)

__all__ = ["learn", "plan", "walk"]


def plan(
    choice_ptr: Any, outcome_ptr: Any, successor: Any, reward: Any, damage: Any, is_terminal: Any,
    allowed: Any, seen: Any, samples: Any, enough: int, unknown: float, sweeps: int, precision: float,
    value: Any, chosen: Any,
) -> int:  # fmt: skip
    """Fill ``value`` and ``chosen`` (−1 where nothing is allowed), [layers, num_states]; returns how many sweeps."""
    value[:] = 0.0
    chosen[:] = -1
    swept = 0
    for row in range(allowed.shape[0] - 1):
        for _ in range(sweeps):
            swept += 1
            largest, scale = 0.0, 1.0
            for state in range(is_terminal.size):
                if is_terminal[state]:  # only who starts there ever plays it
                    chosen[row, state] = choice_ptr[state]
                    continue
                before, kept = value[row, state], -math.inf
                found, score = -1, -math.inf
                for choice in range(choice_ptr[state], choice_ptr[state + 1]):
                    if allowed[row, choice]:
                        worth = unknown
                        if samples[choice] >= enough:
                            worth = worth_of(
                                outcome_ptr, successor, reward, damage, seen, samples, value, row, choice
                            )  # fmt: skip
                        if worth > score:
                            found, score = choice, worth
                        if choice == chosen[row, state]:
                            kept = worth
                if found >= 0:
                    scale = max(scale, abs(score))
                    change = abs(score - before)
                    largest = max(largest, change)
                    value[row, state] = score
                    if kept < score - 1e-9 * scale or change > precision * scale:
                        chosen[row, state] = found
            if largest <= precision * scale:
                break
    return swept


def worth_of(
    outcome_ptr: Any, successor: Any, reward: Any, damage: Any, seen: Any, samples: Any, value: Any, row: int,
    choice: int,
) -> float:  # fmt: skip
    """What a choice is worth on average, by what was seen of it."""
    worth = 0.0
    for outcome in range(outcome_ptr[choice], outcome_ptr[choice + 1]):
        if seen[outcome] > 0:
            after = value[row - damage[outcome], successor[outcome]] if damage[outcome] <= row else 0.0
            worth += seen[outcome] / samples[choice] * (reward[outcome] + after)
    return worth


def walk(
    choice_ptr: Any, outcome_ptr: Any, successor: Any, cumulative: Any, reward: Any, damage: Any, is_terminal: Any,
    initial: Any, initial_cumulative: Any,
    allowed: Any, chosen: Any, seen: Any, samples: Any, enough: int,
    state: Any, left: Any, taken: Any, gained: Any, hurt: Any, count: Any, draws: Any,
    ends: Any, returns: Any, damages: Any,
    budget: int, steps: int, horizon: int, pause: int, watching: bool,
) -> None:  # fmt: skip
    """Act on a plan until the random numbers or the steps are used up, or until another plan may be wanted.

    A plan is *stale* when a choice has become known or its samples have doubled; another one is made ``pause`` steps
    after it at the earliest.  While watching, something new interrupts at once.
    """
    layers = allowed.shape[0]
    while count[DRAWN] < draws.shape[0] and count[CLOCK] < steps:
        draw, lane = draws[count[DRAWN]], count[LANE]
        row = layer_of(left[lane], layers)
        played = chosen[row, state[lane]]
        if played >= 0:
            first, last = choice_ptr[state[lane]], choice_ptr[state[lane] + 1]
            count[REFUSALS] += number_of(allowed[row], first, last) < last - first
            outcome = first_above(cumulative, outcome_ptr[played], draw[2])
            note(outcome, left[lane], seen, count)
            samples[played] += 1
            if samples[played] % enough == 0 and is_power_of_two(samples[played] // enough):
                count[STALE] = 1
            move(successor[outcome], reward[outcome], damage[outcome], state, left, taken, gained, hurt, count)
        if played < 0 or is_terminal[state[lane]] or taken[lane] >= horizon:
            restart(initial, initial_cumulative, draw[3], budget, state, left, taken, gained, hurt, count,
                    ends, returns, damages)  # fmt: skip
        next_turn(state, count)
        if (watching and count[SURPRISE] >= 0) or (count[STALE] and count[CLOCK] - count[PLANNED] >= pause):
            break


def is_power_of_two(number: int) -> bool:
    """Whether a positive number is 1, 2, 4, 8 and so on."""
    return number & (number - 1) == 0
