"""The directive ``lrrspm-commands``: every command of ``lrrspm`` with its arguments and options."""

from __future__ import annotations

from typing import Any

import typer
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from lrrspm.cli import app as lrrspm


class Commands(Directive):
    """Write a section for each command, in the order of ``lrrspm --help``."""

    def run(self) -> list[nodes.Node]:
        group: Any = typer.main.get_command(lrrspm)
        return list(sections(group, "lrrspm"))


def sections(group: Any, name: str) -> list[nodes.section]:
    """Make sections of a group's commands, and of the commands of groups in it."""
    context = group.make_context(name, [], resilient_parsing=True)
    made = []
    for short in group.list_commands(context):
        command = group.get_command(context, short)
        full = f"{name} {short}"
        section = nodes.section(ids=[nodes.make_id(full)], names=[full])
        section += nodes.title("", "", nodes.literal("", full))
        for paragraph in (command.help or "").replace("\b", "").split("\n\n"):
            section += nodes.paragraph("", " ".join(paragraph.split()))
        shown = [option for option in command.params if not getattr(option, "hidden", False)]
        if shown:
            section += options(shown)
        if hasattr(command, "list_commands"):
            section += sections(command, full)
        made.append(section)
    return made


def options(shown: list[Any]) -> nodes.table:
    """Make a table of arguments and options, what they mean, and their defaults."""
    group = nodes.tgroup("", cols=3)
    group += [nodes.colspec("", colwidth=width) for width in (25, 60, 15)]
    group += nodes.thead("", row(*(nodes.Text(head) for head in ("option", "meaning", "default"))))
    body = nodes.tbody()
    for option in shown:
        names = [*option.opts, *option.secondary_opts]
        if option.param_type_name == "argument":
            names = [option.metavar or str(option.name).upper()]
        default = option.default
        told = "" if default in (None, False, ()) or callable(default) else str(default)
        meaning = " ".join(str(getattr(option, "help", None) or "").split())
        named = nodes.inline("", "")
        for name in names:
            named += [nodes.literal("", name), nodes.Text(" ")]
        body += row(named, nodes.Text(meaning), nodes.Text(told))
    group += body
    return nodes.table("", group)


def row(*cells: nodes.Node) -> nodes.row:
    """Make a row of a table, one paragraph per cell."""
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("lrrspm-commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
