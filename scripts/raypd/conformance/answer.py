"""What a server answered, read without trust: any JSON may come, and what is not there is said."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import httpx

from raypd.conformance.outcome import Broken, Wrong

# Not str.splitlines: U+2028 and its like stand raw in JSON and end no line of a stream.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
_EXCERPT = 3000  # characters of a body's begin, and of its end, that are kept to show
# Not OpenAI's: vLLM's name, and the one that it had before and others have.
_REASONING = ("reasoning", "reasoning_content")
FINISH_REASONS = {"stop", "length", "tool_calls", "content_filter", "function_call"}


@dataclass(frozen=True)
class Answer:
    """A whole HTTP answer."""

    asked: str  # method and path
    status: int
    headers: httpx.Headers
    raw: bytes

    @cached_property
    def text(self) -> str:
        return self.raw.decode("utf-8", errors="replace")

    def broken(self, words: str) -> Broken:
        """The deviation that this answer shows, to be raised."""
        return Broken(words, self.status, excerpt(self.text))

    def wrong(self, words: str) -> Wrong:
        """The same, to be yielded."""
        return self.broken(words).wrong

    @cached_property
    def body(self) -> dict[str, Any]:
        """The JSON object. Raises Broken when it is none."""
        try:
            found = read_json(self.raw)
        except ValueError:
            raise self.broken(f"{self.asked} is answered with no JSON") from None
        if not isinstance(found, dict):
            raise self.broken(f"{self.asked} is answered with no JSON object")
        return found

    def good(self) -> Answer:
        """Itself, if the status is 200. Raises Broken when not."""
        if self.status != 200:
            raise self.broken(f"{self.asked} is refused with HTTP {self.status}")
        return self

    @cached_property
    def choices(self) -> list[dict[str, Any]]:
        """The choices, at least one. Raises Broken."""
        found = self.good().body.get("choices")
        if not isinstance(found, list) or not found or not all(isinstance(c, dict) for c in found):
            raise self.broken("The answer has no list of choices")
        return found

    @property
    def message(self) -> dict[str, Any]:
        """The first choice's message. Raises Broken."""
        found = self.choices[0].get("message")
        if not isinstance(found, dict):
            raise self.broken("choices[0] has no message")
        return found

    @property
    def content(self) -> str:
        """The text of the first choice, "" for null. Raises Broken."""
        first = self.choices[0]
        return self._text(first["text"] if "text" in first else self.message.get("content"))

    @property
    def reasoning(self) -> str:
        """What a model thought before it spoke, where the server tells that apart. Raises Broken."""
        if "text" in self.choices[0]:
            return ""
        return "".join(self._text(self.message.get(name)) for name in _REASONING)

    @property
    def said(self) -> str:
        """All text that the model has written. Raises Broken."""
        return self.reasoning + self.content

    def _text(self, found: Any) -> str:
        if not isinstance(found, str | None):
            raise self.broken("The text of choices[0] is no string")
        return found or ""

    @property
    def finish(self) -> str | None:
        """The first choice's finish reason; JSON where it is no string. Raises Broken."""
        return _reason(self.choices[0])

    @property
    def usage(self) -> dict[str, int]:
        """The three counts. Raises Broken when one is missing or is no count."""
        return counts(self.good().body.get("usage"), self)

    @cached_property
    def error(self) -> dict[str, Any] | None:
        """What is in OpenAI's error envelope, None when there is none."""
        try:
            found = self.body.get("error")
        except Broken:
            return None
        ok = isinstance(found, dict) and isinstance(found.get("message"), str)
        return found if ok else None

    @property
    def error_message(self) -> str:
        """The message of the envelope, "" when there is none."""
        return self.error["message"] if self.error else ""


