"""``ModelVecEnv``: many environments of one model as a ``VecEnv`` of Stable-Baselines3 with action masks, in NumPy.

Each environment plays episodes of its own: from the model's start, with the whole budget, until a terminal state, or
until the regime ends it, or until ``max_episode_steps`` have passed (which truncates it).  The next episode begins at
once.  An action that the regime's mask does not allow is an error.

A *regime* consists of a mask, a reward, and further ends of episodes; :mod:`almostsure.gym.deep.learners` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
from gymnasium.spaces import Box, Discrete
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv

from almostsure.errors import NoSafeAction, UnknownName
from almostsure.gym.deep.deploy import Mask
from almostsure.gym.deep.features import Features, Rows
from almostsure.gym.envs.model_env import Draws
from almostsure.learn.ledger import Episode, Ledger
from almostsure.memory import require
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.shield.shield import Shield

EPISODES = {"ends": np.int64, "returns": np.float64, "damages": np.int64}  # columns of training episodes, and dtypes

Pay = Callable[[Floats, Ints, Ints], Floats]  # rewards, damages, remaining budgets after them → the agent's rewards


def unchanged(rewards: Floats, damages: Ints, remaining: Ints) -> Floats:
    """The model's reward."""
    return rewards


def ignore(damages: list[int]) -> None:
    """Learn nothing from the damages of a rollout."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regime:
    """The rules of training.  Remaining budgets are negative once overspent."""

    mask: Mask  # allows some action in every row
    needs: Ints | int = 0  # [num_states], the least remaining budget that the regime allows in each state
    sees_remaining: bool = True  # whether the agent observes the remaining budget
    overspent: int | None = -1  # the remaining budget that an overspent agent observes; None if this cannot happen
    pay: Pay = unchanged
    ends_overspent: bool = False  # whether an episode ends once overspent
    learn: Callable[[list[int]], None] = ignore  # called after each rollout with the damages of its episodes
    starts: tuple[Ints, Ints] | None = None  # exploring starts: states and remaining budgets; None: all that it allows

    def exploring_starts(self, mdp: MDP, budget: int) -> tuple[Ints, Ints]:
        """The exploring starts: nonterminal states, and remaining budgets."""
        if self.starts is not None:
            return self.starts
        require((budget + 1) * mdp.num_states * 17, "the list of all exploring starts", "Use a smaller budget.")
        left, state = np.nonzero((self.needs <= np.arange(budget + 1)[:, None]) & ~mdp.is_terminal())
        return state, left


def shielded(shield: Shield) -> Regime:
    """The shield's mask."""
    return Regime(mask=shield.mask, needs=shield.minimal.of_state, overspent=None)


class VectorStep(NamedTuple):
    """The result of a step of all environments.  Environments whose episode ended have begun the next one."""

    rewards: Floats  # of the regime
    ended: Bools
    truncated: Bools
    last: Rows  # [number of environments that ended, width] their final observations


@dataclass(slots=True)
class Record:
    """The episodes that have ended, with the model's returns."""

    ends: list[int] = field(default_factory=list)  # the number of steps of all environments when each ended
    returns: list[float] = field(default_factory=list)
    damages: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def columns(self) -> dict[str, Any]:
        """The columns of ``EPISODES``, as arrays."""
        return {name: np.array(getattr(self, name), kind) for name, kind in EPISODES.items()}


