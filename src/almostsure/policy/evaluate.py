"""Exact evaluation of any policy: return, damage, its distribution, length, by sparse solves.

A policy on (state, remaining) is evaluated layer by layer.  Values come from the lowest remaining budget up (each
layer's exits are known by then), masses from the highest down: the mass that ends in the layer of ``k`` left after
starting with ``budget`` is the probability of exactly ``budget − k`` damage.  What is stationary (a stationary
policy, or what a policy does once the budget is overspent) is one layer for the values, and layer after layer for
the distribution, until less than 1e-13 of the finite damage is unaccounted for.  A long tail is cut after
``LEVELS`` layers, or ``WORK`` states in all, though never before the budget; its mass is in ``beyond``.

Accuracy.  If V misses its equation by at most ρ(s) at s, and n(s) is how often s is visited, then V is wrong by at
most Σ n ρ at the start.  That sum, with what rounding may hide, is ``accuracy``; the same holds for probabilities
with the masses that a solve loses.

What goes on for ever.  Undiscounted, a policy may end in a recurrent class that is not terminal.  If its steps have
no expected reward and no damage, nothing is added; its length is infinite.  If it takes damage, the total damage is
infinite with that probability.  If its mean reward per step is positive or negative the return is plus or minus
infinity; if rewards merely cancel out in the long run, or some classes go to plus and others to minus infinity, the
return is NaN: it has no value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from almostsure.arguments import check_budget, check_discount, names_right_word
from almostsure.errors import ArgumentError
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.model.source import Model, as_model
from almostsure.policy.chain import Block, Moves, block, explore
from almostsure.policy.policy import Policy, as_policy

LEVELS = 1_000
WORK = 10_000_000
NEGLIGIBLE = 1e-13
BALANCED = 1e-9  # a mean reward below this share of the rewards' size is zero

RETURN, DAMAGE, STEPS, ENDS, HURTS = range(5)  # the columns that are solved for together


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a policy achieves from the initial state, or from the initial distribution."""

    expected_return: float  # discounted, if a discount was given
    expected_damage: float  # never discounted
    discounted_damage: float  # the same with the discount of the return
    expected_length: float  # steps until a terminal state; infinite if there may be none
    ends: float  # probability of reaching a terminal state
    damage_distribution: Floats  # [levels], probability of exactly 0, 1, 2, … damage
    beyond: float  # probability of more damage than the distribution lists
    endless: float  # probability of infinite damage
    budget: int | None  # the starting budget
    discount: float
    accuracy: float  # bound on the absolute error of every number here

    def exceeds(self, budget: int) -> float:
        """The probability of more than ``budget`` damage."""
        budget = check_budget(budget)
        if budget >= self.damage_distribution.size and self.beyond > self.accuracy:
            raise ArgumentError(
                f"the distribution is known up to {self.damage_distribution.size - 1} damage; got {budget}. "
                "Evaluate the policy with that budget."
            )
        return min(float(self.damage_distribution[budget + 1 :].sum() + self.beyond), 1.0)

    @property
    def overspends(self) -> float:
        """The probability of more damage than the starting budget."""
        if self.budget is None:
            raise ArgumentError("there is no budget to overspend: evaluate with budget=, or ask exceeds(budget)")
        return self.exceeds(self.budget)

    def __str__(self) -> str:
        lines = [
            f"expected return  {self.expected_return:.10g}"
            + (f" (discount {self.discount:g})" if self.discount < 1 else ""),
            f"expected damage  {self.expected_damage:.10g}",
            f"expected length  {self.expected_length:.10g}",
            f"ends             {self.ends:.10g}",
        ]
        if self.budget is not None:
            lines.append(f"P(damage > {self.budget})".ljust(17) + f"{self.overspends:.10g}")
        return "\n".join([*lines, f"accuracy         {self.accuracy:.1g}"])


