"""``Learner``, the interface of all agents of this package, and ``Training``, which they return."""

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
    """The result of one run of a learner: the policy to deploy, and the episodes of training.

    An episode that was unfinished at the end of training is listed only if it had overspent.

    Examples
    --------
    >>> from almostsure.learn.learners import ShieldedQ
    >>> training = ShieldedQ().train("corridor", 3, steps=500, seed=0)
    >>> training.policy.budget, training.ends.shape == training.returns.shape == training.damages.shape
    (3, True)
    """

    policy: Policy  # the policy to deploy
    ends: Ints  # [episodes], the environment step at which each training episode ended
    returns: Floats  # [episodes]
    damages: Ints  # [episodes]
    restricted_steps: int = 0  # the number of steps at which a shield or mask refused some action

    def __post_init__(self) -> None:
        columns = tuple(np.asarray(x) for x in (self.ends, self.returns, self.damages))
        if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
            shapes = ", ".join(str(list(column.shape)) for column in columns)
            raise ModelError(f"ends, returns and damages must hold one number per episode; got shapes {shapes}")
        for name, column in zip(("ends", "returns", "damages"), columns, strict=True):
            object.__setattr__(self, name, column)

    def __repr__(self) -> str:
        most = int(self.damages.max(initial=0))
        return f"<Training: {counted(self.ends.size, 'episode')}, at most {most:,} damage; {self.policy!r}>"


@runtime_checkable
class Learner(Protocol):
    """Anything that learns a policy by acting."""

    @property
    def name(self) -> str:
        """The name in tables."""
        ...

    def train(self, world: Any, budget: int, *, steps: int, seed: int) -> Training:
        """Learn by acting in a model or a sampler, with the budget ``budget`` in every episode."""
        ...
