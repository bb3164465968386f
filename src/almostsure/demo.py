"""``make demo``: what the package does, in the terminal, on two of its examples.

Needs the core dependencies only, and no compiler: the first picture appears at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import numpy as np

from almostsure.budget.answer import INFINITE
from almostsure.budget.result import Budget
from almostsure.budget.solve import solve_budget
from almostsure.model.examples import example
from almostsure.model.mdp import MDP

SHADES = (28, 106, 142, 178, 172, 166, 160, 124)  # green to red, of the terminal's 256 colours
ROCK, TRAP, WATER, NOTHING = 240, 52, 25, -1
BAR = 30

Paint = Callable[[str, int], str]
Look = Callable[[int, str], tuple[str, int]]  # state (−1 where there is none) and map character → symbol and colour


def main() -> None:
    """Show what the cells of a map need, and what a larger budget buys."""
    paint = _painter()
    mdp = example("quicksand")
    print(
        "A robot on slippery ground: S start, G goal, # rock, ~ water (damage 1), < > ^ v one-way slopes, and X\n"
        "quicksand, which nobody leaves. A step drifts to the left or right with probability 0.1 each.\n"
    )
    print(_picture(mdp, _terrain, paint))
    budget = solve_budget(mdp)
    print("The budget that each cell needs, if the damage must never exceed it (∞: no budget is enough):\n")
    print(_picture(mdp, _needs(budget), paint))
    print(f"From the start, {budget.smallest_total()} is the smallest budget that can be kept with probability one.")
    print("How the safe part of the map grows with the budget Δ:\n")
    print(_growth(budget))
    print("Next: try the lines of README.md, run `make test`, or read the documentation with `make docs`.")


def _painter() -> Paint:
    """A function that colours text on a terminal, and leaves it alone in a pipe."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"

    def paint(text: str, background: int) -> str:
        return text if plain or background == NOTHING else f"\x1b[97;48;5;{background}m{text}\x1b[0m"

    return paint


# ---------------------------------------------------------------------- pictures


def _picture(mdp: MDP, look: Look, paint: Paint) -> str:
    layout = mdp.layout
    assert layout is not None  # maps have one
    state_at = np.full(layout.rows * layout.columns, -1)
    state_at[layout.cell] = np.arange(mdp.num_states)
    lines = []
    for row, text in enumerate(layout.text):
        cells = (look(int(state_at[row * layout.columns + column]), symbol) for column, symbol in enumerate(text))
        lines.append("    " + "".join(paint(f" {symbol} ", colour) for symbol, colour in cells).rstrip())
    return "\n".join(lines) + "\n"


def _terrain(state: int, symbol: str) -> tuple[str, int]:
    if state < 0:
        return symbol, ROCK
    return symbol, TRAP if symbol == "X" else WATER if symbol in "~123456789" else NOTHING


def _needs(budget: Budget) -> Look:
    def look(state: int, symbol: str) -> tuple[str, int]:
        if state < 0:
            return symbol, ROCK
        needed = int(budget.of_state[state])
        return ("∞", TRAP) if needed == INFINITE else (str(needed), SHADES[min(needed, len(SHADES) - 1)])

    return look


def _growth(budget: Budget) -> str:
    counts, safe, lines = budget.histogram(), 0, ["      Δ   safe cells"]
    for total in sorted(counts.keys() - {INFINITE}):
        safe += counts[total]
        share = safe / budget.of_state.size
        lines.append(f"    {total:>3}   {safe:>4} of {budget.of_state.size}   {'█' * round(BAR * share)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
