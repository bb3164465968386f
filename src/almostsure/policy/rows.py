"""Validates the entries of a policy's table; see :mod:`almostsure.policy.policy`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import PolicyError
from almostsure.model.arrays import frozen
from almostsure.model.mdp import MDP, Floats, index_dtype


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rest:
    """When a policy comes to rest, and what it plays from then on."""

    probability: Floats  # [layers, num_states], of coming to rest on arrival
    choice: npt.NDArray[Any]  # [num_states], the choice played from then on; −1 where the policy does not rest


def check_blocks(block: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """The blocks that a policy uses with 1, 2, … steps left, validated and read-only."""
    array = np.array(block)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu" or not 0 <= array.min() <= array.max() < 2**31:
        raise PolicyError("block must hold a whole number, 0 or more, for each number of steps left, at least one")
    return frozen(array.astype(np.int32))


def shaped(name: str, array: npt.NDArray[Any], width: int, budget: int | None, blocks: int = 1) -> npt.NDArray[Any]:
    """A table as a read-only array, if its shape fits; each block may have a last row for an overspent budget."""
    rows = tuple(blocks * row for row in ((1,) if budget is None else (budget + 1, budget + 2)))
    if array.ndim != 2 or array.shape[1] != width or array.shape[0] not in rows:
        wanted = " or ".join(f"[{row}, {width}]" for row in rows)
        raise PolicyError(f"{name} must have shape {wanted}; got {list(array.shape)}")
    if array.flags.writeable or not array.flags.c_contiguous:
        return frozen(np.array(array, order="C"))
    return array


def check_choices(mdp: MDP, choice: npt.NDArray[Any]) -> None:
    """Raise PolicyError unless every row has a choice of each state, or −1."""
    if choice.dtype.kind != "i":
        raise PolicyError(f"choice must hold integers; got {choice.dtype}")
    first, last = mdp.choice_ptr[:-1], mdp.choice_ptr[1:]
    bad = (choice != -1) & ((choice < first) | (choice >= last))
    if bad.any():
        row, state = (int(x[0]) for x in np.nonzero(bad))
        raise PolicyError(
            f"a policy's choice at {mdp.describe_state(state)} must lie in {first[state]} … {last[state] - 1}, "
            f"its choices; got {choice[row, state]}",
            state=state,
        )


def check_rest(mdp: MDP, rest: Rest, table: npt.NDArray[Any] | None) -> None:
    """Raise PolicyError unless a policy that comes to rest never takes damage from then on."""
    assert table is not None
    if rest.probability.shape != (len(table), mdp.num_states) or rest.choice.shape != (mdp.num_states,):
        raise PolicyError("rest must have one probability per layer and state and one choice per state")
    if not ((rest.probability >= 0) & (rest.probability <= 1)).all():
        raise PolicyError("the probabilities of coming to rest must lie in 0 … 1")
    check_choices(mdp, rest.choice[None])
    may = rest.choice >= 0
    if (rest.probability[:, ~may] > 0).any():
        raise PolicyError("a state in which the policy comes to rest must have a choice to rest with")
    played = np.zeros(mdp.num_choices, np.bool_)
    played[rest.choice[may]] = True
    outcome = played[mdp.outcome_choices()]
    harmless = (mdp.damage[outcome] == 0).all() and may[mdp.successor[outcome]].all()
    if not harmless:
        raise PolicyError("a policy that has come to rest must never take damage; its choices for resting may")
    for array in (rest.probability, rest.choice):
        array.flags.writeable = False


def pure(mdp: MDP, probability: Floats) -> npt.NDArray[Any] | None:
    """The choices of a policy all of whose probabilities are 0 or 1; None for others."""
    if not ((probability == 0) | (probability == 1)).all():
        return None
    rows, columns = np.nonzero(probability)
    result = np.full((len(probability), mdp.num_states), -1, index_dtype(mdp.num_choices))
    result[rows, mdp.choice_states()[columns]] = columns
    return result
