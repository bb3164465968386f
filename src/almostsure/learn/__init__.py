"""Learning budgets from a sampler, and while an agent runs.

``docs/learning.md`` says which guarantee each way gives.
"""

from almostsure.learn.bounds import Confidence, confidence, delta_bought, mu_bought, samples_needed
from almostsure.learn.cluster import RayCluster
from almostsure.learn.compare import compare
from almostsure.learn.comparison import Comparison
from almostsure.learn.data import learn_from_logs
from almostsure.learn.kernel import Kernel, build_kernel
from almostsure.learn.ledger import Episode, Ledger, Surprise, Violation, read_ledger
from almostsure.learn.minimal import LearnedBudget, learn_minimal_budget
from almostsure.learn.online import OnlineShield
from almostsure.learn.sampler import Sampler
from almostsure.learn.simulators import EnvSampler, FunctionSampler

__all__ = [
    "Comparison",
    "Confidence",
    "EnvSampler",
    "Episode",
    "FunctionSampler",
    "Kernel",
    "LearnedBudget",
    "Ledger",
    "OnlineShield",
    "RayCluster",
    "Sampler",
    "Surprise",
    "Violation",
    "build_kernel",
    "compare",
    "confidence",
    "delta_bought",
    "learn_minimal_budget",
    "learn_from_logs",
    "mu_bought",
    "read_ledger",
    "samples_needed",
]
