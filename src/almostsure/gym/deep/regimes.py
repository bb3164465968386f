"""What may be played, what is paid, and what ends an episode: all that tells our agents and their rivals apart.

Six regimes on the same model, with the same network, sampler and optimiser:

===================  =======================================  ========================  ==========================
regime               mask                                     reward                    ends also
===================  =======================================  ========================  ==========================
``Shielded``         what k* allows (Theorem 1)               r                         never
``OneStep``          what cannot overspend in the next step   r                         never
``EarlyEnd``         none                                     r; penalty on overspend   once overspent
``Saute``            none                                     r; penalty while          never
                                                              overspent, instead of r
``Lagrangian``       none                                     (r − λd) / (1 + λ)        never
``Unconstrained``    none                                     r                         never
===================  =======================================  ========================  ==========================

"None" still masks actions that a state does not have.  Where the one-step rule has nothing left to allow, it allows
everything: an agent must do something, and that is where it fails.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.shield.shield import Shield


class Regime(Protocol):
    """The rules of training; remaining budgets are those after the step, negative once overspent."""

    sees_remaining: bool  # whether the agent is shown what remains
    overspent: int | None  # which remaining budget the agent believes it has once overspent; None: that never happens

    def needs(self) -> Ints:
        """The least remaining budget with which the agent may be in each state, [num_states]."""
        ...

    def refuses(self, states: Ints, mask: Bools) -> int:
        """In how many of the states the mask leaves out an action that they have."""
        ...

    def mask(self, states: Ints, remaining: Ints) -> Bools:
        """What may be played, [n, num_actions]; no row is empty."""
        ...

    def reward(self, rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
        """What the agent is paid."""
        ...

    def ends(self, remaining: Ints) -> Bools:
        """Which episodes end here, terminal state or not."""
        ...

    def learn(self, damages: list[int]) -> None:
        """Called after each rollout with the damages of the episodes that ended in it."""
        ...


class Unconstrained:
    """Every action that a state has, and the reward as it is: ordinary PPO."""

    sees_remaining = False
    overspent: int | None = -1

    def __init__(self, mdp: MDP, total: int) -> None:
        self.mdp, self.total = mdp, total
        self._available = np.zeros((mdp.num_states, mdp.num_actions), np.bool_)
        self._available[mdp.choice_states(), mdp.choice_action] = True
        self._count = np.diff(mdp.choice_ptr)

    def needs(self) -> Ints:
        """Nothing is asked for."""
        return np.zeros(self.mdp.num_states, np.int64)

    def refuses(self, states: Ints, mask: Bools) -> int:
        """In how many of the states the mask leaves out an action that they have."""
        return int((mask.sum(axis=1) < self._count[states]).sum())

    def mask(self, states: Ints, remaining: Ints) -> Bools:
        """The actions that the states have."""
        available: Bools = self._available[states]
        return available

    def reward(self, rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
        """The model's reward."""
        return rewards

    def ends(self, remaining: Ints) -> Bools:
        """Nothing but the model ends an episode."""
        return np.zeros(remaining.shape, np.bool_)

    def learn(self, damages: list[int]) -> None:
        """Nothing to learn."""


class Shielded(Unconstrained):
    """What the shield allows, and nothing else."""

    sees_remaining = True
    overspent: int | None = None

    def __init__(self, mdp: MDP, total: int, shield: Shield) -> None:
        super().__init__(mdp, total)
        self.shield = shield

    def needs(self) -> Ints:
        """What the shield says."""
        return self.shield.budget.of_state

    def mask(self, states: Ints, remaining: Ints) -> Bools:
        """What keeps the remaining budget."""
        return self.shield.mask(states, remaining)


class OneStep(Unconstrained):
    """What cannot overspend in the very next step."""

    sees_remaining = True

    def __init__(self, mdp: MDP, total: int) -> None:
        super().__init__(mdp, total)
        most = np.maximum.reduceat(mdp.damage, mdp.outcome_ptr[:-1].astype(np.int64)).astype(np.int64)
        self._most = np.full((mdp.num_states, mdp.num_actions), np.iinfo(np.int64).max)
        self._most[mdp.choice_states(), mdp.choice_action] = most

    def mask(self, states: Ints, remaining: Ints) -> Bools:
        """What cannot take more than what remains at once; everything where there is no such action."""
        allowed: Bools = self._most[states] <= remaining[:, None]
        stuck = ~allowed.any(axis=1)
        allowed[stuck] = self._available[states[stuck]]
        return allowed


class EarlyEnd(Unconstrained):
    """The episode ends, with a penalty, once the budget is overspent."""

    sees_remaining = True
    overspent: int | None = 0  # no training episode has ever gone on after that

    def __init__(self, mdp: MDP, total: int, penalty: float) -> None:
        super().__init__(mdp, total)
        self.penalty = penalty

    def reward(self, rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
        """The model's reward, less the penalty where the budget is overspent."""
        return np.where(remaining < 0, rewards - self.penalty, rewards)

    def ends(self, remaining: Ints) -> Bools:
        """Once overspent."""
        over: Bools = remaining < 0
        return over


class Saute(Unconstrained):
    """While the budget is overspent, a penalty is paid instead of the reward (Sootla et al., 2022)."""

    sees_remaining = True

    def __init__(self, mdp: MDP, total: int, penalty: float) -> None:
        super().__init__(mdp, total)
        self.penalty = penalty

    def reward(self, rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
        """The model's reward while the budget lasts."""
        return np.where(remaining < 0, -self.penalty, rewards)


class Lagrangian(Unconstrained):
    """Damage has a price λ, raised after each rollout in which episodes took more than the total on average."""

    def __init__(self, mdp: MDP, total: int, rate: float) -> None:
        super().__init__(mdp, total)
        self.rate, self.price = rate, 0.0

    def reward(self, rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
        """The reward less the price of the damage; scaled, so that a high price does not swamp the critic."""
        paid: Floats = (rewards - self.price * damages) / (1.0 + self.price)
        return paid

    def learn(self, damages: list[int]) -> None:
        """One step of gradient ascent on λ."""
        if damages:
            self.price = max(0.0, self.price + self.rate * (float(np.mean(damages)) - self.total))
