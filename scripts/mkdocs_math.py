"""MkDocs hook: turn formulas into MathML while building, so that the site needs no script from elsewhere."""

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: object) -> str:
    """Replace what pymdownx.arithmatex marked; browsers draw MathML themselves."""
    return FORMULA.sub(_to_mathml, content)


def _to_mathml(match: re.Match[str]) -> str:
    tag, formula = match.groups()
    display = "block" if tag == "div" else "inline"
    return convert(html.unescape(formula).strip(), display=display)
