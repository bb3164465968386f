"""MaskablePPO inside the shield and five other learners: same model, network, settings and seeds.

    python benchmarks/bench_deep.py [--steps N] [--seeds S …] [--only NAME …] [--model M --budget K]
                                    [--csv FILE] [--picture FILE]

It prints the table of docs/deep-agents.md: violations and returns are counted in training, and exact in deployment.  It
fails if a shielded run overspends, or closes less than 90 % of the gap between random shielded play and the optimum.
With 200,000 steps and three seeds it takes five to six minutes on one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from almostsure.gym.deep import deep_learners
from almostsure.learn.comparison.compare import Comparison, compare

MODEL, BUDGET = "hazard-map", 3
ENOUGH = 0.9  # shielded agents must return at least this share of the assured optimum


def main() -> int:
    arguments = parse()
    began = time.perf_counter()
    chosen = [deep_learners[name] for name in arguments.only]
    result = compare(arguments.model, arguments.budget, chosen, steps=arguments.steps, seeds=arguments.seeds)
    print(markdown(result))
    print(f"\n{arguments.steps:,} steps, seeds {arguments.seeds}, {time.perf_counter() - began:.0f} s")
    if arguments.csv:
        result.to_csv(arguments.csv)
    if arguments.picture:
        result.plot().figure.savefig(arguments.picture)
    return verdict(result, arguments)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=list(deep_learners), default=list(deep_learners))
    parser.add_argument("--model", default=MODEL, help="an example's name, or a file")
    parser.add_argument("--budget", type=int, default=BUDGET, help="the budget")
    parser.add_argument("--csv", help="write one row per learner and seed to this file")
    parser.add_argument("--picture", help="write the learning curves to this file")
    return parser.parse_args()


def markdown(result: Comparison) -> str:
    """One row per learner: means over the seeds, with ranges of the most important numbers."""
    titles = ("learner", "training episodes over budget", "return", "P(over budget) deployed", "mean damage")
    lines = [" | ".join(titles), " | ".join(["---"] * len(titles))]
    for name in result.learners:
        lines.append(" | ".join(cells(name, [row for row in result.rows if row["learner"] == name])))
    return "\n".join(f"| {line} |" for line in lines)


def cells(name: str, rows: list[dict[str, Any]]) -> list[str]:
    def column(key: str) -> list[float]:
        return [row[key] for row in rows]

    def spread(key: str, form: str) -> str:
        low, high = (format(x, form) for x in (min(column(key)), max(column(key))))
        return low if low == high else f"{low} … {high}"

    violations, episodes = sum(column("training_violations")), sum(column("training_episodes"))
    counted = f"{violations:,} of {episodes:,}" + (f" ({violations / episodes:.1%})" if violations else "")
    return [
        name, counted, spread("deployed_return", ".1f"), spread("deployed_overspend", ".3g"),
        spread("deployed_mean_damage", ".2f"),
    ]  # fmt: skip


def verdict(result: Comparison, arguments: argparse.Namespace) -> int:
    """Whether the documented claims hold; for short runs and other models only the one about safety."""
    shielded = [row for row in result.rows if row["learner"] == deep_learners["shielded"].name]
    safe = all(row["training_violations"] == 0 and row["deployed_overspend"] == 0 for row in shielded)
    promised = arguments.steps >= 200_000 and (arguments.model, arguments.budget) == (MODEL, BUDGET)
    good = not promised or all(row["deployed_return"] >= ENOUGH * result.optimum for row in shielded)
    print(f"shielded: never over budget: {safe}; at least {ENOUGH:.0%} of the optimum, {result.optimum:.1f}: {good}")
    return 0 if safe and good else 1


if __name__ == "__main__":
    sys.exit(main())
