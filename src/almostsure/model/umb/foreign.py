"""``to_mdp``: a model from a UMB file of another program, which has no damage and other conventions.

Damage is a reward structure, a label or an action.  Rewards accumulate as in PRISM: state rewards count on every step
out of the state, rewards of choices and branches on that step.  Several initial states are equally likely.  States
without choices become terminal, and so do goals and deadlocks.  The self-loop that other programs add to deadlocks has
no reward and no damage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_UP, Context
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more
from almostsure.errors import ArgumentError, ModelError, UnknownName
from almostsure.model.build.transitions import build
from almostsure.model.build.validate import MAX_DAMAGE, RESCALE, SUM_TOLERANCE, are_damages
from almostsure.model.mdp import MDP, Bools, Floats, Ints, action_dtype, index_dtype
from almostsure.model.naming import distinct, ranks
from almostsure.model.origin import FROM_ZERO, INTERVALS, PARAMETERS, Origin
from almostsure.model.umb.index import KINDS, Umb

DEADLOCK = "deadlock"  # the label of states without commands, in Storm and PRISM
END = "end"  # the action of states in which a run has ended
ENTERS = "enters:"  # before a label: only the steps into such states from others
INITIAL = "init"  # the label of initial states
OURS = ("damage", "reward")  # the reward structures of files that this package writes
STEPS = "steps"  # the reward structure that is 1 per step

Scale = bool | int | float | str | Fraction


class Roles(NamedTuple):
    """The names in a file that the user has chosen as damage, reward, cost and goal, and the unit of damage."""

    damage: str
    reward: str | None = None
    cost: str | None = None
    goal: str | None = None
    scale: Scale | None = None

    def checked(self) -> Roles:
        """The same roles, after checking that names are nonempty text."""
        for what, name in zip(self._fields[:-1], self[:-1], strict=True):
            if not isinstance(name, str) and (name is not None or what == "damage"):
                raise ArgumentError(f"{what} must be text, a name or an expression; got {name!r:.60}")
            if name is not None and not name.removeprefix(ENTERS).strip():
                raise ArgumentError(f"{what} must name something; got {name!r}")
            if name is not None and what != "damage" and name.startswith(ENTERS):
                raise ArgumentError(f"only damage may begin with {ENTERS}; got {what}={name!r}. Leave it out.")
        return self


def to_mdp(umb: Umb, roles: Roles, *, labels: Sequence[str] | None = None, uncertain: str | None = None) -> MDP:
    """The model in a file (see :class:`Roles` and :func:`resolve`).

    ``labels`` are the labels to keep, by default all.  ``uncertain`` is the reason why only the support of the file's
    probabilities is valid, if any; files with intervals need none.
    """
    ends = _ends(umb, roles.goal)
    action, action_names = _distinct_actions(umb, ends)
    action = action.astype(action_dtype(int(action.max()) + 1))
    columns = _columns(umb, roles, action)
    terminal = np.union1d(_without_choices(umb), np.flatnonzero(ends))
    _check_ends(umb, roles.damage, terminal)
    if roles.goal is not None:
        columns = [column[~ends[columns[0]]] for column in columns]
    probability, doubt = _probabilities(umb, columns[3], uncertain)
    if roles.goal is not None:
        possible = probability > 0
        _check_reached(umb, roles.goal, ends, (columns[0][possible], columns[2][possible]))
    is_initial = umb.is_initial()
    kept = umb.names("label") if labels is None else labels
    try:
        return build(
            (*columns[:3], probability, *columns[4:]),
            num_states=umb.sizes.states,
            terminal=terminal,
            initial=is_initial / np.count_nonzero(is_initial),
            action_names=action_names,
            state_names=umb.state_names,
            labels={name: umb.label(name) for name in kept if name != INITIAL},
            origin=Origin(
                rewards=_rewards(umb, action, terminal),
                variables=umb.variables,
                scale=as_scale(1 if roles.scale is None else roles.scale),
                uncertain=doubt,
            ),
        )
    except ModelError as error:
        umb.archive.fail(str(error).removesuffix(RESCALE).removesuffix("."), "Correct the model and export it again.")


def _columns(umb: Umb, roles: Roles, action: Ints) -> Sequence[npt.NDArray[Any]]:
    """State, action, successor, branch, reward and damage of each branch."""
    deadlocked = _deadlock_loops(umb)
    damage = np.where(deadlocked, 0.0, _damage(umb, roles.damage))
    reward = _accumulated(umb, roles.reward, "reward") - _accumulated(umb, roles.cost, "cost")
    damage = _whole(umb, scaled(damage, roles.scale), roles.scale)
    target = umb.successor().astype(index_dtype(umb.sizes.states))
    branch = np.arange(umb.sizes.outcomes, dtype=index_dtype(umb.sizes.outcomes))
    reward = np.where(deadlocked, 0.0, reward)
    return umb.outcome_states, action[umb.outcome_choices], target, branch, reward, damage


def _probabilities(umb: Umb, branch: Ints, uncertain: str | None) -> tuple[Floats, str | None]:
    """The probabilities of these branches, and the reason if only their support is known.

    In this case, the possible branches of a choice get equal probabilities.
    """
    if umb.has_intervals:
        possible = np.ones(branch.size, np.bool_)
        uncertain = INTERVALS if (_lower_bounds(umb)[branch] > 0).all() else FROM_ZERO
    elif uncertain is None:
        return umb.probability()[branch], None
    else:
        possible, uncertain = umb.probability()[branch] != 0, PARAMETERS
    choice = umb.outcome_choices[branch]
    counts = np.bincount(choice[possible], minlength=umb.sizes.choices)
    return np.where(possible, 1 / np.maximum(counts, 1)[choice], 0.0), uncertain


def _lower_bounds(umb: Umb) -> Floats:
    """The lower bound of the probability of each branch, after checking that every choice allows a distribution.

    The interval [0, 0] is refused too: Storm writes it for empty intervals such as [0.9, 0.7].
    """
    low, high = umb.intervals()
    bad = np.flatnonzero(~((low >= 0) & (low <= high) & (high > 0) & (high <= 1 + SUM_TOLERANCE)))
    if bad.size:
        at = int(bad[0])
        choice, state = int(umb.outcome_choices[at]), int(umb.successor()[at])
        remedy = (
            "Storm replaces bounds in the wrong order by [0, 0]. Swap them, or leave out the impossible outcome"
            if high[at] == 0 == low[at]
            else "Correct it; intervals of one choice that lead to the same state are added up"
        )
        raise ModelError(
            f"{umb.shown}: an interval of probabilities must have 0 ≤ lower bound ≤ upper bound ≤ 1, and not be "
            f"[0, 0]; got [{low[at]:.12g}, {high[at]:.12g}] for the step to {umb.describe_state(state)} at "
            f"{_choice(umb, choice)}{and_more(bad.size - 1, 'outcome')}. {remedy}.",
            choice=choice,
            outcome=at,
        )
    first = umb.outcome_ptr()[:-1]
    least, most = np.add.reduceat(low, first), np.add.reduceat(high, first)
    wrong = np.flatnonzero((least > 1 + SUM_TOLERANCE) | (most < 1 - SUM_TOLERANCE))
    if wrong.size:
        at = int(wrong[0])
        raise ModelError(
            f"{umb.shown}: the intervals of a choice must allow probabilities that sum to 1; their sums at "
            f"{_choice(umb, at)} lie within [{least[at]:.12g}, {most[at]:.12g}]"
            f"{and_more(wrong.size - 1, 'choice')}.",
            choice=at,
        )
    return low


def _choice(umb: Umb, choice: int) -> str:
    """A choice as messages show it."""
    ids, actions = umb.actions()
    action = int(ids[choice])
    which = f"choice {choice}" if actions is None or not actions[action] else f"action {actions[action]!r}"
    return f"{umb.describe_state(int(umb.choice_states[choice]))}, {which}"


def _rewards(umb: Umb, action: Ints, terminal: Ints) -> dict[str, Floats]:
    """The reward structures by choice, in the order of choices in the model."""
    names = [name for name in umb.names("reward") if name not in OURS and umb.reward_places(name)]
    if not names:
        return {}
    ends = np.zeros(umb.sizes.states, np.bool_)
    ends[terminal] = True
    kept = ~ends[umb.choice_states]
    width = int(action.max()) + 1
    keys = umb.choice_states[kept].astype(np.int64) * width + action[kept]
    order = np.argsort(np.concatenate([keys, terminal * width]), kind="stable")
    at_ends = np.zeros(terminal.size)
    return {name: np.append(umb.mean_reward(name)[kept], at_ends)[order] for name in names}


# ---------------------------------------------------------------------- names


def condition(name: str | None) -> str | None:
    """The part of a role's name that may be a condition on states; None for a name with a prefix."""
    plain = (name or "").removeprefix(ENTERS).strip()
    return None if not plain or plain.partition(":")[0] in KINDS else plain


