"""The Markov decision process with damage: one sparse, read-only form that every algorithm reads.

States own *choices* (state–action pairs), choices own *outcomes* ``(successor, probability, reward, damage)``.
Both levels are stored as offsets into flat arrays, so that states may have different action sets and a choice
may reach the same successor with several rewards and damages::

    choices of state s    choice_ptr[s] … choice_ptr[s+1] − 1        each with its action id
    outcomes of choice c  outcome_ptr[c] … outcome_ptr[c+1] − 1      each with its four numbers

Choices are ordered by (state, action), outcomes by (successor, damage, reward), so equal content gives equal
arrays and an equal fingerprint.  A *terminal* state is one whose every outcome is a damage-free, reward-free
self-loop; nothing ever happens there.

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
    """What one choice may lead to.

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
    """All outcomes of a model, as ``from_transitions`` takes them; each [num_outcomes]."""

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
    :func:`almostsure.load`.  It is immutable; its arrays are read-only.  States, actions, names, the start and the
    ways to look them up are those of :class:`almostsure.model.space.Space`.

    Parameters
    ----------
    arrays
        The content.
    initial
        The start: states and their probabilities.
    state_names, action_names
        Names by state and by action id; they appear in every message.
    layout
        Where the states stand in a drawing.
    labels
        Named sets of states, each as one truth value per state or as a list of states.
    origin
        What a file of another program says beside damage and reward.
    end, unknown, encode
        What a learned model has beside the states that can be observed, and how observations become states: see
        :class:`almostsure.model.space.Space`.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions([0], [0], [1], [1.0], [5.0], [2], terminal=[1])
    >>> mdp
    <MDP: 2 states, 2 choices, 2 outcomes, starts in 0>
    >>> mdp.outcomes(0, 0)
    [Outcome(next_state=1, probability=1.0, reward=5.0, damage=2)]
    """

    __slots__ = ("arrays", "origin")

    arrays: Arrays
    origin: Origin

    def __init__(
        self,
        arrays: Arrays,
        *,
        initial: tuple[Ints, Floats],
        origin: Origin | None = None,
        **naming: Unpack[Naming],
    ) -> None:
        self.arrays, self.origin = arrays, origin or Origin()
        super().__init__(choice_ptr=arrays.choice_ptr, choice_action=arrays.choice_action, initial=initial, **naming)
        check_outcomes(arrays, self.describe_choice)
        _check_origin(self.origin, self)
        self._check_roles()
        for name in ARRAY_NAMES:
            getattr(arrays, name).flags.writeable = False

    def _check_roles(self) -> None:
        """The end does nothing; the unknown leads to itself, and hurts."""
        for state, hurts in ((self.end, False), (self.unknown, True)):
            if state is None:
                continue
            first, last = int(self.choice_ptr[state]), int(self.choice_ptr[state + 1])
            where = slice(int(self.outcome_ptr[first]), int(self.outcome_ptr[last]))
            stays = (self.successor[where] == state).all() and ((self.damage[where] > 0) == hurts).all()
            if not stays or (not hurts and self.reward[where].any()):
                rule = "damage" if hurts else "neither reward nor damage"
                raise ModelError(f"{self.describe_state(state)} must lead to itself with {rule}", state=state)

    # ------------------------------------------------------------------ content

    @property
    def _variables(self) -> Mapping[str, npt.NDArray[Any]]:
        return self.origin.variables

    @property
    def num_outcomes(self) -> int:
        """How many outcomes there are, over all choices."""
        return self.successor.size

    @property
    def max_damage(self) -> int:
        """The largest damage of any outcome."""
        return int(self.damage.max())

    @property
    def outcome_ptr(self) -> Ints:
        """Offsets of each choice's outcomes, [num_choices + 1]."""
        return self.arrays.outcome_ptr

    @property
    def successor(self) -> Ints:
        """Next state of each outcome, [num_outcomes]."""
        return self.arrays.successor

    @property
    def probability(self) -> Floats:
        """Probability of each outcome, [num_outcomes]."""
        return self.arrays.probability

    @property
    def reward(self) -> Floats:
        """Reward of each outcome, [num_outcomes]."""
        return self.arrays.reward

    @property
    def damage(self) -> npt.NDArray[np.uint8]:
        """Damage of each outcome, [num_outcomes]."""
        return self.arrays.damage

    @property
    def support(self) -> Support:
        """Successors and damages alone: all that k* depends on.  Shares the model's memory."""
        a = self.arrays
        return Support(choice_ptr=a.choice_ptr, outcome_ptr=a.outcome_ptr, successor=a.successor, damage=a.damage)

    @property
    def nbytes(self) -> int:
        """Memory of the model's arrays in bytes."""
        return self.arrays.nbytes

    # ------------------------------------------------------------------ derived, computed when asked for

    def outcome_choices(self) -> Ints:
        """The choice of each outcome, [num_outcomes]."""
        return owners(self.outcome_ptr)

    def columns(self) -> Columns:
        """The six columns of the model's outcomes, choice by choice."""
        a, choice = self.arrays, self.outcome_choices()
        state, action = self.choice_states()[choice], a.choice_action[choice]
        return Columns(state, action, a.successor, a.probability, a.reward, a.damage)

    def show_damage(self, damage: int) -> str:
        """A damage or budget as messages show it: where a file's damage was scaled, in the unit of the file too."""
        if self.origin.scale == 1:
            return str(damage)
        return f"{damage} (in the unit of the file: {self.origin.in_its_unit(damage)})"

    def require_probabilities(self, what: str) -> None:
        """Refuse ``what`` where only the possible outcomes are known, and not how probable they are."""
        if self.origin.uncertain is not None:
            same = "upper bounds and sound" if self.origin.is_bound else "the same for all of them"
            raise ModelError(
                f"{what} needs the probabilities of the model, which are not known: {self.origin.uncertain}. "
                f"Minimal budgets, shields and certificates are {same}; for anything else, give numbers."
            )

    def is_terminal(self) -> Bools:
        """Which states are terminal: every outcome is a damage-free, reward-free self-loop, [num_states]."""
        return terminal_states(self.arrays)

    def outcomes(self, state: int | str, action: int | str) -> list[Outcome]:
        """What may happen when ``action`` is taken at ``state``."""
        c = self.choice(state, action)
        where = slice(int(self.outcome_ptr[c]), int(self.outcome_ptr[c + 1]))
        a = self.arrays
        columns = (a.successor[where], a.probability[where], a.reward[where], a.damage[where])
        return [Outcome(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    # ------------------------------------------------------------------ identity and files

    def _hash(self) -> str:
        return digest("model", {name: getattr(self.arrays, name) for name in ARRAY_NAMES}, self._start_and_roles())

    def _fields(self) -> dict[str, Any]:
        fields = super()._fields()
        del fields["choice_ptr"], fields["choice_action"]
        return {"arrays": self.arrays, "origin": self.origin, **fields}

    def with_origin(self, origin: Origin) -> MDP:
        """The same model, said to come from elsewhere."""
        return MDP(**{**self._fields(), "origin": origin})

    def with_damage(self, damage: Any, *, scale: Any = None) -> MDP:
        """The same model with another damage: "what if", in one line.  What it brought along from a file stays with it.

        Parameters
        ----------
        damage
            A label (entering a state that carries it hurts by 1), a mapping from labels to damages, one number per
            outcome of the model or one for all, or a function ``damage(state, action, next_state, reward,
            terminated)``.
        scale
            The unit, for damage that is fractional or above 255: a damage d counts as ⌈d / scale⌉, computed exactly.
            That is never too little, and less than one unit too much per step.

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
        """The same model with another reward, given as the damage of :meth:`with_damage` is; any finite numbers."""
        from almostsure.model.change import with_reward

        return with_reward(self, reward)

    def save(self, path: str | PathLike[str], *, relay: bool = False) -> None:
        """Write the model to a UMB file (``.umb``) or a DRN file (``.drn``), atomically.  See :func:`almostsure.load`.

        A name without an ending is that of a UMB file; other endings are refused.

        With ``relay``, outcomes that Storm cannot tell apart (same choice, same successor, different reward
        or damage) pass through extra relay states, so that Storm reads the file too.
        """
        from almostsure.model.files import save

        save(self, path, relay=relay)

    # ------------------------------------------------------------------ for people

    def __repr__(self) -> str:
        return (
            f"<MDP: {counted(self.num_states, 'state')}, {counted(self.num_choices, 'choice')}, "
            f"{counted(self.num_outcomes, 'outcome')}, starts in {self._shown_start()}>"
        )

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import model_card

        return model_card(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the map on Matplotlib axes, by default on new ones; they are returned."""
        from almostsure.model.show.plot import plot_map

        return plot_map(self, ax)

    def summary(self) -> str:
        """A few lines about the model: its size, damage, rewards, terminal states, start and memory."""
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
