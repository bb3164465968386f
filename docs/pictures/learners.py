"""Draw how learners fare on the example "hazard-map" with a budget of 3, as learners.svg.

python docs/pictures/learners.py
"""

import math
from pathlib import Path

import numpy as np

from almostsure.learn import compare

WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 210, 52, 40, 70
COLOURS = ("#1b6ca8", "#d1603d", "#6a4c93", "#c9a227", "#c2185b")
INK, GRID = "#1c1c1c", "#dddddd"
STEPS, SEEDS, BUDGET = 100_000, 3, 3
TARGET = Path(__file__).with_name("learners.svg")


def violations_at(value: float) -> float:
    """The height of a number of violations, logarithmic above 1: 0 at the bottom, 10,000 at the top."""
    return max(0.0, value) / 5 if value < 1 else (1 + math.log10(value)) / 5


def return_at(value: float) -> float:
    """The height of a return, from 15 to 40; what is less stands at the bottom."""
    return min(max((value - 15) / 25, 0.0), 1.0)


def risk_at(value: float) -> float:
    """Where a probability stands, logarithmic from 0.00001 to 1; 0 stands at the left."""
    return 0.0 if value < 1e-5 else 1 + math.log10(value) / 6


def line(points: list[tuple[float, float]], colour: str) -> str:
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="2"/>'


def band(points: list[tuple[float, float]], colour: str) -> str:
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polygon points="{text}" fill="{colour}" fill-opacity="0.13"/>'


def tick(height: float, text: str) -> str:
    y = HEIGHT * (1 - height)
    rule = f'<line x1="0" x2="{WIDTH}" y1="{y:g}" y2="{y:g}" stroke="{GRID}"/>'
    return f'{rule}<text x="-6" y="{y + 4:g}" text-anchor="end" font-size="11">{text}</text>'


def mark(value: float, text: str) -> str:
    return f'<text x="{WIDTH * risk_at(value):g}" y="{HEIGHT + 18}" text-anchor="middle" font-size="11">{text}</text>'


def panel(number: int, title: str, below: str, ticks: list[str], curves: list[str]) -> str:
    x = LEFT + number * (WIDTH + GAP)
    heading = f'<text x="{WIDTH / 2:g}" y="-14" text-anchor="middle" font-size="14">{title}</text>'
    foot = f'<text x="{WIDTH / 2:g}" y="{HEIGHT + 34}" text-anchor="middle" font-size="11">{below}</text>'
    return "\n".join([f'<g transform="translate({x} {TOP})">', heading, *ticks, *curves, foot, "</g>"])


def diamond(x: float, y: float, colour: str) -> str:
    text = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in ((0, -6), (6, 0), (0, 6), (-6, 0)))
    return f'<polygon points="{text}" fill="{colour}" fill-opacity="0.75" stroke="#ffffff"/>'


def diamonds(result) -> list[str]:
    colours = dict(zip(result.learners, COLOURS, strict=True))
    return [
        diamond(
            WIDTH * risk_at(row["deployed_overspend"]),
            HEIGHT * (1 - return_at(row["deployed_return"])),
            colours[row["learner"]],
        )
        for row in result.rows
    ]


def curves_of(result, measure: str, height_of) -> list[str]:
    bands, lines = [], []
    for colour, curves in zip(COLOURS, result.curves.values(), strict=True):
        curve = curves[measure]
        known = np.isfinite(curve.mean)
        x = (curve.steps[known] * (WIDTH / STEPS)).tolist()
        mean, low, high = (
            [HEIGHT * (1 - height_of(value)) for value in values[known].tolist()]
            for values in (curve.mean, curve.lower, curve.upper)
        )
        bands.append(band([*zip(x, low, strict=True), *zip(x[::-1], high[::-1], strict=True)], colour))
        lines.append(line(list(zip(x, mean, strict=True)), colour))
    return bands + lines


def legend(names: tuple[str, ...]) -> list[str]:
    items = []
    for number, (name, colour) in enumerate(zip(names, COLOURS, strict=True)):
        x, y = LEFT + (number % 3) * 240, TOP + HEIGHT + 62 + (number // 3) * 20
        items.append(f'<rect x="{x}" y="{y - 9}" width="18" height="4" fill="{colour}"/>')
        items.append(f'<text x="{x + 24}" y="{y - 2}" font-size="12">{name}</text>')
    return items


def picture() -> str:
    result = compare("hazard-map", BUDGET, steps=STEPS, seeds=SEEDS)
    counts = [(0, "0"), (1, "1"), (10, "10"), (100, "100"), (1_000, "1,000"), (10_000, "10,000")]
    left = panel(
        0,
        f"episodes that took more than {BUDGET} damage so far",
        f"0 … {STEPS:,} steps of training",
        [tick(violations_at(value), text) for value, text in counts],
        curves_of(result, "violations", violations_at),
    )
    marks = (0.0, 0.0001, 0.001, 0.01, 0.1, 1.0)
    risks = [mark(value, f"{value:g}") for value in marks]
    best = HEIGHT * (1 - return_at(result.optimum))
    optimum = f'<line x1="0" x2="{WIDTH}" y1="{best:.0f}" y2="{best:.0f}" stroke="{INK}" stroke-dasharray="2 3"/>'
    optimum += f'<text x="{WIDTH}" y="{best + 14:.0f}" text-anchor="end" font-size="11">assured optimum</text>'
    right = panel(
        1,
        "return of what would be deployed",
        f"probability that it takes more than {BUDGET} damage",
        [*(tick(return_at(value), str(value)) for value in (15, 20, 25, 30, 35, 40)), optimum, *risks],
        diamonds(result),
    )
    whole = f'width="{2 * LEFT + 2 * WIDTH + GAP - 20}" height="{TOP + HEIGHT + 98}"'
    label = "Six learners: their violations in training, and the return and risk of what they would deploy"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {whole} font-family="sans-serif" fill="{INK}" role="img" '
        f'aria-label="{label}">\n<rect {whole} rx="8" fill="#ffffff"/>\n'
        + "\n".join([left, right, *legend(result.learners)])
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    TARGET.write_text(picture(), "utf-8")
