"""A policy as a table that people read."""

from __future__ import annotations

import numpy as np

from almostsure.policy.policy import Policy

MOST_STATES = 24
MOST_LAYERS = 8
NOTHING = "·"


def table(policy: Policy) -> str:
    """One row a state, one column a remaining budget; large policies are cut short, and say so."""
    mdp = policy.mdp
    states, layers = range(min(mdp.num_states, MOST_STATES)), _shown_layers(policy)
    names = [mdp.state_name(state) for state in states]
    head = ["state", *(_title(policy, layer) for layer in layers)]
    body = [[name, *(_cell(policy, s, layer) for layer in layers)] for s, name in zip(states, names, strict=True)]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *body]
    ]
    if mdp.num_states > MOST_STATES:
        lines.append(f"… and {mdp.num_states - MOST_STATES:,} more states")
    return "\n".join([repr(policy)[1:-1], *lines])


def _shown_layers(policy: Policy) -> list[int]:
    """All layers, or the lowest ones, the top one and the one for an overspent budget."""
    count = policy.num_layers
    if count <= MOST_LAYERS:
        return list(range(count))
    last = {policy.total, count - 1} - {None}
    kept = list(range(MOST_LAYERS - len(last)))
    return kept + sorted(x for x in last if x is not None)


def _title(policy: Policy, layer: int) -> str:
    if policy.total is None:
        return "plays"
    return "overspent" if layer > policy.total else f"{layer} left"


def _cell(policy: Policy, state: int, layer: int) -> str:
    mdp, shares = policy.mdp, policy.shares(state, layer)
    choices = mdp.choices(state)
    rests = 0.0 if policy.rest is None else float(policy.rest.probability[layer, state])
    parts = [
        mdp.action_name(int(mdp.choice_action[choices.start + at])) + _share(float(shares[at]) * (1 - rests))
        for at in np.flatnonzero(shares * (1 - rests))
    ]
    if rests:
        parts.append("rest" + _share(rests))
    return ", ".join(parts) or NOTHING


def _share(share: float) -> str:
    return "" if share == 1 else f" {share:.3g}"
