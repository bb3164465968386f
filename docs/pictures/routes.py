"""Draw the best route through the example "hazard-map" for each budget, as routes.svg.

python docs/pictures/routes.py
"""

from pathlib import Path

import almostsure as asure

SIZE, GAP, MARGIN, LEGEND = 30, 2, 12, 150
FLOOR, ROCK, TRAP, INK = "#efe9dc", "#5b5f66", "#67001f", "#1c1c1c"
WATER = {"~": "#abd9e9", "2": "#74add1", "3": "#4575b4"}
LINES = {0: "#1a9850", 1: "#d95f02", 2: "#7b3294", 3: "#e7298a", 4: "#a6761d", 6: "#000000"}  # budget: colour
SPREAD = 3  # pixels between routes that share cells
TARGET = Path(__file__).with_name("routes.svg")


def cell(row: int, column: int, symbol: str) -> str:
    colour = {"#": ROCK, "X": TRAP, **WATER}.get(symbol, FLOOR)
    x, y = column * SIZE, row * SIZE
    box = f'<rect x="{x}" y="{y}" width="{SIZE - GAP}" height="{SIZE - GAP}" rx="4" fill="{colour}"/>'
    if symbol in ".#":
        return box
    ink = "#ffffff" if symbol in "X3" else INK
    text = {"~": "1"}.get(symbol, symbol)
    return f'{box}<text x="{x + 14}" y="{y + 19}" fill="{ink}">{text}</text>'


def route(mdp: asure.MDP, policy: asure.Policy, budget: int) -> list[int]:
    """The states visited if nothing slips: after each step comes its most likely outcome."""
    states, remaining = [mdp.initial_state], budget
    while not mdp.is_terminal()[states[-1]]:
        outcomes = mdp.outcomes(states[-1], policy.act(states[-1], remaining))
        likely = max(outcomes, key=lambda outcome: outcome.probability)
        states.append(likely.next_state)
        remaining -= likely.damage
    return states


def line(mdp: asure.MDP, states: list[int], colour: str, shift: float) -> str:
    places = [mdp.layout.place(state) for state in states]
    points = " ".join(f"{c * SIZE + 14 + shift:g},{r * SIZE + 14 + shift:g}" for r, c in places)
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5" stroke-linejoin="round"/>'


def legend(row: int, budget: int, value: float, colour: str, left: int) -> str:
    y = 40 + 26 * row
    return (
        f'<line x1="{left}" y1="{y}" x2="{left + 24}" y2="{y}" stroke="{colour}" stroke-width="3"/>'
        f'<text x="{left + 32}" y="{y + 5}" text-anchor="start" fill="{INK}">Δ = {budget}: return {value:.1f}</text>'
    )


def picture() -> str:
    mdp = asure.example("hazard-map")
    solution = asure.solve_policy(mdp, asure.AlmostSure(max(LINES)))
    rows, columns = mdp.layout.rows * SIZE - GAP, mdp.layout.columns * SIZE - GAP
    parts = [cell(r, c, symbol) for r, text in enumerate(mdp.layout.text) for c, symbol in enumerate(text)]
    for i, (budget, colour) in enumerate(LINES.items()):
        shift = SPREAD * (i - (len(LINES) - 1) / 2)
        parts.append(line(mdp, route(mdp, solution.policy, budget), colour, shift))
        parts.append(legend(i, budget, solution.curve[budget], colour, columns + 20))
    whole = f'width="{columns + LEGEND + 2 * MARGIN + 30}" height="{rows + 2 * MARGIN}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {whole} font-family="sans-serif" font-size="14" '
        'text-anchor="middle" role="img" aria-label="A map with two rivers, and the best route for each budget">\n'
        f'<rect {whole} rx="8" fill="#ffffff"/>\n<g transform="translate({MARGIN} {MARGIN})">\n'
        + "\n".join(parts)
        + "\n</g>\n</svg>\n"
    )


if __name__ == "__main__":
    TARGET.write_text(picture(), "utf-8")
