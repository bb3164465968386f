"""The Markov decision process with damage, in the sparse, read-only form that all algorithms use.

States own *choices* (state–action pairs), choices own *outcomes* ``(successor, probability, reward, damage)``.
Both levels are stored as offsets into flat arrays, so states may have different action sets, and a choice may reach
the same successor with several rewards and damages::

    choices of state s    choice_ptr[s] … choice_ptr[s+1] − 1        each with its action id
    outcomes of choice c  outcome_ptr[c] … outcome_ptr[c+1] − 1      each with its four values

Choices are ordered by (state, action), outcomes by (successor, damage, reward), so equal content has equal arrays and
an equal fingerprint.  A state is *terminal* if all its outcomes are self-loops without damage and reward.

A model takes 21 bytes per outcome, 5 per choice and 4 per state below 2³¹ outcomes and 256 actions: 23 bytes per
outcome with three outcomes per choice and four choices per state.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import ModelError
from almostsure.model.arrays import ARRAY_NAMES, digest, owners, terminal_states
from almostsure.model.arrays import Arrays as Arrays
from almostsure.model.arrays import Bools as Bools
from almostsure.model.arrays import Floats as Floats
from almostsure.model.arrays import Ints as Ints
from almostsure.model.arrays import Support as Support
from almostsure.model.arrays import action_dtype as action_dtype
from almostsure.model.arrays import index_dtype as index_dtype
from almostsure.model.build.given import Initial as Initial
from almostsure.model.build.validate import check_outcomes
from almostsure.model.origin import Origin
from almostsure.model.space import Naming, Space
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.plots import Axes


class Outcome(NamedTuple):
    """One outcome of a choice.

    Examples
    --------
    >>> import almostsure as asure
    >>> paper = asure.example("paper")
    >>> paper.outcomes("circle", "left")
    [Outcome(next_state=0, probability=1.0, reward=1.0, damage=1)]
    """

    next_state: int
    probability: float
    reward: float
    damage: int


class Columns(NamedTuple):
    """All outcomes of a model, as the arguments of ``from_transitions``; each [num_outcomes]."""

    state: Ints
    action: Ints
    next_state: Ints
    probability: Floats
    reward: Floats
    damage: Ints


@final
class MDP(Space):
    """A finite Markov decision process whose outcomes carry a reward and a damage 0 … 255.

    Build one with :func:`almostsure.from_transitions` or another ``from_…`` function, or load one with
    :func:`almostsure.load`.  It is immutable; its arrays are read-only.  States, actions, names, the initial
    distribution and lookups are inherited from :class:`almostsure.model.space.Space`.

    Parameters
    ----------
    arrays
        The arrays of choices and outcomes.
    initial
        The initial states and their probabilities.
    state_names, action_names
        Names by state and by action id, used in all messages.
    layout
        The positions of the states in a drawing.
    labels
        Named sets of states, each as one truth value per state or as a list of states.
    origin
        What the file of another program says besides damage and reward, and how the model was found.
    end, unknown, encode
        The states of a learned model that cannot be observed, and a function from observations to states: see
        :class:`almostsure.model.space.Space`.

    Attributes
    ----------
    outcome_ptr
        Offsets of each choice's outcomes, [num_choices + 1].
    successor, probability, reward, damage
        Next state, probability, reward and damage of each outcome, [num_outcomes].

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0], [0], [1], [1.0], [5.0], [2], terminal=[1])
    >>> mdp
    <MDP: 2 states, 2 choices, 2 outcomes, starts in 0>
    >>> mdp.outcomes(0, 0)
    [Outcome(next_state=1, probability=1.0, reward=5.0, damage=2)]
    """

    __slots__ = ("arrays", "damage", "origin", "outcome_ptr", "probability", "reward", "successor")

    arrays: Arrays
    origin: Origin
    outcome_ptr: Ints  # [num_choices + 1]
    successor: Ints  # [num_outcomes]
    probability: Floats  # [num_outcomes]
    reward: Floats  # [num_outcomes]
    damage: npt.NDArray[np.uint8]  # [num_outcomes]

    def __init__(
        self,
        arrays: Arrays,
        *,
        initial: tuple[Ints, Floats],
        origin: Origin | None = None,
        **naming: Unpack[Naming],
    ) -> None:
        self.arrays, self.origin = arrays, origin or Origin()
        self.outcome_ptr, self.successor = arrays.outcome_ptr, arrays.successor
        self.probability, self.reward, self.damage = arrays.probability, arrays.reward, arrays.damage
        super().__init__(choice_ptr=arrays.choice_ptr, choice_action=arrays.choice_action, initial=initial, **naming)
        check_outcomes(arrays, self.describe_choice)
        _check_origin(self.origin, self)
        self._check_roles()
        for name in ARRAY_NAMES:
            getattr(arrays, name).flags.writeable = False

    def _check_roles(self) -> None:
        """Check that the end is terminal, and that the unknown leads to itself with damage."""
        for state, does_damage in ((self.end, False), (self.unknown, True)):
            if state is None:
                continue
            first, last = int(self.choice_ptr[state]), int(self.choice_ptr[state + 1])
            where = slice(int(self.outcome_ptr[first]), int(self.outcome_ptr[last]))
            stays = (self.successor[where] == state).all() and ((self.damage[where] > 0) == does_damage).all()
            if not stays or (not does_damage and self.reward[where].any()):
                rule = "damage" if does_damage else "neither reward nor damage"
                raise ModelError(f"{self.describe_state(state)} must lead to itself with {rule}", state=state)

    # ------------------------------------------------------------------ content

    @property
    def _variables(self) -> Mapping[str, npt.NDArray[Any]]:
        return self.origin.variables

    @property
    def num_outcomes(self) -> int:
        """The number of outcomes, over all choices."""
        return self.successor.size

    @property
    def max_damage(self) -> int:
        """The largest damage of an outcome."""
        return int(self.damage.max())

    @property
    def support(self) -> Support:
        """Successors and damages, all that k* depends on."""
        return self.arrays

    @property
    def nbytes(self) -> int:
        """Memory of the model's arrays in bytes."""
        return self.arrays.nbytes

    # ------------------------------------------------------------------ derived, computed on call

    def outcome_choices(self) -> Ints:
        """The choice of each outcome, [num_outcomes]."""
        return owners(self.outcome_ptr)

    def columns(self) -> Columns:
        """The six columns of the model's outcomes, choice by choice."""
        choice = self.outcome_choices()
        state, action = self.choice_states()[choice], self.choice_action[choice]
        return Columns(state, action, self.successor, self.probability, self.reward, self.damage)

    def show_damage(self, damage: int) -> str:
        """A damage or budget as messages show it: if the file's damage was scaled, also in the unit of the file."""
        if self.origin.scale == 1:
            return str(damage)
        return f"{damage} (in the unit of the file: {self.origin.in_its_unit(damage)})"

    def require_probabilities(self, what: str) -> None:
        """Refuse ``what`` if only the possible outcomes are known, not their probabilities."""
        if self.origin.uncertain is not None:
            hold = "are upper bounds and sound" if self.origin.is_bound else "do not depend on them"
            raise ModelError(
                f"{what} needs the probabilities of the model, which are not known: {self.origin.uncertain}. "
                f"Minimal budgets, shields and certificates {hold}; for anything else, give numbers."
            )

    def is_terminal(self) -> Bools:
        """A mask of the terminal states, [num_states]."""
        return terminal_states(self.arrays)

    def outcomes(self, state: int | str, action: int | str) -> list[Outcome]:
        """The possible outcomes of ``action`` at ``state``."""
        c = self.choice(state, action)
        where = slice(int(self.outcome_ptr[c]), int(self.outcome_ptr[c + 1]))
        columns = self.successor, self.probability, self.reward, self.damage
        return [Outcome(*row) for row in zip(*(column[where].tolist() for column in columns), strict=True)]

    # ------------------------------------------------------------------ identity and files

    def _hash(self) -> str:
        return digest("model", {name: getattr(self.arrays, name) for name in ARRAY_NAMES}, self._start_and_roles())

    def _fields(self) -> dict[str, Any]:
        fields = super()._fields()
        del fields["choice_ptr"], fields["choice_action"]
        return {"arrays": self.arrays, "origin": self.origin, **fields}

    def with_origin(self, origin: Origin) -> MDP:
        """The same model with another origin."""
        return MDP(**{**self._fields(), "origin": origin})

    def with_damage(self, damage: Any, *, scale: Any = None) -> MDP:
        """The same model with another damage.  Variables, labels and reward structures from a file are kept.

        Parameters
        ----------
        damage
            A label (entering a state with it does damage 1), a mapping from labels to damages, one number per
            outcome of the model or one for all, or a function ``damage(state, action, next_state, reward,
            terminated)``.
        scale
            The unit, for damage that is fractional or above 255: a damage d counts as ⌈d / scale⌉, computed exactly.
            This is never too small, and less than one unit too large per step.

        Examples
        --------
        >>> import almostsure as asure
        >>> mdp = asure.example("quicksand")
        >>> twice = mdp.with_damage(2 * mdp.damage)
        >>> asure.minimal_budget(mdp).smallest_budget(), asure.minimal_budget(twice).smallest_budget()
        (2, 4)
        """
        from almostsure.model.change import with_damage

        return with_damage(self, damage, scale)

    def with_reward(self, reward: Any) -> MDP:
        """The same model with another reward, any finite numbers, in the forms that :meth:`with_damage` accepts."""
        from almostsure.model.change import with_reward

        return with_reward(self, reward)

    def save(self, path: str | PathLike[str], *, relay: bool = False) -> None:
        """Write the model to a UMB file (``.umb``) or a DRN file (``.drn``), atomically.  See :func:`almostsure.load`.

        A name without an ending means a UMB file; other endings are refused.

        With ``relay``, outcomes that Storm cannot tell apart (same choice, same successor, different reward
        or damage) pass through additional relay states, so that Storm can read the file.
        """
        from almostsure.model.files import save

        save(self, path, relay=relay)

    # ------------------------------------------------------------------ display

    def __repr__(self) -> str:
        return (
            f"<MDP: {counted(self.num_states, 'state')}, {counted(self.num_choices, 'choice')}, "
            f"{counted(self.num_outcomes, 'outcome')}, starts in {self._shown_start()}>"
        )

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import model_card

        return model_card(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the map on Matplotlib axes, by default new ones, and return them."""
        from almostsure.model.show.plot import plot_map

        return plot_map(self, ax)

    def summary(self) -> str:
        """A description in a few lines: size, damage, rewards, terminal states, start and memory."""
        from almostsure.model.show.describe import summary

        return summary(self)


def _check_origin(origin: Origin, mdp: MDP) -> None:
    for what, found, count in (
        ("reward", origin.rewards, mdp.num_choices),
        ("variable", origin.variables, mdp.num_states),
    ):
        for name, values in found.items():
            if values.shape != (count,):
                raise ModelError(f"{what} {name!r} must have {counted(count, 'value')}; got {values.size}")
            values.flags.writeable = False
