"""One block of steps of tabular Q-learning on (state, remaining), for several environments that share a table.

Short trainings call them plain (:func:`almostsure.kernels.plain`), long ones compiled.  Random numbers come in as an
array, so that both give the same result to the bit.

Environments move in turn, one step each, and each step is learned from at once: what one was taught is known to the
next, and a surprise of one stops the block before another can repeat it.

A step teaches *every* remaining budget at once: what happens does not depend on the budget, and what would be left of
each is arithmetic.

With ``replays`` this is Dyna (Sutton, 1991).  The value of a choice is then the mean of what its outcomes promise, each
as often as it was seen, and after each step some choices are valued anew, in turn, so that news spread without being
lived through again.  Outcomes may share a count (``World.same``): inside a risk shield, what happens does not depend on
the risk that is left either.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from almostsure.kernels import njit
from almostsure.policy.simulation.kernel import first_above

CLOCK, TURN, EPISODES, RESTRICTED, DRAWN, SURPRISE, WAS_LEFT, REPLAYED = range(8)  # what ``count`` holds
COUNTS = 8
EXPLORE = 0.2
DRAWS = 4  # random numbers per step: explore or not, what, the outcome, and the next start


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
    same: Any  # [num_outcomes], the place in ``Book.seen`` at which each is counted


class Book(NamedTuple):
    """What has been learned; one layer is a learner that ignores the budget, else the last is that of the overspent."""

    value: Any  # [layers, num_choices], expected return
    damage: Any  # [layers, num_choices], expected damage
    tries: Any  # [layers, num_choices]
    seen: Any  # how often each kind of outcome happened: see ``World.same``
    rate: Any  # step sizes by the number of tries
    price: Any  # [1], the multiplier on damage


class Envs(NamedTuple):
    """Where each environment stands, [num_envs]."""

    state: Any
    remaining: Any  # of the budget
    steps: Any  # of the episode
    reward: Any  # of the episode
    damage: Any  # of the episode


class Ended(NamedTuple):
    """The episodes that ended in a block."""

    at: Any  # the environment step
    reward: Any
    damage: Any


class Rules(NamedTuple):
    """What tells one learner of this family from another."""

    budget: int
    steps: int  # of training
    max_steps: int  # of an episode
    penalty: float = 0.0  # replaces the reward of a step that leaves one overspent; 0: none
    price_rate: float = 0.0  # of the multiplier on damage; 0: damage has no price
    explore: float = EXPLORE  # the share of random steps
    watching: bool = False  # whether a surprise stops a block
    discount: float = 1.0
    replays: int = 0  # choices that are valued anew after each step, from what was seen of them; 0: plain Q-learning


@njit(cache=True, nogil=True)
def learn(
    world: World, allowed: Any, book: Book, envs: Envs, rules: Rules, count: Any, draws: Any, ended: Ended
) -> None:
    """Go on until the random numbers or the steps are used up, or until something new is seen while watching.

    ``allowed`` is [layers, num_choices].
    """
    while count[DRAWN] < draws.shape[0] and count[CLOCK] < rules.steps:
        draw, turn = draws[count[DRAWN]], count[TURN]
        remaining = envs.remaining[turn]
        played = choose(world, allowed, book, envs.state[turn], remaining, rules.explore, draw, count)
        if played >= 0:
            begin, end = world.outcome_ptr[played], world.outcome_ptr[played + 1]
            outcome = first_above(world.cumulative, begin, end, draw[2])
            place = world.same[outcome]
            count[SURPRISE], count[WAS_LEFT] = (outcome if book.seen[place] == 0 else -1), remaining
            book.seen[place] += 1
            for again in range(rules.replays + 1):
                choice = turned(count, allowed.shape[1]) if again else played
                begin, end = world.outcome_ptr[choice], world.outcome_ptr[choice + 1]
                first, last = (begin, end) if rules.replays else (outcome, outcome + 1)
                teach(world, allowed, book, choice, first, last, rules)
            move(world, envs, outcome, count)
        pass_on(world, book, envs, rules, played < 0, draw[3], count, ended)
        if rules.watching and count[SURPRISE] >= 0:
            break


@njit(cache=True, nogil=True)
def choose(
    world: World, allowed: Any, book: Book, state: int, remaining: int, explore: float, draw: Any, count: Any
) -> int:
    """What to play: the best so far, or with probability ``explore`` anything allowed; −1 if nothing is."""
    first, last = world.choice_ptr[state], world.choice_ptr[state + 1]
    row = layer_of(remaining, allowed.shape[0])
    played: int = best(allowed[row], book.value[row], book.damage[row], book.price[0], first, last)
    if played >= 0:
        number = number_of(allowed[row], first, last)
        count[RESTRICTED] += number < last - first
        if draw[0] < explore:
            played = pick(allowed[row], first, last, int(draw[1] * number))
    return played


@njit(cache=True, nogil=True)
def move(world: World, envs: Envs, outcome: int, count: Any) -> None:
    """Let an outcome happen to the environment whose turn it is."""
    turn = count[TURN]
    envs.state[turn] = world.successor[outcome]
    envs.remaining[turn] -= world.damage[outcome]
    envs.reward[turn] += world.reward[outcome]
    envs.damage[turn] += world.damage[outcome]
    envs.steps[turn] += 1
    count[CLOCK] += 1


@njit(cache=True, nogil=True)
def pass_on(
    world: World, book: Book, envs: Envs, rules: Rules, is_stuck: bool, draw: float, count: Any, ended: Ended
) -> None:
    """End a turn.  Where an episode has ended, note it, set the price of damage by it, and begin another."""
    turn, episode = count[TURN], count[EPISODES]
    count[DRAWN] += 1
    count[TURN] = (turn + 1) % envs.state.size
    if not (is_stuck or world.is_terminal[envs.state[turn]] or envs.steps[turn] >= rules.max_steps):
        return
    excess = (envs.damage[turn] - rules.budget) / max(rules.budget, 1)
    book.price[0] = max(0.0, book.price[0] + rules.price_rate * max(-1.0, min(1.0, excess)))
    ended.at[episode], ended.reward[episode] = count[CLOCK], envs.reward[turn]
    ended.damage[episode] = envs.damage[turn]
    count[EPISODES] += 1
    envs.state[turn] = world.initial[first_above(world.initial_cumulative, 0, world.initial.size, draw)]
    envs.remaining[turn], envs.steps[turn], envs.reward[turn], envs.damage[turn] = rules.budget, 0, 0.0, 0


@njit(cache=True, nogil=True)
def teach(world: World, allowed: Any, book: Book, choice: int, first: int, last: int, rules: Rules) -> None:
    """Move the values of a choice towards what some outcomes say, in every layer in which it is allowed.

    Each outcome counts as often as it was seen.  One outcome moves them by the step size; with replays, all outcomes
    together set them.
    """
    layers, value, damage, tries, price = allowed.shape[0], book.value, book.damage, book.tries, book.price[0]
    times = 0
    for outcome in range(first, last):
        times += book.seen[world.same[outcome]]
    for row in range(layers if times else 0):
        if not allowed[row, choice]:
            continue
        target, loss = 0.0, 0.0
        for outcome in range(first, last):
            share = book.seen[world.same[outcome]] / times
            if share == 0.0:
                continue
            after, lost = world.successor[outcome], int(world.damage[outcome])
            remaining = row - lost if row < layers - 1 else -1
            gained, lost_later = world.reward[outcome], float(lost)
            if rules.penalty > 0.0 and remaining < 0:
                gained = -rules.penalty
            if not world.is_terminal[after]:  # truncation is not termination: only a terminal state has nothing to come
                below = layer_of(remaining, layers)
                ahead, end = world.choice_ptr[after], world.choice_ptr[after + 1]
                follow = best(allowed[below], value[below], damage[below], price, ahead, end)
                if follow >= 0:
                    gained += rules.discount * value[below, follow]
                    lost_later += damage[below, follow]
            target += share * gained
            loss += share * lost_later
        step = 1.0 if rules.replays else book.rate[min(tries[row, choice], book.rate.size - 1)]
        tries[row, choice] += 1
        value[row, choice] += step * (target - value[row, choice])
        damage[row, choice] += step * (loss - damage[row, choice])


@njit(cache=True, nogil=True)
def turned(count: Any, number: int) -> int:
    """The choice whose turn it is: forwards through all of them, then backwards."""
    at: int = count[REPLAYED]
    count[REPLAYED] = (at + 1) % (2 * number)
    return at if at < number else 2 * number - 1 - at


@njit(cache=True, nogil=True, inner=True)
def layer_of(remaining: int, layers: int) -> int:
    """The row of a remaining budget: the only one, or the last for the overspent."""
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
def number_of(allowed: Any, first: int, last: int) -> int:
    """How many choices of a range are allowed."""
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
