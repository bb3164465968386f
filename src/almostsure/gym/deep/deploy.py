"""A network as a table: what it plays in every state with everything that may remain.

The network is asked about all pairs of a finite model, with the masks on.  What comes out is a
:class:`almostsure.Policy`, and all that can be said about those exactly can be said about it: the return, the
distribution of the damage, and that it never overspends, by Theorem 1 rather than by trying.
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

CHUNK = 1 << 14  # pairs that the network is asked about at once

Observe = Callable[[Ints, Ints], Any]  # states and what remains → a batch of observations
Mask = Callable[[Ints, Ints], Bools]  # states and what remains → what may be played, [n, num_actions]


def table(ppo: Any, mdp: MDP, observe: Observe, mask: Mask, *, states: Ints, remaining: int) -> Floats:
    """The probability of each choice with ``remaining`` left, [num_choices]; zero in states that are not listed."""
    spread = np.zeros((mdp.num_states, mdp.num_actions))
    for begin in range(0, states.size, CHUNK):
        part = states[begin : begin + CHUNK]
        left = np.full(part.size, remaining, np.int64)
        spread[part] = distribution(ppo, observe(part, left), mask(part, left))
    result: Floats = spread[mdp.choice_states(), mdp.choice_action]
    return result


def layers(ppo: Any, mdp: MDP, observe: Observe, mask: Mask, *, needs: Ints | int, budget: int) -> list[Floats]:
    """A row for each of 0 … budget left, of the states in which that is enough and an episode is not over."""
    goes_on = ~mdp.is_terminal()  # an environment need not have an observation for its end
    return [
        table(ppo, mdp, observe, mask, states=np.flatnonzero(goes_on & (needs <= left)), remaining=left)
        for left in range(budget + 1)
    ]


def distribution(ppo: Any, observations: Any, mask: Bools) -> Floats:
    """What the network plays, [n, num_actions]: nothing that is masked, and the rest adds up to 1."""
    ppo.policy.set_training_mode(False)
    with torch.no_grad(), _on_cpu(ppo.policy):
        tensors, _ = ppo.policy.obs_to_tensor(observations)
        raw = ppo.policy.get_distribution(tensors, mask).distribution.probs
    shares: Floats = raw.numpy().astype(np.float64) * mask
    sums = shares.sum(axis=1, keepdims=True)
    if not (np.isfinite(sums) & (sums > 0)).all():
        raise PolicyError("the network's output is not a distribution over the allowed actions: training has diverged")
    shares /= sums
    return shares


@contextmanager
def _on_cpu(network: Any) -> Iterator[None]:
    """GPUs round differently: what an agent plays must not depend on where it is looked at."""
    device = network.device
    network.to("cpu")
    try:
        yield
    finally:
        network.to(device)


def as_table(mdp: MDP, rows: list[Floats], budget: int | None, *, deterministic: bool | None) -> Policy:
    """The policy of one row per layer: sampled, greedy, or (None) whichever of the two returns more, exactly."""
    require(8 * 4 * len(rows) * mdp.num_choices, "the table of a network", "Use a smaller budget.")
    probability = np.stack(rows)
    likeliest = greedy(mdp, np.where(probability > 0, probability, -np.inf), np.zeros(probability.shape, np.bool_))
    sampled, sure = (Policy(mdp, probability=x, budget=budget) for x in (probability, likeliest))
    if deterministic is None:
        return max(sure, sampled, key=lambda policy: _returns(mdp, policy))
    return sure if deterministic else sampled


def _returns(mdp: MDP, policy: Policy) -> float:
    try:
        value = evaluate(mdp, policy).expected_return
    except AlmostSureError:
        return -math.inf
    return -math.inf if math.isnan(value) else value
