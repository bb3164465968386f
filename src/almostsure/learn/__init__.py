"""Learning minimal budgets from samplers, environments and logs, and while an agent runs.

``docs/learning.md`` says which guarantee each way gives.
"""

from typing import TYPE_CHECKING

from almostsure.exports import on_demand

if TYPE_CHECKING:
    from almostsure.crew import RayCluster
    from almostsure.learn.bounds import Confidence, confidence, delta_bought, mu_bought, samples_needed
    from almostsure.learn.comparison.compare import compare
    from almostsure.learn.comparison.result import Comparison
    from almostsure.learn.counts import Counts
    from almostsure.learn.exploration import ByName, explore
    from almostsure.learn.ledger import Episode, Ledger, Surprise, Violation, read_ledger
    from almostsure.learn.logs.learn import learn_from_logs
    from almostsure.learn.minimal import LearnedBudget, learn_minimal_budget
    from almostsure.learn.online import OnlineShield
    from almostsure.learn.sampling.count import count_outcomes
    from almostsure.learn.sampling.env_sampler import EnvSampler
    from almostsure.learn.sampling.samplers import FunctionSampler, Sampler
else:
    __getattr__ = on_demand(__name__)

__all__ = [
    "ByName",
    "Comparison",
    "Confidence",
    "Counts",
    "EnvSampler",
    "Episode",
    "FunctionSampler",
    "LearnedBudget",
    "Ledger",
    "OnlineShield",
    "RayCluster",
    "Sampler",
    "Surprise",
    "Violation",
    "compare",
    "confidence",
    "count_outcomes",
    "delta_bought",
    "explore",
    "learn_from_logs",
    "learn_minimal_budget",
    "mu_bought",
    "read_ledger",
    "samples_needed",
]
