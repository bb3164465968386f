"""``write_report``: a self-contained HTML file about a model and a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import count
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from almostsure.arguments import as_python, check_budget, check_discount, check_real, check_seed, names_right_word
from almostsure.errors import ArgumentError
from almostsure.files import atomic_write
from almostsure.model.build.environment import GYM
from almostsure.model.mdp import MDP
from almostsure.model.source import Model, as_model
from almostsure.plan.constraints import Chance, Expected
from almostsure.progress import Bar
from almostsure.report.content import Figure, content
from almostsure.report.frames import Album
from almostsure.report.page import page
from almostsure.report.study import TIME_LIMIT, study

if TYPE_CHECKING:
    from almostsure.abstract import Abstraction, UpperBudget

PARTS = 6  # of the progress bar: five of the study, and the drawings


@names_right_word
def write_report(
    mdp: Model | Abstraction | UpperBudget,
    path: str | PathLike[str],
    *,
    budget: int | None = None,
    limit: float | None = None,
    risk: float | None = None,
    discount: float = 1.0,
    seed: int = 0,
    time_limit: float = TIME_LIMIT,
    command: str | None = None,
    name: str | None = None,
    env: Any = None,
    figures: Sequence[Figure] = (),
) -> Path:
    """Write a report that opens in any browser, offline, and return its path.

    It shows the minimal budgets, the safe region as the budget decreases, the best policies under the three kinds of
    constraint with their distributions, recorded episodes, and how to verify and reproduce all of it.  The same
    arguments give the same file.  An infeasible constraint or an unbounded return is not an error: the report explains
    it.  States of models with more than a few thousand states are grouped.

    Parameters
    ----------
    mdp, path
        The model, an example's name, or a file; and the HTML file, which is replaced as a whole or not at all.
        For a continuous system or its upper budgets, the page shows two coordinates with a slider for a third, the safe
        set and a run inside it; the other arguments are for models.
    budget
        The budget Δ.  By default the first after which more hardly pays, among the least safe budget and the next ten.
    limit, risk
        For comparison: the best policies with at most ``limit`` damage on average (by default ``budget``), and with
        more than ``budget`` with a probability of at most ``risk`` (by default 0.05).
    discount, seed
        The discount of the return (below 1, returns of infinite runs are finite, too), and the seed of the episodes.
    time_limit
        Seconds that each part may take.  They are estimated from the size of the model, so that the same arguments give
        the same file.  Parts that would take longer are left out, and listed in the report.
    command, name
        The command that the report names for its reproduction, by default the call in Python; and the name of the
        model, by default that of the example, the file or ``env``.
    env
        An environment of the model, perhaps shielded, made with ``render_mode="rgb_array"``: its rendering is shown
        beside the recorded episodes.  Or the arguments of ``gymnasium.make``, as a mapping, ``{"id": …}``; for a model
        ``gym:…`` by default that environment.  If it cannot be rendered, the end of the report says why.
    figures
        Figures to append: title, bytes of a PNG file, and caption of each; ArgumentError if one is not a PNG file.

    Examples
    --------
    >>> print(write_report("quicksand", "quicksand.html", budget=2))
    quicksand.html
    """
    if not isinstance(mdp, (MDP, str, PathLike)):
        return _page_of_cells(mdp, path)
    given = {"budget": budget, "limit": limit, "risk": risk, "discount": discount, "seed": seed}
    text = _page_of_model(mdp, given | {"time_limit": time_limit}, command=command, name=name, env=env, figures=figures)
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))
    return Path(path)


def _page_of_model(
    mdp: Model,
    given: dict[str, Any],
    *,
    command: str | None,
    name: str | None,
    env: Any,
    figures: Sequence[Figure],
) -> str:
    """The page of a model."""
    model = as_model(mdp)
    source = None if isinstance(mdp, MDP) else Path(fspath(mdp)).name
    if command is None:
        command = _call(source, given | {"name": name}, env=env is not None, figures=bool(figures))
    if env is None and not isinstance(mdp, MDP) and fspath(mdp).startswith(GYM):
        env = {"id": fspath(mdp).removeprefix(GYM)}
    finished = count()
    with closing(Album(model, env)) as album, Bar("report", PARTS) as bar:
        found = study(model, **_checked(given), progress=lambda part: bar.update(next(finished), part))
        bar.update(next(finished), "drawings")
        name = name or source or _name_of(env)
        data = content(found, name=name, command=command, album=album, figures=figures)
        bar.update(PARTS)
    return page(data)


def _page_of_cells(system: Abstraction | UpperBudget, path: str | PathLike[str]) -> Path:
    """The page of a continuous system."""
    from almostsure.abstract import Abstraction

    upper = system.minimal_budget() if isinstance(system, Abstraction) else system
    if not hasattr(upper, "to_html"):
        as_model(system)  # type: ignore[arg-type]  # raises, and says what a model can be
    upper.to_html(path)
    return Path(path)


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments as Python's own numbers; raises for those that a constraint would refuse, before solving."""
    budget, limit, risk, discount, seed, time_limit = given.values()
    budget = None if budget is None else check_budget(budget)
    if limit is not None:
        Expected(limit)
    if risk is not None:
        Chance(budget or 0, risk)
    if check_real("time_limit", time_limit) <= 0:
        raise ArgumentError(f"time_limit must be positive; got {time_limit!r}")
    numbers = {"budget": budget, "discount": check_discount(discount), "seed": check_seed(seed)}
    return given | numbers


def _name_of(env: Any) -> str:
    """The id of an environment, if it has one."""
    env_id = env.get("id") if isinstance(env, Mapping) else getattr(getattr(env, "spec", None), "id", None)
    return str(env_id or "a model")


DEFAULTS = {"discount": 1.0, "seed": 0, "time_limit": TIME_LIMIT}


def _call(source: str | None, given: dict[str, Any], **objects: bool) -> str:
    """The call that writes this report again; for objects, the argument's name stands for the value."""
    listed = "".join(f", {key}={as_python(value)!r}" for key, value in given.items() if value != DEFAULTS.get(key))
    listed += "".join(f", {key}={key}" for key, is_given in objects.items() if is_given)
    model = "mdp" if source is None else repr(source)
    return f'almostsure.report.write_report({model}, "report.html"{listed})'
