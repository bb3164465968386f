"""``almostsure demo``: one map, three constraints.  It needs only the core dependencies, and compiles nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from almostsure.cli import options as opt
from almostsure.cli.maps import draw_maps, likely_route, route_look
from almostsure.cli.options import check_output
from almostsure.cli.output import console, described, emit, next_step, say, table
from almostsure.files import HTML
from almostsure.model.build.examples import example
from almostsure.model.mdp import MDP
from almostsure.wording import number, percent

if TYPE_CHECKING:
    from almostsure.plan.solution import Solution

MODEL = "hazard-map"
REPORT = Path("almostsure-report.html")
BUDGET = 3
NEXT = "almostsure budget quicksand"
NO_LIMIT = 1000.0  # more mean damage than any policy of the demo has


def demo(
    *,
    output: Annotated[Path, opt.named_output("The HTML report to write.")] = REPORT,
    json: opt.Json = False,
) -> None:
    """Show what almostsure does: one map, three constraints on damage, and an interactive report."""
    check_output(output, *HTML)
    mdp = example(MODEL)
    if not json:
        _introduce()
    policies = _policies(mdp)
    promises = [_promise(title, solution) for title, solution in policies.items()]
    if json:
        written = _report(mdp, output)
        emit("demo", described(MODEL, mdp), budget=BUDGET, promises=promises, output=str(written), next=NEXT)
        return
    routes = {title: likely_route(one.policy, one.policy.budget) for title, one in policies.items()}
    draw_maps(mdp, [(title, route_look(route)) for title, route in routes.items()])
    _compare(promises)
    with console(stderr=True).status("writing the report …"):
        written = _report(mdp, output)
    say(f"\nThe interactive report is {written}")
    next_step(NEXT, note="the minimal budget of every cell of another map, with a certificate")


def _introduce() -> None:
    say("almostsure: damage budgets that hold with probability one", style="bold")
    say(
        "\nA robot goes from S to G, which is worth 50; each step costs 1. ~ is water (damage 1), 2 and 3 are deeper, "
        "X is a pit that cannot be left, # is rock. One step in ten drifts to the left, and one to the right. Below "
        f"are the best routes without a limit on damage, with {BUDGET} damage on average, and with never more than "
        f"{BUDGET} (• marks the route, × damage):\n"
    )
    console().file.flush()  # show it before the computation


def _policies(mdp: MDP) -> dict[str, Solution]:
    from almostsure.plan.constraints import AlmostSure, Expected
    from almostsure.plan.solve import solve_policy

    return {
        "no constraint": solve_policy(mdp, Expected(NO_LIMIT)),
        f"{BUDGET} on average": solve_policy(mdp, Expected(BUDGET)),
        f"never more than {BUDGET}": solve_policy(mdp, AlmostSure(BUDGET)),
    }


def _promise(title: str, solution: Solution) -> dict[str, Any]:
    from almostsure.policy.evaluation.worst import worst_damage

    result = solution.evaluate()
    return {
        "promise": title,
        "return": solution.value,
        "mean_damage": result.expected_damage,
        "worst_damage": worst_damage(solution.mdp, solution.policy),
        "overspends": result.exceeds(BUDGET),
    }


def _compare(promises: list[dict[str, Any]]) -> None:
    head = ("promise", "return", "mean damage", "worst damage", f"P(damage > {BUDGET})")
    rows = [
        (title, f"{value:.2f}", f"{mean:.2f}", number(worst), percent(overspends))
        for title, value, mean, worst, overspends in map(dict.values, promises)
    ]
    table(head, rows, right=(1, 2, 3, 4))
    _, average, sure = promises
    say(
        f"\nThe policy that keeps to {BUDGET} on average exceeds {BUDGET} in {percent(average['overspends'])} of all "
        f"episodes. The guarantee never to exceed it costs {average['return'] - sure['return']:.2f} of return; it is "
        "proved, not estimated."
    )


def _report(mdp: MDP, output: Path) -> Path:
    from almostsure.report import write_report

    return write_report(mdp, output, budget=BUDGET, name=MODEL, command="almostsure demo")
