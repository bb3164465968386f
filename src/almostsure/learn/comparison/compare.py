"""``compare``: train several learners with several seeds, and evaluate the policies that they would deploy.

Violations in *training* are counted: episodes that took more than the budget.  If there is a model, the *deployed*
policy is evaluated exactly (:func:`almostsure.evaluate`): its return and its probability of overspending are not
estimates.  An infinite return is replaced by that of a thousand steps.  Without a model the policy is played, and the
results have confidence intervals (:mod:`almostsure.learn.deployment`).  Returns are also given on the scale

    fraction of the optimum = (return − random) / (optimum − random)

where *random* is uniformly random play inside the exact shield, and *optimum* the best assured return, which are both
unknown without a model.  A learner that overspends may get more than 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np

from almostsure.arguments import check_budget, count, names_right_word, whole
from almostsure.budget.solve import minimal_budget
from almostsure.crew import Workers, as_crew
from almostsure.errors import AlmostSureError, ArgumentError, Interrupted, LimitReached, UnboundedReturn
from almostsure.learn.comparison.result import Comparison, Run
from almostsure.learn.deployment import EPISODES, deployment
from almostsure.learn.learners.qlearning import as_learner
from almostsure.learn.learners.qlearning import learners as known_learners
from almostsure.learn.learners.training import Learner, Training
from almostsure.learn.learners.world import playground
from almostsure.learn.sampling.env_sampler import is_environment, model_of_env
from almostsure.model.mdp import MDP
from almostsure.plan.constraints import AlmostSure
from almostsure.plan.solve import solve_policy
from almostsure.progress import Bar
from almostsure.shield.checks import require_budget
from almostsure.shield.shield import Shield

MOST_STEPS, MOST_RUNS = 2**53, 1_000_000  # the most steps of a run, and the most runs of a learner

__all__ = ["Comparison", "Learner", "Training", "compare"]


@names_right_word
def compare(
    world: Any,
    budget: int,
    learners: str | Learner | Iterable[str | Learner] | None = None,
    *,
    steps: int = 100_000,
    seeds: int | Sequence[int] = 5,
    workers: Workers | None = None,
) -> Comparison:
    """Train learners with the budget ``budget``, and compare how safe and how good they are.

    Parameters
    ----------
    world
        Where to train: a model, an example's name, or a file; a Gymnasium environment that can be sampled, or its id
        (one with a transition table is a model); or any :class:`almostsure.learn.Sampler`.
    budget
        The budget of every episode.
    learners
        Names (see ``almostsure.learn.learners.learners``), or objects with ``name`` and ``train``; by default all
        names.
    steps
        The number of environment steps of each run.
    seeds
        The number of runs of each learner, with the seeds 0, 1, …; or the seeds themselves.
    workers
        The number of processes, one by default; or a :class:`almostsure.learn.RayCluster`.  The result does not depend
        on it.

    Raises
    ------
    Infeasible, ModelMismatch
        If an initial state needs more than ``budget`` (``needed`` suffices); or if a shield is of another model.
    Interrupted
        Ctrl-C; ``kept`` is the comparison of the finished runs, or None before the first run.

    Examples
    --------
    >>> import almostsure as asure
    >>> result = asure.compare("corridor", 2, ["shielded", "one-step"], steps=4_000, seeds=2)
    >>> for row in result.summary():
    ...     print(row["learner"], row["training_violations"], row["deployed_overspend"])
    shielded Q-learning 0.0 0.0
    one-step mask ...
    """
    chosen, steps, numbers = _chosen(learners), count("steps", steps, most=MOST_STEPS), _seeds(seeds)
    jobs = list(itertools.product(range(len(chosen)), numbers))
    task, runs = None, list[Run]()
    try:
        task = _Task(world, chosen, budget, steps)
        with Bar("comparing learners", len(jobs)) as bar, as_crew(workers).open(task) as each:
            for run in each(jobs):
                runs.append(run)
                bar.update(len(runs), run.row["learner"])
    except KeyboardInterrupt:
        raise _stopped(task, runs, len(jobs)) from None
    return task.comparison(runs)


def _stopped(task: _Task | None, runs: list[Run], jobs: int) -> Interrupted:
    if task is None:
        return Interrupted(f"stopped before the first of {jobs} runs, while its model was solved; nothing is kept")
    kept = task.comparison(runs)
    return Interrupted(f"stopped after {len(runs)} of {jobs} runs; they are kept in the error's kept", kept=kept)


def _optimum(mdp: MDP, budget: int) -> float:
    """The best assured return; infinite if it is unbounded, NaN if it is too hard to compute."""
    try:
        return solve_policy(mdp, AlmostSure(budget)).value
    except UnboundedReturn:
        return math.inf
    except LimitReached:
        return math.nan


# ---------------------------------------------------------------------- one run


@final
class _Task:
    """Trains one learner with one seed; may be sent to other processes."""

    def __init__(self, world: Any, learners: list[Learner], budget: int, steps: int) -> None:
        # An environment with a transition table is a model.
        self.ground = ground = playground(model_of_env(world) if is_environment(world) else world)
        self.learners, self.steps = learners, steps
        self.random = self.optimum = math.nan  # the scale of returns, if there is a model
        if ground.model is None:
            self.budget = check_budget(budget)
        else:
            shield = Shield(minimal_budget(ground.model))
            self.budget = require_budget(shield.minimal, budget)
            self.random = deployment(ground, shield.random_policy(self.budget), self.budget).reward
            self.optimum = _optimum(ground.model, self.budget)

    def _fraction(self, value: float) -> float:
        """A return as a fraction of the optimum; NaN if the scale is unknown, infinite or empty."""
        span = self.optimum - self.random
        return (value - self.random) / span if math.isfinite(span) and span > 0 else math.nan

    def __call__(self, job: tuple[int, int]) -> Run:
        """Train one learner with one seed, and evaluate its policy."""
        (number, seed), ground, budget = job, self.ground, self.budget
        learner = self.learners[number]
        world = ground.mdp if ground.source is None else ground.source
        training = learner.train(world, budget, steps=self.steps, seed=seed)
        if not isinstance(training, Training):
            raise AlmostSureError(f"{learner.name} must return a Training from train; got {type(training).__name__}")
        deployed = deployment(ground, training.policy, budget, seed=seed)
        episodes, violations = training.ends.size, int((training.damages > budget).sum())
        row: dict[str, Any] = {
            "learner": learner.name,
            "seed": seed,
            "steps": self.steps,
            "training_episodes": episodes,
            "training_violations": violations,
            "training_violation_rate": violations / episodes if episodes else 0.0,
            "restricted_steps": training.restricted_steps,
            "deployed_return": deployed.reward,
            "deployed_return_error": deployed.reward_margin,
            "fraction_of_optimum": self._fraction(deployed.reward),
            "deployed_overspend": deployed.overspends,
            "deployed_overspend_upper": deployed.overspends_upper,
            "deployed_mean_damage": deployed.damage,
            "deployed_ends": deployed.ends,
        }
        return Run(row=row, training=training)

    def comparison(self, runs: list[Run]) -> Comparison:
        """The comparison of the runs."""
        return Comparison(
            runs=tuple(runs),
            budget=self.budget,
            random=self.random,
            optimum=self.optimum,
            sampled_episodes=None if self.ground.source is None else EPISODES,
            learned="" if self.ground.model is None else _learned(self.ground.model),
        )


def _learned(mdp: MDP) -> str:
    """The assumptions of a learned model, and what its unknown choices do; empty for other models."""
    unknown = (
        "" if mdp.unknown is None else " Unknown choices end in a state with damage in every step: they overspend."
    )
    return mdp.origin.learned + unknown


def _chosen(given: str | Learner | Iterable[str | Learner] | None) -> list[Learner]:
    if given is None:
        return list(known_learners.values())
    if not isinstance(given, (str, Learner, Iterable)):
        raise ArgumentError(f"learners must be names or learners; got {given!r}")
    several = [given] if isinstance(given, (str, Learner)) else list(given)
    chosen = [as_learner(one) for one in several]
    names = [learner.name for learner in chosen]
    if not chosen or len(set(names)) < len(names):
        remedy = " Pass name= to tell them apart." if chosen else ""
        raise ArgumentError(f"learners must be one or more, with different names; got {names}.{remedy}")
    return chosen


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    if isinstance(seeds, (list, tuple, range, np.ndarray)):
        numbers = [whole("a seed", seed) for seed in seeds]
    else:
        numbers = list(range(count("seeds", seeds, most=MOST_RUNS)))
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ArgumentError(f"seeds must be a number of runs or different whole numbers from 0; got {seeds!r}")
    return numbers