def resolve(umb: Umb, name: str, role: str = "damage", kinds: Sequence[str] = KINDS) -> tuple[str, str]:
    """The kind (label, reward or action) that ``name`` refers to, and the plain name.

    ``label:x``, ``reward:x`` and ``action:x`` contain the kind, and a name in double quotes is a label, as in PRISM;
    any other name must exist in one kind only.  The prefix ``enters:`` is ignored.
    """
    name = name.removeprefix(ENTERS).strip()
    kinds, plain = _meant(name, kinds)
    found = [kind for kind in kinds if plain in umb.names(kind)]
    if len(found) > 1:
        kinds_found = " and ".join("an action" if kind == "action" else f"a {kind}" for kind in found)
        choices = " or ".join(repr(f"{kind}:{plain}") for kind in found)
        raise ModelError(
            f"{role} {name!r} must be unambiguous; {umb.shown} has {kinds_found} of this name. Write {choices}."
        )
    if not found:
        known = [other for kind in kinds for other in umb.names(kind)]
        remedy = f"{umb.inventory()} Name one of them with {role}=."
        raise UnknownName(role if plain == name else kinds[0], plain, known, remedy)
    return found[0], plain


def _meant(name: str, kinds: Sequence[str]) -> tuple[Sequence[str], str]:
    """The kinds that a name may refer to, by its prefix or quotes, and the plain name."""
    prefix, _, rest = name.partition(":")
    if prefix in kinds and rest:
        return (prefix,), rest.strip()
    is_quoted = len(name) > 1 and name[0] == name[-1] == '"' and name.count('"') == 2
    return (("label",), name[1:-1]) if is_quoted else (kinds, name)


