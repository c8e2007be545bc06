"""A release followed from look to look until it serves, fails, or time is up: what decides, and what a
person sees of it."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from raypd.live.progress import Stage, noticed, serves, stages
from raypd.live.snapshot import Snapshot
from raypd.report import Finding

# Findings that go away by themselves as a rule: the operator starts again, a node or a volume comes,
# other pods end, a registry or a head answers late, an engine gives its place free. And failed reads of
# KV, which engines have that run already. They are shown, and end the waiting only with its time.
HEALS = frozenset(
    [
        "RPD604",
        *("RPD610", "RPD611", "RPD612", "RPD613", "RPD614", "RPD615", "RPD616", "RPD617", "RPD618"),
        *("RPD622", "RPD636", "RPD641", "RPD643", "RPD662", "RPD663"),
    ]
)
_LOOKS = 2  # in a row, before an error counts as one that stays, or an upgraded release as serving
_NOTICE_SECONDS = 30.0  # within which KubeRay has taken notice of an upgrade
_DETAIL_SECONDS = 30.0  # between two lines of a log that differ only in their detail


class Verdict(Enum):
    """What one look says about waiting on."""

    WAIT = "wait"
    SERVES = "serves"
    FAILED = "failed"


class Watch:
    """Collects the looks at one release.

    `upgraded` means that it served before: what is seen has to hold for two looks then, because
    KubeRay needs a moment to take notice. `engines_start` as in `progress.stages`.
    """

    def __init__(self, upgraded: bool, engines_start: bool) -> None:
        self.seconds: dict[str, float] = {}
        self.stages: list[Stage] = []
        self.findings: list[Finding] = []
        self.failures: list[Finding] = []
        self._upgraded = upgraded
        self._engines_start = engines_start
        self._served = 0
        self._errors: set[tuple[str, str]] = set()

    def look(self, snapshot: Snapshot, findings: list[Finding], seconds: float) -> Verdict:
        """Takes in one look, made `seconds` after the start, with what the doctor says of it."""
        self.stages = stages(snapshot, self._engines_start)
        self.findings = findings
        for stage in self.stages:
            if stage.complete:
                self.seconds.setdefault(stage.name, round(seconds, 1))
            else:
                self.seconds.pop(stage.name, None)
        self._served = self._served + 1 if serves(snapshot) else 0
        if self._served >= (_LOOKS if self._upgraded else 1):
            return Verdict.SERVES
        if self._upgraded and not noticed(snapshot) and seconds < _NOTICE_SECONDS:
            return Verdict.WAIT  # what has failed is the release as it was before
        errors = {
            (f.code, f.path): f for f in findings if f.severity == "error" and f.code not in HEALS
        }
        stay = self._errors & set(errors)
        self._errors = set(errors)
        if stay:
            self.failures = [error for key, error in errors.items() if key in stay]
            return Verdict.FAILED
        return Verdict.WAIT


class View(Protocol):
    """Shows a Watch while it goes on."""

    def show(self, watch: Watch, seconds: float, note: str = "") -> None:
        """The state after a look; `note` is what else there is to say, as that none was possible."""

    def close(self) -> None:
        """Leaves the last state standing."""


class Alive:
    """A table on a terminal that is written over and over."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()

    def show(self, watch: Watch, seconds: float, note: str = "") -> None:
        table = Table.grid(padding=(0, 2))
        for stage in watch.stages:
            mark = Text("✓", "green") if stage.complete else Text("…", "yellow")
            taken = watch.seconds.get(stage.name, seconds)
            table.add_row(
                mark,
                stage.name,
                f"{stage.done}/{stage.total}",
                Text(f"{taken:.0f} s", "dim"),
                Text(stage.detail, "dim"),
            )
        notes = [_short(finding) for finding in watch.findings] + ([note] if note else [])
        self._live.update(Group(table, *(Text(line, "yellow") for line in notes)), refresh=True)

    def close(self) -> None:
        self._live.stop()


class Lines:
    """A line for each change, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: dict[str, tuple[str, str, float]] = {}

    def show(self, watch: Watch, seconds: float, note: str = "") -> None:
        for stage in watch.stages:
            count = f"{stage.name} {stage.done}/{stage.total}"
            self._say(stage.name, count, f"{count}  {stage.detail}".rstrip(), seconds)
        for line in [_short(finding) for finding in watch.findings] + ([note] if note else []):
            self._say(line, line, line, seconds)

    def _say(self, key: str, state: str, line: str, seconds: float) -> None:
        """Says the line when its state is new; when only the rest of it is, now and then."""
        old_state, old_line, when = self._said.get(key, ("", "", 0.0))
        is_due = line != old_line and seconds - when >= _DETAIL_SECONDS
        if state != old_state or is_due:
            self._said[key] = (state, line, seconds)
            self._console.print(f"{seconds:6.0f} s  {line}", highlight=False, markup=False)

    def close(self) -> None:
        """Nothing stands."""


def view() -> View:
    """The view that standard error can show."""
    console = Console(stderr=True, soft_wrap=not sys.stderr.isatty())
    return Alive(console) if console.is_terminal else Lines(console)


def _short(finding: Finding) -> str:
    return f"{finding.code} {finding.path}: {finding.message}"
