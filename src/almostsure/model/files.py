"""``load`` and ``save`` of models: which file is read and written how, by its ending.

A UMB file is read, validated and compared with its checksum (the seal of :mod:`almostsure.model.umb.archive`) and the
fingerprint stored in it when it is loaded; the model keeps no hold on it, and no part of it is mapped.  Files of our
own hold their outcomes in canonical order; those of other programs are sorted.
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
    write_umb(mdp, path, relay=relay)


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
        for another, all rewards are 0), and one that they keep small: it is subtracted.  ``steps`` costs 1 per step,
        and a label 1 per step that ends there: ``reward="goal", goal="goal"`` is the probability of reaching it.
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
    name = file_name(path).lower()
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
    """Keep a model from taking the place of a program, a map, a policy, or whatever else has another ending."""
    if os.path.splitext(file_name(path))[1].lower() not in (*WRITTEN, ""):
        raise FileError(
            f"cannot write {os.fspath(path)!r}: the name of a written model ends in {' or '.join(WRITTEN)}.",
            path=path,
        )