def _ends(umb: Umb, goal: str | None) -> Bools:
    """A mask of the states in which a run ends."""
    if goal is None:
        return np.zeros(umb.sizes.states, np.bool_)
    return umb.label(resolve(umb, goal, "goal", ("label",))[1])


def _check_reached(umb: Umb, goal: str, ends: Bools, edges: tuple[Ints, Ints]) -> None:
    """Refuse a goal that cannot be reached from every initial state; ``edges`` are sources and targets."""
    from scipy.sparse import csr_array  # slow to import
    from scipy.sparse.csgraph import breadth_first_order

    if not ends.any():
        raise ModelError(f"goal {goal!r} must hold in some state; it holds in no state of {umb.shown}.")
    graph = csr_array((np.ones(edges[0].size, np.int8), edges), shape=(ends.size, ends.size))
    for start in np.flatnonzero(umb.is_initial()).tolist():
        reached = breadth_first_order(graph, start, return_predecessors=False)
        if not ends[reached].any():
            raise ModelError(
                f"goal {goal!r} must be reachable from all initial states; it cannot be reached from "
                f"{umb.describe_state(start)} of {umb.shown}.",
                state=start,
            )


# ---------------------------------------------------------------------- numbers


def _damage(umb: Umb, name: str) -> Floats:
    """The damage of each branch, not yet checked to be an integer."""
    kind, plain = resolve(umb, name)
    if name.startswith(ENTERS) and kind != "label":
        is_kind = "an action" if kind == "action" else f"a {kind}"
        raise ModelError(f"damage {name!r} must name a label or a condition after {ENTERS!r}; {plain!r} is {is_kind}.")
    if kind == "reward":
        return umb.reward(plain)
    if kind == "label":
        holds = umb.label(plain)
        ends_there = holds[umb.successor()]
        return (ends_there & ~holds[umb.outcome_states] if name.startswith(ENTERS) else ends_there).astype(np.float64)
    ids, names = umb.actions()
    is_meant = np.array([other == plain for other in names or ()])
    return is_meant[ids][umb.outcome_choices].astype(np.float64)


def _check_ends(umb: Umb, damage: str, terminal: Ints) -> None:
    """Refuse state rewards as damage where runs end: they would never count, so budgets would be too small."""
    kind, plain = resolve(umb, damage)
    if kind != "reward":
        return
    ends = np.union1d(terminal, umb.outcome_states[_deadlock_loops(umb)])
    values = umb.state_reward(plain)[ends]
    bad = np.flatnonzero(values)
    if bad.size:
        raise never_counts(umb, plain, f"{values[bad[0]]:g}", int(ends[bad[0]]))


def never_counts(umb: Umb, rewards: str, got: str, state: int) -> ModelError:
    """The error for state rewards as damage in a state where runs end."""
    return ModelError(
        f"damage {rewards!r} counts its state rewards when a state is left, so they must be 0 where runs end; "
        f"got {got} at {umb.describe_state(state)} of {umb.shown}. For damage on arrival, pass a label or a "
        "condition as damage, or move the reward to the steps that lead there; if it must not count, make it 0 there.",
        state=state,
    )


