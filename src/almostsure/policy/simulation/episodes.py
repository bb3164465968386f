"""``Episodes``: the results of many episodes; ``Trajectory``: one of them, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from almostsure.errors import ArgumentError
from almostsure.model.mdp import MDP, Bools, Floats
from almostsure.policy.policy import Policy
from almostsure.policy.simulation.plain import PlayRules, PlayTables, Stepper
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.plots import Axes

MOST_STEPS = 40  # steps of a trajectory that are printed


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Episodes:
    """The results of all episodes, as arrays; :meth:`trajectory` plays one of them again.

    Examples
    --------
    >>> import almostsure as asure
    >>> policy = asure.solve_policy("corridor", asure.AlmostSure(3)).policy
    >>> episodes = asure.simulate(asure.example("corridor"), policy, 100, seed=0)
    >>> len(episodes), int(episodes.overspent.sum())
    (100, 0)
    """

    returns: Floats  # [episodes], discounted if a discount was given
    damages: npt.NDArray[np.int64]  # [episodes]
    lengths: npt.NDArray[np.int64]  # [episodes]
    truncated: Bools  # [episodes], True where no terminal state was reached
    seed: int
    budget: int | None  # the starting budget
    mdp: MDP
    policy: Policy
    _tables: PlayTables = field(repr=False)
    _rules: PlayRules = field(repr=False)

    def __len__(self) -> int:
        return self.returns.size

    @property
    def overspent(self) -> Bools:
        """A mask of the episodes with more damage than the starting budget, [episodes]."""
        if self.budget is None:
            raise ArgumentError("there is no budget to overspend: simulate with budget=")
        return self.damages > self.budget

    def trajectory(self, episode: int) -> Trajectory:
        """All steps of one episode; it is played again, with the same result."""
        if not 0 <= episode < len(self):
            raise ArgumentError(f"episode must lie in 0 … {len(self) - 1}; got {episode}")
        return replay(self.mdp, self._tables, self._rules, self.seed, int(episode))

    def __repr__(self) -> str:
        cut = int(self.truncated.sum())
        note = f", {cut:,} of them truncated" if cut else ""
        return f"<Episodes: {len(self):,}, return {self.returns.mean():.6g} on average{note}, seed {self.seed}>"

    def __str__(self) -> str:
        count = len(self)
        lines = [
            f"{counted(count, 'episode')} (seed {self.seed})",
            f"return   {_summary(self.returns)}",
            f"damage   {_summary(self.damages)}",
            f"length   {_summary(self.lengths)}",
        ]
        if self.budget is not None:
            lines.append(f"overspent {int(self.overspent.sum()):,} of {count:,} (more than {self.budget})")
        if self.truncated.any():
            lines.append(f"truncated {int(self.truncated.sum()):,} of {count:,}{self._where_cut()}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from almostsure.model.show.html import text_card

        return text_card("Episodes", str(self))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the distribution of the damage, with the budget."""
        from almostsure.plots import axes_for, tidy

        axes, counts = axes_for(ax, 6.0, 3.5), np.bincount(self.damages)
        axes.bar(np.arange(counts.size), counts / len(self), color="#1b6ca8")
        if self.budget is not None:
            axes.axvline(self.budget + 0.5, color="#d1603d", linestyle="--", label=f"budget {self.budget}")
            axes.legend(frameon=False)
        axes.set_xlabel("damage")
        axes.set_ylabel("share of episodes")
        tidy(axes)
        return axes

    def _where_cut(self) -> str:
        """The end of a line: whether truncated episodes were cut by a limit, or came to rest."""
        cut = int((self.truncated & (self.lengths >= self._rules.max_steps)).sum())
        if not cut:
            return ", come to rest"
        if self._rules.max_steps == self._rules.horizon:
            return f", {cut:,} of them after the {counted(self._rules.horizon, 'step')} of the horizon"
        return f", {cut:,} of them after max_steps = {self._rules.max_steps:,}: the policy may never end"


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trajectory:
    """One episode, step by step.  Printing it shows its states and actions by name.

    Examples
    --------
    >>> import almostsure as asure
    >>> policy = asure.solve_policy("paper", asure.AlmostSure(2)).policy
    >>> one = asure.simulate(asure.example("paper"), policy, 1, seed=0).trajectory(0)
    >>> one.actions.tolist(), one.damages.tolist()
    ([0, 0, 1], [1, 1, 0])
    """

    mdp: MDP = field(repr=False)
    states: npt.NDArray[np.int64]  # [steps + 1]
    actions: npt.NDArray[np.int64]  # [steps]
    rewards: Floats  # [steps]
    damages: npt.NDArray[np.int64]  # [steps]

    def history(self, length: int | None = None) -> tuple[Any, ...]:
        """The history (s0, a0, r1, d1, s1, …) of the first ``length`` steps, the argument of history policies."""
        result: list[Any] = [int(self.states[0])]
        for t in range(self.actions.size if length is None else length):
            result += [int(self.actions[t]), float(self.rewards[t]), int(self.damages[t]), int(self.states[t + 1])]
        return tuple(result)

    def __repr__(self) -> str:
        first, last = (self.mdp.state_name(int(self.states[at])) for at in (0, -1))
        return (
            f"<Trajectory: {counted(self.actions.size, 'step')} from {first} to {last}, "
            f"return {self.rewards.sum():.6g}, damage {int(self.damages.sum())}>"
        )

    def __str__(self) -> str:
        steps = [self._step(t) for t in range(min(self.actions.size, MOST_STEPS))]
        more = self.actions.size - len(steps)
        cut = [f"… and {more:,} more steps"] if more else []
        return "\n".join([repr(self)[1:-1], *steps, *cut])

    def _step(self, t: int) -> str:
        before, after = (self.mdp.state_name(int(self.states[at])) for at in (t, t + 1))
        gained = f", reward {self.rewards[t]:.6g}" if self.rewards[t] else ""
        lost = f", damage {self.damages[t]}" if self.damages[t] else ""
        return f"{before}  {self.mdp.action_name(int(self.actions[t]))}  {after}{gained}{lost}"


def replay(mdp: MDP, tables: PlayTables, rules: PlayRules, seed: int, episode: int) -> Trajectory:
    """Play one episode again, step by step."""
    stepper = Stepper(tables, rules, seed, np.array([episode]))
    states, outcomes = [int(stepper.state[0])], []
    while stepper.active.size:
        before = int(stepper.lengths[0])
        stepper.step()
        if stepper.lengths[0] > before:
            outcomes.append(int(stepper.played[0]))
            states.append(int(stepper.state[0]))
    at = np.array(outcomes, np.int64)
    choice = np.searchsorted(tables.outcome_ptr, at, side="right") - 1
    return Trajectory(
        mdp=mdp,
        states=np.array(states, np.int64),
        actions=mdp.choice_action[choice].astype(np.int64),
        rewards=mdp.reward[at],
        damages=mdp.damage[at].astype(np.int64),
    )


def _summary(values: npt.NDArray[Any]) -> str:
    return f"mean {values.mean():.6g}, from {values.min():.6g} to {values.max():.6g}"
