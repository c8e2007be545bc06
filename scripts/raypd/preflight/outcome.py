"""What a check comes to: findings, what it saw, and what it could not look at."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from raypd.report import Finding

_T = TypeVar("_T")


@dataclass(frozen=True)
class Seen:
    """A fact that a person wants to read though nothing is wrong, as "L-DB2E81BA: 128 allowed"."""

    text: str


class Idle(Seen):
    """Why there is nothing to look at: the values or the eksctl config ask for nothing of the kind."""


class NotChecked(Exception):
    """Why something could not be looked at. Raised, it ends the check; yielded, the check goes on."""


Outcome = Finding | Seen | NotChecked


class Once(Generic[_T]):
    """A question that is asked when its answer is first wanted, and once, whoever wants it in which
    thread; a failure is remembered like an answer."""

    def __init__(self, ask: Callable[[], _T]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._answer: Any = None
        self._failure: Exception | None = None
        self._asked = False

    def __call__(self) -> _T:
        """The answer. Raises what asking raised."""
        with self._lock:
            if not self._asked:
                try:
                    self._answer = self._ask()
                except Exception as failure:
                    self._failure = failure
                self._asked = True
        if self._failure is not None:
            raise self._failure
        return self._answer
