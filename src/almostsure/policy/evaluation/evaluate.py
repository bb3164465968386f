"""``evaluate``: exact evaluation of a policy by sparse solves: its return, damage with its distribution, and length.

A policy on (state, remaining) is evaluated layer by layer.  Values are computed from the lowest remaining budget
upwards, so the values behind each layer's exits are known.  Masses go from the highest remaining budget downwards: the
mass that ends in the layer with ``k`` left after a start with ``budget`` is the probability of exactly ``budget − k``
damage.  A stationary part (a stationary policy, or the layer for an overspent budget) is one layer for the values, and
one layer per damage for the distribution, until less than 1e-13 of the mass with finite damage is missing.  A long tail
is cut after ``LEVELS`` layers, or ``WORK`` states in total, but never before the budget; its mass is in ``beyond``.

Accuracy.  Probabilities are the stored ones divided by their exact sum.  Values are sums of two floats, the residuals
of their equations are computed with twice the digits, and bounds on their errors are proved, including rounding
(:mod:`almostsure.policy.evaluation.linear`).  ``lower`` and ``upper`` enclose the return.  ``accuracy`` is the largest
error of any number in the result; it is large if an expected length is so long that floats cannot represent it better.

Runs without an end.  Without a discount, a policy may end in a recurrent class that is not terminal, and the expected
length is infinite.  If no state of the class has an expected reward and no step does damage, it adds nothing else.  If
a step does damage, the damage is infinite with the probability of the class.  If the mean reward per step is positive
or negative, the return is plus or minus infinity; the expected reward between two visits of a state decides that,
exactly.  If rewards only cancel out in the long run, or some classes tend to plus and others to minus infinity, the
return is undefined (NaN).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from almostsure.arguments import check_budget, check_discount, names_right_word
from almostsure.errors import ArgumentError
from almostsure.model.arrays import ascending
from almostsure.model.mdp import MDP, Floats
from almostsure.model.source import Model, as_model
from almostsure.policy.evaluation.chain import layers_of, normalised
from almostsure.policy.evaluation.layer import COLUMNS, ENDLESS, Layer, Number, mean_of
from almostsure.policy.evaluation.linear import Values
from almostsure.policy.evaluation.within import evaluate_within
from almostsure.policy.explore import OVERSPENT
from almostsure.policy.policy import Policy, played_with
from almostsure.wording import precise

LEVELS = 1_000
WORK = 10_000_000
NEGLIGIBLE = 1e-13


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """The results of a policy from the initial state, or from the initial distribution.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.example("paper", damage_probability=0.6)
    >>> result = evaluate(mdp, asure.solve_policy(mdp, asure.AlmostSure(2)).policy)
    >>> round(result.expected_return, 9), result.damage_distribution.round(9).tolist()
    (3.333333333, [0.0, 0.0, 1.0])
    """

    expected_return: float  # discounted, if a discount was given
    expected_damage: float  # never discounted
    discounted_damage: float  # the same with the discount of the return
    expected_length: float  # steps until a terminal state or the end of a horizon; infinite if there may be none
    ends: float  # probability of reaching a terminal state
    damage_distribution: Floats  # [levels], probability of exactly 0, 1, 2, … damage
    beyond: float  # probability of more damage than the distribution lists
    endless: float  # probability of infinite damage
    budget: int | None  # the starting budget
    discount: float
    lower: float  # proved lower bound on the expected return
    upper: float  # proved upper bound on it
    accuracy: float  # bound on the absolute error of all numbers here

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
            raise ArgumentError("there is no budget to overspend: evaluate with budget=, or call exceeds(budget)")
        return self.exceeds(self.budget)

    def __repr__(self) -> str:
        over = "" if self.budget is None else f", P(damage > {self.budget}) = {self.overspends:.6g}"
        gain, damage = precise(self.expected_return, 6), precise(self.expected_damage, 6)
        return f"<Evaluation: return {gain}, damage {damage} on average{over}>"

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import card

        return card("Evaluation", self._facts())

    def __str__(self) -> str:
        return "\n".join(f"{name:<17}{text}" for name, text in self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        """The results as names and texts."""
        discounted = f" (discount {self.discount:g})" if self.discount < 1 else ""
        over = [] if self.budget is None else [(f"P(damage > {self.budget})", f"{self.overspends:.10g}")]
        return [
            ("expected return", f"{precise(self.expected_return)}{discounted}"),
            ("expected damage", precise(self.expected_damage)),
            ("expected length", precise(self.expected_length)),
            ("ends", f"{self.ends:.10g}"),
            *over,
            ("accuracy", f"{self.accuracy:.1g}"),
        ]


@names_right_word
def evaluate(mdp: Model, policy: Any, *, budget: int | None = None, discount: float = 1.0) -> Evaluation:
    """Evaluate a policy exactly, from the model's initial state or distribution.

    Parameters
    ----------
    mdp
        The model, an example's name, or a file.
    policy
        A Policy of the model, a Solution that has one, or a table, mapping or function (see
        :meth:`Policy.from_table` and :meth:`Policy.from_function`).
    budget
        The starting budget; by default that of the policy.  For a stationary policy it only affects ``overspends``.
    discount
        The discount factor of the return.  Damage is not discounted, except in ``discounted_damage``.

    Raises
    ------
    NoSafeAction
        If the policy reaches a state and remaining budget at which it is undefined.  (If it overspends, and is
        undefined for that, ``expected_return``, ``expected_damage``, ``expected_length`` and ``ends`` are NaN; the
        distribution up to ``budget`` and ``overspends`` are still exact.)

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.example("corridor")
    >>> result = evaluate(mdp, asure.solve_policy(mdp, asure.AlmostSure(3)).policy)
    >>> result.expected_return, result.expected_damage, result.overspends
    (13.0, 3.0, 0.0)
    """
    mdp, discount = as_model(mdp), check_discount(discount)
    mdp.require_probabilities("evaluate")
    policy, start = played_with(mdp, policy, budget)
    if policy.horizon is not None:
        return Evaluation(**evaluate_within(policy, start, discount))
    return _Evaluator(mdp, policy, start, discount).run()


class _Evaluator:
    """One evaluation: exploration downwards, values upwards, masses downwards, then the stationary distribution."""

    def __init__(self, mdp: MDP, policy: Policy, start: int | None, discount: float) -> None:
        self.mdp, self.policy, self.start, self.discount = mdp, policy, start, discount
        self.layers: dict[int, Layer] = {}  # by remaining budget, OVERSPENT for the stationary part
        self.lost = 0.0  # mass

    def run(self) -> Evaluation:
        for moves in layers_of(self.mdp, self.policy, self.start):
            self.layers[moves.remaining] = Layer(self.mdp, moves, moves.stays, self.discount)
        for remaining in sorted(self.layers):
            self._value_layer(remaining)
        first = self.layers[max(self.layers)]
        starts = first.moves.position(self.mdp.initial_states)
        probability = normalised(self.mdp.initial_probabilities, np.zeros(starts.size, np.int64), 1)
        initial = np.zeros(first.moves.states.size)
        initial[starts] = probability.high
        distribution, beyond = self._masses(initial)
        numbers = [mean_of(probability, first.values.at((starts, column))) for column in range(COLUMNS)]
        return self._result(numbers, distribution, beyond)

    def _result(self, numbers: list[Number], distribution: Floats, beyond: float) -> Evaluation:
        every = list(self.layers.values())
        gain, damage, length, ends, endless, *discounted = numbers
        infinite = Number(math.inf, 0.0)
        damage = infinite if any(x.has_endless_damage for x in every) else damage
        length = infinite if any(x.goes_on for x in every) else length
        ends, endless = (share._replace(value=min(max(share.value, 0.0), 1.0)) for share in (ends, endless))
        gain, discounted_damage = discounted if self.discount < 1 else (self._return(gain), damage)
        found = {
            "expected_return": gain, "expected_damage": damage, "discounted_damage": discounted_damage,
            "expected_length": length, "ends": ends, "endless": endless,
        }  # fmt: skip
        if any(x.overspends for x in every) and not self.policy.knows_overspent:
            gain = Number(math.nan, 0.0)
            found = dict.fromkeys(found, gain)
        return Evaluation(
            **{name: number.value for name, number in found.items()},
            damage_distribution=np.minimum(distribution, 1.0),
            beyond=min(beyond, 1.0),
            budget=self.start,
            discount=self.discount,
            lower=_outwards(gain.value, -gain.error),
            upper=_outwards(gain.value, gain.error),
            accuracy=max(self.lost, *(number.error for number in found.values())),
        )

    def _return(self, number: Number) -> Number:
        signs = set().union(*(x.drifts for x in self.layers.values()))
        if not signs:
            return number
        return Number(math.inf if signs == {1} else -math.inf if signs == {-1} else math.nan, 0.0)

    # ------------------------------------------------------------------ values, from below

    def _value_layer(self, remaining: int) -> None:
        layer = self.layers[remaining]
        damage, successor = layer.moves.damage, layer.moves.successor
        after = Values.zeros(damage.size, COLUMNS)
        for amount in ascending(damage[~layer.stays]).tolist():
            target = self.layers.get(max(remaining - amount, OVERSPENT))
            if target is not None:
                at = np.flatnonzero(~layer.stays & (damage == amount))
                after.put(at, target.values.at(target.moves.position(successor[at])))
        layer.solve(after)

    # ------------------------------------------------------------------ masses, from above

    def _masses(self, initial: Floats) -> tuple[Floats, float]:
        """The probability of each damage, and of larger ones.

        Up to the budget, each damage has its own layer.  Beyond it, and from 0 on for a stationary policy, the
        stationary part is solved again for each damage, until the remaining mass is negligible.
        """
        enough = (self.start or 0) + 1  # damages that are always listed
        layers = {enough - 1 - left: layer for left, layer in self.layers.items() if left != OVERSPENT}
        tail, stationary = None, self.layers.get(OVERSPENT)
        if stationary is not None:
            tail = Layer(self.mdp, stationary.moves, stationary.moves.damage == 0, 1.0)
            finite = 1 - np.clip(stationary.values.value.high[:, ENDLESS], 0.0, 1.0)
            limit = max(min(LEVELS, WORK // finite.size), enough)
        ended = [0.0] * (enough if layers else 0)
        waiting, beyond = {0: initial}, 0.0
        while waiting:
            level = min(waiting)
            if level not in layers:
                rest = sum(float(mass @ finite) for mass in waiting.values())
                if level >= limit or (rest < NEGLIGIBLE and len(ended) >= enough):
                    break
            layer = layers.get(level, tail)
            assert layer is not None  # mass only waits in existing layers
            stays, left, lost = layer.flow(waiting.pop(level))
            self.lost += lost
            ended += [0.0] * (level + 1 - len(ended))
            ended[level] = stays
            for damage, reached, mass in left:
                target = layers.get(level + damage, tail)
                if target is None:
                    beyond += float(mass.sum())
                else:
                    arriving = waiting.setdefault(level + damage, np.zeros(target.moves.states.size))
                    np.add.at(arriving, target.moves.position(reached), mass)
        return np.array(ended), beyond + float(sum(mass.sum() for mass in waiting.values()))


def _outwards(value: float, error: float) -> float:
    """The sum, rounded away from the value."""
    total = value + error
    return total if error == 0 or not math.isfinite(total) else math.nextafter(total, math.copysign(math.inf, error))
