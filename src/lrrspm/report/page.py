"""Pages of headings, text, tables and figures as Markdown or HTML, and the HTML templates."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from .._support.text import plural, printable


@dataclass(frozen=True)
class Heading:
    """A section heading."""

    kind: ClassVar[str] = "heading"
    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph; ``code``, **bold**, *slanted* and [links](address) as in Markdown."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Bullets:
    """A bullet list; items are written as in :class:`Text`."""

    kind: ClassVar[str] = "bullets"
    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table; a cell is one or more lines, the most important one first.

    A table without a title belongs to the heading above it.
    """

    kind: ClassVar[str] = "table"
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A drawing as SVG; ``name`` is that of its file, beside a Markdown page."""

    kind: ClassVar[str] = "figure"
    name: str
    svg: bytes
    caption: str


Block = Heading | Text | Bullets | Table | Figure


@dataclass
class Page:
    """A title and the blocks below it."""

    title: str
    blocks: list[Block] = field(default_factory=list)

    def add(self, *blocks: Block) -> None:
        """Append blocks."""
        self.blocks += blocks

    def figures(self) -> list[Figure]:
        """Return the page's figures."""
        return [block for block in self.blocks if isinstance(block, Figure)]


def to_markdown(page: Page, folder: str = "figures") -> str:
    """Return the page as Markdown; its figures are expected as ``folder/NAME.svg``."""
    return "\n\n".join([f"# {page.title}", *_markdown(page.blocks, folder)]) + "\n"


def _markdown(blocks: Sequence[Block], folder: str) -> Iterator[str]:
    for block in blocks:
        match block:
            case Heading():
                yield f"{'#' * block.level} {block.text}"
            case Text():
                yield block.text
            case Bullets():
                yield "\n".join(f"- {item}" for item in block.items)
            case Table():
                if block.title:
                    yield f"**{block.title}**"
                yield from [markdown_table(block), *block.notes]
            case Figure():
                yield from [f"![{block.caption}]({folder}/{block.name}.svg)", f"*{block.caption}*"]


def markdown_table(table: Table) -> str:
    """Return the rows of a table as Markdown, without title and notes."""
    lines = [_row(table.header), "|---" * len(table.header) + "|"]
    lines += [_row(["<br>".join(cell) for cell in row]) for row in table.rows]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def to_html(page: Page) -> str:
    """Return the page as one HTML file that fetches nothing."""
    return render("page.html", title=page.title, blocks=page.blocks)


def html_table(table: Table) -> str:
    """Return one table with its title and notes as HTML."""
    return render("table.html", block=table)


def render(template: str, **values: Any) -> str:
    """Fill in one of the templates.

    Values are escaped, and so are invisible characters in them: no name of a
    file or class becomes markup or hides text.
    """
    return _environment().get_template(template).render(values)


def script(name: str) -> dict[str, Markup | str]:
    """Return a script among the templates, and the digest by which a page may run it alone."""
    environment = _environment()
    assert environment.loader is not None
    source, *_ = environment.loader.get_source(environment, name)
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    return {"script": Markup(source), "script_digest": digest}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("lrrspm.report"),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else printable(value),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"marks": _marks, "data_uri": data_uri, "plural": plural}
    return environment


_CODE = re.compile(r"`([^`]+)`")
_MARKS = (
    (re.compile(r"\*\*([^*]+)\*\*"), r"<strong>\1</strong>"),
    (re.compile(r"(?<!\*)\*([^*]+)\*(?!\*)"), r"<em>\1</em>"),
    # Pages, and files beside this one: no address that a browser would run.
    (re.compile(r"\[([^\]]+)\]\(((?:https?://)?[\w#./-][^):\s]*)\)"), r'<a href="\2">\1</a>'),
)


def _marks(text: str) -> Markup:
    """Turn the marks of :class:`Text` into tags; everything else is escaped."""
    parts = _CODE.split(str(escape(printable(text))))
    for place, part in enumerate(parts):
        if place % 2:
            parts[place] = f"<code>{part}</code>"
            continue
        for pattern, replacement in _MARKS:
            parts[place] = pattern.sub(replacement, parts[place])
    return Markup("".join(parts))


def verbatim(text: str) -> str:
    """Return text of others for a :class:`Text`: shown as it is, never as marks."""
    return f"`{printable(text).replace('`', chr(39))}`"


def data_uri(content: bytes, kind: str) -> str:
    """Return a file's content as an address of its own."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
