"""Many environments of one model as Stable-Baselines3 wants them: a ``VecEnv`` with action masks, stepped in NumPy.

Each environment plays episodes of its own: from the model's start, with the whole budget, until a terminal state, or
until the regime ends it, or until ``max_episode_steps`` have passed (which truncates it).  The next episode begins at
once.  An action that the regime's mask does not allow is an error, whoever chose it.

A *regime* says what may be played, what is paid, and what ends an episode; :mod:`almostsure.gym.deep.learners` lists
them.
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

EPISODES = {"ends": np.int64, "returns": np.float64, "damages": np.int64}  # what is kept of a training, by its type

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

    mask: Mask  # leaves no row empty
    needs: Ints | int = 0  # [num_states], the least remaining budget with which an agent may be there
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


def shielded(shield: Shield) -> Regime:
    """What the shield allows, and nothing else."""
    return Regime(mask=shield.mask, needs=shield.minimal.of_state, overspent=None)


class Step(NamedTuple):
    """What one step of all environments gave.  Those that ended have begun anew; ``last`` is where they ended."""

    rewards: Floats  # as the regime pays them
    ended: Bools
    truncated: Bools
    last: Rows  # [number of environments that ended, width]


@dataclass(slots=True)
class Record:
    """The episodes that have ended: what they truly returned, and their damage."""

    ends: list[int] = field(default_factory=list)  # the number of steps, of all together, after which each ended
    returns: list[float] = field(default_factory=list)
    damages: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def columns(self) -> dict[str, Any]:
        """What a training keeps of them, as arrays."""
        return {name: np.array(getattr(self, name), kind) for name, kind in EPISODES.items()}


@final
class ModelVecEnv(VecEnv):  # type: ignore[misc]  # sb3's classes are untyped here
    """Environments of a model under a regime; ``action_masks`` is found as sb3-contrib looks for it.

    Parameters
    ----------
    mdp, budget
        The model, and the budget with which every episode begins.
    regime
        What may be played, what is paid and what ends an episode.
    features
        What an agent sees.
    n_envs
        How many environments.
    max_episode_steps
        Episodes are truncated after that many steps.
    scale
        What rewards are multiplied by before the agent gets them.
    exploring_starts
        The share of episodes that begin anywhere: see :class:`almostsure.gym.deep.Settings`.
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
        self.ledger: Ledger | None = None  # in which episodes are noted as they end, if somebody wants that
        self._numbers = np.zeros(n_envs, np.int64)
        self._draws = Draws(mdp)
        self._all, self._actions = np.ones(n_envs, np.bool_), np.zeros(n_envs, np.int64)
        self._available = np.diff(mdp.choice_ptr)
        self._exploring = exploring_starts
        self._places = regime.places(mdp, budget) if exploring_starts else (np.zeros(0, np.int64),) * 2
        self.restart(None)

    # ------------------------------------------------------------------ playing

    def restart(self, seed: int | None) -> None:
        """Begin anew everywhere, with this seed."""
        self._rng = np.random.default_rng(seed)
        self.states, self.remaining, self._lengths = np.zeros((3, self.num_envs), np.int64)
        self._returns = np.zeros(self.num_envs)
        self._begin(np.arange(self.num_envs))

    def _begin(self, who: Ints) -> None:
        self.states[who] = self._draws.start(who.size, self._rng)
        self.remaining[who] = self.budget
        if self._places[0].size:
            explorers = who[self._rng.random(who.size) < self._exploring]
            at = self._rng.integers(self._places[0].size, size=explorers.size)
            self.states[explorers], self.remaining[explorers] = (column[at] for column in self._places)
        self._returns[who], self._lengths[who] = 0.0, 0
        self._mask: Bools | None = None

    def observe(self) -> Rows:
        """What an agent sees in every environment, [num_envs, width]."""
        return self.features(self.states, self.remaining)

    def action_masks(self) -> Bools:
        """What may be played in every environment, [num_envs, num_actions]; no row is empty."""
        if self._mask is None:
            self._mask = self.regime.mask(self.states, self.remaining)
        return self._mask

    def play(self, actions: Ints) -> Step:
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
        paid = self.regime.pay(rewards, damages, self.remaining)
        if self.regime.ends_overspent:
            ended |= self.remaining < 0
        truncated = ~ended & (self._lengths >= self.max_episode_steps)
        over = np.flatnonzero(ended | truncated)
        last = self.features(self.states[over], self.remaining[over])
        self._keep(over, truncated)
        self._begin(over)
        return Step(paid, ended | truncated, truncated, last)

    def finish(self) -> None:
        """Keep the episodes that the end of training cuts, if they have overspent: that is known already."""
        over = np.flatnonzero(self.remaining < 0)
        self._record(over)
        self._begin(over)

    def _check(self, actions: Ints) -> None:
        """Refuse actions unless the mask has them."""
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

    def _record(self, who: Ints) -> None:
        self.record.ends += [self.steps] * who.size
        self.record.returns += self._returns[who].tolist()
        self.record.damages += (self.budget - self.remaining[who]).tolist()
        self.record.lengths += self._lengths[who].tolist()

    def _keep(self, who: Ints, truncated: Bools) -> None:
        """Keep the episodes that ended, and note them in the ledger."""
        self._record(who)
        self._numbers[who] += 1
        for at in who.tolist() if self.ledger is not None else ():
            assert self.ledger is not None
            steps, damage = int(self._lengths[at]), self.budget - int(self.remaining[at])
            why = "truncated" if truncated[at] else "terminated"
            self.ledger.note(
                Episode(int(self._numbers[at]), steps, float(self._returns[at]), damage, self.budget, 0, why, at)  # type: ignore[arg-type]
            )

    # ------------------------------------------------------------------ what sb3 asks for

    def reset(self) -> Rows:
        """Begin anew everywhere, with the seed that was set, if any."""
        self.restart(self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        return self.observe()

    def step_async(self, actions: Ints) -> None:
        """Keep the actions for ``step_wait``."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> tuple[Rows, Floats, Bools, list[dict[str, Any]]]:
        """Play them."""
        step, record = self.play(self._actions), self.record
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = np.flatnonzero(step.ended).tolist()
        fresh = slice(len(record.returns) - len(ended), None)  # not [-0:], which is everything
        for at, last, reward, length in zip(
            ended, step.last, record.returns[fresh], record.lengths[fresh], strict=True
        ):
            infos[at] = {
                "terminal_observation": last,
                "TimeLimit.truncated": bool(step.truncated[at]),
                "episode": {"r": reward, "l": length, "t": 0.0},
            }
        return self.observe(), (step.rewards * self.scale).astype(np.float32), step.ended, infos

    def env_method(
        self, method_name: str, *args: Any, indices: int | Iterable[int] | None = None, **more: Any
    ) -> list[Any]:
        """Ask every environment for its mask; there is nothing else to ask."""
        if method_name != "action_masks":
            raise AttributeError(f"the environments of a model have no method {method_name!r}")
        mask = self.action_masks()
        return [mask[at] for at in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """An attribute, the same for every environment."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Refused: an environment of a model has nothing of its own to change."""
        raise AttributeError(f"{attr_name} of one environment cannot be changed")

    def env_is_wrapped(self, wrapper_class: type, indices: int | Iterable[int] | None = None) -> list[bool]:
        """They record their own episodes, as a Monitor does, and have no other wrapper."""
        return [issubclass(Monitor, wrapper_class) for _ in self._get_indices(indices)]

    def close(self) -> None:
        """Nothing to close."""
