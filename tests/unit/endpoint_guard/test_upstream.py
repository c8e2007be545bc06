"""Asking the application behind."""

from __future__ import annotations

import asyncio
import json

import pytest

from endpoint_guard.upstream import Broke, ask
from unit.endpoint_guard.calls import TEXT, nothing_left, until
from unit.endpoint_guard.engine import Engine, part, respond, start

pytestmark = pytest.mark.anyio

SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/v1/completions",
    "headers": [
        (b"Authorization", b"Bearer sk-secret"),
        (b"content-length", b"999"),
        (b"transfer-encoding", b"chunked"),
        (b"accept-encoding", b"gzip"),
        (b"x-request-id", b"r1"),
    ],
}


async def test_the_answer_of_the_application_comes_as_it_is():
    async with nothing_left(), ask(Engine(), SCOPE, TEXT) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert json.loads(await answer.content())["object"] == "text_completion"


async def test_the_request_is_another_with_the_headers_that_fit_it():
    engine = Engine()
    async with ask(engine, SCOPE, {"prompt": "é"}):
        pass
    sent = json.dumps({"prompt": "é"}).encode()
    assert engine.asked == [{"prompt": "é"}]
    assert engine.headers == {
        b"x-request-id": b"r1",
        b"content-type": b"application/json",
        b"content-length": str(len(sent)).encode(),
    }
    assert (b"content-length", b"999") in SCOPE["headers"]  # the client's own scope is left alone


@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_ends_the_application(stream):
    engine = Engine(held=True)
    async with nothing_left():
        task = asyncio.create_task(_content(engine, {**TEXT, "stream": stream}))
        await until(lambda: engine.asked)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (engine.running, engine.cancelled) == (0, 1)


async def _content(engine, body) -> bytes:
    async with ask(engine, SCOPE, body) as answer:
        return await answer.content()


async def test_leaving_early_ends_the_application():
    engine, body = Engine(), {**TEXT, "stream": True, "max_tokens": 60}
    async with nothing_left(), ask(engine, SCOPE, body) as answer:
        async for _ in answer.parts:
            break
    assert (engine.running, engine.cancelled) == (0, 1)


async def test_the_application_is_not_far_ahead_of_the_reader():
    sent = 0

    async def application(scope, receive, send):
        nonlocal sent
        await start(send, 200, "text/event-stream")
        while True:
            await part(send, b"x")
            sent += 1

    async with ask(application, SCOPE, TEXT):
        await asyncio.sleep(0.02)
        assert 1 < sent < 50


async def _raises(scope, receive, send):
    raise ValueError("inside")


async def _returns(scope, receive, send):
    return


async def _gives_up(scope, receive, send):
    raise asyncio.CancelledError


@pytest.mark.parametrize("application", [_raises, _returns, _gives_up])
async def test_an_application_that_ends_before_its_answer_broke(application):
    async with nothing_left(), asyncio.timeout(2):
        with pytest.raises(Broke):
            async with ask(application, SCOPE, TEXT):
                raise AssertionError


@pytest.mark.parametrize("end", [_raises, _returns, _gives_up])
async def test_an_application_that_ends_within_its_answer_broke(end):
    async def application(scope, receive, send):
        await start(send, 200, "text/event-stream")
        await part(send, b"some")
        await end(scope, receive, send)

    async with nothing_left(), asyncio.timeout(2), ask(application, SCOPE, TEXT) as answer:
        with pytest.raises(Broke):
            await answer.content()


async def test_an_application_that_sends_on_when_it_was_ended_does_not_hang():
    """As a middleware does that turns every exception into an answer."""

    async def application(scope, receive, send):
        await start(send, 200, "text/event-stream")
        while True:
            try:
                await part(send, b"x")
            except asyncio.CancelledError:
                await respond(send, {"error": "x"}, 500)

    async with nothing_left(), asyncio.timeout(2), ask(application, SCOPE, TEXT):
        await asyncio.sleep(0.01)


async def test_an_application_that_ends_in_silence_when_it_was_ended_does_not_hang():
    async def application(scope, receive, send):
        await start(send, 200, "text/event-stream")
        try:
            while True:
                await part(send, b"x")
        except asyncio.CancelledError:
            return

    async with nothing_left(), asyncio.timeout(2), ask(application, SCOPE, TEXT):
        await asyncio.sleep(0.01)


async def test_an_application_that_listens_for_the_clients_end_waits():
    heard = []

    async def application(scope, receive, send):
        await receive()
        await start(send, 200, "application/json")
        heard.append(await receive())

    async with nothing_left(), ask(application, SCOPE, TEXT) as answer:
        await asyncio.sleep(0.01)
        assert answer.status == 200 and heard == []
