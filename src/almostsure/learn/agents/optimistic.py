"""An optimistic learner: it counts what it sees, plans in that, and takes the unknown for the best (R-max)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from almostsure.learn.agents.guard import Shielded
from almostsure.learn.agents.qlearning import HORIZON, Given, shield_for
from almostsure.learn.agents.session import Engine, Session, engine, greedy
from almostsure.learn.agents.steps import EPISODES, PLANNED, STALE
from almostsure.learn.bounds import count
from almostsure.learn.training import Training
from almostsure.memory import require
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.policy.policy import Policy

BYTES_AN_ENTRY = 16
PLAIN_OUTCOMES = 1_000  # times layers: larger models are planned by compiled code
MORE_SWEEPS, MOST_SWEEPS = 50, 1_000  # more than two a state: values that fall for ever are not followed for long
COARSE, FINE = 1e-5, 1e-9  # of plans, relative to their largest value
PLANS = 100  # the longer it has learned, the less a hundredth more can change
OUTCOMES_A_STEP = 2_000  # read by planning: so it takes about as long as acting does


@final
@dataclass(frozen=True, kw_only=True)
class OptimisticModel:
    """Counts outcomes and plans, inside a shield; a choice tried less than ``enough`` times is taken for the best.

    The best is the model's largest reward, or the best episode so far.  So it goes wherever inside the shield
    something unknown might be worth it, then plays the best plan.  The policy that it deploys is planned the other way
    round: what was never tried is taken for the worst.

    Parameters
    ----------
    shield
        As for :class:`almostsure.learn.agents.ShieldedQ`.
    enough
        How often a choice is tried before it is known.
    horizon
        Episodes are cut after so many steps.
    """

    name: str = "shielded optimistic model"
    shield: Given = None
    enough: int = 16
    horizon: int = HORIZON

    def __post_init__(self) -> None:
        count("horizon", self.horizon)
        count("enough", self.enough)

    def train(self, mdp: MDP, budget: int, *, steps: int, seed: int) -> Training:
        """Train for ``steps`` steps."""
        guard = Shielded(mdp, budget, shield_for(mdp, self.shield))
        planner = Planner(mdp, guard.layers, self.horizon)
        session = Session(mdp, guard, steps=steps, seed=seed)
        kernels = engine(session.is_small and mdp.num_outcomes * guard.layers <= PLAIN_OUTCOMES)
        planner.plan(kernels, session, self.enough, planner.hope)
        for draws, *room in session.blocks():
            kernels.walk(
                *session.world, session.allowed, planner.chosen, session.seen, planner.samples, self.enough,
                *session.lanes, session.count, draws, *room,
                guard.budget, session.steps, self.horizon, planner.pause, guard.watches,
            )  # fmt: skip
            changed = guard.watches and session.watch()
            if changed or planner.is_outdated(session):
                planner.hope = max([planner.hope, *room[1][: session.count[EPISODES]].tolist()])
                planner.plan(kernels, session, self.enough, planner.hope)
        planner.plan(kernels, session, 1, planner.fear, precision=FINE)
        return session.finish(planner.policy(session))


@final
class Planner:
    """What was counted, and the plan made of it."""

    def __init__(self, mdp: MDP, layers: int, horizon: int) -> None:
        entries = layers * mdp.num_states
        require(entries * BYTES_AN_ENTRY, f"a plan ({entries:,} entries)", "Train with a smaller budget.")
        self.samples: Ints = np.zeros(mdp.num_choices, np.int64)
        self.value: Floats = np.zeros((layers, mdp.num_states))
        self.chosen: Ints = np.zeros((layers, mdp.num_states), np.int64)
        self.sweeps = min(MOST_SWEEPS, MORE_SWEEPS + 2 * mdp.num_states)
        self.pause = 1
        self.hope = max(0.0, float(mdp.reward.max()))
        self.fear = -horizon * max(1.0, float(np.abs(mdp.reward).max()))  # no return is smaller

    def plan(self, kernels: Engine, session: Session, enough: int, unknown: float, precision: float = COARSE) -> None:
        """Plan with what was counted so far."""
        world = session.world
        session.count[STALE], session.count[PLANNED] = 0, session.clock
        sweeps = kernels.plan(
            world.choice_ptr, world.outcome_ptr, world.successor, world.reward, world.damage, world.is_terminal,
            session.allowed, session.seen, self.samples, enough, unknown, self.sweeps, precision,
            self.value, self.chosen,
        )  # fmt: skip
        self.pause = max(1, session.mdp.num_outcomes * sweeps // OUTCOMES_A_STEP, session.clock // PLANS)

    def is_outdated(self, session: Session) -> bool:
        """Whether more is known than the plan used, and planning again is worth its time."""
        return bool(session.count[STALE]) and session.clock - int(session.count[PLANNED]) >= self.pause

    def policy(self, session: Session) -> Policy:
        """The plan as a policy; where nothing was tried, all that is allowed is equally likely."""
        mdp, guard = session.mdp, session.guard
        tried = session.allowed & (self.samples > 0)
        planned = np.zeros(session.allowed.shape, np.bool_)
        rows, states = np.nonzero(self.chosen >= 0)
        planned[rows, self.chosen[rows, states]] = True
        score = np.where(tried & planned, 0.0, -np.inf)
        return guard.policy(greedy(mdp, score, guard.completed(session.allowed)))
