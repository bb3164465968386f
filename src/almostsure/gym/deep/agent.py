"""``DeepAgent``: a trained network with its shield."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any, final

import numpy as np

from almostsure.errors import AlmostSureError, ArgumentError
from almostsure.gym.deep.deploy import Observe, as_table, distribution, table
from almostsure.gym.deep.ground import Ground
from almostsure.gym.deep.settings import Settings
from almostsure.learn.training import Training
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.policy.evaluate import Evaluation, evaluate
from almostsure.policy.policy import Policy
from almostsure.shield.protocol import Guard
from almostsure.shield.shield import Shield


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeepAgent:
    """A network trained with masks, and the shield that makes them.  Made by :func:`train_maskable_ppo`.

    ``ppo`` is Stable-Baselines3's own object, for whatever else it can do; ask it with ``action_masks=``, always.
    """

    ppo: Any  # sb3_contrib.MaskablePPO
    shield: Guard
    budget: int
    settings: Settings
    observe: Observe | None  # how the network sees (states, remaining); None if only the environment knows
    ends: Ints  # [episodes] of the training: the step at which each ended,
    returns: Floats  # [episodes] what it returned,
    damages: Ints  # [episodes] and took

    # ------------------------------------------------------------------ playing

    def probabilities(self, state: int | str, remaining: int) -> Floats:
        """The probability of each action, [num_actions]; 0 for what is not allowed.  NoSafeAction where nothing is."""
        at, left = np.array([self._mdp().state(state)]), np.array([remaining])
        mask = self._exact().mask(at, left)
        spread: Floats = distribution(self.ppo, self._observe()(at, np.minimum(left, self.budget)), mask)[0]
        return spread

    def act(self, state: int | str, remaining: int, rng: np.random.Generator | None = None) -> int:
        """The likeliest allowed action, or with ``rng`` a random one."""
        shares = self.probabilities(state, remaining)
        return int(np.argmax(shares)) if rng is None else int(rng.choice(shares.size, p=shares))

    # ------------------------------------------------------------------ exactly

    def policy(self, *, deterministic: bool | None = None) -> Policy:
        """What the network plays on every (state, remaining), as a policy that is proved to keep the budget.

        Parameters
        ----------
        deterministic
            True for the likeliest action everywhere, False for the network's own randomness; by default whichever
            returns more, by exact evaluation.
        """
        shield, observe = self._exact(), self._observe()
        goes_on = ~shield.mdp.is_terminal()  # an environment need not have an observation for its end
        rows = [
            table(
                self.ppo, shield.mdp, observe, shield.mask,
                states=np.flatnonzero(goes_on & (shield.minimal.of_state <= remaining)), remaining=remaining,
            )
            for remaining in range(self.budget + 1)
        ]  # fmt: skip
        policy = as_table(shield.mdp, rows, self.budget, deterministic=deterministic)
        violation = shield.first_violation(policy, self.budget)
        if violation is not None:  # cannot be: what is masked has probability 0
            raise AlmostSureError(f"the network plays what its shield refuses. Please report this. {violation}")
        return policy

    def evaluate(self, *, deterministic: bool | None = None) -> Evaluation:
        """The exact return, damage distribution and length of :meth:`policy`; ``overspends`` is 0."""
        return evaluate(self._mdp(), self.policy(deterministic=deterministic))

    @property
    def training(self) -> Training:
        """The policy that would be deployed, and the episodes of the training."""
        return Training(policy=self.policy(), ends=self.ends, returns=self.returns, damages=self.damages)

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the network to a safetensors file, atomically; :func:`load_agent` reads it, and runs no code.

        ``agent.ppo.save`` writes sb3's own zip instead, which holds pickles: load such files only if you trust
        whoever made them.
        """
        from almostsure.gym.deep.files import save_agent

        save_agent(self, path)

    def __repr__(self) -> str:
        parameters = sum(x.numel() for x in self.ppo.policy.parameters())
        most = int(self.damages.max()) if self.damages.size else 0
        return (
            f"<DeepAgent: MaskablePPO with {parameters:,} parameters, budget {self.budget}\n"
            f"  trained on {self.ends.size:,} episodes; the most damage of any: {most}>"
        )

    # ------------------------------------------------------------------ pieces

    def _exact(self) -> Shield:
        if not isinstance(self.shield, Shield):
            raise ArgumentError(
                "an agent that was trained inside an OnlineShield has no model that could be evaluated exactly. "
                "Try it out: sb3_contrib.common.maskable.evaluation.evaluate_policy(agent.ppo, env)."
            )
        return self.shield

    def _mdp(self) -> MDP:
        return self._exact().mdp

    def _observe(self) -> Observe:
        if self.observe is None:
            raise ArgumentError(
                "what the network observes in a state of the model is not known: the environment's observations are "
                "changed above the ShieldedEnv, or are not the model's states."
            )
        return self.observe


def agent_of(ppo: Any, ground: Ground) -> DeepAgent:
    """The network with the ground that it was trained on."""
    record = ground.record
    return DeepAgent(
        ppo=ppo,
        shield=ground.shield,
        budget=ground.budget,
        settings=ground.settings,
        observe=ground.observe,
        ends=np.array(record.ends, np.int64),
        returns=np.array(record.returns, np.float64),
        damages=np.array(record.damages, np.int64),
    )
