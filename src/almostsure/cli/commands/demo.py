"""``almostsure demo``: one map, three constraints.  It needs the core dependencies only, and waits for no compiler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from almostsure.cli import options as opt
from almostsure.cli.maps import draw_maps, likely_route, route_look
from almostsure.cli.options import check_output
from almostsure.cli.output import console, described, emit, next_step, say, table
from almostsure.files import HTML
from almostsure.model.build.examples import example
from almostsure.model.mdp import MDP
from almostsure.wording import number, percent

MODEL = "hazard-map"
REPORT = Path("almostsure-report.html")
BUDGET = 3
NO_LIMIT = 1000.0  # more damage on average than any policy of the demo takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One kind of constraint, solved and evaluated."""

    title: str
    route: list[tuple[int, int, int]]  # the likeliest
    value: float
    mean_damage: float
    worst_damage: float
    overspends: float


def demo(
    *,
    output: Annotated[Path, opt.named_output("The HTML report to write.")] = REPORT,
    json: opt.Json = False,
) -> None:
    """Show what this is about: one map, three kinds of constraint, and a report to look at."""
    check_output(output, *HTML)
    mdp = example(MODEL)
    if not json:
        _introduce()
    promises = _promises(mdp)
    if json:
        written = _report(mdp, output)
        rows = [
            {"promise": one.title, "return": one.value, "mean_damage": one.mean_damage,
             "worst_damage": one.worst_damage, "overspends": one.overspends}
            for one in promises
        ]  # fmt: skip
        then = "almostsure budget quicksand"
        emit("demo", described(MODEL, mdp), budget=BUDGET, promises=rows, output=str(written), next=then)
        return
    draw_maps(mdp, [(one.title, route_look(one.route)) for one in promises])
    _compare(promises)
    with console(stderr=True).status("writing the report …"):
        written = _report(mdp, output)
    say(f"\nThe report, to look at and play with: {written}")
    next_step("almostsure budget quicksand", note="what every cell of another map needs, and its proof")


def _introduce() -> None:
    say("almostsure: damage budgets that hold with probability one", style="bold")
    say(
        "\nA robot goes from S to G, which is worth 50; each step costs 1. ~ is water (damage 1), 2 and 3 are deeper, "
        "X is a pit that cannot be left, # is rock. One step in ten drifts to the left, and one to the right. Below "
        f"are the best routes if damage does not matter, if it may be {BUDGET} on average, and if it must never exceed "
        f"{BUDGET} (• marks the route, × where it hurts):\n"
    )
    console().file.flush()  # before the work begins


def _promises(mdp: MDP) -> list[Promise]:
    from almostsure.plan.constraints import AlmostSure, Expected
    from almostsure.plan.solve import solve_policy
    from almostsure.policy.evaluation.worst import worst_damage

    found = []
    for title, constraint in (
        ("no constraint", Expected(NO_LIMIT)),
        (f"{BUDGET} on average", Expected(BUDGET)),
        (f"never more than {BUDGET}", AlmostSure(BUDGET)),
    ):
        solution = solve_policy(mdp, constraint)
        result = solution.evaluate()
        found.append(
            Promise(
                title=title,
                route=likely_route(solution.policy, solution.policy.budget),
                value=solution.value,
                mean_damage=result.expected_damage,
                worst_damage=worst_damage(mdp, solution.policy),
                overspends=result.exceeds(BUDGET),
            )
        )
    return found


def _compare(promises: list[Promise]) -> None:
    head = ("promise", "return", "mean damage", "worst damage", f"P(damage > {BUDGET})")
    rows = [
        (one.title, f"{one.value:.2f}", f"{one.mean_damage:.2f}", number(one.worst_damage), percent(one.overspends))
        for one in promises
    ]
    table(head, rows, right=(1, 2, 3, 4))
    average, sure = promises[1], promises[2]
    say(
        f"\nThe promise on average exceeds {BUDGET} in {percent(average.overspends)} of all episodes. Never exceeding "
        f"it costs {average.value - sure.value:.2f} of return, and that it is never exceeded is proved, not estimated."
    )


def _report(mdp: MDP, output: Path) -> Path:
    from almostsure.report import write_report

    return write_report(mdp, output, budget=BUDGET, name=MODEL, command="almostsure demo")
