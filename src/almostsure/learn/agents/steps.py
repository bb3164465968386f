"""One block of steps of tabular Q-learning on (state, remaining), for several copies of the model that share a table.

This is the plain twin; :mod:`almostsure.learn.agents.steps_kernel` compiles the very same function.  Random numbers
come in as an array, so that both give the same result to the bit.

Copies move in turn, one step each, and each step is learned from at once: what one copy was taught is known to the
next, and a surprise of one copy stops the block before another can repeat it.
"""

from __future__ import annotations

import math
from typing import Any

CLOCK, LANE, EPISODES, REFUSALS, DRAWN = range(5)  # what ``count`` holds
DRAWS = 4  # random numbers a step: explore or not, what, the outcome, and the next start


def learn(
    choice_ptr: Any, outcome_ptr: Any, successor: Any, cumulative: Any, reward: Any, damage: Any, is_terminal: Any,
    initial: Any, initial_cumulative: Any,
    allowed: Any, value: Any, harm: Any, tries: Any, seen: Any, rate: Any, price: Any,
    state: Any, left: Any, taken: Any, gained: Any, hurt: Any, count: Any, draws: Any,
    ends: Any, returns: Any, damages: Any,
    total: int, steps: int, horizon: int, penalty: float, price_rate: float, decay: float, least: float, watching: bool,
) -> None:  # fmt: skip
    """Go on until the random numbers or the steps are used up, or until something new is seen while watching.

    ``allowed``, ``value``, ``harm`` and ``tries`` are [layers, num_choices]; one layer is a learner that ignores the
    budget, otherwise the last layer is that of the overspent.  The lanes' arrays are [copies].
    """
    layers = allowed.shape[0]
    slot = count[DRAWN]
    while slot < draws.shape[0] and count[CLOCK] < steps:
        lane = count[LANE]
        count[LANE] = (lane + 1) % state.size
        draw = draws[slot]
        slot += 1
        at = state[lane]
        layer = 0 if layers == 1 else (left[lane] if left[lane] >= 0 else layers - 1)
        best, best_score, open_choices = -1, -math.inf, 0
        for choice in range(choice_ptr[at], choice_ptr[at + 1]):
            if allowed[layer, choice]:
                open_choices += 1
                score = value[layer, choice] - price[0] * harm[layer, choice]
                if score > best_score:
                    best, best_score = choice, score
        finished, new = False, False
        if best < 0:  # nothing is allowed: the episode is stopped here
            finished = True
        else:
            if open_choices < choice_ptr[at + 1] - choice_ptr[at]:
                count[REFUSALS] += 1
            played = best
            if draw[0] < max(least, 1.0 - count[CLOCK] / decay):
                skip = int(draw[1] * open_choices)
                for choice in range(choice_ptr[at], choice_ptr[at + 1]):
                    if allowed[layer, choice]:
                        if skip == 0:
                            played = choice
                            break
                        skip -= 1
            outcome = outcome_ptr[played]
            while cumulative[outcome] <= draw[2]:
                outcome += 1
            new = seen[outcome] == 0
            seen[outcome] += 1
            count[CLOCK] += 1
            after = successor[outcome]
            cost = int(damage[outcome])
            left[lane] -= cost
            gained[lane] += reward[outcome]
            hurt[lane] += cost
            taken[lane] += 1
            signal = reward[outcome]
            if left[lane] < 0 and penalty > 0.0:
                signal = -penalty
            target, dose = signal, float(cost)
            ended = is_terminal[after]
            if not ended:
                below = 0 if layers == 1 else (left[lane] if left[lane] >= 0 else layers - 1)
                follow, follow_score = -1, -math.inf
                for choice in range(choice_ptr[after], choice_ptr[after + 1]):
                    if allowed[below, choice]:
                        score = value[below, choice] - price[0] * harm[below, choice]
                        if score > follow_score:
                            follow, follow_score = choice, score
                if follow >= 0:
                    target += value[below, follow]
                    dose += harm[below, follow]
            step = rate[min(tries[layer, played], rate.size - 1)]
            tries[layer, played] += 1
            value[layer, played] += step * (target - value[layer, played])
            harm[layer, played] += step * (dose - harm[layer, played])
            state[lane] = after
            finished = ended or taken[lane] >= horizon
        if finished:
            episode = count[EPISODES]
            ends[episode], returns[episode], damages[episode] = count[CLOCK], gained[lane], hurt[lane]
            count[EPISODES] += 1
            if price_rate > 0.0:
                price[0] = max(0.0, price[0] + price_rate * (hurt[lane] - total))
            start = 0
            while initial_cumulative[start] <= draw[3]:
                start += 1
            state[lane], left[lane], taken[lane], gained[lane], hurt[lane] = initial[start], total, 0, 0.0, 0
        if new and watching:
            break
    count[DRAWN] = slot
