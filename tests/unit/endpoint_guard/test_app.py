"""A request through the guard, from its first byte to its last."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from endpoint_guard.app import Guard
from endpoint_guard.body import FIELDS
from endpoint_guard.settings import KeyLimits, Settings
from unit.endpoint_guard.calls import (
    CHAT,
    COMPLETIONS,
    HELLO,
    TEXT,
    Call,
    ask,
    chunks,
    envelope,
    guarded,
    nothing_left,
    until,
    well_formed,
)
from unit.endpoint_guard.engine import (
    MODEL,
    Engine,
    part,
    refusing,
    respond,
    sse,
    start,
    unreadable,
    wrapped,
)

pytestmark = pytest.mark.anyio

KEY = "sk-alice-0123456789"
BEARER = {"authorization": f"Bearer {KEY}"}
ASKED = {CHAT: HELLO, COMPLETIONS: TEXT}


@pytest.fixture
def keys(tmp_path):
    (tmp_path / "alice").write_text(KEY)
    return tmp_path


@pytest.fixture
def records():
    return []


def watched(engine, records, **settings) -> Guard:
    return Guard(engine, (MODEL,), settings=Settings(**settings), observe=records.append)


# What there is besides the model


async def test_models_are_listed_as_openai_lists_them():
    body = (await ask(guarded(context=4096), "/v1/models")).json()
    assert body["object"] == "list"
    (card,) = body["data"]
    assert card["id"] == MODEL and card["object"] == "model"
    assert isinstance(card["created"], int) and isinstance(card["owned_by"], str)
    assert card["max_model_len"] == 4096
    assert (await ask(guarded(context=4096), f"/v1/models/{MODEL}")).json().keys() == card.keys()
    assert "max_model_len" not in (await ask(guarded(), f"/v1/models/{MODEL}")).json()


async def test_a_model_may_have_a_slash_in_its_name():
    guard = Guard(Engine(), ("org/tiny",))
    for path in ("/v1/models/org/tiny", "/v1/models/org%2Ftiny"):
        assert (await ask(guard, path)).json()["id"] == "org/tiny"


async def test_a_model_that_is_not_there_is_404():
    response = await ask(guarded(), "/v1/models/gpt-4")
    assert response.status_code == 404
    assert envelope(response)["code"] == "model_not_found"


async def test_health_is_what_it_is_told():
    assert (await ask(guarded(), "/health")).json() == {"status": "ok"}
    for well in (True, False):

        async def healthy(well=well):
            return well

        response = await ask(Guard(Engine(), (MODEL,), healthy=healthy), "/health")
        assert response.status_code == (200 if well else 503)
        if not well:
            assert envelope(response)["code"] == "model_unavailable"


async def test_version_is_the_engines():
    assert (await ask(guarded(), "/version")).json() == {"version": "0.26.0"}


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v1/responses",
        "/v1/embeddings",
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/chat%2Fcompletions%00",
        "/v1/../v1/chat/completions",
        "/V1/CHAT/COMPLETIONS",
        "/docs",
        "/openapi.json",
        "/metrics",
        "/-/routes",
        "/v1/models/../chat/completions",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_whatever_else_is_asked_for_is_not_there_and_no_engine_hears_of_it(path, method):
    engine = Engine()
    call = Call(guarded(engine), path, method=method).begin().say(HELLO)
    await call.end()
    assert call.status in (404, 405)
    well_formed(json.loads(call.content)["error"])
    assert engine.asked == []


async def test_a_missing_api_says_what_to_use():
    assert "/v1/chat/completions" in envelope(await ask(guarded(), "/v1/responses"))["message"]


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        (CHAT, "GET", "POST"),
        (COMPLETIONS, "PUT", "POST"),
        (CHAT, "OPTIONS", "POST"),
        (CHAT, "X" * 5000, "POST"),
        ("/v1/models", "POST", "GET, HEAD"),
        (f"/v1/models/{MODEL}", "DELETE", "GET, HEAD"),
        ("/health", "POST", "GET, HEAD"),
        ("/version", "PATCH", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_told_the_right_one(path, method, allowed):
    response = await ask(guarded(), path, method=method)
    assert response.status_code == 405 and response.headers["allow"] == allowed
    assert envelope(response)["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/version"])
async def test_head_is_get_without_a_body(path):
    assert (await ask(guarded(), path, method="HEAD")).status_code == 200


async def test_below_a_prefix_paths_are_the_same():
    async def prefixed(scope, receive, send):
        await guard({**scope, "root_path": "/llm"}, receive, send)

    guard = guarded()
    assert (await ask(prefixed, "/llm/v1/chat/completions", HELLO)).status_code == 200
    assert (await ask(prefixed, "/llm/v1/models")).status_code == 200


async def test_the_applications_lifespan_is_its_own():
    seen = []

    async def application(scope, receive, send):
        seen.append(scope["type"])

    await Guard(application, (MODEL,))({"type": "lifespan"}, None, None)
    assert seen == ["lifespan"]


async def test_websockets_are_closed():
    sent = []

    async def send(message):
        sent.append(message)

    await guarded()({"type": "websocket"}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1003}]


# Answers


@pytest.mark.parametrize("path", FIELDS)
async def test_an_answer_is_the_engines_without_what_engines_tell_each_other(path):
    body = (await ask(guarded(), path, ASKED[path])).json()
    assert body["choices"] and body["usage"]["total_tokens"] == 7
    assert not body.keys() & {"kv_transfer_params", "ec_transfer_params", "metrics"}


@pytest.mark.parametrize("path", FIELDS)
async def test_a_stream_is_the_engines(path):
    response = await ask(guarded(), path, {**ASKED[path], "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert response.content.endswith(b"data: [DONE]\n\n")
    events = chunks(response)
    assert all(event["choices"] for event in events)
    assert not any(event.keys() & {"usage", "metrics"} for event in events)


async def test_a_letter_that_is_not_ascii_arrives():
    words = "größe 😀 漢字"
    body = {**TEXT, "prompt": words, "max_tokens": 3}
    assert (await ask(guarded(), COMPLETIONS, body)).json()["choices"][0]["text"] == f" {words}"


@pytest.mark.parametrize("path", FIELDS)
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("apart", [True, False])
async def test_usage_is_the_same_whole_and_streamed_and_what_is_written_down(
    path, n, apart, records
):
    guard = watched(Engine(cached=2), records, disaggregated=apart)
    asked = {**ASKED[path], "n": n, "max_tokens": 5}
    whole = (await ask(guard, path, asked)).json()["usage"]
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *events, last = chunks(await ask(guard, path, {**asked, **options}))
    await ask(guard, path, {**asked, "stream": True})
    assert whole == {
        "prompt_tokens": 3,
        "completion_tokens": 5 * n,
        "total_tokens": 3 + 5 * n,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    assert last["usage"] == whole and last["choices"] == []
    assert not any("usage" in event for event in events)
    counts = {(each.prompt_tokens, each.completion_tokens, each.cached_tokens) for each in records}
    assert counts == {(3, 5 * n, 2)} and len(records) == 3


async def test_counts_in_between_are_seen_when_asked_for():
    options = {"include_usage": True, "continuous_usage_stats": True}
    asked = {**TEXT, "stream": True, "stream_options": options}
    events = chunks(await ask(guarded(), COMPLETIONS, asked))
    assert [event["usage"]["completion_tokens"] for event in events] == [1, 2, 3, 4, 4]


async def test_an_engine_gets_an_id_of_the_guards_own():
    engine = Engine()
    for _ in range(2):
        await ask(guarded(engine), CHAT, HELLO)
    assert len({each["request_id"] for each in engine.asked}) == 2


@pytest.mark.parametrize("sent", [b"abc-1.2:3_4", b"", b"\xff\xfe", b"a b", b"x" * 5000, b'"}'])
async def test_the_clients_id_is_that_of_the_request_where_it_is_one(sent, records):
    engine = Engine()
    call = Call(watched(engine, records), headers=[(b"X-Request-Id", sent)]).begin().say(HELLO)
    await call.end()
    named = records[0].request_id
    assert engine.headers[b"x-request-id"] == named.encode()
    assert (named.encode() == sent) == (sent == b"abc-1.2:3_4")
    assert len(named) <= 128


@pytest.mark.parametrize("asked", [HELLO, {**HELLO, "stream": True}], ids=["whole", "streamed"])
async def test_server_timing_is_told_when_the_operator_wants_it(asked):
    assert "server-timing" not in (await ask(guarded(), CHAT, asked)).headers
    told = (await ask(guarded(server_timing=True), CHAT, asked)).headers["server-timing"]
    names = [each.partition(";")[0] for each in told.split(", ")]
    assert names == (
        ["queue", "first_token"]
        if "stream" in asked
        else ["queue", "prefill", "kv_transfer", "first_token", "decode"]
    )


async def test_settings_hold_from_the_next_request_on():
    guard = guarded()
    assert (await ask(guard, CHAT, {**HELLO, "n": 2})).status_code == 200
    guard.settings = Settings(choices=1)
    assert (await ask(guard, CHAT, {**HELLO, "n": 2})).status_code == 400


# Bodies


@pytest.mark.parametrize("told", [True, False])
async def test_a_body_that_is_too_long_is_not_read_to_its_end(told):
    engine = Engine()
    headers = [(b"content-length", b"1000000")] if told else []
    call = Call(guarded(engine, body_bytes=1000), headers=headers).begin()
    if not told:
        for _ in range(11):
            call.say(b"x" * 100, more=True)
    await call.end()
    assert call.status == 413 and engine.asked == []
    error = well_formed(json.loads(call.content)["error"])
    assert error["code"] == "request_too_large" and "1000 bytes" in error["message"]


async def test_a_body_that_is_as_long_as_it_may_be_is_read():
    length = len(json.dumps(HELLO).encode())
    call = Call(guarded(body_bytes=length)).begin().say(HELLO)
    assert (await call.end()).status == 200
    call = Call(guarded(body_bytes=length - 1)).begin().say(HELLO)
    assert (await call.end()).status == 413


@pytest.mark.parametrize("length", [b"-1", b"abc", b"", b"9" * 5000, b"\xb2", b"0"])
async def test_a_length_is_only_a_hint(length):
    call = Call(guarded(), headers=[(b"content-length", length)]).begin().say(HELLO)
    assert (await call.end()).status == (413 if length.startswith(b"9") else 200)


async def test_a_body_may_come_in_any_parts():
    call = Call(guarded()).begin()
    content = json.dumps(HELLO).encode()
    for byte in content:
        call.say(bytes([byte]), more=True)
    call.say(b"")
    assert (await call.end()).status == 200


async def test_a_body_that_comes_too_slowly_is_given_up():
    async with nothing_left():
        call = Call(guarded(body_seconds=0.03)).begin().say(b"{", more=True)
        await call.end()
    assert call.status == 408
    assert "within 0.03 s" in well_formed(json.loads(call.content)["error"])["message"]


@pytest.mark.parametrize(
    "body",
    [b"{", b"\xff", b"[]", b'{"model": NaN}', b"[" * 100_000, b'{"a": "\\ud800"}', b"", b"null"],
    ids=lambda body: repr(body[:20]),
)
@pytest.mark.parametrize("path", FIELDS)
async def test_a_body_that_is_no_request_is_refused(path, body):
    engine = Engine()
    response = await ask(guarded(engine), path, body)
    assert response.status_code == 400 and engine.asked == []
    assert envelope(response)["code"] == "invalid_json"


@pytest.mark.parametrize(
    "extra",
    [{"seed": "x"}, {"stream": True, "stream_options": []}, {"n": "2"}, {"kv_transfer_params": {}}],
    ids=str,
)
@pytest.mark.parametrize("n", [1, 2])
async def test_a_wrong_value_is_the_clients_fault(extra, n):
    response = await ask(guarded(), CHAT, {**HELLO, "n": n, **extra})
    assert response.status_code == 400
    assert envelope(response)["param"] in (*extra, "n")


# Keys


async def test_nothing_is_told_without_a_key_but_health(keys):
    engine = Engine()
    guard = guarded(engine, keys=keys, api_keys=True)
    for path in (CHAT, COMPLETIONS, "/v1/models", f"/v1/models/{MODEL}", "/version", "/", "/x"):
        for method in ("GET", "POST", "HEAD"):
            response = await ask(guard, path, method=method)
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
    assert (await ask(guard, "/health")).status_code == 200
    assert engine.asked == []


async def test_a_request_without_a_key_is_refused_before_its_body_is_read(keys):
    call = Call(guarded(keys=keys, api_keys=True)).begin()
    await call.end()
    assert call.status == 401


async def test_a_key_lets_in_and_its_name_is_written_down(keys, records):
    guard = Guard(
        Engine(), (MODEL,), settings=Settings(api_keys=True), keys=keys, observe=records.append
    )
    assert (await ask(guard, CHAT, HELLO, headers=BEARER)).status_code == 200
    assert records[0].key == "alice"


async def test_of_two_keys_one_is_looked_at(keys):
    for given in ([b"Bearer x", KEY], [KEY, b"Bearer x"]):
        headers = [
            (b"authorization", f"Bearer {each}".encode() if isinstance(each, str) else each)
            for each in given
        ]
        call = Call(guarded(keys=keys, api_keys=True), headers=headers).begin().say(HELLO)
        await call.end()
        assert call.status == (200 if given[1] == KEY else 401)


async def test_without_keys_any_is_taken_and_none_is_passed_on():
    engine = Engine()
    assert (await ask(guarded(engine), CHAT, HELLO, headers=BEARER)).status_code == 200
    assert b"authorization" not in engine.headers


@pytest.mark.parametrize("given", [KEY, "sk-wrong-9876543210"])
async def test_a_key_is_in_no_answer_and_in_no_line_of_the_log(keys, given, caplog, records):
    caplog.set_level(logging.DEBUG)
    engine = Engine()
    guard = Guard(
        engine, (MODEL,), settings=Settings(api_keys=True), keys=keys, observe=records.append
    )

    async def broken(body, send):
        raise ValueError("inside")

    bodies = [HELLO, {**HELLO, "stream": True}, {**HELLO, "n": 2}, {**HELLO, "x": 1}, b"{"]
    for misbehaviour in (None, refusing(400, wrapped(400, "no")), broken):
        engine.misbehave = misbehaviour
        for body in bodies:
            response = await ask(guard, CHAT, body, headers={"authorization": f"Bearer {given}"})
            assert given not in response.text and given not in str(response.headers)
    assert caplog.records and given not in caplog.text
    assert not any(given in str(vars(each)) for each in caplog.records)
    assert given not in repr(records) and given not in repr(vars(guard))


async def test_what_a_key_may_use_is_counted(keys):
    limits = {"alice": KeyLimits(tokens_per_minute=10)}
    guard = guarded(keys=keys, api_keys=True, key_limits=limits)
    asked = {**HELLO, "max_tokens": 20, "stream": True}
    assert (await ask(guard, CHAT, asked, headers=BEARER)).status_code == 200
    response = await ask(guard, CHAT, asked, headers=BEARER)
    assert response.status_code == 429
    assert envelope(response)["type"] == "rate_limit_error"
    # 23 of 10 were used: 13 and one are to come back, at ten a minute.
    assert 80 <= int(response.headers["retry-after"]) <= 84


async def test_requests_at_once_of_a_key(keys):
    engine = Engine(held=True)
    guard = guarded(engine, keys=keys, api_keys=True, limits=KeyLimits(concurrent_requests=1))
    headers = [(b"authorization", BEARER["authorization"].encode())]
    first = Call(guard, headers=headers).begin().say(HELLO)
    await until(lambda: engine.asked)
    response = await ask(guard, CHAT, HELLO, headers=BEARER)
    assert (response.status_code, response.headers["retry-after"]) == (429, "1")
    first.hang_up()
    await first.end()
    engine.held = False
    assert (await ask(guard, CHAT, HELLO, headers=BEARER)).status_code == 200


# More than can be answered


async def test_what_is_too_much_waits_and_then_is_refused():
    engine = Engine(held=True)
    guard = guarded(engine, in_flight=1, queue=1, queue_seconds=0.05)
    first, second = (Call(guard).begin().say(HELLO) for _ in range(2))
    await until(lambda: guard.gate.waiting)
    response = await ask(guard, CHAT, HELLO)
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert envelope(response)["code"] == "overloaded"
    await second.end()
    assert second.status == 503
    assert len(engine.asked) == 1
    engine.held = False
    await first.end()
    assert first.status == 200 and guard.gate.inside == 0


async def test_the_queue_keeps_its_order():
    engine = Engine(held=True)
    guard = guarded(engine, in_flight=1)
    calls = []
    for number in range(5):
        calls.append(Call(guard).begin().say({**HELLO, "user": str(number)}))
        await until(lambda number=number: guard.gate.inside + guard.gate.waiting == number + 1)
    engine.held = False
    for call in calls:
        await call.end()
    assert [each["user"] for each in engine.asked] == ["0", "1", "2", "3", "4"]


# A client that hangs up


@pytest.mark.parametrize("parts", [[], [b"{"], [b"{", b'"model'], [b""]])
async def test_a_client_that_hangs_up_within_its_body_is_let_go(parts, records):
    engine = Engine()
    async with nothing_left():
        call = Call(watched(engine, records)).begin()
        for each in parts:
            call.say(each, more=True)
        await call.hang_up().end()
    assert call.sent == [] and engine.asked == []
    assert records[0].cut


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_client_that_hangs_up_ends_everything_behind(n, stream, begun, records):
    engine = Engine(held=not begun, step=0.005)
    guard = watched(engine, records)
    async with nothing_left():
        call = Call(guard).begin().say({**HELLO, "n": n, "stream": stream, "max_tokens": 60})
        await until(lambda: len(engine.asked) == n)
        if begun and stream:
            await until(lambda: b" two" in call.content)
        await call.hang_up().end()
    assert (engine.running, engine.cancelled) == (0, n)
    assert guard.gate.inside == 0 and records[0].cut
    assert call.status in ((200, None) if stream else (None,))
    if begun and stream:
        assert 0 < records[0].completion_tokens < 60 * n
        assert records[0].prompt_tokens == 3


async def test_a_client_that_hangs_up_in_the_queue_loses_nobody_a_place():
    engine = Engine(held=True)
    guard = guarded(engine, in_flight=1)
    async with nothing_left():
        first = Call(guard).begin().say(HELLO)
        await until(lambda: engine.asked)
        waiting = Call(guard).begin().say(HELLO)
        await until(lambda: guard.gate.waiting == 1)
        await waiting.hang_up().end()
        assert guard.gate.waiting == 0 and waiting.sent == []
        last = Call(guard).begin().say(HELLO)
        engine.held = False
        await first.end()
        await last.end()
    assert last.status == 200 and len(engine.asked) == 2
    assert guard.gate.inside == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_that_cancels_the_request_ends_everything_behind(stream, records):
    engine = Engine(held=True)
    guard = watched(engine, records)
    async with nothing_left():
        call = Call(guard).begin().say({**HELLO, "n": 2, "stream": stream})
        await until(lambda: len(engine.asked) == 2)
        assert call.task
        call.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call.task
    assert (engine.running, guard.gate.inside) == (0, 0)
    assert records[0].cut


async def test_a_client_that_does_not_read_is_let_go_when_it_hangs_up():
    engine = Engine()
    guard = guarded(engine)
    stuck = asyncio.Event()
    said: asyncio.Queue = asyncio.Queue()
    said.put_nowait(
        {"type": "http.request", "body": json.dumps({**HELLO, "stream": True}).encode()}
    )

    async def send(message):
        stuck.set()
        await asyncio.sleep(60)

    scope = {"type": "http", "method": "POST", "path": CHAT, "headers": []}
    async with nothing_left(), asyncio.timeout(2):
        task = asyncio.create_task(guard(scope, said.get, send))
        await stuck.wait()
        said.put_nowait({"type": "http.disconnect"})
        await task
    assert (engine.running, guard.gate.inside) == (0, 0)


# An application behind that misbehaves


async def _raises(body, send):
    raise RuntimeError("/opt/secret/engine.py broke")


async def _says_nothing(body, send):
    return


async def _starts_and_raises(body, send):
    await start(send, 200, "application/json")
    raise RuntimeError("/opt/secret/engine.py broke")


async def _gives_up(body, send):
    raise asyncio.CancelledError


async def _stream_of_nothing(body, send):
    await start(send, 200, "text/event-stream")
    await part(send, b"", more=False)


async def _stream_of_words(body, send):
    await start(send, 200, "text/event-stream")
    await part(send, b"Traceback (most recent call last): /opt/secret/engine.py\n\n", more=False)


async def _stream_of_an_error(body, send):
    await start(send, 200, "text/event-stream")
    error = {"error": {"message": "/opt/secret/engine.py broke", "code": 500}}
    await part(send, sse(error) + b"data: [DONE]\n\n", more=False)


def _content(content, status=200):
    async def misbehave(body, send):
        await respond(send, content, status)

    return misbehave


@pytest.mark.parametrize(
    "misbehave",
    [
        _raises,
        _says_nothing,
        _starts_and_raises,
        _gives_up,
        _stream_of_nothing,
        _stream_of_words,
        _stream_of_an_error,
        _content(b"{"),
        _content(b""),
        _content(b"/opt/secret/engine.py"),
        _content([1]),
        _content(None),
        _content({}, 204),
        _content(b"/opt/secret/engine.py", 302),
        _content(b"/opt/secret/engine.py", 500),
        _content(wrapped(500, "x"), 500),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 2])
async def test_a_failure_is_an_envelope_and_says_nothing_of_the_inside(
    misbehave, stream, n, records
):
    guard = watched(Engine(misbehave=misbehave), records)
    async with nothing_left():
        response = await ask(guard, CHAT, {**HELLO, "stream": stream, "n": n})
    assert response.status_code == records[0].status == 500
    assert envelope(response)["code"] == "model_failed"
    assert "secret" not in response.text
    assert guard.gate.inside == 0


@pytest.mark.parametrize("end", ["raise", "return", "end", "no json", "error", "cancel"])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("n", [1, 2])
async def test_a_failure_within_a_stream_is_its_last_event(end, together, n, records):
    event = {
        "id": "a",
        "choices": [{"index": 0, "delta": {"content": "x"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }
    last = {
        "no json": b"data: /opt/secret/engine.py\n\n",
        "error": sse({"error": {"message": "/opt/secret/engine.py broke", "code": 500}}),
    }.get(end, b"")

    async def misbehave(body, send):
        await start(send, 200, "text/event-stream")
        if together:
            await part(send, sse(event) + last)
        else:
            await part(send, sse(event))
            await asyncio.sleep(0.01)
            await part(send, last)
        if end == "raise":
            raise RuntimeError("/opt/secret/engine.py broke")
        if end == "cancel":
            raise asyncio.CancelledError
        if end != "return":
            await part(send, b"", more=False)

    guard = watched(Engine(misbehave=misbehave), records)
    async with nothing_left():
        response = await ask(guard, CHAT, {**HELLO, "stream": True, "n": n})
    assert response.status_code == 200
    *before, error = chunks(response)
    assert set(error) == {"error"}
    assert well_formed(error["error"])["code"] == "model_failed"
    assert before and all(each["choices"] for each in before)
    assert "secret" not in response.text
    assert (records[0].status, records[0].code) == (500, "model_failed")
    assert records[0].completion_tokens == 2 * len({e["choices"][0]["index"] for e in before})


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_of_the_engine_is_told_in_its_words(n, stream):
    body = unreadable("Input should be a valid string", ("body", "messages", 0, "content"), {})
    guard = guarded(Engine(misbehave=refusing(400, body)))
    response = await ask(guard, CHAT, {**HELLO, "n": n, "stream": stream})
    assert response.status_code == 400
    assert envelope(response)["param"] == "messages"


async def test_a_failure_is_in_the_log_under_the_requests_id(caplog):
    guard = guarded(Engine(misbehave=_raises))
    await ask(guard, CHAT, HELLO, headers={"x-request-id": "r-17"})
    (failure,) = [each for each in caplog.records if each.exc_info]
    assert "r-17" in failure.getMessage() and "broke" in caplog.text


async def test_a_failure_to_answer_the_client_is_the_servers_to_see():
    async def send(message):
        raise OSError("gone")

    call = Call(guarded())
    scope = {"type": "http", "method": "GET", "path": "/health", "headers": []}
    with pytest.raises(OSError, match="gone"):
        await guarded()(scope, call._said.get, send)


# What is written down


async def test_every_request_for_an_answer_is_written_down_once(records, caplog):
    caplog.set_level("INFO", "ray.serve.endpoint")
    guard = watched(Engine(), records)
    for path, body in (
        (CHAT, HELLO),
        (CHAT, {**HELLO, "stream": True}),
        (CHAT, b"{"),
        (CHAT, None),
    ):
        await ask(guard, path, body)
    for path in ("/v1/models", "/health", "/x"):
        await ask(guard, path)
    assert [(each.status, each.code, each.stream) for each in records] == [
        (200, None, False),
        (200, None, True),
        (400, "invalid_json", False),
        (405, "method_not_allowed", False),
    ]
    assert len([each for each in caplog.messages if each.startswith("request {")]) == 4


async def test_neither_prompt_nor_answer_is_written_down(records, caplog):
    caplog.set_level(logging.DEBUG)
    engine = Engine()
    guard = watched(engine, records)
    asked = {**TEXT, "prompt": "mysecretprompt"}
    for misbehaviour in (None, _raises, _content(b"{"), _content(b"mysecretprompt", 400)):
        engine.misbehave = misbehaviour
        for stream in (False, True):
            await ask(guard, COMPLETIONS, {**asked, "stream": stream})
    assert "mysecretprompt" not in caplog.text and "mysecretprompt" not in repr(records)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_stages_of_a_request_are_written_down(stream, records):
    guard = watched(Engine(step=0.002), records)
    await ask(guard, CHAT, {**HELLO, "stream": stream})
    stages = records[0].stages
    assert set(stages) == {"queue", "prefill", "kv_transfer", "first_token", "decode"}
    assert (stages["kv_transfer"], stages["decode"]) == (0.002, 0.008)
