"""Running a tabular learner: the model as flat arrays, the learner's tables, and block after block of steps.

Up to ``PLAIN_STEPS`` the steps are played by plain Python, which is done before compiled code would be loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from almostsure.budget.memory import require
from almostsure.learn.agents.guard import Guard
from almostsure.learn.agents.steps import CLOCK, DRAWN, DRAWS, EPISODES, REFUSALS
from almostsure.learn.model_plain import running_sums
from almostsure.learn.training import Training
from almostsure.model.mdp import MDP, Bools, Floats
from almostsure.policy.policy import Policy
from almostsure.waiting import compiling

PLAIN_STEPS = 30_000
BLOCK = 1 << 15  # steps between two looks at what was learned
COPIES = 16
BYTES_AN_ENTRY = 25  # of the learner's tables, for each layer and choice
FADING = 0.6  # the step size after n tries is n to the power −0.6, …
SMALLEST = 0.01  # … and not below this
RATES = 5_000

Table = npt.NDArray[Any]


class World(NamedTuple):
    """A model as the steps read it."""

    choice_ptr: npt.NDArray[np.int64]
    outcome_ptr: npt.NDArray[np.int64]
    successor: npt.NDArray[np.int64]
    cumulative: Floats
    reward: Floats
    damage: npt.NDArray[np.uint8]
    is_terminal: Bools
    initial: npt.NDArray[np.int64]
    initial_cumulative: Floats


def world_of(mdp: MDP) -> World:
    """The arrays of a model."""
    outcome_ptr = mdp.outcome_ptr.astype(np.int64)
    starts = np.array([0, mdp.initial_states.size])
    return World(
        choice_ptr=mdp.choice_ptr.astype(np.int64),
        outcome_ptr=outcome_ptr,
        successor=mdp.successor.astype(np.int64),
        cumulative=running_sums(mdp.probability, outcome_ptr),
        reward=np.ascontiguousarray(mdp.reward, np.float64),
        damage=np.ascontiguousarray(mdp.damage),
        is_terminal=mdp.is_terminal(),
        initial=mdp.initial_states.astype(np.int64),
        initial_cumulative=running_sums(np.asarray(mdp.initial_probabilities, np.float64), starts),
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What tells one learner of this family from another."""

    horizon: int  # episodes are cut after so many steps
    penalty: float = 0.0  # replaces the reward of a step that leaves one overspent; 0: none
    price_rate: float = 0.0  # of the multiplier on damage; 0: damage has no price
    exploring: float = 0.5  # the share of training over which exploration fades out
    least: float = 0.05  # the share of random steps after that


@final
@dataclass(slots=True, eq=False)
class Book:
    """What has been learned."""

    value: Floats  # [layers, num_choices], expected return
    harm: Floats  # [layers, num_choices], expected damage
    tries: npt.NDArray[np.int64]  # [layers, num_choices]
    seen: npt.NDArray[np.int64]  # [num_outcomes]
    price: Floats = field(default_factory=lambda: np.zeros(1))  # the multiplier on damage


def new_book(mdp: MDP, layers: int) -> Book:
    """An empty one."""
    entries = layers * mdp.num_choices
    require(entries * BYTES_AN_ENTRY, f"a learner's tables ({entries:,} entries)", "Train with a smaller total.")
    shape = layers, mdp.num_choices
    return Book(np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int64), np.zeros(mdp.num_outcomes, np.int64))


def run(mdp: MDP, total: int, guard: Guard, rules: Rules, *, steps: int, seed: int) -> Training:
    """Train for ``steps`` steps, and say how it went."""
    world, book, allowed = world_of(mdp), new_book(mdp, guard.layers), guard.table()
    rng = np.random.default_rng(seed)
    rate = np.maximum(np.arange(1, RATES + 1) ** -FADING, SMALLEST)
    lanes = _lanes(world, total, min(COPIES, max(1, steps // 1000)), rng)
    count, found = np.zeros(5, np.int64), []
    learn = _steps(steps)
    while count[CLOCK] < steps:
        draws = rng.random((min(BLOCK, 2 * steps), DRAWS))
        count[DRAWN] = count[EPISODES] = 0
        outputs = np.zeros(len(draws), np.int64), np.zeros(len(draws)), np.zeros(len(draws), np.int64)
        while count[CLOCK] < steps and count[DRAWN] < len(draws):
            learn(
                *world, allowed, book.value, book.harm, book.tries, book.seen, rate, book.price, *lanes, count, draws,
                *outputs, total, steps, rules.horizon, rules.penalty, rules.price_rate, rules.exploring * steps,
                rules.least, guard.watches,
            )  # fmt: skip
            if guard.watches:
                allowed = guard.updated(book.seen, int(count[CLOCK]))
        found.append([column[: count[EPISODES]].copy() for column in outputs])
    ends, returns, damages = (np.concatenate(columns) for columns in zip(*found, strict=True))
    late = lanes[4] > total  # cut by the end of training, but overspent already
    return Training(
        policy=deploy(mdp, guard, allowed, book),
        ends=np.append(ends, np.full(int(late.sum()), steps)),
        returns=np.append(returns, lanes[3][late]),
        damages=np.append(damages, lanes[4][late]),
        interventions=int(count[REFUSALS]),
    )


def _lanes(world: World, total: int, copies: int, rng: np.random.Generator) -> tuple[Table, ...]:
    start = np.searchsorted(world.initial_cumulative, rng.random(copies), side="right")
    zeros = np.zeros(copies, np.int64)
    return world.initial[start].copy(), zeros + total, zeros.copy(), np.zeros(copies), zeros.copy()


def _steps(steps: int) -> Any:
    if steps <= PLAIN_STEPS:
        from almostsure.learn.agents.steps import learn

        return learn
    with compiling("the learners"):
        from almostsure.learn.agents.steps_kernel import learn as compiled
    return compiled


# ---------------------------------------------------------------------- the policy


def deploy(mdp: MDP, guard: Guard, allowed: Bools, book: Book) -> Policy:
    """The greedy policy: the best of what was tried; where nothing was tried, all that is allowed is equally likely."""
    score = np.where(allowed & (book.tries > 0), book.value - book.price[0] * book.harm, -np.inf)
    return guard.policy(greedy(mdp, score, guard.completed(allowed)))


def greedy(mdp: MDP, score: Floats, allowed: Bools) -> Floats:
    """Probabilities [layers, num_choices]: the first best score of each state, or what is allowed where none is."""
    starts, owner = mdp.choice_ptr[:-1].astype(np.int64), mdp.choice_states()
    best = np.maximum.reduceat(score, starts, axis=1)[:, owner]
    wanted = np.where(np.isneginf(best), allowed, (score == best) & ~np.isneginf(score))
    known = ~np.isneginf(best)
    # Only the first of several equally good ones: policies are then deterministic where anything is known.
    running = np.cumsum(wanted, axis=1)
    before = running - wanted
    first = wanted & (before == before[:, starts][:, owner])
    chosen = np.where(known, first, wanted).astype(np.float64)
    counts = np.add.reduceat(chosen, starts, axis=1)
    shares: Floats = chosen / np.maximum(counts, 1.0)[:, owner]
    return shares
