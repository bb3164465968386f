"""``from_prism``: models in the languages that Storm reads (PRISM, JANI, DRN).

Needs the extra ``storm`` (stormpy).  Storm runs in a process of its own (:mod:`almostsure.model.storm.process`) and
hands the model over as a UMB file, so that one reader (:mod:`almostsure.model.umb.foreign`) serves all of them.

**Damage** is named by

- a label, or a condition such as ``x=3 & y>0``: every step that *ends* in such a state hurts once; with ``enters:``
  before it, only the steps into such states from others do;
- a reward structure, counted as PRISM accumulates it: state rewards on every step out of the state, action and
  transition rewards on that step.  PRISM's reward structure without a name is called ``default``.  State rewards
  where runs end would never count, and are refused;
- an action: every step by it hurts once;
- a JANI property that asks to reach something, which is used like a label.

A name that belongs to several of them needs the prefix ``label:``, ``reward:`` or ``action:``; in double quotes it is
a label.  Decimal numbers mean what is written: with ``scale=0.1`` one unit is one tenth.

**A goal** ends a run; a step that ends in a goal is taken in full, with its damage.  Deadlocks are terminal: on the
self-loop that Storm gives them, nothing hurts and nothing is earned.

**Several starts.**  Where ``init … endinit`` holds in several states, a run starts in one of them, each as likely:
returns are means over them, and budgets suffice from each of them.

**Names.**  States are named by their variables (``x=1, y=0``), up to a million of them; choices without an action are
called ``choice 0``, ``choice 1``, …, and ``end`` where runs end; a Markov chain has one choice per state.  Labels,
variables and other reward structures of the file stay with the model.

**Means.**  JANI allows a reward that depends on where an edge leads.  Storm replaces it by its mean over the edge.
As a reward that changes no expected return, but a mean damage bounds nothing: such a damage is refused.

**Without numbers.**  Minimal budgets depend on which outcomes are possible, not on how probable they are.  So interval
and parametric models have minimal budgets, shields and certificates too; policies for them are refused.  An interval
that begins at 0 may stand for an impossible outcome: then the minimal budgets are upper bounds.
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
from almostsure.model.storm.process import Limits, limits, run_storm
from almostsure.model.umb.foreign import ENTERS, Roles, as_scale, condition, never_counts, resolve, to_mdp
from almostsure.model.umb.index import Umb
from almostsure.model.umb.valuations import valuation_names

ROUNDING = 1e-12  # by which sums of products of rounded numbers may miss 1


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

    Several initial states (``init … endinit``) are taken as equally likely.

    Parameters
    ----------
    path
        The file; its ending tells the language.
    damage
        What hurts: a label, a condition such as ``x=3 & y>0``, a reward structure, an action or a JANI property.
    constants
        Values of undefined constants, as ``{"N": 3, "p": 0.5}`` or ``"N=3,p=0.5"``.
    reward, cost
        A reward structure that policies maximise, and one that they keep small (it is subtracted), or ``steps``; or a
        label, for 1 per step that ends there: ``reward="home", goal="home"`` is the probability of reaching it.
    goal
        A label, a condition or a JANI property: where it holds, the run ends.
    scale
        The unit of damage, where it is fractional or above 255: d counts as ⌈d / scale⌉.
    parameters
        Constants of a parametric model that keep no value, as ``["p", "q"]`` or ``"p,q"``.
    time_limit, memory_limit
        Seconds and bytes of memory that Storm may take; by default any time, and the memory that can be had.

    Raises
    ------
    ModelError
        A name is unknown (the message lists what the file has), a constant is missing, a damage is not an integer
        0 … 255, the goal cannot be reached, or Storm finds fault.
    LimitReached, NotEnoughMemory, MissingExtra
        Storm took more than it may, or is not installed.

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
    told = {"constants": values, "parameters": _names(parameters)}
    mdp = _read(shown, roles, told, limits(time_limit, memory_limit))
    give_back(mdp.nbytes)
    return mdp


def _read(shown: str, roles: Roles, told: dict[str, Any], limit: Limits) -> MDP:
    with tempfile.TemporaryDirectory(prefix="almostsure-") as folder:
        umb, notes = _built(_request(shown, folder, roles) | told, shown, limit)
        if notes.get("lifted"):
            _refuse_means(umb, roles.damage)
        kind, plain = resolve(umb, roles.damage.removeprefix(ENTERS).strip())
        if notes["dropped"] and kind == "reward":
            state, got = notes["dropped"]
            raise never_counts(umb, plain, got, state, valuation_names(umb.variables()))
        return to_mdp(umb, roles, labels=notes["labels"], uncertain=notes.get("uncertain"))


def _request(shown: str, folder: str, roles: Roles) -> dict[str, Any]:
    """What the child is asked for, but for the constants."""
    named = {"damage": condition(roles.damage), "goal": condition(roles.goal)}
    conditions = {role: text for role, text in named.items() if text is not None}
    language = {"is_drn": shown.lower().endswith(DRN), "is_jani": shown.lower().endswith(JANI)}
    return {
        "path": shown,
        "folder": folder,
        "damage": roles.damage,
        "conditions": conditions,
        "exact": False,
        **language,
    }


def _refuse_means(umb: Umb, damage: str) -> None:
    if resolve(umb, damage.removeprefix(ENTERS).strip())[0] == "reward":
        raise ModelError(
            f"{umb.shown}: Storm only keeps the mean of rewards that depend on where an edge leads, and a mean "
            f"damage bounds nothing; so {damage!r} must not be used. Give the states after a damaging step a "
            "label, and name that as damage."
        )


def _built(request: dict[str, Any], shown: str, limit: Limits) -> tuple[Umb, dict[str, Any]]:
    """The model as a UMB file; where Storm has not looked at sums, they have been looked at."""
    notes = run_storm(request, shown, limit)
    umb = Umb(os.path.join(request["folder"], "model.umb"), shown=shown)
    if notes.get("unchecked"):
        sums = np.add.reduceat(umb.probability(), umb.outcome_ptr()[:-1])
        if np.abs(sums - 1).max() > ROUNDING:
            run_storm(request | {"exact": True}, shown, limit)  # which raises, unless the sums are right after all
    return umb, notes


def _check_path(shown: str) -> None:
    if not os.path.isfile(shown):
        why = "it is a folder, not a file" if os.path.isdir(shown) else "there is no such file"
        raise FileError(f"cannot read {shown!r}: {why}.", path=shown)
    if not shown.lower().endswith(STORM):
        hint = "load a UMB file with load()" if shown.lower().endswith(".umb") else "rename the file"
        raise FileError(f"{shown}: the name of a model file must end in one of {', '.join(STORM)}; {hint}.", path=shown)


def _names(parameters: Sequence[str] | str) -> list[str]:
    """The names of constants, as a list."""
    names = [name.strip() for name in parameters.split(",")] if isinstance(parameters, str) else list(parameters)
    if not all(isinstance(name, str) and name for name in names):
        raise ArgumentError(f"parameters must be names of constants, such as ['p', 'q']; got {parameters!r:.60}")
    return names


def _plain(name: str, value: Any) -> Constant:
    """A constant's value as JSON can hold it."""
    value = str(value) if isinstance(value, Fraction) else as_python(value)
    if not isinstance(value, bool | int | float | str):
        raise ModelError(f"constant {name!r} must be a number, true or false; got {value!r}")
    return value
