"""Ctrl-C and its like as one exception, which can be held back while something must not be cut short."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130  # exit code, as shells give it for SIGINT


class Interrupted(Exception):
    """The user, or whoever ends programs, wants this one to end."""


class Interrupts:
    """While its context lasts, SIGINT, SIGTERM and SIGHUP raise Interrupted.

    SIGINT is set as well, because a shell starts background jobs with it ignored.
    """

    def __init__(self) -> None:
        self._holds = 0
        self._came = False

    def __enter__(self) -> Interrupts:
        self._old = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A signal that comes meanwhile raises Interrupted when the block, and what holds it back
        around the block, have ended without an exception of their own."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
        if self._came and not self._holds:
            raise Interrupted

    def _handle(self, *_: object) -> None:
        self._came = True
        if not self._holds:
            raise Interrupted
