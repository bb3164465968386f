"""The text of a suggestion: a small table with bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from almostsure.plan.tradeoff.curve import no_sure_end
from almostsure.wording import number

if TYPE_CHECKING:
    from almostsure.plan.tradeoff.suggest import Suggestion

WIDTH = 24  # of the longest bar
ROWS = 16  # at most
EIGHTHS = "▏▎▍▌▋▊▉█"
SEEN = 1e-4  # a gain below this share of the whole gain has no row
ROUNDING = 1e-9  # smaller differences, relative to the largest return if above 1, are no gain


def text(suggestion: Suggestion) -> str:
    """A header, one row per budget that adds something, and what to do next."""
    learned = [f"of the model: {suggestion.mdp.origin.learned}"] if suggestion.mdp.origin.learned else []
    adding = _adding(suggestion)
    shown = _some(adding, suggestion.budget)
    lines = [
        f"at least {suggestion.least}, and {pays(suggestion)}",
        *_table(suggestion, shown),
        *_left_out(suggestion, adding, shown),
    ]
    lines += [*_remarks(suggestion), *learned]
    lines.append(f"next: solve_policy(mdp, AlmostSure({suggestion.budget}))")
    return "\n  ".join(lines)


def pays(suggestion: Suggestion) -> str:
    """Whether more budget pays, in words."""
    until = suggestion.pays_until
    if until is None:
        return "more always pays" if suggestion.limit == math.inf else "more still pays"
    if suggestion.curve[until] == math.inf:
        return f"from {until} on the return has no bound"
    return f"more than {until} {'adds nothing' if until == suggestion.least else 'hardly pays'}"


def _remarks(suggestion: Suggestion) -> list[str]:
    unsure = list(filter(None, [no_sure_end(suggestion.curve, suggestion.least)]))
    if suggestion.limit < math.inf:
        return [*unsure, f"no budget returns more than {_number(suggestion.limit)}"]
    if suggestion.pays_until is None:
        return [*unsure, "with enough budget the return exceeds any number"]
    return [*unsure, "from there on reward is collected for ever, without damage: use a discount, or end the episode"]


def _left_out(suggestion: Suggestion, adding: list[int], shown: list[int]) -> list[str]:
    """A line about budgets that the table does not show, if any."""
    if len(shown) < len(adding):
        return [f"{len(shown)} of the {len(adding):,} budgets that add something are shown; .curve has all"]
    between = np.setdiff1d(np.arange(shown[0], shown[-1]), shown)
    if not between.size:
        return []
    endless = (suggestion.curve[between] == -math.inf).all()
    return [f"the budgets in between {'return −∞ too' if endless else 'add next to nothing'}; .curve has all"]


def _table(suggestion: Suggestion, budgets: list[int]) -> list[str]:
    values = suggestion.curve[budgets]
    gains = ["", *(_gain(before, now) for before, now in pairwise(values))]
    cells = [("budget", "best return", "gain")]
    cells += [(str(k), _number(v), gain) for k, v, gain in zip(budgets, values, gains, strict=True)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    bars = ["", *("" if share is None else _bar(share) for share in shares(suggestion, budgets))]
    return [
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{max(widths[2], 6)}}  {bar}".rstrip()
        for row, bar in zip(cells, bars, strict=True)
    ]


def _adding(suggestion: Suggestion) -> list[int]:
    """The least budget, those that add something to the one before, and ``pays_until``."""
    curve, least = suggestion.curve, suggestion.least
    finite = curve[np.isfinite(curve)]
    gained = float(finite.max() - finite.min()) if finite.size else 0.0
    seen = max(SEEN * gained, _rounding(finite))
    budgets = [least]
    for budget in range(least + 1, len(curve)):
        if curve[budget] > curve[budgets[-1]] + seen or (budget == suggestion.pays_until != budgets[-1]):
            budgets.append(budget)
    return budgets


def _some(budgets: list[int], suggested: int) -> list[int]:
    """At most ``ROWS`` of the budgets, with the first, the last and the suggested one among them."""
    if len(budgets) <= ROWS:
        return budgets
    kept = {budgets[0], budgets[-1], suggested}
    return sorted(kept | {budgets[int(at)] for at in np.linspace(0, len(budgets) - 1, ROWS - len(kept))})


def shares(suggestion: Suggestion, budgets: Sequence[int]) -> list[float | None]:
    """The lengths of the bars: each return's position between the least return and the limit (or the largest return).

    The scale is that of the whole curve, whichever budgets are shown.  None where the return is −∞; if there is such a
    budget, the least finite return is at one half, or at 1 if all finite returns are equal.
    """
    curve = suggestion.curve[suggestion.least :]
    values, finite = suggestion.curve[list(budgets)], curve[np.isfinite(curve)]
    low = float(finite.min()) if finite.size else 0.0
    high = suggestion.limit if math.isfinite(suggestion.limit) else float(finite.max()) if finite.size else 0.0
    if high - low <= _rounding(finite):
        return [1.0 if value > -math.inf else None for value in values]
    if curve.min() == -math.inf:
        low -= high - low
    return [float(np.clip((v - low) / (high - low), 0.0, 1.0)) if v > -math.inf else None for v in values]


def _bar(share: float) -> str:
    eighths = max(1, round(share * WIDTH * 8))
    full, rest = divmod(eighths, 8)
    return EIGHTHS[-1] * full + (EIGHTHS[rest - 1] if rest else "")


def _number(value: float) -> str:
    return "no bound" if value == math.inf else number(value)


def _gain(before: float, now: float) -> str:
    if before == -math.inf < now < math.inf:
        return "+∞"
    gain = now - before
    return f"+{gain:.3g}" if math.isfinite(gain) and gain > _rounding(np.array([now])) else ""


def _rounding(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The difference below which returns of this size count as equal."""
    return ROUNDING * max(1.0, float(np.abs(values).max(initial=0.0)))
