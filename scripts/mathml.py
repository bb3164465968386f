"""Markdown extension: converts formulas to MathML when the site is built, so that it needs no external script."""

import html
import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.postprocessors import Postprocessor

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


class ToMathML(Postprocessor):
    """Replaces the formulas that pymdownx.arithmatex marks; browsers render MathML."""

    def run(self, text: str) -> str:
        """The page with its formulas as MathML."""
        return FORMULA.sub(_to_mathml, text)


class MathML(Extension):
    """Registers the replacement, after all other postprocessors."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Called by Markdown."""
        md.postprocessors.register(ToMathML(md), "mathml", -10)


def _to_mathml(match: re.Match[str]) -> str:
    tag, formula = match.groups()
    display = "block" if tag == "div" else "inline"
    return convert(html.unescape(formula).strip(), display=display)


def makeExtension(**options: Any) -> MathML:  # noqa: N802
    """The entry point of the extension."""
    return MathML(**options)
