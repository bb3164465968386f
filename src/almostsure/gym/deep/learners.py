"""PPO in six regimes, as learners for :func:`almostsure.learn.comparison.compare.compare`.

All of them have the same network, settings, sampler and seeds; :mod:`almostsure.gym.deep.regimes` says what differs.
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

from almostsure.budget.solve import minimal_budget
from almostsure.gym.deep import regimes
from almostsure.gym.deep.deploy import as_table, layers, table
from almostsure.gym.deep.features import Features
from almostsure.gym.deep.ppo import build, learn
from almostsure.gym.deep.regimes import Regime
from almostsure.gym.deep.settings import DEFAULT, Settings
from almostsure.gym.deep.training_env import of_model
from almostsure.learn.learners.baselines import saute_penalty
from almostsure.learn.learners.training import Learner, Training
from almostsure.model.mdp import MDP
from almostsure.plan.risk.shield import RiskShield
from almostsure.policy.policy import Policy
from almostsure.shield.shield import Shield


def run(
    mdp: MDP, budget: int, regime: Regime, settings: Settings, *, steps: int, seed: int, features: Any = None
) -> Training:
    """Train PPO in a regime, on one core, and say how it went."""
    shield = Shield(minimal_budget(mdp))
    on = of_model(mdp, budget, regime, settings.for_steps(steps), shield=shield, features=features)
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
        return regimes.shielded(Shield(minimal_budget(mdp)))

    def train(self, mdp: MDP, budget: int, *, steps: int, seed: int) -> Training:
        """Train for ``steps`` steps."""
        if not self.risk:
            return super().train(mdp, budget, steps=steps, seed=seed)
        inside = RiskShield(mdp, budget, self.risk).restrict()
        rows = Features(mdp, budget, states=self.features)(inside.states, inside.remaining)
        seen = np.column_stack([rows, inside.risk, np.minimum(inside.risk / self.risk, 1.0)])
        regime = regimes.risky(inside, self.risk)
        return run(inside.mdp, budget, regime, self.settings, steps=steps, seed=seed, features=seen)


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
        return regimes.one_step(mdp, budget)


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
        return regimes.saute(mdp, usual if self.penalty is None else self.penalty)


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
        return regimes.early_end(mdp, _at_once(mdp) if self.penalty is None else self.penalty)


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
        """Everything, at a price."""
        return regimes.lagrangian(mdp, budget, self.price_rate)


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
        return regimes.unconstrained(mdp)


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


def _at_once(mdp: MDP) -> float:
    """A penalty for overspending: much more makes agents stay where they are, and much less makes them overspend."""
    return 2.0 * float(mdp.reward.max() - mdp.reward.min())
