"""``compare``: train several learners with several seeds on one model, and judge what they would deploy exactly.

Violations in *training* are counted: episodes that took more than the budget.  What would be *deployed* is not tried
out but evaluated exactly (:func:`almostsure.evaluate`): its return and its probability of overspending are numbers,
not estimates.  Returns are put on the scale

    fraction of the optimum = (return − random) / (optimum − random)

where *random* is uniformly random play inside the exact shield, and *optimum* the best assured return.  A learner
that overspends may get more than 1.

A policy that may stay for ever where every step costs something has an infinite return, however unlikely that is.
Where a return is infinite, that of an episode which is cut after ``CUT`` steps stands in its place (exact, too; see
:mod:`almostsure.learn.cut`), and ``deployed_ends`` says with which probability an episode ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from almostsure.arguments import names_right_word, whole
from almostsure.budget.solve import minimal_budget
from almostsure.errors import AlmostSureError, ArgumentError, Interrupted, LimitReached, UnboundedReturn
from almostsure.learn.agents.registry import as_learner
from almostsure.learn.agents.registry import learners as known_learners
from almostsure.learn.bounds import count
from almostsure.learn.comparison import Comparison, Run
from almostsure.learn.cut import cut_totals
from almostsure.learn.training import Learner, Training
from almostsure.model.mdp import MDP
from almostsure.model.source import Model, as_model
from almostsure.plan.constraints import AlmostSure
from almostsure.plan.solve import solve_policy
from almostsure.policy.evaluate import evaluate
from almostsure.policy.policy import Policy
from almostsure.progress import Bar
from almostsure.shield.checks import require_budget
from almostsure.shield.shield import Shield

__all__ = ["Comparison", "Learner", "Training", "compare"]

CUT = 1_000  # steps


@names_right_word
def compare(
    mdp: Model,
    budget: int,
    learners: str | Learner | Iterable[str | Learner] | None = None,
    *,
    steps: int = 100_000,
    seeds: int | Sequence[int] = 5,
) -> Comparison:
    """Train learners on a model with the budget ``budget``, and compare how safe and how good they are.

    Parameters
    ----------
    mdp
        The model, an example's name, or a file.
    budget
        The budget of every episode.
    learners
        Names, see ``almostsure.learn.agents.learners``, or objects with ``name`` and ``train``; by default all that
        have names.
    steps
        Environment steps that each run may take.
    seeds
        How many runs each learner gets, with the seeds 0, 1, …; or the seeds themselves.

    Returns
    -------
    Comparison
        A table (print it), tidy ``rows``, learning ``curves`` and a ``plot()``.

    Raises
    ------
    Infeasible
        If an initial state needs more than ``budget``; ``needed`` is what suffices.
    UnknownName
        If there is no learner of that name; it suggests the nearest.
    ArgumentError
        If ``steps`` or ``seeds`` are not what they should be, or two learners have the same name.
    Interrupted
        Ctrl-C; ``kept`` is the comparison of the runs that were finished.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.learn.compare import compare
    >>> result = compare("corridor", 2, ["shielded", "one-step"], steps=4_000, seeds=2)
    >>> for row in result.summary():
    ...     print(row["learner"], row["training_violations"], row["deployed_overspend"])
    shielded Q-learning 0.0 0.0
    one-step mask ...
    """
    mdp = as_model(mdp)
    mdp.require_probabilities("compare")
    shield = Shield(minimal_budget(mdp))
    budget = require_budget(shield.minimal, budget)
    chosen, steps, numbers = _chosen(learners), count("steps", steps), _seeds(seeds)
    scale = scale_of(shield, budget)
    runs: list[Run] = []
    try:
        with Bar("comparing learners", len(chosen) * len(numbers)) as bar:
            for learner in chosen:
                for seed in numbers:
                    bar.update(len(runs), learner.name)
                    runs.append(_run(learner, mdp, budget, steps, seed, scale))
    except KeyboardInterrupt:
        kept = Comparison(runs=tuple(runs), budget=budget, random=scale.random, optimum=scale.optimum)
        raise Interrupted(
            f"stopped after {len(runs)} of {len(chosen) * len(numbers)} runs; they are kept in the error's kept",
            kept=kept,
        ) from None
    return Comparison(runs=tuple(runs), budget=budget, random=scale.random, optimum=scale.optimum)


# ---------------------------------------------------------------------- the scale


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What returns are measured against."""

    random: float  # uniformly random play inside the shield
    optimum: float  # the best assured return; infinite if it has no bound, NaN if it is not known

    def fraction(self, value: float) -> float:
        """Where a return lies between random play and the optimum; NaN where that says nothing."""
        span = self.optimum - self.random
        if not math.isfinite(span) or span <= 0:
            return math.nan
        return (value - self.random) / span


