"""What to do where no finite budget suffices at the start: limit the number of steps, or accept a stated risk."""

from __future__ import annotations

import numpy as np

from almostsure.budget.minimal import INFINITE, MinimalBudget
from almostsure.budget.solve import minimal_budget
from almostsure.model.mdp import MDP, Ints
from almostsure.policy.explore import OVERSPENT, all_within, explore
from almostsure.wording import counted

STEPS = (100, 1_000)
BUDGETS = (1, 2, 5)
LARGE = 20_000  # outcomes above which computing numbers for an error message would take too long
SWEEPS = 2_000  # for the risks of each budget, for the same reason
CLOSE = 1e-4  # how far apart the bounds of a risk that is shown may be
NAMED = 4  # states


def instead(minimal: MinimalBudget) -> list[str]:
    """Why no finite budget suffices and what would help, one sentence each; none if a budget suffices."""
    mdp = minimal.mdp
    if minimal.smallest_budget() != INFINITE or minimal.cap is not None or mdp.unknown is not None:
        return []
    if mdp.num_outcomes > LARGE:
        return [
            _why(minimal),
            "A number of steps, minimal_budget(mdp, horizon=T), or a stated risk, RiskShield, may help.",
        ]
    return [_why(minimal), *_with_steps(mdp), *_with_risk(mdp)]


def _why(minimal: MinimalBudget) -> str:
    states = forcing(minimal)
    named = "; ".join(minimal.mdp.state_name(s) for s in states[:NAMED].tolist())
    more = f"; and {counted(states.size - NAMED, 'more state')}" if states.size > NAMED else ""
    return f"Under every policy, damage can be forced again and again in {named}{more}{minimal.mdp.origin.if_positive}."


def forcing(minimal: MinimalBudget) -> Ints:
    """The states in which damage is forced for ever.

    These are the reachable states in which every action may do damage and lead to a state for which no finite budget
    suffices.  If there is none, all reachable states for which no finite budget suffices.
    """
    mdp, lost = minimal.mdp, minimal.of_state == INFINITE

    met = np.zeros(mdp.num_states, np.bool_)
    for step in explore(mdp, all_within(mdp, np.full(mdp.num_choices, OVERSPENT)), None):
        met[step.states] = True
    hurts = (mdp.damage > 0) & lost[mdp.successor]
    bad = np.logical_or.reduceat(hurts, mdp.outcome_ptr[:-1].astype(np.int64))
    every = np.logical_and.reduceat(bad, mdp.choice_ptr[:-1].astype(np.int64))
    found = np.flatnonzero(met & lost & every)
    return found if found.size else np.flatnonzero(met & lost)


def _with_steps(mdp: MDP) -> list[str]:
    needs = [minimal_budget(mdp, horizon=steps).smallest_budget() for steps in STEPS]
    if INFINITE in needs:
        return []  # forbidden states cannot be avoided
    shown = " and ".join(f"{need:,} for {steps:,} steps" for need, steps in zip(needs, STEPS, strict=True))
    how = "minimal_budget(mdp, horizon=T), HorizonShield"
    return [f"For a number of steps, a finite budget suffices: {shown} ({how})."]


def _with_risk(mdp: MDP) -> list[str]:
    from almostsure.plan.risk.least import least_risk

    if mdp.origin.uncertain is not None:  # the probabilities are not known
        return []
    bounds = least_risk(mdp, minimal_budget(mdp, cap=BUDGETS[-1]).of_state, BUDGETS[-1], 1e-6, SWEEPS)
    upper, lower = (values[list(BUDGETS)][:, mdp.initial_states] @ mdp.initial_probabilities for values in bounds)
    if (upper - lower).max() > CLOSE:
        return ["Or accept a risk: RiskShield computes how small it can be, which takes a while for this model."]
    risks = upper.tolist()
    if min(risks) >= 1 - 1e-9:
        return ["In the long run every budget is exceeded with certainty, so accepting a risk does not help."]
    shown = ", ".join(f"{risk:.3g} with {k}" for k, risk in zip(BUDGETS, risks, strict=True))
    return [f"Or accept a risk: overspending can be kept as improbable as {shown} (RiskShield)."]
