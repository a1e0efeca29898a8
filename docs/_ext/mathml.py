"""Formulas as MathML, which browsers draw by themselves, without a script."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def to_mathml(text: str, display: str) -> str:
    r"""Convert a formula; ``\lVert`` and ``\rVert`` would stretch, ``\|`` does not."""
    return convert(text.replace(r"\lVert", r"\|").replace(r"\rVert", r"\|"), display=display)


def inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(f'<span class="math">{to_mathml(node.astext(), "inline")}</span>')
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula of its own; several lines are aligned at &."""
    text = node.astext()
    if r"\\" in text and r"\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    translator.body.append(f'<div class="math">{to_mathml(text, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
