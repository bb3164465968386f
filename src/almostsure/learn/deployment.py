"""The performance of a deployed policy: exact if there is a model, else estimated with confidence intervals.

Without discount, a policy that may stay for ever where every step has a negative reward has the return −∞, however
unlikely that is.  This is right but says little, and learners truncate their episodes.  So an infinite return is
replaced by that of an episode of at most ``MAX_STEPS`` steps (also exact: one sparse product per step), and ``ends`` is
the probability that an episode ends.

Without a model ``EPISODES`` episodes are played.  The mean return has Student's interval, and the probability of
overspending the exact one of Clopper and Pearson.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from almostsure.learn.learners.world import Playground
from almostsure.learn.sampling.samplers import CheckedSampler
from almostsure.model.arrays import Floats, Ints, spans
from almostsure.model.mdp import MDP
from almostsure.policy.evaluation.evaluate import evaluate
from almostsure.policy.policy import Policy

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_STEPS = 1_000
EPISODES = 1_000  # episodes that are played if there is no model
LEVEL = 0.95  # the confidence of the intervals


class Deployment(NamedTuple):
    """The performance of a deployed policy."""

    reward: float  # expected return
    damage: float  # expected damage
    ends: float  # the probability that an episode ends
    overspends: float  # the probability of overspending
    reward_margin: float = 0.0  # half the width of the interval of the mean return; 0 if it is exact
    overspends_upper: float = 0.0  # the upper end of the interval of the probability of overspending


def deployment(ground: Playground, policy: Policy, budget: int, *, seed: int = 0) -> Deployment:
    """Evaluate a policy that was learned on a playground."""
    if ground.source is not None:
        return sampled(ground, ground.source, policy, budget, seed=seed)
    mdp = policy.mdp  # the playground's model, or the restricted model of a risk shield of it
    exact = evaluate(mdp, policy, budget=budget)
    reward, damage = exact.expected_return, exact.expected_damage
    if math.isinf(reward) or math.isinf(damage):
        truncated = truncated_sums(mdp, policy, budget, MAX_STEPS)
        reward = truncated[0] if math.isinf(reward) else reward
        damage = truncated[1] if math.isinf(damage) else damage
    return Deployment(reward, damage, exact.ends, exact.overspends, overspends_upper=exact.overspends)


# ---------------------------------------------------------------------- sampled


def sampled(ground: Playground, source: CheckedSampler, policy: Policy, budget: int, *, seed: int) -> Deployment:
    """Evaluate a policy by playing it, on a playground without a model."""
    from scipy.special import betaincinv

    mdp, rng = ground.mdp, np.random.default_rng([seed, 1])
    state = rng.choice(mdp.initial_states.astype(np.int64), size=EPISODES, p=mdp.initial_probabilities)
    reward, damage = np.zeros(EPISODES), np.zeros(EPISODES, np.int64)
    running = ~ground.is_terminal[state]
    for _ in range(MAX_STEPS):
        at = np.flatnonzero(running)
        if not at.size:
            break
        choices = _played(mdp, policy, state[at], budget - damage[at], rng)
        state[at], gained, lost = source.draw(choices, rng)
        reward[at] += gained
        damage[at] += lost
        running[at] = ~ground.is_terminal[state[at]]
    over = int(np.count_nonzero(damage > budget))
    mean, margin = (float(number[0]) for number in mean_and_margin(reward[:, None]))
    upper = 1.0 if over == EPISODES else float(betaincinv(over + 1, EPISODES - over, 0.5 + LEVEL / 2))
    ended = 1 - np.count_nonzero(running) / EPISODES
    return Deployment(mean, float(damage.mean()), float(ended), over / EPISODES, margin, upper)


def mean_and_margin(values: Floats) -> tuple[Floats, Floats]:
    """Means over the rows, and the half-widths of their Student confidence intervals; NaN if there is one row."""
    from scipy.special import stdtrit

    number = values.shape[0]
    with np.errstate(invalid="ignore"):
        mean = values.mean(axis=0)
        if number < 2:
            return mean, np.full(mean.shape, math.nan)
        spread = values.std(axis=0, ddof=1)
    margin: Floats = stdtrit(number - 1, 0.5 + LEVEL / 2) * spread / math.sqrt(number)
    return mean, margin


def _played(mdp: MDP, policy: Policy, states: Ints, remaining: Ints, rng: np.random.Generator) -> Ints:
    """One choice of each state, drawn from the policy."""
    layers = _layers(policy, remaining, silent=0)
    result = np.zeros(states.size, np.int64)
    for layer in np.unique(layers).tolist():
        here = np.flatnonzero(layers == layer)
        sums = np.cumsum(policy.weights(layer))
        first, last = mdp.choice_ptr[states[here]], mdp.choice_ptr[states[here] + 1]
        before = np.where(first > 0, sums[first - 1], 0.0)
        draw = before + rng.random(here.size) * (sums[last - 1] - before)
        result[here] = np.clip(np.searchsorted(sums, draw, side="right"), first, last - 1)
    return result


def _layers(policy: Policy, remaining: Ints, *, silent: int) -> Ints:
    """The layer of a policy for each remaining budget; ``silent`` for overspent ones if it has no layer for these."""
    if policy.budget is None:
        return np.zeros_like(remaining)
    overspent = policy.budget + 1 if policy.knows_overspent else silent
    return np.where(remaining >= 0, np.minimum(remaining, policy.budget), overspent)


# ---------------------------------------------------------------------- truncated


def truncated_sums(mdp: MDP, policy: Policy, budget: int, max_steps: int) -> tuple[float, float]:
    """Expected return and damage of an episode of at most ``max_steps`` steps that starts with ``budget``."""
    matrix, gains = _chain(mdp, policy)
    values = np.zeros_like(gains)
    for _ in range(max_steps):
        values = gains + matrix @ values
    start = _layers(policy, np.array(budget), silent=-1) * mdp.num_states + mdp.initial_states.astype(np.int64)
    reward, damage = mdp.initial_probabilities @ values[start]
    return float(reward), float(damage)


def _chain(mdp: MDP, policy: Policy) -> tuple[csr_array[Any], Floats]:
    """The Markov chain on pairs (layer, state), and the expected reward and damage of a step from each of them."""
    from scipy.sparse import csr_array

    size = policy.num_layers * mdp.num_states
    weights = np.stack([policy.weights(layer) for layer in range(policy.num_layers)])
    layer, choice = np.nonzero(weights)
    outcome, of = spans(mdp.outcome_ptr, choice)
    layer, state, damage = layer[of], mdp.choice_states()[choice[of]].astype(np.int64), mdp.damage[outcome]
    share = weights[layer, choice[of]] * mdp.probability[outcome]
    if policy.rest is not None:
        share *= 1.0 - policy.rest.probability[layer, state]
    remaining = layer if policy.budget is None else np.where(layer <= policy.budget, layer, -1)
    row = layer * mdp.num_states + state
    column = _layers(policy, remaining - damage, silent=-1) * mdp.num_states + mdp.successor[outcome]
    gains = [np.bincount(row, share * values, minlength=size) for values in (mdp.reward[outcome], damage)]
    kept = column >= 0
    return csr_array((share[kept], (row[kept], column[kept])), shape=(size, size)), np.stack(gains, axis=1)
