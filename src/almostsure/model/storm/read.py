"""``from_prism``: models in the languages that Storm reads (PRISM, JANI, DRN).

Needs the extra ``storm`` (stormpy).  Storm runs in a child process (:mod:`almostsure.model.storm.process`) and returns
the model as a UMB file, so that one reader (:mod:`almostsure.model.umb.foreign`) suffices for all languages.

**Damage** is one of

- a label, or a condition such as ``x=3 & y>0``: every step that *ends* in such a state does damage 1; with the prefix
  ``enters:``, only the steps into such states from others;
- a reward structure, accumulated as in PRISM: state rewards on every step out of the state, action and transition
  rewards on that step.  PRISM's reward structure without a name is called ``default``.  State rewards in states where
  runs end would never count, so they are refused;
- an action: every step by it does damage 1;
- a JANI property for reaching a set of states, which is used like a label.

A name that exists in several kinds needs the prefix ``label:``, ``reward:`` or ``action:``; in double quotes it is a
label.  Decimal numbers are exact: with ``scale=0.1`` one unit is one tenth.

**A goal** ends a run; the damage and reward of the step into a goal still count.  Deadlocks are terminal: the self-loop
that Storm adds to them has no damage and no reward.

**Several initial states.**  If ``init … endinit`` holds in several states, these are equally likely: returns are means
over them, and budgets suffice from each of them.

**Names.**  States are named by their variables (``x=1, y=0``) if there are at most a million.  Choices without an
action are called ``choice 0``, ``choice 1``, …, and ``end`` where runs end; a Markov chain has one choice per state.
The model keeps the labels, variables and other reward structures of the file.

**Means.**  In JANI a reward may depend on the destination of an edge.  Storm replaces it by its mean over the edge.
This does not change expected returns, but a mean gives no bound on damage, so such a damage is refused.

**Unknown probabilities.**  Minimal budgets only depend on which outcomes are possible.  So interval and parametric
models have minimal budgets, shields and certificates; policies for them are refused.  An outcome whose interval begins
at 0 may be impossible: then the minimal budgets are upper bounds.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from fractions import Fraction
from os import PathLike
from typing import Any

import numpy as np

from almostsure.arguments import as_python, names_right_word
from almostsure.errors import ArgumentError, FileError, ModelError
from almostsure.files import DRN, JANI, STORM, file_name, give_back
from almostsure.model.mdp import MDP
from almostsure.model.source import Constant, split_constants
from almostsure.model.storm.process import ChildLimits, limits, run_storm
from almostsure.model.umb.foreign import Roles, as_scale, condition, never_counts, resolve, to_mdp
from almostsure.model.umb.index import Umb

ROUNDING = 1e-12  # allowed rounding error of sums of products


@names_right_word
def from_prism(
    path: str | PathLike[str],
    *,
    damage: str,
    constants: Mapping[str, Constant] | str | None = None,
    reward: str | None = None,
    cost: str | None = None,
    goal: str | None = None,
    scale: Constant | Fraction | None = None,
    parameters: Sequence[str] | str = (),
    time_limit: float | None = None,
    memory_limit: int | None = None,
) -> MDP:
    """Build a model from a PRISM (``.prism``, ``.pm``, ``.nm``), JANI (``.jani``) or DRN (``.drn``, ``.drn.gz``) file.

    Several initial states (``init … endinit``) are equally likely.

    Parameters
    ----------
    path
        The file; the ending of its name selects the language.
    damage
        A label, a condition such as ``x=3 & y>0``, a reward structure, an action or a JANI property.
    constants
        Values of undefined constants, as ``{"N": 3, "p": 0.5}`` or ``"N=3,p=0.5"``.
    reward, cost
        A reward structure that policies maximise, and one that is subtracted.  ``steps`` is 1 per step; a label or
        condition is 1 per step that ends there: ``reward="home", goal="home"`` is the probability of reaching it.
    goal
        A label, a condition or a JANI property for the states that end a run.
    scale
        The unit of damage, if damage is fractional or above 255: d counts as ⌈d / scale⌉.
    parameters
        Constants of a parametric model that stay without a value, as ``["p", "q"]`` or ``"p,q"``.
    time_limit, memory_limit
        Seconds and bytes of memory for Storm; by default unlimited time and all available memory.

    Raises
    ------
    ModelError
        A name is unknown (the message lists what the file has), a constant is missing, a damage is not an integer
        0 … 255, the goal cannot be reached, or Storm refuses the model.
    LimitReached, NotEnoughMemory, MissingExtra
        Storm hit a limit, or is not installed.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("walk.prism").write_text("mdp module m x : [0..2] init 0; [go] x<2 -> (x'=x+1); endmodule")
    >>> from_prism("walk.prism", damage="x=1", goal="x=2").num_states
    3
    """
    shown = file_name(path)
    _check_path(shown)
    roles = Roles(damage, reward, cost, goal, None if scale is None else as_scale(scale)).checked()
    values = {name: _plain(name, value) for name, value in split_constants(constants).items()}
    request = {"constants": values, "parameters": _names(parameters)}
    mdp = _read(shown, roles, request, limits(time_limit, memory_limit))
    give_back(mdp.nbytes)
    return mdp


def _read(shown: str, roles: Roles, request: dict[str, Any], limit: ChildLimits) -> MDP:
    with tempfile.TemporaryDirectory(prefix="almostsure-") as folder:
        umb, notes = _built(request | _about_file(shown, folder, roles), shown, limit)
        kind, plain = resolve(umb, roles.damage)
        if kind == "reward" and notes.get("lifted"):
            raise ModelError(
                f"{shown}: Storm only keeps the mean of rewards that depend on the destination of an edge, which gives "
                f"no bound on damage; so {roles.damage!r} must not be used. Give the states after a damaging step a "
                "label, and pass that as damage."
            )
        if kind == "reward" and notes["dropped"]:
            state, got = notes["dropped"]
            raise never_counts(umb, plain, got, state)
        return to_mdp(umb, roles, labels=notes["labels"], uncertain=notes.get("uncertain"))


def _about_file(shown: str, folder: str, roles: Roles) -> dict[str, Any]:
    """The part of the request to the child that does not depend on constants."""
    given = {"damage": roles.damage, "goal": roles.goal, "reward": roles.reward, "cost": roles.cost}
    conditions = {role: condition(text) for role, text in given.items()}
    return {
        "path": shown,
        "folder": folder,
        "damage": roles.damage,
        "conditions": {role: text for role, text in conditions.items() if text is not None},
        "exact": False,
        "is_drn": shown.lower().endswith(DRN),
        "is_jani": shown.lower().endswith(JANI),
    }


def _built(request: dict[str, Any], shown: str, limit: ChildLimits) -> tuple[Umb, dict[str, Any]]:
    """The model as a UMB file, with its sums of probabilities checked if Storm has not done so."""
    notes = run_storm(request, shown, limit)
    umb = Umb(os.path.join(request["folder"], "model.umb"), shown=shown)
    if notes.get("unchecked"):
        sums = np.add.reduceat(umb.probability(), umb.outcome_ptr()[:-1])
        if np.abs(sums - 1).max() > ROUNDING:
            run_storm(request | {"exact": True}, shown, limit)  # raises, unless the exact sums are 1
    return umb, notes


def _check_path(shown: str) -> None:
    if not os.path.isfile(shown):
        why = "it is a folder, not a file" if os.path.isdir(shown) else "there is no such file"
        raise FileError(f"cannot read {shown!r}: {why}.", path=shown)
    if not shown.lower().endswith(STORM):
        hint = "load a UMB file with load()" if shown.lower().endswith(".umb") else "rename the file"
        raise FileError(f"{shown}: the name of a model file must end in one of {', '.join(STORM)}; {hint}.", path=shown)


def _names(parameters: Sequence[str] | str) -> list[str]:
    """The names of constants as a list."""
    names = [name.strip() for name in parameters.split(",")] if isinstance(parameters, str) else list(parameters)
    if not all(isinstance(name, str) and name for name in names):
        raise ArgumentError(f"parameters must be names of constants, such as ['p', 'q']; got {parameters!r:.60}")
    return names


def _plain(name: str, value: Any) -> Constant:
    """The value of a constant in a type that JSON has."""
    value = str(value) if isinstance(value, Fraction) else as_python(value)
    if not isinstance(value, bool | int | float | str):
        raise ModelError(f"constant {name!r} must be a number, true or false; got {value!r}")
    return value
