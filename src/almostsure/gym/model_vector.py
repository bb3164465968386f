"""Many copies of a model's environment at once: one random number and one look-up for each, no loop in Python."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from almostsure.arguments import whole
from almostsure.errors import ArgumentError
from almostsure.gym.autoreset import Infos, write
from almostsure.learn.model_plain import running_sums
from almostsure.model.mdp import MDP, Bools
from almostsure.model.source import Model, as_model

Numbers = npt.NDArray[np.int64]


@final
class ModelVectorEnv(VectorEnv[Any, Any, Any]):
    """Many copies of the environment of a model; the next step after an episode's end starts another.

    ``infos`` holds ``damage`` and ``action_mask``, as those of :func:`to_gymnasium` do.

    Parameters
    ----------
    model
        A model, an example's name, or a path.
    num_envs
        How many copies.
    max_steps
        Truncate episodes after so many steps; never by default.

    Examples
    --------
    >>> from almostsure.gym import ModelVectorEnv
    >>> envs = ModelVectorEnv("corridor", 3)
    >>> states, infos = envs.reset(seed=0)
    >>> states, rewards, terminated, truncated, infos = envs.step(np.array([1, 1, 2]))
    >>> states, infos["damage"]
    (array([1, 1, 8]), array([0, 0, 0]))
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012  # as Gymnasium has it

    def __init__(self, model: Model, num_envs: int, *, max_steps: int | None = None) -> None:
        self.mdp = as_model(model)
        self.num_envs = whole("num_envs", num_envs)
        if self.num_envs < 1 or (max_steps is not None and whole("max_steps", max_steps) < 1):
            raise ArgumentError(f"num_envs and max_steps must be 1 or more; got {num_envs}, {max_steps}")
        self.max_steps, self.render_mode = max_steps, None
        self.single_observation_space, self.single_action_space = (
            Discrete(self.mdp.num_states),
            Discrete(self.mdp.num_actions),
        )
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._draws = Draws(self.mdp)
        self._state: Numbers | None = None
        self._steps: Numbers = np.zeros(self.num_envs, np.int64)
        self._over: Bools = np.zeros(self.num_envs, np.bool_)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Numbers, Infos]:
        """Start an episode in all copies, or those of ``options["reset_mask"]``; in ``options["state"]``, if given."""
        self._seed(seed)
        options = options or {}
        who = self._chosen(options.get("reset_mask"))
        starts = self._draws.start(self.num_envs, self.np_random)
        if "state" in options:
            starts[:] = self.mdp.state(options["state"])
        self._state = np.where(who, starts, starts if self._state is None else self._state)
        self._steps = np.where(who, 0, self._steps)
        self._over = self._over & ~who
        return self._state.copy(), self._infos(np.zeros(self.num_envs, np.int64), who)

    def _seed(self, seed: Any) -> None:
        """Seed the one generator that all copies share, by one number, or by as many as there are copies."""
        if seed is None:
            return
        if isinstance(seed, (int, np.integer)):
            self._np_random, self._np_random_seed = seeding.np_random(int(seed))
        elif np.shape(seed) == (self.num_envs,):
            words = [0 if word is None else whole("seed", word) + 1 for word in seed]
            self._np_random, self._np_random_seed = np.random.default_rng(words), -1  # as Gymnasium says: unknown
        else:
            raise ArgumentError(f"seed must be a whole number, or {self.num_envs} of them; got {seed!r}")

    def _chosen(self, mask: Any) -> Bools:
        """Which copies a reset is for."""
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        who = np.asarray(mask)
        if who.shape != (self.num_envs,) or who.dtype != np.bool_:
            raise ArgumentError(f"reset_mask must be {self.num_envs} booleans; got {mask!r}")
        if self._state is None:
            raise ResetNeeded("reset all copies before resetting some of them")
        return who

    def step(self, actions: Any) -> tuple[Numbers, npt.NDArray[np.float64], Bools, Bools, Infos]:
        """Play one action in each copy; in those whose episode is over, start another."""
        if self._state is None:
            raise ResetNeeded("call reset() before step()")
        acting = ~self._over
        state, reward, damage = self._draws.step(self._state, np.asarray(actions), acting, self.np_random)
        if not acting.all():
            state = np.where(acting, state, self._draws.start(self.num_envs, self.np_random))
        self._state = state
        self._steps = np.where(acting, self._steps + 1, 0)
        terminated = self._draws.is_terminal[state] & acting
        late = np.zeros_like(terminated) if self.max_steps is None else self._steps >= self.max_steps
        truncated = late & ~terminated
        self._over = terminated | truncated
        everyone = np.ones(self.num_envs, np.bool_)
        return state.copy(), reward, terminated, truncated, self._infos(damage, everyone)

    def _infos(self, damage: Numbers, who: Bools) -> Infos:
        assert self._state is not None
        return write({}, who, damage=damage, action_mask=self._draws.has[self._state])


class Draws:
    """The model's outcomes, ready to be drawn from."""

    def __init__(self, mdp: MDP) -> None:
        self.mdp, self.is_terminal = mdp, mdp.is_terminal()
        self.has = np.zeros((mdp.num_states, mdp.num_actions), np.int8)
        self.has[mdp.choice_states(), mdp.choice_action] = 1
        self._choice = np.full((mdp.num_states, mdp.num_actions), -1, np.int64)
        self._choice[mdp.choice_states(), mdp.choice_action] = np.arange(mdp.num_choices)
        ends = self.is_terminal
        self._choice[ends] = mdp.choice_ptr[:-1][ends, None]  # a start that is an end: any action leads nowhere
        # Within a choice probabilities add up to 1, so that choice c owns the interval c … c + 1 of one number line.
        # The last outcome takes what rounding leaves over.
        sums = running_sums(mdp.probability, mdp.outcome_ptr.astype(np.int64))
        self._line = mdp.outcome_choices() + np.minimum(sums, 1.0)
        self._starts = np.cumsum(mdp.initial_probabilities)

    def start(self, count: int, rng: np.random.Generator) -> Numbers:
        """Random initial states."""
        at = np.minimum(np.searchsorted(self._starts, rng.random(count), side="right"), self._starts.size - 1)
        states: Numbers = self.mdp.initial_states[at].astype(np.int64)
        return states

    def step(
        self, state: Numbers, action: npt.NDArray[Any], acting: Bools, rng: np.random.Generator
    ) -> tuple[Numbers, npt.NDArray[np.float64], Numbers]:
        """The next states, rewards and damages; nothing happens where nobody is acting."""
        is_whole = action.shape == state.shape and action.dtype.kind in "iu"
        if not is_whole or not ((action >= 0) & (action < self.mdp.num_actions)).all():
            raise ArgumentError(f"actions must be {state.size} ids 0 … {self.mdp.num_actions - 1}; got {action!r}")
        choice = self._choice[state, action]
        missing = (choice < 0) & acting
        if missing.any():
            at = int(np.argmax(missing))
            self.mdp.choice(int(state[at]), int(action[at]))  # says which actions the state has
        choice = np.maximum(choice, 0)
        outcome = np.searchsorted(self._line, choice + rng.random(state.size), side="right")
        outcome = np.minimum(outcome, self.mdp.outcome_ptr[choice + 1] - 1)
        reward = np.where(acting, self.mdp.reward[outcome], 0.0)
        damage = np.where(acting, self.mdp.damage[outcome].astype(np.int64), 0)
        return self.mdp.successor[outcome].astype(np.int64), reward, damage
