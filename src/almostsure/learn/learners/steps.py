"""One block of steps of tabular Q-learning on (state, remaining), for several environments that share a table.

Short trainings call them plain (:func:`almostsure.kernels.plain`), long ones compiled.  Random numbers come in as an
array, so both give the same result bit for bit.

Environments take turns, one step each.  Each step updates the values at once, and a surprise stops the block before
another environment can repeat it.

A step updates the values with *every* remaining budget: outcomes do not depend on the budget, and the remaining budget
after an outcome is known for each.

With ``replays`` this is Dyna (Sutton, 1991).  The update of a choice is then a Bellman backup over its observed
outcomes, with their relative frequencies, and after each step some more choices are updated, in turn, so values
propagate without further steps.  Outcomes may share a counter (``World.counted_as``): in the restricted model of a risk
shield, outcomes do not depend on the remaining risk either.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from almostsure.kernels import njit
from almostsure.policy.simulation.kernel import first_above

CLOCK, TURN, EPISODES, RESTRICTED, DRAWN, SURPRISE, WAS_LEFT, REPLAYED = range(8)  # indices of ``count``
COUNTS = 8
EXPLORE = 0.2
DRAWS = 4  # random numbers per step: whether to explore, the choice, the outcome, and the next start


class World(NamedTuple):
    """A model as the steps read it."""

    choice_ptr: Any  # [num_states + 1]
    outcome_ptr: Any  # [num_choices + 1]
    successor: Any  # [num_outcomes]
    cumulative: Any  # [num_outcomes]
    reward: Any  # [num_outcomes]
    damage: Any  # [num_outcomes]
    is_terminal: Any  # [num_states]
    initial: Any  # [starts]
    initial_cumulative: Any  # [starts]
    counted_as: Any  # [num_outcomes], the index in ``Tables.seen`` of each outcome's counter


class ValueTables(NamedTuple):
    """The learned values: one layer if the learner ignores the budget, else one per remaining budget and one more."""

    value: Any  # [layers, num_choices], expected return
    damage: Any  # [layers, num_choices], expected damage
    tries: Any  # [layers, num_choices]
    seen: Any  # the counters of outcomes: see ``World.counted_as``
    rate: Any  # step sizes by the number of tries
    price: Any  # [1], the multiplier on damage


class Envs(NamedTuple):
    """The state of each environment, [num_envs]."""

    state: Any
    remaining: Any  # of the budget
    steps: Any  # of the episode
    reward: Any  # of the episode
    damage: Any  # of the episode


class EndedEpisodes(NamedTuple):
    """The episodes that ended in a block."""

    at: Any  # the environment step
    reward: Any
    damage: Any


class LearnerRules(NamedTuple):
    """The parameters in which the learners differ."""

    budget: int
    steps: int  # of training
    max_steps: int  # of an episode
    penalty: float = 0.0  # its negative replaces the reward of steps after which the budget is overspent; 0: none
    price_rate: float = 0.0  # the step size of the multiplier on damage; 0: damage has no price
    explore: float = EXPLORE  # the share of random steps
    watching: bool = False  # whether a surprise stops a block
    discount: float = 1.0
    replays: int = 0  # further choices that are updated after each step, from observed outcomes; 0: plain Q-learning


@njit(cache=True, nogil=True)
def learn(
    world: World,
    allowed: Any,
    tables: ValueTables,
    envs: Envs,
    rules: LearnerRules,
    count: Any,
    draws: Any,
    ended: EndedEpisodes,
) -> None:
    """Take steps until the random numbers or the steps are used up or, while watching, until an outcome is new.

    ``allowed`` is [layers, num_choices].
    """
    while count[DRAWN] < draws.shape[0] and count[CLOCK] < rules.steps:
        draw, turn = draws[count[DRAWN]], count[TURN]
        remaining = envs.remaining[turn]
        played = choose(world, allowed, tables, envs.state[turn], remaining, rules.explore, draw, count)
        if played >= 0:
            begin, end = world.outcome_ptr[played], world.outcome_ptr[played + 1]
            outcome = first_above(world.cumulative, begin, end, draw[2])
            place = world.counted_as[outcome]
            count[SURPRISE], count[WAS_LEFT] = (outcome if tables.seen[place] == 0 else -1), remaining
            tables.seen[place] += 1
            for again in range(rules.replays + 1):
                choice = next_replay(count, allowed.shape[1]) if again else played
                begin, end = world.outcome_ptr[choice], world.outcome_ptr[choice + 1]
                first, last = (begin, end) if rules.replays else (outcome, outcome + 1)
                update(world, allowed, tables, choice, first, last, rules)
            apply_outcome(world, envs, outcome, count)
        end_turn(world, tables, envs, rules, played < 0, draw[3], count, ended)
        if rules.watching and count[SURPRISE] >= 0:
            break


@njit(cache=True, nogil=True)
def choose(
    world: World, allowed: Any, tables: ValueTables, state: int, remaining: int, explore: float, draw: Any, count: Any
) -> int:
    """The best allowed choice or, with probability ``explore``, a random allowed one; −1 if none is allowed."""
    first, last = world.choice_ptr[state], world.choice_ptr[state + 1]
    row = layer_of(remaining, allowed.shape[0])
    played: int = best(allowed[row], tables.value[row], tables.damage[row], tables.price[0], first, last)
    if played >= 0:
        number = count_allowed(allowed[row], first, last)
        count[RESTRICTED] += number < last - first
        if draw[0] < explore:
            played = pick(allowed[row], first, last, int(draw[1] * number))
    return played


@njit(cache=True, nogil=True)
def apply_outcome(world: World, envs: Envs, outcome: int, count: Any) -> None:
    """Apply an outcome to the environment whose turn it is."""
    turn = count[TURN]
    envs.state[turn] = world.successor[outcome]
    envs.remaining[turn] -= world.damage[outcome]
    envs.reward[turn] += world.reward[outcome]
    envs.damage[turn] += world.damage[outcome]
    envs.steps[turn] += 1
    count[CLOCK] += 1


@njit(cache=True, nogil=True)
def end_turn(
    world: World,
    tables: ValueTables,
    envs: Envs,
    rules: LearnerRules,
    is_stuck: bool,
    draw: float,
    count: Any,
    ended: EndedEpisodes,
) -> None:
    """End a turn.  If an episode has ended, record it, update the price of damage, and begin another."""
    turn, episode = count[TURN], count[EPISODES]
    count[DRAWN] += 1
    count[TURN] = (turn + 1) % envs.state.size
    if not (is_stuck or world.is_terminal[envs.state[turn]] or envs.steps[turn] >= rules.max_steps):
        return
    excess = (envs.damage[turn] - rules.budget) / max(rules.budget, 1)
    tables.price[0] = max(0.0, tables.price[0] + rules.price_rate * max(-1.0, min(1.0, excess)))
    ended.at[episode], ended.reward[episode] = count[CLOCK], envs.reward[turn]
    ended.damage[episode] = envs.damage[turn]
    count[EPISODES] += 1
    envs.state[turn] = world.initial[first_above(world.initial_cumulative, 0, world.initial.size, draw)]
    envs.remaining[turn], envs.steps[turn], envs.reward[turn], envs.damage[turn] = rules.budget, 0, 0.0, 0


@njit(cache=True, nogil=True)
def update(
    world: World, allowed: Any, tables: ValueTables, choice: int, first: int, last: int, rules: LearnerRules
) -> None:
    """Update the values of a choice from some outcomes, in every layer in which it is allowed.

    Outcomes are weighted by how often they were seen.  The step size is that of Q-learning for the one outcome of a
    step, and 1 with replays, which use all outcomes.
    """
    layers, value, damage, tries, price = allowed.shape[0], tables.value, tables.damage, tables.tries, tables.price[0]
    times = 0
    for outcome in range(first, last):
        times += tables.seen[world.counted_as[outcome]]
    for row in range(layers if times else 0):
        if not allowed[row, choice]:
            continue
        target, loss = 0.0, 0.0
        for outcome in range(first, last):
            share = tables.seen[world.counted_as[outcome]] / times
            if share == 0.0:
                continue
            after, lost = world.successor[outcome], int(world.damage[outcome])
            remaining = row - lost if row < layers - 1 else -1
            gained, lost_later = world.reward[outcome], float(lost)
            if rules.penalty > 0.0 and remaining < 0:
                gained = -rules.penalty
            if not world.is_terminal[after]:  # truncation is not termination: only terminal states have no future value
                below = layer_of(remaining, layers)
                ahead, end = world.choice_ptr[after], world.choice_ptr[after + 1]
                follow = best(allowed[below], value[below], damage[below], price, ahead, end)
                if follow >= 0:
                    gained += rules.discount * value[below, follow]
                    lost_later += damage[below, follow]
            target += share * gained
            loss += share * lost_later
        step = 1.0 if rules.replays else tables.rate[min(tries[row, choice], tables.rate.size - 1)]
        tries[row, choice] += 1
        value[row, choice] += step * (target - value[row, choice])
        damage[row, choice] += step * (loss - damage[row, choice])


@njit(cache=True, nogil=True)
def next_replay(count: Any, number: int) -> int:
    """The next choice to replay: forwards through all of them, then backwards."""
    at: int = count[REPLAYED]
    count[REPLAYED] = (at + 1) % (2 * number)
    return at if at < number else 2 * number - 1 - at


@njit(cache=True, nogil=True, inner=True)
def layer_of(remaining: int, layers: int) -> int:
    """The row of a remaining budget: the only one, or the last for an overspent budget."""
    if layers == 1:
        return 0
    return remaining if remaining >= 0 else layers - 1


@njit(cache=True, nogil=True)
def best(allowed: Any, value: Any, damage: Any, price: float, first: int, last: int) -> int:
    """The first allowed choice with the best score, or −1 if none is allowed."""
    found, score = -1, -math.inf
    for choice in range(first, last):
        if allowed[choice] and value[choice] - price * damage[choice] > score:
            found, score = choice, value[choice] - price * damage[choice]
    return found


@njit(cache=True, nogil=True, inner=True)
def count_allowed(allowed: Any, first: int, last: int) -> int:
    """The number of allowed choices in a range."""
    number = 0
    for choice in range(first, last):
        number += allowed[choice]
    return number


@njit(cache=True, nogil=True, inner=True)
def pick(allowed: Any, first: int, last: int, skip: int) -> int:
    """The allowed choice after ``skip`` others."""
    for choice in range(first, last):
        if allowed[choice]:
            if skip == 0:
                return choice
            skip -= 1
    return -1
