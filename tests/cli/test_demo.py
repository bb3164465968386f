"""``make demo``: a result that needs no explanation, at once, and without waiting for a compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import almostsure as asure
from almostsure.cli.maps import likely_route

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def shown(almostsure: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("demo")
    done = almostsure("demo", cwd=folder)
    assert done.code == 0
    assert (folder / "almostsure-report.html").stat().st_size > 10_000
    return str(done.out)


def test_three_routes_side_by_side(shown: str) -> None:
    assert "  no constraint              3 on average               never more than 3" in shown
    line = next(line for line in shown.splitlines() if line.count("S") == 3 and line.count("G") == 3)
    first, second, third = re.split(" {4,}", line.strip())
    assert first == "S • • × • • • × × • • G"  # straight through the deep water
    assert "3" in second
    assert "3" in third


def test_the_table_is_exact(shown: str) -> None:
    mdp = asure.example("hazard-map")
    for title, constraint in (("3 on average", asure.Expected(3)), ("never more than 3", asure.AlmostSure(3))):
        solution = asure.solve_policy(mdp, constraint)
        result = solution.evaluate()
        line = next(line for line in shown.splitlines() if line.startswith(f"{title} ") and "•" not in line)
        row = line.removeprefix(title).split()
        assert row[:2] == [f"{solution.value:.2f}", f"{result.expected_damage:.2f}"]
        assert row[2] == ("3" if isinstance(constraint, asure.AlmostSure) else "∞")
        assert float(row[3]) == pytest.approx(100 * result.exceeds(3), abs=0.05)


def test_it_ends_with_the_report_and_what_to_do_next(shown: str) -> None:
    report, _, following, command = shown.rstrip().splitlines()[-4:]
    assert report.endswith("almostsure-report.html")
    assert following.startswith("Next: ")
    assert command == "  almostsure budget quicksand"


def test_routes_sit_below_each_other_on_a_narrow_terminal(here: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = here("demo").out.splitlines()
    assert lines.count("  never more than 3") == 1  # above its map
    assert lines.count("never more than 3") == 1  # above its numbers
    assert sum(line.strip().startswith("S ") for line in lines) == 3


def test_nothing_is_compiled_and_the_first_line_comes_at_once(tmp_path: Path) -> None:
    """The first line is written before SciPy and the report are loaded, and nobody waits for a compiler."""
    program = """
import io, sys

class Watched(io.TextIOWrapper):
    def write(self, text):
        if text.strip() and not hasattr(sys, "loaded_at_first"):
            sys.loaded_at_first = {*sys.modules}
        return super().write(text)

sys.argv, sys.stdout = ["almostsure", "demo"], Watched(sys.stdout.detach(), "utf-8")
from almostsure.cli import main
try:
    main()
except SystemExit as end:
    heavy = {"almostsure.learn", "almostsure.report", "numba", "scipy"}
    print(sorted(heavy & sys.loaded_at_first), end.code)
"""
    cache = tmp_path / "cache"
    cache.mkdir()
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", program], cwd=tmp_path, capture_output=True, encoding="utf-8", check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[0].startswith("almostsure: damage budgets")
    assert lines[-1] == "[] 0"
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_make_demo_runs_it() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "-m almostsure demo --output out/almostsure-report.html" in makefile
    assert "\n/out/\n" in (ROOT / ".gitignore").read_text("utf-8")


# ---------------------------------------------------------------------- routes


def test_a_route_ends_where_the_policy_ends() -> None:
    solution = asure.solve_policy("corridor", asure.AlmostSure(3))
    steps = likely_route(solution.policy, 3)
    assert solution.mdp.is_terminal()[steps[-1][0]]
    assert sum(damage for _, _, damage in steps) == 3


def test_a_route_stops_where_a_policy_goes_round_or_rests() -> None:
    mdp = asure.example("paper")
    round_and_round = asure.Policy.from_table(mdp, {"circle": "left", "square": 0})
    assert len(likely_route(round_and_round, None)) == 2
    waiting = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [0, 5], [0, 1], terminal=[1])
    resting = asure.solve_policy(waiting, asure.Expected(0.5)).policy
    assert likely_route(resting, None)[-1][0] == 0
