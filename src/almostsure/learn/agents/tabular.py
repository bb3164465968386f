"""Running Q-learning: the learner's tables, block after block of steps, and the greedy policy in the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np
import numpy.typing as npt

from almostsure.learn.agents.guard import Guard
from almostsure.learn.agents.session import Session, engine, greedy
from almostsure.learn.training import Training
from almostsure.memory import require
from almostsure.model.mdp import MDP, Floats
from almostsure.policy.policy import Policy

BYTES_AN_ENTRY = 25  # of the learner's tables, for each layer and choice
FADING = 0.4  # the step size after n tries is n to the power −0.4, …
SMALLEST = 0.05  # … and not below this
RATES = 2_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What tells one learner of this family from another."""

    horizon: int  # episodes are cut after so many steps
    penalty: float = 0.0  # replaces the reward of a step that leaves one overspent; 0: none
    price_rate: float = 0.0  # of the multiplier on damage; 0: damage has no price
    explore: float = 0.2  # the share of random steps


@final
@dataclass(slots=True, eq=False)
class Book:
    """What has been learned."""

    value: Floats  # [layers, num_choices], expected return
    harm: Floats  # [layers, num_choices], expected damage
    tries: npt.NDArray[np.int64]  # [layers, num_choices]
    price: Floats = field(default_factory=lambda: np.zeros(1))  # the multiplier on damage


def new_book(mdp: MDP, layers: int) -> Book:
    """An empty one: every choice is thought to be worth the model's largest reward until it is tried.

    That is the optimism which makes a learner look everywhere.
    """
    entries = layers * mdp.num_choices
    require(entries * BYTES_AN_ENTRY, f"a learner's tables ({entries:,} entries)", "Train with a smaller budget.")
    shape = layers, mdp.num_choices
    return Book(np.full(shape, max(0.0, float(mdp.reward.max()))), np.zeros(shape), np.zeros(shape, np.int64))


def train(mdp: MDP, guard: Guard, rules: Rules, *, steps: int, seed: int) -> Training:
    """Q-learning for ``steps`` steps, inside what the guard allows."""
    book = new_book(mdp, guard.layers)
    session = Session(mdp, guard, steps=steps, seed=seed)
    learn = engine(session.is_small).learn
    rate = np.maximum(np.arange(1, RATES + 1) ** -FADING, SMALLEST)
    for draws, *room in session.blocks():
        learn(
            *session.world, session.allowed, book.value, book.harm, book.tries, session.seen, rate, book.price,
            *session.lanes, session.count, draws, *room,
            guard.budget, session.steps, rules.horizon, float(rules.penalty), float(rules.price_rate), rules.explore,
            guard.watches,
        )  # fmt: skip
        if guard.watches:
            session.watch()
    return session.finish(deploy(session, book))


def deploy(session: Session, book: Book) -> Policy:
    """The greedy policy: the best of what was tried; where nothing was tried, all that is allowed is equally likely."""
    allowed, guard = session.allowed, session.guard
    score = np.where(allowed & (book.tries > 0), book.value - book.price[0] * book.harm, -np.inf)
    return guard.policy(greedy(session.mdp, score, guard.completed(allowed)))
