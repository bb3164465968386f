"""Section 5: the two experiments, exactly and by simulation.

The model is the paper's example with two states: *left* stays, has reward 1, and does damage with probability p;
*right* ends the episode.

- The assured policy plays left while budget remains.  It takes exactly Δ damage, and plays left a negative-binomial
  number of times: n with probability C(n−1, Δ−1) p^Δ (1−p)^(n−Δ), Δ/p on average.
- The policy for an expected damage of at most c plays left with probability q = c/(p + c), so the number of plays is
  geometric, (1−q) qⁿ, with mean c/p; and the damage is geometric with mean c for every p.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import final

import numpy as np

from almostsure.model import MDP, example
from almostsure.model.arrays import Floats
from almostsure.paper.claim import CLOSE, LOOSE, Trial, claim
from almostsure.plan import AlmostSure, Expected, Solution, solve_policy
from almostsure.policy import Episodes, Evaluation, Policy, evaluate, simulate
from almostsure.policy.augment import augment

BUDGET = 5
LIMITS = (1.0, 3.0, 5.0, 10.0)
LISTED = ", ".join(f"{limit:g}" for limit in LIMITS)
EPISODES = 10_000
DAMAGE_PROBABILITY = {1: 1.0, 2: 0.6}  # by experiment
SUPPORT = 400  # returns and damages below this are listed; the probability of all others is below 1e-9
ALWAYS = np.eye(SUPPORT)[BUDGET]  # the distribution of a constant Δ


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlayedPolicy:
    """A policy of an experiment: its solution, exact evaluation, and simulation."""

    solution: Solution
    facts: Evaluation
    episodes: Episodes
    damage: Floats  # [SUPPORT], the probability of each total damage
    reward: Floats  # [SUPPORT], the probability of each return


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Experiment:
    """One of the paper's experiments: the assured policy, and one for each limit on the expected damage."""

    number: int
    mdp: MDP
    assured: PlayedPolicy
    expected: dict[float, PlayedPolicy]  # by limit


@functools.lru_cache(maxsize=4)
def experiment(number: int, seed: int = 0) -> Experiment:
    """Experiment 1 (left always does damage) or 2 (with probability 0.6): all policies, evaluated and simulated.

    Parameters
    ----------
    number, seed
        1 or 2; and the seed of the simulated episodes.

    Examples
    --------
    >>> round(experiment(2).assured.solution.value, 6)  # 5 / 0.6, the mean of a negative binomial
    8.333333
    """
    mdp = example("paper", damage_probability=DAMAGE_PROBABILITY[number])
    return Experiment(
        number=number,
        mdp=mdp,
        assured=_run(mdp, solve_policy(mdp, AlmostSure(BUDGET)), seed),
        expected={limit: _run(mdp, solve_policy(mdp, Expected(limit)), seed + i) for i, limit in enumerate(LIMITS, 1)},
    )


def _run(mdp: MDP, solution: Solution, seed: int) -> PlayedPolicy:
    facts = evaluate(mdp, solution.policy, budget=BUDGET)
    return PlayedPolicy(
        solution=solution,
        facts=facts,
        episodes=simulate(mdp, solution.policy, EPISODES, budget=BUDGET, seed=seed),
        damage=_padded(facts.damage_distribution),
        reward=_padded(_returns(mdp, solution.policy)),
    )


def _returns(mdp: MDP, policy: Policy) -> Floats:
    """The distribution of the return, evaluated as damage: the reward is 0 or 1 here."""
    if policy.budget is None:
        plain = mdp.with_damage(mdp.reward)
        return evaluate(plain, Policy(plain, probability=policy.weights(0)[None, :])).damage_distribution
    big = augment(mdp, policy.budget)
    plain = big.with_damage(big.reward)
    actions = [policy.act(s, k) for k in range(policy.budget + 1) for s in range(mdp.num_states)]
    return evaluate(plain, Policy.from_table(plain, [*actions, 0])).damage_distribution


def _padded(distribution: Floats) -> Floats:
    return np.pad(distribution[:SUPPORT], (0, max(SUPPORT - distribution.size, 0)))


# ---------------------------------------------------------------------- closed forms


