"""Saving and loading models as UMB files, the format that Storm, PRISM and Modest exchange.

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

A file is read, validated and compared with its checksum (the seal of :mod:`almostsure.model.umb.archive`) and the
fingerprint stored in it when it is loaded; the model keeps no hold on it, and no part of it is mapped.  Files of our
own hold their outcomes in canonical order; those of other programs are sorted.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import FileError, ModelError
from almostsure.files import HTML, MAPS, STORM, TENSORS, atomic_write, give_back, tensors_kind
from almostsure.model.mdp import MDP, Bools, Floats
from almostsure.model.storm.drn import write_drn
from almostsure.model.umb.archive import Path, Writer
from almostsure.model.umb.foreign import Roles, Scale, to_mdp
from almostsure.model.umb.index import Umb
from almostsure.model.umb.own import GROUP, NAMES, TOOL, VERSION, keys, parameters_of, read_own
from almostsure.model.umb.relay import with_relays
from almostsure.model.umb.valuations import Variables, described, write_variables

WRITTEN = (".umb", ".drn")  # endings of models that can be written
COST = "cost"  # the reward of a model that only has costs, positive

DOUBLE = {"type": "double", "size": 64}
INTERVAL = {"type": "double-interval", "size": 128}
INT = {"type": "int", "size": 64}
BIT = {"type": "bool", "size": 1}


def save(mdp: MDP, path: Path, *, relay: bool = False) -> None:
    """Write a model to a UMB or DRN file, atomically: after a failure the old file is untouched.

    Parameters
    ----------
    mdp
        The model.
    path
        Where to write; the name ends in ``.umb``, or in ``.drn`` for Storm's text format, which keeps damage, reward,
        labels and reward structures (see :mod:`almostsure.model.storm.drn`), but no names of states.
    relay
        Storm refuses a choice with two outcomes that have the same successor but different rewards or damages.
        With ``relay``, all but the first of them pass through relay states: damage and reward are taken on the
        way into the relay, and one more step without either leads on to the successor.  The relays are appended
        after the model's states and carry the atomic proposition ``relay``; loading the file gives the model
        *with* its relays.  Budgets and returns of the other states are the same, numbers of steps are not.
        Where no reward is positive, the file also has the reward ``cost``, their opposite, for Storm to minimise.

    See Also
    --------
    load : The way back.
    """
    _check_written(path)
    if relay or os.fspath(path).lower().endswith(WRITTEN[1]):
        mdp.require_probabilities("a model for Storm")
    if os.fspath(path).lower().endswith(WRITTEN[1]):
        with atomic_write(path) as file:
            write_drn(mdp, file)
        return
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


def load(
    path: Path,
    *,
    damage: str = "damage",
    reward: str | None = "reward",
    cost: str | None = None,
    goal: str | None = None,
    scale: Scale | None = None,
) -> MDP:
    """Load a model from a UMB file.

    A file written by :func:`save` comes back exactly, with names, labels, layout, end and unknown.  Any other Markov
    chain or decision process in UMB is read too.  Its rewards count as in PRISM: a state's on every step out of it, a
    choice's or branch's on that step.  Valuations become names of states, choices without an action are named
    ``choice 0``, ``choice 1``, …, states without choices become terminal, and several initial states are taken as
    equally likely.

    Parameters
    ----------
    path
        The file, plain or compressed by gzip or xz.  The other parameters are for files of other programs.
    damage
        The reward structure that counts as damage.  Where there is none of that name, it may also name a label (each
        step that ends in a labelled state hurts once) or an action (each step by it hurts once); ``label:name``,
        ``reward:name`` and ``action:name`` make clear which is meant.  ``enters:name`` counts the steps into labelled
        states from others only.
    reward, cost
        The reward structure that policies maximise (None for none; without one called ``reward``, and unless you ask
        for another, all rewards are 0), and one that they keep small: it is subtracted.  ``steps`` costs 1 per step.
    goal, scale
        A label: where it holds, the run ends; and the unit of damage, see :func:`almostsure.from_prism`.

    Raises
    ------
    CorruptFile
        The file is truncated, damaged, hostile or not a UMB file.
    UnknownName
        The file has no such damage or reward; the message lists what it has.

    Examples
    --------
    >>> from almostsure import example
    >>> example("paper").save("paper.umb")
    >>> load("paper.umb") == example("paper")
    True
    """
    _check_ending(path)
    mdp = _loaded(path, Roles(damage, reward, cost, goal, scale))
    give_back(mdp.nbytes)
    return mdp


def _loaded(path: Path, roles: Roles) -> MDP:
    umb = Umb(path)
    parameters = parameters_of(umb)
    if parameters is not None:
        if roles != Roles("damage", "reward"):
            leave = "Leave out damage=, reward=, cost=, goal= and scale=."
            raise ModelError(f"{umb.shown}: a saved model has its own damage and reward. {leave}")
        return read_own(umb, parameters)
    if roles.reward == "reward" and "reward" not in umb.names("reward"):
        roles = roles._replace(reward=None)
    if roles.damage in umb.names("reward"):
        roles = roles._replace(damage=f"reward:{roles.damage}")
    return to_mdp(umb, roles.checked())


def _check_ending(path: Path) -> None:
    """Send files of other kinds to their readers; everything else may be a UMB file, whatever its name."""
    name = os.fspath(path).lower()
    if name.endswith(STORM):
        raise FileError(
            f"{os.fspath(path)} must be read with from_prism(path, damage=…), as it does not say what damage is.",
            path=path,
        )
    if name.endswith(MAPS):
        raise FileError(f"{os.fspath(path)} must be read with from_map(Path(…)), if it is a map.", path=path)
    if (kind := tensors_kind(path)) is not None:
        reader = f"{'MinimalBudget' if kind == 'budget' else kind.capitalize()}.load(path, mdp)"
        raise FileError(f"{os.fspath(path)} holds a {kind}, not a model. Read it with {reader}.", path=path)


def _check_written(path: Path) -> None:
    """Keep a model from taking the place of a program, a map or a policy."""
    name = os.fspath(path).lower()
    if name.endswith((*STORM, *MAPS, *TENSORS, *HTML)) and not name.endswith(WRITTEN):
        raise FileError(
            f"cannot write {os.fspath(path)!r}: a file of that ending holds something else. "
            f"The name of a written model ends in {' or '.join(WRITTEN)}.",
            path=path,
        )


# ---------------------------------------------------------------------- writing


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
