"""What the compiled engine for assured policies reads of a model, and the places at which one can rest.

Integers are unsigned and of one width: each kernel is compiled once, and without tests for negative indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.plan.assured import sweep_prepare as prepare
from almostsure.plan.graph import Graph, end_components

ROUNDINGS = 4.0  # by how many roundings an outcome probabilities may be off a sum of 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ground:
    """What every layer reads of the model, with integers of one width so that each kernel is compiled once."""

    mdp: MDP
    choice_ptr: Ints
    outcome_ptr: Ints
    successor: Ints
    probability: Floats
    damage: npt.NDArray[np.uint8]
    of_choice: Ints
    reward: Floats  # [num_choices], expected; exactly 0 where rewards cancel out
    reward_size: Floats  # [num_choices], expected absolute value
    hurts: Bools  # [num_choices], whether some outcome has damage
    owner: Ints  # [num_choices], the state
    budget: int
    discount: float

    @staticmethod
    def read(mdp: MDP, of_choice: Ints, budget: int, discount: float) -> Ground:
        """Take the arrays of a model."""
        outcome_ptr, probability = _unsigned(mdp.outcome_ptr), mdp.probability
        reward, size, hurts = np.empty(mdp.num_choices), np.empty(mdp.num_choices), np.empty(mdp.num_choices, np.bool_)
        if prepare.read_choices(outcome_ptr, probability, mdp.reward, mdp.damage, reward, size, hurts) > ROUNDINGS:
            probability = _normalised(mdp)
            prepare.read_choices(outcome_ptr, probability, mdp.reward, mdp.damage, reward, size, hurts)
        return Ground(
            mdp=mdp,
            choice_ptr=_unsigned(mdp.choice_ptr),
            outcome_ptr=outcome_ptr,
            successor=_unsigned(mdp.successor),
            probability=probability,
            damage=mdp.damage,
            of_choice=_unsigned(of_choice),
            reward=reward,
            reward_size=size,
            hurts=hurts,
            owner=_unsigned(mdp.choice_states()),
            budget=budget,
            discount=discount,
        )

    @property
    def num_states(self) -> int:
        """How many states there are."""
        return self.choice_ptr.size - 1

    def graph(self, choices: Bools) -> Graph:
        """The graph of some choices; the others are there, but lead nowhere."""
        (kept,) = np.nonzero(choices)
        start, end = self.outcome_ptr[kept].astype(np.int64), self.outcome_ptr[kept + 1].astype(np.int64)
        outcomes = ranges(start, end)
        return Graph(
            num_states=self.num_states,
            owner=self.owner,
            entry_choice=np.repeat(kept, end - start),
            entry_state=self.successor[outcomes],
        )

    def without_damage(self, remaining: int) -> Bools:
        """The allowed choices that never hurt, [num_choices]."""
        return (self.of_choice <= remaining) & ~self.hurts


def ranges(begin: Ints, end: Ints) -> Ints:
    """The numbers begin … end − 1 of several ranges, one after the other."""
    length = end - begin
    return np.arange(int(length.sum())) + np.repeat(end - np.cumsum(length), length)


def _unsigned(array: Ints) -> Ints:
    """The array as read-only uint32; see :class:`almostsure.plan.assured.sweep_pockets.Compact`."""
    result = array.view(np.uint32) if array.dtype == np.int32 else array.astype(np.uint32)
    result.flags.writeable = False
    return result


def _normalised(mdp: MDP) -> Floats:
    """Probabilities that sum to 1 up to rounding; a model's may be off by a little more."""
    sums = np.add.reduceat(mdp.probability, mdp.outcome_ptr[:-1])
    result: Floats = mdp.probability / np.repeat(sums, np.diff(mdp.outcome_ptr))
    result.flags.writeable = False
    return result


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """States, with those collapsed that may rest together for nothing."""

    place: Ints  # [num_states]
    member_ptr: Ints  # [places + 1]
    member: Ints  # [num_states]
    can_stay: Bools  # [places]
    inside: Bools  # [num_choices], choices by which places rest
    inner: Ints  # the same as a list
    graph: Graph | None  # of the choices inside; None if every place is one state

    @staticmethod
    def single(ground: Ground, inside: Bools) -> Places:
        """Every state on its own; those with a choice inside may stay."""
        states = np.arange(ground.num_states, dtype=np.uint32)
        can_stay = np.zeros(ground.num_states, np.bool_)
        can_stay[ground.owner[inside]] = True
        return Places(
            place=states, member_ptr=np.arange(ground.num_states + 1, dtype=np.uint32), member=states.copy(),
            can_stay=can_stay, inside=inside, inner=np.flatnonzero(inside), graph=None,
        )  # fmt: skip

    @staticmethod
    def collapse(ground: Ground, resting: Bools) -> Places:
        """Collapse the end components of choices without damage and reward."""
        graph = ground.graph(resting)
        component, inside = end_components(graph, resting)
        if component.max(initial=-1) + 1 == np.unique(graph.owner[inside]).size:  # each is one state
            return Places.single(ground, inside)
        alone = component < 0
        label = np.where(alone, component.max() + 1 + np.cumsum(alone) - 1, component).astype(np.uint32)
        can_stay = np.zeros(int(label.max()) + 1, np.bool_)
        can_stay[label[~alone]] = True
        member = np.argsort(label, kind="stable").astype(np.uint32)
        member_ptr = np.searchsorted(label[member], np.arange(can_stay.size + 1)).astype(np.uint32)
        return Places(
            place=label, member_ptr=member_ptr, member=member, can_stay=can_stay, inside=inside,
            inner=np.flatnonzero(inside), graph=graph,
        )  # fmt: skip

    def gather(self, by_state: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What belongs to the states of each place, all of which have the same."""
        return by_state.copy() if self.graph is None else by_state[self.member[self.member_ptr[:-1]]]


class Resting:
    """The choices without damage and reward, and the places that they make of the states, layer by layer."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        free = (ground.reward == 0) & (ground.of_choice <= ground.budget)
        free &= ~ground.hurts
        graph = ground.graph(free)
        leaves = graph.having(graph.owner[graph.entry_choice] != graph.entry_state)
        if ground.discount < 1:  # then nothing is collapsed, but terminal states are known
            free &= ~leaves
        self.loops_only = not (free & leaves).any()
        (self.choices,) = np.nonzero(free)
        self.needs = ground.of_choice[self.choices]
        self.last: tuple[int, Places] | None = None

    def places(self, remaining: int) -> Places:
        """The places of a layer."""
        allowed = self.choices[self.needs <= remaining]
        if self.last is not None and self.last[0] == allowed.size:  # choices only ever come in
            return self.last[1]
        inside = np.zeros(self.ground.reward.size, np.bool_)
        inside[allowed] = True
        make = Places.single if self.loops_only else Places.collapse
        self.last = allowed.size, make(self.ground, inside)
        return self.last[1]


def may_gain(ground: Ground) -> bool:
    """Whether some end component has a choice with positive reward: gains might go on for ever there."""
    if ground.discount < 1 or not (ground.reward > 0).any():
        return False
    free = ground.without_damage(ground.budget)
    if not (ground.reward[free] > 0).any():
        return False
    _, inside = end_components(ground.graph(free), free)
    return bool((ground.reward[inside] > 0).any())