def negative_binomial(p: float) -> Floats:
    """The distribution of the number of plays until BUDGET damage, 1 per play with probability p, [SUPPORT]."""
    counts = range(BUDGET, SUPPORT)
    tail = [math.comb(n - 1, BUDGET - 1) * p**BUDGET * (1 - p) ** (n - BUDGET) for n in counts]
    return np.array([0.0] * BUDGET + tail)


def geometric(mean: float) -> Floats:
    """The distribution of the number of successes before the first failure, with the given mean, [SUPPORT]."""
    share = mean / (1 + mean)
    return np.array([(1 - share) * share**n for n in range(SUPPORT)])


def spread(distribution: Floats) -> float:
    """The standard deviation."""
    values = np.arange(distribution.size)
    mean = float(values @ distribution)
    return math.sqrt(float((values - mean) ** 2 @ distribution))


def _close(one: Floats, other: Floats) -> bool:
    return bool(np.abs(one - other).max() < CLOSE)


def _expect(trial: Trial, run: PlayedPolicy, *, damage: Floats, reward: Floats) -> None:
    """Expect these distributions of damage and return, and simulated means within five standard errors."""
    played = run.episodes
    for found, exact, sampled in ((run.damage, damage, played.damages), (run.reward, reward, played.returns)):
        mean, error = float(np.arange(SUPPORT) @ exact), spread(exact) / math.sqrt(sampled.size)
        trial.expect(_close(found, exact), f"the distribution with mean {mean} differs from the exact one")
        trial.expect(abs(float(sampled.mean()) - mean) <= 5 * error + CLOSE, f"mean {sampled.mean()}, exactly {mean}")


# ---------------------------------------------------------------------- Experiment I


@claim("Experiment I", "The assured policy always takes Δ = 5 damage", takes_model=False)
def experiment_1_assured(trial: Trial) -> str:
    """Under the probability-one constraint the best policy plays left Δ times: damage and return are always 5."""
    run = experiment(1, trial.seed).assured
    _expect(trial, run, damage=ALWAYS, reward=ALWAYS)
    trial.expect(set(run.episodes.damages.tolist()) == {BUDGET}, "an episode took another damage")
    trial.expect(run.facts.overspends == 0 and abs(run.solution.value - BUDGET) < CLOSE, f"value {run.solution.value}")
    return f"damage 5 with probability 1, and in each of {EPISODES:,} episodes; return {run.solution.value:g}"


@claim("Experiment I", "Damage under E[damage] ≤ c is highly variable", takes_model=False)
def experiment_1_expected(trial: Trial) -> str:
    """The best policy for an expected damage of at most c plays left with probability c/(1 + c); its damage varies."""
    found = []
    for limit, run in experiment(1, trial.seed).expected.items():
        _expect_played(trial, run, limit, p=1.0)
        trial.close(run.facts.overspends, (limit / (1 + limit)) ** (BUDGET + 1), f"P(damage > 5) for c = {limit:g}")
        trial.expect(abs(spread(run.damage) - math.sqrt(limit * (1 + limit))) < 1e-3, f"spread for c = {limit:g}")
        found.append(f"{run.facts.overspends:.1%} for c = {limit:g}")
    return f"geometric damage with standard deviation √(c(1 + c)); P(damage > 5) is {', '.join(found)}"


def _expect_played(trial: Trial, run: PlayedPolicy, limit: float, p: float) -> None:
    """Expect a policy for an expected damage to play left with the right probability, damage and return."""
    left = float(run.solution.policy.probabilities("circle")[0])
    trial.expect(abs(left - limit / (p + limit)) < CLOSE, f"c = {limit:g}: left with probability {left}")
    trial.expect(abs(run.solution.value - limit / p) < 1e-6, f"c = {limit:g}: return {run.solution.value}")
    _expect(trial, run, damage=geometric(limit), reward=geometric(limit / p))


# ---------------------------------------------------------------------- Experiment II