def scale_of(shield: Shield, budget: int) -> Scale:
    """The scale of a model and a budget."""
    random = deployment(shield.mdp, shield.random_policy(budget), budget).reward
    try:
        optimum = solve_policy(shield.mdp, AlmostSure(budget)).value
    except UnboundedReturn:
        optimum = math.inf
    except LimitReached:
        optimum = math.nan
    return Scale(random=random, optimum=optimum)


# ---------------------------------------------------------------------- one run


class Deployment(NamedTuple):
    """What a policy does when it is deployed."""

    reward: float
    damage: float
    ends: float
    overspends: float


def deployment(mdp: MDP, policy: Policy, budget: int) -> Deployment:
    """Evaluate a policy; see the module's docstring about what is infinite."""
    exact = evaluate(mdp, policy, budget=budget)
    reward, damage = exact.expected_return, exact.expected_damage
    if math.isinf(reward) or math.isinf(damage):
        cut = cut_totals(mdp, policy, budget, CUT)
        reward, damage = (cut[0] if math.isinf(reward) else reward), (cut[1] if math.isinf(damage) else damage)
    return Deployment(reward=reward, damage=damage, ends=exact.ends, overspends=exact.overspends)


def _run(learner: Learner, mdp: MDP, budget: int, steps: int, seed: int, scale: Scale) -> Run:
    training = learner.train(mdp, budget, steps=steps, seed=seed)
    if not isinstance(training, Training):
        raise AlmostSureError(f"{learner.name} must return a Training from train; got {type(training).__name__}")
    deployed = deployment(mdp, training.policy, budget)
    episodes, violations = training.ends.size, int((training.damages > budget).sum())
    row: dict[str, Any] = {
        "learner": learner.name,
        "seed": seed,
        "steps": steps,
        "training_episodes": episodes,
        "training_violations": violations,
        "training_violation_rate": violations / episodes if episodes else 0.0,
        "interventions": training.interventions,
        "deployed_return": deployed.reward,
        "fraction_of_optimum": scale.fraction(deployed.reward),
        "deployed_overspend": deployed.overspends,
        "deployed_mean_damage": deployed.damage,
        "deployed_ends": deployed.ends,
    }
    return Run(row=row, training=training)


def _chosen(given: str | Learner | Iterable[str | Learner] | None) -> list[Learner]:
    if given is None:
        return list(known_learners.values())
    if not isinstance(given, (str, Learner, Iterable)):
        raise ArgumentError(f"learners must be names or learners; got {given!r}")
    several = [given] if isinstance(given, (str, Learner)) else list(given)
    chosen = [as_learner(one) for one in several]
    names = [learner.name for learner in chosen]
    if not chosen or len(set(names)) < len(names):
        raise ArgumentError(f"learners must be one or more, each with another name; got {names}")
    return chosen


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    if isinstance(seeds, (list, tuple, range, np.ndarray)):
        numbers = [whole("a seed", seed) for seed in seeds]
    else:
        numbers = list(range(count("seeds", seeds)))
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ArgumentError(f"seeds must be a number of runs or different whole numbers from 0; got {seeds!r}")
    return numbers
