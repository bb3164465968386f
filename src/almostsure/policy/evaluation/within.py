"""Evaluates a policy for a horizon by following its probability mass step by step.

Mass is a sum of products of positive numbers, so its relative error grows by a few roundings per step, and by one per
term that is added to an entry; the sum of these bounds it.  Expected values are sums of mass times reward, exact
(``math.fsum``) apart from that error.  A pair (damage so far, state) is a number, ``damage · num_states + state``;
damages from ``LEVELS`` on, if that is above the budget, share a level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from almostsure.model.arrays import spans
from almostsure.model.mdp import Floats, Ints
from almostsure.policy import read
from almostsure.policy.evaluation.chain import played
from almostsure.policy.policy import Policy

LEVELS = 1_000  # damages that are distinguished, and all up to the budget
EPSILON = 2.0**-52


class Moved(NamedTuple):
    """One step of all mass."""

    spent: Ints  # [n], the damage before the step
    outcome: Ints  # [n], of the model
    mass: Floats  # [n]
    loss: float  # bound on the relative error of the mass


class Left(NamedTuple):
    """Mass that no longer moves: in terminal states, after the last step, or overspent without a layer for that."""

    spent: Ints  # [n]
    mass: Floats  # [n]
    ended: bool  # whether it is in a terminal state
    loss: float


def evaluate_within(policy: Policy, budget: int | None, discount: float) -> dict[str, Any]:
    """The fields of an :class:`almostsure.policy.evaluation.evaluate.Evaluation`."""
    mdp, top = policy.mdp, _levels(policy, budget)
    sums: dict[str, list[float]] = {name: [] for name in ("gain", "size", "damage", "discounted", "steps", "ends")}
    distribution, loss, step, undefined = np.zeros(top + 1), 0.0, -1, False
    for part in follow(policy, budget):
        loss = part.loss
        if isinstance(part, Left):
            np.add.at(distribution, part.spent, part.mass)
            sums["ends"] += [math.fsum(part.mass)] if part.ended else []
            continue
        step += 1
        reward, damage = mdp.reward[part.outcome], mdp.damage[part.outcome].astype(np.float64)
        undefined = undefined or _is_undefined(policy, budget, part.spent + mdp.damage[part.outcome])
        for name, values in (("gain", reward), ("size", np.abs(reward)), ("discounted", damage)):
            sums[name].append(discount**step * math.fsum(part.mass * values))
        sums["damage"].append(math.fsum(part.mass * damage))
        sums["steps"].append(math.fsum(part.mass))
    total = {name: math.fsum(values) for name, values in sums.items()}
    lost = loss + 4 * EPSILON
    error = lost * (total["size"] + max(map(abs, (total["gain"], total["damage"], total["steps"], 1.0))))
    nan = math.nan if undefined else 0.0
    beyond = float(distribution[top])
    return {
        "expected_return": total["gain"] + nan, "expected_damage": total["damage"] + nan,
        "discounted_damage": total["discounted"] + nan, "expected_length": total["steps"] + nan,
        "ends": min(total["ends"], 1.0) + nan, "damage_distribution": np.minimum(distribution[:top], 1.0),
        "beyond": beyond, "endless": 0.0 + nan, "budget": budget, "discount": discount,
        "lower": total["gain"] - 1.01 * lost * total["size"] + nan,
        "upper": total["gain"] + 1.01 * lost * total["size"] + nan, "accuracy": error,
    }  # fmt: skip


def worst_within(policy: Policy, budget: int | None) -> float:
    """The largest damage of a trajectory of the policy within its horizon."""
    mdp, worst = policy.mdp, 0
    for part in follow(policy, budget, levels=None):
        if isinstance(part, Moved) and part.outcome.size:
            after = part.spent + mdp.damage[part.outcome]
            if _is_undefined(policy, budget, after):
                where = int(mdp.successor[part.outcome[int(np.argmax(after))]])
                raise read.overspends(mdp, where)
            worst = max(worst, int(after.max()))
    return float(worst)


def follow(policy: Policy, budget: int | None, *, levels: int | None = LEVELS) -> Iterator[Moved | Left]:
    """All steps of the mass that begins in the initial states, and the mass that stops moving before or after each."""
    mdp, is_terminal = policy.mdp, policy.mdp.is_terminal()
    top = None if levels is None else _levels(policy, budget)
    pair: Ints = mdp.initial_states.astype(np.int64)
    mass: Floats = mdp.initial_probabilities / math.fsum(mdp.initial_probabilities)
    loss = 4 * EPSILON
    sums = np.add.reduceat(mdp.probability, mdp.outcome_ptr[:-1].astype(np.int64))
    added = int(np.diff(mdp.outcome_ptr).max()) + int(np.diff(mdp.choice_ptr).max())  # the most terms of divisors
    assert policy.horizon is not None
    for steps_left in range(policy.horizon, 0, -1):
        spent, state = np.divmod(pair, mdp.num_states)
        over = is_terminal[state]
        yield Left(spent[over], mass[over], True, loss)
        moved = _moved(policy, budget, steps_left, (spent[~over], state[~over], mass[~over]), sums, loss)
        yield moved
        damage = moved.spent + mdp.damage[moved.outcome]
        after = (damage if top is None else np.minimum(damage, top)) * mdp.num_states + mdp.successor[moved.outcome]
        pair, place = np.unique(after.astype(np.int64), return_inverse=True)
        mass = np.bincount(place, moved.mass, minlength=pair.size).astype(np.float64)
        loss += (16 + added + int(np.bincount(place, minlength=1).max())) * EPSILON
        if budget is not None and not policy.knows_overspent:
            gone = pair // mdp.num_states > budget
            yield Left(pair[gone] // mdp.num_states, mass[gone], False, loss)
            pair, mass = pair[~gone], mass[~gone]
        if not pair.size:
            return
    spent, state = np.divmod(pair, mdp.num_states)
    for ended in (True, False):
        at = is_terminal[state] == ended
        yield Left(spent[at], mass[at], ended, loss)


def _moved(
    policy: Policy, budget: int | None, steps_left: int, at: tuple[Ints, Ints, Floats], sums: Floats, loss: float
) -> Moved:
    """One step of the policy from some pairs."""
    mdp, (spent, state, mass) = policy.mdp, at
    left = np.zeros_like(spent) if budget is None else budget - spent
    layer: int | Ints = policy.layer(0, steps_left)
    if policy.budget is not None:
        layer = layer + np.where(left < 0, policy.budget + 1, np.minimum(left, policy.budget))
    choice, owner, share, undefined = played(policy, layer, state)
    if undefined.any():
        where = int(np.argmax(undefined))
        remaining = None if policy.budget is None else int(left[where])
        raise read.undefined(mdp, int(state[where]), remaining, read.other_budget(policy.budget, budget))
    outcome, of = spans(mdp.outcome_ptr, choice)
    share = share / np.bincount(owner, share, minlength=state.size)[owner]
    weight = (mass[owner] * share)[of] * (mdp.probability[outcome] / sums[choice][of])
    return Moved(spent[owner][of], outcome, weight, loss)


def _is_undefined(policy: Policy, budget: int | None, after: Ints) -> bool:
    """Whether any of the damages overspends, and the policy is undefined for that."""
    return budget is not None and not policy.knows_overspent and bool((after > budget).any())


def _levels(policy: Policy, budget: int | None) -> int:
    """The number of damages that are distinguished."""
    most = (policy.horizon or 0) * policy.mdp.max_damage + 1
    return min(most, max(LEVELS, (budget or 0) + 1))
