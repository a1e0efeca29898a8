"""Mistakes to look at: the picture, and what spoke for the wrong and for the right class."""

from __future__ import annotations

import io
from collections.abc import Iterable

from PIL import Image

from ..evaluation.mistakes import Mistake
from ..images import ImageError, colours
from .draw import evidence_limit, lay_over
from .page import Markup, data_uri, escape

SIDE = 200
"""Longer side of the pictures in a report, pixels."""

_QUALITY = 75


def show_mistakes(mistakes: Iterable[Mistake], several: bool) -> Markup:
    """Cards of mistakes; with several splits each says in which it happened."""
    cards = "\n".join(_card(mistake, several) for mistake in mistakes)
    return Markup(f'<div class="mistakes">\n{cards}\n</div>')


def _card(mistake: Mistake, several: bool) -> str:
    label, predicted = escape(str(mistake.label)), escape(str(mistake.predicted))
    where = escape(mistake.path) + (f"; split {mistake.split}" if several else "")
    return (
        f'<figure class="mistake"><p><b>{label}</b> taken for <b>{predicted}</b></p>'
        f"{_pictures(mistake, label, predicted)}"
        f"<figcaption>{where}</figcaption></figure>"
    )


def _pictures(mistake: Mistake, label: str, predicted: str) -> str:
    """Three pictures with their captions, or why there are none."""
    try:
        picture = colours(mistake.path, SIDE)
        examined = mistake.model.examine(mistake.path)
    except ImageError as error:  # it could be read a minute ago
        return f"<p>The picture can no longer be shown: {escape(error.reason)}</p>"
    shape = (picture.height, picture.width)
    maps = [examined.explain(name, shape).map for name in (mistake.predicted, mistake.label)]
    limit = evidence_limit(*maps)
    wrong, right = (lay_over(picture, map, limit) for map in maps)
    shown = [
        (picture, "the picture", "the picture"),
        (wrong, f"evidence for {predicted}", f"for {predicted} <b>{_signed(mistake.score)}</b>"),
        (right, f"evidence for {label}", f"for {label} <b>{_signed(mistake.true_score)}</b>"),
    ]
    return '<div class="three">' + "".join(map(_shown, *zip(*shown, strict=True))) + "</div>"


def _signed(score: float) -> str:
    return f"{score:+.2f}".replace("-", "&minus;")


def _shown(picture: Image.Image, alt: str, caption: str) -> str:
    return f'<span><img alt="{alt}" src="{_jpeg(picture)}"><small>{caption}</small></span>'


def _jpeg(picture: Image.Image) -> str:
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=_QUALITY, optimize=True)
    return data_uri(content.getvalue(), "image/jpeg")
