"""A model in a few lines, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from almostsure.model.naming import shown

if TYPE_CHECKING:
    from almostsure.model.mdp import MDP


def summary(mdp: MDP) -> str:
    """Size, damage, rewards, terminal states, start and memory of a model."""
    damaging = int(np.count_nonzero(mdp.damage))
    share = f"{damaging / mdp.num_outcomes:.1%}"
    actions = np.diff(mdp.choice_ptr)
    per_state = f"{actions.min()}" if actions.min() == actions.max() else f"{actions.min()}–{actions.max()}"
    lines = [
        repr(mdp)[1:-1],
        f"  actions    {mdp.num_actions} ({per_state} a state)" + _some_names(mdp.action_names),
        f"  damage     {damaging:,} of the outcomes hurt ({share}), by at most {mdp.max_damage}",
        f"  reward     {mdp.reward.min():g} … {mdp.reward.max():g}",
        f"  terminal   {int(np.count_nonzero(mdp.is_terminal())):,} of the states",
        f"  memory     {mdp.nbytes / 2**20:,.2f} MiB ({mdp.nbytes / mdp.num_outcomes:.1f} bytes an outcome)",
        f"  identity   {mdp.fingerprint[:16]}",
    ]
    return "\n".join(lines)


def _some_names(names: tuple[str, ...] | None) -> str:
    if names is None:
        return ""
    return f": {', '.join(map(shown, names[:6]))}{', …' if len(names) > 6 else ''}"
