"""Many copies of one model, stepped together in NumPy.

Every lane plays episodes of its own: from the model's start, with the whole budget, until a terminal state, or until
the regime ends it, or until ``max_steps`` have passed (which truncates it: the model goes on, the lane does not).
Lanes start anew at once.  An action that the regime's mask does not have is an error, whoever chose it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from almostsure.errors import NoSafeAction, UnknownName
from almostsure.gym.deep.features import Features, Rows
from almostsure.gym.deep.regimes import Regime
from almostsure.gym.model_env import Draws
from almostsure.learn.ledger import Episode, Ledger
from almostsure.model.mdp import MDP, Bools, Floats, Ints


class Step(NamedTuple):
    """What one step of all lanes gave.  Lanes that ended have started anew; ``last`` is where they ended."""

    rewards: Floats  # as the regime pays them
    damages: Ints
    ended: Bools
    truncated: Bools
    last: Rows  # [number of lanes that ended, width]


@dataclass(slots=True)
class Record:
    """The episodes that have ended: what they truly returned and took."""

    ends: list[int]  # the number of steps, of all lanes together, after which each episode ended
    returns: list[float]
    damages: list[int]
    lengths: list[int]


@final
class Lanes:
    """Copies of a model under a regime.

    Parameters
    ----------
    mdp, budget
        The model, and the budget with which every episode starts.
    regime
        What may be played, what is paid and what ends an episode.
    features
        What an agent sees.
    count
        How many copies.
    max_steps
        Episodes are truncated after so many.
    """

    def __init__(
        self, mdp: MDP, budget: int, regime: Regime, features: Features, *, count: int, max_steps: int
    ) -> None:
        self.mdp, self.budget, self.regime, self.features = mdp, budget, regime, features
        self.count, self.max_steps = count, max_steps
        self.record = Record([], [], [], [])
        self.steps = self.refusals = 0
        self.ledger: Ledger | None = None  # in which episodes are noted as they end, if somebody wants that
        self._numbers = np.zeros(count, np.int64)
        self._draws = Draws(mdp)
        self._everyone = np.ones(count, np.bool_)
        self._available = np.diff(mdp.choice_ptr)
        self.seed(None)

    def seed(self, seed: int | None) -> None:
        """Seed the chance in all lanes, and start them anew."""
        self._rng = np.random.default_rng(seed)
        self.states = np.zeros(self.count, np.int64)
        self.remaining = np.zeros(self.count, np.int64)
        self._returns, self._lengths = np.zeros(self.count), np.zeros(self.count, np.int64)
        self._restart(np.arange(self.count))

    def _restart(self, lanes: Ints) -> None:
        self.states[lanes] = self._draws.start(lanes.size, self._rng)
        self.remaining[lanes] = self.budget
        self._returns[lanes], self._lengths[lanes] = 0.0, 0
        self._mask: Bools | None = None

    def observe(self) -> Rows:
        """What an agent sees in every lane, [count, width]."""
        return self.features(self.states, self.remaining)

    def mask(self) -> Bools:
        """What may be played in every lane, [count, num_actions]; no row is empty."""
        if self._mask is None:
            self._mask = self.regime.mask(self.states, self.remaining)
        return self._mask

    def step(self, actions: Ints) -> Step:
        """Play one action in every lane."""
        self._check(actions)
        self.refusals += int((self.mask().sum(axis=1) < self._available[self.states]).sum())
        damages, rewards, ended = self._play(actions)
        paid = self.regime.pay(rewards, damages, self.remaining)
        if self.regime.ends_overspent:
            ended |= self.remaining < 0
        truncated = ~ended & (self._lengths >= self.max_steps)
        over = ended | truncated
        lanes = np.flatnonzero(over)
        last = self.features(self.states[lanes], self.remaining[lanes])
        self._keep(lanes)
        if self.ledger is not None:
            self._note(self.ledger, lanes, truncated)
        self._restart(lanes)
        return Step(paid, damages, over, truncated, last)

    def finish(self) -> None:
        """Keep the episodes that the end of training cuts, if they have overspent: that is known already."""
        lanes = np.flatnonzero(self.remaining < 0)
        self._keep(lanes)
        self._restart(lanes)

    def _play(self, actions: Ints) -> tuple[Ints, Floats, Bools]:
        self.states, rewards, damages = self._draws.step(self.states, actions, self._everyone, self._rng)
        self.remaining -= damages
        self._returns += rewards
        self._lengths += 1
        self.steps += self.count
        self._mask = None
        return damages, rewards, self._draws.is_terminal[self.states]

    def _check(self, actions: Ints) -> None:
        """Refuse actions unless the mask has them."""
        if actions.shape != (self.count,) or not ((actions >= 0) & (actions < self.mdp.num_actions)).all():
            raise UnknownName("action", actions, (), f"Give {self.count} actions 0 … {self.mdp.num_actions - 1}.")
        forbidden = ~self.mask()[np.arange(self.count), actions]
        if forbidden.any():
            lane = int(np.argmax(forbidden))
            state, left = int(self.states[lane]), int(self.remaining[lane])
            raise NoSafeAction(
                f"action {self.mdp.action_name(int(actions[lane]))!r} was played at {self.mdp.describe_state(state)} "
                f"with {left} left, where it is masked out. Give the agent the masks: action_masks().",
                state=state, remaining=left,
            )  # fmt: skip

    def _keep(self, lanes: Ints) -> None:
        self.record.ends += [self.steps] * lanes.size
        self.record.returns += self._returns[lanes].tolist()
        self.record.damages += (self.budget - self.remaining[lanes]).tolist()
        self.record.lengths += self._lengths[lanes].tolist()

    def _note(self, ledger: Ledger, lanes: Ints, truncated: Bools) -> None:
        self._numbers[lanes] += 1
        for lane in lanes.tolist():
            ledger.steps += int(self._lengths[lane])
            ledger.note(
                Episode(
                    int(self._numbers[lane]), steps=int(self._lengths[lane]), reward=float(self._returns[lane]),
                    damage=self.budget - int(self.remaining[lane]), budget=self.budget, interventions=0,
                    ended="truncated" if truncated[lane] else "terminated", environment=lane,
                )
            )  # fmt: skip
