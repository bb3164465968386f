"""The parts that all exports share: writing a Python module with its table, and a C99 header with its arrays.

A module is one of the ``runtime`` files of this folder.  The line that imports :mod:`almostsure.shield.export.frame` is
replaced by the code of that module, so it does not import this package, and the fingerprint of the model and the
checksum of its table are filled in.
"""

from __future__ import annotations

import hashlib
import io
import keyword
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import chain
from os import PathLike
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError
from almostsure.files import atomic_write, file_name
from almostsure.model.mdp import MDP, Ints
from almostsure.model.origin import Origin
from almostsure.shield.export.names import Names, header_names, how_to_find, plain

HEADERS = (".h", ".hpp")
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
LINE = 24  # numbers per line of C


OPENING = """\
#ifndef {NAME}_{kind}_H
#define {NAME}_{kind}_H

#include <stddef.h>
#include <stdint.h>

#define {NAME}_MODEL "{model}"
#define {NAME}_NUM_STATES {num_states}u
#define {NAME}_NUM_ACTIONS {num_actions}u"""


class Identity(NamedTuple):
    """The facts that exports need about a model that is not an MDP."""

    fingerprint: str
    num_states: int
    num_actions: int
    action_names: tuple[str, ...] | None
    origin: Origin = Origin()


def narrow(values: Ints) -> Ints:
    """The numbers in the narrowest unsigned type."""
    largest = int(values.max()) if values.size else 0
    return values.astype(np.min_scalar_type(largest))


# ---------------------------------------------------------------------- NumPy


def write_module(
    path: str | PathLike[str], runtime: str, mdp: MDP | Identity, arrays: Mapping[str, npt.NDArray[Any]]
) -> tuple[Path, Path]:
    """Write a runtime as a module, and next to it its table, with the names; returns both paths."""
    name = file_name(path)
    module = Path(name) if Path(name).suffix == ".py" else Path(f"{name}.py")
    if not module.stem.isidentifier() or keyword.iskeyword(module.stem):
        raise ArgumentError(
            f"path must end in the name of a Python module, such as shield_table.py; got {module.name!r}"
        )
    buffer = io.BytesIO()
    about = {"model": np.array(mdp.fingerprint), "names": Names.of(mdp).packed()}
    np.savez(buffer, **arrays, **about)  # type: ignore[arg-type]
    content = buffer.getvalue()
    text = _module_text(runtime)
    for constant, value in (("MODEL", mdp.fingerprint), ("TABLE", hashlib.sha256(content).hexdigest())):
        text = text.replace(f'\n{constant} = ""', f'\n{constant} = "{value}"')
    text = text.replace('\nLEARNED = ""', f"\nLEARNED = {mdp.origin.learned!r}")
    table = module.with_suffix(".npz")
    with atomic_write(table) as file:  # first, since the module needs it
        file.write(content)
    with atomic_write(module) as file:
        file.write(text.encode())
    return module, table


def _module_text(runtime: str) -> str:
    """The text of a self-contained runtime: its docstring, the code of the frame, and its own code."""
    here = files("almostsure.shield.export")
    frame, own = (here.joinpath(f"{name}.py").read_text(encoding="utf-8") for name in ("frame", runtime))
    head, code = re.split(r"\nfrom almostsure\.shield\.export\.frame import .*\n", own)
    docstring = head[: head.index('"""\n', 3) + 4]  # its other imports are also in the frame
    return docstring + frame.split('"""\n', 1)[1] + code


# ---------------------------------------------------------------------- C


def write_header(
    path: str | PathLike[str],
    name: str,
    mdp: MDP | Identity,
    texts: tuple[str, str],
    arrays: Mapping[str, npt.NDArray[Any]],
    **fields: object,
) -> Path:
    """Write a C99 header: a text, the arrays, and a text, both formatted with ``fields``; returns its path."""
    if Path(file_name(path)).suffix.lower() not in HEADERS:
        raise ArgumentError(f"path must end in {' or '.join(HEADERS)}, as C headers do; got {file_name(path)!r}")
    if not IDENTIFIER.fullmatch(name):
        raise ArgumentError(f"name must be letters, digits and underscores, and begin with a letter; got {name!r}")
    if max(mdp.num_states, *(array.size for array in arrays.values())) >= 2**32 - 1:
        raise ArgumentError(f"a C header must have fewer than 2**32 entries; got {mdp.num_states:,} states")
    names = Names.of(mdp)
    fields |= {
        "name": name,
        "NAME": name.upper(),
        "model": mdp.fingerprint,
        "num_states": mdp.num_states,
        "states": f"0 ... {mdp.num_states - 1}{how_to_find(names, name)}",
        "num_actions": mdp.num_actions,
        "actions": _action_list(mdp) + _basis(mdp.origin),
    }
    fields["opening"] = OPENING.format(**{"kind": "SHIELD"} | fields)
    with atomic_write(path) as file:
        file.write(texts[0].format(**fields).encode())
        for part in chain(arrays.items(), header_names(names, name)):
            if isinstance(part, str):
                file.write(part.encode())
                continue
            what, values = part
            file.write(f"\nstatic const {_c_type(values)} {name}_{what}[] = {{\n".encode())
            for line in _numbers(values):
                file.write(line)
            file.write(b"};\n")
        file.write(texts[1].format(**fields).encode() + b"\n#endif\n")
    return Path(path)


def _c_type(values: npt.NDArray[Any]) -> str:
    if values.dtype.kind == "f":
        return "double"
    return f"{'u' * (values.dtype.kind == 'u')}int{8 * values.dtype.itemsize}_t"


def _numbers(values: npt.NDArray[Any]) -> Iterator[bytes]:
    """Lines of exact C numbers.  C has no empty arrays, so an empty one gets an entry that no state refers to."""
    show = float.hex if values.dtype.kind == "f" else str
    for begin in range(0, max(values.size, 1), LINE):
        part = values[begin : begin + LINE].tolist() or [0]
        yield f"    {', '.join(map(show, part))},\n".encode()


def _action_list(mdp: MDP | Identity) -> str:
    """The ids and names of the actions, for a comment."""
    if mdp.action_names is None:
        return f"0 ... {mdp.num_actions - 1}"
    shown = ", ".join(f"{i} {plain(action)}" for i, action in enumerate(mdp.action_names[:32]))
    return shown + (", ..." if mdp.num_actions > 32 else "")


def _basis(origin: Origin) -> str:
    """Further lines of a comment: how a model was learned or found by playing; none for other models."""
    lines, word = wrap(plain(origin.learned, len(origin.learned)), 96), "learned" if origin.counted else "played"
    return "".join(f"\n *   {'' if at else word:<7}  {line}" for at, line in enumerate(lines))
