"""The data of a page, as one dictionary that becomes JSON."""

from __future__ import annotations

import base64
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np

from almostsure.budget.minimal import INFINITE
from almostsure.errors import ArgumentError
from almostsure.exports import package_version
from almostsure.plan.tradeoff.frontiers import Frontier
from almostsure.report.episodes import distributions, recorded, visited_states
from almostsure.report.frames import PNG, Album
from almostsure.report.states import cut, described_states, highest, shown_layers, state_data
from almostsure.report.study import Plan, Study
from almostsure.report.views import view_data
from almostsure.report.words import facts, has_rewards, headline, sentence, sentences

MOST_ACTIONS = 1_000  # with names
MOST_STARTS = 20
MOST_POINTS = 400  # of the curve
MOST_LEVELS = 40  # bars of the histogram of minimal budgets

Figure = tuple[str, bytes, str]  # title, PNG, caption


def content(study: Study, *, name: str, command: str, album: Album, figures: Sequence[Figure]) -> dict[str, Any]:
    """The data of a report."""
    mdp = study.mdp
    records = recorded(study, album)
    described = described_states(study, visited_states(records))
    layers = shown_layers(study)
    return {
        "name": cut(name),
        "headline": headline(study),
        "sentences": sentences(study),
        "facts": facts(study),
        "safe": study.least <= study.budget,
        "rewarded": has_rewards(mdp),
        "discount": study.discount,
        "budget": study.budget,
        "least": None if study.least == INFINITE else study.least,
        "layers": layers,
        "solved": study.by_budget.solved,
        "safeStates": [int((study.minimal.of_state <= layer).sum()) for layer in layers],
        "curve": _curve(study, layers),
        "model": _model(study),
        "levels": _levels(study),
        "view": view_data(study, described),
        "states": state_data(study, described, layers),
        "plans": [_plan(plan, study.budget) for plan in study.plans],
        "frontier": _frontier(study.frontier),
        "distributions": distributions(study),
        "episodes": records,
        "pictures": album.pictures,
        "notes": [*study.notes, *_left_out(study, int(described.size)), *filter(None, [album.note])],
        "proof": _proof(study, command),
        "figures": [_figure(*figure) for figure in figures],
    }


def _curve(study: Study, layers: list[int]) -> list[list[Any]]:
    """Budgets and their best returns: of all solved budgets, or of those on the slider."""
    curve = study.by_budget.curve
    budgets = range(curve.size) if curve.size <= MOST_POINTS else [k for k in layers if k < curve.size]
    return [[k, curve[k]] for k in budgets]


def _model(study: Study) -> dict[str, Any]:
    mdp = study.mdp
    starts = zip(mdp.initial_states[:MOST_STARTS].tolist(), mdp.initial_probabilities.tolist(), strict=False)
    return {
        "states": mdp.num_states,
        "choices": mdp.num_choices,
        "outcomes": mdp.num_outcomes,
        "maxDamage": mdp.max_damage,
        "learned": mdp.origin.learned,
        "atMost": study.minimal.at_most(""),
        "ifPositive": mdp.origin.if_positive,
        "hasUnknown": mdp.unknown is not None,
        "starts": [list(start) for start in starts],
        "numStarts": int(mdp.initial_states.size),
        "actions": None
        if mdp.action_names is None
        else [cut(mdp.action_name(a)) for a in range(min(mdp.num_actions, MOST_ACTIONS))],
    }


def _levels(study: Study) -> dict[str, Any]:
    """The histogram of minimal budgets; if there are very many, with ranges of them."""
    counts = study.minimal.histogram()
    infinite = counts.pop(INFINITE, 0)
    needs, states = np.array(list(counts), np.int64), np.array(list(counts.values()), np.int64)
    width = int(needs.max() // MOST_LEVELS + 1) if needs.size > MOST_LEVELS else 1
    _, first = np.unique(needs // width, return_index=True)  # needs ascend, so a range ends where the next begins
    last = np.append(first[1:], needs.size) - 1
    return {
        "need": needs[first].tolist(),
        "last": needs[last[: first.size]].tolist(),
        "count": (np.add.reduceat(states, first) if needs.size else states).tolist(),
        "infinite": infinite,
    }


def _plan(plan: Plan, budget: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "kind": plan.kind,
        "constraint": str(plan.constraint),
        "limit": getattr(plan.constraint, "limit", None),
        "risk": getattr(plan.constraint, "risk", None),
        "value": plan.value,
        "played": None if plan.evaluation is None else plan.evaluation.expected_return,
        "problem": sentence(plan.problem),
        "randomised": plan.policy is not None and not plan.policy.is_deterministic,
        "stationary": plan.policy is not None and plan.policy.is_stationary,
        "exact": plan.evaluation is not None,
    }
    if plan.evaluation is not None:
        possible = np.flatnonzero(plan.evaluation.damage_distribution > 0)
        unlisted = plan.evaluation.beyond > 0 or plan.evaluation.endless > 0
        result |= {
            "meanDamage": plan.evaluation.expected_damage,
            "overspends": plan.evaluation.exceeds(budget),
            "worst": int(possible.max()) if possible.size and not unlisted else None,
            "ends": plan.evaluation.ends,
        }
    elif plan.episodes is not None:
        result |= {
            "meanDamage": plan.episodes.damages.mean(),
            "overspends": 0.0 if plan.kind == "assured" else plan.episodes.overspent.mean(),
            "worst": int(plan.episodes.damages.max()),
            "ends": 1 - plan.episodes.truncated.mean(),
        }
    return result


def _frontier(found: Frontier | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {name: getattr(found, name) for name in ("budgets", "assured", "limits", "expected", "risks", "chance")}


def _left_out(study: Study, described: int) -> list[str]:
    size, budgets = study.mdp.num_states, highest(study) + 1
    result = []
    if described < size:
        result.append(
            f"Details of most states: this file has those of {described:,} of {size:,} states (initial states, "
            "examples of every minimal budget, the states of recorded episodes, and the states of their witnesses)."
        )
    if len(shown_layers(study)) < budgets:
        result.append(f"Some budgets of the slider: there are {budgets:,}.")
    if study.frontier is None and study.plans[0].policy is not None and described == size:
        result.append("Returns for all limits on the average and on the risk: use frontier.")
    return result


def _proof(study: Study, command: str) -> dict[str, Any]:
    return {
        "broken": study.broken,
        "engine": study.minimal.engine,
        "cap": study.minimal.cap,
        "version": package_version(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "fingerprint": study.mdp.fingerprint,
        "seed": str(study.seed),  # up to 2⁶⁴ − 1, which JavaScript's numbers cannot represent
        "command": command,
    }


def _figure(title: str, png: bytes, caption: str) -> dict[str, str]:
    if not isinstance(png, bytes) or not png.startswith(PNG):
        raise ArgumentError(f"the figure {title!r} must be the bytes of a PNG file; got {type(png).__name__}")
    return {"title": title, "png": base64.b64encode(png).decode("ascii"), "caption": caption}
