"""Griffe extension: converts Sphinx roles in docstrings, such as :class:`almostsure.MDP`, to links or code."""

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc|obj):`(~?)\.?([\w.]+)`")


class Roles(griffe.Extension):
    """Rewrites each docstring once, when its object has been read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by Griffe."""
        if obj.docstring:
            obj.docstring.value = ROLE.sub(_as_link, obj.docstring.value)


def _as_link(match: re.Match[str]) -> str:
    short, name = match.groups()
    shown = name.rsplit(".", 1)[-1] if short else name.removeprefix("almostsure.")
    return f'<autoref identifier="{name}" optional><code>{shown}</code></autoref>'
