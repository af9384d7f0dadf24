"""Sphinx settings: MyST pages, furo, and a reference taken from the docstrings."""

from __future__ import annotations

import re
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

from sojourn import __version__

project = "sojourn"
author = "The sojourn developers"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
# Formulas become MathML in the page itself: no script, no network, also on a boat.
html_math_renderer = "mathml"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["formulas.css"]
html_title = f"sojourn {__version__}"
exclude_patterns = ["_build", "generated", "reproduced"]
autodoc_member_order = "bysource"
# Spelled out, ArrayLike fills three lines; the docstrings say what is meant.
autodoc_typehints = "none"
add_module_names = False

LITERAL = re.compile(r"(``.+?``|:[a-z]+:`.+?`|(?<![^\s-])\*[A-Za-z]+\*(?!\w))")
LIST_ITEM = re.compile(r"([-*]|\d+\.) ")


def plain_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Our docstrings are plain text with ``code``: indented lines keep their shape, except in
    lists, and signs of mathematics (λ*, |A|, x_s) are no markup."""
    text: list[str] = []
    in_block = in_list = False
    for line in lines:
        indented = line.startswith(" ")
        if line.strip() and not indented:
            in_list = bool(LIST_ITEM.match(line))
        if line.strip() and not in_list and indented != in_block:
            text += ["", "::", ""] if indented else [""]
            in_block = indented
        text.append(line if in_block else "".join(map(_escaped, LITERAL.split(line))))
    lines[:] = text


def _escaped(part: str) -> str:
    return part if LITERAL.fullmatch(part) else re.sub(r"([*|_`\\])", r"\\\1", part)


def inline_formula(writer: Any, node: Any) -> None:
    """A formula within a sentence."""
    writer.body.append(convert(node.astext()))
    raise SkipNode


def displayed_formula(writer: Any, node: Any) -> None:
    """A formula on a line of its own."""
    writer.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
    app.connect("autodoc-process-docstring", plain_docstring)
