"""Draw the hazard map with the budget of every cell, as docs/pictures/hazard-map.svg.

    python docs/pictures/hazard_map.py
"""

from pathlib import Path

import almostsure as asure

SIZE = 34
SHADES = ("#1a9850", "#91cf60", "#d9ef8b", "#fee08b", "#fc8d59", "#e34a33", "#b30000")
TARGET = Path(__file__).with_name("hazard-map.svg")


def cell(row: int, column: int, colour: str, text: str, weight: str = "normal", ink: str = "#1c1c1c") -> str:
    x, y = column * SIZE, row * SIZE
    box = f'<rect x="{x}" y="{y}" width="{SIZE - 2}" height="{SIZE - 2}" rx="4" fill="{colour}"/>'
    middle = f'x="{x + SIZE // 2 - 1}" y="{y + SIZE // 2 + 5}"'
    label = f'<text {middle} fill="{ink}" font-weight="{weight}">{text}</text>' if text else ""
    return box + label


def draw(mdp: asure.MDP, budget: asure.Budget) -> str:
    layout = mdp.layout
    state_at = {layout.place(state): state for state in range(mdp.num_states)}
    parts = []
    for row, line in enumerate(layout.text):
        for column, symbol in enumerate(line):
            state = state_at.get((row, column))
            if state is None:
                parts.append(cell(row, column, "#5b5f66", ""))
                continue
            needed = int(budget.of_state[state])
            if needed == asure.INFINITE:
                parts.append(cell(row, column, "#3b0a0a", "∞", ink="#ffffff"))
                continue
            text = symbol if symbol in "SG" else str(needed)
            parts.append(cell(row, column, SHADES[min(needed, len(SHADES) - 1)], text, "bold" if symbol in "SG" else "normal"))
            if symbol not in ".SG#":
                parts.append(f'<circle cx="{column * SIZE + 7}" cy="{row * SIZE + 7}" r="3" fill="#08306b"/>')
    width, height = layout.columns * SIZE - 2, layout.rows * SIZE - 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 {width + 16} {height + 16}" width="{width + 16}" '
        'font-family="sans-serif" font-size="15" text-anchor="middle" role="img" '
        'aria-label="A map whose cells show the damage budget that each of them needs">\n'
        f'<rect x="-8" y="-8" width="{width + 16}" height="{height + 16}" rx="8" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def main() -> None:
    mdp = asure.example("hazard-map")
    TARGET.write_text(draw(mdp, asure.solve_budget(mdp)), "utf-8")


if __name__ == "__main__":
    main()
