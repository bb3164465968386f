"""Programs for Storm, and helpers that compare models after a round trip through Storm."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from almostsure import (
    MDP,
    from_transitions,
)

PRISM = """
mdp
const int N;
const double p = 0.25;
label "cliff" = x=2;
label "go" = x=1;
module walk
    x : [-1..N] init 0;
    b : bool init false;
    [go] x>=0 & x<N -> p : (x'=x+1) + 1-p : (x'=x) & (b'=true);
    [] x=0 -> (x'=-1);
    [] x=0 -> (x'=N);
    [stay] x=N -> true;
endmodule
rewards "toll"
    x=1 : 2;
    [go] x=0 : 3;
    [] true : 5;
endrewards
rewards "half"
    x=1 : 0.5;
endrewards
rewards
    [stay] true : 7;
endrewards
"""


def steps(mdp: MDP, name: str) -> set[tuple[str, str, str, float, float, int]]:
    """Every outcome by names: (state, action, next state, probability, reward, damage)."""
    rows = set()
    for c in range(mdp.num_choices):
        state = int(np.searchsorted(mdp.choice_ptr, c, side="right")) - 1
        action = int(mdp.choice_action[c])
        for t, p, r, d in mdp.outcomes(state, action):
            rows.add((mdp.state_name(state), mdp.action_name(action), mdp.state_name(t), p, r, d))
    return {row for row in rows if row[0] == name}


def jani(first: int, second: int, *, gain: int = 0) -> dict[str, Any]:
    """One step from l0 to l1, or back to l0; its two destinations do damage ``first`` and ``second``."""

    def destination(location: str, damage: int) -> dict[str, Any]:
        assignments = [{"ref": "hurt", "value": damage}, {"ref": "gain", "value": gain * (location == "l1")}]
        return {"location": location, "probability": {"exp": 0.5}, "assignments": assignments}

    def transient(name: str) -> dict[str, Any]:
        return {"name": name, "type": "int", "transient": True, "initial-value": 0}

    return {
        "jani-version": 1,
        "name": "step",
        "type": "mdp",
        "actions": [{"name": "go"}],
        "variables": [
            transient("hurt"),
            transient("gain"),
            {"name": "end", "type": "bool", "transient": True, "initial-value": False},
        ],
        "automata": [
            {
                "name": "A",
                "initial-locations": ["l0"],
                "locations": [{"name": "l0"}, {"name": "l1", "transient-values": [{"ref": "end", "value": True}]}],
                "edges": [
                    {
                        "location": "l0",
                        "action": "go",
                        "destinations": [destination("l1", first), destination("l0", second)],
                    },
                    {"location": "l1", "destinations": [{"location": "l1"}]},
                ],
            }
        ],
        "system": {"elements": [{"automaton": "A"}]},
        "properties": [],
    }


@st.composite
def models(draw: st.DrawFn) -> MDP:
    """Every state has actions 0 … k, so that Storm, which numbers actions by first use, keeps their numbers."""
    num_states = draw(st.integers(1, 4))
    state = st.integers(0, num_states - 1)
    width = draw(st.integers(1, 3))
    rows = []
    for s in range(num_states):
        for a in range(width if s == 0 else draw(st.integers(1, width))):
            weights = draw(st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=4))
            for w in weights:
                reward, damage = draw(st.sampled_from([-1.5, 0, 2])), draw(st.sampled_from([0, 1, 9]))
                rows.append((s, a, draw(state), w / sum(weights), reward, damage))
    starts = draw(st.sets(state, min_size=1))
    names = [f"action {i}" for i in range(width)]
    return from_transitions(
        *zip(*rows, strict=True),
        num_states=num_states,
        initial={s: 1 / len(starts) for s in starts},
        action_names=names,
    )


def by_name(mdp: MDP) -> list[tuple[Any, ...]]:
    """Every outcome; other programs number actions in another order, so that only their names can be compared."""
    choice = mdp.outcome_choices()
    actions = [mdp.action_name(a) for a in mdp.choice_action[choice].tolist()]
    columns = (mdp.choice_states()[choice], mdp.successor, mdp.probability, mdp.reward, mdp.damage)
    return sorted(zip(actions, *(column.tolist() for column in columns), strict=True))


RACE = """
mdp
const int N = 3;
formula late = x>=N-1;
module race
    x : [0..N] init 0;
    hot : bool init false;
    [go] x<N -> 0.5 : (x'=x+1) & (hot'=false) + 0.5 : (x'=x+1) & (hot'=true);
    [rest] hot -> (hot'=false);
    [stay] x=N -> true;
endmodule
label "done" = x=N;
rewards "heat"
    hot & x<N : 0.3;
    [go] true : 400;
endrewards
"""