@names_right_word
def evaluate(mdp: Model, policy: Any, *, budget: int | None = None, discount: float = 1.0) -> Evaluation:
    """Evaluate a policy exactly, from the model's initial state or distribution.

    Parameters
    ----------
    mdp
        The model, an example's name, or a file.
    policy
        A Policy of it, a Solution that holds one, or a table, mapping or function that is one (see
        :meth:`Policy.from_table` and :meth:`Policy.from_function`).
    budget
        The starting budget; by default the policy's.  For a stationary policy it changes nothing but
        ``overspends``.
    discount
        Of the return.  Damage counts in full, except in ``discounted_damage``.

    Raises
    ------
    NoSafeAction
        The policy reaches a state with a remaining budget about which it says nothing.  (If it overspends and says
        nothing about that, ``expected_return``, ``expected_damage``, ``expected_length`` and ``ends`` are NaN; the
        distribution up to ``budget`` and ``overspends`` are exact all the same.)
    """
    mdp, discount = as_model(mdp), check_discount(discount)
    mdp.require_probabilities("evaluate")
    budget = None if budget is None else check_budget(budget)
    policy = as_policy(mdp, policy, budget=budget)
    start = policy.budget if budget is None else budget
    return _Evaluator(mdp, policy, start, discount).run()


class _Evaluator:
    """One evaluation: explore downwards, values upwards, masses downwards, then the stationary part's distribution."""

    def __init__(self, mdp: MDP, policy: Policy, start: int | None, discount: float) -> None:
        self.mdp, self.policy, self.start, self.discount = mdp, policy, start, discount
        self.is_terminal = mdp.is_terminal()
        self.layers: dict[int, _Layer] = {}  # by remaining budget
        self.tail: _Layer | None = None  # the stationary part
        self.overspends = False
        self.error = 0.0

    def run(self) -> Evaluation:
        self._explore()
        undefined = self.overspends and self.tail is None
        for remaining in sorted(self.layers):
            self._value_layer(remaining)
        first = self.tail if self.policy.budget is None else self.layers[self.start]  # type: ignore[index]
        assert first is not None
        initial = np.zeros(first.moves.states.size)
        initial[first.moves.position(self.mdp.initial_states)] = self.mdp.initial_probabilities
        numbers = initial @ first.values
        discounted = initial @ first.discounted
        distribution, beyond = self._masses(initial)
        every = [*self.layers.values(), *([self.tail] if self.tail else [])]
        return Evaluation(
            expected_return=_or_nan(undefined, self._return(every, numbers, discounted)),
            expected_damage=_or_nan(undefined, math.inf if any(x.hurts_for_ever for x in every) else numbers[DAMAGE]),
            discounted_damage=_or_nan(undefined, self._discounted_damage(every, numbers, discounted)),
            expected_length=_or_nan(undefined, math.inf if any(x.goes_on for x in every) else numbers[STEPS]),
            ends=_or_nan(undefined, float(np.clip(numbers[ENDS], 0.0, 1.0))),
            damage_distribution=distribution,
            beyond=beyond,
            endless=_or_nan(undefined, float(np.clip(numbers[HURTS], 0.0, 1.0))),
            budget=self.start,
            discount=self.discount,
            accuracy=float(self.error),
        )

    # ------------------------------------------------------------------ which states are reached

    def _explore(self) -> None:
        sources: dict[int, list[Ints]] = {}
        overspent: list[Ints] = []
        if self.policy.budget is None:
            overspent.append(self.mdp.initial_states)
        else:
            assert self.start is not None
            sources[self.start] = [self.mdp.initial_states]
        while sources:
            remaining = max(sources)
            moves = self._moves(remaining, np.concatenate(sources.pop(remaining)), "harmless")
            self.layers[remaining] = _Layer(self, moves, moves.damage == 0)
            for damage in np.unique(moves.damage[moves.damage > 0]).tolist():
                reached = np.unique(moves.successor[moves.damage == damage])
                below = remaining - damage
                (sources.setdefault(below, []) if below >= 0 else overspent).append(reached)
        self.overspends = self.policy.budget is not None and bool(overspent)
        if overspent and self.policy.knows_overspent:
            moves = self._moves(-1, np.concatenate(overspent), "all")
            self.tail = _Layer(self, moves, np.ones(moves.row.size, np.bool_))
            self.tail.solve(np.zeros((moves.row.size, 5)), np.zeros((moves.row.size, 2)))

    def _moves(self, remaining: int, sources: Ints, inside: str) -> Moves:
        asked = None if self.policy.budget is None else remaining
        return explore(self.mdp, self.policy, asked, sources, inside=inside, is_terminal=self.is_terminal)

    # ------------------------------------------------------------------ values, from below

    def _value_layer(self, remaining: int) -> None:
        layer = self.layers[remaining]
        moves = layer.moves
        after, discounted = np.zeros((moves.row.size, 5)), np.zeros((moves.row.size, 2))
        for damage in np.unique(moves.damage[moves.damage > 0]).tolist():
            target = self.layers[remaining - damage] if damage <= remaining else self.tail
            if target is not None:
                at = moves.damage == damage
                place = target.moves.position(moves.successor[at])
                after[at], discounted[at] = target.values[place], target.discounted[place]
        layer.solve(after, discounted)

    def _return(self, every: list[_Layer], numbers: Floats, discounted: Floats) -> float:
        if self.discount < 1:
            return float(discounted[0])
        signs = set().union(*(x.drifts for x in every))
        if not signs:
            return float(numbers[RETURN])
        return math.inf if signs == {1} else -math.inf if signs == {-1} else math.nan

    def _discounted_damage(self, every: list[_Layer], numbers: Floats, discounted: Floats) -> float:
        if self.discount < 1:
            return float(discounted[1])
        return math.inf if any(x.hurts_for_ever for x in every) else float(numbers[DAMAGE])

    # ------------------------------------------------------------------ masses, from above

    def _masses(self, initial: Floats) -> tuple[Floats, float]:
        if self.policy.budget is None:
            assert self.tail is not None
            self._account(self.tail, initial)
            return self._levels([(0, self.tail.moves.states, initial)], [])
        assert self.start is not None
        ended = np.zeros(self.start + 1)
        arriving = {k: np.zeros(x.moves.states.size) for k, x in self.layers.items()}
        arriving[self.start] += initial
        spilled: list[tuple[int, Ints, Floats]] = []
        for remaining in sorted(self.layers, reverse=True):
            layer = self.layers[remaining]
            visits = self._account(layer, arriving[remaining])
            ended[self.start - remaining] = layer.ended(visits)
            for damage, reached, mass in layer.outflow(visits):
                if damage <= remaining:
                    target = self.layers[remaining - damage].moves
                    np.add.at(arriving[remaining - damage], target.position(reached), mass)
                else:
                    spilled.append((self.start - remaining + damage, reached, mass))
        if self.tail is None:
            return ended, float(sum(mass.sum() for _, _, mass in spilled))
        mass = np.zeros(self.tail.moves.states.size)
        for _, reached, share in spilled:
            np.add.at(mass, self.tail.moves.position(reached), share)
        self._account(self.tail, mass)
        return self._levels(spilled, ended.tolist())

    def _account(self, layer: _Layer, mass: Floats) -> Floats:
        """The visits of a layer that is entered with ``mass``; adds the layer's share of the error."""
        visits = layer.block.visits(mass)
        t = layer.block.transient
        lost = np.abs(mass[t] + layer.block.core.T @ visits[t] - visits[t]).sum() if t.any() else 0.0
        if layer.residual.size:
            self.error += float((visits[t] @ layer.residual).max())
        if layer.discounted_residual.size:
            with_discount = layer.discounting.visits(mass)[layer.discounting.transient]
            self.error += float((with_discount @ layer.discounted_residual).max())
        self.error += float(lost) + 4 * np.finfo(np.float64).eps * float(mass.sum())
        return visits

    def _levels(self, entering: list[tuple[int, Ints, Floats]], ended: list[float]) -> tuple[Floats, float]:
        """The distribution of damage of the stationary part, level by level."""
        assert self.tail is not None
        moves, size = self.tail.moves, self.tail.moves.states.size
        layer = _Layer(self, moves, moves.damage == 0)
        finite = 1 - np.clip(self.tail.values[:, HURTS], 0.0, 1.0)
        waiting: dict[int, Floats] = {}
        for level, reached, mass in entering:
            np.add.at(waiting.setdefault(level, np.zeros(size)), moves.position(reached), mass)
        limit = max(min(LEVELS, WORK // size), len(ended), (self.start or 0) + 1)
        while waiting and min(waiting) < limit:
            if sum(float(x @ finite) for x in waiting.values()) < NEGLIGIBLE and len(ended) > (self.start or 0):
                break
            level = min(waiting)
            ended += [0.0] * (level + 1 - len(ended))
            visits = layer.block.visits(waiting.pop(level))
            ended[level] = layer.ended(visits)
            for damage, reached, mass in layer.outflow(visits):
                np.add.at(waiting.setdefault(level + damage, np.zeros(size)), moves.position(reached), mass)
        return np.array(ended), float(sum(x.sum() for x in waiting.values()))


class _Layer:
    """One layer with its factorisation and its values."""

    def __init__(self, owner: _Evaluator, moves: Moves, stays: Bools) -> None:
        self.moves, self.stays = moves, stays
        self.block: Block = block(moves, stays)
        self.discount = owner.discount
        self.discounting: Block = block(moves, stays, discount=owner.discount) if owner.discount < 1 else self.block
        closed, label = ~self.block.transient, self.block.label
        hurting = np.zeros(label.max() + 1, np.bool_)
        hurting[label[moves.row[stays & (moves.damage > 0)]]] = True
        self.hurting = closed & hurting[label]
        self.hurts_for_ever = bool(self.hurting.any())
        self.goes_on = bool((closed & ~moves.is_terminal).any() or (moves.rests > 0).any())
        self.drifts = _drifts(moves, self.block)

    def solve(self, after: Floats, discounted: Floats) -> None:
        """Values of every state, given those of the states in other layers that each move leads to."""
        moves, t = self.moves, self.block.transient
        out = ~self.stays
        gains = np.stack([moves.reward, moves.damage, np.ones(moves.row.size)], axis=1)
        constant = np.zeros((moves.states.size, 5))
        for column in range(5):
            collected = after[:, column] * out + (gains[:, column] if column <= STEPS else 0.0)
            constant[:, column] = moves.budgets(collected)
        constant[~t] = 0.0
        constant[~t, ENDS] = moves.is_terminal[~t]
        constant[~t, HURTS] = self.hurting[~t]
        self.values = self.block.values(constant)
        self.residual = self.block.residual(self.values, constant)
        pairs = [moves.budgets(gains[:, c] + self.discount * discounted[:, c] * out) for c in (RETURN, DAMAGE)]
        if self.discount < 1:
            known = np.stack(pairs, axis=1)
            self.discounted = self.discounting.values(known)
            self.discounted_residual = self.discounting.residual(self.discounted, known)
        else:
            self.discounted, self.discounted_residual = self.values[:, :2], np.zeros((0, 2))

    def ended(self, visits: Floats) -> float:
        """The mass that never leaves the layer."""
        t = self.block.transient
        return float(visits[~t].sum() + visits[t] @ self.moves.rests[t])

    def outflow(self, visits: Floats) -> list[tuple[int, Ints, Floats]]:
        """Damage, states reached and their masses, of the moves that leave."""
        moves, out = self.moves, ~self.stays
        flow = visits[moves.row[out]] * moves.weight[out]
        damage, reached = moves.damage[out], moves.successor[out]
        return [(d, reached[damage == d], flow[damage == d]) for d in np.unique(damage).tolist()]


def _drifts(moves: Moves, solved: Block) -> set[int]:
    """For each recurrent class with rewards: 1 or −1 if the return drifts that way, 0 if it has no value."""
    mean = moves.budgets(moves.reward)
    size = moves.budgets(np.abs(moves.reward))
    busy = ~solved.transient & (np.abs(mean) > BALANCED * size)
    result = set()
    for label in np.unique(solved.label[busy]).tolist():
        members = np.flatnonzero(solved.label == label)
        share = _stationary(solved.inner[members][:, members])
        gain = float(share @ mean[members])
        result.add(0 if abs(gain) <= BALANCED * float(share @ size[members]) else 1 if gain > 0 else -1)
    return result


def _stationary(matrix: Any) -> Floats:
    """The long-run share of each state of an irreducible chain: how often it is visited between visits to the first."""
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import splu

    size = matrix.shape[0]
    share = np.ones(size)
    if size > 1:
        others: Any = splu(csc_array(eye_array(size - 1) - matrix[1:, 1:]))
        share[1:] = others.solve(np.asarray(matrix[[0], 1:].todense()).ravel(), trans="T")
    result: Floats = share / share.sum()
    return result


def _or_nan(undefined: bool, value: float) -> float:
    return math.nan if undefined else float(value)
