"""Tabular Q-learning: inside a shield, and four common baselines without one.

All of them learn undiscounted returns of episodes.  Episodes are truncated after ``max_steps`` steps.  Truncation is
not termination: the value of the last state still counts.  They learn in a model, or from a sampler
(:mod:`almostsure.learn.sampling.samplers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, final

from almostsure.arguments import check_discount, check_positive, check_real, count, names_right_word, one_of
from almostsure.errors import ArgumentError, ModelMismatch
from almostsure.learn.learners.allowance import Allowance, Everything, OneStep, Shielded
from almostsure.learn.learners.session import PLAIN_WORK, train
from almostsure.learn.learners.steps import EXPLORE, LearnerRules
from almostsure.learn.learners.training import Learner, Training
from almostsure.learn.learners.world import Playground, playground
from almostsure.learn.online import OnlineShield
from almostsure.model.build.examples import example
from almostsure.plan.risk.shield import RiskShield
from almostsure.shield.shield import Shield

MAX_STEPS = 1_000

AnyShield = Shield | OnlineShield | RiskShield
Given = AnyShield | Callable[[Any], AnyShield] | None


@dataclass(frozen=True, kw_only=True)
class _Q:
    """Q-learning with some allowance."""

    name: str
    max_steps: int = MAX_STEPS

    def __post_init__(self) -> None:
        count("max_steps", self.max_steps)

    def train(self, world: Any, budget: int, *, steps: int, seed: int) -> Training:
        """Train for ``steps`` steps."""
        ground, allowance = self.inside(playground(world), world, budget)
        rules = LearnerRules(allowance.budget, steps, self.max_steps, **self.rules(ground))
        return train(ground, allowance, rules, seed=seed)

    def inside(self, ground: Playground, world: Any, budget: int) -> tuple[Playground, Allowance]:
        """What to play in and which choices are allowed: all, and the budget is ignored."""
        return ground, Everything(ground, budget, sees_budget=False)

    def rules(self, ground: Playground) -> dict[str, Any]:
        """The rules in which this learner differs from the defaults."""
        return {}


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class ShieldedQ(_Q):
    """Q-learning on (state, remaining) with the actions that the shield allows.

    Parameters
    ----------
    shield
        None for the exact shield (without a model, an optimistic OnlineShield); or a Shield of the same model; or one
        of a learned model, which raises ModelMismatch when an outcome happens that is impossible in it; or an
        OnlineShield, which learns during training; or a RiskShield, with training and a policy on (state, remaining,
        risk) in the model of its :meth:`almostsure.RiskShield.restrict`; or a function that makes one of these from the
        model or sampler, for each run.
    max_steps
        Episodes are truncated after this many steps.
    explore
        The share of random steps.
    discount
        The discount of later rewards.  If steps cost nothing, one below 1 keeps the learner from delaying rewards.
    replays
        The number of further choices that are updated after each step, from their observed outcomes (Dyna).  With
        distant rewards this needs far fewer steps.  It needs a model to play in, but learns only from observed
        outcomes.

    Examples
    --------
    >>> run = ShieldedQ().train("corridor", 3, steps=2_000, seed=0)
    >>> int(run.damages.max())
    3
    """

    name: str = "shielded Q-learning"
    shield: Given = None
    explore: float = EXPLORE
    discount: float = 1.0
    replays: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        count("replays", self.replays, least=0)
        if not 0 <= check_real("explore", self.explore) <= 1:
            raise ArgumentError(f"explore must be a share, 0 … 1; got {self.explore!r}")
        check_discount(self.discount)

    def inside(self, ground: Playground, world: Any, budget: int) -> tuple[Playground, Allowance]:
        """The choices that the shield allows; for a RiskShield, all of its restricted model."""
        if self.replays and ground.model is None:
            raise ArgumentError("replays must be 0 if there is no model to play in, only a sampler")
        shield = self.shield(world) if callable(self.shield) else self.shield
        if not isinstance(shield, RiskShield):
            return ground, Shielded(ground, budget, shield)
        if ground.model is None or shield.mdp != ground.model:
            raise ModelMismatch("the RiskShield belongs to another model than the one that is trained on")
        if shield.budget != budget:
            raise ArgumentError(f"budget must be the {shield.budget} that the RiskShield is for; got {budget}")
        risked = shield.restrict()
        ground = replace(playground(risked.mdp), counted_as=risked.outcomes(shield.mdp))
        return ground, Everything(ground, budget, sees_budget=False)

    def rules(self, ground: Playground) -> dict[str, Any]:
        """Exploration, discount and replays."""
        return {"explore": float(self.explore), "discount": float(self.discount), "replays": int(self.replays)}


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class UnconstrainedQ(_Q):
    """Q-learning on states that ignores damage.

    Parameters
    ----------
    name, max_steps
        The name in tables, and the number of steps after which episodes are truncated.

    Examples
    --------
    >>> run = UnconstrainedQ().train("corridor", 3, steps=2_000, seed=0)
    >>> int(run.damages.max())
    15
    """

    name: str = "unconstrained Q-learning"


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class LagrangianQ(_Q):
    """Q-learning on states with a price of damage, which rises while episodes take more than ``budget`` on average.

    Return and damage have a table each, so a new price has an immediate effect.  The aim is E[damage] ≤ budget.

    Parameters
    ----------
    name, max_steps
        The name in tables, and the number of steps after which episodes are truncated.
    price_rate
        The step size of the price: the most by which it changes after an episode.

    Examples
    --------
    >>> run = LagrangianQ(price_rate=0.2).train("corridor", 3, steps=2_000, seed=0)
    >>> int(run.damages.max())
    15
    """

    name: str = "Lagrangian Q-learning"
    price_rate: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("price_rate", self.price_rate)

    def rules(self, ground: Playground) -> dict[str, Any]:
        """The step size of the price."""
        return {"price_rate": float(self.price_rate)}


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class SauteQ(_Q):
    """Q-learning on (state, remaining) with a penalty instead of the reward once the budget is overspent (Sauté RL).

    Parameters
    ----------
    penalty
        Per step while overspent; by default the difference of the largest and smallest reward, but no less than twice
        what any step costs.

    Examples
    --------
    >>> run = SauteQ(penalty=20.0).train("corridor", 3, steps=2_000, seed=0)
    >>> int(run.damages.max())
    21
    """

    name: str = "Sauté Q-learning"
    penalty: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.penalty is not None:
            check_positive("penalty", self.penalty)

    def inside(self, ground: Playground, world: Any, budget: int) -> tuple[Playground, Allowance]:
        """What to play in and which choices are allowed: all, with one layer per remaining budget."""
        return ground, Everything(ground, budget)

    def rules(self, ground: Playground) -> dict[str, Any]:
        """The penalty: by default no reward compensates it, and no step costs so much that staying overspent pays."""
        least, most = ground.rewards
        usual = max(most - least, -2 * least) or 1.0
        return {"penalty": usual if self.penalty is None else float(self.penalty)}


@names_right_word
@final
@dataclass(frozen=True, kw_only=True)
class MaskedQ(_Q):
    """Q-learning on (state, remaining) without the actions that may overspend in their very next step.

    Parameters
    ----------
    name, max_steps
        The name in tables, and the number of steps after which episodes are truncated.

    Examples
    --------
    >>> run = MaskedQ().train("corridor", 3, steps=2_000, seed=0)
    >>> int(run.damages.max())
    9
    """

    name: str = "one-step mask"

    def inside(self, ground: Playground, world: Any, budget: int) -> tuple[Playground, Allowance]:
        """The choices that cannot overspend in the next step."""
        return ground, OneStep(ground, budget)


# ---------------------------------------------------------------------- by name

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
    learners["shielded"].train(example("paper"), 0, steps=PLAIN_WORK, seed=0)  # more work than plain Python does


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
        one_of("learner", given, learners)
        return learners[given]
    rule = "a learner must be a name or have name and train(world, budget, steps=, seed=)"
    if isinstance(given, type):
        raise ArgumentError(f"{rule}; got the class {given.__name__}. Pass an instance: {given.__name__}().")
    if not isinstance(given, Learner):
        raise ArgumentError(f"{rule}; got {given!r}")
    return given
