"""A page of headings, text, tables and figures, as Markdown, HTML or on a terminal."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .._support.text import printable


class Plain(str):
    """Text of others, such as names of files: nothing in it is a mark, in HTML."""


class Markup(str):
    """HTML as it is, for what has no block of its own."""


@dataclass(frozen=True)
class Heading:
    """A heading; with an anchor, links can lead to it."""

    text: str
    level: int = 2
    anchor: str = ""


@dataclass(frozen=True)
class Text:
    """A paragraph; ``code``, **bold**, *slanted* and [links](address) as in Markdown."""

    text: str


@dataclass(frozen=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table; a cell is one or more lines, the first is what matters most.

    Without a title it belongs to the heading before it. Columns hold numbers,
    but for the first and those named as ``words``. Narrow screens do without
    those named as ``spare``.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], ...], ...]
    notes: tuple[str, ...] = ()
    words: tuple[int, ...] = ()
    spare: tuple[int, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A figure: what it is called, its SVG, and what it shows in words."""

    name: str
    svg: bytes
    caption: str


@dataclass(frozen=True)
class Details:
    """Blocks that are folded away under a line."""

    summary: str
    blocks: tuple[Block, ...]


Block = Heading | Text | Bullets | Table | Picture | Details | Markup


@dataclass
class Page:
    """A title and what follows it; a style of its own, for HTML, comes after the common one."""

    title: str
    blocks: list[Block] = field(default_factory=list)
    style: str = ""

    def add(self, *blocks: Block) -> None:
        self.blocks += blocks

    def pictures(self) -> list[Picture]:
        return [block for block in self.blocks if isinstance(block, Picture)]


def to_markdown(page: Page, folder: str = "figures") -> str:
    """The page as Markdown; its figures are expected as ``folder/NAME.svg``."""
    return "\n\n".join([f"# {page.title}", *_markdown(page.blocks, folder)]) + "\n"


def _markdown(blocks: Sequence[Block], folder: str) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Heading):
            yield f"{'#' * block.level} {block.text}"
        elif isinstance(block, Text):
            yield block.text
        elif isinstance(block, Bullets):
            yield "\n".join(f"- {item}" for item in block.items)
        elif isinstance(block, Table):
            if block.title:
                yield f"**{block.title}**"
            yield from [markdown_table(block), *block.notes]
        elif isinstance(block, Picture):
            yield from [f"![{block.caption}]({folder}/{block.name}.svg)", f"*{block.caption}*"]
        elif isinstance(block, Details):
            yield f"<details><summary>{_inline(block.summary)}</summary>"
            yield from _markdown(block.blocks, folder)
            yield "</details>"
        else:
            yield block


def markdown_table(table: Table) -> str:
    """Rows of a table alone."""
    lines = [_row(table.header), "|---" * len(table.header) + "|"]
    lines += [_row(["<br>".join(cell) for cell in row]) for row in table.rows]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def to_html(page: Page) -> str:
    """The page as one file that needs nothing else, and is not allowed to fetch anything."""
    title = escape(page.title)
    body = "\n".join(map(_html, page.blocks))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}{page.style}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        anchor = f' id="{escape(block.anchor)}"' if block.anchor else ""
        return f"<h{block.level}{anchor}>{_inline(block.text)}</h{block.level}>"
    if isinstance(block, Text):
        return f"<p>{_inline(block.text)}</p>"
    if isinstance(block, Bullets):
        return f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in block.items)}</ul>"
    if isinstance(block, Table):
        return html_table(block)
    if isinstance(block, Picture):
        caption = escape(block.caption)
        return (
            f'<figure><img alt="{caption}" src="{data_uri(block.svg, "image/svg+xml")}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    if isinstance(block, Details):
        inside = "\n".join(map(_html, block.blocks))
        return f"<details><summary>{_inline(block.summary)}</summary>\n{inside}\n</details>"
    return block


def data_uri(content: bytes, kind: str) -> str:
    """A file as an address that holds it."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def escape(text: str) -> str:
    """Text of others for HTML, inside of attributes too."""
    return html.escape(printable(text))


def html_table(table: Table) -> str:
    """One table with its title and notes."""
    kinds = [_kind(table, place) for place in range(len(table.header))]
    head = "".join(
        f'<th scope="col"{kind}>{_inline(cell)}</th>'
        for kind, cell in zip(kinds, table.header, strict=True)
    )
    rows = []
    for name, *cells in table.rows:
        others = "".join(
            f"<td{kind}>{_lines(cell)}</td>" for kind, cell in zip(kinds[1:], cells, strict=True)
        )
        rows.append(f'<tr><th scope="row">{_lines(name)}</th>{others}</tr>')
    notes = "".join(f"<p>{_inline(note)}</p>" for note in table.notes)
    caption = f"<caption>{_inline(table.title)}</caption>" if table.title else ""
    return (
        f'<div class="table"><table>{caption}'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{notes}"
    )


def _kind(table: Table, place: int) -> str:
    """The classes of a column's cells, as an attribute."""
    columns = {"words": table.words, "spare": table.spare}
    names = " ".join(name for name, places in columns.items() if place in places)
    return f' class="{names}"' if names else ""


def _lines(cell: Sequence[str]) -> str:
    first, *others = cell
    return _inline(first) + "".join(f"<br><small>{_inline(line)}</small>" for line in others)


_MARKS = (
    (re.compile(r"`([^`]+)`"), r"<code>\1</code>"),
    (re.compile(r"\*\*([^*]+)\*\*"), r"<strong>\1</strong>"),
    (re.compile(r"(?<!\*)\*([^*]+)\*(?!\*)"), r"<em>\1</em>"),
    (re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)"), r'<a href="\2">\1</a>'),
)


def _inline(text: str) -> str:
    if isinstance(text, Markup):
        return text
    if isinstance(text, Plain):
        return escape(text)
    text = html.escape(text, quote=False)
    for pattern, replacement in _MARKS:
        text = pattern.sub(replacement, text)
    return text


_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'"
)

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; }
main { max-width: 70rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; }
h1, h2, h3 { line-height: 1.2; text-wrap: balance; }
h2 { margin-top: 2.5em; border-bottom: 1px solid var(--line); padding-bottom: .2em; }
p, ul { max-width: 44rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1em 0 .5em; }
caption { text-align: left; font-weight: 600; padding: .3em 0; }
td { white-space: nowrap; }
code { white-space: nowrap; }
th, td { padding: .3em .8em .3em 0; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th:first-child, .words { text-align: left; }
.words { white-space: normal; overflow-wrap: anywhere; min-width: 8rem; }
tbody th { font-weight: 500; }
small { opacity: .75; }
code { background: var(--soft); padding: 0 .2em; }
figure { margin: 1.5em 0; }
figure img { max-width: 100%; background: #fff; padding: .5rem; box-sizing: border-box; }
figcaption { font-size: .9em; opacity: .8; max-width: 44rem; }
@media print { main { max-width: none; padding: 0; } .table { overflow: visible; }
  table { font-size: 8.5pt; break-inside: avoid; } h2 { break-after: avoid; } }
"""
