"""Writing a model to a UMB file, the exchange format of Storm, PRISM and Modest.

The parts of a model are stored as follows:

- damage and reward: branch rewards ``damage`` and ``reward``, as doubles, since Storm only reads doubles there;
- actions: choice actions with their names, which Storm shows as choice labels;
- labels: atomic propositions, with ``terminal`` for the terminal states;
- reward structures and variables of the original file: choice rewards and valuations of states;
- an initial distribution: the initial states, and the state annotation ``almostsure/initial-probability``;
- a layout: the state annotation ``almostsure/cell``, and rows, columns and text in the index (``file-data``,
  ``parameters``), with the version of this format and the model's fingerprint;
- names of states: the members of the folder ``almostsure/state-names``.  In UMB they would be a string annotation, but
  Storm 2.0 refuses files that have one;
- the end and the unknown of a learned model: the atomic propositions ``end`` and ``unknown``, and ``parameters``;
- whether names are those of a log, in alphabetical order: ``parameters``.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.errors import ModelError
from almostsure.files import atomic_write
from almostsure.model.mdp import MDP, Bools, Floats
from almostsure.model.naming import Logged
from almostsure.model.umb.archive import Path, Writer
from almostsure.model.umb.own import GROUP, NAMES, TOOL, VERSION, keys
from almostsure.model.umb.relay import with_relays
from almostsure.model.umb.valuations import described, write_variables

COST = "cost"  # the negated reward of a model without positive rewards

DOUBLE = {"type": "double", "size": 64}
INTERVAL = {"type": "double-interval", "size": 128}
INT = {"type": "int", "size": 64}
BIT = {"type": "bool", "size": 1}


def write_umb(mdp: MDP, path: Path, *, relay: bool) -> None:
    """Write a UMB file; for ``relay`` see :func:`almostsure.model.files.save`."""
    num_states = mdp.num_states
    if relay:
        mdp = with_relays(mdp)
    annotations = _annotations(mdp, num_states if relay else None)
    try:
        index = json.dumps(_index(mdp, annotations), ensure_ascii=False).encode()
        with atomic_write(path) as file:
            _write(Writer(file, TOOL), mdp, index, annotations)
    except UnicodeEncodeError as error:
        raise ModelError(f"names must be valid Unicode text; got {error.object[error.start : error.end]!r}") from None


class WrittenAnnotation(NamedTuple):
    """Values of states, choices or branches, with their entry in the index and their member."""

    group: str
    key: str
    where: str
    kind: dict[str, Any]
    values: npt.NDArray[Any]
    alias: str | None = None

    def described(self) -> dict[str, Any]:
        """The entry of the index."""
        entry = {"applies-to": [self.where], "type": self.kind}
        return entry if self.alias is None else {"alias": self.alias, **entry}

    def write(self, writer: Writer) -> None:
        """Add the member."""
        name = f"annotations/{self.group}/{self.key}/{self.where}/values.bin"
        if self.kind is BIT:
            writer.bits(name, self.values)
        else:
            writer.array(name, self.values, "<i8" if self.kind is INT else "<f8")


def _annotations(mdp: MDP, before_relays: int | None) -> list[WrittenAnnotation]:
    """Rewards, labels, and data that UMB has no other place for."""
    labels, rewards = _labels(mdp, before_relays), _branch_rewards(mdp, with_cost=before_relays is not None)
    found = [WrittenAnnotation("rewards", name, "branches", DOUBLE, values, name) for name, values in rewards.items()]
    found += [WrittenAnnotation("aps", key, "states", BIT, labels[name], name) for key, name in keys("label", labels)]
    for key, name in keys("reward", mdp.origin.rewards):
        found.append(WrittenAnnotation("rewards", key, "choices", DOUBLE, mdp.origin.rewards[name], name))
    if _is_uncertain(mdp):
        found.append(WrittenAnnotation(GROUP, "probability", "branches", DOUBLE, mdp.probability))
    if mdp.initial_states.size > 1:
        dense = np.zeros(mdp.num_states)
        dense[mdp.initial_states] = mdp.initial_probabilities
        found.append(WrittenAnnotation(GROUP, "initial-probability", "states", DOUBLE, dense))
    if mdp.layout is not None:
        found.append(WrittenAnnotation(GROUP, "cell", "states", INT, mdp.layout.cell))
    return found


def _labels(mdp: MDP, before_relays: int | None) -> dict[str, Bools]:
    """All labels of a file: our own and those of the model, which take precedence."""
    number = np.arange(mdp.num_states)
    labels = {"terminal": mdp.is_terminal()}
    if before_relays is not None:
        labels["relay"] = number >= before_relays
    labels |= {role: number == state for role, state in _roles(mdp).items()}
    return labels | dict(mdp.labels)


def _branch_rewards(mdp: MDP, *, with_cost: bool) -> dict[str, npt.NDArray[Any]]:
    """Damage, reward and, for Storm, the reward as a cost, since Storm only minimises positive rewards."""
    rewards: dict[str, npt.NDArray[Any]] = {"damage": mdp.arrays.damage, "reward": mdp.arrays.reward}
    if with_cost and COST not in mdp.origin.rewards and mdp.reward.max() <= 0 and mdp.reward.min() < 0:
        rewards[COST] = 0.0 - mdp.arrays.reward
    return rewards


def _index(mdp: MDP, annotations: list[WrittenAnnotation]) -> dict[str, Any]:
    groups: dict[str, dict[str, Any]] = {}
    for one in annotations:
        groups.setdefault(one.group, {})[one.key] = one.described()
    variables = mdp.origin.variables
    return {
        "format-version": 1,
        "format-revision": 0,
        "file-data": {"tool": TOOL, "parameters": _parameters(mdp)},
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
        "annotations": groups,
        **({"valuations": described(variables)} if variables else {}),
    }


def _parameters(mdp: MDP) -> dict[str, Any]:
    """The entries of the index that only this package reads."""
    result: dict[str, Any] = {"version": VERSION, "fingerprint": mdp.fingerprint, **_roles(mdp)}
    result |= {"labels": list(mdp.labels), "state-names": mdp.state_names is not None}
    kept = {name: getattr(mdp.origin, name) for name in ("uncertain", "counted", "statement")}
    result["origin"] = {"rewards": list(mdp.origin.rewards), "scale": str(mdp.origin.scale), **kept}
    if isinstance(mdp.encode, Logged):
        result["logged"] = {"states": mdp.encode.names_states, "actions": mdp.encode.names_actions}
    if mdp.layout is not None:
        result["layout"] = {"rows": mdp.layout.rows, "columns": mdp.layout.columns, "text": list(mdp.layout.text)}
    return result


def _is_uncertain(mdp: MDP) -> bool:
    return mdp.origin.uncertain is not None


def _some_probability(mdp: MDP) -> Floats:
    """Intervals instead of unknown probabilities, so that other programs do not take numbers for the true ones.

    The lower bounds are positive, or 0 if outcomes may be impossible.
    """
    low = np.full(mdp.num_outcomes, 0.0 if mdp.origin.is_bound else np.finfo(np.float64).tiny)
    low[np.diff(mdp.outcome_ptr)[mdp.outcome_choices()] == 1] = 1.0
    return np.column_stack([low, np.ones(low.size)]).ravel()


def _roles(mdp: MDP) -> dict[str, int]:
    found = {"end": mdp.end, "unknown": mdp.unknown}
    return {role: state for role, state in found.items() if state is not None}


def _write(writer: Writer, mdp: MDP, index: bytes, annotations: list[WrittenAnnotation]) -> None:
    arrays = mdp.arrays
    is_initial = np.zeros(mdp.num_states, np.bool_)
    is_initial[mdp.initial_states] = True
    writer.text("index.json", index)
    writer.bits("state-is-initial.bin", is_initial)
    writer.array("state-to-choices.bin", arrays.choice_ptr, "<u8")
    writer.array("choice-to-branches.bin", arrays.outcome_ptr, "<u8")
    writer.array("branch-to-target.bin", arrays.successor, "<u8")
    probability = _some_probability(mdp) if _is_uncertain(mdp) else arrays.probability
    writer.array("branch-to-probability.bin", probability, "<f8")
    writer.array("actions/choices/values.bin", arrays.choice_action, "<u4")
    if mdp.action_names is not None:
        writer.strings("actions/choices", mdp.action_names)
    for one in annotations:
        one.write(writer)
    if mdp.state_names is not None:
        writer.strings(NAMES, mdp.state_names)
    if mdp.origin.variables:
        write_variables(writer, mdp.origin.variables)
    writer.finish()
