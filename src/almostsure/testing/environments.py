"""``check_shielded_env``: finds common mistakes of shielded environments by playing them.

It plays allowed actions, resets in the middle of episodes and at their ends, tries forbidden actions, and compares the
reported damage and remaining budget.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete

from almostsure.arguments import check_budget, names_right_word
from almostsure.errors import AlmostSureError, ArgumentError, ModelError, ModelMismatch, NoSafeAction
from almostsure.gym.shielded import shielded_in

Mask = npt.NDArray[np.bool_]


class Checked(NamedTuple):
    """The episodes that were played, without finding a mistake."""

    episodes: int
    steps: int
    budget: int
    worst: int  # the largest damage of an episode


@names_right_word
def check_shielded_env(env: Any, *, episodes: int = 20, steps: int = 200, seed: int = 0) -> Checked:
    """Check a shielded environment: one in :class:`almostsure.gym.ShieldedEnv`, or one that behaves like it.

    It must have ``action_masks()``, perhaps in a wrapper, and its ``info`` must have the ``damage`` of the step and the
    ``remaining`` budget; an ``action_mask`` in ``info`` must be the same mask.

    Parameters
    ----------
    env
        The environment, with all wrappers with which it is used.
    episodes, steps
        The number of episodes to play, and the largest number of steps of each.
    seed
        Seed of the environment and of the actions.

    Returns
    -------
    Checked
        The numbers of episodes and steps, the budget, and the largest damage.

    Raises
    ------
    ModelError
        At the first mistake; the message says what is wrong, where, and what to do.

    Examples
    --------
    >>> from almostsure.gym import ready
    >>> from almostsure.testing import check_shielded_env
    >>> env = ready("CliffWalking-v1").shielded(budget=2)
    >>> check_shielded_env(env, episodes=5, steps=100)
    Checked(episodes=5, steps=320, budget=2, worst=2)
    """
    rng = np.random.default_rng(seed)
    _check_actions(env)
    budget, played, worst = None, 0, 0
    answers: set[str] = set()
    for episode in range(check_budget(episodes, "episodes")):
        run = _Episode(env, rng, f"episode {episode + 1}", answers)
        budget = run.begin(seed if episode == 0 else None, budget)
        length = steps if episode % 3 else max(steps // 10, 1)  # some are reset in the middle
        while run.step_number < length and not run.over:
            run.step()
        played, worst = played + run.step_number, max(worst, budget - run.remaining)
    return Checked(episodes, played, budget or 0, worst)


def _check_actions(env: Any) -> None:
    if hasattr(env, "single_action_space"):
        raise ArgumentError(
            f"env must be one environment; got {type(env).__name__}, a vector of them. Check a ShieldedEnv around one "
            "of them, with the same shield and budget."
        )
    if not isinstance(env.action_space, Discrete) or env.action_space.start != 0:
        _fail("mask not aligned", f"the action space must be Discrete, from 0; it is {env.action_space}")
    if not env.has_wrapper_attr("action_masks"):
        _fail("no masks", "the environment has no action_masks(). Wrap it in almostsure.gym.ShieldedEnv")


class _Episode:
    """One episode, checked as it goes."""

    def __init__(self, env: Any, rng: np.random.Generator, name: str, answers: set[str]) -> None:
        self.env, self.rng, self.name = env, rng, name
        self.shielded = shielded_in(env)
        self.answers = answers  # the answers to forbidden actions so far: "refused" or "replaced"
        self.step_number, self.remaining, self.over = 0, 0, False
        self.mask: Mask = np.zeros(0, np.bool_)

    def begin(self, seed: int | None, budget: int | None) -> int:
        """Reset, and check that the whole budget is restored."""
        observation, info = self._call(self.env.reset, seed=seed)
        damage = info.get("damage", 0)
        if damage:
            _fail("damage on reset", f"info['damage'] is {damage!r} after reset() ({self._where()}); it must be 0")
        self.remaining = self._whole(info, "remaining")
        if budget is not None and self.remaining != budget:
            _fail(
                "budget not reset",
                f"{self.remaining} remain after reset() ({self._where()}), but {budget} did after the first one. "
                "Every reset must restore the whole budget, also after an episode that was not finished",
            )
        self._look(observation, info)
        return self.remaining

    def step(self) -> None:
        """Play an allowed action, and check the step."""
        self._try_forbidden()
        action = int(self.rng.choice(np.flatnonzero(self.mask)))
        self.step_number += 1
        observation, _, terminated, truncated, info = self._call(self.env.step, action)
        damage, left = self._whole(info, "damage"), self._whole(info, "remaining")
        if damage < 0:
            self._fail("negative damage", f"info['damage'] is {damage}", action)
        if left != self.remaining - damage:
            why = f"{self.remaining} remained and the step did {damage}, but info['remaining'] is {left}"
            self._fail("budget not kept", why, action)
        if left < 0:
            self._fail("overspent", f"an allowed action overspent the budget by {-left}", action)
        self.remaining, self.over = left, bool(terminated or truncated)
        self._look(observation, info)

    def _look(self, observation: Any, info: dict[str, Any]) -> None:
        """Check masks and observation."""
        count = int(self.env.action_space.n)
        self.mask = mask = np.asarray(self.env.get_wrapper_attr("action_masks")())
        if mask.shape != (count,) or mask.dtype != np.bool_:
            what = f"{mask.dtype} of shape {list(mask.shape)}"
            self._fail("mask not aligned", f"action_masks() must be {count} booleans, one per action id; it is {what}")
        if not mask.any():
            self._fail("empty mask", "no action is allowed")
        if "action_mask" in info and not np.array_equal(np.asarray(info["action_mask"], np.bool_), mask):
            self._fail("mask not aligned", "info['action_mask'] differs from action_masks()")
        space = self.env.observation_space
        if not space.contains(observation):
            self._fail("strange observation", f"{observation!r} is not in the observation space {space}")
        self._compare()

    def _compare(self) -> None:
        """Compare mask and remaining budget with those of the ``ShieldedEnv``, if there is one."""
        if self.shielded is None:
            return
        counted = self.shielded.remaining
        if counted != self.remaining:
            why = f"info['remaining'] is {self.remaining}, but the shield counts {counted}"
            self._fail("budget not kept", why)
        inner = np.asarray(self.shielded.action_masks())
        if not np.array_equal(inner, self.mask):
            _fail(
                "mask not aligned",
                f"action_masks() is {self.mask.tolist()} outside and {inner.tolist()} at the shield ({self._where()}). "
                "A wrapper renumbers actions: put it inside ShieldedEnv",
            )

    def _try_forbidden(self) -> None:
        """Check on a copy that a forbidden action is refused or replaced, never played."""
        forbidden = np.flatnonzero(~self.mask)
        if not forbidden.size or self.rng.random() > 0.2:
            return
        try:
            twin = copy.deepcopy(self.env)
        except Exception:
            return  # environments that cannot be copied are not checked
        action = int(self.rng.choice(forbidden))
        inner = shielded_in(twin)
        if inner is not None:
            inner.ledger.sinks.clear()  # the trial is not recorded
        try:
            info = twin.step(action)[4]
        except (AlmostSureError, ValueError, AssertionError):
            self._answered("refused", action)
            return
        executed = info.get("executed_action")
        if not info.get("replaced") or executed is None or not self.mask[int(executed)]:
            why = (
                f"action {action} is not allowed, and the environment neither refused it nor reported in "
                "info['replaced'] and info['executed_action'] which allowed one it played instead"
            )
            self._fail("forbidden action played", why, action)
        self._answered("replaced", action)

    def _answered(self, answer: str, action: int) -> None:
        """Check that all forbidden actions are answered alike, and as ShieldedEnv is configured."""
        self.answers.add(answer)
        expected = {"raise": "refused", "replace": "replaced"}
        if len(self.answers) > 1 or (self.shielded is not None and expected[self.shielded.guarded.forbidden] != answer):
            _fail(
                "forbidden actions answered in two ways",
                f"the forbidden action {action} was {answer} ({self._where(action)}), and others were not: they must "
                "all be refused, or all be replaced",
            )

    def _whole(self, info: dict[str, Any], key: str) -> int:
        if key not in info:
            _fail(f"no {key}", f"info must have {key!r}; it has {', '.join(map(str, info)) or 'nothing'}")
        value = info[key]
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            _fail(f"{key} is not an integer", f"info[{key!r}] is {value!r} ({self._where()}); count in whole units")
        return int(value)

    def _call(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """Call the environment, and explain errors of its shield."""
        where = self._where(*arguments)
        try:
            return function(*arguments, **named)
        except ModelMismatch as error:
            _fail("transition outside the model", f"{error} ({where}){self._renumbered(*arguments)}", error)
        except NoSafeAction as error:
            _fail("mask not aligned", f"an action that the mask allows was refused: {error} ({where})", error)
        except ModelError as error:
            what = "non-integer damage" if "damage" in str(error) else "state outside the model"
            _fail(what, f"{error} ({where})", error)

    def _renumbered(self, action: int | None = None) -> str:
        """A hint that the environment may number its actions in another order than the model."""
        if action is None or self.shielded is None:
            return ""
        return (
            f" If it is the right model, check whether the environment numbers its actions in the same order: action "
            f"{action} was played; compare mdp.action_names with the environment's"
        )

    def _where(self, action: int | None = None) -> str:
        what = "" if action is None else f", action {action}"
        return f"{self.name}, step {self.step_number}{what}"

    def _fail(self, what: str, why: str, action: int | None = None) -> NoReturn:
        _fail(what, f"{why} ({self._where(action)})")


def _fail(what: str, why: str, cause: BaseException | None = None) -> NoReturn:
    raise ModelError(f"{what}: {why.rstrip('.')}.") from cause
