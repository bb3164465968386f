"""Reading UMB files that :func:`almostsure.model.files.save` wrote: the model is restored exactly."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from almostsure.errors import FileError, ModelError
from almostsure.model.arrays import CHUNK
from almostsure.model.build.validate import MAX_DAMAGE, are_damages
from almostsure.model.layout import Layout
from almostsure.model.mdp import MDP, Arrays, Floats, Ints, action_dtype, index_dtype
from almostsure.model.naming import Logged
from almostsure.model.origin import Origin
from almostsure.model.umb.archive import Archive
from almostsure.model.umb.index import Umb

TOOL = "almostsure"
VERSION = 1
GROUP = "almostsure"
NAMES = "almostsure/state-names"


def keys(kind: str, names: Iterable[str]) -> list[tuple[str, str]]:
    """The key of each name in the archive: the name itself if it is simple, otherwise the kind and a number."""
    simple = re.compile(r"[a-z_][a-z0-9_]*")  # no hyphen, so that no name is like a kind with a number
    return [(name if simple.fullmatch(name) else f"{kind}-{at}", name) for at, name in enumerate(names)]


def parameters_of(umb: Umb) -> dict[str, Any] | None:
    """The parameters that ``save`` wrote into the index; None for files of other programs."""
    # Two marks, so that a file with one of them corrupted is not taken for that of another program.
    if TOOL not in umb.archive.owners and umb.index.tool != TOOL:
        return None
    if not umb.archive.sealed:
        umb.archive.fail("it is damaged or was changed: the checksum of almostsure at its end is missing")
    parameters = umb.index.parameters
    if not isinstance(parameters, dict) or not isinstance(parameters.get("version"), int):
        umb.archive.fail("the index must have the version and fingerprint of almostsure")
    if parameters["version"] > VERSION:
        raise FileError(
            f"{umb.shown}: the file was written by a newer almostsure (file version {parameters['version']}; this one "
            f"reads up to {VERSION}). Update almostsure.",
            path=umb.shown,
        )
    return parameters


def read_own(umb: Umb, parameters: dict[str, Any]) -> MDP:
    """The model that ``save`` wrote, validated and compared with its fingerprint."""
    umb.archive.expect("actions/choices/values.bin", "<u4", umb.sizes.choices)  # optional in files of other programs
    actions, action_names = umb.actions()
    try:
        mdp = MDP(
            _arrays(umb, actions),
            initial=_initial(umb),
            state_names=umb.archive.strings(NAMES, umb.sizes.states) if parameters.get("state-names") else None,
            action_names=action_names,
            layout=_layout(umb, parameters.get("layout")),
            encode=_logged(umb, parameters.get("logged")),
            end=parameters.get("end"),
            unknown=parameters.get("unknown"),
            labels={str(name): umb.label(str(name)) for name in parameters.get("labels", ())},
            origin=_origin(umb, parameters.get("origin")),
        )
    except (ModelError, TypeError) as error:
        umb.archive.fail(str(error).removesuffix("."))
    if mdp.fingerprint != parameters.get("fingerprint"):
        umb.archive.fail("the contents do not have the fingerprint that was stored with them")
    return mdp


def _logged(umb: Umb, noted: Any) -> Logged | None:
    if noted is None:
        return None
    if not isinstance(noted, dict) or not all(isinstance(noted.get(kind), bool) for kind in ("states", "actions")):
        umb.archive.fail("the index must say whether states and actions have the names of a log")
    return Logged(encode=None, names_states=noted["states"], names_actions=noted["actions"])


def _origin(umb: Umb, noted: Any) -> Origin:
    if noted is None:
        return Origin()
    try:
        rewards, scale = list(noted["rewards"]), Fraction(noted["scale"])
        uncertain, counted, statement = noted["uncertain"], noted["counted"], noted["statement"]
    except (TypeError, KeyError, ValueError, ZeroDivisionError):
        umb.archive.fail("the origin in the index must have rewards, scale, uncertain, counted and statement")
    members = {name: f"annotations/rewards/{key}/choices/values.bin" for key, name in keys("reward", rewards)}
    return Origin(
        rewards={name: umb.archive.array(at, "<f8", umb.sizes.choices) for name, at in members.items()},
        variables=umb.variables,
        scale=scale,
        uncertain=uncertain,
        counted=counted is True,
        statement=str(statement),
    )


def _values(reward: str) -> str:
    return f"annotations/rewards/{reward}/branches/values.bin"


def _initial(umb: Umb) -> tuple[Ints, Floats]:
    states = np.flatnonzero(umb.is_initial())
    if states.size == 1:
        return states, np.ones(1)
    dense = umb.archive.array(f"annotations/{GROUP}/initial-probability/states/values.bin", "<f8", umb.sizes.states)
    return states, dense[states]


def _layout(umb: Umb, described: Any) -> Layout | None:
    if described is None:
        return None
    try:
        rows, columns, text = int(described["rows"]), int(described["columns"]), tuple(described["text"])
        fits = len(text) == rows and all(isinstance(line, str) and len(line) == columns for line in text)
    except (TypeError, KeyError, ValueError):
        fits = False
    if not fits:
        umb.archive.fail("the layout in the index must have rows, columns and one text per row")
    cell = umb.archive.array(f"annotations/{GROUP}/cell/states/values.bin", "<i8", umb.sizes.states)
    if cell.min() < -1 or cell.max() >= rows * columns:
        umb.archive.fail(f"the cells of the layout must lie in −1 … {rows * columns - 1}")
    return Layout(rows=rows, columns=columns, cell=cell.astype(np.int32), text=text)


def _arrays(umb: Umb, actions: Ints) -> Arrays:
    """The arrays, with the same types as in models built in memory."""
    sizes = umb.sizes
    return Arrays(
        choice_ptr=umb.choice_ptr().astype(index_dtype(sizes.choices + 1)),
        outcome_ptr=umb.outcome_ptr().astype(index_dtype(sizes.outcomes + 1)),
        successor=umb.successor().astype(index_dtype(sizes.states)),
        choice_action=actions.astype(action_dtype(int(actions.max()) + 1)),
        probability=_probability(umb).astype(np.float64, copy=False),
        reward=umb.archive.array(_values("reward"), "<f8", sizes.outcomes).astype(np.float64, copy=False),
        damage=_narrow_damage(umb.archive, sizes.outcomes),
    )


def _probability(umb: Umb) -> Floats:
    """The probabilities; if the file has intervals, those of the model in memory."""
    if not umb.has_intervals:
        return umb.probability()
    return umb.archive.array(f"annotations/{GROUP}/probability/branches/values.bin", "<f8", umb.sizes.outcomes)


def _narrow_damage(archive: Archive, count: int) -> npt.NDArray[np.uint8]:
    wide = archive.array(_values("damage"), "<f8", count)
    narrow = np.empty(count, np.uint8)
    for begin in range(0, count, CHUNK):
        part = wide[begin : begin + CHUNK]
        bad = ~are_damages(part)
        if bad.any():
            at = int(np.argmax(bad))
            archive.fail(
                f"member {_values('damage')!r} must hold integers 0 … {MAX_DAMAGE}; entry {begin + at} is {part[at]:g}"
            )
        narrow[begin : begin + CHUNK] = part
    return narrow
