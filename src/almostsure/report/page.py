"""Assembles the HTML file.

The page loads nothing from outside: its Content-Security-Policy allows only its script and its style, by their SHA-256,
and embedded pictures.  Names and numbers are embedded as JSON, which is never executed, and the script inserts them
into the page as text.
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
    """The text of the file."""
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
    return re.sub(r"\{\{(\w+)\}\}", lambda found: pieces[found[1]], template)  # does not substitute inside pieces


def _security(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _printable(text: str) -> str:
    """The text without lone surrogates and control characters, which HTML does not allow."""
    return re.sub(r"[\x00-\x1f]", " ", text.encode("utf-8", "replace").decode("utf-8"))
