"""``train_maskable_ppo``: an agent that never overspends, in one call."""

from __future__ import annotations

from os import PathLike

import numpy.typing as npt

from almostsure.arguments import names_right_word, whole
from almostsure.errors import ArgumentError, Interrupted
from almostsure.gym.deep.agent import DeepAgent, agent_of
from almostsure.gym.deep.ground import Source, ground_of
from almostsure.gym.deep.ppo import build, learn
from almostsure.gym.deep.settings import DEFAULT, Settings
from almostsure.learn.ledger import Ledger


@names_right_word
def train_maskable_ppo(
    source: Source,
    budget: int | None = None,
    *,
    steps: int = 200_000,
    seed: int = 0,
    settings: Settings = DEFAULT,
    features: npt.ArrayLike | None = None,
    device: str = "auto",
    ledger: Ledger | str | PathLike[str] | None = None,
) -> DeepAgent:
    """Train MaskablePPO inside the shield.

    Parameters
    ----------
    source
        A model, an example's name or a file, of which many copies are stepped at once.  Or a Gymnasium environment
        with a :class:`almostsure.gym.ShieldedEnv` in its stack, or a function that makes one: then there are as many
        copies as ``settings.lanes``.
    budget
        The budget of every episode, in training and afterwards.  A ShieldedEnv knows its own.
    steps
        Environment steps, over all copies together.
    seed
        The same seed gives the same agent on the same machine.
    settings
        The numbers of PPO.
    features
        For models: one row of numbers for each state, for the network to see; by default the state one-hot, and its
        place on the map.
    device
        Of the network: "auto" takes a GPU where there is one.  Small networks are faster on the CPU.
    ledger
        For models: a Ledger, or the path of a file of JSON lines, in which every training episode is noted.  A
        ShieldedEnv has its own.

    Returns
    -------
    DeepAgent
        ``policy()`` and ``evaluate()`` are exact; ``save`` and ``load`` use no pickle.

    Raises
    ------
    Infeasible
        If an initial state needs more than ``budget``; ``needed`` is what suffices.
    ArgumentError
        If an environment has no shield, or another budget than the one given.
    Interrupted
        Ctrl-C; ``kept`` is the agent as it was then.

    Examples
    --------
    >>> from almostsure.gym.deep import train_maskable_ppo
    >>> agent = train_maskable_ppo("corridor", 3, steps=4_000, seed=1)
    >>> result = agent.evaluate()
    >>> result.overspends, int(agent.damages.max()) <= 3
    (0.0, True)
    """
    steps = _steps(steps)
    ground = ground_of(source, budget, settings.for_steps(steps), features=features, ledger=ledger)
    ppo = build(ground, seed=_seed(seed), device=device)
    try:
        learn(ppo, ground, steps=steps)
    except KeyboardInterrupt:
        raise Interrupted(
            f"training was stopped after {ppo.num_timesteps:,} steps; the agent is kept", kept=agent_of(ppo, ground)
        ) from None
    return agent_of(ppo, ground)


def _steps(steps: object) -> int:
    number = whole("steps", steps)
    if number < 2:
        raise ArgumentError(f"steps must be 2 or more; got {number}")
    return number


def _seed(seed: object) -> int:
    number = whole("seed", seed)
    if not 0 <= number < 2**32:
        raise ArgumentError(f"seed must lie in 0 … {2**32 - 1}; got {number}")
    return number
