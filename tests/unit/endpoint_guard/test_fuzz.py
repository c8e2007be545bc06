"""The guard under requests that nobody would write: no failure of its own, no inside, no hang, no leak.

`pytest -s` prints how many requests there were, and how they were answered.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import random
import re
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from endpoint_guard.body import FIELDS
from endpoint_guard.record import logger
from endpoint_guard.settings import KeyLimits
from unit.endpoint_guard.calls import CHAT, COMPLETIONS, HELLO, TEXT, Call, guarded, well_formed
from unit.endpoint_guard.engine import Engine, part, refusing, sse, start, wrapped
from unit.endpoint_guard.openapi import DESCRIPTION

pytestmark = pytest.mark.anyio

SECONDS = 2.0  # within which any request is answered
INSIDE = "/opt/secret/engine.py"
FAST = settings().max_examples < 50
MORE = settings(max_examples=20 if FAST else 400, suppress_health_check=list(HealthCheck))

SCHEMA = schemathesis.openapi.from_dict(DESCRIPTION)
OPERATIONS = [
    SCHEMA[path][method.upper()] for path, item in DESCRIPTION["paths"].items() for method in item
]
REQUESTS = st.one_of(
    operation.as_strategy(generation_mode=mode)
    for operation in OPERATIONS
    for mode in GenerationMode
    if mode == GenerationMode.POSITIVE or operation.method == "post"
)


class Seen:
    """What was asked and answered in these tests."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.slowest = 0.0
        self.began = time.perf_counter()

    def __str__(self) -> str:
        statuses = ", ".join(
            f"{count} x {status}" for status, count in sorted(self.statuses.items())
        )
        took = time.perf_counter() - self.began
        return (
            f"{self.statuses.total()} requests in {took:.1f} s: {statuses};"
            f" the slowest took {self.slowest * 1e3:.0f} ms"
        )


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    seen = Seen()
    yield seen
    print(f"\n{seen}")


async def _raises(body: Any, send: Any) -> None:
    raise RuntimeError(INSIDE)


async def _breaks(body: Any, send: Any) -> None:
    await start(send, 200, "text/event-stream")
    await part(send, sse({"id": "a", "choices": [{"index": 0, "text": "x"}]}))
    await part(send, b"data: " + INSIDE.encode(), more=False)


# What the engine behind does, with the statuses that may come of it besides those of a request's own fault.
BEHIND = {
    "answers": (None, set()),
    "refuses": (refusing(400, wrapped(400, f"no: {INSIDE}")), set()),
    "fails": (refusing(500, wrapped(500, INSIDE)), {500}),
    "is away": (refusing(503, INSIDE.encode()), {503}),
    "raises": (_raises, {500}),
    "breaks": (_breaks, {500}),
}


async def ask(
    seen: Seen, behind: str, call: Call, *parts: bytes, hang_up: bool = False, end: bool = True
) -> int | None:
    """Makes the call, and judges what it was answered."""
    misbehave, may_be = BEHIND[behind]
    engine = call.guard.application
    engine.misbehave = misbehave
    began = time.perf_counter()
    call.begin()
    for number, each in enumerate(parts):
        call.say(each, more=number < len(parts) - 1 or not end)
    if hang_up:
        call.hang_up()
    await call.end()
    seen.slowest = max(seen.slowest, time.perf_counter() - began)
    seen.statuses[str(call.status or "client left")] += 1
    assert time.perf_counter() - began < SECONDS
    assert call.status is not None or hang_up
    assert call.status in {None, 200, *range(400, 500)} | may_be
    assert INSIDE.encode() not in call.content and b"Traceback" not in call.content
    assert (engine.running, call.guard.gate.inside, call.guard.gate.waiting) == (0, 0, 0)
    if call.status is None:
        return None
    assert call.ended or hang_up
    if call.status != 200:
        body = json.loads(call.content)
        assert set(body) == {"error"}
        well_formed(body["error"])
    elif call.sent[0]["headers"][0][1].startswith(b"text/event-stream") and not hang_up:
        for event in call.content.split(b"\n\n")[:-1]:
            if event != b"data: [DONE]" and "error" in (told := json.loads(event[6:])):
                well_formed(told["error"])
    return call.status


def guard(**options: Any):
    options = {"body_bytes": 4096, "body_seconds": 0.05, "context": 100, **options}
    return guarded(Engine(cached=1), **options)


# Out of the description


def test_the_description_has_every_field():
    for path, fields in FIELDS.items():
        content = DESCRIPTION["paths"][path]["post"]["requestBody"]["content"]
        assert set(content["application/json"]["schema"]["properties"]) == fields


@MORE
@given(REQUESTS, st.sampled_from(sorted(BEHIND)), st.booleans())
async def test_requests_out_of_the_description(seen, case, behind, apart):
    sent = case.as_transport_kwargs(base_url="http://endpoint")
    headers = [
        (str(name).lower().encode("latin-1", "replace"), str(value).encode("latin-1", "replace"))
        for name, value in sent["headers"].items()
    ]
    content = json.dumps(sent["json"]).encode() if "json" in sent else sent.get("data") or b""
    content = content if isinstance(content, bytes) else str(content).encode()
    path = sent["url"].removeprefix("http://endpoint")
    call = Call(guard(disaggregated=apart, body_bytes=2**20), path, headers, sent["method"])
    status = await ask(seen, behind, call, content)
    if case.meta.generation.mode.is_positive and sent["method"] == "POST" and behind == "answers":
        # But for a prompt list times n that is more than 16 choices, 1.0 and 10**30, which to a schema are
        # integers, and ids of a vocabulary that a minimum would put off.
        but = b"choices|whole number|64 bits|cannot go with"
        assert status == 200 or re.search(but, call.content)


