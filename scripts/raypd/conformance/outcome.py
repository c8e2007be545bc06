"""What a check yields, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """How a check ended. NOT_RUN is for those that the time limit left no time for."""

    PASS = "PASS"
    KNOWN_GAP = "KNOWN GAP"
    FAIL = "FAIL"
    NOT_APPLICABLE = "NOT APPLICABLE"
    NOT_RUN = "NOT RUN"


@dataclass(frozen=True)
class Seen:
    """What a check has looked at, as a report says it."""

    words: str


@dataclass(frozen=True)
class Wrong:
    """A deviation: a sentence, and the answer that shows it (`status` None: there was none)."""

    words: str
    status: int | None = None
    body: str = ""


class Broken(Exception):
    """A deviation that ends its check."""

    def __init__(self, words: str, status: int | None = None, body: str = "") -> None:
        super().__init__(words)
        self.wrong = Wrong(words, status, body)


class NotApplicable(Exception):
    """There is nothing to judge; the text says why."""


class TimeOver(Exception):
    """The time limit of the whole run is over."""


Outcome = Wrong | Seen


@dataclass(frozen=True)
class Result:
    """One check's end. `gaps` are the entries of data/conformance.yaml that its deviations match."""

    group: str
    name: str
    title: str
    verdict: Verdict
    words: list[str]
    wrongs: list[Wrong] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def id(self) -> str:
        """Of the check: "errors/unknown-model"."""
        return f"{self.group}/{self.name}"
