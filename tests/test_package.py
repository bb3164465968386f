"""The package as a whole: it is quick to import, documented, typed, and loads no code from files."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from dataclasses import is_dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

import almostsure

TESTS = Path(__file__).parent

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(almostsure.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
PACKAGES = ["almostsure"] + [
    f"almostsure.{name}"
    for name in ("budget", "gym", "gym.deep", "learn", "learn.learners", "model", "paper", "plan", "policy", "report",
                 "shield", "testing")
]  # fmt: skip
HEAVY = {
    "gymnasium", "highspy", "hypothesis", "llvmlite", "matplotlib", "numba", "plotly", "pydantic", "rich",
    "safetensors", "scipy", "stormpy", "umbi",
}  # fmt: skip


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout


def public_objects() -> list[tuple[str, object]]:
    return [(name, getattr(almostsure, name)) for name in almostsure.__all__]


def test_import_loads_nothing_heavy() -> None:
    loaded = run("import almostsure, sys; print(*{name.split('.')[0] for name in sys.modules})").split()
    assert "almostsure" in loaded
    assert HEAVY.isdisjoint(loaded)


def test_the_first_answer_loads_nothing_heavy() -> None:
    program = "import almostsure as a, sys; a.minimal_budget(a.example('paper'))"
    loaded = run(f"{program}; print(*{{name.split('.')[0] for name in sys.modules}})").split()
    assert "numpy" in loaded
    assert HEAVY.isdisjoint(loaded)


def test_every_file_tells_the_same_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert getattr(almostsure, "__version__", version) == version


def test_every_public_name_exists_once() -> None:
    assert len(set(almostsure.__all__)) == len(almostsure.__all__)
    assert [name for name in almostsure.__all__ if not hasattr(almostsure, name)] == []


def test_the_root_exports_few_names() -> None:
    assert len(almostsure.__all__) <= 37


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_lists_its_exports(package: str) -> None:
    """The imported names, those in ``__all__`` and the available attributes are the same."""
    if package == "almostsure.gym.deep":
        pytest.importorskip("sb3_contrib")
    module = importlib.import_module(package)
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("almostsure.")
        for alias in node.names
    }
    assert set(module.__all__) == imported - {"on_demand", "MissingExtra", "register"}
    assert set(module.__all__) <= set(dir(module))  # for completion, before the first import
    values = {name: getattr(module, name) for name in module.__all__}
    # A package may share its name with its main function only if it can be called like it.
    assert [name for name, value in values.items() if inspect.ismodule(value) and not callable(value)] == []


def test_exports_are_imported_on_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lazily").mkdir()
    (tmp_path / "lazily" / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from almostsure.exports import on_demand\n"
        "if TYPE_CHECKING:\n"
        "    from colorsys import hls_to_rgb\n"
        "    from lazily import inside\n"
        "else:\n"
        "    __getattr__ = on_demand(__name__)\n"
    )
    (tmp_path / "lazily" / "inside.py").write_text("here = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("colorsys", None)
    package = importlib.import_module("lazily")
    assert {"hls_to_rgb", "inside"} <= set(dir(package))
    assert not {"TYPE_CHECKING", "on_demand"} & set(dir(package))
    assert "colorsys" not in sys.modules
    assert package.hls_to_rgb is importlib.import_module("colorsys").hls_to_rgb
    assert package.inside.here == 1
    with pytest.raises(AttributeError, match=r"module 'lazily' has no attribute 'on_top'$"):
        package.on_top  # noqa: B018


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        almostsure.no_such_name  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(("name", "thing"), public_objects())
def test_public_names_have_docstrings(name: str, thing: object) -> None:
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return  # a constant such as INFINITE has its docstring where it is defined
    assert inspect.getdoc(thing), f"{name} has no docstring"
    assert not (inspect.isclass(thing) and inspect.getdoc(thing) == inspect.getdoc(object)), name


@pytest.mark.parametrize(("name", "thing"), [(n, t) for n, t in public_objects() if inspect.isclass(t)])
def test_public_members_have_docstrings(name: str, thing: type) -> None:
    bare = [
        f"{name}.{member}"
        for member, value in vars(thing).items()
        if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
        and not inspect.getdoc(value)
    ]  # fmt: skip
    assert bare == []


def test_type_information_is_shipped() -> None:
    assert (PACKAGE / "py.typed").is_file()


def test_every_module_has_a_docstring() -> None:
    assert [str(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text("utf-8")))] == []


def test_functions_are_short_and_have_few_positional_parameters() -> None:
    offenders = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                lines, positional = node.end_lineno - node.lineno + 1, [*node.args.posonlyargs, *node.args.args]
                if lines > 60 or len(positional) > 8:
                    offenders.append(
                        f"{path.name}:{node.lineno} {node.name}: {lines} lines, {len(positional)} arguments"
                    )
    assert offenders == []


def mapped(block: str, root: Path) -> set[Path]:
    """The files in a block of the map for contributors, with their descriptions."""
    listed, folders = [], [root]
    for line in block.splitlines():
        names, _, phrase = line.strip().partition("  ")
        depth = (len(line) - len(line.lstrip())) // 2
        assert bool(phrase) == bool(line), f"{line!r} has no description"
        if names.endswith("/"):
            folders[depth + 1 :] = [folders[depth] / names]
        elif names:
            listed += [folders[depth] / name for name in names.split(", ")]
    assert len(listed) == len(set(listed))
    return {*listed}


def test_the_map_for_contributors_has_every_file() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    package, beside = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert mapped(package, PACKAGE) == {path for path in MODULES if not path.name.startswith("__")}
    patterns = ("scripts/*.*", "benchmarks/*.py", "src/almostsure/report/assets/[a-z]*", "docs/pictures/**/*.py")
    assert mapped(beside, ROOT) == {path for pattern in patterns for path in ROOT.glob(pattern)}


def test_the_table_of_benchmarks_has_every_file() -> None:
    folder = ROOT / "benchmarks"
    listed = re.findall(r"^\| `(\w+\.py)` \| ", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in folder.glob("*.py"))


def test_no_module_imports_the_package_root() -> None:
    # The root imports all packages, so importing it from inside would violate the direction of imports.
    offenders = []
    for path in set(MODULES) - {Path(almostsure.__file__)}:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if "almostsure" in names or (isinstance(node, ast.ImportFrom) and node.module == "almostsure"):
                offenders.append(f"{path.name}:{node.lineno}")
    assert offenders == []


def test_nothing_is_unpickled_and_nothing_checked_by_assert() -> None:
    # Loading a file must run no code, and `python -O` must not switch a check off.  `assert x is not None` is only
    # for mypy's eyes.  One module copies objects of its own process by pickling them, and has nothing to do with files.
    offenders, copies = [], PACKAGE / "learn" / "copies.py"
    code = re.sub(r'""".*?"""', "", copies.read_text("utf-8"), flags=re.DOTALL)
    assert not re.search(r"open\(|read|files|[Pp]ath", code)
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            imports_pickle = isinstance(node, ast.Import | ast.ImportFrom) and "pickle" in ast.unparse(node)
            checks = isinstance(node, ast.Assert) and not ast.unparse(node.test).endswith(" is not None")
            if (imports_pickle and path != copies) or checks:
                offenders.append(f"{path.name}:{node.lineno}")
    assert offenders == []


def test_no_module_hides_an_export() -> None:
    """Importing a submodule sets an attribute of its package; if an export has the same name, the export wins."""
    names = [
        (package, name)
        for package in PACKAGES
        for name in importlib.import_module(package).__all__
        if (path := PACKAGE.joinpath(*package.split(".")[1:], name)).is_dir() or path.with_suffix(".py").exists()
    ]
    assert ("almostsure", "abstract") in names
    program = "import importlib, sys; p, n = sys.argv[1:]; importlib.import_module(f'{p}.{n}'); "
    program += "assert callable(getattr(sys.modules[p], n))"
    for package, name in names:
        subprocess.run([sys.executable, "-c", program, package, name], check=True)


def test_no_test_is_in_an_ignored_folder(pytestconfig: pytest.Config) -> None:
    folders = {folder for path in TESTS.rglob("test_*.py") for folder in path.relative_to(TESTS).parts[:-1]}
    assert "build" in folders
    left_out = [name for name in folders if any(fnmatch(name, rule) for rule in pytestconfig.getini("norecursedirs"))]
    assert not left_out


@pytest.mark.parametrize("package", PACKAGES)
def test_results_and_settings_cannot_be_changed(package: str) -> None:
    module = importlib.import_module(package)
    exported = [getattr(module, name) for name in module.__all__]
    changing = [t.__name__ for t in exported if isinstance(t, type) and is_dataclass(t) and not frozen(t)]
    assert set(changing) <= {"Ledger", "Reproduction"}  # which grow


def test_arrays_are_never_compared_by_accident() -> None:
    """For dataclasses with arrays, == would evaluate the truth of an array."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(d) for d in node.decorator_list):
                types = [ast.unparse(part.annotation) for part in node.body if isinstance(part, ast.AnnAssign)]
                if any(word in kind for kind in types for word in ("NDArray", "Ints", "Floats", "Bools")):
                    assert any("eq=False" in ast.unparse(d) for d in node.decorator_list), f"{path}: {node.name}"


def frozen(kind: type) -> bool:
    return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]
