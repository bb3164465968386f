"""Run the snippets of the README and of docs/, and write their outputs into the pages.

    python scripts/pages.py docs/plan.md README.md

The Python blocks of a page run in order, in one namespace and one empty folder.  A block fenced as ``text`` directly
after a Python block has the output of that block.  In a block fenced as ``console``, lines that begin with
``$ almostsure`` are run, and the text after each is its output, if there is any; ``| head -n 5`` keeps five lines.

Outputs are compared to the letter, except for parts that may differ between machines (timings, last digits, sizes of
files): those that match the patterns of the page in ``tests/pages.toml``.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```(?P<language>\S*)[^\n]*\n(?P<body>.*?)^\1```[ ]*$", re.DOTALL | re.MULTILINE)
PROMPT = "$ almostsure "


class Snippet(NamedTuple):
    """A piece of code, and its output on the page."""

    line: int
    code: str  # Python, or a command after the prompt
    printed: str | None  # the output on the page, if it has one
    where: tuple[int, int]  # the position of the output in the page's text


def snippets(text: str) -> Iterator[Snippet]:
    """The snippets of a page, with the outputs below them."""
    fences = list(FENCE.finditer(text))
    for fence, follower in itertools.zip_longest(fences, fences[1:]):
        line = text[: fence.start()].count("\n") + 2
        if fence["language"] == "console":
            yield from commands(fence["body"], line, fence.start("body"))
        if fence["language"] != "python":
            continue
        if follower and follower["language"] == "text" and not text[fence.end() : follower.start()].strip():
            yield Snippet(line, fence["body"], follower["body"], follower.span("body"))
        else:
            yield Snippet(line, fence["body"], None, (fence.end(), fence.end()))


def commands(body: str, line: int = 1, start: int = 0) -> Iterator[Snippet]:
    """The commands of a console block, each with the output below it, or None."""
    for part in re.split(r"^(?=\$ )", body, flags=re.MULTILINE):
        command, _, shown = part.partition("\n")
        shown = shown.rstrip("\n") + "\n" if shown.strip() else ""
        if command.startswith(PROMPT):
            begin = start + len(command) + 1
            yield Snippet(line, command, shown or None, (begin, begin + len(shown)))
        line, start = line + part.count("\n"), start + len(part)


def run(snippet: Snippet, page: Path, namespace: dict[str, Any]) -> str:
    """The output of a snippet."""
    if snippet.code.startswith(PROMPT):
        return run_command(snippet.code)
    out = io.StringIO()
    padded = "\n" * (snippet.line - 1) + snippet.code  # so that a traceback names the line of the page
    with contextlib.redirect_stdout(out):
        exec(compile(padded, str(page), "exec"), namespace)
    return out.getvalue()


def run_command(command: str) -> str:
    """The output of a command on both streams, on a terminal without colours and 80 columns wide."""
    from almostsure.cli.app import run
    from almostsure.cli.output import console

    command, _, head = command.removeprefix("$ ").partition(" | head -n ")
    words = shlex.split(command, comments=True)
    out = io.StringIO()
    console.cache_clear()
    with (
        mock.patch.dict(os.environ, COLUMNS="80", NO_COLOR="1"),
        mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        code = run(words[1:])
    if code > 3:
        raise RuntimeError(f"{command} ended with {code}:\n{out.getvalue()}")
    return "".join(out.getvalue().splitlines(keepends=True)[: int(head) if head else None])


def tidy(text: str) -> str:
    """Output without trailing spaces, and without empty lines at the beginning and the end."""
    return "\n".join(line.rstrip() for line in text.strip("\n").rstrip().splitlines()) + "\n"


def varying(page: Path) -> list[str]:
    """The patterns of output that may differ between machines."""
    table = tomllib.loads((ROOT / "tests" / "pages.toml").read_text("utf-8"))
    return table.get(page.relative_to(ROOT).as_posix(), [])


def matches(shown: str, printed: str, patterns: list[str]) -> bool:
    """Whether the output is as shown, apart from the parts that match a pattern."""
    for pattern in patterns:
        shown, printed = (re.sub(pattern, "…", text, flags=re.MULTILINE) for text in (shown, printed))
    return tidy(shown) == tidy(printed)


def fill(page: Path) -> str:
    """The text of a page, with the current outputs of its snippets."""
    text = page.read_text("utf-8")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    parts, done = [], 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["MINARI_DATASETS_PATH"] = str(Path(folder) / "minari")
        for snippet in snippets(text):
            printed = run(snippet, page, namespace)
            if snippet.printed is not None and not matches(snippet.printed, printed, varying(page)):
                parts += [text[done : snippet.where[0]], tidy(printed)]
                done = snippet.where[1]
    return "".join([*parts, text[done:]])


if __name__ == "__main__":
    for name in sys.argv[1:] or PAGES:
        path = Path(name).resolve()
        path.write_text(fill(path), "utf-8")
