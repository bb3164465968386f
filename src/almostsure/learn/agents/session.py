"""Training sessions: copies of a model that move in turn, the random numbers that they use, and the episodes so far."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import NoSafeAction
from almostsure.learn.agents import planning
from almostsure.learn.agents.guard import Guard
from almostsure.learn.agents.steps import CLOCK, COUNTS, DRAWN, DRAWS, EPISODES, REFUSALS, SURPRISE, WAS_LEFT
from almostsure.learn.bounds import count as at_least
from almostsure.learn.model_plain import running_sums
from almostsure.learn.training import Training
from almostsure.model.mdp import MDP, Bools, Floats
from almostsure.policy.policy import Policy
from almostsure.progress import compiling

PLAIN_WORK = 30_000  # steps times layers that plain Python plays before compiled code would be loaded
BLOCK = 1 << 15  # random numbers that are drawn together, in steps
COPIES = 16
STEPS_A_COPY = 1_000  # short trainings use fewer copies, so that episodes can end


class World(NamedTuple):
    """A model as the steps read it."""

    choice_ptr: npt.NDArray[np.int64]
    outcome_ptr: npt.NDArray[np.int64]
    successor: npt.NDArray[np.int64]
    cumulative: Floats
    reward: Floats
    damage: npt.NDArray[np.int64]
    is_terminal: Bools
    initial: npt.NDArray[np.int64]
    initial_cumulative: Floats


def world_of(mdp: MDP) -> World:
    """The arrays of a model."""
    outcome_ptr = mdp.outcome_ptr.astype(np.int64)
    starts = np.array([0, mdp.initial_states.size])
    return World(
        choice_ptr=mdp.choice_ptr.astype(np.int64),
        outcome_ptr=outcome_ptr,
        successor=mdp.successor.astype(np.int64),
        cumulative=running_sums(mdp.probability, outcome_ptr),
        reward=mdp.reward.astype(np.float64),
        damage=mdp.damage.astype(np.int64),
        is_terminal=mdp.is_terminal(),
        initial=mdp.initial_states.astype(np.int64),
        initial_cumulative=running_sums(mdp.initial_probabilities, starts),
    )


class Lanes(NamedTuple):
    """Where each copy stands."""

    state: npt.NDArray[np.int64]
    left: npt.NDArray[np.int64]  # of the budget
    taken: npt.NDArray[np.int64]  # steps of the episode
    gained: Floats  # in the episode
    hurt: npt.NDArray[np.int64]  # in the episode


@final
class Session:
    """One run of a learner, apart from what it learns.

    ``blocks`` hands out random numbers and room for episodes until all steps are taken; ``watch`` tells the guard about
    a surprise; ``finish`` makes the Training of it all.
    """

    def __init__(self, mdp: MDP, guard: Guard, *, steps: int, seed: int) -> None:
        self.mdp, self.budget, self.guard = mdp, guard.budget, guard
        self.steps = at_least("steps", steps)
        self.world = world_of(mdp)
        self.allowed: Bools = guard.table()
        self.seen = np.zeros(mdp.num_outcomes, np.int64)
        self.count = np.zeros(COUNTS, np.int64)
        self.count[SURPRISE] = -1
        self.rng = np.random.default_rng(at_least("seed", seed, least=0))
        self.lanes = self._lanes(min(COPIES, max(1, self.steps // STEPS_A_COPY)))
        self._found: list[tuple[npt.NDArray[Any], ...]] = []

    def _lanes(self, copies: int) -> Lanes:
        start = np.searchsorted(self.world.initial_cumulative, self.rng.random(copies), side="right")
        zeros = np.zeros(copies, np.int64)
        return Lanes(self.world.initial[start], zeros + self.budget, zeros.copy(), np.zeros(copies), zeros.copy())

    @property
    def clock(self) -> int:
        """Steps taken so far."""
        return int(self.count[CLOCK])

    @property
    def is_small(self) -> bool:
        """Whether plain Python is done before compiled code would be loaded."""
        return self.steps * self.guard.layers <= PLAIN_WORK

    def blocks(self) -> Iterator[tuple[npt.NDArray[Any], ...]]:
        """Random numbers, and arrays for the episodes' ends, returns and damages; used up when asked for more."""
        while self.clock < self.steps:
            before = self.clock
            draws = self.rng.random((min(BLOCK, 2 * self.steps), DRAWS))
            room = np.zeros(len(draws), np.int64), np.zeros(len(draws)), np.zeros(len(draws), np.int64)
            self.count[DRAWN] = self.count[EPISODES] = 0
            while self.clock < self.steps and self.count[DRAWN] < len(draws):
                yield draws, *room
            self._found.append(tuple(column[: self.count[EPISODES]].copy() for column in room))
            if self.clock == before:
                raise NoSafeAction("no copy of the model could take a step: nothing is allowed where they start")

    def watch(self) -> bool:
        """Tell the guard about the last surprise, if there was one; whether something is now allowed or refused."""
        if self.count[SURPRISE] < 0:
            return False
        before = self.allowed
        self.guard.watch(int(self.count[SURPRISE]), int(self.count[WAS_LEFT]), self.clock)
        self.count[SURPRISE] = -1
        self.allowed = self.guard.table()
        return not np.array_equal(before, self.allowed)

    def finish(self, policy: Policy) -> Training:
        """What came of it; an episode that the end of training cut counts only if it had overspent."""
        self.guard.finish(self.seen, self.clock)
        ends, returns, damages = (np.concatenate(columns) for columns in zip(*self._found, strict=True))
        late = self.lanes.hurt > self.budget
        return Training(
            policy=policy,
            ends=np.append(ends, np.full(int(late.sum()), self.steps)),
            returns=np.append(returns, self.lanes.gained[late]),
            damages=np.append(damages, self.lanes.hurt[late]),
            interventions=int(self.count[REFUSALS]),
        )


class Engine(NamedTuple):
    """The steps of all learners, plain or compiled."""

    learn: Callable[..., None]
    plan: Callable[..., int]
    walk: Callable[..., None]


def engine(plain: bool) -> Engine:
    """The plain functions, or the compiled ones."""
    if plain:
        return Engine(planning.learn, planning.plan, planning.walk)
    from almostsure.learn.agents import steps_kernel

    return Engine(_patient(steps_kernel.learn), _patient(steps_kernel.plan), _patient(steps_kernel.walk))


def _patient(kernel: Any) -> Callable[..., Any]:
    """The kernel; whoever waits for it to be compiled is told why."""

    def call(*arguments: Any) -> Any:
        with contextlib.nullcontext() if kernel.signatures else compiling("the learners"):
            return kernel(*arguments)

    return call


def greedy(mdp: MDP, score: Floats, allowed: Bools) -> Floats:
    """Probabilities [layers, num_choices]: the first best score of each state, or what is allowed where none is."""
    starts, owner = mdp.choice_ptr[:-1].astype(np.int64), mdp.choice_states()
    best = np.maximum.reduceat(score, starts, axis=1)[:, owner]
    known = ~np.isneginf(best)
    equal = known & (score == best)
    before = np.cumsum(equal, axis=1) - equal
    wanted = np.where(known, equal & (before == before[:, starts][:, owner]), allowed)
    shares: Floats = wanted / np.maximum(np.add.reduceat(wanted, starts, axis=1, dtype=np.float64), 1.0)[:, owner]
    return shares
