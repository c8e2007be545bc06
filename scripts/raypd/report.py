"""What every verb of raypd hands back: findings, what was looked at, and what was not.

One finding is one thing to repair, with the place, the reason and the way out. A report lists what
was checked beside what was not, so that "no findings" can be read for what it is worth.
"""

from __future__ import annotations

import sys
import textwrap
from typing import IO, Literal

from pydantic import BaseModel, ConfigDict, Field

Severity = Literal["error", "warning"]
Output = Literal["human", "json"]


class UsageError(Exception):
    """A mistake in the call or a missing part of the environment; the process ends with code 2.

    The message is for a person: where, what is wrong, why, and what to do. The command line prints
    it without a traceback.
    """


class Finding(BaseModel):
    """One thing that would fail or mislead: `code` is "RPD" and three digits, `path` is the place
    (a path of the values, of the RayService, or of the file given), `remedy` what to write instead.
    """

    model_config = ConfigDict(frozen=True)

    code: str = Field(pattern=r"^RPD\d{3}$")
    severity: Severity
    path: str
    message: str
    remedy: str


class Report(BaseModel):
    """Findings, and the two lists that say how far they reach."""

    findings: list[Finding] = []
    checked: list[str] = []
    not_checked: list[str] = []

    @property
    def exit_code(self) -> int:
        """1 if any finding is an error, else 0: a warning alone does not fail a pipeline."""
        return int(any(finding.severity == "error" for finding in self.findings))

    def print(self, output: Output = "human", file: IO[str] | None = None) -> None:
        """Writes the report to `file` (standard output by default).

        "json" gives one object with the keys findings, checked and not_checked.
        """
        stream = file or sys.stdout
        if output == "json":
            print(self.model_dump_json(indent=2), file=stream)
        else:
            self._print_human(stream)

    def _print_human(self, stream: IO[str]) -> None:
        from rich.console import Console
        from rich.text import Text

        console = Console(file=stream, highlight=False)

        def write(text: str, style: str = "", first: str = "  ", rest: str = "  ") -> None:
            # Wrapped here, because rich would fill each line with blanks to the right edge.
            width = max(console.width, 40)
            filled = textwrap.fill(
                text,
                width,
                initial_indent=first,
                subsequent_indent=rest,
                break_long_words=False,
                break_on_hyphens=False,
            )
            console.print(Text(filled, style=style), soft_wrap=True)

        colours = {"error": "bold red", "warning": "bold yellow"}
        for finding in self.findings:
            head = Text.assemble(
                (f"{finding.code} {finding.severity}", colours[finding.severity]),
                "  ",
                (finding.path or "(top level)", "bold"),
            )
            console.print(head, soft_wrap=True)
            write(finding.message)
            write(f"Instead: {finding.remedy}", "cyan")
            console.print()
        for title, lines in (("Checked", self.checked), ("Not checked", self.not_checked)):
            if lines:
                console.print(Text(f"{title}:", style="bold"))
                for line in lines:
                    write(line, first="  - ", rest="    ")
        console.print(Text(self._verdict(), style="bold"))

    def _verdict(self) -> str:
        count = {"error": 0, "warning": 0}
        for finding in self.findings:
            count[finding.severity] += 1
        if not self.findings:
            return "No findings."
        return (
            ", ".join(f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in count.items() if n) + "."
        )
