"""A training run of Q-learning: the tables, the environments and the final greedy policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import count as at_least
from almostsure.errors import NoSafeAction
from almostsure.kernels import plain
from almostsure.learn.learners import steps
from almostsure.learn.learners.allowance import Allowance, Transition
from almostsure.learn.learners.steps import EndedEpisodes, Envs, LearnerRules, ValueTables
from almostsure.learn.learners.training import Training
from almostsure.learn.learners.world import Playground, world_of
from almostsure.learn.sampling.samplers import CheckedSampler
from almostsure.memory import require
from almostsure.model.arrays import Bools, Floats
from almostsure.model.mdp import MDP
from almostsure.policy.policy import Policy

PLAIN_WORK = 30_000  # steps times layers up to which plain Python is faster than loading compiled code
BLOCK = 1 << 15  # the steps whose random numbers are drawn together
NUM_ENVS = 16
STEPS_PER_ENV = 1_000  # short trainings use fewer environments, so that episodes can end
BYTES_PER_ENTRY = 25  # of the learner's tables, per layer and choice
FADING = 0.4  # the step size after n tries is n to the power −0.4, …
SMALLEST = 0.05  # … but at least this
RATES = 2_000  # the number of tries after which the step size is constant


def train(ground: Playground, allowance: Allowance, rules: LearnerRules, *, seed: int) -> Training:
    """Q-learning with the allowed choices."""
    rules = rules._replace(steps=at_least("steps", rules.steps), max_steps=at_least("max_steps", rules.max_steps))
    session = Session(ground, allowance, rules, seed=seed)
    session.play()
    return session.finish()


def new_tables(ground: Playground, layers: int) -> ValueTables:
    """The tables before training; initial values are optimistic, the largest reward, so that every choice is tried."""
    entries = layers * ground.mdp.num_choices
    require(entries * BYTES_PER_ENTRY, f"a learner's tables ({entries:,} entries)", "Train with a smaller budget.")
    shape, outcomes = (layers, ground.mdp.num_choices), ground.counted_as
    return ValueTables(
        value=np.full(shape, max(0.0, ground.rewards[1])),
        damage=np.zeros(shape),
        tries=np.zeros(shape, np.int64),
        seen=np.zeros(ground.mdp.num_outcomes if outcomes is None else int(outcomes.max()) + 1, np.int64),
        rate=np.maximum(np.arange(1, RATES + 1) ** -FADING, SMALLEST),
        price=np.zeros(1),
    )


def greedy(mdp: MDP, score: Floats, allowed: Bools) -> Floats:
    """Probabilities [layers, num_choices]: the first choice with the best score, or all allowed ones if all are −∞."""
    starts, owner = mdp.choice_ptr[:-1].astype(np.int64), mdp.choice_states()
    best = np.maximum.reduceat(score, starts, axis=1)[:, owner]
    known = ~np.isneginf(best)
    equal = known & (score == best)
    before = np.cumsum(equal, axis=1) - equal
    wanted = np.where(known, equal & (before == before[:, starts][:, owner]), allowed)
    shares: Floats = wanted / np.maximum(np.add.reduceat(wanted, starts, axis=1, dtype=np.float64), 1.0)[:, owner]
    return shares


@final
class Session:
    """One run of a learner: ``play`` takes all steps, and ``finish`` returns the Training."""

    def __init__(self, ground: Playground, allowance: Allowance, rules: LearnerRules, *, seed: int) -> None:
        self.tables = new_tables(ground, allowance.layers)
        self.ground, self.allowance = ground, allowance
        self.rules = rules._replace(watching=allowance.watches)
        self.world = world_of(ground)
        self.allowed: Bools = allowance.table()
        self.count = np.zeros(steps.COUNTS, np.int64)
        self.count[steps.SURPRISE] = -1
        self.rng = np.random.default_rng(at_least("seed", seed, least=0))
        self.envs = self._envs(min(NUM_ENVS, max(1, rules.steps // STEPS_PER_ENV)))
        self._ended: list[EndedEpisodes] = []

    def _envs(self, num_envs: int) -> Envs:
        start = np.searchsorted(self.world.initial_cumulative, self.rng.random(num_envs), side="right")
        zeros = np.zeros(num_envs, np.int64)
        budgets = zeros + self.rules.budget
        return Envs(self.world.initial[start], budgets, zeros.copy(), np.zeros(num_envs), zeros.copy())

    @property
    def clock(self) -> int:
        """The number of steps taken so far."""
        return int(self.count[steps.CLOCK])

    def play(self) -> None:
        """Take all steps, and learn from them."""
        if self.ground.source is not None:
            self._play_sampled(self.ground.source)
            return
        tables = self.tables
        is_small = self.rules.steps * self.allowance.layers * (1 + self.rules.replays) <= PLAIN_WORK
        learn = plain(steps.learn) if is_small else steps.learn
        for draws, ended in self._blocks():
            learn(self.world, self.allowed, tables, self.envs, self.rules, self.count, draws, ended)
            surprise, was_left = self.count[[steps.SURPRISE, steps.WAS_LEFT]].tolist()
            if self.rules.watching and surprise >= 0:
                self.allowance.watch(self._step(surprise), was_left, self.clock)
                self.count[steps.SURPRISE] = -1
                self.allowed = self.allowance.table()
        for outcome in np.flatnonzero(tables.seen > 1).tolist() if self.rules.watching else ():
            self.allowance.repeat(self._step(outcome), int(tables.seen[outcome]) - 1)

    def _blocks(self) -> Iterator[tuple[npt.NDArray[Any], EndedEpisodes]]:
        """Blocks of random numbers with room for the episodes that end; the same one again until it is used up."""
        while self.clock < self.rules.steps:
            before = self.clock
            rows = max(BLOCK // (1 + self.rules.replays), 1)  # Ctrl-C takes effect after each block
            draws = self.rng.random((min(rows, 2 * self.rules.steps), steps.DRAWS))
            room = EndedEpisodes(np.zeros(len(draws), np.int64), np.zeros(len(draws)), np.zeros(len(draws), np.int64))
            self.count[steps.DRAWN] = self.count[steps.EPISODES] = 0
            while self.clock < self.rules.steps and self.count[steps.DRAWN] < len(draws):
                yield draws, room
            self._ended.append(EndedEpisodes(*(column[: self.count[steps.EPISODES]].copy() for column in room)))
            if self.clock == before:
                raise NoSafeAction("no environment could take a step: no action is allowed in their initial states")

    def _step(self, outcome: int) -> Transition:
        mdp = self.ground.mdp
        choice = int(np.searchsorted(mdp.outcome_ptr, outcome, side="right")) - 1
        return Transition(choice, int(mdp.successor[outcome]), float(mdp.reward[outcome]), int(mdp.damage[outcome]))

    # ------------------------------------------------------------------ without a model

    def _play_sampled(self, source: CheckedSampler) -> None:
        """What ``steps.learn`` does with a model, with outcomes from a sampler."""
        tables, rules, count = self.tables, self.rules, self.count
        one = np.zeros(1, np.int64)
        world = self.world._replace(successor=one, reward=np.zeros(1), damage=one.copy())
        tables.seen[0] = 1  # the outcome that is filled in at each step
        seen: dict[tuple[int, int, int], tuple[int, float]] = {}  # by outcome: further times, the sum of their rewards
        for draws, ended in self._blocks():
            draw, turn = draws[count[steps.DRAWN]], int(count[steps.TURN])
            remaining = int(self.envs.remaining[turn])
            state = int(self.envs.state[turn])
            played = plain(steps.choose)(world, self.allowed, tables, state, remaining, rules.explore, draw, count)
            if played >= 0:
                target, reward, damage = source.draw(np.array([played]), self.rng)
                world.successor[0], world.reward[0], world.damage[0] = target[0], reward[0], damage[0]
                plain(steps.update)(world, self.allowed, tables, played, 0, 1, rules)
                plain(steps.apply_outcome)(world, self.envs, 0, count)
                step = Transition(played, int(target[0]), float(reward[0]), int(damage[0]))
                self._see(step, remaining, seen)
            plain(steps.end_turn)(world, tables, self.envs, rules, played < 0, draw[3], count, ended)
        for (choice, target_state, lost), (times, total) in seen.items():
            if times:
                self.allowance.repeat(Transition(choice, target_state, total / times, lost), times)

    def _see(self, step: Transition, remaining: int, seen: dict[tuple[int, int, int], tuple[int, float]]) -> None:
        key = step.choice, step.next_state, step.damage
        if key in seen:
            times, total = seen[key]
            seen[key] = times + 1, total + step.reward
            return
        seen[key] = 0, 0.0
        if self.rules.watching:
            self.allowance.watch(step, remaining, self.clock)
            self.allowed = self.allowance.table()

    # ------------------------------------------------------------------ the result

    def _greedy(self) -> Policy:
        """The best of the choices that were tried; in states without any, a random allowed choice."""
        tables, allowed = self.tables, self.allowed
        score = np.where(allowed & (tables.tries > 0), tables.value - tables.price[0] * tables.damage, -np.inf)
        return self.allowance.policy(greedy(self.ground.mdp, score, self.allowance.completed(allowed)))

    def finish(self) -> Training:
        """The greedy policy and the episodes; of the unfinished ones only those that have overspent."""
        policy = self._greedy()
        self.allowance.finish(self.clock)
        at, returns, damages = (np.concatenate(columns) for columns in zip(*self._ended, strict=True))
        late = self.envs.damage > self.rules.budget
        return Training(
            policy=policy,
            ends=np.append(at, np.full(int(late.sum()), self.rules.steps)),
            returns=np.append(returns, self.envs.reward[late]),
            damages=np.append(damages, self.envs.damage[late]),
            restricted_steps=int(self.count[steps.RESTRICTED]),
        )
