"""An upgrade plan for people."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from raypd.report import Report
from raypd.upgrade.rows import shown

if TYPE_CHECKING:
    from raypd.upgrade.plan import Plan

_WIDTH = 130  # below it the columns are too narrow to read
_HEADS = {
    "nothing": "Nothing changes.",
    "ignored": "Ignored.",
    "in place": "In place.",
    "new engines in place": "New engines in place.",
    "second cluster": "A second RayCluster beside the first.",
    "replaced": "Another RayService in the place of this one.",
}


def show(plan: Plan) -> None:
    """Prints the plan to standard output."""
    console = Console(highlight=False)
    console.print(Text(plan.title, style="bold"), soft_wrap=True)
    if plan.rows:
        table = Table(show_edge=False, pad_edge=False)
        table.add_column("change", overflow="fold", ratio=1)
        for heading, widest in (("who acts", 22), ("what happens", 23), ("requests", 17)):
            table.add_column(heading, max_width=widest)
        for row in plan.rows:
            cells = (row.text, row.actor, row.effect, row.requests)
            table.add_row(*map(Text, cells))
        Console(highlight=False, width=max(console.width, _WIDTH)).print(table)
    for what, before, after in plan.versions:
        console.print(Text(f"{what}: {shown(before)} -> {shown(after)}"), soft_wrap=True)
    console.print(Text(f"\n{_HEADS[plan.kind]}", style="bold"), soft_wrap=True)
    for sentence in (*plan.sentences, plan.room.sentence(), plan.requests):
        for line in _wrapped(sentence, max(console.width, 40)):
            console.print(Text(line), soft_wrap=True)
    console.print()
    Report(findings=plan.findings, checked=plan.checked, not_checked=plan.not_checked).print()


def _wrapped(sentence: str, width: int) -> list[str]:
    """Lines of a sentence, in which no path is broken."""
    return textwrap.wrap(
        sentence,
        width,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
