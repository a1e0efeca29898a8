"""A page of headings, text, tables and figures, as Markdown, HTML or on a terminal."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph; ``code``, **bold**, *slanted* and [links](address) as in Markdown."""

    text: str


@dataclass(frozen=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table; a cell is one or more lines, the first is what matters most."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A figure: what it is called, its SVG, and what it shows in words."""

    name: str
    svg: bytes
    caption: str


Block = Heading | Text | Bullets | Table | Picture


@dataclass
class Page:
    title: str
    blocks: list[Block] = field(default_factory=list)

    def add(self, *blocks: Block) -> None:
        self.blocks += blocks

    def pictures(self) -> list[Picture]:
        return [block for block in self.blocks if isinstance(block, Picture)]


def to_markdown(page: Page, folder: str = "figures") -> str:
    """The page as Markdown; its figures are expected as ``folder/NAME.svg``."""
    parts = [f"# {page.title}"]
    for block in page.blocks:
        if isinstance(block, Heading):
            parts.append(f"{'#' * block.level} {block.text}")
        elif isinstance(block, Text):
            parts.append(block.text)
        elif isinstance(block, Bullets):
            parts.append("\n".join(f"- {item}" for item in block.items))
        elif isinstance(block, Table):
            parts += [f"**{block.title}**", markdown_table(block), *block.notes]
        else:
            parts += [f"![{block.caption}]({folder}/{block.name}.svg)", f"*{block.caption}*"]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """Rows of a table alone."""
    lines = [_row(table.header), "|---" * len(table.header) + "|"]
    lines += [_row(["<br>".join(cell) for cell in row]) for row in table.rows]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def to_html(page: Page) -> str:
    """The page as one file that needs nothing else."""
    parts = []
    for block in page.blocks:
        if isinstance(block, Heading):
            parts.append(f"<h{block.level}>{_inline(block.text)}</h{block.level}>")
        elif isinstance(block, Text):
            parts.append(f"<p>{_inline(block.text)}</p>")
        elif isinstance(block, Bullets):
            items = "".join(f"<li>{_inline(item)}</li>" for item in block.items)
            parts.append(f"<ul>{items}</ul>")
        elif isinstance(block, Table):
            parts.append(html_table(block))
        else:
            content = base64.b64encode(block.svg).decode()
            caption = html.escape(block.caption)
            parts.append(
                f'<figure><img alt="{caption}" src="data:image/svg+xml;base64,{content}">'
                f"<figcaption>{caption}</figcaption></figure>"
            )
    title = html.escape(page.title)
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def html_table(table: Table) -> str:
    """One table with its title and notes."""
    head = "".join(f'<th scope="col">{_inline(cell)}</th>' for cell in table.header)
    rows = []
    for name, *cells in table.rows:
        first = f'<th scope="row">{_lines(name)}</th>'
        rows.append(f"<tr>{first}{''.join(f'<td>{_lines(cell)}</td>' for cell in cells)}</tr>")
    notes = "".join(f"<p>{_inline(note)}</p>" for note in table.notes)
    return (
        f'<div class="table"><table><caption>{_inline(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{notes}"
    )


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
    text = html.escape(text, quote=False)
    for pattern, replacement in _MARKS:
        text = pattern.sub(replacement, text)
    return text


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
th:first-child { text-align: left; }
tbody th { font-weight: 500; }
small { opacity: .75; }
code { background: var(--soft); padding: 0 .2em; }
figure { margin: 1.5em 0; }
figure img { max-width: 100%; background: #fff; padding: .5rem; box-sizing: border-box; }
figcaption { font-size: .9em; opacity: .8; max-width: 44rem; }
@media print { main { max-width: none; padding: 0; } .table { overflow: visible; }
  table { font-size: 8.5pt; break-inside: avoid; } h2 { break-after: avoid; } }
"""
