"""What a learner is, and what it hands back: the two types that every agent of this package shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from almostsure.errors import ModelError
from almostsure.model.arrays import Floats, Ints
from almostsure.policy.policy import Policy
from almostsure.wording import counted


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Training:
    """What one run of a learner brought: the policy that would be deployed, and how training went.

    An episode that was cut by the end of training is not listed, unless it had overspent by then.
    """

    policy: Policy  # what would be deployed
    ends: Ints  # [episodes], the environment step at which each training episode ended
    returns: Floats  # [episodes]
    damages: Ints  # [episodes]
    restricted_steps: int = 0  # steps at which a shield or mask refused some action

    def __post_init__(self) -> None:
        columns = tuple(np.asarray(x) for x in (self.ends, self.returns, self.damages))
        if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
            shapes = ", ".join(str(list(column.shape)) for column in columns)
            raise ModelError(f"ends, returns and damages must hold one number per episode; got shapes {shapes}")
        for name, column in zip(("ends", "returns", "damages"), columns, strict=True):
            object.__setattr__(self, name, column)

    def __repr__(self) -> str:
        most = int(self.damages.max(initial=0))
        return f"<Training: {counted(self.ends.size, 'episode')}, {most:,} damage at most; {self.policy!r}>"


@runtime_checkable
class Learner(Protocol):
    """Anything that learns a policy by acting.  ``name`` is what tables print."""

    @property
    def name(self) -> str:
        """As printed in tables."""
        ...

    def train(self, world: Any, budget: int, *, steps: int, seed: int) -> Training:
        """Act in a model, or in what can be sampled, with the budget ``budget`` in every episode."""
        ...
