"""All Python blocks and commands of the README and of docs/ run, and print the output on the page; doctests pass.

``scripts/pages.py`` reads and runs pages; ``pages.toml`` lists the output that may differ between machines.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pages import FENCE, PAGES, PROMPT, Snippet, commands, matches, run, snippets, varying

import almostsure

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = {
    "almostsure.model.storm": "stormpy",
    "almostsure.testing.models": "hypothesis",
    "almostsure.gym.deep": "sb3_contrib",
    "almostsure.gym.tensorboard": "tensorboard",
}
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def lacks_its_extra(name: str) -> bool:
    return any(name.startswith(prefix) and importlib.util.find_spec(extra) is None for prefix, extra in EXTRAS.items())


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES[1:], ids=relative)  # the blocks of the README run alone, below
def test_snippets(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # for snippets that save files
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for snippet in snippets(page.read_text("utf-8")):
        if any(word in snippet.code for word in ("stormpy", "from_prism", "to_storm", ".prism")):
            pytest.importorskip("stormpy")
        printed, shown = run(snippet, page, namespace), snippet.printed
        if shown is not None:
            assert matches(shown, printed, varying(page)), (
                f"line {snippet.line} printed\n{printed}\nnot\n{shown}\nrun: python scripts/pages.py {relative(page)}"
            )


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_outputs_on_pages_are_compared_to_the_letter(page: Path) -> None:
    assert "[...]" not in page.read_text("utf-8")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=relative)
def test_links_exist(page: Path) -> None:
    links = LINK.findall(FENCE.sub("", page.read_text("utf-8")))
    assert [target for target, _ in links if not (page.parent / target).exists()] == []
    anchored = [(page.parent / target if target else page, anchor) for target, anchor in links if anchor]
    assert [(relative(to), anchor) for to, anchor in anchored if anchor not in anchors(to)] == []


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page."""
    headings = HEADING.findall(FENCE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_the_reference_has_every_export() -> None:
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    shown = Counter(name.rsplit(".", 1)[-1] for name in re.findall(r"^::: almostsure\.([\w.]+)$", pages, re.MULTILINE))
    rooms = {name.rsplit(".", 1)[0] for name in re.findall(r"^::: (almostsure\.[\w.]+)$", pages, re.MULTILINE)}
    exported = {name for room in rooms - {"almostsure"} for name in importlib.import_module(room).__all__}
    assert {*almostsure.__all__} - exported == {"AlmostSureError"}
    assert exported - {*shown} == set()
    assert [name for name, times in shown.items() if times > 1 and name != "Violation"] == []


def test_every_export_has_an_example() -> None:
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    names = re.findall(r"^::: (almostsure\.[\w.]+)\.(\w+)$", pages, re.MULTILINE)
    found = {name: getattr(importlib.import_module(room), name) for room, name in names if not lacks_its_extra(room)}
    described = {name: one for name, one in found.items() if isinstance(one, type) or inspect.isfunction(one)}
    assert [name for name, one in described.items() if "Examples\n" not in (one.__doc__ or "")] == []
    assert len(described) > 100


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_names_in_prose_exist(page: Path) -> None:
    prose = FENCE.sub("", page.read_text("utf-8"))
    for name in sorted(set(re.findall(r"\b(almostsure\.\w[\w.]*\w)", prose))):
        if not lacks_its_extra(name):
            assert pkgutil.resolve_name(name) is not None


def foreign_names(code: str) -> list[str]:
    """The names of the package in a piece of code that no package exports."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "almostsure":
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("almostsure.")]
        elif isinstance(node, ast.Attribute) and re.fullmatch(r"(asure|almostsure)(\.\w+)+", ast.unparse(node)):
            found.append("almostsure." + ast.unparse(node).split(".", 1)[1])
    return [name for name in found if not is_exported(name)]


def is_exported(name: str) -> bool:
    """Whether the first part of a dotted name that is not a package is in the ``__all__`` of the package before it."""
    package, parts = almostsure, name.split(".")[1:]
    for part in parts:
        if part in package.__all__ and not inspect.ismodule(getattr(package, part)):
            return True
        try:
            package = importlib.import_module(f"{package.__name__}.{part}")
        except ImportError:
            return False
        if package.__name__ == "almostsure.errors":
            return True
        if not hasattr(package, "__all__"):
            return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_pages_only_use_exported_names(page: Path) -> None:
    code = [s.code for s in snippets(page.read_text("utf-8")) if not s.code.startswith(PROMPT)]
    assert [name for block in code for name in foreign_names(block)] == []


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=relative)
def test_examples_only_use_exported_names(script: Path) -> None:
    assert foreign_names(script.read_text("utf-8")) == []


def test_names_that_are_not_exported_are_noticed() -> None:
    assert foreign_names("from almostsure.budget.levels import x") == ["almostsure.budget.levels.x"]
    assert foreign_names("import almostsure as asure\nasure.budget.levels.x")[0] == "almostsure.budget.levels.x"
    assert foreign_names("from almostsure.budget import minimal_budget\nasure.Policy.load") == []


def test_files_named_by_the_guide_for_contributors_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = set(re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", text))
    assert len(named) > 40
    places = (ROOT, ROOT / "src" / "almostsure")
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []


def test_the_readme_has_snippets_with_output() -> None:
    found = list(snippets((ROOT / "README.md").read_text("utf-8")))
    assert found
    assert found[0].printed


@pytest.mark.parametrize(
    "snippet", [s for s in snippets((ROOT / "README.md").read_text("utf-8")) if "import" in s.code]
)
def test_blocks_of_the_readme_can_be_copied_alone(snippet: Snippet, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    printed = run(snippet, ROOT / "README.md", {"__name__": "__main__"})
    assert snippet.printed is None or matches(snippet.printed, printed, varying(ROOT / "README.md"))


def test_commands_are_found_with_what_they_print() -> None:
    body = "$ almostsure a\none\n\n$ almostsure b -c\n$ cd ..\n"
    found = list(commands(body, 5))
    assert [snippet[:3] for snippet in found] == [(5, "$ almostsure a", "one\n"), (8, "$ almostsure b -c", None)]
    assert body[slice(*found[0].where)] == "one\n"


def test_a_wrong_output_is_noticed() -> None:
    assert matches("a 1.5 s", "a 2.5 s\n", [r"\d\.\d s"])
    assert not matches("a 1.5 s", "a 2.5 s", [])
    assert not matches("a\nb", "a\nc", [])
    assert not matches("a", "ab", [])


SVG = sorted(path for path in (ROOT / "docs" / "pictures").glob("*.py") if path.with_suffix(".svg").exists())


@pytest.mark.parametrize("script", SVG, ids=relative)
def test_pictures_are_up_to_date(script: Path) -> None:
    module = runpy.run_path(str(script))
    drawn, stored = module["picture"](), module["TARGET"].read_text("utf-8")
    # If several routes are equally good, the drawn one may depend on rounding.
    drawn, stored = (re.sub(r'points="[^"]*"', "", text) for text in (drawn, stored))
    assert drawn == stored, f"run: python {relative(script)}"


def modules() -> list[str]:
    found = pkgutil.walk_packages(almostsure.__path__, "almostsure.")
    return ["almostsure", *(module.name for module in found)]


@pytest.mark.parametrize("name", modules())
def test_doctests(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if lacks_its_extra(name):
        pytest.skip("its extra is not installed")
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_there_are_doctests() -> None:
    finder = doctest.DocTestFinder()
    assert any(test.examples for test in finder.find(almostsure.from_transitions, "from_transitions"))
