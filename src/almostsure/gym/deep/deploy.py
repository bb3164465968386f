"""Converts a network to a tabular policy on (state, remaining).

The network is evaluated on all pairs of a finite model, with masks.  The result is a :class:`almostsure.Policy`, which
can be evaluated exactly: its return, the distribution of its damage, and that it never overspends, by Theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from almostsure.errors import AlmostSureError, PolicyError
from almostsure.learn.learners.session import greedy
from almostsure.memory import require
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.policy.evaluation.evaluate import evaluate
from almostsure.policy.policy import Policy

CHUNK = 1 << 14  # pairs per batch

Observe = Callable[[Ints, Ints], Any]  # states and remaining budgets → a batch of observations
Mask = Callable[[Ints, Ints], Bools]  # states and remaining budgets → allowed actions, [n, num_actions]


def table(ppo: Any, mdp: MDP, observe: Observe, mask: Mask, *, states: Ints, remaining: int) -> Floats:
    """The probability of each choice with ``remaining`` left, [num_choices]; zero in states that are not listed."""
    probability = np.zeros((mdp.num_states, mdp.num_actions))
    for begin in range(0, states.size, CHUNK):
        part = states[begin : begin + CHUNK]
        left = np.full(part.size, remaining, np.int64)
        probability[part] = distribution(ppo, observe(part, left), mask(part, left))
    result: Floats = probability[mdp.choice_states(), mdp.choice_action]
    return result


def layers(ppo: Any, mdp: MDP, observe: Observe, mask: Mask, *, needs: Ints | int, budget: int) -> list[Floats]:
    """One row for each remaining budget 0 … ``budget``, with the nonterminal states in which it suffices."""
    continues = ~mdp.is_terminal()  # an environment may have no observation for a terminal state
    return [
        table(ppo, mdp, observe, mask, states=np.flatnonzero(continues & (needs <= left)), remaining=left)
        for left in range(budget + 1)
    ]


def distribution(ppo: Any, observations: Any, mask: Bools) -> Floats:
    """The network's action probabilities, [n, num_actions]: 0 for masked actions, and normalised to sum 1."""
    ppo.policy.set_training_mode(False)
    with torch.no_grad(), _on_cpu(ppo.policy):
        tensors, _ = ppo.policy.obs_to_tensor(observations)
        raw = ppo.policy.get_distribution(tensors, mask).distribution.probs
    probability: Floats = raw.numpy().astype(np.float64) * mask
    sums = probability.sum(axis=1, keepdims=True)
    if not (np.isfinite(sums) & (sums > 0)).all():
        raise PolicyError("the network's output is not a distribution over the allowed actions: training has diverged")
    probability /= sums
    return probability


@contextmanager
def _on_cpu(network: Any) -> Iterator[None]:
    """Move a network to the CPU for a while: GPUs round differently, and policies must not depend on the device."""
    device = network.device
    network.to("cpu")
    try:
        yield
    finally:
        network.to(device)


def as_table(mdp: MDP, rows: list[Floats], budget: int | None, *, deterministic: bool | None) -> Policy:
    """The policy with one row per layer: sampled, greedy, or (None) the one with the larger exact return."""
    require(8 * 4 * len(rows) * mdp.num_choices, "the table of a network", "Use a smaller budget.")
    probability = np.stack(rows)
    largest = greedy(mdp, np.where(probability > 0, probability, -np.inf), np.zeros(probability.shape, np.bool_))
    sampled, determined = (Policy(mdp, probability=x, budget=budget) for x in (probability, largest))
    if deterministic is None:
        return max(determined, sampled, key=lambda policy: _expected_return(mdp, policy))
    return determined if deterministic else sampled


def _expected_return(mdp: MDP, policy: Policy) -> float:
    """The exact expected return; −∞ if it has none."""
    try:
        value = evaluate(mdp, policy).expected_return
    except AlmostSureError:
        return -math.inf
    return -math.inf if math.isnan(value) else value
