"""A model from a UMB file of another program, which knows nothing of damage and orders things its own way.

Damage is named by reward structure, label or action.  Rewards accumulate as in PRISM: a state's reward counts on
every step out of it, a choice's and a branch's on that step.  Several initial states are taken as equally likely.
A state without choices becomes terminal; so does a deadlock, whose self-loop the other program has added: on it,
nothing is earned and nothing hurts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more
from almostsure.errors import ModelError, UnknownName
from almostsure.model.build import build
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.model.naming import distinct, ranks
from almostsure.model.umb import KINDS, Umb
from almostsure.model.validate import MAX_DAMAGE, RESCALE

DEADLOCK = "deadlock"  # how Storm and PRISM label states without commands


def to_mdp(umb: Umb, *, damage: str, reward: str | None, cost: str | None = None) -> MDP:
    """The model in a file, with damage named by reward structure, label or action (see :func:`resolve`).

    ``reward`` and ``cost`` name reward structures; the model's reward is the one minus the other.
    """
    action, action_names = _distinct_actions(umb)
    state_names = umb.state_names()
    outcome_states = umb.choice_states[umb.outcome_choices]
    goes_on = ~_added(umb, outcome_states)
    damages = _whole(umb, np.where(goes_on, _damage(umb, damage), 0.0), state_names)
    nothing = np.zeros(umb.sizes.outcomes)
    gain, loss = (nothing if name is None else np.where(goes_on, umb.reward(name), 0.0) for name in (reward, cost))
    is_initial = umb.is_initial()
    try:
        return build(
            (outcome_states, action[umb.outcome_choices], umb.successor(), umb.probability(), gain - loss, damages),
            num_states=umb.sizes.states,
            terminal=_without_choices(umb),
            initial=is_initial / np.count_nonzero(is_initial),
            action_names=action_names,
            state_names=state_names,
        )
    except ModelError as error:
        umb.archive.fail(str(error).removesuffix(RESCALE).removesuffix("."), "Mend the model and export it again.")


def resolve(umb: Umb, name: str) -> tuple[str, str]:
    """Which kind of thing ``name`` names, and its plain name.

    ``label:x``, ``reward:x`` and ``action:x`` say so themselves, and a name in double quotes is a label, as in
    PRISM; any other name must belong to one kind only.
    """
    prefix, _, rest = name.partition(":")
    kinds: tuple[str, ...] = KINDS
    plain = name
    if prefix in KINDS and rest:
        kinds, plain = (prefix,), rest
    elif len(name) > 1 and name[0] == name[-1] == '"':
        kinds, plain = ("label",), name[1:-1]
    found = [kind for kind in kinds if plain in umb.names(kind)]
    if len(found) > 1:
        kinds_found = " and ".join("an action" if kind == "action" else f"a {kind}" for kind in found)
        choices = " or ".join(repr(f"{kind}:{plain}") for kind in found)
        raise ModelError(
            f"damage {name!r} must name one thing; {umb.shown} has {kinds_found} so named. Write {choices}."
        )
    if not found:
        known = [other for kind in kinds for other in umb.names(kind)]
        raise UnknownName(
            "damage" if len(kinds) > 1 else kinds[0], plain, known, f"{umb.inventory()} Name one of them with damage=."
        )
    return found[0], plain


def _damage(umb: Umb, name: str) -> Floats:
    """The damage of each branch, not yet checked to be whole."""
    kind, plain = resolve(umb, name)
    if kind == "reward":
        return umb.reward(plain)
    if kind == "label":
        return umb.label(plain)[umb.successor()].astype(np.float64)
    ids, names = umb.actions()
    hurts = np.array([other == plain for other in names or ()])
    return hurts[ids][umb.outcome_choices].astype(np.float64)


def _added(umb: Umb, outcome_states: Ints) -> Bools:
    """Which branches are the self-loops of deadlocks: nobody takes such a step."""
    if DEADLOCK not in umb.names("label"):
        return np.zeros(umb.sizes.outcomes, np.bool_)
    stays: Bools = umb.label(DEADLOCK)[outcome_states] & (umb.successor() == outcome_states)
    return stays


def _whole(umb: Umb, damages: Floats, state_names: Sequence[str] | None) -> npt.NDArray[np.uint8]:
    bad = ~((damages >= 0) & (damages <= MAX_DAMAGE) & (damages == np.floor(damages)))
    if bad.any():
        at = int(np.argmax(bad))
        choice = int(umb.outcome_choices[at])
        state = int(umb.choice_states[choice])
        name = "" if state_names is None else f" {state_names[state]!r}"
        raise ModelError(
            f"damage must be an integer 0 … {MAX_DAMAGE}; got {damages[at]:g} at state {state}{name}, choice {choice} "
            f"of {umb.shown}{and_more(int(bad.sum()) - 1, 'outcome')}. Scale it, or name another damage.",
            state=state, choice=choice, outcome=at,
        )  # fmt: skip
    return damages.astype(np.uint8)


def _without_choices(umb: Umb) -> Ints:
    empty = np.diff(umb.outcome_ptr()) == 0
    if empty.any():
        umb.archive.fail(f"every choice must have a branch; choice {int(np.argmax(empty))} has none")
    return np.flatnonzero(np.diff(umb.choice_ptr()) == 0)


def _distinct_actions(umb: Umb) -> tuple[Ints, list[str] | None]:
    """Action ids that differ within each state, and their names.

    Files may give several choices of a state the same action, or none: the second ``go`` becomes ``go (2)``, and
    choices without a name become ``choice 0``, ``choice 1``, ….
    """
    ids, names = umb.actions()
    rank = ranks(umb.choice_states * (int(ids.max()) + 1) + ids)
    width = int(rank.max()) + 1
    if width == 1 and (names is None or all(names)):
        return ids.astype(np.int64), None if names is None else distinct(names)
    used, new_ids = np.unique(ids.astype(np.int64) * width + rank, return_inverse=True)
    if names is None:
        return new_ids, None
    plain = [(names[key // width], key % width) for key in used.tolist()]
    return new_ids, distinct([name or f"choice {rank}" for name, rank in plain])
