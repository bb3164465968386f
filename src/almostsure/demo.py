"""``make demo``: what the package does, in the terminal, on two of its examples.

Needs the core dependencies only, and no compiler: the first picture appears at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from almostsure.budget.answer import INFINITE
from almostsure.budget.result import Budget
from almostsure.budget.solve import solve_budget
from almostsure.model.draw import cells, show
from almostsure.model.examples import example
from almostsure.model.mdp import MDP, Floats
from almostsure.policy.constraints import AlmostSure
from almostsure.policy.policy import Policy
from almostsure.policy.solve import solve_policy

SHADES = (28, 106, 142, 178, 172, 166, 160, 124)  # green to red, of the terminal's 256 colours
ROCK, TRAP, WATER, WAY, NOTHING = 240, 52, 25, 28, -1
HURTS = "~123456789"
ROUTES = (0, 3, 6)  # the budgets whose routes are drawn
LONGEST = 60  # steps of a route
BAR = 30

Paint = Callable[[str, int], str]
Look = Callable[[int, str], tuple[str, int]]  # state (−1 where there is none) and map character → symbol and colour


def main() -> None:
    """Show what the cells of a map need, and what a larger budget buys."""
    paint = _painter()
    show_budgets(paint)
    show_routes(paint)
    print("Next: try the lines of README.md, run `make test`, or read the documentation with `make docs`.")


def show_budgets(paint: Paint) -> None:
    """How much damage each cell of a map must be able to afford."""
    mdp = example("quicksand")
    print(
        "A robot on slippery ground: S start, G goal, # rock, ~ water (damage 1), < > ^ v one-way slopes, and X\n"
        "quicksand, which nobody leaves. A step drifts to the left or right with probability 0.1 each.\n"
    )
    _print_maps([_picture(mdp, _terrain, paint)])
    budget = solve_budget(mdp)
    print("The budget that each cell needs, if the damage must never exceed it (∞: no budget is enough):\n")
    _print_maps([_picture(mdp, _needs(budget), paint)])
    print(f"From the start, {budget.smallest_total()} is the smallest budget that can be kept with probability one.")
    print("How the safe part of the map grows with the budget Δ:\n")
    print(_growth(budget))


def show_routes(paint: Paint) -> None:
    """The best return for every budget, and the routes that earn it."""
    mdp = example("hazard-map")
    solution = solve_policy(mdp, AlmostSure(ROUTES[-1]))
    print(
        "Two rivers on the way to the goal, which is worth 50; a step costs 1. The best routes if the damage must\n"
        "never exceed Δ:\n"
    )
    print("  " + "".join(f" {f'Δ = {total}':<26}" for total in ROUTES).rstrip())
    _print_maps([_picture(mdp, _route(mdp, solution.policy, total), paint, cell=" {}") for total in ROUTES])
    print("The best expected return for each budget:\n")
    print(_returns(solution.curve))


def _painter() -> Paint:
    """A function that colours text on a terminal, and leaves it alone in a pipe."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"

    def paint(text: str, background: int) -> str:
        return text if plain or background == NOTHING else f"\x1b[97;48;5;{background}m{text}\x1b[0m"

    return paint


# ---------------------------------------------------------------------- pictures


def _print_maps(pictures: list[list[str]]) -> None:
    for lines in zip(*pictures, strict=True):
        print("  " + "   ".join(lines).rstrip())
    print()


def _picture(mdp: MDP, look: Look, paint: Paint, *, cell: str = " {} ") -> list[str]:
    looks = [[look(state, symbol) for state, symbol in row] for row in cells(mdp)]
    return ["".join(paint(cell.format(symbol), colour) for symbol, colour in row) for row in looks]


def _terrain(state: int, symbol: str) -> tuple[str, int]:
    if state < 0:
        return symbol, ROCK
    return symbol, TRAP if symbol == "X" else WATER if symbol in HURTS else NOTHING


def _needs(budget: Budget) -> Look:
    def look(state: int, symbol: str) -> tuple[str, int]:
        if state < 0:
            return symbol, ROCK
        needed = int(budget.of_state[state])
        return show(needed), TRAP if needed == INFINITE else SHADES[min(needed, len(SHADES) - 1)]

    return look


def _route(mdp: MDP, policy: Policy, total: int) -> Look:
    """The states that are visited if nothing slips: after each step comes its most likely outcome."""
    visited, state, remaining = set[int](), mdp.initial_state, total
    for _ in range(LONGEST):
        outcomes = mdp.outcomes(state, policy.act(state, remaining))
        likely = max(outcomes, key=lambda outcome: outcome.probability)
        if likely.next_state == state:
            break
        visited.add(likely.next_state)
        state, remaining = likely.next_state, remaining - likely.damage

    def look(state: int, symbol: str) -> tuple[str, int]:
        return ("•", WAY) if state in visited and symbol != "G" else _terrain(state, symbol)

    return look


# ---------------------------------------------------------------------- tables


def _growth(budget: Budget) -> str:
    counts, safe, lines = budget.histogram(), 0, ["      Δ   safe cells"]
    for total in sorted(counts.keys() - {INFINITE}):
        safe += counts[total]
        share = safe / budget.of_state.size
        lines.append(f"    {total:>3}   {safe:>4} of {budget.of_state.size}   {'█' * round(BAR * share)}")
    return "\n".join(lines) + "\n"


def _returns(curve: Floats) -> str:
    lines, best = ["      Δ   return"], float(curve[-1])
    for total, value in enumerate(curve.tolist()):
        lines.append(f"    {total:>3}   {value:>6.2f}   {'█' * round(BAR * value / best)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
