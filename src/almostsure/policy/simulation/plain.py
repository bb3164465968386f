"""Simulation of episodes in NumPy, all in lockstep: the plain twin of :mod:`almostsure.policy.simulation.kernel`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.model.arrays import frozen
from almostsure.model.mdp import MDP, Bools, Floats
from almostsure.policy.policy import Policy
from almostsure.policy.simulation.streams import first_above, mix, open_streams, running_sums, uniform

# The ways in which episodes end.
ENDED, TRUNCATED, RESTING, OVERSPENT, UNDEFINED = range(5)

STEP_COST = 500  # the overhead of a step of all episodes, in steps of one episode


class Results(NamedTuple):
    """The results of all episodes."""

    returns: Floats  # [episodes]
    damages: npt.NDArray[np.int64]  # [episodes]
    lengths: npt.NDArray[np.int64]  # [episodes]
    fate: npt.NDArray[np.uint8]  # [episodes], how each ended


def no_results(count: int) -> Results:
    """Arrays for the results of ``count`` episodes."""
    return Results(np.zeros(count), np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.uint8))


class PlayTables(NamedTuple):
    """The model and the policy as read-only arrays, for NumPy and for compiled code."""

    choice_ptr: npt.NDArray[np.int64]  # [num_states + 1]
    outcome_ptr: npt.NDArray[np.int64]  # [num_choices + 1]
    successor: npt.NDArray[Any]  # [num_outcomes]
    cumulative: Floats  # [num_outcomes], cumulative sums of the probabilities within each choice
    reward: Floats  # [num_outcomes]
    damage: npt.NDArray[np.uint8]  # [num_outcomes]
    is_terminal: Bools  # [num_states]
    initial: npt.NDArray[np.int64]  # the initial states
    initial_cumulative: Floats
    choice: npt.NDArray[Any]  # [layers, num_states]; [1, 1] for a randomised policy
    shares: Floats  # [layers, num_choices], cumulative sums within each state; [1, 1] for a deterministic one
    rests: Floats  # [layers, num_states]; [1, 1] if the policy never comes to rest
    first: npt.NDArray[np.int64]  # [max(horizon, 1)], the first layer to use with 1, 2, … steps left


class PlayRules(NamedTuple):
    """The parameters of a simulation."""

    budget: int  # the starting budget, or UNLIMITED
    top: int  # the policy's layer for the largest remaining budget, or −1 for a stationary policy
    overspent: int  # its layer for an overspent budget, or −1 without one
    max_steps: int
    discount: float
    randomised: bool  # whether the policy draws its actions
    rests: bool  # whether it may come to rest
    horizon: int  # the steps of its horizon, or 0


def build_tables(mdp: MDP, policy: Policy) -> PlayTables:
    """The tables of a policy of ``mdp``."""
    nothing = np.zeros((1, 1))
    shares = (
        nothing if policy.probability is None else _running(policy.probability.ravel(), mdp, len(policy.probability))
    )
    parts: dict[str, npt.NDArray[Any]] = {
        "choice_ptr": mdp.choice_ptr.astype(np.int64),
        "outcome_ptr": mdp.outcome_ptr.astype(np.int64),
        "successor": mdp.successor,
        "cumulative": running_sums(mdp.probability, mdp.outcome_ptr.astype(np.int64)),
        "reward": mdp.reward,
        "damage": mdp.damage,
        "is_terminal": mdp.is_terminal(),
        "initial": mdp.initial_states.astype(np.int64),
        "initial_cumulative": running_sums(mdp.initial_probabilities, np.array([0, mdp.initial_states.size])),
        "choice": np.zeros((1, 1), np.int32) if policy.choice is None else policy.choice,
        "shares": shares,
        "rests": nothing if policy.rest is None else policy.rest.probability,
        "first": np.zeros(1, np.int64) if policy.block is None else policy.block * policy.layers_per_block,
    }
    return PlayTables(**{name: frozen(np.ascontiguousarray(array)) for name, array in parts.items()})


def _running(flat: Floats, mdp: MDP, layers: int) -> Floats:
    ptr = mdp.choice_ptr.astype(np.int64)
    starts = np.concatenate([ptr[:-1] + layer * mdp.num_choices for layer in range(layers)] + [[flat.size]])
    return running_sums(flat, starts).reshape(layers, mdp.num_choices)


def play_plain(
    tables: PlayTables, rules: PlayRules, seed: int, count: int, *, limit: int | None = None
) -> Results | None:
    """Play in NumPy, all episodes in lockstep; None if that takes more than about ``limit`` steps in total."""
    stepper = Stepper(tables, rules, seed, np.arange(count))
    taken = 0
    while stepper.active.size:
        taken += stepper.active.size + STEP_COST
        if limit is not None and taken > limit:
            return None
        stepper.step()
    return Results(stepper.returns, stepper.damages, stepper.lengths, stepper.fate)


class Stepper:
    """Episodes that are played in lockstep; ``step`` moves all active ones by one step."""

    def __init__(self, tables: PlayTables, rules: PlayRules, seed: int, episodes: npt.NDArray[np.int64]) -> None:
        self.tables, self.rules = tables, rules
        self.bits, self.increment = open_streams(seed, episodes)
        count = episodes.size
        self.returns, self.factor = np.zeros(count), np.ones(count)
        self.damages, self.lengths = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.fate = np.full(count, ENDED, np.uint8)
        self.active = np.arange(count)
        self.state = self._initial()
        self.played = np.zeros(count, np.int64)  # the outcome of the last step
        self._stop(tables.is_terminal[self.state], ENDED)

    def _initial(self) -> npt.NDArray[np.int64]:
        t = self.tables
        if t.initial.size == 1:
            return np.full(self.active.size, t.initial[0])
        last = np.full(self.active.size, t.initial.size)
        return t.initial[first_above(t.initial_cumulative, np.zeros_like(last), last, self._draw())]

    def _draw(self) -> Floats:
        with np.errstate(over="ignore"):
            self.bits[self.active] += self.increment[self.active]
            numbers: Floats = uniform(mix(self.bits[self.active]))
        return numbers

    def _stop(self, which: Bools, fate: int) -> None:
        self.fate[self.active[which]] = fate
        self.active = self.active[~which]

    def step(self) -> None:
        """Come to rest or draw an action, draw an outcome, and stop finished episodes."""
        t, rules = self.tables, self.rules
        layer = self._layer()
        if rules.rests:
            rest = self._draw() < t.rests[layer, self.state[self.active]]
            self._stop(rest, RESTING)
            layer = layer[~rest]
        choice = self._choose(layer)
        at, state = self.active, self.state
        outcome = first_above(t.cumulative, t.outcome_ptr[choice], t.outcome_ptr[choice + 1], self._draw())
        self.played[at] = outcome
        self.returns[at] += self.factor[at] * t.reward[outcome]
        self.factor[at] *= rules.discount
        self.damages[at] += t.damage[outcome]
        self.lengths[at] += 1
        state[at] = t.successor[outcome]
        self._finish()

    def _layer(self) -> npt.NDArray[np.int64]:
        rules = self.rules
        first = np.zeros(self.active.size, np.int64)
        if rules.horizon:
            first = self.tables.first[rules.horizon - self.lengths[self.active] - 1]
        if rules.top < 0:
            return first
        left = rules.budget - self.damages[self.active]
        return first + np.where(left < 0, rules.overspent, np.minimum(left, rules.top))

    def _choose(self, layer: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        t, state = self.tables, self.state[self.active]
        if not self.rules.randomised:
            choice = t.choice[layer, state].astype(np.int64)
            undefined = choice < 0
        else:
            first, last = t.choice_ptr[state], t.choice_ptr[state + 1]
            undefined = t.shares[layer, last - 1] == 0
            row = layer * t.shares.shape[1]
            choice = first_above(t.shares.ravel(), row + first, row + last, self._draw()) - row
        self._stop(undefined, UNDEFINED)
        return choice[~undefined]

    def _finish(self) -> None:
        rules, at = self.rules, self.active
        if rules.top >= 0 and rules.overspent < 0:
            self._stop(self.damages[at] > rules.budget, OVERSPENT)
        self._stop(self.tables.is_terminal[self.state[self.active]], ENDED)
        self._stop(self.lengths[self.active] >= rules.max_steps, TRUNCATED)