@claim("Experiment II", "Assured returns are at least 5, tightly around 10", verdict=LOOSE, takes_model=False)
def experiment_2_assured(trial: Trial) -> str:
    """With damage probability 0.6 the assured policy returns at least 5, tightly concentrated around 10.

    At least 5 is right. But the return is negative binomial with mean 5/0.6 = 25/3, not 10, and not tight.
    """
    run, exact = experiment(2, trial.seed).assured, negative_binomial(0.6)
    _expect(trial, run, damage=ALWAYS, reward=exact)
    trial.expect(int(run.episodes.returns.min()) == BUDGET, f"the least return is {run.episodes.returns.min()}")
    trial.expect(abs(run.solution.value - 25 / 3) < 1e-6, f"the value is {run.solution.value}")
    trial.expect(int(run.reward.argmax()) == 7, f"most likely {run.reward.argmax()}")
    return (
        f"the minimum is 5, with probability 0.6⁵ = {run.reward[BUDGET]:.1%}; mean 25/3 ≈ 8.33, most likely 7, "
        f"standard deviation {spread(exact):.2f}; P(10 or more) = {float(run.reward[10:].sum()):.1%}"
    )


@claim("Experiment II", "The optimal assured policy remains unchanged", verdict=LOOSE, takes_model=False)
def experiment_2_policy(trial: Trial) -> str:
    """The best policy is the same as in the first experiment.

    It is unchanged as a policy on (s, K): left while K > 0. It is not 'left Δ times', which would return 5.
    """
    first, second = (experiment(n, trial.seed).assured.solution.policy for n in (1, 2))
    for remaining in range(BUDGET + 1):
        plays = [policy.mdp.action_name(policy.act("circle", remaining)) for policy in (first, second)]
        trial.expect(plays == ["left" if remaining else "right"] * 2, f"with {remaining} left: {plays}")
    return "left while K > 0, then right, in both; it now plays left 25/3 times on average, and 5 times at least"


@claim("Experiment II", "Returns under E[damage] ≤ c are insensitive to c", verdict=LOOSE, takes_model=False)
def experiment_2_expected(trial: Trial) -> str:
    """The best policy for an expected damage of at most c plays left with probability c/(0.6 + c), for every c.

    The probability is right. But the mean return c/0.6 is proportional to c, and so, approximately, is its standard
    deviation. Only the shape is the same: the most likely return is 0 for every c. For c = Δ the mean return is that
    of the assured policy, 25/3: here certainty costs nothing.
    """
    second = experiment(2, trial.seed)
    for limit, run in second.expected.items():
        _expect_played(trial, run, limit, p=0.6)
        trial.expect(int(run.reward.argmax()) == 0, f"c = {limit:g}: most likely {run.reward.argmax()}")
    same = abs(second.expected[float(BUDGET)].solution.value - second.assured.solution.value) < 1e-6
    trial.expect(same, "with c = Δ both must have the same mean return")
    means = ", ".join(f"{run.solution.value:.2f}" for run in second.expected.values())
    zeros = ", ".join(f"{run.reward[0]:.1%}" for run in second.expected.values())
    return f"for c = {LISTED} the return is geometric with mean {means}, and 0 with probability {zeros}"


@claim("Experiment II", "The observed damage is similar to that of Experiment I", takes_model=False)
def experiment_2_damage(trial: Trial) -> str:
    """The damage of each policy has about the same distribution as in the first experiment.

    The distributions are even equal, since a thinned geometric count is geometric.
    """
    first, second = (experiment(n, trial.seed) for n in (1, 2))
    trial.expect(_close(first.assured.damage, second.assured.damage), "the assured policy's damage differs")
    for limit, run in first.expected.items():
        trial.expect(_close(run.damage, second.expected[limit].damage), f"it differs for c = {limit:g}")
    return f"identical, for the assured policy and for c = {LISTED}"


@claim("Conclusions", "Less than Δ units of damage", verdict=LOOSE, takes_model=False)
def conclusions(trial: Trial) -> str:
    """The agent encounters less than Δ units of damage along a trajectory.

    'At most Δ' is meant, as in the problem: the optimal policy takes exactly Δ.
    """
    facts = experiment(1, trial.seed).assured.facts
    trial.expect(abs(facts.exceeds(BUDGET - 1) - 1) < CLOSE and facts.exceeds(BUDGET) == 0, f"{facts}")
    return "the best policy for Δ = 5 takes 5 with probability 1, and more with probability 0"
