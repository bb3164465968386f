"""Deep agents that never overspend, and baselines.  Needs the extra ``deep``.

>>> from almostsure.gym.deep import train_maskable_ppo
>>> agent = train_maskable_ppo("corridor", 3, total_timesteps=512, seed=0)
>>> agent.evaluate().overspends
0.0
"""

from almostsure.errors import MissingExtra

try:
    import sb3_contrib as _sb3_contrib  # noqa: F401  # so that the error names the command that installs it
except ImportError:
    raise MissingExtra("sb3-contrib", "deep") from None

from almostsure.gym.deep.agent import DeepAgent, load_agent
from almostsure.gym.deep.learners import (
    EarlyEndPPO,
    LagrangianPPO,
    OneStepPPO,
    SautePPO,
    ShieldedPPO,
    UnconstrainedPPO,
    deep_learners,
)
from almostsure.gym.deep.settings import Settings
from almostsure.gym.deep.train import train_maskable_ppo

__all__ = [
    "DeepAgent",
    "EarlyEndPPO",
    "LagrangianPPO",
    "OneStepPPO",
    "SautePPO",
    "Settings",
    "ShieldedPPO",
    "UnconstrainedPPO",
    "deep_learners",
    "load_agent",
    "train_maskable_ppo",
]
