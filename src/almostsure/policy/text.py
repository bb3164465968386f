"""A policy as text: a table, and HTML for notebooks."""

from __future__ import annotations

import numpy as np

from almostsure.model.mdp import MDP, Floats
from almostsure.model.show.html import card, text_map
from almostsure.model.show.html import table as html_table
from almostsure.policy.policy import Policy
from almostsure.wording import counted

MOST_STATES = 24
MOST_LAYERS = 8
MOST_DRAWN = 10_000  # states of a map
NOTHING = "·"
ARROWS = {"north": "↑", "up": "↑", "east": "→", "right": "→", "south": "↓", "down": "↓", "west": "←", "left": "←"}


def table(policy: Policy) -> str:
    """One row per state, one column per remaining budget; large tables are cut, with a note."""
    head, body, more = _content(policy)
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *body]
    ]
    return "\n".join([repr(policy)[1:-1], *lines, *([more] if more else [])])


def policy_card(policy: Policy) -> str:
    """The same as HTML, for notebooks, with the map if it is small enough."""
    head, body, more = _content(policy)
    return card("Policy", [("kind", policy.description())], html_table(head, body, more), policy_map(policy))


def policy_map(policy: Policy) -> str:
    """The actions played with the whole budget, on the map, as HTML; empty without a map, or if it is too large."""
    mdp = policy.mdp
    if mdp.layout is None or mdp.num_states > MOST_DRAWN:
        return ""
    label = "what is played" + ("" if policy.budget is None else f" with {policy.budget} left")
    return text_map(mdp, signs(policy, policy.budget), label)


def signs(policy: Policy, remaining: int | None) -> list[str]:
    """A short text for each state: the action played there with this remaining budget."""
    mdp, layer, idle = policy.mdp, policy.layer(remaining, policy.horizon), policy.mdp.is_terminal()
    return ["" if idle[s] else _sign(mdp, policy.shares(s, layer), s) for s in range(mdp.num_states)]


def _sign(mdp: MDP, shares: Floats, state: int) -> str:
    """An arrow for a direction, the beginning of the name of any other action, ? if it is random."""
    played = np.flatnonzero(shares)
    if played.size != 1:
        return "?" if played.size else NOTHING
    name = mdp.action_name(int(mdp.actions(state)[played[0]]))
    return ARROWS.get(name.lower(), name[:2])


def _content(policy: Policy) -> tuple[list[str], list[list[str]], str]:
    """The head and the rows of the table, and a note about what it leaves out."""
    mdp = policy.mdp
    states, layers = range(min(mdp.num_states, MOST_STATES)), _shown_layers(policy)
    head = ["state", *(_title(policy, layer) for layer in layers)]
    body = [[mdp.state_name(s), *(_cell(policy, s, layer) for layer in layers)] for s in states]
    cut = {"more state": mdp.num_states - len(states), "more column": policy.layers_per_block - len(layers)}
    more = ", ".join(counted(number, what) for what, number in cut.items() if number)
    return head, body, f"… and {more}" if more else ""


def _shown_layers(policy: Policy) -> list[int]:
    """All layers, or the lowest ones, the top one and that for an overspent budget; of a horizon those at its start."""
    first = policy.layer(0, policy.horizon)
    count = policy.layers_per_block
    if count <= MOST_LAYERS:
        return list(range(first, first + count))
    last = {policy.budget, count - 1} - {None}
    kept = list(range(MOST_LAYERS - len(last)))
    return [first + x for x in kept + sorted(x for x in last if x is not None)]


def _title(policy: Policy, layer: int) -> str:
    if policy.budget is None:
        return "plays"
    row = layer % policy.layers_per_block
    return "overspent" if row > policy.budget else f"{row} left"


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
