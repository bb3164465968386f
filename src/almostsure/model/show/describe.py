"""``summary``: a description of a model in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from almostsure.model.naming import shown

if TYPE_CHECKING:
    from almostsure.model.mdp import MDP


def summary(mdp: MDP) -> str:
    """Size, damage, rewards, terminal states, start and memory of a model."""
    return "\n".join([repr(mdp)[1:-1], *(f"  {name:<10} {value}" for name, value in facts(mdp))])


def facts(mdp: MDP) -> list[tuple[str, str]]:
    """The lines of the summary as pairs of a name and a value."""
    damaging = int(np.count_nonzero(mdp.damage))
    actions = np.diff(mdp.choice_ptr)
    per_state = f"{actions.min()}" if actions.min() == actions.max() else f"{actions.min()}–{actions.max()}"
    names = mdp.action_names or ()
    some = ", ".join([*map(shown, names[:6]), *["…"] * (len(names) > 6)])
    share = f"{damaging / mdp.num_outcomes:.1%}"
    return [
        *([] if mdp.initial_states.size == 1 else [("start", _starts(mdp))]),
        ("actions", f"{mdp.num_actions} ({per_state} per state)" + (some and f": {some}")),
        ("damage", f"{damaging:,} of the outcomes ({share}), at most {mdp.max_damage} each"),
        ("reward", f"{mdp.reward.min():g} … {mdp.reward.max():g}"),
        ("terminal", f"{int(np.count_nonzero(mdp.is_terminal())):,} of the states"),
        ("memory", f"{mdp.nbytes / 2**20:,.2f} MiB ({mdp.nbytes / mdp.num_outcomes:.1f} bytes per outcome)"),
        ("identity", mdp.fingerprint[:16]),
    ]


def _starts(mdp: MDP) -> str:
    """Several initial states and their probabilities, as text."""
    least, most = mdp.initial_probabilities.min(), mdp.initial_probabilities.max()
    likely = "each as likely" if most - least < 1e-9 else f"with probabilities {least:.3g} … {most:.3g}"
    count = mdp.initial_states.size
    names = [*(shown(mdp.state_name(state)) for state in mdp.initial_states[:3].tolist()), *["…"] * (count > 3)]
    return f"one of {count:,} states, {likely}: {'; '.join(names)}"
