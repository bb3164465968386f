"""``Umb``: the content of a UMB file, written by Storm, PRISM, Modest or this package.

UMB (unified Markov binary, https://github.com/pmc-tools/umb) is a tar archive of an ``index.json`` and
little-endian arrays: states own choices, choices own branches, and annotations attach rewards and atomic
propositions to them.  :class:`Umb` validates the index (:mod:`almostsure.model.umb.schema`) and reads the arrays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from almostsure.errors import FileError, UnknownName
from almostsure.model.arrays import CHUNK, owners
from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.model.naming import named
from almostsure.model.umb.archive import Archive, Path
from almostsure.model.umb.schema import Annotation, Index, Kind, read_index
from almostsure.model.umb.valuations import Variables, read_variables, valuation_names

NEWEST_FORMAT = 1
INDEX_LIMIT = 1 << 28  # bytes
KINDS = ("label", "reward", "action")
RATIONAL = np.dtype([("numerator", "<i8"), ("denominator", "<u8")])


class Umb:
    """A UMB file whose index has been checked against the sizes of its members; arrays are read on demand."""

    def __init__(self, path: Path, *, shown: str | None = None) -> None:
        self.archive = Archive(path, shown=shown)
        self.index = _read_index(self.archive)
        self.sizes = self.index.system
        self._probability = self._check_kind()
        self._check_members()

    @property
    def shown(self) -> str:
        """The name of the file in messages."""
        return self.archive.shown

    # ------------------------------------------------------------------ the graph

    def choice_ptr(self) -> Ints:
        """Offsets of each state's choices."""
        return self._offsets("state-to-choices.bin", self.sizes.states, self.sizes.choices)

    def outcome_ptr(self) -> Ints:
        """Offsets of each choice's branches."""
        return self._offsets("choice-to-branches.bin", self.sizes.choices, self.sizes.outcomes)

    def _offsets(self, name: str, count: int, length: int) -> Ints:
        if name not in self.archive:  # then each owns exactly one, as _check_members has checked
            return np.arange(count + 1)
        offsets = self.archive.array(name, "<i8", count + 1)
        self.archive.check_offsets(name, offsets, length)
        return offsets

    def successor(self) -> Ints:
        """Target of each branch."""
        targets = self.archive.array("branch-to-target.bin", "<i8", self.sizes.outcomes)
        for begin in range(0, targets.size, CHUNK):
            part = targets[begin : begin + CHUNK]
            if part.min() < 0 or part.max() >= self.sizes.states:
                at = int(np.argmax((part < 0) | (part >= self.sizes.states)))
                self.archive.fail(
                    f"member 'branch-to-target.bin' must hold states 0 … {self.sizes.states - 1}; "
                    f"entry {begin + at} is {part.view('<u8')[at]}"
                )
        return targets

    def probability(self) -> Floats:
        """Probability of each branch."""
        return self._numbers("branch-to-probability.bin", self._probability, self.sizes.outcomes)

    @property
    def has_intervals(self) -> bool:
        """Whether the probabilities are intervals."""
        return self._probability.name.endswith("-interval")

    def intervals(self) -> tuple[Floats, Floats]:
        """The lower and upper bounds of the probability of each branch, unchecked."""
        name = "branch-to-probability.bin"
        if self._probability != ("double-interval", 128):
            self.archive.fail(f"member {name!r} must hold intervals of doubles", "Export the model with doubles.")
        pairs = self.archive.array(name, "<f8", 2 * self.sizes.outcomes).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    @cached_property
    def outcome_choices(self) -> Ints:
        """The choice of each branch."""
        return owners(self.outcome_ptr())

    @cached_property
    def choice_states(self) -> Ints:
        """The state of each choice."""
        return owners(self.choice_ptr())

    @cached_property
    def outcome_states(self) -> Ints:
        """The state of each branch."""
        return self.choice_states[self.outcome_choices]

    def is_initial(self) -> Bools:
        """A mask of the initial states."""
        claimed = self.sizes.initial_states
        if claimed == 0:
            self.archive.fail("a model must have an initial state; this file has none", "Add one and export it again.")
        result = self.archive.bits("state-is-initial.bin", self.sizes.states)
        if np.count_nonzero(result) != claimed:
            self.archive.fail(
                f"member 'state-is-initial.bin' must mark {claimed} states, as the index says; "
                f"it marks {np.count_nonzero(result)}"
            )
        return result

    # ------------------------------------------------------------------ annotations

    def actions(self) -> tuple[Ints, list[str] | None]:
        """The action of each choice, and the names of the actions, if any; "" is an action without a name."""
        count = self.sizes.choice_actions
        if count == 0:
            return np.zeros(self.sizes.choices, np.int64), [""]
        name, folder = "actions/choices/values.bin", "actions/choices"
        named = f"{folder}/string-mapping.bin" in self.archive
        if name in self.archive:
            ids = self.archive.array(name, "<u4", self.sizes.choices)
        else:
            ids = np.zeros(self.sizes.choices, np.uint32)
        if ids.size and ids.max() >= count:
            self.archive.fail(f"member {name!r} must hold actions 0 … {count - 1}; it holds {ids.max()}")
        return ids, self.archive.strings(folder, count) if named else None

    def names(self, kind: str) -> list[str]:
        """The names of all labels, rewards or actions."""
        if kind == "action":
            return [name for name in self.actions()[1] or () if name]
        found = [entry.alias if entry.alias is not None else key for key, entry in self._group(kind).items()]
        return [*found, "init"] if kind == "label" and "init" not in found else found

    def label(self, name: str) -> Bools:
        """A mask of the states that carry a label."""
        key, entry = self._find("label", name)
        if entry is None:
            return self.is_initial()
        if entry.kind.name != "bool" or entry.applies_to != ("states",):
            self.archive.fail(f"label {name!r} must hold one bit per state")
        return self.archive.bits(f"annotations/aps/{key}/states/values.bin", self.sizes.states)

    def reward(self, name: str) -> Floats:
        """The total of a reward structure for each branch."""
        key, entry = self._find("reward", name)
        if entry is None:
            raise UnknownName("reward", name, self.names("reward"), self.inventory())
        if not entry.applies_to:
            self.archive.fail(
                f"reward {name!r} must belong to states, choices or branches; it has no values",
                "DRN files cannot hold rewards of single outcomes: use a UMB file.",
            )
        total = np.zeros(self.sizes.outcomes)
        for where in set(entry.applies_to):
            total += self._spread(f"annotations/rewards/{key}/{where}/values.bin", entry.kind, where)
        return total

    def state_reward(self, name: str) -> Floats:
        """The state rewards of a reward structure, which count on every step out of the state; 0 if it has none."""
        key, entry = self._find("reward", name)
        if entry is None or "states" not in entry.applies_to:
            return np.zeros(self.sizes.states)
        return self._numbers(f"annotations/rewards/{key}/states/values.bin", entry.kind, self.sizes.states)

    def reward_places(self, name: str) -> tuple[str, ...]:
        """What a reward structure applies to; empty if a DRN file lost its rewards of outcomes."""
        entry = self._find("reward", name)[1]
        return () if entry is None else entry.applies_to

    def mean_reward(self, name: str) -> Floats:
        """The total of a reward structure for each choice, with the mean of rewards that depend on the branch."""
        total, first = self.reward(name), self.outcome_ptr()[:-1]
        if "branches" not in self.reward_places(name):
            return total[first]
        if not self.has_intervals:
            return np.add.reduceat(total * self.probability(), first)
        return np.add.reduceat(total, first) / np.diff(self.outcome_ptr())  # any weights that sum to 1

    def _spread(self, member: str, kind: Kind, where: str) -> Floats:
        if where == "branches":
            return self._numbers(member, kind, self.sizes.outcomes)
        if where == "choices":
            return self._numbers(member, kind, self.sizes.choices)[self.outcome_choices]
        return self._numbers(member, kind, self.sizes.states)[self.outcome_states]

    def inventory(self) -> str:
        """The labels, rewards and actions of the file, for messages."""
        return listed(self.shown, {kind: self.names(kind) for kind in KINDS})

    @cached_property
    def variables(self) -> Variables:
        """The values of a program's variables in each state, if the file has them."""
        return read_variables(self.archive, self.index.valuations, self.sizes.states)

    @cached_property
    def state_names(self) -> list[str] | None:
        """The names of the states, by these values."""
        return valuation_names(self.variables)

    def describe_state(self, state: int) -> str:
        """A state as messages show it."""
        return f"state {state}{named(self.state_names, state)}"

    # ------------------------------------------------------------------ helpers

    def _group(self, kind: str) -> Mapping[str, Annotation]:
        return self.index.annotations.get("aps" if kind == "label" else "rewards", {})

    def _find(self, kind: str, name: str) -> tuple[str, Annotation | None]:
        """The key of a label or reward with this alias or key, and its entry, if there is one."""
        known = self._group(kind)
        key = next((key for key, entry in known.items() if entry.alias == name), name)
        return key, known.get(key)

    def _numbers(self, member: str, kind: Kind, count: int) -> Floats:
        if kind == ("double", 64):
            return self.archive.array(member, "<f8", count)
        if kind == ("double-interval", 128):  # the type of rewards if probabilities are intervals
            pairs = self.archive.array(member, "<f8", 2 * count).reshape(-1, 2)
            if (pairs[:, 0] != pairs[:, 1]).any():
                self.archive.fail(f"member {member!r} must hold numbers; some are intervals", "Correct the model.")
            return pairs[:, 0]
        if kind == ("rational", 128):
            pairs = self.archive.array(member, RATIONAL, count)
            if not pairs["denominator"].all():
                self.archive.fail(f"member {member!r} has a zero denominator")
            return np.asarray(pairs["numerator"] / pairs["denominator"], np.float64)
        self.archive.fail(
            f"member {member!r} has {kind.bits}-bit {kind.name} numbers; doubles and 128-bit rationals can be read",
            "Export the model with doubles.",
        )

    def _check_kind(self) -> Kind:
        """The type of the probabilities; raises for kinds of models that cannot be loaded."""
        system = self.sizes
        kinds = (
            (system.time != "discrete", "a continuous-time model"),
            (system.players > 1, "a game"),
            (system.observations > 0, "a partially observable model"),
        )
        wrong = [kind for is_so, kind in kinds if is_so]
        if wrong or system.probability is None:
            found = wrong[0] if wrong else "a transition system without probabilities"
            raise FileError(
                f"{self.shown}: the model must be a Markov chain or a Markov decision process; it is {found}.",
                path=self.shown,
            )
        return system.probability

    def _check_members(self) -> None:
        """Check every size in the index against a member, so that a small file cannot claim a huge model."""
        states, choices, outcomes = self.sizes.states, self.sizes.choices, self.sizes.outcomes
        if choices == 0 or outcomes == 0:
            self.archive.fail("a model must have transitions; this file has none", "Add some and export it again.")
        for name, owning, owned in (
            ("state-to-choices.bin", states, choices),
            ("choice-to-branches.bin", choices, outcomes),
        ):
            if name in self.archive:
                self.archive.expect(name, "<i8", owning + 1)
            elif owning != owned:
                self.archive.fail(f"member {name!r} is missing, but the index has {owning} and {owned}")
        self.archive.expect("branch-to-target.bin", "<i8", outcomes)
        self.archive.expect("branch-to-probability.bin", f"V{self._probability.bits // 8}", outcomes)


def listed(shown: str, names: Mapping[str, Sequence[str]]) -> str:
    """The names in a model by kind (labels, rewards, actions, …), for messages."""
    parts = []
    for kind, found in names.items():
        many = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
        some = ", ".join(repr(name) for name in found[:8]) + (", …" if len(found) > 8 else "")
        parts.append(f"{many} {some}" if found else f"no {many}")
    return f"{shown} has {'; '.join(parts)}."


# ---------------------------------------------------------------------- the index


def _read_index(archive: Archive) -> Index:
    try:
        index = read_index(json.loads(archive.read("index.json", limit=INDEX_LIMIT)))
    except (ValueError, RecursionError) as error:
        archive.fail(f"member 'index.json' is not a UMB index ({error})")
    if index.version > NEWEST_FORMAT:
        raise FileError(
            f"{archive.shown}: the file has UMB version {index.version}; "
            f"this package reads up to {NEWEST_FORMAT}. Update almostsure.",
            path=archive.shown,
        )
    return index
