"""``Playground``: what learners play in, a model or a sampler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from almostsure.errors import AlmostSureError
from almostsure.learn.learners.steps import World
from almostsure.learn.sampling.samplers import CheckedSampler, as_sampler
from almostsure.model.arrays import Bools, Floats, Ints, spans
from almostsure.model.mdp import MDP
from almostsure.policy.simulation.streams import running_sums


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Playground:
    """A model, or a sampler with its states and actions."""

    mdp: MDP  # the model; for a sampler, one with its states and actions, in which every choice does nothing
    source: CheckedSampler | None  # None: there is a model
    is_terminal: Bools  # [num_states]
    rewards: tuple[float, float]  # the least and the largest; for a sampler, of some samples
    counted_as: Ints | None = None  # [num_outcomes], equal for outcomes that share a counter

    @property
    def model(self) -> MDP | None:
        """The model, if there is one."""
        return self.mdp if self.source is None else None


def playground(world: Any) -> Playground:
    """The playground of a model, a sampler, or what names or makes one."""
    source = as_sampler(world)
    mdp = source.model
    if mdp is not None:
        extremes = float(mdp.reward.min()), float(mdp.reward.max())
        return Playground(mdp=mdp, source=None, is_terminal=mdp.is_terminal(), rewards=extremes)
    counts = source.new_counts(None)
    ends: Bools = np.arange(source.space.num_states) == (-1 if source.space.end is None else source.space.end)
    ends[list(getattr(source.sampler, "terminal", ()))] = True
    return Playground(mdp=counts.to_mdp("allow"), source=source, is_terminal=ends, rewards=_extremes(source, ends))


def _extremes(source: CheckedSampler, ends: Bools) -> tuple[float, float]:
    """The least and the largest reward of one sample of each choice.

    A sampler may fail for states that cannot be reached, as an encoding may have them.  Then only states that samples
    from the starts reach are used.
    """
    space, rng = source.space, np.random.default_rng(0)
    try:
        _, rewards, _ = source.draw(spans(space.choice_ptr, np.flatnonzero(~ends))[0], rng)
    except AlmostSureError:
        rewards = _reachable_rewards(source, ends, rng)
    return (float(rewards.min()), float(rewards.max())) if rewards.size else (0.0, 0.0)


def _reachable_rewards(source: CheckedSampler, ends: Bools, rng: np.random.Generator) -> Floats:
    """Rewards of one sample of each choice, in the states that such samples reach from the starts."""
    space, seen, found = source.space, ends.copy(), [np.zeros(0)]
    frontier = space.initial_states[~seen[space.initial_states]]
    while frontier.size:
        seen[frontier] = True
        successors, rewards, _ = source.draw(spans(space.choice_ptr, frontier)[0], rng)
        found.append(rewards)
        frontier = np.unique(successors[~seen[successors]])
    return np.concatenate(found)


def world_of(ground: Playground) -> World:
    """The arrays that the steps read; for a sampler, outcomes are filled in at each step."""
    mdp = ground.mdp
    outcome_ptr, starts = mdp.outcome_ptr.astype(np.int64), np.array([0, mdp.initial_states.size])
    return World(
        choice_ptr=mdp.choice_ptr.astype(np.int64),
        outcome_ptr=outcome_ptr,
        successor=mdp.successor.astype(np.int64),
        cumulative=running_sums(mdp.probability, outcome_ptr),
        reward=mdp.reward.astype(np.float64),
        damage=mdp.damage.astype(np.int64),
        is_terminal=ground.is_terminal,
        initial=mdp.initial_states.astype(np.int64),
        initial_cumulative=running_sums(mdp.initial_probabilities, starts),
        counted_as=np.arange(mdp.num_outcomes) if ground.counted_as is None else ground.counted_as,
    )
