"""``budget_frontier``: the pairs of budgets that suffice for two kinds of damage.

With K₂ left of the second budget, let v(s, K₂) be the least first budget that suffices.  It is the minimal budget of
the model on (state, K₂) in which a step that exceeds the second budget is forbidden.  One solution of that model gives
v for every state and every K₂ up to a largest one.  The K₂ from which on v no longer falls is found by swapping roles:
it is the least second budget that suffices together with the least first one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget, names_right_word
from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.errors import Infeasible
from almostsure.memory import require
from almostsure.model.build.transitions import BYTES_PER_OUTCOME
from almostsure.model.change import Given
from almostsure.model.mdp import MDP, Ints
from almostsure.model.monitors import amounts
from almostsure.model.source import Model, as_model
from almostsure.plan.programme.flow import with_layers

if TYPE_CHECKING:
    from almostsure.plots import Axes


Pair = tuple[int, int]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BudgetFrontier:
    """The pairs of budgets that suffice, for every state; :meth:`pairs` lists the minimal ones.

    Examples
    --------
    >>> import almostsure as asure
    >>> rows = [(0, 0, 1, 1, 0, 2), (0, 1, 1, 1, 0, 0)]
    >>> mdp = asure.from_transitions(*zip(*rows), terminal=[1])
    >>> budget_frontier(mdp, [0, 3, 0]).pairs()  # 2 of the model's damage, or 3 of the other
    [(2, 0), (0, 3)]
    """

    mdp: MDP
    first: npt.NDArray[np.int32]  # [most + 1, num_states] the least first budget for each second budget 0 … most

    @property
    def most(self) -> int:
        """The largest second budget considered; by default, more of it lowers no state's first budget."""
        return len(self.first) - 1

    def pairs(self, state: int | str | None = None) -> list[Pair]:
        """The minimal pairs (first, second): neither can be lowered.  At a state or, by default, at the start."""
        at = self.mdp.initial_states if state is None else np.array([self.mdp.state(state)])
        needs = self.first[:, at].max(axis=1).tolist()
        before = [INFINITE, *needs]
        return [(need, k) for k, need in enumerate(needs) if need < before[k]]

    def suffices(self, first: int, second: int, state: int | str | None = None) -> bool:
        """Whether a pair of budgets suffices, at a state or at the start."""
        one, two = check_budget(first, "first"), check_budget(second, "second")
        return any(a <= one and b <= two for a, b in self.pairs(state))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the pairs that suffice at the start on Matplotlib axes (by default new ones), and return the axes."""
        from almostsure.plots import axes_for

        pairs = self.pairs()
        axes = axes_for(ax, 5, 4)
        second, first = [b for _, b in pairs], [a for a, _ in pairs]
        edge = max(max(second), 1) * 1.15, max(max(first), 1) * 1.15
        axes.fill_between([*second, edge[0]], [*first, first[-1]], edge[1], step="post", alpha=0.15, color="#1b6ca8")
        axes.step([second[0], *second, edge[0]], [edge[1], *first, first[-1]], where="post", color="#1b6ca8")
        axes.plot(second, first, "o", color="#1b6ca8")
        axes.set(xlabel="second budget", ylabel="first budget", title="Pairs that suffice", xlim=(0, edge[0]))
        axes.set_ylim(0, edge[1])
        axes.locator_params(integer=True)
        return axes

    def __repr__(self) -> str:
        pairs = self.pairs()
        shown = ", ".join(map(str, pairs[:6])) + (", …" if len(pairs) > 6 else "")
        return f"<BudgetFrontier: minimal pairs (first, second) at the start: {shown}>"


@names_right_word
def budget_frontier(mdp: Model, damage: Given, *, most: int | None = None) -> BudgetFrontier:
    """The exact pairs of budgets that suffice for the model's damage and a second kind of damage.

    Parameters
    ----------
    mdp
        The model, an example's name, or a file; its own damage is the first.
    damage
        The second: a label, a mapping from labels to whole numbers, one whole number per outcome, or a function
        ``damage(state, action, next_state, reward, terminated)``.
    most
        The largest second budget to consider; by default the largest that makes a difference in some state.

    Raises
    ------
    Infeasible
        If no pair of finite budgets suffices at the start.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.plan import budget_frontier
    >>> rows = [(s, a, s + 1, 1, 0, a) for s in range(3) for a in (0, 1)]  # three steps, each loud (0) or harmful (1)
    >>> mdp = asure.from_transitions(*zip(*rows), terminal=[3])
    >>> budget_frontier(mdp, lambda s, a, s2, r, terminated: int(a == 0)).pairs()
    [(3, 0), (2, 1), (1, 2), (0, 3)]
    """
    model = as_model(mdp)
    second = amounts(model, damage, "damage")
    largest = _range(model, second) if most is None else check_budget(most, "most")
    first = _unfolded(model, model.damage, second, largest)
    if first[:, model.initial_states].max(axis=1).min() == INFINITE:
        raise Infeasible(
            "no pair of finite budgets suffices at the start"
            + (f" with a second one up to {largest}." if most else ".")
        )
    return BudgetFrontier(mdp=model, first=first)


def _range(mdp: MDP, second: Ints) -> int:
    """The least second budget with which the least first budget suffices in every state."""
    alone = minimal_budget(mdp).of_state
    finite = alone < INFINITE
    if not finite.any():
        return 0
    mdp.with_damage(second)  # raises above 255
    least = _unfolded(mdp, second, mdp.damage, int(alone[finite].max()))
    needed = least[alone[finite], np.flatnonzero(finite)]
    return int(needed[needed < INFINITE].max(initial=0))


def _unfolded(mdp: MDP, paid: Ints, limited: Ints, most: int) -> npt.NDArray[np.int32]:
    """The minimal budget of each state for one damage with 0 … most left of the other, [most + 1, num_states]."""
    rows = most + 1
    require(BYTES_PER_OUTCOME * rows * mdp.num_outcomes, f"{rows:,} budgets of the other damage", "Pass most=.")
    is_over = mdp.is_terminal()[mdp.choice_states()[mdp.outcome_choices()]]
    arrays, _, _ = with_layers(mdp, most, np.where(is_over, 0, limited))
    damage = np.tile(np.where(is_over, 0, paid).astype(np.uint8), rows + 1)
    damage[rows * mdp.num_outcomes :] = 1  # in the last layer the other budget is exceeded: no budget suffices there
    model = MDP(replace(arrays, damage=damage), initial=(np.zeros(1, np.int64), np.ones(1)))
    return minimal_budget(model).of_state[: rows * mdp.num_states].reshape(rows, -1)
