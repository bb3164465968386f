"""The learners by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from almostsure.errors import ArgumentError, UnknownName
from almostsure.learn.learners.qlearning import LagrangianQ, MaskedQ, SauteQ, ShieldedQ, UnconstrainedQ
from almostsure.learn.learners.session import PLAIN_WORK
from almostsure.learn.learners.training import Learner
from almostsure.model.build.examples import example

learners: Mapping[str, Learner] = MappingProxyType(
    {
        "shielded": ShieldedQ(),
        "unconstrained": UnconstrainedQ(),
        "lagrangian": LagrangianQ(),
        "saute": SauteQ(),
        "one-step": MaskedQ(),
    }
)


def warm_up() -> None:
    """Compile the steps of all learners."""
    learners["shielded"].train(example("paper"), 0, steps=PLAIN_WORK, seed=0)  # more than plain Python would play


def as_learner(given: object) -> Learner:
    """The learner of a name, or the learner itself.

    Parameters
    ----------
    given
        A name, such as ``"shielded"``, or an object with ``name`` and ``train``.

    Examples
    --------
    >>> as_learner("shielded").name
    'shielded Q-learning'
    """
    if isinstance(given, str):
        if given not in learners:
            raise UnknownName("learner", given, learners, f"There are: {', '.join(learners)}.")
        return learners[given]
    if not isinstance(given, Learner) or isinstance(given, type):
        raise ArgumentError(
            f"a learner must be a name or have name and train(world, budget, steps=, seed=); got {given!r}"
        )
    return given