def read_json(text: str | bytes) -> Any:
    """What the JSON says. Raises ValueError when it is none, or is nested too deeply to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def excerpt(body: str) -> str:
    """What is kept of a body: a traceback tells its reason at its end."""
    long = len(body) > 2 * _EXCERPT
    return f"{body[:_EXCERPT]} ... {body[-_EXCERPT:]}" if long else body


def counts(usage: Any, answer: Answer) -> dict[str, int]:
    """The three counts of a usage block. Raises Broken with the answer that has it."""
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    found = usage if isinstance(usage, dict) else {}
    for name in names:
        if not _is_count(found.get(name)):
            raise answer.broken(f"usage.{name} is {json.dumps(found.get(name))} and not a count")
    return {name: found[name] for name in names}


def _reason(choice: dict[str, Any]) -> str | None:
    found = choice.get("finish_reason")
    return found if isinstance(found, str | None) else json.dumps(found)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@dataclass(frozen=True)
class Event:
    """One event of a stream: its data, and the read that its end came with."""

    data: str
    read: int


@dataclass(frozen=True)
class Stream:
    """A whole stream of events. `faults` is what is wrong with its form."""

    answer: Answer
    events: list[Event]
    faults: list[str] = field(default_factory=list)

    @cached_property
    def chunks(self) -> list[dict[str, Any]]:
        """The JSON objects of the events before [DONE]. Raises Broken."""
        self.answer.good()
        found = []
        for event in self.events:
            if event.data == "[DONE]":
                break
            try:
                chunk = read_json(event.data)
            except ValueError:
                raise self.answer.broken("An event of the stream is no JSON") from None
            if not isinstance(chunk, dict):
                raise self.answer.broken("An event of the stream is no JSON object")
            if "error" in chunk:
                raise self.answer.broken("The stream has an error instead of the answer")
            found.append(chunk)
        if not found:
            raise self.answer.broken("The stream has no events")
        return found

    def choices(self, index: int = 0) -> list[dict[str, Any]]:
        """The parts of one choice, in order."""
        parts = [
            choice
            for chunk in self.chunks
            if isinstance(chunk.get("choices"), list)
            for choice in chunk["choices"]
            if isinstance(choice, dict) and choice.get("index", 0) == index
        ]
        if not parts:
            raise self.answer.broken(f"The stream has no choice with index {index}")
        return parts

    def deltas(self, index: int = 0) -> list[dict[str, Any]]:
        """The deltas of one choice; {} where one is none."""
        return [d if isinstance(d := c.get("delta"), dict) else {} for c in self.choices(index)]

    def pieces(self, index: int = 0, names: Sequence[str] = (*_REASONING, "content")) -> list[str]:
        """The pieces of text of one choice, without empty ones. Raises Broken."""
        found = []
        for choice, delta in zip(self.choices(index), self.deltas(index), strict=True):
            texts = [choice["text"]] if "text" in choice else [delta.get(name) for name in names]
            if not all(isinstance(text, str | None) for text in texts):
                raise self.answer.broken("A piece of the stream's text is no string")
            found += [text for text in texts if text]
        return found

    def content(self) -> str:
        """The text of the first choice without what the model thought before."""
        return "".join(self.pieces(names=["content"]))

    def said(self, index: int = 0) -> str:
        """All text of one choice."""
        return "".join(self.pieces(index))

    def finishes(self, index: int = 0) -> list[str]:
        """The finish reasons of one choice that are not null; one, if all is well."""
        return [reason for c in self.choices(index) if (reason := _reason(c)) is not None]

    @property
    def finish(self) -> str | None:
        """The last finish reason of the first choice."""
        return next(reversed(self.finishes()), None)

    @property
    def usages(self) -> list[Any]:
        """The usage blocks that are not null."""
        return [u for chunk in self.chunks if (u := chunk.get("usage")) is not None]


def read_events(answer: Answer, reads: list[bytes]) -> Stream:
    """Takes the raw bytes of an answer apart, as they were read.

    The form is that of the WHATWG's "Server-sent events": UTF-8, lines that end in LF, CRLF or CR,
    events that end in an empty line. OpenAI sends `data` alone; other fields and comments are legal.
    """
    faults: list[str] = []
    raw = b"".join(reads)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        faults.append("the stream's bytes are no UTF-8")
        text = raw.decode("utf-8", errors="replace")
    kind = answer.headers.get("content-type", "")
    if not kind.startswith("text/event-stream"):
        faults.append(f"content-type is {kind!r} and not text/event-stream")
    ends = []
    for part in reads:
        ends.append(len(part) + (ends[-1] if ends else 0))
    events: list[Event] = []
    lines: list[str] = []
    position = read = 0
    for line in _LINE.findall(text):
        position += len(line.encode())
        while read < len(ends) - 1 and ends[read] < position:
            read += 1
        bare = line.rstrip("\r\n")
        if not bare:
            if lines:
                events.append(Event("\n".join(lines), read))
            lines = []
        elif bare.startswith("data:"):
            lines.append(bare[5:].removeprefix(" "))
        elif not bare.startswith((":", "event:", "id:", "retry:")):
            faults.append(f"a line is no field of an event: {bare[:60]!r}")
    if lines:
        faults.append("the last event has no empty line after it, so that no client sees it")
    return Stream(answer, events, faults)
