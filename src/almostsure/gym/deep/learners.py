"""PPO in six regimes, as learners for :func:`almostsure.learn.comparison.compare.compare`.

All of them have the same network, settings, sampler and seeds.  What differs is the *regime*: what may be played, what
is paid, and what ends an episode.

====================  =======================================  ========================  ==========================
learner               mask                                     reward                    ends also
====================  =======================================  ========================  ==========================
``ShieldedPPO``       what k* allows (Theorem 1)               r                         never
``OneStepPPO``        what cannot overspend in the next step   r                         never
``EarlyEndPPO``       none                                     r; penalty on overspend   once overspent
``SautePPO``          none                                     r; penalty while          never
                                                               overspent, instead of r
``LagrangianPPO``     none                                     (r − λd) / (1 + λ)        never
``UnconstrainedPPO``  none                                     r                         never
====================  =======================================  ========================  ==========================

"None" still masks actions that a state does not have.  Where the one-step rule has nothing left to allow, it allows
what may hurt least: an agent must do something, and that is where it fails.  That rule and the penalty of Sauté are
those of the tabular learners: see :mod:`almostsure.learn.learners.baselines`.
What is deployed is the network on every (state, remaining), sampled or greedy, whichever returns more exactly.

>>> from almostsure.gym.deep import OneStepPPO, ShieldedPPO
>>> from almostsure.learn.comparison.compare import compare
>>> table = compare("corridor", 2, [ShieldedPPO(), OneStepPPO()], steps=2_000, seeds=1)
>>> [row["training_violations"] > 0 for row in table.rows]
[False, True]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, final

import numpy as np

from almostsure.arguments import names_right_word
from almostsure.budget.solve import minimal_budget
from almostsure.gym.deep.deploy import Mask, as_table, layers, table
from almostsure.gym.deep.features import Features
from almostsure.gym.deep.ppo import build, learn
from almostsure.gym.deep.settings import DEFAULT, Settings
from almostsure.gym.deep.training_env import of_model
from almostsure.gym.deep.vec_env import Regime, shielded
from almostsure.learn.learners.baselines import one_step_mask, saute_penalty
from almostsure.learn.learners.training import Learner, Training
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.plan.risk.inside import Risked
from almostsure.plan.risk.shield import RiskShield
from almostsure.policy.policy import Policy
from almostsure.shield.shield import Shield


def run(
    mdp: MDP, budget: int, regime: Regime, settings: Settings, *, steps: int, seed: int, features: Any = None
) -> Training:
    """Train PPO in a regime, on one core, and say how it went."""
    on = of_model(mdp, budget, regime, settings.for_steps(steps), shield=None, features=features)
    ppo = build(on, seed=seed, device="cpu")
    learn(ppo, on, total_timesteps=steps)
    on.env.finish()
    policy = deployed(ppo, mdp, budget, regime, on.env.features)
    return Training(policy=policy, restricted_steps=on.env.restricted_steps, **on.record.columns())


def deployed(ppo: Any, mdp: MDP, budget: int, regime: Regime, features: Features) -> Policy:
    """What a network that was trained in a regime plays, overspent or not."""
    everywhere = np.arange(mdp.num_states)
    if not regime.sees_remaining:
        rows = [table(ppo, mdp, features, regime.mask, states=everywhere, remaining=0)]
        return as_table(mdp, rows, None, deterministic=None)
    rows = layers(ppo, mdp, features, regime.mask, needs=regime.needs, budget=budget)
    if regime.overspent is not None:
        rows.append(table(ppo, mdp, features, regime.mask, states=everywhere, remaining=regime.overspent))
    return as_table(mdp, rows, budget, deterministic=None)


def available(mdp: MDP) -> Mask:
    """The actions that the states have."""
    has = mdp.by_action(np.ones(mdp.num_choices, np.bool_), False)

    def mask(states: Ints, remaining: Ints) -> Bools:
        rows: Bools = has[states]
        return rows

    return mask


def risky(inside: Risked, risk: float) -> Regime:
    """Every action of the model inside a risk shield.  Episodes begin where no more than the risk is left."""
    goes_on = ~inside.mdp.is_terminal() & (inside.remaining >= 0) & (inside.risk <= risk)
    places = np.flatnonzero(goes_on)
    return Regime(mask=available(inside.mdp), sees_remaining=False, starts=(places, inside.remaining[places]))


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


@dataclass(frozen=True, kw_only=True)
class _PPO(ABC):
    """PPO in some regime.

    Parameters
    ----------
    features
        What the network sees of the states, one row of numbers each; by default that of
        :mod:`almostsure.gym.deep.features`.
    """

    name: str
    settings: Settings = DEFAULT
    features: Any = field(default=None, repr=False, compare=False)

    @abstractmethod
    def regime(self, mdp: MDP, budget: int) -> Regime:
        """What may be played, what is paid, and what ends an episode."""

    def train(self, mdp: MDP, budget: int, *, steps: int, seed: int) -> Training:
        """Train for ``steps`` steps."""
        regime = self.regime(mdp, budget)
        return run(mdp, budget, regime, self.settings, steps=steps, seed=seed, features=self.features)


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class ShieldedPPO(_PPO):
    """MaskablePPO inside the shield: it can learn whatever it likes, and never overspends.

    Parameters
    ----------
    risk
        The probability with which an episode may overspend.  Where it is not 0, the network is trained in the model
        inside a :class:`almostsure.RiskShield`, and sees what remains and the risk that is left; the policy is one of
        that model.

    Examples
    --------
    >>> import almostsure as asure
    >>> quick = Settings(n_envs=8, n_steps=16, batch_size=64)
    >>> run = ShieldedPPO(settings=quick).train(asure.example("corridor"), 3, steps=256, seed=0)
    >>> run.policy.budget
    3
    """

    name: str = "MaskablePPO, shielded"
    risk: float = 0.0

    def regime(self, mdp: MDP, budget: int) -> Regime:
        """What the shield allows, and nothing else."""
        return shielded(Shield(minimal_budget(mdp)))

    def train(self, mdp: MDP, budget: int, *, steps: int, seed: int) -> Training:
        """Train for ``steps`` steps."""
        if not self.risk:
            return super().train(mdp, budget, steps=steps, seed=seed)
        inside = RiskShield(mdp, budget, self.risk).restrict()
        rows = Features(mdp, budget, states=self.features)(inside.states, inside.remaining)
        seen = np.column_stack([rows, inside.risk, np.minimum(inside.risk / self.risk, 1.0)])
        regime = risky(inside, self.risk)
        return run(inside.mdp, budget, regime, self.settings, steps=steps, seed=seed, features=seen)


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class OneStepPPO(_PPO):
    """MaskablePPO without the actions that may overspend in the very next step.

    Parameters
    ----------
    name, settings, features
        As printed in tables; the numbers of PPO; and what the network sees of a state.

    Examples
    --------
    >>> import almostsure as asure
    >>> quick = Settings(n_envs=8, n_steps=16, batch_size=64)
    >>> run = OneStepPPO(settings=quick).train(asure.example("corridor"), 3, steps=256, seed=0)
    >>> run.ends.size > 0
    True
    """

    name: str = "MaskablePPO, one-step mask"

    def regime(self, mdp: MDP, budget: int) -> Regime:
        """What cannot overspend in the next step."""
        allowed = mdp.by_action(one_step_mask(mdp, budget), False)  # the last layer is of the overspent

        def mask(states: Ints, remaining: Ints) -> Bools:
            layer = np.where(remaining < 0, budget + 1, np.minimum(remaining, budget))
            rows: Bools = allowed[layer, states]
            return rows

        return Regime(mask=mask)


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class SautePPO(_PPO):
    """Sauté PPO with exact integer budgets: the state has what remains, and the overspent are paid a penalty instead.

    Parameters
    ----------
    penalty
        For each step while overspent; by default that of :func:`almostsure.learn.learners.baselines.saute_penalty`.

    Examples
    --------
    >>> import almostsure as asure
    >>> quick = Settings(n_envs=8, n_steps=16, batch_size=64)
    >>> run = SautePPO(settings=quick).train(asure.example("corridor"), 3, steps=256, seed=0)
    >>> run.ends.size > 0
    True
    """

    name: str = "Sauté PPO"
    penalty: float | None = None

    def regime(self, mdp: MDP, budget: int) -> Regime:
        """Everything, and a penalty in place of the reward while overspent."""
        usual = saute_penalty(float(mdp.reward.min()), float(mdp.reward.max()))
        penalty = usual if self.penalty is None else self.penalty

        def pay(rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
            return np.where(remaining < 0, -penalty, rewards)

        return Regime(mask=available(mdp), pay=pay)


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class EarlyEndPPO(_PPO):
    """PPO whose episodes end, with a penalty, once they have overspent.

    Parameters
    ----------
    penalty
        Paid once; by default twice the difference of the model's largest and smallest reward.

    Examples
    --------
    >>> import almostsure as asure
    >>> quick = Settings(n_envs=8, n_steps=16, batch_size=64)
    >>> run = EarlyEndPPO(penalty=20.0, settings=quick).train(asure.example("corridor"), 3, steps=256, seed=0)
    >>> run.ends.size > 0
    True
    """

    name: str = "PPO, early termination"
    penalty: float | None = None

    def regime(self, mdp: MDP, budget: int) -> Regime:
        """Everything, until the budget is overspent."""
        # Much more than this makes agents stay where they are, and much less makes them overspend.
        usual = 2.0 * float(mdp.reward.max() - mdp.reward.min())
        penalty = usual if self.penalty is None else self.penalty

        def pay(rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
            return np.where(remaining < 0, rewards - penalty, rewards)

        # No training episode has ever gone on once overspent: such an agent can but believe that nothing is left.
        return Regime(mask=available(mdp), pay=pay, ends_overspent=True, overspent=0)


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class LagrangianPPO(_PPO):
    """PPO-Lagrangian: damage has a price, which rises while episodes take more than the budget on average.

    Parameters
    ----------
    price_rate
        By how much the price rises after a rollout, for each unit that an episode takes too much on average.

    Examples
    --------
    >>> import almostsure as asure
    >>> quick = Settings(n_envs=8, n_steps=16, batch_size=64)
    >>> run = LagrangianPPO(price_rate=0.1, settings=quick).train(asure.example("corridor"), 3, steps=256, seed=0)
    >>> run.ends.size > 0
    True
    """

    name: str = "PPO-Lagrangian"
    price_rate: float = 0.05

    def regime(self, mdp: MDP, budget: int) -> Regime:
        """Everything, at a price: it rises after each rollout whose episodes took more than the budget on average."""
        price = Price(budget, self.price_rate)
        return Regime(mask=available(mdp), sees_remaining=False, pay=price.pay, learn=price.learn)


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class UnconstrainedPPO(_PPO):
    """PPO that does not look at damage.

    Parameters
    ----------
    name, settings, features
        As printed in tables; the numbers of PPO; and what the network sees of a state.

    Examples
    --------
    >>> import almostsure as asure
    >>> quick = Settings(n_envs=8, n_steps=16, batch_size=64)
    >>> run = UnconstrainedPPO(settings=quick).train(asure.example("corridor"), 3, steps=256, seed=0)
    >>> run.ends.size > 0
    True
    """

    name: str = "PPO, unconstrained"

    def regime(self, mdp: MDP, budget: int) -> Regime:
        """Everything."""
        return Regime(mask=available(mdp), sees_remaining=False)


#: All of them, by name.
deep_learners: Mapping[str, Learner] = MappingProxyType(
    {
        "shielded": ShieldedPPO(),
        "one-step": OneStepPPO(),
        "early-end": EarlyEndPPO(),
        "saute": SautePPO(),
        "lagrangian": LagrangianPPO(),
        "unconstrained": UnconstrainedPPO(),
    }
)
