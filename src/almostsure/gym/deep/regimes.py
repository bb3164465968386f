"""What may be played, what is paid, and what ends an episode: all that tells our agents and their rivals apart.

Six regimes on the same model, with the same network, sampler and optimiser:

===================  =======================================  ========================  ==========================
regime               mask                                     reward                    ends also
===================  =======================================  ========================  ==========================
``shielded``         what k* allows (Theorem 1)               r                         never
``one_step``         what cannot overspend in the next step   r                         never
``early_end``        none                                     r; penalty on overspend   once overspent
``saute``            none                                     r; penalty while          never
                                                              overspent, instead of r
``lagrangian``       none                                     (r − λd) / (1 + λ)        never
``unconstrained``    none                                     r                         never
===================  =======================================  ========================  ==========================

"None" still masks actions that a state does not have.  Where the one-step rule has nothing left to allow, it allows
what may hurt least: an agent must do something, and that is where it fails.  That rule and the penalty of Sauté are
those of the tabular learners: see :mod:`almostsure.learn.learners.baselines`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from almostsure.learn.learners.baselines import one_step_mask
from almostsure.memory import require
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.plan.risk.inside import Risked
from almostsure.shield.shield import Shield

Mask = Callable[[Ints, Ints], Bools]  # states and what remains → what may be played, [n, num_actions], no row empty
Pay = Callable[[Floats, Ints, Ints], Floats]  # rewards, damages and what remains after them → what the agent is paid


def as_it_is(rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
    """The model's reward."""
    return rewards


def nothing(damages: list[int]) -> None:
    """Learn nothing from the damages of a rollout."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regime:
    """The rules of training.  Remaining budgets are negative once overspent."""

    mask: Mask
    needs: Ints  # [num_states], the least remaining budget with which an agent may be there
    sees_remaining: bool = True  # whether the agent is shown what remains
    overspent: int | None = -1  # what an overspent agent believes to remain; None: that never happens
    pay: Pay = as_it_is
    ends_overspent: bool = False  # whether an episode ends once overspent
    learn: Callable[[list[int]], None] = nothing  # called after each rollout with the damages of its episodes
    starts: tuple[Ints, Ints] | None = None  # where episodes may begin: states and what remains; None: wherever allowed

    def places(self, mdp: MDP, budget: int) -> tuple[Ints, Ints]:
        """Where an episode may begin: states that are not over, and what may remain there."""
        if self.starts is not None:
            return self.starts
        require((budget + 1) * mdp.num_states * 17, "all places at which an episode may begin", "Use a smaller budget.")
        left, state = np.nonzero((self.needs <= np.arange(budget + 1)[:, None]) & ~mdp.is_terminal())
        return state, left


def unconstrained(mdp: MDP) -> Regime:
    """Every action that a state has, and the reward as it is: ordinary PPO."""
    return Regime(mask=_available(mdp), needs=_nothing_needed(mdp), sees_remaining=False)


def risky(inside: Risked, risk: float) -> Regime:
    """Every action of the model inside a risk shield.  Episodes begin where no more than the risk is left."""
    goes_on = ~inside.mdp.is_terminal() & (inside.remaining >= 0) & (inside.risk <= risk)
    places = np.flatnonzero(goes_on)
    return replace(unconstrained(inside.mdp), starts=(places, inside.remaining[places]))


def shielded(shield: Shield) -> Regime:
    """What the shield allows, and nothing else."""
    return Regime(mask=shield.mask, needs=shield.minimal.of_state, overspent=None)


def one_step(mdp: MDP, budget: int) -> Regime:
    """What cannot take more than what remains in the very next step: the same mask that tabular learners have."""
    allowed = mdp.by_action(one_step_mask(mdp, budget), False)  # the last layer is of the overspent

    def mask(states: Ints, remaining: Ints) -> Bools:
        layer = np.where(remaining < 0, budget + 1, np.minimum(remaining, budget))
        rows: Bools = allowed[layer, states]
        return rows

    return Regime(mask=mask, needs=_nothing_needed(mdp))


def early_end(mdp: MDP, penalty: float) -> Regime:
    """The episode ends, with a penalty, once the budget is overspent."""

    def pay(rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
        return np.where(remaining < 0, rewards - penalty, rewards)

    # No training episode has ever gone on once overspent: such an agent can but believe that nothing is left.
    return Regime(mask=_available(mdp), needs=_nothing_needed(mdp), pay=pay, ends_overspent=True, overspent=0)


def saute(mdp: MDP, penalty: float) -> Regime:
    """While the budget is overspent, a penalty is paid instead of the reward (Sootla et al., 2022)."""

    def pay(rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
        return np.where(remaining < 0, -penalty, rewards)

    return Regime(mask=_available(mdp), needs=_nothing_needed(mdp), pay=pay)


def lagrangian(mdp: MDP, budget: int, rate: float) -> Regime:
    """Damage has a price, raised after each rollout in which episodes took more than the budget on average."""
    price = Price(budget, rate)
    return Regime(
        mask=_available(mdp), needs=_nothing_needed(mdp), sees_remaining=False, pay=price.pay, learn=price.learn
    )


@final
class Price:
    """The multiplier λ of the constraint E[damage] ≤ budget."""

    def __init__(self, budget: int, rate: float) -> None:
        self.budget, self.rate, self.value = budget, rate, 0.0

    def pay(self, rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
        """The reward less the price of the damage; scaled, so that a high price does not swamp the critic."""
        paid: Floats = (rewards - self.value * damages) / (1.0 + self.value)
        return paid

    def learn(self, damages: list[int]) -> None:
        """One step of gradient ascent."""
        if damages:
            self.value = max(0.0, self.value + self.rate * (float(np.mean(damages)) - self.budget))


def _available(mdp: MDP) -> Mask:
    """The actions that the states have."""
    has = mdp.by_action(np.ones(mdp.num_choices, np.bool_), False)

    def mask(states: Ints, remaining: Ints) -> Bools:
        available: Bools = has[states]
        return available

    return mask


def _nothing_needed(mdp: MDP) -> Ints:
    return np.zeros(mdp.num_states, np.int64)
