"""``solve`` and ``simulate``: the best policy under a constraint, and episodes of a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from almostsure.budget.solve import minimal_budget
from almostsure.cli import options as opt
from almostsure.cli.maps import draw_maps, likely_route, route_look
from almostsure.cli.options import check_output, discount_option, typed, word
from almostsure.cli.output import bar, budget_column, clean, facts, heading, next_step, say, table
from almostsure.cli.task import Task, about_model, budget_of, with_risk
from almostsure.errors import ArgumentError, Infeasible
from almostsure.files import TENSORS
from almostsure.model.mdp import MDP, Floats
from almostsure.plan.constraints import AlmostSure, Chance, Constraint, Expected
from almostsure.policy.simulation.simulate import MAX_STEPS
from almostsure.wording import counted, number, percent

if TYPE_CHECKING:
    from almostsure.plan import Solution
    from almostsure.policy import Episodes, Evaluation, Policy

KINDS: dict[type[Constraint], str] = {AlmostSure: "almost sure", Expected: "expected", Chance: "chance"}
NUMBERS = ("budget", "limit", "risk")  # the parameters of constraints
MEASURED = ("expected_damage", "expected_length", "ends", "damage_distribution")  # by exact evaluation
PAIRS = 500_000  # the most pairs (state, remaining) for which policies are evaluated exactly


@about_model(opt.ModelName)
def solve(
    task: Task,
    *,
    budget: opt.Budget = None,
    limit: opt.Limit = None,
    risk: opt.Risk = None,
    horizon: opt.Horizon = None,
    discount: opt.Discount = 1.0,
    tolerance: Annotated[
        float, typer.Option(metavar="W", help="The largest distance between the bounds of the return.")
    ] = 1e-8,
    output: Annotated[Path | None, opt.named_output("Save the policy (.safetensors).")] = None,
) -> None:
    """Find the best policy under a constraint on damage, and its return with proved bounds."""
    check_output(output, *TENSORS)
    asked = _constraint(task, budget, limit, risk, horizon, discount)
    solution = _best(task, asked, discount=discount, tolerance=tolerance, horizon=horizon)
    if output is not None:
        solution.policy.save(output)
    results = _solution_results(task, solution)
    if task.json:
        task.emit(**results, output=output)
    else:
        _show_solution(task, solution, results, output)


@about_model(opt.ModelName)
def simulate(
    task: Task,
    *,
    policy: Annotated[
        Path | None, typer.Option(help="A policy saved by almostsure solve; by default the best one.")
    ] = None,
    budget: opt.Budget = None,
    limit: opt.Limit = None,
    risk: opt.Risk = None,
    horizon: opt.Horizon = None,
    discount: opt.Discount = 1.0,
    episodes: Annotated[int, typer.Option("--episodes", "-n", metavar="N", help="Number of episodes.")] = 10_000,
    max_steps: Annotated[int, typer.Option(metavar="N", help="Steps after which an episode is truncated.")] = MAX_STEPS,
    seed: opt.Seed = 0,
    show: Annotated[int | None, typer.Option(metavar="I", help="Show episode I step by step.")] = None,
) -> None:
    """Simulate episodes of a policy, and count their damage."""
    from almostsure.policy import Policy
    from almostsure.policy import simulate as play

    mdp = task.mdp
    if policy is not None and not limit is risk is horizon is None:
        raise ArgumentError("--policy names the policy to play; leave out --limit, --risk and --horizon.")
    if show is not None and not 0 <= show < max(episodes, 1):
        raise ArgumentError(f"--show must lie in 0 … {max(episodes, 1) - 1}; got {show}")
    if policy is not None:
        played, asked = Policy.load(policy, mdp), ""
    else:
        constraint = _constraint(task, budget, limit, risk, horizon, discount)
        played = _best(task, constraint, horizon=horizon, discount=discount).policy
        asked = _as_options(constraint)
    done = play(mdp, played, episodes, budget=budget, seed=seed, max_steps=max_steps, discount=discount)
    results = _episode_results(done, discount, show)
    if task.json:
        task.emit(**results)
    else:
        _show_episodes(task, done, results, show, asked)


def _constraint(
    task: Task, budget: int | None, limit: float | None, risk: float | None, horizon: int | None, discount: float
) -> Constraint:
    """The constraint of the options; the default is the budget of all commands or, with a horizon, the least one."""
    if limit is not None:
        if budget is not None or risk is not None:
            raise ArgumentError("--limit is a constraint of its own; leave out --budget and --risk.")
        return Expected(limit)
    if risk is not None:
        return Chance(*with_risk(budget, risk))
    if budget is None and horizon is not None:
        budget = minimal_budget(task.mdp, horizon=horizon).smallest_budget()
    return AlmostSure(budget_of(task, budget, discount=discount))


def _best(task: Task, constraint: Constraint, **options: Any) -> Solution:
    """The solution; if a larger budget is needed, the error names the command with that budget."""
    from almostsure.plan import solve_policy

    try:
        return solve_policy(task.mdp, constraint, **options)
    except Infeasible as error:
        needed = error.needed
        if isinstance(constraint, AlmostSure) and needed is not None and np.isfinite(needed):
            more = f"{typed(horizon=options.get('horizon'))}{discount_option(options['discount'])}"
            error.args = (f"{error}\nNext: almostsure {task.command} {task.arguments} --budget {needed:.0f}{more}",)
        raise


# ---------------------------------------------------------------------- solve


def _evaluated(mdp: MDP, policy: Policy, discount: float, budget: int | None = None) -> Evaluation | None:
    """The exact evaluation of the policy; None if it would take too long."""
    from almostsure.policy import evaluate

    large = policy.num_layers * mdp.num_states > PAIRS
    return None if large else evaluate(mdp, policy, discount=discount, budget=budget)


def _arrives(task: Task, solution: Solution) -> float | None:
    """The probability of reaching --goal if episodes may also end elsewhere; otherwise None."""
    mdp, goal = task.mdp, (task.goal or "").strip('"')
    if goal not in mdp.labels or solution.policy.horizon is not None or (mdp.label(goal) >= mdp.is_terminal()).all():
        return None
    return solution.reaches(goal)


def _solution_results(task: Task, solution: Solution) -> dict[str, Any]:
    from almostsure.policy import worst_damage

    constraint, policy = solution.constraint, solution.policy
    result = _evaluated(task.mdp, policy, solution.discount)
    measured = {name: None if result is None else getattr(result, name) for name in MEASURED}
    return {
        "constraint": {"kind": KINDS[type(constraint)], **dict.fromkeys(NUMBERS), **asdict(constraint)},
        "horizon": policy.horizon,
        "discount": solution.discount,
        "value": solution.value,
        "lower": solution.lower,
        "upper": solution.upper,
        "proved": solution.proved,
        "curve": solution.curve if isinstance(constraint, AlmostSure) else None,
        "worst_damage": worst_damage(task.mdp, policy),
        "overspends": _overspends(constraint, result),
        **measured,
        "randomised": not policy.is_deterministic,
        "reaches_goal": None if result is None else _arrives(task, solution),
    }


def _overspends(constraint: Constraint, result: Evaluation | None) -> float | None:
    if result is None:
        return 0.0 if isinstance(constraint, AlmostSure) else None
    return result.overspends if isinstance(constraint, AlmostSure | Chance) else None


def _show_solution(task: Task, solution: Solution, results: dict[str, Any], output: Path | None) -> None:
    mdp, policy, constraint = task.mdp, solution.policy, solution.constraint
    budget = results["constraint"]["budget"]
    heading(f"{task.name}: {solution.promise}")
    route = likely_route(policy, budget)
    if not draw_maps(mdp, [("the likeliest route; × marks damage", route_look(route))]):
        _show_route(mdp, route)

    def known(result: str, shown: Callable[[float], str]) -> str | None:
        return None if results[result] is None else shown(results[result])

    facts(
        ("best return", _best_return(solution)),
        ("mean damage", known("expected_damage", number)),
        ("discounted", _discounted(solution)),
        ("worst damage", number(results["worst_damage"])),
        (f"P(damage > {budget})", known("overspends", percent)),
        ("mean length", known("expected_length", lambda steps: f"{number(steps)} steps")),
        ("ends", known("ends", percent)),
        ("reaches the goal", known("reaches_goal", percent)),
        ("policy", policy.description()),
        task.basis,
        ("saved", output),
    )
    if results["curve"] is not None and np.isfinite(results["curve"]).any():
        heading("The best return for each budget Δ")
        _show_curve(mdp, results["curve"])
    if isinstance(constraint, AlmostSure) and solution.value == float("-inf"):
        more = f"{typed(horizon=policy.horizon)}{discount_option(solution.discount)}"
        next_step(f"almostsure solve {task.arguments} --budget {constraint.budget + 1}{more}")
        return
    next_step(*_next_steps(task, solution, output))


def _next_steps(task: Task, solution: Solution, output: Path | None) -> list[str]:
    """The next commands after solve.  Reports have no horizon; without rewards, suggest a reward for the goal."""
    asked, discount = _as_options(solution.constraint), discount_option(solution.discount)
    horizon = typed(horizon=solution.policy.horizon)
    if task.goal is not None and not task.mdp.reward.any():
        rewarded = replace(task, reward=task.goal, cost=None)
        return [f"almostsure solve {rewarded.arguments} {asked}{horizon}{discount}"]
    played = f"{asked}{horizon}" if output is None else f"--policy {word(output)}"
    simulate = f"almostsure simulate {task.arguments} {played}{discount}"
    return [simulate] if horizon else [simulate, f"almostsure report {task.arguments} {asked}{discount}"]


def _discounted(solution: Solution) -> str | None:
    """The discounted damage, which ``Expected`` limits if there is a discount."""
    if solution.discount == 1 or not isinstance(solution.constraint, Expected):
        return None
    return f"{number(solution.used)} of {solution.constraint.limit:g} damage, which the constraint limits"


def _best_return(solution: Solution) -> str:
    if solution.value == float("-inf"):
        if not solution.policy.mdp.is_terminal().any():
            return "−∞: costs add up for ever, as no run ends; name its end with --goal"
        return "−∞: within this budget costs add up for ever; a larger one may reach an end"
    bounds = f"{solution.lower:.10g} … {solution.upper:.10g}"
    how = "proved to lie in" if solution.proved else "in bounds that are not proved:"
    if found := solution.mdp.origin.how_found:
        how = f"in the model, which was {found}, {how}"
    return f"{solution.value:.10g}, {how} {bounds}"


def _as_options(constraint: Constraint) -> str:
    return typed(**asdict(constraint)).strip()


def _show_route(mdp: MDP, route: list[tuple[int, int, int]]) -> None:
    steps = [f"{mdp.state_name(state)} ({mdp.action_name(action)})" for state, action, _ in route[:-1]]
    shown = " → ".join(map(clean, steps[:8]))
    say(f"the likeliest route: {shown} → {'… → ' if len(route) > 9 else ''}{clean(mdp.state_name(route[-1][0]))}\n")


def _show_curve(mdp: MDP, curve: Floats) -> None:
    known = curve[np.isfinite(curve)]
    low, high = min(0.0, float(known.min())), float(known.max())
    title, shown = budget_column(mdp)
    shares = [(value - low) / (high - low) if high > low and np.isfinite(value) else 0.0 for value in curve.tolist()]
    rows = [(shown(k), number(value), bar(shares[k])) for k, value in enumerate(curve.tolist())]
    table((title, "return", ""), rows, right=(0, 1), cut=True)


# ---------------------------------------------------------------------- simulate


def _episode_results(done: Episodes, discount: float, show: int | None) -> dict[str, Any]:
    values, counts = np.unique(done.damages, return_counts=True)
    return {
        "episodes": len(done),
        "seed": done.seed,
        "budget": done.budget,
        "discount": discount,
        "mean_return": done.returns.mean(),
        "mean_damage": done.damages.mean(),
        "most_damage": done.damages.max(),
        "overspent": None if done.budget is None else int(done.overspent.sum()),
        "truncated": int(done.truncated.sum()),
        "damages": [
            {"damage": value, "episodes": count} for value, count in zip(values.tolist(), counts.tolist(), strict=True)
        ],
        "trajectory": None if show is None else _told(done, show),
    }


def _told(done: Episodes, show: int) -> list[dict[str, Any]]:
    one, mdp = done.trajectory(show), done.mdp
    return [
        {
            "state": mdp.state_name(int(one.states[t])),
            "action": mdp.action_name(int(one.actions[t])),
            "reward": one.rewards[t],
            "damage": one.damages[t],
            "next_state": mdp.state_name(int(one.states[t + 1])),
        }
        for t in range(one.actions.size)
    ]


def _show_episodes(task: Task, done: Episodes, results: dict[str, Any], show: int | None, asked: str) -> None:
    discount, spread = results["discount"], results["damages"]
    heading(f"{counted(len(done), 'episode')} of {task.name} (seed {done.seed})")
    exact = _evaluated(done.mdp, done.policy, discount, done.budget)
    means = ("", "", "")
    if exact is not None:
        means = (number(exact.expected_return), number(exact.expected_damage), number(exact.expected_length))
    what = "return" if discount == 1 else f"return (discount {discount:g})"
    samples = {what: done.returns, "damage": done.damages, "length": done.lengths}
    rows = [
        (name, number(values.mean()), number(values.min()), number(values.max()), mean)
        for (name, values), mean in zip(samples.items(), means, strict=True)
    ]
    table(("", "mean", "least", "most", "exact mean"), rows, right=(1, 2, 3, 4))
    heading("Damage per episode")
    most = max(one["episodes"] for one in spread)
    shown = [(one["damage"], f"{one['episodes']:,}", bar(one["episodes"] / most)) for one in spread]
    table(("damage", "episodes", ""), shown, right=(0, 1), cut=True)
    if done.budget is not None:
        say(f"\n{results['overspent']:,} of {len(done):,} episodes took more than {done.budget} damage.")
    if cut := results["truncated"]:
        ends = "they came to rest, were cut (--max-steps), or used up their steps (--horizon)"
        say(f"{cut:,} episodes reached no terminal state: {ends}.", style="dim")
    if show is not None:
        heading(f"Episode {show}")
        told = results["trajectory"]
        steps = [(s["state"], s["action"], s["next_state"], s["reward"], s["damage"] or "") for s in told]
        table(("at", "plays", "comes to", "reward", "damage"), steps, right=(3, 4))
    asked = asked or typed(budget=done.budget).strip()
    horizon = typed(horizon=done.policy.horizon)  # reports have no horizon
    command = f"almostsure {'solve' if horizon else 'report'} {task.arguments} {asked}".rstrip()
    next_step(f"{command}{horizon}{discount_option(discount)}")
