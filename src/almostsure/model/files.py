"""``load`` and ``save`` of models; the ending of the name selects the format.

Loading a UMB file validates it and compares it with its checksum (the seal of :mod:`almostsure.model.umb.archive`) and
its fingerprint.  The arrays are copied, not memory-mapped.  Files of almostsure have their outcomes in canonical order;
those of other programs are sorted.
"""

from __future__ import annotations

import os

from almostsure.arguments import names_right_word
from almostsure.errors import FileError, ModelError
from almostsure.files import MAPS, STORM, atomic_write, file_name, give_back, tensors_kind
from almostsure.model.mdp import MDP
from almostsure.model.storm.drn import write_drn
from almostsure.model.umb.archive import Path
from almostsure.model.umb.foreign import Roles, Scale, to_mdp
from almostsure.model.umb.index import Umb
from almostsure.model.umb.own import parameters_of, read_own
from almostsure.model.umb.write import write_umb

WRITTEN = (".umb", ".drn")  # endings of models that can be written
READERS = {  # of other kinds of files of almostsure
    "budget": "MinimalBudget.load(path, mdp)",
    "shield": "Shield.load(path, mdp)",
    "policy": "Policy.load(path, mdp)",
    "horizon budget": "HorizonBudget.load(path, mdp)",
    "horizon shield": "HorizonShield.load(path, mdp)",
    "risk shield": "RiskShield.load(path, mdp)",
    "learning shield": "OnlineShield.load(path, space)",
    "sampling checkpoint": "learn_minimal_budget(…, checkpoint=path) or count_outcomes(…, checkpoint=path)",
    "deep agent": "load_agent(path, source)",
    "upper": "UpperBudget.load(path, abstraction)",
    "cell policy": "CellPolicy.load(path, abstraction)",
}


def save(mdp: MDP, path: Path, *, relay: bool = False) -> None:
    """Write a model to a UMB or DRN file, atomically: if writing fails, the old file stays as it was.

    Parameters
    ----------
    mdp
        The model.
    path
        The file; its name ends in ``.umb``, or in ``.drn`` for Storm's text format, which has damage, reward, labels
        and reward structures (see :mod:`almostsure.model.storm.drn`), but no names of states.
    relay
        Storm refuses a choice with two outcomes that have the same successor but different rewards or damages.
        With ``relay``, all but the first of them pass through relay states: damage and reward are on the step into
        the relay, and one more step without either leads to the successor.  The relays are appended after the
        model's states and have the atomic proposition ``relay``; loading the file returns the model *with* its
        relays.  Budgets and returns of the other states stay the same, numbers of steps do not.
        If no reward is positive, the file also has the negated reward as ``cost``, for Storm to minimise.

    See Also
    --------
    load : Loads the file.
    """
    _check_written(path)
    is_drn = os.fspath(path).lower().endswith(".drn")
    if relay or is_drn:
        mdp.require_probabilities("a model for Storm")
    if not is_drn:
        write_umb(mdp, path, relay=relay)
        return
    with atomic_write(path) as file:
        write_drn(mdp, file)


@names_right_word
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

    A file written by :func:`save` is restored exactly, with names, labels, layout, end and unknown.  Any other Markov
    chain or decision process in UMB is read too.  Its rewards count as in PRISM: state rewards on every step out of the
    state, rewards of choices and branches on that step.  Valuations become names of states, choices without an action
    are named ``choice 0``, ``choice 1``, …, states without choices become terminal, and several initial states are
    equally likely.

    Parameters
    ----------
    path
        The file, perhaps compressed by gzip or xz.  The other parameters are for files of other programs.
    damage
        The reward structure that counts as damage.  If there is none of that name, the name of a label (each step that
        ends in a state with it does damage 1) or of an action (each step by it does damage 1); ``label:name``,
        ``reward:name`` and ``action:name`` are unambiguous.  ``enters:name`` only counts the steps into states with the
        label from states without it.
    reward, cost
        The reward structure that policies maximise, and one that is subtracted from it.  By default the one called
        ``reward``; if there is none, or with None, all rewards are 0.  ``steps`` is 1 per step, and a label is 1 per
        step that ends in a state with it: ``reward="goal", goal="goal"`` is the probability of reaching it.
    goal, scale
        The label of the states that end a run, and the unit of damage: see :func:`almostsure.from_prism`.

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
            remedy = "Leave out damage=, reward=, cost=, goal= and scale=."
            raise ModelError(f"{umb.shown}: a saved model has its own damage and reward. {remedy}")
        return read_own(umb, parameters)
    if roles.reward == "reward" and "reward" not in umb.names("reward"):
        roles = roles._replace(reward=None)
    if roles.damage in umb.names("reward"):
        roles = roles._replace(damage=f"reward:{roles.damage}")
    return to_mdp(umb, roles.checked())


def _check_ending(path: Path) -> None:
    """Refuse files of other kinds, and name their reader; any other file may be a UMB file."""
    name = file_name(path).lower()
    if name.endswith(STORM):
        raise FileError(
            f"{os.fspath(path)} must be read with from_prism(path, damage=…), as it does not define damage.",
            path=path,
        )
    if name.endswith(MAPS):
        raise FileError(f"{os.fspath(path)} must be read with from_map(Path(…)), if it is a map.", path=path)
    if (kind := tensors_kind(path)) is not None:
        what = "upper budgets" if kind == "upper" else f"a {kind}"
        remedy = f" Read it with {READERS[kind]}." if kind in READERS else ""
        raise FileError(f"{os.fspath(path)} holds {what}, not a model.{remedy}", path=path)


def _check_written(path: Path) -> None:
    """Refuse other endings, so that a model does not overwrite a program, a map or a policy."""
    if os.path.splitext(file_name(path))[1].lower() not in (*WRITTEN, ""):
        raise FileError(
            f"cannot write {os.fspath(path)!r}: the name of a written model ends in {' or '.join(WRITTEN)}.",
            path=path,
        )