@final
class ModelVecEnv(VecEnv):  # type: ignore[misc]  # sb3's classes are untyped here
    """Environments of a model in a regime, with the ``action_masks`` that sb3-contrib calls.

    Parameters
    ----------
    mdp, budget
        The model, and the budget with which every episode begins.
    regime
        The mask, the reward and the further ends of episodes.
    features
        The observations.
    n_envs
        The number of environments.
    max_episode_steps
        Episodes are truncated after that many steps.
    scale
        The factor by which rewards are multiplied for the agent.
    exploring_starts
        The fraction of episodes with a random start: see :class:`almostsure.gym.deep.Settings`.
    """

    def __init__(
        self,
        mdp: MDP,
        budget: int,
        regime: Regime,
        features: Features,
        *,
        n_envs: int,
        max_episode_steps: int,
        scale: float = 1.0,
        exploring_starts: float = 0.0,
    ) -> None:
        self.mdp, self.budget, self.regime, self.features = mdp, budget, regime, features
        self.max_episode_steps, self.scale, self.render_mode = max_episode_steps, scale, None
        super().__init__(n_envs, Box(-np.inf, np.inf, (features.width,), np.float32), Discrete(mdp.num_actions))
        self.record = Record()
        self.steps = self.restricted_steps = 0
        self.ledger: Ledger | None = None  # records episodes when they end, if it is set
        self._numbers = np.zeros(n_envs, np.int64)
        self._draws = Draws(mdp)
        self._all, self._actions = np.ones(n_envs, np.bool_), np.zeros(n_envs, np.int64)
        self._available = np.diff(mdp.choice_ptr)
        self._exploring = exploring_starts
        self._starts = regime.exploring_starts(mdp, budget) if exploring_starts else (np.zeros(0, np.int64),) * 2
        self.restart(None)

    # ------------------------------------------------------------------ playing

    def restart(self, seed: int | None) -> None:
        """Begin new episodes in all environments, with this seed."""
        self._rng = np.random.default_rng(seed)
        self.states, self.remaining, self._lengths = np.zeros((3, self.num_envs), np.int64)
        self._returns = np.zeros(self.num_envs)
        self._begin(np.arange(self.num_envs))

    def _begin(self, rows: Ints) -> None:
        """Begin new episodes in the environments with these numbers."""
        self.states[rows] = self._draws.start(rows.size, self._rng)
        self.remaining[rows] = self.budget
        if self._starts[0].size:
            explorers = rows[self._rng.random(rows.size) < self._exploring]
            at = self._rng.integers(self._starts[0].size, size=explorers.size)
            self.states[explorers], self.remaining[explorers] = (column[at] for column in self._starts)
        self._returns[rows], self._lengths[rows] = 0.0, 0
        self._mask: Bools | None = None

    def observe(self) -> Rows:
        """The observations of all environments, [num_envs, width]."""
        return self.features(self.states, self.remaining)

    def action_masks(self) -> Bools:
        """The masks of all environments, [num_envs, num_actions]; no row is empty."""
        if self._mask is None:
            self._mask = self.regime.mask(self.states, self.remaining)
        return self._mask

    def play(self, actions: Ints) -> VectorStep:
        """Play one action in every environment."""
        self._check(actions)
        self.restricted_steps += int((self.action_masks().sum(axis=1) < self._available[self.states]).sum())
        self.states, rewards, damages = self._draws.step(self.states, actions, self._all, self._rng)
        self.remaining -= damages
        self._returns += rewards
        self._lengths += 1
        self.steps += self.num_envs
        if self.ledger is not None:
            self.ledger.steps += self.num_envs
        ended = self._draws.is_terminal[self.states]
        rewards = self.regime.pay(rewards, damages, self.remaining)
        if self.regime.ends_overspent:
            ended |= self.remaining < 0
        truncated = ~ended & (self._lengths >= self.max_episode_steps)
        over = np.flatnonzero(ended | truncated)
        last = self.features(self.states[over], self.remaining[over])
        self._record(over)
        self._note(over, truncated)
        self._begin(over)
        return VectorStep(rewards, ended | truncated, truncated, last)

    def finish(self) -> None:
        """Record the unfinished episodes that have overspent, at the end of training."""
        over = np.flatnonzero(self.remaining < 0)
        self._record(over)
        self._begin(over)

    def _check(self, actions: Ints) -> None:
        """Raise unless the mask allows the actions."""
        count = self.num_envs
        if actions.shape != (count,) or not ((actions >= 0) & (actions < self.mdp.num_actions)).all():
            raise UnknownName("action", actions, (), f"Give {count} actions 0 … {self.mdp.num_actions - 1}.")
        forbidden = ~self.action_masks()[np.arange(count), actions]
        if forbidden.any():
            at = int(np.argmax(forbidden))
            state, left = int(self.states[at]), int(self.remaining[at])
            raise NoSafeAction(
                f"action {self.mdp.action_name(int(actions[at]))!r} was played at {self.mdp.describe_state(state)} "
                f"with {left} left, where it is masked out. Give the agent the masks: action_masks().",
                state=state,
                remaining=left,
            )

    def _record(self, rows: Ints) -> None:
        self.record.ends += [self.steps] * rows.size
        self.record.returns += self._returns[rows].tolist()
        self.record.damages += (self.budget - self.remaining[rows]).tolist()
        self.record.lengths += self._lengths[rows].tolist()

    def _note(self, rows: Ints, truncated: Bools) -> None:
        """Write the episodes that ended into the ledger, if there is one."""
        self._numbers[rows] += 1
        if self.ledger is None:
            return
        for at in rows.tolist():
            steps, damage = int(self._lengths[at]), self.budget - int(self.remaining[at])
            reason: Any = "truncated" if truncated[at] else "terminated"
            totals = int(self._numbers[at]), steps, float(self._returns[at]), damage, self.budget
            self.ledger.note(Episode(*totals, 0, reason, at))

    # ------------------------------------------------------------------ the interface of VecEnv

    def reset(self) -> Rows:
        """Begin new episodes in all environments, with the seed that was set, if any."""
        self.restart(self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        return self.observe()

    def step_async(self, actions: Ints) -> None:
        """Store the actions for ``step_wait``."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> tuple[Rows, Floats, Bools, list[dict[str, Any]]]:
        """Play the stored actions."""
        step, record = self.play(self._actions), self.record
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = np.flatnonzero(step.ended).tolist()
        new = slice(len(record.returns) - len(ended), None)  # not [-0:], which selects all
        for at, last, reward, length in zip(ended, step.last, record.returns[new], record.lengths[new], strict=True):
            infos[at] = {
                "terminal_observation": last,
                "TimeLimit.truncated": bool(step.truncated[at]),
                "episode": {"r": reward, "l": length, "t": 0.0},
            }
        return self.observe(), (step.rewards * self.scale).astype(np.float32), step.ended, infos

    def env_method(
        self, method_name: str, *args: Any, indices: int | Iterable[int] | None = None, **more: Any
    ) -> list[Any]:
        """The masks of environments; the only method that they have."""
        if method_name != "action_masks":
            raise AttributeError(f"the environments of a model have no method {method_name!r}")
        mask = self.action_masks()
        return [mask[at] for at in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """An attribute, which is the same for all environments."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Raise: the environments have no attributes of their own."""
        raise AttributeError(f"{attr_name} of one environment cannot be changed")

    def env_is_wrapped(self, wrapper_class: type, indices: int | Iterable[int] | None = None) -> list[bool]:
        """Whether the class is a Monitor: the environments record their episodes as it does."""
        return [issubclass(Monitor, wrapper_class) for _ in self._get_indices(indices)]

    def close(self) -> None:
        """Do nothing."""
