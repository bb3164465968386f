"""``trim`` and ``restrict``: models that contain only what the shield allows.

:func:`trim` keeps the states and choices that are safe with the *whole* budget.  They form a model: a choice with
k*(s,a) ≤ Δ has d + v(s') ≤ k*(s,a) ≤ Δ for each of its outcomes, so all of its successors are kept; and a state that is
kept has a choice that is kept, namely one with k*(s,a) = v(s).  The model is smaller, and has every policy that never
takes more than Δ, but also others: damage adds up along a run.

:func:`restrict` also tracks the remaining budget.  Its states are the pairs (s, K) that are reachable from the start,
each with the choices that K allows, so all of its policies take at most Δ damage.  It can be passed to any solver or
learner, which need not know about budgets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from almostsure.arguments import names_right_word
from almostsure.budget.certificate import check_never_too_small
from almostsure.budget.minimal import MinimalBudget
from almostsure.memory import require
from almostsure.model.arrays import frozen, ptr_of, spans
from almostsure.model.build.transitions import BYTES_PER_OUTCOME
from almostsure.model.mdp import MDP, Arrays, Ints, index_dtype
from almostsure.policy.explore import all_within, explore
from almostsure.shield.checks import require_budget

FREE = 1_000_000  # outcomes up to which memory is not checked


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trimmed:
    """A part of a model, and the original indices of its states and choices.

    Examples
    --------
    >>> import almostsure as asure
    >>> quicksand = asure.example("quicksand")
    >>> asure.Shield(asure.minimal_budget(quicksand)).trim(3).mdp.num_states, quicksand.num_states
    (64, 86)
    """

    mdp: MDP
    states: Ints  # [mdp.num_states], the index of each state in the whole model, ascending
    choices: Ints  # [mdp.num_choices], the same for choices

    def __repr__(self) -> str:
        return f"<Trimmed: mdp {repr(self.mdp)[6:-1]}; states and choices have the original indices>"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Restricted:
    """A model whose states are pairs (state, remaining) of another one.

    Examples
    --------
    >>> import almostsure as asure
    >>> inside = asure.Shield(asure.minimal_budget("paper")).restrict(2)
    >>> inside.mdp.num_states, inside.remaining.tolist()
    (6, [2, 2, 1, 1, 0, 0])
    """

    mdp: MDP
    states: Ints  # [mdp.num_states], the state of each pair
    remaining: Ints  # [mdp.num_states], the remaining budget of each pair

    def __repr__(self) -> str:
        return f"<Restricted: mdp {repr(self.mdp)[6:-1]}; states and remaining have the pair of each state>"


@names_right_word
def trim(minimal: MinimalBudget, budget: int) -> Trimmed:
    """The model without its Δ-unsafe states and the choices that need more than ``budget``.

    Names, layout and initial distribution are kept.

    Parameters
    ----------
    minimal, budget
        The minimal budgets of the model, and Δ.

    Raises
    ------
    Infeasible
        If an initial state needs more; ``needed`` is the budget that suffices.
    ArgumentError
        If ``budget`` is negative, fractional, or above the budget's cap.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    >>> trim(asure.minimal_budget(mdp), 0).mdp
    <MDP: 2 states, 2 choices, 2 outcomes, starts in 0>
    """
    mdp, budget = _checked(minimal, budget)
    states = np.flatnonzero(minimal.of_state <= budget)
    choices = np.flatnonzero(minimal.of_choice <= budget)
    index = np.zeros(mdp.num_states, index_dtype(states.size))
    index[states] = np.arange(states.size)
    per_state = np.bincount(index[mdp.choice_states()[choices]], minlength=states.size)
    outcomes, _ = spans(mdp.outcome_ptr, choices)
    names, place = mdp.state_names, mdp.layout
    small = _inside(
        mdp, choices, per_state, outcomes, index[mdp.successor[outcomes]], states,
        initial=(index[mdp.initial_states], mdp.initial_probabilities),
        state_names=None if names is None else [names[s] for s in states.tolist()],
        layout=None if place is None else replace(place, cell=place.cell[states]),
        end=None if mdp.end is None else states.size - 1,  # it needs 0, so it is kept; the unknown state never is
    )  # fmt: skip
    return Trimmed(mdp=small, states=frozen(states), choices=frozen(choices))


@names_right_word
def restrict(minimal: MinimalBudget, budget: int) -> Restricted:
    """The model on the reachable pairs (state, remaining), with the choices that the shield allows there.

    No policy of it ever takes more than ``budget`` damage, and it has all policies of ``mdp`` that never do.  States
    are ordered by remaining budget, descending.  Rewards, damages and action ids are kept.

    Parameters
    ----------
    minimal, budget
        The minimal budgets of the model, and Δ.

    Raises
    ------
    Infeasible
        If an initial state needs more; ``needed`` is the budget that suffices.
    ArgumentError
        If ``budget`` is negative, fractional, or above the budget's cap.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    >>> restrict(asure.minimal_budget(mdp), 2).mdp
    <MDP: 6 states, 8 choices, 8 outcomes, starts in 0 @2>
    """
    mdp, budget = _checked(minimal, budget)
    reached = []
    size, room = 0, FREE  # numbers of outcomes; the total is only known at the end
    for step in explore(mdp, all_within(mdp, minimal.of_choice), budget):
        reached.append((step.remaining, step.states))
        size += step.outcome.size
        if size > room:
            room = 2 * size
            require(size * BYTES_PER_OUTCOME, "the restricted model", "Restrict to a smaller budget.")
    remaining = np.repeat([k for k, _ in reached], [s.size for _, s in reached])
    states = np.concatenate([s for _, s in reached])
    order = np.lexsort((states, -remaining))
    return _pairs(mdp, minimal, states[order], remaining[order], budget)


# ---------------------------------------------------------------------- pieces


def _checked(minimal: MinimalBudget, budget: int) -> tuple[MDP, int]:
    check_never_too_small(minimal)
    return minimal.mdp, require_budget(minimal, budget)


def _inside(
    mdp: MDP, choices: Ints, per_state: Ints, outcomes: Ints, successor: Ints, states: Ints, **named: Any
) -> MDP:
    """The model of some choices and outcomes of ``mdp``; ``states`` has the original index of each of its states."""
    a, origin = mdp.arrays, mdp.origin
    return MDP(
        Arrays(
            choice_ptr=ptr_of(per_state), choice_action=a.choice_action[choices],
            outcome_ptr=ptr_of(np.diff(a.outcome_ptr)[choices]), successor=successor.astype(index_dtype(states.size)),
            probability=a.probability[outcomes], reward=a.reward[outcomes], damage=a.damage[outcomes],
        ),
        action_names=mdp.action_names,
        labels={name: holds[states] for name, holds in mdp.labels.items()},
        origin=replace(
            origin,
            rewards={name: values[choices] for name, values in origin.rewards.items()},
            variables={name: values[states] for name, values in origin.variables.items()},
            parts=None,
        ),
        **named,
    )  # fmt: skip


def _pairs(mdp: MDP, minimal: MinimalBudget, states: Ints, remaining: Ints, budget: int) -> Restricted:
    """The restricted model on the pairs, which are ordered by remaining budget, descending, then by state."""
    a = mdp.arrays
    choice, owner = spans(a.choice_ptr, states)
    kept = minimal.of_choice[choice] <= remaining[owner]
    choice, owner = choice[kept], owner[kept]
    outcome, position = spans(a.outcome_ptr, choice)
    key = (budget - remaining) * mdp.num_states + states  # ascending
    left = remaining[owner[position]] - a.damage[outcome]
    after = np.searchsorted(key, (budget - left) * mdp.num_states + a.successor[outcome])
    # Outcomes are sorted by (successor, damage, …) in the model, but here a successor's index depends on the damage.
    order = np.lexsort((np.arange(after.size), a.damage[outcome], after, position))
    outcome, after = outcome[order], after[order]
    names = [f"{mdp.state_name(s)} @{k}" for s, k in zip(states.tolist(), remaining.tolist(), strict=True)]
    start = np.searchsorted(key, mdp.initial_states.astype(np.int64)), mdp.initial_probabilities
    per_state = np.bincount(owner, minlength=states.size)
    small = _inside(mdp, choice, per_state, outcome, after, states, initial=start, state_names=names)
    return Restricted(mdp=small, states=frozen(states), remaining=frozen(remaining))
