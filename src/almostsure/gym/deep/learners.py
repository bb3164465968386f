"""PPO in six regimes, as learners for :func:`almostsure.learn.comparison.compare.compare`.

All of them have the same network, settings, sampler and seeds.  They differ in the *regime*: the mask, the reward, and
further ends of episodes.

====================  =======================================  ========================  ==========================
learner               mask                                     reward                    further ends
====================  =======================================  ========================  ==========================
``ShieldedPPO``       k*(s, a) ≤ remaining (Theorem 1)         r                         none
``OneStepPPO``        cannot overspend in the next step        r                         none
``EarlyEndPPO``       none                                     r; penalty on overspend   once overspent
``SautePPO``          none                                     r; penalty while          none
                                                               overspent, instead of r
``LagrangianPPO``     none                                     (r − λd) / (1 + λ)        none
``UnconstrainedPPO``  none                                     r                         none
====================  =======================================  ========================  ==========================

Without a mask, actions that a state does not have are still masked.  If the one-step rule would allow no action, it
allows those with the least worst damage, and may then overspend.  This rule is that of the tabular learners: see
:mod:`almostsure.learn.learners.one_step`.
The deployed policy is the network on every (state, remaining), sampled or greedy, the one with the larger exact return.

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
from almostsure.learn.learners.one_step import one_step_mask
from almostsure.learn.learners.training import Learner, Training
from almostsure.learn.sampling.samplers import CheckedSampler
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.model.source import as_model
from almostsure.plan.risk.inside import Risked
from almostsure.plan.risk.shield import RiskShield
from almostsure.policy.policy import Policy
from almostsure.shield.shield import Shield


def run(
    mdp: MDP, budget: int, regime: Regime, settings: Settings, *, steps: int, seed: int, features: Any = None
) -> Training:
    """Train PPO in a regime, on one core."""
    on = of_model(mdp, budget, regime, settings.for_steps(steps), shield=None, features=features)
    ppo = build(on, seed=seed, device="cpu")
    learn(ppo, on, total_timesteps=steps)
    on.env.finish()
    policy = deployed(ppo, mdp, budget, regime, on.env.features)
    return Training(policy=policy, restricted_steps=on.env.restricted_steps, **on.record.columns())


def model_of(world: Any) -> MDP:
    """The model that a learner was given; ``compare`` gives it a checked sampler where there is none."""
    return as_model(world.sampler if isinstance(world, CheckedSampler) else world)


def deployed(ppo: Any, mdp: MDP, budget: int, regime: Regime, features: Features) -> Policy:
    """The policy of a network that was trained in a regime; also for overspent budgets, if these occur."""
    everywhere = np.arange(mdp.num_states)
    if not regime.sees_remaining:
        rows = [table(ppo, mdp, features, regime.mask, states=everywhere, remaining=0)]
        return as_table(mdp, rows, None, deterministic=None)
    rows = layers(ppo, mdp, features, regime.mask, needs=regime.needs, budget=budget)
    if regime.overspent is not None:
        rows.append(table(ppo, mdp, features, regime.mask, states=everywhere, remaining=regime.overspent))
    return as_table(mdp, rows, budget, deterministic=None)


def available(mdp: MDP) -> Mask:
    """The mask of the actions that states have."""
    has = mdp.by_action(np.ones(mdp.num_choices, np.bool_), False)
    return lambda states, remaining: has[states]


def risky(inside: Risked, risk: float) -> Regime:
    """All actions of the model inside a risk shield; exploring starts have a remaining risk of at most ``risk``."""
    states = np.flatnonzero(~inside.mdp.is_terminal() & (inside.remaining >= 0) & (inside.risk <= risk))
    return Regime(mask=available(inside.mdp), sees_remaining=False, starts=(states, inside.remaining[states]))


@final
class Price:
    """The Lagrange multiplier λ of the constraint E[damage] ≤ budget."""

    def __init__(self, budget: int, rate: float) -> None:
        self.budget, self.rate, self.value = budget, rate, 0.0

    def pay(self, rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
        """The reward minus the price of the damage, scaled by 1 / (1 + λ) to keep the critic's targets bounded."""
        paid: Floats = (rewards - self.value * damages) / (1.0 + self.value)
        return paid

    def learn(self, damages: list[int]) -> None:
        """Update the multiplier by a step of gradient ascent."""
        if damages:
            self.value = max(0.0, self.value + self.rate * (float(np.mean(damages)) - self.budget))


