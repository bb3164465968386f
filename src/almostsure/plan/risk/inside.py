"""The model inside a risk shield: every policy of it keeps the risk, so any learner or solver can be used on it.

Its states are (s, K, c), where ρ = p̄ + (1 − p̄) c is the remaining risk.  In these terms an allowed action leads to
c' = (ρ − q̄)/(1 − q̄), and c' ≥ c for an action with q̄ ≤ p̄: careful actions cost nothing.  So c is rounded down to one
of finitely many shares of its initial value, except that careful actions leave it unchanged.  Rounding down keeps the
theorem of :mod:`almostsure.plan.risk.shield`.  Once overspent, everything is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from almostsure.arguments import count
from almostsure.errors import ArgumentError
from almostsure.memory import require
from almostsure.model.arrays import spans
from almostsure.model.build.transitions import BYTES_PER_OUTCOME, build
from almostsure.model.mdp import MDP, Floats, Ints

if TYPE_CHECKING:
    from almostsure.plan.risk.shield import RiskShield

SAFELY = 1 - 1e-12  # more than rounding can add to a share


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Risked:
    """A model whose states are (state, remaining, risk) of another one."""

    mdp: MDP
    states: Ints  # [mdp.num_states] the other model's state
    remaining: Ints  # [mdp.num_states] the remaining budget; −1 once overspent
    risk: Floats  # [mdp.num_states] the remaining risk

    def outcomes(self, of: MDP) -> Ints:
        """The outcome of the other model, ``of``, that each outcome stands for, [mdp.num_outcomes]."""
        inside = self.mdp
        owner = self.states[inside.choice_states()]
        found = of.find_choices(owner, inside.choice_action)
        choices = np.where(found < 0, of.choice_ptr[owner], found)  # in terminal states, actions need not agree
        theirs = np.lexsort((of.reward, of.damage, of.successor, of.outcome_choices()))
        ours = np.lexsort((inside.reward, inside.damage, self.states[inside.successor], inside.outcome_choices()))
        result = np.empty(inside.num_outcomes, np.int64)
        result[ours] = theirs[spans(of.outcome_ptr, choices)[0]]
        return result

    def __repr__(self) -> str:
        return f"<Risked: mdp {repr(self.mdp)[6:-1]}; .states, .remaining and .risk describe its states>"


def restrict(shield: RiskShield, levels: int) -> Risked:
    """See :meth:`almostsure.RiskShield.restrict`."""
    levels = count("levels", levels)
    if shield.horizon is not None:
        raise ArgumentError("a shield with a horizon has no restricted model; make one for product(mdp, Steps(T))")
    return _Search(shield, levels).model()


class _Search:
    """Breadth-first search through (state, remaining, level), frontier by frontier."""

    def __init__(self, shield: RiskShield, levels: int) -> None:
        self.shield, self.mdp, self.levels = shield, shield.mdp, levels
        self.over = shield.mdp.is_terminal()
        starts, left, risks, *_ = shield.begin(shield.mdp.initial_states.astype(np.int64))
        least = shield.least_risks(starts, left)
        self.starts = self._code(starts, left, np.full(starts.size, levels))
        with np.errstate(invalid="ignore"):
            shares = np.where(least < 1, (risks - least) / (1 - least), 1.0)
        self.most = 1.0 if shield.risk >= 1 else float(max(shares.min(), 0.0) * SAFELY)  # the same at every start

    def model(self) -> Risked:
        """The model on the reachable (state, remaining, level)."""
        frontier, known, columns = self.starts, self.starts, []
        while frontier.size:
            rows, target = self._expand(frontier)
            columns.append((*rows, target))
            frontier = np.setdiff1d(target, known)
            known = np.union1d(known, frontier)
            require(sum(c[0].size for c in columns) * BYTES_PER_OUTCOME, "the restricted model", "Use fewer levels.")
        source, outcome, target = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        return self._built(known, source, outcome, target)

    def _expand(self, frontier: Ints) -> tuple[tuple[Ints, Ints], Ints]:
        """All outcomes of allowed actions from a frontier: sources and outcomes, and the targets."""
        mdp, shield = self.mdp, self.shield
        state, left, level = self._decode(frontier)
        goes_on = ~self.over[state]
        choice, owner = spans(mdp.choice_ptr, state[goes_on])
        owner = np.flatnonzero(goes_on)[owner]
        used, least = shield.risks_of_choices(left[owner], choice), shield.least_risks(state, left)[owner]
        risk = self._risk(least, level[owner])
        kept = (used <= risk) | (left[owner] < 0)
        choice, owner = choice[kept], owner[kept]
        used, least, risk = used[kept], least[kept], risk[kept]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(used < 1, (risk - used) / (1 - used), 1.0)
        down = np.floor(np.minimum(share / max(self.most, 1e-300), 1.0) * self.levels * SAFELY).astype(np.int64)
        after_level = np.where((used <= least) | (risk >= 1), level[owner], np.minimum(down, level[owner]))
        outcome, of = spans(mdp.outcome_ptr, choice)
        ahead = left[owner][of] - mdp.damage[outcome]
        target = self._code(mdp.successor[outcome].astype(np.int64), ahead, after_level[of])
        return (frontier[owner][of], outcome), target

    def _built(self, known: Ints, source: Ints, outcome: Ints, target: Ints) -> Risked:
        mdp = self.mdp
        state, left, level = self._decode(known)
        choice = mdp.outcome_choices()[outcome]
        at = np.searchsorted(known, self.starts).tolist()
        risk = np.where(left < 0, 1.0, self._risk(self.shield.least_risks(state, left), level))
        shown = zip(state.tolist(), left.tolist(), level.tolist(), strict=True)
        small = build(
            [np.searchsorted(known, source), mdp.choice_action[choice], np.searchsorted(known, target),
             mdp.probability[outcome], mdp.reward[outcome], mdp.damage[outcome]],
            num_states=known.size,
            terminal=np.flatnonzero(self.over[state]).tolist(),
            initial=dict(zip(at, mdp.initial_probabilities.tolist(), strict=True)),
            state_names=[
                f"{mdp.state_name(s)} @{k} ρ{j}/{self.levels}" if k >= 0 else f"{mdp.state_name(s)} overspent"
                for s, k, j in shown
            ],
            action_names=mdp.action_names,
        )  # fmt: skip
        return Risked(mdp=small, states=state, remaining=left, risk=risk)

    # ------------------------------------------------------------------ states as numbers

    def _code(self, state: Ints, left: Ints, level: Ints) -> Ints:
        """(state, remaining, level) as one number; terminal or overspent, the level is 0."""
        none = (left < 0) | self.over[state]
        row = (np.maximum(left, -1) + 1) * (self.levels + 1) + np.where(none, 0, level)
        return row * self.mdp.num_states + state

    def _decode(self, code: Ints) -> tuple[Ints, Ints, Ints]:
        row, state = np.divmod(code, self.mdp.num_states)
        left, level = np.divmod(row, self.levels + 1)
        return state, left - 1, level

    def _risk(self, least: Floats, level: Ints) -> Floats:
        """ρ = p̄ + (1 − p̄) c, rounded down but never below p̄; p̄ at level 0."""
        extra = (1 - least) * (self.most * level / self.levels)
        return np.where(level == 0, least, np.where(self.most >= 1, 1.0, np.maximum(least + extra * SAFELY, least)))
