"""How a run is told: a table for people, JSON for programs."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from raypd.conformance.outcome import Result, Verdict
from raypd.report import Output

_COLOURS = {
    Verdict.PASS: "green",
    Verdict.KNOWN_GAP: "bold yellow",
    Verdict.FAIL: "bold red",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.NOT_RUN: "bold yellow",
}
_UNPRINTABLE = re.compile("[^\t\n\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_WORDS = 4  # of a check's deviations in the table; the files have all


@dataclass(frozen=True)
class Report:
    """All results of a run. `reference` is the URL that answers were compared with."""

    url: str
    model: str
    reference: str | None
    results: list[Result]
    seconds: float

    @property
    def exit_code(self) -> int:
        """1 when a check failed, else 2 when one was not made for want of time or when none could
        judge anything, else 0."""
        verdicts = {result.verdict for result in self.results}
        if Verdict.FAIL in verdicts:
            return 1
        judged = verdicts & {Verdict.PASS, Verdict.KNOWN_GAP}
        return 0 if judged and Verdict.NOT_RUN not in verdicts else 2

    @property
    def verdict(self) -> str:
        """How many of each."""
        count = Counter(result.verdict for result in self.results)
        names = {Verdict.KNOWN_GAP: "known gaps", Verdict.FAIL: "failed", Verdict.PASS: "passed"}
        told = [f"{count[v]} {names.get(v, v.lower())}" for v in Verdict if count[v]]
        return f"{', '.join(told)} in {self.seconds:.0f} s."

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "url": self.url,
            "model": self.model,
            "reference": self.reference,
            "seconds": round(self.seconds, 2),
            "checks": [
                {**asdict(result), "seconds": round(result.seconds, 3)} for result in self.results
            ],
        }

    def print(self, output: Output) -> None:
        """Writes it to standard output."""
        if output == "json":
            print(json.dumps(self.document(), indent=2))
            return
        console = Console(highlight=False)
        console.print(clean(f"{self.model} at {self.url}"), markup=False, soft_wrap=True)
        seen = Column("seen", overflow="fold")  # or the ends of long paths are cut off
        table = Table("group", "check", "verdict", seen, show_edge=False)
        group = ""
        for result in self.results:
            table.add_row(
                result.group if result.group != group else "",
                result.name,
                f"[{_COLOURS[result.verdict]}]{result.verdict}[/]",
                escape(told(result)),
            )
            group = result.group
        console.print(table)
        console.print(self.verdict, style="bold")


def clean(text: str) -> str:
    """Without what a terminal would obey and XML and files cannot have: a server may answer anything."""
    return _UNPRINTABLE.sub("\ufffd", text)


def told(result: Result) -> str:
    """What a check has seen, in a line or a few."""
    lines = result.words[:_MOST_WORDS]
    if len(result.words) > _MOST_WORDS:
        lines.append(f"and {len(result.words) - _MOST_WORDS} more")
    lines += [f"upstream: {gap['upstream']}" for gap in result.gaps]
    return clean("\n".join(lines))