@dataclass(frozen=True, kw_only=True)
class _PPO(ABC):
    """PPO in a regime.

    Parameters
    ----------
    features
        The network's input features, one row of numbers per state; by default those of
        :mod:`almostsure.gym.deep.features`.
    """

    name: str
    settings: Settings = DEFAULT
    features: Any = field(default=None, repr=False, compare=False)

    @abstractmethod
    def regime(self, mdp: MDP, budget: int) -> Regime:
        """The mask, the reward, and the further ends of episodes."""

    def train(self, mdp: MDP, budget: int, *, steps: int, seed: int) -> Training:
        """Train for ``steps`` steps."""
        mdp = model_of(mdp)
        regime = self.regime(mdp, budget)
        return run(mdp, budget, regime, self.settings, steps=steps, seed=seed, features=self.features)


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class ShieldedPPO(_PPO):
    """MaskablePPO inside the shield: it never overspends, in training or afterwards.

    Parameters
    ----------
    risk
        The probability with which an episode may overspend.  If it is not 0, the network is trained in the model inside
        a :class:`almostsure.RiskShield`, and observes the remaining budget and risk; the policy is one of that model.

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
        """The shield's mask."""
        return shielded(Shield(minimal_budget(mdp)))

    def train(self, mdp: MDP, budget: int, *, steps: int, seed: int) -> Training:
        """Train for ``steps`` steps."""
        if not self.risk:
            return super().train(mdp, budget, steps=steps, seed=seed)
        mdp = model_of(mdp)
        inside = RiskShield(mdp, budget, self.risk).restrict()
        rows = Features(mdp, budget, states=self.features)(inside.states, inside.remaining)
        features = np.column_stack([rows, inside.risk, np.minimum(inside.risk / self.risk, 1.0)])
        regime = risky(inside, self.risk)
        return run(inside.mdp, budget, regime, self.settings, steps=steps, seed=seed, features=features)


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class OneStepPPO(_PPO):
    """MaskablePPO with a mask of the actions that cannot overspend in the next step.

    Parameters
    ----------
    name, settings, features
        The name in tables, the hyperparameters of PPO, and the network's input features.

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
        """The mask of actions that cannot overspend in the next step."""
        allowed = mdp.by_action(one_step_mask(mdp, budget), False)  # the last layer is for overspent budgets

        def mask(states: Ints, remaining: Ints) -> Bools:
            layer = np.where(remaining < 0, budget + 1, np.minimum(remaining, budget))
            rows: Bools = allowed[layer, states]
            return rows

        return Regime(mask=mask)


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class SautePPO(_PPO):
    """Sauté PPO with exact integer budgets: it observes the remaining budget, with a penalty as reward once overspent.

    Parameters
    ----------
    penalty
        Per step while overspent; by default a fiftieth of the difference of the model's largest and smallest reward,
        but no less than any step costs.

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
        """No mask, and a penalty instead of the reward while overspent."""
        # With that of the tabular learners, networks stay where they are.
        least, most = float(mdp.reward.min()), float(mdp.reward.max())
        usual = max((most - least) / 50, -least) or 1.0
        penalty = usual if self.penalty is None else self.penalty
        return Regime(mask=available(mdp), pay=lambda rewards, _, remaining: np.where(remaining < 0, -penalty, rewards))


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class EarlyEndPPO(_PPO):
    """PPO whose episodes end with a penalty once they overspend.

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
        """No mask, and episodes that end once overspent."""
        # With much larger penalties agents stay where they are, with much smaller ones they overspend.
        usual = 2.0 * float(mdp.reward.max() - mdp.reward.min())
        penalty = usual if self.penalty is None else self.penalty
        return Regime(
            mask=available(mdp),
            pay=lambda rewards, _, remaining: np.where(remaining < 0, rewards - penalty, rewards),
            ends_overspent=True,
            overspent=0,  # no training episode continues once overspent: the network is evaluated as if 0 were left
        )


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class LagrangianPPO(_PPO):
    """PPO-Lagrangian: damage has a price, which rises while the mean damage of episodes exceeds the budget.

    Parameters
    ----------
    price_rate
        The step size of the price: its change after a rollout, per unit of mean damage above the budget.

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
        """No mask, and rewards minus the price of damage, which is updated after each rollout."""
        price = Price(budget, self.price_rate)
        return Regime(mask=available(mdp), sees_remaining=False, pay=price.pay, learn=price.learn)


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class UnconstrainedPPO(_PPO):
    """PPO that ignores damage.

    Parameters
    ----------
    name, settings, features
        The name in tables, the hyperparameters of PPO, and the network's input features.

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
        """No mask, and the model's reward."""
        return Regime(mask=available(mdp), sees_remaining=False)


#: All learners of this module, by name.
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
