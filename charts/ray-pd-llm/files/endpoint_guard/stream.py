"""The events of a streamed answer: what a client gets to see of them, and what they tell the guard."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

from .errors import Refusal, failed, from_engine
from .upstream import Broke

DONE = b"data: [DONE]"
_END = re.compile(rb"\r?\n\r?\n")
# A quote within a JSON string is written with a backslash: these match keys alone, whatever a model writes.
_USAGE = re.compile(rb',\s*"usage":\s*(\{(?:[^{}]|\{[^{}]*\})*\}|null)')
_METRICS = re.compile(rb',\s*"metrics":\s*(\{[^{}]*\}|null)')


def asked_of_engine(options: dict[str, Any] | None) -> dict[str, Any]:
    """`stream_options` with which an engine counts in every event: only so the tokens of an answer are known
    that is broken off."""
    return {**(options or {}), "include_usage": True, "continuous_usage_stats": True}


async def events(parts: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """The whole events in each part, without their empty line. Raises Broke where the last one is missing."""
    rest, done = b"", False
    async for part in parts:
        content = rest + part
        # Ray's are without carriage returns, and a tenth of the time is saved by not looking for them.
        *whole, rest = _END.split(content) if b"\r" in content else content.split(b"\n\n")
        if whole:
            done = done or DONE in whole
            yield whole
    if not done:
        raise Broke("the stream ended without [DONE]")


class Stream:
    """One answer's events. `usage` has the counts so far, `metrics` the engine's own times, at the end."""

    def __init__(self, options: dict[str, Any] | None) -> None:
        options = options or {}
        self._at_the_end = bool(options.get("include_usage"))
        self._in_between = self._at_the_end and bool(options.get("continuous_usage_stats"))
        self.usage: dict[str, Any] | None = None
        self.metrics: dict[str, Any] | None = None

    def seen_by_client(
        self, events: list[bytes], asked: dict[str, Any]
    ) -> tuple[list[bytes], Refusal | None]:
        """What the client gets of `events`: those before the first error that an engine tells in its stream, and
        that error."""
        seen = []
        for event in events:
            if event == DONE:
                seen.append(event)
            elif event.startswith(b"data:"):  # else a comment, which keeps a connection open
                try:
                    chunk = json.loads(event[len(b"data:") :].decode())
                except ValueError:
                    return seen, failed()
                if not isinstance(chunk, dict) or not isinstance(chunk.get("choices"), list):
                    return seen, _told(chunk, asked)
                if (shown := self._shown(event, chunk)) is not None:
                    seen.append(shown)
        return seen, None

    def _shown(self, event: bytes, chunk: dict[str, Any]) -> bytes | None:
        if "usage" not in chunk:
            return event
        self.usage = chunk["usage"] or self.usage
        if chunk["choices"]:
            return event if self._in_between else _USAGE.sub(b"", event, 1)
        self.metrics = chunk.get("metrics") or self.metrics
        return _METRICS.sub(b"", event, 1) if self._at_the_end else None


def _told(chunk: Any, asked: dict[str, Any]) -> Refusal:
    if not isinstance(chunk, dict):
        return failed()
    found = chunk["error"] if isinstance(chunk.get("error"), dict) else chunk
    code = found.get("code")
    status = code if isinstance(code, int) and 400 <= code <= 599 else 500
    return from_engine(status, json.dumps(chunk).encode(), asked)
