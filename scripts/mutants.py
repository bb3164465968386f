"""``make mutants``: mutation testing with Cosmic Ray, on a random sample of changes.

Cosmic Ray lists all small changes of a file (an operator, a number, a condition, a decorator).  A seeded sample of them
is applied, one at a time, to a copy of the sources, and the tests that cover the changed line are run until the first
one fails: those named after the file, then the others.  A change that no test notices has *survived*: either a test is
missing, or the change makes no difference and is listed in ``scripts/mutants.txt``.

First the tests must pass without changes, and coverage records which of them run which line.  Lines that run on import
count for all tests.  For files with compiled loops the tests that compare engines are run, and all kernels are compiled
again, since Numba's cache does not notice changes of functions in other files.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.testing import run_tests
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome
from coverage import CoverageData

ROOMS = ("model", "budget", "policy", "shield")
EXPORTS = ("plan/risk/test_files.py", "abstract/shield/test_policy.py", "abstract/test_exported_names.py")
UNSEEN = {  # files that coverage does not see, since they are compiled or exported, and the tests that compare them
    "budget/compiled": ("budget/compiled", "budget/test_agreement.py", "budget/test_certificate.py"),
    "budget/horizon_solve": ("budget/test_horizon.py",),
    "policy/simulation/kernel": ("policy/simulation",),
    "shield/export/frame": ("shield", *EXPORTS),
    "shield/export/runtime": ("shield", *EXPORTS),
}
# The tests of these packages, and others about their results and files.
OTHERS = ("paper", "test_faults.py", "test_files.py", "test_shown.py", "cli/test_horizon.py", *EXPORTS)
TESTS = [f"tests/{name}" for name in (*ROOMS, *OTHERS)]
# Left out: pages and pictures, the separate process with Storm, and code without effects at run time.
WITHOUT = ("show/", "storm/", "__init__.py", "examples.py", "text.py")
OPTIONS = "-x -q -p no:cacheprovider --no-header"
WATCHED = (  # coverage records which test runs which line
    f"env COVERAGE_FILE=coverage {sys.executable} -m pytest {OPTIONS} --cov-context=test --cov-report= "
    f"--cov-config=/dev/null {' '.join(f'--cov=src/almostsure/{room}' for room in ROOMS)} {' '.join(TESTS)}"
)
EQUIVALENT = Path(__file__).with_suffix(".txt")


def main() -> int:
    """Apply mutants until the sample or the time is used up; returns 1 if too few were killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="seed of the sample; by default a new one")
    parser.add_argument("--count", type=int, default=100, help="number of mutants")
    parser.add_argument("--minutes", type=float, default=55.0, help="begin no mutant after this time")
    parser.add_argument("--only", default="", help="only files with this in their names")
    given = parser.parse_args()
    seed = secrets.randbits(32) if given.seed is None else given.seed
    start, outcomes, known = time.monotonic(), Counter[str](), equivalents()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        root = copy_of_sources(Path(name))
        mutants = sample(root, seed, given.count, given.only)
        print(f"seed {seed}: {len(mutants)} mutants; first the tests without changes", flush=True)
        outcome, output = run_tests(WATCHED, 60 * given.minutes)
        if outcome != TestOutcome.SURVIVED:
            print(f"{output[-2000:]}\nthe tests must pass before anything is changed; they do not: {WATCHED}")
            return 1
        longest = time.monotonic() - start  # seconds; a mutant whose tests take longer has an endless loop
        print(f"     {longest:6.0f} s  they pass", flush=True)
        for number, mutant in enumerate(mutants, 1):
            if time.monotonic() - start > 60 * given.minutes:
                print(f"time is up; {len(mutants) - number + 1} mutants were not tried")
                break
            where = f"{mutant.module_path.relative_to(root / 'src/almostsure')}:{mutant.start_pos[0]}"
            result = mutate_and_test([mutant], test_command(root, mutant), longest)
            outcome = judged(result, known)
            outcomes[outcome] += 1
            print(
                f"{number:4} {time.monotonic() - start:6.0f} s  {outcome:10} {where} {mutant.operator_name}", flush=True
            )
            if outcome == "survived":
                print("".join(f"      {line}\n" for line in changed_lines(result.diff)), end="", flush=True)
    tried = sum(outcomes.values()) - outcomes["equivalent"]
    share = outcomes["killed"] / max(tried, 1)
    listed = f", {outcomes['equivalent']} are listed as equivalent ({len(known)} known)" if tried else ""
    print(
        f"{outcomes['killed']} of {tried} killed ({share:.0%}){listed}, seed {seed}, {time.monotonic() - start:.0f} s"
    )
    return int(share < 0.9)


