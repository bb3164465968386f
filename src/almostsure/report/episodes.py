"""The recorded episodes, and the distributions of damage and return."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from almostsure.model.mdp import Floats
from almostsure.policy.simulation.episodes import Episodes
from almostsure.report.frames import Album
from almostsure.report.packing import pack
from almostsure.report.study import Plan, Study

LONGEST = 1_000  # recorded steps of an episode
MOST_BARS = 40  # of a distribution
RETURN_BINS = 30
TAIL = 2e-3  # largest probability of damage beyond the bars, if there are enough of them


def recorded(study: Study, album: Album) -> list[dict[str, Any]]:
    """For each plan a typical episode, the one with the most damage and the one with the lowest return."""
    return [
        _record(plan.kind, plan.episodes, episode, title, album)
        for plan in study.plans
        if plan.episodes is not None and plan.episodes.lengths.any()
        for episode, title in _selected(plan.episodes).items()
    ]


def visited_states(records: list[dict[str, Any]]) -> list[int]:
    """The distinct states of the recorded episodes."""
    return list(dict.fromkeys(state for record in records for state in record["states"]))


def _selected(episodes: Episodes) -> dict[int, str]:
    """The episodes to record, with their titles; an episode that is selected twice has the first title."""
    least = {
        "typical run": np.abs(episodes.returns - np.median(episodes.returns)),
        "most damage": -episodes.damages,
        "lowest return": episodes.returns,
    }
    result: dict[int, str] = {}
    for title, values in least.items():  # of equal ones the shortest
        result.setdefault(int(np.lexsort((episodes.lengths, values))[0]), title)
    return result


def _record(kind: str, episodes: Episodes, episode: int, title: str, album: Album) -> dict[str, Any]:
    path = episodes.trajectory(episode)
    states = path.states[: LONGEST + 1].tolist()
    frames = album.frames(path, LONGEST)
    return {
        "kind": kind,
        "title": title,
        "number": episode,
        "states": states,
        "actions": pack(path.actions[:LONGEST]),
        "rewards": pack(path.rewards[:LONGEST]),
        "damages": pack(path.damages[:LONGEST]),
        "frames": None if frames is None else pack(frames),
        "steps": path.actions.size,
        "sum": {"return": episodes.returns[episode], "damage": path.damages.sum()},
        "ended": not episodes.truncated[episode],
    }


# ---------------------------------------------------------------------- distributions


def distributions(study: Study) -> dict[str, Any]:
    """For each plan the probability of each damage, and the fraction of episodes in each bin of returns."""
    damages = [_damage_distribution(plan) for plan in study.plans]
    starts = _damage_bins([damage for damage in damages if damage is not None], study.budget)
    edges = _return_bins([plan.episodes.returns for plan in study.plans if plan.episodes is not None])
    plans = [
        {"kind": plan.kind, "damage": _damage_bars(plan, damage, starts), "return": _return_bars(plan.episodes, edges)}
        for plan, damage in zip(study.plans, damages, strict=True)
    ]
    return {"starts": starts[:-1], "edges": edges, "plans": plans}


def _damage_distribution(plan: Plan) -> tuple[Floats, float] | None:
    """The probability of each damage, and of larger damages than the last one."""
    if plan.evaluation is not None:
        return plan.evaluation.damage_distribution, plan.evaluation.beyond
    if plan.episodes is not None:
        return np.bincount(plan.episodes.damages) / len(plan.episodes), 0.0
    return None


def _damage_bins(damages: list[tuple[Floats, float]], budget: int) -> list[int]:
    """The first damage of each bar, and the end of the last bar.

    The bars are those of all plans, leave out a small tail, and have an edge after the budget.
    """
    size = min(budget + 2, MOST_BARS)
    for probability, beyond in damages:
        tail = np.append(probability[::-1].cumsum()[::-1], 0.0) + beyond
        size = max(size, int(np.argmax(tail <= TAIL)) if (tail <= TAIL).any() else probability.size)
    width = math.ceil(size / MOST_BARS)
    inner = range((budget + 1) % width or width, size, width)
    return [0, *inner, max(size, inner[-1] + width if inner else 1)]


def _damage_bars(plan: Plan, damage: tuple[Floats, float] | None, starts: list[int]) -> dict[str, Any] | None:
    if damage is None:
        return None
    probability, beyond = damage
    shown = np.zeros(starts[-1])
    shown[: probability.size] = probability[: shown.size]
    return {
        "probability": pack(np.maximum(np.add.reduceat(shown, starts[:-1]), 0.0)),
        "beyond": max(0.0, probability[shown.size :].sum() + beyond),
        "exact": plan.evaluation is not None,
        "episodes": 0 if plan.episodes is None else len(plan.episodes),
    }


def _return_bars(episodes: Episodes | None, edges: Floats) -> dict[str, Any] | None:
    if episodes is None:
        return None
    count = np.histogram(np.clip(episodes.returns, edges[0], edges[-1]), edges)[0]
    return {
        "share": count / len(episodes),
        "episodes": len(episodes),
        "mean": episodes.returns.mean(),
        "cut": episodes.truncated.mean(),
        "longest": episodes.lengths.max(),
    }


def _return_bins(samples: list[Floats]) -> Floats:
    """The edges of the bins, for all plans; one bin per integer if all returns are integers and there are few."""
    values = np.concatenate([s[np.isfinite(s)] for s in samples]) if samples else np.zeros(0)
    if not values.size:
        return np.array([-0.5, 0.5])
    low, high = float(values.min()), float(values.max())
    if high == low:  # one bar, with empty bins on both sides
        return low + np.array([-1.5, -0.5, 0.5, 1.5])
    if high - low < MOST_BARS and (values == np.round(values)).all():
        return np.arange(math.floor(low), math.ceil(high) + 2, dtype=np.float64) - 0.5
    return np.linspace(low, high, RETURN_BINS + 1).astype(np.float64)
