"""One HTML file out of its pieces.

The page allows itself nothing from outside: its Content-Security-Policy names the SHA-256 of the one script and the one
style that it has, and pictures that are part of it.  Names and numbers travel as JSON that is never code, and the
script puts them into the page as text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from importlib.resources import files
from typing import Any

from almostsure.report.packing import to_script

SCRIPTS = (
    "base.js", "states.js", "variables.js", "squares.js", "graph.js", "levels.js", "details.js", "explore.js",
    "export.js", "charts.js", "player.js", "summary.js", "main.js",
)  # fmt: skip


def page(data: dict[str, Any]) -> str:
    """The whole file."""
    assets = files("almostsure.report") / "assets"
    style = (assets / "report.css").read_text("utf-8")
    script = "\n".join((assets / name).read_text("utf-8") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}\n}})();\n'
    title = f"{data['name']}: {data['headline']}"
    pieces = {
        "policy": _security(script, style),
        "title": html.escape(_printable(title)),
        "headline": html.escape(_printable(data["headline"])),
        "words": html.escape(_printable(" ".join(data["sentences"]))),
        "style": style,
        "script": script,
        "data": to_script(data),
    }
    template = (assets / "report.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda place: pieces[place[1]], template)  # no piece is searched for places


def _security(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _printable(text: str) -> str:
    """Without what no page may hold: lone surrogates and control characters."""
    return re.sub(r"[\x00-\x1f]", " ", text.encode("utf-8", "replace").decode("utf-8"))
