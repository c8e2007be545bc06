"""How much at once, and how much a minute."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from .errors import Refusal
from .settings import Settings


class Gate:
    """Lets `in_flight` requests through at once; `queue` more may wait, for `queue_seconds`."""

    def __init__(self) -> None:
        self.inside = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def passed(self, settings: Settings) -> AsyncIterator[float]:
        """Within it the caller is one of those in flight; gives the seconds that it waited."""
        began = time.perf_counter()
        if self.inside >= settings.in_flight or self._waiting:
            await self._wait(settings)
        else:
            self.inside += 1
        try:
            yield time.perf_counter() - began
        finally:
            self.inside -= 1
            self._let_in(settings)

    async def _wait(self, settings: Settings) -> None:
        if len(self._waiting) >= settings.queue:
            raise _overloaded("and the queue is full")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(settings.queue_seconds):
                await turn
        except BaseException as error:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif turn.done() and not turn.cancelled():
                # Its turn came while it was leaving: the next one has it.
                self.inside -= 1
                self._let_in(settings)
            if isinstance(error, TimeoutError):
                message = f"and none ended within {settings.queue_seconds:g} s"
                raise _overloaded(message) from None
            raise

    def _let_in(self, settings: Settings) -> None:
        while self._waiting and self.inside < settings.in_flight:
            turn = self._waiting.pop(0)
            if not turn.done():
                self.inside += 1
                turn.set_result(None)


@dataclass
class _Bucket:
    """Fills at an even pace to a minute's worth, from which what is used is taken."""

    left: float
    at: float

    def fill(self, per_minute: float) -> float:
        now = time.monotonic()
        self.left = min(per_minute, self.left + (now - self.at) * per_minute / 60)
        self.at = now
        return self.left


class Meter:
    """What each key has used. A request is let in while something is left: its tokens are known, and taken,
    when it ends, so that `tokens_per_minute` can be passed by one answer and is then paid back."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._inside: dict[str, int] = {}

    @asynccontextmanager
    async def counted(self, key: str, settings: Settings) -> AsyncIterator[None]:
        """Within it the request is one of its key's. Raises Refusal, 429, with the seconds to wait."""
        limits = settings.limits_of(key)
        share = 1 / settings.replicas
        at_once = math.ceil(limits.concurrent_requests * share)
        if at_once and self._inside.get(key, 0) >= at_once:
            raise _too_many(
                f"{limits.concurrent_requests} requests of this key are being answered", 1
            )
        self._check(key, "tokens", limits.tokens_per_minute * share, 0)
        self._check(key, "requests", limits.requests_per_minute * share, 1)
        self._take(key, "requests", limits.requests_per_minute * share, 1)
        self._inside[key] = self._inside.get(key, 0) + 1
        try:
            yield
        finally:
            self._inside[key] -= 1
            if not self._inside[key]:
                del self._inside[key]

    def used(self, key: str, tokens: int, settings: Settings) -> None:
        """Takes what an answer cost."""
        per_minute = settings.limits_of(key).tokens_per_minute / settings.replicas
        self._take(key, "tokens", per_minute, tokens)

    def _bucket(self, key: str, what: str, per_minute: float) -> _Bucket:
        return self._buckets.setdefault((key, what), _Bucket(per_minute, time.monotonic()))

    def _check(self, key: str, what: str, per_minute: float, needed: float) -> None:
        if not per_minute:
            return
        # A part of one request a minute is one all the same.
        most = max(per_minute, 1.0)
        left = self._bucket(key, what, most).fill(most)
        if left < needed or left <= 0:
            seconds = math.ceil((max(needed, 1) - left) * 60 / most)
            raise _too_many(f"this key has used its {what} of the minute", seconds)

    def _take(self, key: str, what: str, per_minute: float, amount: float) -> None:
        if per_minute:
            most = max(per_minute, 1.0)
            bucket = self._bucket(key, what, most)
            bucket.fill(most)
            bucket.left -= amount


def _overloaded(why: str) -> Refusal:
    return Refusal(
        503,
        f"The model has as many requests as it can answer at once, {why}. Try again.",
        "overloaded",
        headers=(("retry-after", "1"),),
    )


def _too_many(why: str, seconds: int) -> Refusal:
    message = f"Too many requests: {why}. Try again in {seconds} s."
    return Refusal(429, message, "rate_limit_exceeded", headers=(("retry-after", str(seconds)),))
