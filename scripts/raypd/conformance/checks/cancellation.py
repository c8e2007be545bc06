"""Clients that go away in the middle of an answer."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import httpx

from raypd.conformance.endpoint import Endpoint, unseen
from raypd.conformance.outcome import NotApplicable, Outcome, Seen

_TIMES = 6
_WORDS = "Tell me a story without an end."
_PATIENCE = 20  # seconds until an engine has to have dropped what nobody waits for
_RUNNING = re.compile(r"^(?:ray_)?vllm[:_]num_requests_running\{?.*\s([\d.e+]+)$", re.MULTILINE)


def left_streams(endpoint: Endpoint) -> Iterator[Outcome]:
    """After streams that were left in their middle the server answers as before."""
    prompt = unseen()
    before = endpoint.chat(prompt)
    text = before.said
    for _ in range(_TIMES):
        with endpoint.opened(max_tokens=_longest(endpoint)) as reads:
            next(reads, None)
    after = endpoint.chat(prompt)
    if after.good().said != text:
        yield after.wrong("After streams that were left a greedy answer is another")
    yield Seen(f"{_TIMES} streams left")


def left_streams_end(endpoint: Endpoint) -> Iterator[Outcome]:
    """The engine drops what nobody waits for: its own count of running requests goes back to 0."""
    if _running(endpoint) is None:
        raise NotApplicable("the server shows no metrics at /metrics")
    for _ in range(_TIMES):
        with endpoint.opened(max_tokens=_longest(endpoint)) as reads:
            next(reads, None)
    end = time.monotonic() + _PATIENCE
    while _running(endpoint):
        if time.monotonic() > end:
            yield endpoint.get("/../metrics").wrong(
                f"Requests still run {_PATIENCE} s after their clients left"
            )
            return
        endpoint.check_time()
        time.sleep(0.2)


def _longest(endpoint: Endpoint) -> int:
    """Tokens of an answer that is not over when it is left."""
    try:
        return max(endpoint.context // 2, 16)
    except NotApplicable:
        return 512


def _running(endpoint: Endpoint) -> float | None:
    """Running requests by the server's own count."""
    url = httpx.URL(endpoint.base).copy_with(path="/metrics")
    answer = endpoint.http.get(url, headers=endpoint.headers())
    found = _RUNNING.findall(answer.text) if answer.status_code == 200 else []
    return sum(map(float, found)) if found else None


CHECKS = [
    ("streams that are left harm nobody", left_streams),
    ("streams that are left end", left_streams_end),
]
