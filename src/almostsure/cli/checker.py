"""The trusted process of ``almostsure check``: the reader of the model, the reader of the result, and the checker.

It is started as ``python -I checker.py REQUEST``, in a separate process.  The package is registered without running its
``__init__``, so that only the modules are loaded that the checker and the readers import, and no engine.  The answer
lists these modules and their number of lines.  A reviewer has to trust them, Python, NumPy, and the libraries that
parse the two files.  One of these is large: PRISM, JANI and DRN files are read by Storm.
"""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
STORM = "almostsure.model.storm.process"  # loaded if Storm reads the model


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Check the certificate in ``request["result"]`` against the model that the rest of the request names."""
    bare = types.ModuleType("almostsure")
    bare.__path__ = [str(PACKAGE)]
    sys.modules["almostsure"] = bare
    sys.path.extend(folder for folder in request.get("libraries", ()) if folder not in sys.path)
    try:
        answer = _check(request)
    except Exception as error:
        answer = {"error": {"kind": type(error).__name__, "message": str(error)}}
    return answer | _trusted()


def _check(request: dict[str, Any]) -> dict[str, Any]:
    from almostsure.errors import CorruptFile, FileError
    from almostsure.files import OTHERS, tensors_kind
    from almostsure.model.source import as_model

    path = request["result"]
    if not Path(path).is_file():
        raise FileError(f"cannot read {path!r}: there is no such file.")
    kind = tensors_kind(path)
    if kind is None and tensors_kind(request["model"]) in CHECKS:
        turned = f"almostsure check {path} {request['model']}"
        raise FileError(f"the model and the result are the other way round. Write: {turned}")
    if kind is None:
        raise CorruptFile(
            f"{path!r} is damaged, or not a file of almostsure. Make one with: almostsure budget … -o FILE"
        )
    if kind == "upper" and request["model"] in _systems():
        return _verified(request, kind, *_upper(path, request))
    if kind not in CHECKS:
        if kind in OTHERS:
            named = f" This command knows {', '.join(_systems())}." if kind == "upper" else ""
            what = f"{path!r} holds {OTHERS[kind]} and verifies, given the system that it was made for."
            raise FileError(what + named)
        raise FileError(f"{path!r} holds a {kind}, which has no certificate; budgets and shields have one.")
    mdp = as_model(request["model"], **request["options"])
    if request.get("monitors"):
        from almostsure.cli.monitors import with_monitors

        mdp = with_monitors(mdp, request["monitors"])
    sizes = {"states": mdp.num_states, "choices": mdp.num_choices, "outcomes": mdp.num_outcomes}
    about = {"fingerprint": mdp.fingerprint, **sizes, "learned": mdp.origin.learned or None}
    return _verified(request, kind, about, mdp.origin.uncertain, CHECKS[kind](path, mdp, kind))


Claims = tuple[dict[str, Any], Callable[[], object]]  # the claims of a file, and a function that verifies them


def _verified(
    request: dict[str, Any], kind: str, about: dict[str, Any], uncertain: str | None, claimed: Claims
) -> dict[str, Any]:
    """The answer about a file of a model: its claims and the verdict."""
    from almostsure.errors import CertificateError

    claims, verify = claimed
    result: dict[str, Any] = {
        "model": {"name": request["model"], **about},
        "uncertain": uncertain, "kind": kind, **claims, "verdict": "verified", "reason": None,
    }  # fmt: skip
    try:
        verify()
    except CertificateError as error:
        result |= {"verdict": "rejected", "reason": str(error)}
    return result


def _budget(path: str, mdp: Any, kind: str) -> Claims:
    """The claims of a budget or shield, with or without a horizon."""
    from almostsure.budget.certificate import INFINITE, check_minimal_budget

    minimal: Any
    if kind.startswith("horizon"):
        from almostsure.budget.horizon import read_within

        minimal = read_within(path, mdp, kind=kind)
        steps = {"horizon": minimal.horizon}
    else:
        from almostsure.budget.minimal import read_minimal

        minimal, steps = read_minimal(path, mdp, kind=kind), {}
    least = minimal.smallest_budget()
    start = {"minimal_budget": "inf" if least == INFINITE else least, "upper_bound": minimal.less_may_do}
    start["unknown"] = least == INFINITE and mdp.unknown is not None
    return {"cap": minimal.cap, **steps, **start}, lambda: check_minimal_budget(mdp, minimal)


def _risk(path: str, mdp: Any, kind: str) -> Claims:
    """The claims of a risk shield."""
    from almostsure.plan.risk.certificate import check_risks, known_probabilities, read_risks

    promise = read_risks(path, known_probabilities(mdp))
    claims = {"budget": promise.budget, "risk": promise.risk, "horizon": promise.horizon}
    return claims, lambda: check_risks(mdp, promise)


def _systems() -> Any:
    """The known continuous systems, by name."""
    from almostsure.abstract.known.environments import KNOWN

    return KNOWN


def _upper(path: str, request: dict[str, Any]) -> tuple[dict[str, Any], None, Claims]:
    """The known system with the grid and the patterns of a file, and the claims of its upper budgets."""
    from almostsure.abstract.grid import Grid
    from almostsure.abstract.known.environments import known
    from almostsure.abstract.upper import claimed
    from almostsure.budget.certificate import INFINITE, upper_values
    from almostsure.errors import ArgumentError
    from almostsure.files import check_fingerprint, load_tensors, must_hold

    if request.get("monitors") or any(request["options"].values()):
        raise ArgumentError(f"options such as --damage and --monitor are for models; {request['model']} is a system.")
    arrays, strings = load_tensors(path, kind="upper", model=None)
    with must_hold(path, "upper budgets of a system"):
        cut, patterns = json.loads(strings["grid"]), json.loads(strings["patterns"])
        names = known(request["model"]).grid.names
        if len(cut["cells"]) != len(names):
            raise ArgumentError(f"{request['model']} has {len(names)} coordinates; got {len(cut['cells'])}")
        system = known(request["model"], grid=Grid(**cut, names=names), pattern=patterns)
        cap = int(strings["cap"]) if strings["cap"] else None
    check_fingerprint(path, strings, kind="upper", model=system.fingerprint)
    values = upper_values(claimed(path, arrays), system.num_cells, system.grid.describe)
    least = int(values[system.initial_cells()].max())
    about = {
        "fingerprint": system.fingerprint, "states": system.num_cells,
        "choices": system.num_cells * system.patterns.count, "outcomes": None, "learned": None,
    }  # fmt: skip
    start = {"minimal_budget": "inf" if least == INFINITE else least, "upper_bound": True}
    return about, None, ({"cap": cap, **start}, lambda: system.check_upper(values))


CHECKS: dict[str, Callable[[str, Any, str], Claims]] = {
    "budget": _budget,
    "shield": _budget,
    "horizon budget": _budget,
    "horizon shield": _budget,
    "risk shield": _risk,
}


def _trusted() -> dict[str, Any]:
    """The modules of the package that this process has loaded, their lines, and whether Storm read the model."""
    loaded = {name: module.__file__ for name, module in sys.modules.items() if name.startswith("almostsure.")}
    files = [Path(file) for file in (*loaded.values(), __file__) if file]
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    return {"trusted": {"modules": sorted(loaded), "lines": lines, "storm": STORM in loaded}}


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w") as answers:  # standard output is for the answer: other prints go to stderr
        os.dup2(2, 1)
        answers.write(json.dumps(main(json.loads(sys.argv[1]))))
