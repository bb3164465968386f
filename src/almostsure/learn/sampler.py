"""What can be learned from: anything that answers "what happens if I do this there?", for many choices at once.

A *sampler* has ``num_states``, ``actions(state)`` and ``sample(states, actions, rng)``; see :class:`Sampler`.  An
MDP is one, a Python function or a Gymnasium environment is made one by :mod:`almostsure.learn.simulators`.

What is known before anything was sampled, which choices there are, is kept as the *blank* model: every choice is a
damage- and reward-free self-loop.  That loop never changes a k* (it costs d + v(s) = v(s), which no choice of s is
cheaper than), so it may stay when outcomes are added.

Nothing that a sampler returns is believed: shapes, ranges, rewards and damages are checked, and the first offender is
named with its state and action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more
from almostsure.errors import AlmostSureError, ModelError
from almostsure.model.mdp import MDP, Arrays, Floats, Ints, action_dtype, index_dtype
from almostsure.model.source import as_model
from almostsure.model.space import initial_distribution
from almostsure.model.validate import MAX_DAMAGE

ABSTRACTION = (
    "This is about the abstraction that encode makes, in which set_state picks the real states: "
    "real states that share a number may differ from it."
)

Answer = tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]


@runtime_checkable
class Sampler(Protocol):
    """What a simulator must offer.

    It may also have ``initial`` (a state or a mapping to probabilities, 0 by default), ``max_damage`` (255 by
    default; a smaller one makes bounds sharper), ``state_names``, ``action_names``, ``is_abstraction`` (whether its
    states stand for several real ones) and ``identity`` (a text that tells it from others, for checkpoints).
    """

    @property
    def num_states(self) -> int:
        """How many states there are."""
        ...

    def actions(self, state: int) -> npt.ArrayLike:
        """The ids of the actions that a state has."""
        ...

    def sample(self, states: Ints, actions: Ints, rng: np.random.Generator) -> Answer:
        """One outcome of each choice: next states, rewards and damages, each as long as ``states``.

        Outcomes must be independent, and random through ``rng`` only: then results depend on the seed alone.
        """
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """A sampler whose choices are known and whose answers are checked."""

    sampler: Any
    blank: MDP  # the choices, see the module's docstring
    model: MDP | None  # what is sampled from, if it is a model
    max_damage: int
    identity: str
    caveat: str = ""  # what every statement about it must add
    end: int | None = None  # a state in which nothing happens any more, so that it needs no samples

    def draw(self, choices: Ints, rng: np.random.Generator) -> tuple[Ints, Floats, Ints]:
        """One outcome of each choice, checked: next states, rewards, damages."""
        states = self.blank.successor[choices].astype(np.int64)  # of a self-loop
        actions = self.blank.choice_action[choices].astype(np.int64)
        try:
            answer = self.sampler.sample(states, actions, rng)
        except AlmostSureError:
            raise
        except Exception as error:
            raise ModelError(f"the sampler failed: {type(error).__name__}: {error}") from error
        return self._checked(choices, answer)

    def _checked(self, choices: Ints, answer: Any) -> tuple[Ints, Floats, Ints]:
        if not isinstance(answer, (tuple, list)) or len(answer) != 3:
            raise ModelError(f"a sampler must return (next_states, rewards, damages); got {_shown(answer)}")
        states, rewards, damages = (
            self._column(name, values, choices)
            for name, values in zip(("next_states", "rewards", "damages"), answer, strict=True)
        )
        last = self.blank.num_states - 1
        self._require(_whole(states, 0, last), f"next states must be integers 0 … {last}", states, choices)
        self._require(np.isfinite(rewards.astype(np.float64)), "rewards must be finite", rewards, choices)
        rule = f"damages must be integers 0 … {self.max_damage}"
        self._require(_whole(damages, 0, self.max_damage), rule, damages, choices)
        return states.astype(np.int64), rewards.astype(np.float64), damages.astype(np.int64)

    def _column(self, name: str, values: Any, choices: Ints) -> npt.NDArray[Any]:
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise ModelError(f"{name} must be {choices.size} numbers; {error}") from None
        if array.shape != choices.shape:
            raise ModelError(
                f"a sampler must return {choices.size} {name}, one a choice; got shape {list(array.shape)}"
            )
        if array.dtype.kind not in "iufb":
            good = np.array([_is_number(value) for value in array.tolist()], np.bool_)
            self._require(good, f"{name} must be numbers", array, choices)
            return array.astype(np.float64)
        return array

    def _require(self, good: npt.NDArray[np.bool_], rule: str, values: npt.NDArray[Any], choices: Ints) -> None:
        if good.all():
            return
        at = int(np.argmin(good))
        choice, more = int(choices[at]), int(good.size - np.count_nonzero(good)) - 1
        raise ModelError(
            f"{rule}; the sampler returned {_shown(values.tolist()[at])} at {self.blank.describe_choice(choice)}"
            f"{and_more(more, 'sample')}.",
            state=int(self.blank.successor[choice]), action=int(self.blank.choice_action[choice]), choice=choice,
        )  # fmt: skip


def as_source(sampler: Any) -> Source:
    """The source of a sampler, of a model, or of what names a model."""
    if isinstance(sampler, Source):
        return sampler
    if isinstance(sampler, MDP) or not hasattr(sampler, "sample"):
        if not isinstance(sampler, (MDP, str)) and not hasattr(sampler, "__fspath__"):
            raise ModelError(
                f"a sampler must be a model or have num_states, actions and sample; got {type(sampler).__name__}. "
                "Wrap a function in FunctionSampler, a Gymnasium environment in EnvSampler."
            )
        return _of_model(as_model(sampler))
    identity = getattr(sampler, "identity", None) or f"{type(sampler).__module__}.{type(sampler).__qualname__}"
    return Source(
        sampler=sampler, blank=blank_of(sampler), model=None, max_damage=_max_damage(sampler), identity=str(identity),
        caveat=ABSTRACTION if getattr(sampler, "is_abstraction", False) else "",
    )  # fmt: skip


def _of_model(mdp: MDP) -> Source:
    mdp.require_probabilities("a sampler")
    return Source(
        sampler=mdp, blank=blank_of(mdp), model=mdp, max_damage=mdp.max_damage, identity=mdp.fingerprint,
    )  # fmt: skip


def _max_damage(sampler: Any) -> int:
    most = getattr(sampler, "max_damage", MAX_DAMAGE)
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or not 0 <= most <= MAX_DAMAGE:
        raise ModelError(f"a sampler's max_damage must be an integer 0 … {MAX_DAMAGE}; got {most!r}")
    return int(most)


# ---------------------------------------------------------------------- the choices


def blank_of(sampler: Any) -> MDP:
    """The blank model of a sampler or of a model: its choices, each a damage- and reward-free self-loop."""
    if isinstance(sampler, MDP):
        ptr, action = sampler.choice_ptr, sampler.choice_action
        initial = sampler.initial_states, sampler.initial_probabilities
        layout = sampler.layout
    else:
        ptr, action = _listed(sampler)
        start, names = getattr(sampler, "initial", 0), getattr(sampler, "state_names", None)
        initial = initial_distribution(start, ptr.size - 1, names)
        layout = None
    states: Ints = np.repeat(np.arange(ptr.size - 1, dtype=index_dtype(ptr.size - 1)), np.diff(ptr))
    return MDP(
        Arrays(
            choice_ptr=ptr, choice_action=action,
            outcome_ptr=np.arange(action.size + 1, dtype=index_dtype(action.size + 1)), successor=states,
            probability=np.ones(action.size), reward=np.zeros(action.size), damage=np.zeros(action.size, np.uint8),
        ),
        initial=initial,
        state_names=getattr(sampler, "state_names", None),
        action_names=getattr(sampler, "action_names", None),
        layout=layout,
    )  # fmt: skip


def _listed(sampler: Any) -> tuple[Ints, Ints]:
    """Where each state's choices begin, and the action of each choice."""
    count = getattr(sampler, "num_states", None)
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
        raise ModelError(f"a sampler's num_states must be a positive integer; got {count!r}")
    if not callable(getattr(sampler, "actions", None)):
        raise ModelError("a sampler must have actions(state), the action ids of a state")
    rows = [_action_row(sampler, state) for state in range(int(count))]
    action = np.concatenate(rows)
    ptr = np.zeros(len(rows) + 1, index_dtype(action.size + 1))
    np.cumsum([row.size for row in rows], out=ptr[1:])
    return ptr, action.astype(action_dtype(int(action.max()) + 1))


def _action_row(sampler: Any, state: int) -> Ints:
    try:
        row = np.unique(np.asarray(sampler.actions(state)))
    except AlmostSureError:
        raise
    except Exception as error:
        raise ModelError(f"actions({state}) failed: {type(error).__name__}: {error}", state=state) from error
    if row.size == 0 or row.dtype.kind not in "iu" or row[0] < 0:
        raise ModelError(
            f"actions({state}) must be one or more action ids, integers from 0; got {_shown(row)}", state=state
        )
    return row


# ---------------------------------------------------------------------- pieces


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 2**53


def _whole(values: npt.NDArray[Any], least: int, most: int) -> npt.NDArray[np.bool_]:
    good: npt.NDArray[np.bool_] = (values >= least) & (values <= most)
    if values.dtype.kind == "f":
        good &= values == np.floor(values)
    return good


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