def _accumulated(umb: Umb, name: str | None, role: str) -> Floats:
    """A reward structure, ``steps`` (1 per step), or a label or condition (1 per step that ends there), by branch."""
    if name is None:
        return np.zeros(umb.sizes.outcomes)
    name = name.strip()
    if name == STEPS and STEPS not in umb.names("reward"):
        return np.ones(umb.sizes.outcomes)
    kinds, plain = _meant(name, ("reward", "label"))
    if "reward" in kinds and plain in umb.names("reward"):
        return umb.reward(plain)
    if "label" in kinds and plain in umb.names("label"):
        return umb.label(plain)[umb.successor()].astype(np.float64)
    known = [*umb.names("reward"), STEPS, *umb.names("label")]
    remedy = f"{umb.inventory()} {STEPS!r} is 1 per step, and a label is 1 per step that ends in a state with it."
    raise UnknownName(role, plain, known, remedy)


def as_scale(scale: Scale) -> Fraction:
    """The unit of damage as an exact number; a float is taken as the decimal number that Python prints."""
    try:
        exact = Fraction(str(scale)) if not isinstance(scale, bool) else Fraction(0)
    except (ValueError, ZeroDivisionError):
        exact = Fraction(0)
    if exact <= 0:
        raise ArgumentError(f"scale must be a positive number, such as 0.1 or '1/3'; got {scale!r}")
    return exact


def scaled(damages: Floats, scale: Scale | None) -> Floats:
    """⌈d / scale⌉, computed exactly."""
    if scale is None:
        return damages
    unit = as_scale(scale)
    values, place = np.unique(damages, return_inverse=True)
    units = [math.ceil(Fraction(repr(d)) / unit) if math.isfinite(d) else d for d in values.tolist()]
    return np.array(units, np.float64)[place]


def _deadlock_loops(umb: Umb) -> Bools:
    """A mask of the branches that are self-loops of deadlocks, which are not steps of the model."""
    if DEADLOCK not in umb.names("label"):
        return np.zeros(umb.sizes.outcomes, np.bool_)
    stays: Bools = umb.label(DEADLOCK)[umb.outcome_states] & (umb.successor() == umb.outcome_states)
    return stays


def _whole(umb: Umb, damages: Floats, scale: Scale | None) -> npt.NDArray[np.uint8]:
    bad = ~are_damages(damages)
    if bad.any():
        at = int(np.argmax(bad))
        choice, state = int(umb.outcome_choices[at]), int(umb.outcome_states[at])
        raise ModelError(
            f"damage must be an integer 0 … {MAX_DAMAGE}; got {damages[at]:g} at {umb.describe_state(state)}, "
            f"choice {choice} of {umb.shown}{and_more(int(bad.sum()) - 1, 'outcome')}. {_remedy(damages, scale)}",
            state=state,
            choice=choice,
            outcome=at,
        )
    return damages.astype(np.uint8)


def _remedy(damages: Floats, scale: Scale | None) -> str:
    if not (damages >= 0).all() or not np.isfinite(damages).all():
        return "Choose another damage."
    if damages.max() > MAX_DAMAGE:
        least = damages.max() * float(1 if scale is None else as_scale(scale)) / MAX_DAMAGE
        enough = Context(prec=3, rounding=ROUND_UP).create_decimal(least)
        return f"Pass scale=, the unit of damage: at least {float(enough):g} here."
    return "Pass scale=, the unit of damage, or choose another damage."


def _without_choices(umb: Umb) -> Ints:
    empty = np.diff(umb.outcome_ptr()) == 0
    if empty.any():
        umb.archive.fail(f"every choice must have a branch; choice {int(np.argmax(empty))} has none")
    return np.flatnonzero(np.diff(umb.choice_ptr()) == 0)


def _distinct_actions(umb: Umb, ends: Bools) -> tuple[Ints, list[str] | None]:
    """Action ids that are distinct within each state, and their names.

    In files, several choices of a state may have the same action, or no action.  The second ``go`` becomes ``go (2)``,
    and choices without an action become ``choice 0``, ``choice 1``, …, or ``end`` if they only occur where runs end.
    """
    ids, names = umb.actions()
    rank = ranks(umb.choice_states.astype(np.int64) * (int(ids.max()) + 1) + ids)
    width = int(rank.max()) + 1
    if width == 1 and (names is None or all(names)):
        return ids.astype(np.int64), None if names is None else distinct(names)
    used, new_ids = np.unique(ids.astype(np.int64) * width + rank, return_inverse=True)
    if names is None:
        return new_ids, None
    ended = ends | umb.label(DEADLOCK) if DEADLOCK in umb.names("label") else ends
    acts = np.bincount(new_ids, ~ended[umb.choice_states], minlength=used.size) > 0  # not only where runs end
    plain = zip(used.tolist(), acts.tolist(), strict=True)
    return new_ids, distinct([names[key // width] or (f"choice {key % width}" if on else END) for key, on in plain])
