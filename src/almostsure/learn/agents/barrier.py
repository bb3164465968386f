"""Barrier learning: which choices may ever hurt, learned by acting (Castellano, Min, Bazerque and Mallada, 2022).

With nothing to spend (Δ = 0) the budget of a choice is a yes or no: either some policy never takes damage after it, or
the choice is *doomed*.  The learner assumes the best of what it does not know, and is proved wrong by damage.  That is
an optimistic :class:`almostsure.OnlineShield` with a budget of 0, and nothing else: **every violation reveals a
damaging outcome that was never seen before**, so that there are at most as many as there are damaging outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from almostsure.learn.agents.guard import Shielded
from almostsure.learn.agents.qlearning import HORIZON
from almostsure.learn.agents.tabular import Rules, train
from almostsure.learn.bounds import count
from almostsure.learn.online import OnlineShield
from almostsure.learn.training import Training
from almostsure.model.mdp import Bools
from almostsure.model.source import Model, as_model


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Barrier:
    """What barrier learning found."""

    shield: OnlineShield  # with what it has seen, and its ledger
    training: Training

    @property
    def doomed(self) -> Bools:
        """The choices that are known to be doomed, [num_choices]: damage can be forced on whoever plays them."""
        doomed: Bools = self.shield.of_choice > 0
        return doomed

    def __str__(self) -> str:
        doomed = self.doomed
        return f"{int(doomed.sum()):,} of {doomed.size:,} choices are known to be doomed\n{self.shield.ledger}"


def learn_barrier(mdp: Model, *, steps: int = 100_000, seed: int = 0, horizon: int = HORIZON) -> Barrier:
    """Learn which choices are doomed, by random play among those that are not known to be.

    Parameters
    ----------
    mdp
        The model, an example's name, or a file.  It is only acted in.
    steps
        How many steps to take.
    seed
        Of the random play.
    horizon
        Episodes are cut after so many steps.

    Raises
    ------
    NoSafeAction
        If it turns out that even the initial state is doomed.

    Examples
    --------
    >>> from almostsure.learn.agents import learn_barrier
    >>> found = learn_barrier("paper", steps=200)
    >>> found.doomed  # left hurts; right, and what is done in the square, never does
    array([ True, False, False])
    >>> len(found.shield.ledger.violations)
    1
    """
    mdp = as_model(mdp)
    shield = OnlineShield(mdp, unknown="allow")
    rules = Rules(horizon=count("horizon", horizon), explore=1.0)
    training = train(mdp, Shielded(mdp, 0, shield), rules, steps=steps, seed=seed)
    return Barrier(shield=shield, training=training)