def copy_of_sources(root: Path) -> Path:
    """A copy of the sources that may be changed."""
    here = Path(__file__).parents[1]
    for folder in ("src", "tests", "docs", "scripts"):
        shutil.copytree(here / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(here / "pyproject.toml", root)
    os.chdir(root)
    changes = {"PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(root / "cache")}
    os.environ.update(changes)
    return root


def sample(root: Path, seed: int, count: int, only: str) -> list[MutationSpec]:
    """A sample with equally many mutants per package: files weighted by length, then uniform changes of each."""
    rng, chosen = random.Random(seed), list[MutationSpec]()
    for room in ROOMS:
        folder = root / "src/almostsure" / room
        files = [path for path in sorted(folder.rglob("*.py")) if not any(part in str(path) for part in WITHOUT)]
        files = [path for path in files if only in str(path.relative_to(root))]
        lengths = [len(path.read_text().splitlines()) for path in files]
        drawn = Counter(rng.choices(files, lengths, k=count // len(ROOMS)) if files else ())
        for path, times in sorted(drawn.items()):
            found = mutations(path)
            chosen += rng.sample(found, min(times, len(found)))
    rng.shuffle(chosen)
    return chosen


def mutations(path: Path) -> list[MutationSpec]:
    """All changes of a file, except in code that never runs."""
    with use_db(":memory:", WorkDB.Mode.create) as database:
        init([path], database, {})
        found = [mutation for item in database.work_items for mutation in item.mutations]
    idle = set(idle_lines(path.read_text()))
    found = [m for m in found if not idle & {m.start_pos, (m.start_pos[0], -1)}]
    return sorted(found, key=lambda m: (m.operator_name, m.occurrence))


def idle_lines(text: str) -> Iterator[tuple[int, int]]:
    """Positions without effect: annotations by position; overloads, protocols and imports for types by line (−1)."""
    for node in ast.walk(ast.parse(text)):
        for field in ("annotation", "returns"):
            if (part := getattr(node, field, None)) is not None:
                yield from ((n.lineno, n.col_offset) for n in ast.walk(part) if hasattr(n, "lineno"))
                yield from ((part.lineno, column) for column in range(part.col_offset, part.end_col_offset + 1))
        if (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING") or is_idle(node):
            yield from ((line, -1) for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for decorator in getattr(node, "decorator_list", ()):
            if ast.unparse(decorator) in ("overload", "final", "dataclass", "runtime_checkable"):
                last = node.end_lineno if ast.unparse(decorator) == "overload" else decorator.lineno
                yield from ((line, -1) for line in range(decorator.lineno, last + 1))


def is_idle(node: ast.AST) -> bool:
    """Whether a class is a protocol, or a function only compiles kernels."""
    if isinstance(node, ast.FunctionDef):
        return node.name == "warm_up"
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("Protocol") for base in node.bases)


def test_command(root: Path, mutant: MutationSpec) -> str:
    """The command for the tests that run the changed statement, those named after its file first."""
    inside = mutant.module_path.relative_to(root / "src/almostsure")
    unseen = next((places for name, places in UNSEEN.items() if str(inside).startswith(name)), None)
    if unseen is not None:
        places = " ".join(f"tests/{place}" for place in unseen)
        empty = tempfile.mkdtemp(dir=root)
        return f"env NUMBA_CACHE_DIR={empty} {sys.executable} -m pytest {OPTIONS} {places}"
    chosen = root / "chosen"
    chosen.write_text("\n".join(tests := running(root, mutant)))
    return f"{sys.executable} -m pytest {OPTIONS} @{chosen}" if tests else "true"  # without a test none fails


def running(root: Path, mutant: MutationSpec) -> list[str]:
    """The tests that run any line of the changed statement; all tests if it runs on import."""
    inside = mutant.module_path.relative_to(root / "src/almostsure")
    by_line = tests_by_line(root, mutant.module_path)
    tests = {test for line in statement(mutant) for test in by_line.get(line, ())}
    return TESTS if "" in tests else sorted(tests, key=lambda test: (f"test_{inside.stem}.py" not in test, test))


def tests_by_line(root: Path, module: Path) -> dict[int, list[str]]:
    """The tests that run each line, by coverage; "" means on import."""
    data = CoverageData(str(root / "coverage"))
    data.read()
    found = data.contexts_by_lineno(str(module.resolve()))
    return {line: [context.rpartition("|")[0] for context in contexts] for line, contexts in found.items()}


def statement(mutant: MutationSpec) -> range:
    """The lines of the innermost statement that contains a change, without nested statements."""
    lines = range(mutant.start_pos[0], mutant.end_pos[0] + 1)
    for node in ast.walk(ast.parse(mutant.module_path.read_text())):  # outer ones come first
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            last = node.end_lineno or node.lineno
            if node.lineno <= mutant.start_pos[0] <= last:
                body = getattr(node, "body", None)
                lines = range(node.lineno, max(body[0].lineno, node.lineno + 1) if body else last + 1)
    return lines


def judged(result: object, known: set[str]) -> str:
    """Killed, survived, or equivalent."""
    if result.test_outcome == TestOutcome.SURVIVED:  # type: ignore[attr-defined]
        return "equivalent" if "\n".join(changed_lines(result.diff)) in known else "survived"  # type: ignore[attr-defined]
    return "killed"


def changed_lines(diff: str) -> list[str]:
    """The removed and added lines of a diff."""
    return [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def equivalents() -> set[str]:
    """Changes that make no difference: the paragraphs of the list; lines that begin with # are reasons."""
    blocks = EQUIVALENT.read_text().split("\n\n") if EQUIVALENT.exists() else []
    kept = ("\n".join(line for line in block.splitlines() if line[:1] in "+-") for block in blocks)
    return {block for block in kept if block}


if __name__ == "__main__":
    sys.exit(main())
