"""The index of a UMB file, ``index.json``: parsed and validated into named tuples.

Only the entries that this package uses are kept.  Unknown entries are allowed, as the format requires.  A known entry
that is missing or has another type or range is an error that names it, such as ``transition-system/#states``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

TIMES = ("discrete", "stochastic", "urgent-stochastic")
PLACES = ("states", "choices", "branches")
NUMBERS = {"int": 64, "uint": 64, "double": 64, "rational": 128}  # bits, if the index has no size
BITS = {"bool": 1, "string": 64, **NUMBERS, **{f"{kind}-interval": 2 * bits for kind, bits in NUMBERS.items()}}
CONTINUOUS = ("double", "rational", "double-interval", "rational-interval")
UINT32, UINT64 = 2**32 - 1, 2**64 - 1


class Kind(NamedTuple):
    """A type of values and its number of bits."""

    name: str
    bits: int


class System(NamedTuple):
    """The kind and the size of the model."""

    time: str
    players: int
    states: int
    initial_states: int
    choices: int
    choice_actions: int
    outcomes: int  # called branches in the format
    observations: int
    probability: Kind | None


class Annotation(NamedTuple):
    """A label or a reward structure."""

    alias: str | None
    applies_to: tuple[str, ...]
    kind: Kind


class Field(NamedTuple):
    """A variable in a valuation; padding has no name."""

    name: str | None
    kind: Kind
    optional: bool = False
    offset: int = 0


class Index(NamedTuple):
    """A whole index."""

    version: int
    tool: str | None
    parameters: Any
    system: System
    annotations: Mapping[str, Mapping[str, Annotation]]  # by group and key
    valuations: tuple[tuple[Field, ...], ...]  # of states: the fields of each class; may be empty


def read_index(data: Any) -> Index:
    """The index from parsed JSON; ValueError names the first invalid entry."""
    whole = _Node(data, "")
    file = whole.maybe("file-data") or _Node({}, "")
    groups = whole.maybe("annotations")
    valuations = whole.maybe("valuations")
    states = None if valuations is None else valuations.maybe("states")
    return Index(
        version=whole.integer("format-version", most=UINT32),
        tool=file.text("tool"),
        parameters=file.value.get("parameters"),
        system=_system(whole.node("transition-system")),
        annotations={} if groups is None else {
            group: {key: _annotation(entry) for key, entry in entries.nodes()} for group, entries in groups.nodes()
        },
        valuations=() if states is None else tuple(
            tuple(_field(field) for field in fields.list("variables")) for fields in states.list("classes", least=1)
        ),
    )  # fmt: skip


class _Node:
    """An object of the index with its path, for messages."""

    def __init__(self, value: Any, place: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{place or 'the index'} must be an object; got {value!r:.60}")
        self.value, self.place = value, place

    def at(self, key: str) -> str:
        return f"{self.place}/{key}" if self.place else key

    def integer(self, key: str, *, least: int = 0, most: int = UINT64, default: int | None = None) -> int:
        found = self.value.get(key, default)
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
            raise ValueError(f"{self.at(key)} must be an integer {least} … {most}; got {found!r:.60}")
        return found

    def text(self, key: str) -> str | None:
        found = self.value.get(key)
        if found is not None and not isinstance(found, str):
            raise ValueError(f"{self.at(key)} must be text; got {found!r:.60}")
        return found

    def node(self, key: str) -> _Node:
        return _Node(self.value.get(key), self.at(key))

    def maybe(self, key: str) -> _Node | None:
        return None if self.value.get(key) is None else self.node(key)

    def nodes(self) -> list[tuple[str, _Node]]:
        return [(key, self.node(key)) for key in self.value]

    def list(self, key: str, *, least: int = 0) -> list[_Node]:
        return [_Node(item, f"{self.at(key)}/{i}") for i, item in enumerate(self.items(key, least=least))]

    def items(self, key: str, *, least: int = 0, default: Any = None) -> Any:
        found = self.value.get(key, default)
        if not isinstance(found, list) or len(found) < least:
            raise ValueError(f"{self.at(key)} must be a list{' that is not empty' if least else ''}; got {found!r:.60}")
        return found


def _system(node: _Node) -> System:
    time = node.text("time")
    if time not in TIMES:
        raise ValueError(f"{node.at('time')} must be one of {', '.join(TIMES)}; got {time!r:.60}")
    probability = node.maybe("branch-probability-type")
    kind = None if probability is None else _kind(probability)
    if kind is not None and kind.name not in CONTINUOUS:
        raise ValueError(f"{node.at('branch-probability-type')} must be a type of fractions; got {kind.name!r}")
    states = node.integer("#states", least=1)
    return System(
        time=time,
        players=node.integer("#players", most=UINT32),
        states=states,
        initial_states=node.integer("#initial-states", most=states),
        choices=node.integer("#choices"),
        choice_actions=node.integer("#choice-actions", most=UINT32),
        outcomes=node.integer("#branches"),
        observations=node.integer("#observations"),
        probability=kind,
    )


def _kind(node: _Node) -> Kind:
    name = node.text("type")
    if name not in BITS:
        raise ValueError(f"{node.at('type')} must be one of {', '.join(BITS)}; got {name!r:.60}")
    bits = node.integer("size", least=1, most=UINT32, default=BITS[name])
    if name in ("double", "double-interval", "string") and bits != BITS[name]:
        raise ValueError(f"{node.at('size')} must be {BITS[name]} for a {name}; got {bits}")
    return Kind(name, bits)


def _annotation(node: _Node) -> Annotation:
    places = node.items("applies-to", default=[])  # Storm writes empty lists
    if not all(place in PLACES for place in places):
        raise ValueError(f"{node.at('applies-to')} must name {', '.join(PLACES)}; got {places!r:.60}")
    return Annotation(node.text("alias"), tuple(places), _kind(node.node("type")))


def _field(node: _Node) -> Field:
    if "padding" in node.value:
        return Field(None, Kind("uint", node.integer("padding", least=1, most=UINT32)))
    name, optional = node.text("name"), node.value.get("is-optional", False)
    if name is None or not isinstance(optional, bool):
        raise ValueError(f"{node.place} must have a name, and is-optional true or false")
    offset = node.integer("offset", least=-(2**63), most=2**63 - 1) if node.value.get("offset") is not None else 0
    return Field(name, _kind(node.node("type")), optional, offset)
