"""How a model becomes a UMB file, the format that Storm, PRISM and Modest exchange.

What a model has, and where it goes:

- damage and reward: branch rewards ``damage`` and ``reward``, as doubles, the only numbers that Storm reads there;
- actions: choice actions with their names, which Storm shows as choice labels;
- labels: atomic propositions, and with them ``terminal`` for the terminal states;
- reward structures and variables of the file that a model came from: choice rewards and valuations of states;
- an initial distribution: the initial states, and the state annotation ``almostsure/initial-probability``;
- a layout: the state annotation ``almostsure/cell``, and rows, columns and text in the index (``file-data``,
  ``parameters``), with the version of this arrangement and the model's fingerprint;
- names of states: the members of the folder ``almostsure/state-names``.  UMB would have them as a string annotation,
  but Storm 2.0 refuses every file that has one;
- the end and the unknown of a learned model: the atomic propositions ``end`` and ``unknown``, and ``parameters``.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import ModelError
from almostsure.files import atomic_write
from almostsure.model.mdp import MDP, Bools, Floats
from almostsure.model.umb.archive import Path, Writer
from almostsure.model.umb.own import GROUP, NAMES, TOOL, VERSION, keys
from almostsure.model.umb.relay import with_relays
from almostsure.model.umb.valuations import Variables, described, write_variables

COST = "cost"  # the reward of a model that only has costs, positive

DOUBLE = {"type": "double", "size": 64}
INTERVAL = {"type": "double-interval", "size": 128}
INT = {"type": "int", "size": 64}
BIT = {"type": "bool", "size": 1}


def write_umb(mdp: MDP, path: Path, *, relay: bool) -> None:
    """Write a UMB file; :func:`almostsure.model.files.save` says what ``relay`` is."""
    num_states = mdp.num_states
    if relay:
        mdp = with_relays(mdp)
    labels = _labels(mdp, num_states if relay else None)
    rewards = _branch_rewards(mdp, with_cost=relay)
    try:
        index = json.dumps(_index(mdp, labels, rewards), ensure_ascii=False).encode()
        with atomic_write(path) as file:
            _write(Writer(file, TOOL), mdp, index, labels, rewards)
    except UnicodeEncodeError as error:
        raise ModelError(f"names must be valid Unicode text; got {error.object[error.start : error.end]!r}") from None


def _labels(mdp: MDP, before_relays: int | None) -> dict[str, Bools]:
    """All labels of a file: our own, and those of the model, which win where both have a name."""
    number = np.arange(mdp.num_states)
    labels = {"terminal": mdp.is_terminal()}
    if before_relays is not None:
        labels["relay"] = number >= before_relays
    labels |= {role: number == state for role, state in _roles(mdp).items()}
    return labels | dict(mdp.labels)


def _branch_rewards(mdp: MDP, *, with_cost: bool) -> dict[str, npt.NDArray[Any]]:
    """Damage, reward and, for Storm, the reward as a cost: Storm minimises positive numbers only."""
    rewards: dict[str, npt.NDArray[Any]] = {"damage": mdp.arrays.damage, "reward": mdp.arrays.reward}
    taken = mdp.origin is not None and COST in mdp.origin.rewards
    if with_cost and not taken and mdp.reward.max() <= 0 and mdp.reward.min() < 0:
        rewards[COST] = 0.0 - mdp.arrays.reward
    return rewards


def _index(mdp: MDP, labels: dict[str, Bools], rewards: dict[str, npt.NDArray[Any]]) -> dict[str, Any]:
    annotations: dict[str, Any] = {
        "rewards": {name: _annotation("branches", DOUBLE, name) for name in rewards},
        "aps": {key: _annotation("states", BIT, name) for key, name in keys("label", labels)},
    }
    parameters: dict[str, Any] = {"version": VERSION, "fingerprint": mdp.fingerprint, **_roles(mdp)}
    parameters["labels"] = list(mdp.labels)
    if mdp.origin is not None:
        for key, name in keys("reward", mdp.origin.rewards):
            annotations["rewards"][key] = _annotation("choices", DOUBLE, name)
        parameters["origin"] = {
            "rewards": list(mdp.origin.rewards),
            "scale": str(mdp.origin.scale),
            "uncertain": mdp.origin.uncertain,
            "counted": mdp.origin.counted,
            "statement": mdp.origin.statement,
        }
    own = {}
    if _is_uncertain(mdp):
        own["probability"] = _annotation("branches", DOUBLE)
    if mdp.initial_states.size > 1:
        own["initial-probability"] = _annotation("states", DOUBLE)
    if mdp.layout is not None:
        own["cell"] = _annotation("states", INT)
        layout = mdp.layout
        parameters["layout"] = {"rows": layout.rows, "columns": layout.columns, "text": list(layout.text)}
    if own:
        annotations[GROUP] = own
    parameters["state-names"] = mdp.state_names is not None
    return {
        "format-version": 1,
        "format-revision": 0,
        "file-data": {"tool": TOOL, "parameters": parameters},
        "transition-system": {
            "time": "discrete",
            "#players": 1,
            "#states": mdp.num_states,
            "#initial-states": mdp.initial_states.size,
            "#choices": mdp.num_choices,
            "#choice-actions": mdp.num_actions,
            "#branches": mdp.num_outcomes,
            "#branch-actions": 0,
            "#observations": 0,
            "branch-probability-type": INTERVAL if _is_uncertain(mdp) else DOUBLE,
        },
        "annotations": annotations,
        **({"valuations": described(variables)} if (variables := _variables(mdp)) else {}),
    }


def _is_uncertain(mdp: MDP) -> bool:
    return mdp.origin is not None and mdp.origin.uncertain is not None


def _some_probability(mdp: MDP) -> Floats:
    """Intervals that say no more than is known: what is possible has some probability, or none where it may have none.

    Other programs would take numbers for the truth.
    """
    low = np.full(mdp.num_outcomes, 0.0 if mdp.is_bound else np.finfo(np.float64).tiny)
    low[np.diff(mdp.outcome_ptr)[mdp.outcome_choices()] == 1] = 1.0
    return np.column_stack([low, np.ones(low.size)]).ravel()


def _variables(mdp: MDP) -> Variables:
    return {} if mdp.origin is None else mdp.origin.variables


def _annotation(where: str, kind: dict[str, Any], alias: str | None = None) -> dict[str, Any]:
    entry = {"applies-to": [where], "type": kind}
    return entry if alias is None else {"alias": alias, **entry}


def _write(
    writer: Writer, mdp: MDP, index: bytes, labels: dict[str, Bools], rewards: dict[str, npt.NDArray[Any]]
) -> None:
    arrays = mdp.arrays
    is_initial = np.zeros(mdp.num_states, np.bool_)
    is_initial[mdp.initial_states] = True
    writer.text("index.json", index)
    writer.bits("state-is-initial.bin", is_initial)
    writer.array("state-to-choices.bin", arrays.choice_ptr, "<u8")
    writer.array("choice-to-branches.bin", arrays.outcome_ptr, "<u8")
    writer.array("branch-to-target.bin", arrays.successor, "<u8")
    if _is_uncertain(mdp):
        writer.array("branch-to-probability.bin", _some_probability(mdp), "<f8")
    else:
        writer.array("branch-to-probability.bin", arrays.probability, "<f8")
    writer.array("actions/choices/values.bin", arrays.choice_action, "<u4")
    if mdp.action_names is not None:
        writer.strings("actions/choices", mdp.action_names)
    for name, values in rewards.items():
        writer.array(f"annotations/rewards/{name}/branches/values.bin", values, "<f8")
    for key, name in keys("label", labels):
        writer.bits(f"annotations/aps/{key}/states/values.bin", labels[name])
    _write_own(writer, mdp)
    writer.finish()


def _roles(mdp: MDP) -> dict[str, int]:
    found = {"end": mdp.end, "unknown": mdp.unknown}
    return {role: state for role, state in found.items() if state is not None}


def _write_own(writer: Writer, mdp: MDP) -> None:
    """What UMB has no place for."""
    if _is_uncertain(mdp):
        writer.array(f"annotations/{GROUP}/probability/branches/values.bin", mdp.probability, "<f8")
    if mdp.initial_states.size > 1:
        dense = np.zeros(mdp.num_states)
        dense[mdp.initial_states] = mdp.initial_probabilities
        writer.array(f"annotations/{GROUP}/initial-probability/states/values.bin", dense, "<f8")
    if mdp.layout is not None:
        writer.array(f"annotations/{GROUP}/cell/states/values.bin", mdp.layout.cell, "<i8")
    if mdp.state_names is not None:
        writer.strings(NAMES, mdp.state_names)
    if mdp.origin is not None:
        for key, name in keys("reward", mdp.origin.rewards):
            writer.array(f"annotations/rewards/{key}/choices/values.bin", mdp.origin.rewards[name], "<f8")
    if variables := _variables(mdp):
        write_variables(writer, variables)
