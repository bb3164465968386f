"""The HTML that notebooks show for models and results: small cards, readable on light and dark pages.

All text from a model (names, map characters) is escaped, so that it cannot run as code.  Text has the page's colour;
only cells of maps have their own colours, with contrasting text.  Large content is shortened, with a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from almostsure.errors import ModelError
from almostsure.model.arrays import Ints
from almostsure.model.show.describe import facts as model_facts
from almostsure.model.show.draw import NO_BUDGET, NO_STATE, cells, show

if TYPE_CHECKING:
    from almostsure.model.mdp import MDP

CELL = 22  # pixels
MOST_CELLS = 1_500  # a larger map is not drawn
MOST_OUTCOMES = 1_000_000  # of a larger model only the sizes are shown, to be fast
MOST_LEVELS = 12
LONGEST = 60  # characters of a name
ROCK, FLOOR, HAZARD, MARK = "#6b6f76", "#efe9dc", "#abd9e9", "#f6e58d"
# Light to dark, safe for the colour-blind.
SHADES = ("#ffffd9", "#edf8b1", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8")
DARK_FROM = 5  # of the shades: white ink
NEVER = "#4a1530"
INK, PAPER = "#1c1c1c", "#ffffff"
LINE = "1px solid rgba(128,128,128,.45)"


def card(title: str, facts: Iterable[tuple[str, str]], *parts: str) -> str:
    """A card with a title, a table of facts, and parts that are HTML."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left;font-weight:600;padding:1px 12px 1px 0">{clean(name)}</th>'
        f'<td style="text-align:left;padding:1px 0">{clean(value, 200)}</td></tr>'
        for name, value in facts
    )
    body = f'<table style="border:none;margin:4px 0">{rows}</table>' if rows else ""
    return (
        f'<div class="almostsure" style="font-family:system-ui,sans-serif;font-size:13px;border-left:3px solid #1d91c0;'
        f'padding-left:10px;margin:4px 0"><div style="font-weight:700">{clean(title)}</div>{body}{"".join(parts)}</div>'
    )


def text_card(title: str, text: str) -> str:
    """A card with printed text in a fixed-width font."""
    return card(title, (), f'<pre style="margin:4px 0;font-size:12px;background:none">{escape(text)}</pre>')


def table(head: Sequence[str], rows: Iterable[Sequence[str]], more: str = "") -> str:
    """A table with a header; ``more`` is a note below it, which is not shortened."""
    cell = f"text-align:left;padding:2px 10px 2px 0;border-bottom:{LINE}"
    top = "".join(f'<th scope="col" style="{cell}">{clean(text)}</th>' for text in head)
    body = "".join("<tr>" + "".join(f'<td style="{cell}">{clean(text)}</td>' for text in row) + "</tr>" for row in rows)
    note = f"<div>{escape(more)}</div>" if more else ""
    content = f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
    return f'<table style="border-collapse:collapse;margin:6px 0">{content}</table>{note}'


def levels_table(title: str, counts: Mapping[int, int]) -> str:
    """A table of the counts per budget, ascending; if there are many, the first ones and the last."""
    levels = list(counts)
    shown = levels if len(levels) <= MOST_LEVELS else [*levels[: MOST_LEVELS - 1], levels[-1]]
    note = "" if len(shown) == len(levels) else f"… {len(levels):,} levels in all"
    return table([title, *map(show, shown)], [["how many", *(f"{counts[level]:,}" for level in shown)]], note)


def clean(text: str, longest: int = LONGEST) -> str:
    """Text with HTML escaped, shortened to ``longest`` characters."""
    return escape(text if len(text) <= longest else text[: longest - 1] + "…")


# ---------------------------------------------------------------------- maps


def budget_map(mdp: MDP, budgets: Ints) -> str:
    """The map with the minimal budget of each state, from light (0) to dark (∞); empty without a small map."""
    levels = np.unique(budgets[budgets < NO_BUDGET]).tolist()
    step = (len(SHADES) - 1) / max(len(levels) - 1, 1)
    shade = {level: int(at * step) for at, level in enumerate(levels)}

    def look(state: int) -> tuple[str, str, str]:
        need = int(budgets[state])
        if need == NO_BUDGET:
            return "∞", NEVER, PAPER
        return str(need), SHADES[shade[need]], PAPER if shade[need] >= DARK_FROM else INK

    return _map(mdp, [look(s) for s in range(mdp.num_states)] if _is_small(mdp) else [], "needs", "minimal budgets")


def text_map(mdp: MDP, texts: Sequence[str], label: str) -> str:
    """The map with a short text in each cell; empty without a small map."""
    return _map(mdp, [(text, FLOOR, INK) for text in texts], "", label)


def _is_small(mdp: MDP) -> bool:
    return mdp.layout is not None and mdp.layout.rows * mdp.layout.columns <= MOST_CELLS


def _map(mdp: MDP, looks: Sequence[tuple[str, str, str]], verb: str, label: str) -> str:
    """The map as SVG; ``looks`` are text, fill and ink of each state, or empty to show the map's characters."""
    if not _is_small(mdp):
        return ""
    try:
        rows = cells(mdp)
    except ModelError:  # several states share a cell
        return ""
    parts = []
    for y, row in enumerate(rows):
        for x, (state, character) in enumerate(row):
            text, fill, ink = _terrain(character) if state == NO_STATE or not looks else looks[state]
            name = "" if state == NO_STATE else mdp.state_name(state)
            tip = f"{name} {verb} {text}" if name and looks else name
            parts.append(_cell(x, y, text, fill, ink, tip))
    width, height = len(rows[0]) * CELL, len(rows) * CELL
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'style="max-width:100%;height:auto" role="img" aria-label="{clean(label)}" font-size="11" '
        f'text-anchor="middle" font-family="system-ui,sans-serif">{"".join(parts)}</svg>'
    )


def _cell(x: int, y: int, text: str, fill: str, ink: str, tip: str) -> str:
    title = f"<title>{clean(tip)}</title>" if tip else ""
    size = f'width="{CELL - 1}" height="{CELL - 1}" rx="3"'
    box = f'<rect x="{x * CELL}" y="{y * CELL}" {size} fill="{fill}">{title}</rect>'
    if not text.strip(" .#"):
        return box
    middle = f'x="{x * CELL + CELL // 2}" y="{y * CELL + 15}"'
    return f'{box}<text {middle} fill="{ink}" pointer-events="none">{clean(text, 3)}</text>'


def _terrain(character: str) -> tuple[str, str, str]:
    if character == "#":
        return "", ROCK, PAPER
    if character in "~123456789":
        return character, HAZARD, INK
    return (character, NEVER, PAPER) if character == "X" else (character, FLOOR if character in ". " else MARK, INK)


# ---------------------------------------------------------------------- the model itself


def model_card(mdp: MDP) -> str:
    """The facts of :func:`almostsure.MDP.summary`, and the map if it is small."""
    known = [("size", repr(mdp)[6:-1]), *(model_facts(mdp) if mdp.num_outcomes <= MOST_OUTCOMES else ())]
    return card("MDP", known, _map(mdp, (), "", "the model's map"))
