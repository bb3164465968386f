"""Draw the example "quicksand" and the budget of each of its cells, side by side, as quicksand.svg.

python docs/pictures/quicksand.py
"""

from pathlib import Path

import almostsure as asure

SIZE, GAP, MARGIN, TITLE = 30, 2, 12, 30
SHADES = ("#1a9850", "#66bd63", "#a6d96a", "#d9ef8b", "#fee08b", "#fdae61", "#f46d43")
ROCK, FLOOR, WATER, TRAP, INK = "#5b5f66", "#efe9dc", "#74add1", "#67001f", "#1c1c1c"
SYMBOLS = {"<": "←", ">": "→", "^": "↑", "v": "↓", "~": "≈", "#": "", ".": ""}
TARGET = Path(__file__).with_name("quicksand.svg")


def cell(row: int, column: int, colour: str, text: str, ink: str = INK, bold: bool = False) -> str:
    x, y = column * SIZE, row * SIZE
    box = f'<rect x="{x}" y="{y}" width="{SIZE - GAP}" height="{SIZE - GAP}" rx="4" fill="{colour}"/>'
    if not text:
        return box
    weight = ' font-weight="bold"' if bold else ""
    return f'{box}<text x="{x + SIZE // 2 - 1}" y="{y + SIZE // 2 + 4}" fill="{ink}"{weight}>{text}</text>'


def terrain(row: int, column: int, symbol: str) -> str:
    colour = {"#": ROCK, "~": WATER, "X": TRAP}.get(symbol, FLOOR)
    ink = "#ffffff" if symbol == "X" else INK
    return cell(row, column, colour, SYMBOLS.get(symbol, symbol), ink, bold=symbol in "SG")


def need(row: int, column: int, minimal: int | None) -> str:
    if minimal is None:
        return cell(row, column, ROCK, "")
    if minimal == asure.INFINITE:
        return cell(row, column, TRAP, "∞", ink="#ffffff")
    return cell(row, column, SHADES[min(minimal, len(SHADES) - 1)], str(minimal))


def panel(left: int, title: str, cells: list[str], width: int) -> str:
    heading = f'<text x="{width / 2:g}" y="-10" font-size="14" fill="{INK}">{title}</text>'
    return f'<g transform="translate({left} {MARGIN + TITLE})">\n{heading}\n' + "\n".join(cells) + "\n</g>"


def draw(mdp: asure.MDP, minimal: asure.MinimalBudget) -> str:
    layout = mdp.layout
    needs = {layout.place(state): int(minimal.of_state[state]) for state in range(mdp.num_states)}
    places = [(row, column) for row in range(layout.rows) for column in range(layout.columns)]
    width, height = layout.columns * SIZE - GAP, layout.rows * SIZE - GAP
    right = 2 * MARGIN + width + SIZE
    panels = [
        panel(MARGIN, "the map", [terrain(r, c, layout.text[r][c]) for r, c in places], width),
        panel(right, "the budget that each cell needs", [need(r, c, needs.get((r, c))) for r, c in places], width),
    ]
    whole = f'width="{right + width + MARGIN}" height="{height + 2 * MARGIN + TITLE}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {whole} font-family="sans-serif" font-size="14" '
        'text-anchor="middle" role="img" aria-label="A map with water and quicksand, and the budget of each cell">\n'
        f'<rect {whole} rx="8" fill="#ffffff"/>\n' + "\n".join(panels) + "\n</svg>\n"
    )


def picture() -> str:
    mdp = asure.example("quicksand")
    return draw(mdp, asure.minimal_budget(mdp))


if __name__ == "__main__":
    TARGET.write_text(picture(), "utf-8")
