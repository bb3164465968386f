"""Running Q-learning: the learner's tables, the steps, and the greedy policy in the end."""

from __future__ import annotations

import numpy as np

from almostsure.arguments import count
from almostsure.learn.learners.allowance import Allowance
from almostsure.learn.learners.session import Session
from almostsure.learn.learners.steps import Book, Rules
from almostsure.learn.learners.training import Training
from almostsure.learn.learners.world import Playground
from almostsure.memory import require
from almostsure.model.arrays import Bools, Floats
from almostsure.model.mdp import MDP
from almostsure.policy.policy import Policy

BYTES_PER_ENTRY = 25  # of the learner's tables, for each layer and choice
FADING = 0.4  # the step size after n tries is n to the power −0.4, …
SMALLEST = 0.05  # … and not below this
RATES = 2_000


def train(ground: Playground, allowance: Allowance, rules: Rules, *, seed: int) -> Training:
    """Q-learning inside what is allowed."""
    steps, max_steps = count("steps", rules.steps), count("max_steps", rules.max_steps)
    rules = rules._replace(steps=steps, max_steps=max_steps, replays=count("replays", rules.replays, least=0))
    book = new_book(ground, allowance.layers)
    session = Session(ground, allowance, rules, seed=seed)
    session.play(book)
    return session.finish(deploy(session, book))


def new_book(ground: Playground, layers: int) -> Book:
    """An empty one: every choice is thought to be worth the largest reward until it is tried.

    That is the optimism which makes a learner look everywhere.
    """
    entries = layers * ground.mdp.num_choices
    require(entries * BYTES_PER_ENTRY, f"a learner's tables ({entries:,} entries)", "Train with a smaller budget.")
    shape = layers, ground.mdp.num_choices
    return Book(
        value=np.full(shape, max(0.0, ground.rewards[1])),
        damage=np.zeros(shape),
        tries=np.zeros(shape, np.int64),
        seen=np.zeros(ground.mdp.num_outcomes if ground.same is None else int(ground.same.max()) + 1, np.int64),
        rate=np.maximum(np.arange(1, RATES + 1) ** -FADING, SMALLEST),
        price=np.zeros(1),
    )


def deploy(session: Session, book: Book) -> Policy:
    """The greedy policy: the best of what was tried; where nothing was tried, all that is allowed is equally likely."""
    allowed, allowance = session.allowed, session.allowance
    score = np.where(allowed & (book.tries > 0), book.value - book.price[0] * book.damage, -np.inf)
    return allowance.policy(greedy(session.ground.mdp, score, allowance.completed(allowed)))


def greedy(mdp: MDP, score: Floats, allowed: Bools) -> Floats:
    """Probabilities [layers, num_choices]: the first best score of each state, or what is allowed where none is."""
    starts, owner = mdp.choice_ptr[:-1].astype(np.int64), mdp.choice_states()
    best = np.maximum.reduceat(score, starts, axis=1)[:, owner]
    known = ~np.isneginf(best)
    equal = known & (score == best)
    before = np.cumsum(equal, axis=1) - equal
    wanted = np.where(known, equal & (before == before[:, starts][:, owner]), allowed)
    shares: Floats = wanted / np.maximum(np.add.reduceat(wanted, starts, axis=1, dtype=np.float64), 1.0)[:, owner]
    return shares
