"""Barrier learning: which choices can force damage, learned by acting (Castellano, Min, Bazerque and Mallada, 2022).

With Δ = 0 only one question matters about a choice: either some policy never takes damage after it, or the choice is
*doomed*.  The learner assumes that unknown choices do no damage, until it sees some.  This is an optimistic
:class:`almostsure.OnlineShield` with a budget of 0: **every violation reveals a damaging outcome that was never seen
before**, so there are at most as many violations as damaging outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from almostsure.arguments import names_right_word
from almostsure.learn.learners.allowance import Shielded
from almostsure.learn.learners.qlearning import MAX_STEPS
from almostsure.learn.learners.session import train
from almostsure.learn.learners.steps import LearnerRules
from almostsure.learn.learners.training import Training
from almostsure.learn.learners.world import playground
from almostsure.learn.online import OnlineShield
from almostsure.model.arrays import Bools


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Barrier:
    """The result of barrier learning.

    Examples
    --------
    >>> found = learn_barrier("corridor", steps=2_000, seed=0)
    >>> found
    <Barrier: 6 of 54 choices are known to be doomed>
    """

    shield: OnlineShield  # with its counts and its ledger
    training: Training

    @property
    def doomed(self) -> Bools:
        """The choices that are known to be doomed, [num_choices]: damage can be forced after them."""
        doomed: Bools = self.shield.of_choice > 0
        return doomed

    def __repr__(self) -> str:
        return f"<Barrier: {str(self).splitlines()[0]}>"

    def __str__(self) -> str:
        doomed = self.doomed
        return f"{int(doomed.sum()):,} of {doomed.size:,} choices are known to be doomed\n{self.shield.ledger}"


@names_right_word
def learn_barrier(world: Any, *, steps: int = 100_000, seed: int = 0, max_steps: int = MAX_STEPS) -> Barrier:
    """Learn which choices are doomed, by random play among those that are not known to be.

    Parameters
    ----------
    world
        What to act in: a model, an example's name, a file, or anything that can be sampled.
    steps
        The number of steps to take.
    seed
        Seed of the random numbers.
    max_steps
        Episodes are truncated after this many steps.

    Raises
    ------
    NoSafeAction
        If the initial state is found to be doomed.

    Examples
    --------
    >>> from almostsure.learn.learners import learn_barrier
    >>> found = learn_barrier("paper", steps=200)
    >>> found.doomed  # left does damage; right, and the action in the square, never do
    array([ True, False, False])
    >>> len(found.shield.ledger.violations)
    1
    """
    ground = playground(world)
    shield = OnlineShield(ground.mdp, unknown="allow")
    rules = LearnerRules(0, steps, max_steps, explore=1.0)
    training = train(ground, Shielded(ground, 0, shield), rules, seed=seed)
    return Barrier(shield=shield, training=training)
