"""A plan for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from raypd.plan.candidates import Candidate
from raypd.plan.sheet import Number
from raypd.report import Report

if TYPE_CHECKING:
    from raypd.plan.verb import Plan


def value_text(number: Number) -> str:
    """The value as a person writes it, `~` before an estimate."""
    return ("~ " if number.estimate else "") + _plain(number.value, number.unit)


def _plain(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return "never"
    if unit == "bytes":
        return f"{value / 1e9:,.2f} GB" if abs(value) >= 1e8 else f"{value:,.0f} bytes"
    if unit == "bytes/s":
        return f"{value / 1e9:,.2f} GB/s"
    if unit == "s":
        return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms"
    if unit == "part":
        return f"{value:.1%}"
    if unit == "$":
        return f"${value:,.2f}"
    text = f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def show(plan: Plan, explain: bool) -> None:
    """Prints the plan to standard output."""
    console = Console(highlight=False)
    for heading in (plan.title, plan.subtitle):
        if heading:
            console.print(Text(heading, style="bold"), soft_wrap=True)
    for note in plan.notes:
        console.print(Text(f"  {note}"), soft_wrap=True)
    if plan.candidates:
        asked = plan.traffic
        rate = asked.rate if asked else None
        targets = asked is not None and (asked.ttft is not None or asked.itl is not None)
        wide = Console(highlight=False, width=max(console.width, 120))  # no column may be cut
        wide.print(_candidates(plan.candidates, rate, targets))
        console.print(
            Text("  estimates; of equal cards the cheapest type, full of engines", style="dim")
        )
    for section in plan.sections:
        console.print(Text(f"\n{section.title}", style="bold"))
        for number in section.numbers:
            line = Text.assemble(f"  {number.label:<48} ", (value_text(number), "bold"))
            console.print(line, soft_wrap=True)
            if explain:
                console.print(Text(f"      = {number.words}", style="cyan"), soft_wrap=True)
                console.print(Text(f"      = {number.figures}", style="dim"), soft_wrap=True)
    if plan.verdict:
        console.print(
            Text(f"\nBest served: {plan.verdict.advice}", style="bold green"), soft_wrap=True
        )
        for reason in plan.verdict.reasons:
            console.print(Text(f"  - {reason.text}"), soft_wrap=True)
            if reason.basis:
                console.print(Text(f"    measured: {reason.basis}", style="dim"), soft_wrap=True)
    if any(n.estimate for section in plan.sections for n in section.numbers):
        console.print(
            Text(
                "\n~ an estimate, from the assumptions in raypd/data/plan/assumptions.yaml",
                style="dim",
            )
        )
    console.print()
    Report(findings=plan.findings, checked=plan.checked, not_checked=plan.not_checked).print(
        "human"
    )


def _candidates(found: list[Candidate], rate: float | None, targets: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("instance type", "one engine"):
        table.add_column(heading, no_wrap=True)
    nodes = [] if rate is None else ["nodes"]
    kept = ["targets"] if targets else []
    for heading in ("at once", "prompt", "tokens/s", *nodes, "$/hour", "$/Mtok", *kept):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in found:
        role = one.numbers.role
        count = 1 if rate is None else math.ceil(rate / one.served) if one.served else 0
        table.add_row(
            role.instance,
            f"{role.engine.cards} x {role.engine.card.model}",
            f"{one.numbers.full:,}",
            _plain(one.numbers.prompt, "s"),
            f"{one.numbers.decode_rate:,.0f}" if one.numbers.batch else "-",
            *([str(count or "-")] if nodes else []),
            "-" if one.dollars is None or not count else f"{one.dollars * count:.2f}",
            "-" if math.isinf(one.per_million) else f"{one.per_million:.2f}",
            *(["kept" if one.keeps else "missed"] if kept else []),
        )
    return table
