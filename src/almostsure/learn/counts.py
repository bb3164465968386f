"""``Counts``: how often each outcome of each choice was seen.

Algorithm 2, adaptive sampling, logs, online shields and checkpoints all use this class.  For k* only *which* outcomes
(next state, damage) occur matters.  Outcomes that were seen are possible, so the k* of the empirical model is never
above that of the true one (its maxima run over fewer outcomes), and equal to it once every outcome of every choice was
seen.  :mod:`almostsure.learn.bounds` says how many samples that takes.

The table is sparse: it grows with the number of different outcomes, not of samples.  A *block* holds the outcomes of
one chunk of samples.  Adding the same blocks in the same order gives the same counts bit for bit, also if a run was
interrupted in between: counts are integers, and the rewards of an outcome are always summed block by block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import count, one_of
from almostsure.errors import ArgumentError, LimitReached, ModelMismatch
from almostsure.learn.bounds import Confidence, confidence
from almostsure.learn.evidence import check_mu
from almostsure.model.arrays import Bools, Floats, Ints
from almostsure.model.build.given import Initial
from almostsure.model.build.transitions import build
from almostsure.model.build.validate import MAX_DAMAGE
from almostsure.model.mdp import MDP
from almostsure.model.origin import Origin
from almostsure.model.space import Space
from almostsure.wording import brief, counted

UNKNOWN = ("refuse", "allow")
Unknown = Literal["refuse", "allow"]

DAMAGES = MAX_DAMAGE + 1
MANY = 1 << 20  # blocks are merged when they have more entries than this, and than the merged table
ARRAYS = {"key": "i8", "times": "i8", "reward": "f8", "samples": "i8", "latest": "i8"}  # the arrays of a file


class SeenOutcomes(NamedTuple):
    """Different outcomes, ascending."""

    key: npt.NDArray[np.int64]  # each as one number: see ``outcome_key``
    times: npt.NDArray[np.int64]  # how often each was seen
    reward: Floats  # the sum of its rewards
    # The number of the sample of its choice that showed it first; if restored, that of the choice's newest outcome.
    first: npt.NDArray[np.int64]


class Block(NamedTuple):
    """The outcomes of some samples; their ``first`` counts from 0 within the block."""

    outcomes: SeenOutcomes
    sampled: Ints  # the choices that were sampled, ascending …
    samples: Ints  # … and how often


def outcome_key(space: Space, choice: Any, next_state: Any, damage: Any) -> Any:
    """An outcome as one number; if the arguments are arrays, ``choice`` must have 64 bits."""
    return (choice * space.num_states + next_state) * DAMAGES + damage


def merged(key: npt.NDArray[Any], times: npt.NDArray[Any], reward: Floats, first: npt.NDArray[Any]) -> SeenOutcomes:
    """Sort outcomes and merge equal ones; their rewards are summed in the given order."""
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    group = np.repeat(np.arange(starts.size), np.diff(starts, append=key.size))
    gained = np.bincount(group, weights=reward[order], minlength=starts.size).astype(np.float64, copy=False)
    seen, earliest = np.add.reduceat(times[order], starts), np.minimum.reduceat(first[order], starts)
    return SeenOutcomes(key[starts], seen, gained, earliest)


@final
class Counts:
    """How often each outcome (choice, next state, damage) was seen, and its mean reward.  ``print`` it.

    The arrays of outcomes are ordered by (choice, next state, damage).

    Parameters
    ----------
    space
        The states and actions.
    max_damage
        The largest damage that one step can do.
    seed
        The seed with which the samples were drawn, if any.
    caveat
        A sentence that every statement about these counts must add.
    ended
        States in which episodes are over, besides the end of the space: nothing happens there.

    Examples
    --------
    >>> import almostsure as asure
    >>> counts = Counts(asure.example("paper"))
    >>> counts.see(0, 0, 1, reward=1.0, times=3)  # True: it is new
    True
    >>> counts
    <Counts: 3 samples of 1 of 3 choices showed 1 outcome>
    """

    def __init__(
        self,
        space: Space,
        *,
        max_damage: int = MAX_DAMAGE,
        seed: int | None = None,
        caveat: str = "",
        ended: Iterable[int] = (),
    ) -> None:
        if not isinstance(space, Space):
            raise ArgumentError(f"space must be a model, or the space of one; got {brief(space)}")
        if space.num_choices * space.num_states * DAMAGES >= 2**63:
            raise LimitReached(
                f"{space.num_choices:,} choices and {space.num_states:,} states are too many to count outcomes of"
            )
        self.space, self.max_damage, self.seed, self.caveat = space.space, max_damage, seed, caveat
        self.ended = frozenset(ended) if space.end is None else frozenset([*ended, space.end])
        self.samples: npt.NDArray[np.int64] = np.zeros(space.num_choices, np.int64)  # of each choice
        self._outcomes = SeenOutcomes(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))
        self._waiting: list[SeenOutcomes] = []  # to be merged
        self._size = 0  # entries in them
        # The outcomes by key, in place of ``_outcomes``, while they are counted one by one.
        self._by_key: dict[int, tuple[int, float, int]] | None = None

    # ------------------------------------------------------------------ counting

    def add(self, block: Block) -> None:
        """Count the samples of a block."""
        self._use_arrays()
        outcomes = block.outcomes
        seen_at = self.samples[self._choice_of(outcomes.key)] + outcomes.first + 1
        self._waiting.append(outcomes._replace(first=seen_at))
        self._size += outcomes.key.size
        self.samples[block.sampled] += block.samples
        if self._size > max(MANY, self._outcomes.key.size):
            self.merge()

    def __add__(self, other: Counts) -> Counts:
        """The sum of two counts for the same states and actions: as if ``other`` had continued this one.

        Examples
        --------
        >>> from almostsure.learn import count_outcomes
        >>> count_outcomes("paper", 20, seed=1) + count_outcomes("paper", 30, seed=2)
        <Counts: 150 samples of 3 of 3 choices showed 3 outcomes>
        """
        if not isinstance(other, Counts):
            return NotImplemented
        if self._domain() != other._domain():
            first = self.space.otherwise_named(other.space)
            raise ModelMismatch(
                "counts that are added must have the same states, actions, names, starts and ends; these differ"
                f"{first and f': {first}'}. Use the same sampler, or the same space, for all counts."
            )
        if self is other or (self.seed is not None and self.seed == other.seed):
            raise ArgumentError(
                f"counts that are added must be of different samples; both have seed {self.seed}. Draw one of them "
                "with another seed."
            )
        caveat = self.caveat if other.caveat in self.caveat else f"{self.caveat} {other.caveat}".lstrip()
        most = max(self.max_damage, other.max_damage)
        result = Counts(self.space, max_damage=most, caveat=caveat, ended=self.ended)
        for part in (self, other):
            outcomes = part.merge()
            sampled = np.flatnonzero(part.samples)
            result.add(Block(outcomes._replace(first=outcomes.first - 1), sampled, part.samples[sampled]))
        return result

    def _domain(self) -> tuple[object, ...]:
        """What must agree between counts that are added."""
        return self.space, self.space.state_names, self.space.action_names, self.ended

    def see(self, choice: int, next_state: int, damage: int, reward: float = 0.0, *, times: int = 1) -> bool:
        """Count an outcome ``times`` times; returns whether it is new."""
        choice = count("choice", choice, least=0, most=self.samples.size - 1)
        next_state = count("next_state", next_state, least=0, most=self.space.num_states - 1)
        damage, times = count("damage", damage, least=0, most=MAX_DAMAGE), count("times", times, most=2**62 - 1)
        if damage > self.max_damage:
            self.max_damage = damage  # the given one was too small
        outcomes, key = self._use_dictionary(), outcome_key(self.space, choice, next_state, damage)
        before, total, first = outcomes.get(key, (0, 0.0, int(self.samples[choice]) + 1))
        outcomes[key] = before + times, total + times * reward, first
        self.samples[choice] += times
        return not before

    def has_seen(self, choice: int, next_state: int, damage: int) -> bool:
        """Whether an outcome was seen."""
        return outcome_key(self.space, choice, next_state, damage) in self._use_dictionary()

    def _use_dictionary(self) -> dict[int, tuple[int, float, int]]:
        """The outcomes by key; they stay in this form until arrays are needed."""
        if self._by_key is None:
            key, *values = (column.tolist() for column in self.merge())
            self._by_key = dict(zip(key, zip(*values, strict=True), strict=True))
        return self._by_key

    def _use_arrays(self) -> None:
        """Convert the outcomes from a dictionary to arrays."""
        if self._by_key is not None:
            values = np.array(list(self._by_key.values()), [("times", "i8"), ("reward", "f8"), ("first", "i8")])
            key = np.array(list(self._by_key), np.int64)
            outcomes = merged(key, values["times"], values["reward"], values["first"])
            self._outcomes, self._by_key = outcomes, None

    def merge(self) -> SeenOutcomes:
        """Merge the blocks that were added, all or none: Ctrl-C in between neither loses nor doubles a sample."""
        self._use_arrays()
        if self._waiting:
            columns = zip(self._outcomes, *self._waiting, strict=True)
            outcomes = merged(*map(np.concatenate, columns))
            # Python handles signals only at calls and loops, and there are none from here on.
            self._outcomes, self._waiting, self._size = outcomes, [], 0
        return self._outcomes

    def _choice_of(self, key: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return key // (self.space.num_states * DAMAGES)

    # ------------------------------------------------------------------ the outcomes seen

    @property
    def total(self) -> int:
        """The number of samples."""
        return int(self.samples.sum())

    @property
    def num_outcomes(self) -> int:
        """The number of different outcomes seen."""
        return self.merge().key.size

    @property
    def choice(self) -> npt.NDArray[np.int64]:
        """The choice of each outcome seen, ascending."""
        return self._choice_of(self.merge().key)

    @property
    def next_state(self) -> npt.NDArray[np.int64]:
        """The next state of each outcome seen."""
        return self.merge().key // DAMAGES % self.space.num_states

    @property
    def damage(self) -> npt.NDArray[np.uint8]:
        """The damage of each outcome seen."""
        return (self.merge().key % DAMAGES).astype(np.uint8)

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """How often each outcome was seen."""
        return self.merge().times

    @property
    def reward(self) -> Floats:
        """The mean reward of each outcome seen."""
        return self.merge().reward / self.times

    @property
    def latest(self) -> npt.NDArray[np.int64]:
        """For each choice the number of the sample that showed its newest outcome, [num_choices]; 0 without samples."""
        result = np.zeros(self.samples.size, np.int64)
        np.maximum.at(result, self.choice, self._outcomes.first)
        return result

    def outcomes_seen(self) -> npt.NDArray[np.int64]:
        """The number of different outcomes that each choice showed, [num_choices]."""
        return np.bincount(self.choice, minlength=self.space.num_choices)

    def is_end(self) -> Bools:
        """A mask of the choices in states where episodes are over, which need no samples, [num_choices]."""
        return np.isin(self.space.choice_states(), list(self.ended))

    def confidence(self, mu: float) -> Confidence:
        """The probability that all outcomes were seen, if none is rarer than ``mu``.

        Raises ArgumentError if the counts refute that assumption.
        """
        samples = self.samples[~self.is_end()]
        result = confidence(samples, mu, num_states=self.space.num_states, num_damages=self.max_damage + 1)
        check_mu(self, mu)
        return replace(result, caveat=self.caveat)

    def __repr__(self) -> str:
        return f"<Counts: {self}>"

    def __str__(self) -> str:
        sampled = int(np.count_nonzero(self.samples))
        return (
            f"{counted(self.total, 'sample')} of {sampled:,} of {counted(self.samples.size, 'choice')} "
            f"showed {counted(self.num_outcomes, 'outcome')}{'' if self.seed is None else f' (seed {self.seed})'}"
        )

    # ------------------------------------------------------------------ the empirical model

    def to_mdp(
        self, unknown: Unknown = "refuse", *, known: Bools | None = None, starts: tuple[Ints, Floats] | None = None
    ) -> MDP:
        """The empirical model: the probability of every outcome is its relative frequency.

        Parameters
        ----------
        unknown
            How to model choices that are not known.  With ``"refuse"`` they lead to the state ``unknown``, which is
            added if there are such choices, so every shield refuses them.  With ``"allow"`` they stay in their state
            and do no damage.
        known
            A mask of the choices that are known, [num_choices]; by default those that were sampled.
        starts
            Initial states and their probabilities; by default those of the space.
        """
        one_of("value for unknown=:", unknown, UNKNOWN)
        is_known = (self.samples > 0) & ~self.is_end()
        if known is not None:
            if np.shape(known) != is_known.shape or np.asarray(known).dtype != np.bool_:
                raise ArgumentError(
                    f"known must be {is_known.size} booleans, one per choice; got shape {np.shape(known)}"
                )
            is_known &= known
        refuses = unknown == "refuse" and not (is_known | self.is_end()).all()
        space = self.space.with_unknown() if refuses else self.space
        starts = (space.initial_states, space.initial_probabilities) if starts is None else starts
        return self._model(space, is_known, starts, refuses=refuses)

    def _model(self, space: Space, known: Bools, starts: tuple[Ints, Floats], *, refuses: bool) -> MDP:
        """The known choices as counted; the others stay in their state, or lead to the state ``unknown``."""
        owner = space.choice_states().astype(np.int64)
        known = np.append(known, np.zeros(space.num_choices - known.size, np.bool_))
        is_unknown = owner == (-1 if space.unknown is None else space.unknown)
        known &= ~is_unknown
        seen, missing = self.choice, np.flatnonzero(~known)
        kept = known[seen]
        target = owner[missing]
        if refuses:
            assert space.unknown is not None
            target = np.where(np.isin(target, list(self.ended)), target, space.unknown)
        none, choice = np.zeros(missing.size), np.concatenate([seen[kept], missing])
        columns = (
            owner[choice],
            space.choice_action[choice],
            np.concatenate([self.next_state[kept], target]),
            np.concatenate([(self.times / self.samples[seen])[kept], none + 1]),
            np.concatenate([self.reward[kept] + 0.0, none]),
            np.concatenate([self.damage[kept], is_unknown[missing]]),
        )
        initial: Initial = dict(zip(*(column.tolist() for column in starts), strict=True))
        return build(
            columns, num_states=space.num_states, initial=initial, origin=Origin(counted=True), **space.naming()
        )

    # ------------------------------------------------------------------ files

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The counts as arrays, by the names in ``ARRAYS``."""
        key, times, reward, _ = self.merge()
        return {"key": key, "times": times, "reward": reward, "samples": self.samples, "latest": self.latest}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Replace the counts by those of :meth:`to_arrays`; ValueError if the arrays are not counts of this space."""
        key, times, reward, samples, latest = (arrays[name] for name in ARRAYS)
        per_choice, outcomes = (self.space.num_choices,), key.shape
        shapes = [times.shape == reward.shape == outcomes, samples.shape == latest.shape == per_choice, key.ndim == 1]
        if not all(shapes) or any(arrays[name].dtype != kind for name, kind in ARRAYS.items()):
            raise ValueError("its arrays are not those of these states and actions")
        width = self.space.num_states * DAMAGES
        if key.size and not (key[0] >= 0 and key[-1] < width * samples.size and (np.diff(key) > 0).all()):
            raise ValueError("its outcomes do not exist, or are not in order")
        if not ((times > 0).all() and np.isfinite(reward).all() and ((latest >= 0) & (latest <= samples)).all()):
            raise ValueError("its numbers are not counts")
        if not (np.bincount(key // width, weights=times, minlength=samples.size) == samples).all():
            raise ValueError("its outcomes do not add up to its samples")
        self._outcomes = SeenOutcomes(key.copy(), times.copy(), reward.copy(), latest[key // width])
        self.samples, self._by_key, self._waiting, self._size = samples.copy(), None, [], 0
