"""Requests against engines: how many of each role a traffic needs, and how long a client waits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from raypd.plan.engine import assumed


@dataclass(frozen=True)
class Traffic:
    """Tokens of a request in and out, requests a second, and targets in seconds; None: not given."""

    input: int
    output: int
    rate: float | None = None
    ttft: float | None = None
    itl: float | None = None

    @property
    def tokens(self) -> int:
        return self.input + self.output

    @property
    def mean_context(self) -> float:
        """Length of a request half-way through its answer."""
        return self.input + self.output / 2


def engines(rate: float, seconds: float) -> int:
    """Engines for `rate` requests a second that each keep one busy for so many seconds."""
    return max(1, math.ceil(rate * seconds / assumed("busy") - 1e-9))


def waiting_seconds(rate: float, seconds: float, count: int) -> float:
    """Mean wait before one of `count` engines begins a prompt: a queue in front of each (M/D/1)."""
    busy = rate * seconds / count
    return math.inf if busy >= 1 else seconds * busy / (2 * (1 - busy))


def engines_for_ttft(rate: float, seconds: float, beside: float, ttft: float | None) -> int | None:
    """Engines whose queue leaves the first token within `ttft`; `seconds` keep one busy for a request,
    and `beside` pass between the end of its wait and the token. None when that alone is too long.
    """
    count = engines(rate, seconds)
    if ttft is None:
        return count
    wait = ttft - beside
    if wait <= 0:
        return None
    # waiting_seconds(count) <= wait, solved for count.
    return max(count, math.ceil(rate * seconds * (1 + seconds / (2 * wait)) - 1e-9))


def ratio(prefill: float, decode: float, most: int = 8) -> tuple[int, int]:
    """Whole numbers up to `most` nearest to prefill : decode, engine seconds of one request in each."""
    if prefill <= 0 or decode <= 0:
        return 1, 1
    wanted = math.log(prefill / decode)
    pairs = [(p, d) for p in range(1, most + 1) for d in range(1, most + 1) if math.gcd(p, d) == 1]
    return min(pairs, key=lambda pair: (abs(math.log(pair[0] / pair[1]) - wanted), sum(pair)))