# What no description describes

_WORDS = b'model n null true -1 1e999 NaN {} [] "\\ud800" "x" : , { } [ ] messages prompt stream 9'.split()


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """A request with some of its bytes taken out, doubled, or replaced."""
    content = bytearray(json.dumps(draw(st.sampled_from([HELLO, TEXT, {**TEXT, "n": 2}]))).encode())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 8))
        put = draw(st.one_of(st.sampled_from(_WORDS), st.binary(max_size=6), st.just(b"[" * 3000)))
        content[at : at + length] = put
    return bytes(content)


_PATHS = st.one_of(
    st.sampled_from([CHAT, COMPLETIONS]),
    st.sampled_from(
        [
            "//v1/chat/completions",
            "/v1/chat/completions/",
            "/v1/chat/../chat/completions",
            "/v1/chat%2Fcompletions",
            "/v1/models//",
            "/v1/models/../../etc/passwd",
            "/v1/models/%00",
            "/v1/models/" + "x" * 5000,
            "",
            "*",
            "/\x00",
        ]
    ),
    st.text(st.characters(codec="utf-8"), max_size=30).map("/v1/models/".__add__),
)
_HEADERS = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from(
                b"authorization content-length content-type content-encoding transfer-encoding x-request-id"
                b" accept expect host cookie serve_multiplexed_model_id".split()
            ),
            st.binary(min_size=1, max_size=12),
        ),
        st.one_of(
            st.sampled_from(
                [b"", b"Bearer x", b"-1", b"9" * 5000, b"gzip", b"chunked", b"x" * 9000]
            ),
            st.binary(max_size=40),
        ),
    ),
    max_size=6,
)
_METHODS = st.sampled_from(
    ["POST"] * 6 + ["GET", "HEAD", "OPTIONS", "TRACE", "CONNECT", "BREW", "", "post"]
)


@MORE
@given(
    _PATHS,
    _METHODS,
    _HEADERS,
    st.lists(
        st.one_of(mangled(), st.binary(max_size=40), st.just(b"x" * 3000)), min_size=1, max_size=3
    ),
    st.sampled_from(sorted(BEHIND)),
    st.booleans(),
    st.booleans(),
)
async def test_requests_that_are_none(seen, path, method, headers, parts, behind, hang_up, end):
    """Broken JSON and UTF-8, bodies that are too long or never end, and tricks with headers, methods and paths."""
    if not hang_up and not end and sum(map(len, parts)) < 4096:
        end = random.Random(len(parts[0])).random() < 0.8  # the others wait for the time-out
    await ask(seen, behind, Call(guard(), path, headers, method), *parts, hang_up=hang_up, end=end)


@MORE
@given(mangled(), st.sampled_from([CHAT, COMPLETIONS]), st.sampled_from(sorted(BEHIND)))
async def test_requests_that_are_nearly_right(seen, content, path, behind):
    await ask(seen, behind, Call(guard(), path), content)


# Memory


async def test_memory_is_flat(seen, monkeypatch):
    """What thousands of requests leave behind is less than one of them may be long."""
    monkeypatch.setattr(logger, "propagate", False)  # pytest keeps every record
    monkeypatch.setattr(logger, "handlers", [logging.NullHandler()])
    one = guard(
        limits=KeyLimits(tokens_per_minute=10**9, requests_per_minute=10**9), body_seconds=5
    )
    chance = random.Random(7)

    async def some(count: int) -> None:
        for _ in range(count):
            path = chance.choice([CHAT, COMPLETIONS, "/v1/models/" + chance.randbytes(8).hex()])
            body = dict(HELLO if path == CHAT else TEXT)
            body["stream"], body["n"] = chance.random() < 0.5, chance.choice([1, 1, 2, "x", 99])
            content = bytearray(
                json.dumps(
                    {**body, chance.choice("ab"): 1} if chance.random() < 0.2 else body
                ).encode()
            )
            if chance.random() < 0.3:
                content[chance.randrange(len(content))] = chance.randrange(256)
            headers = [(b"x-request-id", chance.randbytes(8).hex().encode())]
            behind = chance.choice(sorted(BEHIND))
            call = Call(one, path, headers, chance.choice(["POST", "POST", "POST", "GET"]))
            await ask(seen, behind, call, bytes(content), hang_up=chance.random() < 0.1)
            one.application.asked.clear()
        gc.collect()

    tracemalloc.start()
    try:
        await some(200 if FAST else 500)
        before, _ = tracemalloc.get_traced_memory()
        await some(300 if FAST else 2000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    print(f"\n{(after - before) / 1024:.0f} KiB more after the last of them")
    assert after - before < 1_000_000
    assert len(asyncio.all_tasks()) <= 3
