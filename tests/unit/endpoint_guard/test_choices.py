"""One request as several."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoint_guard.choices import ask_each, several
from endpoint_guard.upstream import Broke
from unit.endpoint_guard.calls import HELLO, TEXT, chunks, nothing_left, until
from unit.endpoint_guard.engine import Engine, part, respond, sse, start, wrapped

pytestmark = pytest.mark.anyio

SCOPES = {
    name: {"type": "http", "method": "POST", "path": f"/v1/{path}", "headers": []}
    for name, path in (("chat", "chat/completions"), ("text", "completions"))
}
STREAM = {
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}


async def answered(engine, body) -> tuple[int, bytes]:
    scope = SCOPES["chat" if "messages" in body else "text"]
    async with asyncio.timeout(5), ask_each(engine, scope, body) as answer:
        return answer.status, await answer.content()


async def whole(engine, body) -> dict:
    status, content = await answered(engine, body)
    assert status == 200
    return json.loads(content)


async def streamed(engine, body) -> list[dict]:
    status, content = await answered(engine, {**body, **STREAM})
    assert status == 200 and content.endswith(b"data: [DONE]\n\n")
    assert content.count(b"[DONE]") == 1
    return chunks(content)


@pytest.mark.parametrize(
    ("body", "so"),
    [
        (HELLO, False),
        ({**HELLO, "n": 1}, False),
        ({**HELLO, "n": None}, False),
        ({**HELLO, "n": 2}, True),
        (TEXT, False),
        ({**TEXT, "prompt": ["a"]}, False),
        ({**TEXT, "prompt": ["a", "b"]}, True),
        ({**TEXT, "prompt": [1, 2, 3]}, False),
        ({**TEXT, "prompt": [[1, 2], [3]]}, True),
    ],
)
def test_more_than_one_choice_is_several(body, so):
    assert several(body) is so


async def test_each_choice_is_asked_for_by_itself():
    engine = Engine()
    await whole(engine, {**TEXT, "prompt": ["a", "b"], "n": 2, "seed": 7, "request_id": "r"})
    asked = [(each["prompt"], each["n"], each["seed"]) for each in engine.asked]
    assert asked == [("a", 1, 7), ("a", 1, 8), ("b", 1, 7), ("b", 1, 8)]
    assert len({each["request_id"] for each in engine.asked} | {"r"}) == 5


async def test_without_a_seed_none_is_sent():
    engine = Engine()
    await whole(engine, {**HELLO, "n": 2})
    assert all("seed" not in each and "prompt" not in each for each in engine.asked)


async def test_all_are_asked_at_once():
    engine = Engine(step=0.01)
    await whole(engine, {**HELLO, "n": 5})
    assert engine.most_running == 5


async def test_choices_are_in_the_order_of_the_prompts():
    body = await whole(Engine(), {**TEXT, "prompt": ["a", "b c"], "n": 2, "max_tokens": 2})
    said = [(each["index"], each["text"]) for each in body["choices"]]
    assert said == [(0, " a a"), (1, " a a"), (2, " b c"), (3, " b c")]
    usage = {"prompt_tokens": 3, "completion_tokens": 8, "total_tokens": 11}
    assert body["usage"] == usage


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(1, 3), st.integers(1, 4))
async def test_usage_is_the_same_whole_and_streamed_and_what_each_alone_would_cost(
    sizes, n, longest
):
    texts = [" ".join(["word"] * size) for size in sizes]
    body = {**TEXT, "prompt": texts, "n": n, "max_tokens": longest}
    engine = Engine(cached=1)
    prompt, completion = sum(sizes), len(sizes) * n * longest
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": len(sizes)},
    }
    assert (await whole(engine, body))["usage"] == usage
    assert (await streamed(engine, body))[-1]["usage"] == usage


@pytest.mark.parametrize("asked", [HELLO, TEXT], ids=["chat", "text"])
async def test_a_stream_has_one_id_each_choices_events_and_one_last_count(asked):
    events = await streamed(Engine(), {**asked, "n": 3, "max_tokens": 2})
    assert len({each["id"] for each in events}) == 1
    *some, last = events
    assert last["choices"] == [] and "metrics" not in last
    texts = {0: "", 1: "", 2: ""}
    for event in some:
        (choice,) = event["choices"]
        texts[choice["index"]] += choice.get("text") or choice.get("delta", {}).get("content", "")
    assert texts == {0: " one two", 1: " one two", 2: " one two"}
    counts = [event["usage"]["completion_tokens"] for event in some]
    assert counts == sorted(counts) and counts[-1] == last["usage"]["completion_tokens"] == 6


async def test_the_first_refusal_in_order_is_that_of_all():
    engine = Engine()

    async def misbehave(body, send):
        if body["prompt"] == "a":
            await respond(send, {"choices": []})
        else:
            await asyncio.sleep(0.01 if body["prompt"] == "b" else 0)
            await respond(send, wrapped(400, f"{body['prompt']} is wrong"), 400)

    engine.misbehave = misbehave
    async with nothing_left():
        status, content = await answered(engine, {**TEXT, "prompt": ["a", "b", "c"]})
    assert status == 400 and b"b is wrong" in content
    assert engine.running == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_one_that_breaks_breaks_all(stream):
    engine = Engine()

    async def misbehave(body, send):
        if body["prompt"] == "b":
            raise ValueError("inside")
        await asyncio.sleep(60)

    engine.misbehave = misbehave
    async with nothing_left():
        with pytest.raises(Broke):
            await answered(engine, {**TEXT, "prompt": ["a", "b", "c"], "stream": stream})
    assert (engine.running, engine.cancelled) == (0, 2)


@pytest.mark.parametrize("end", ["error", "end", "no json"])
async def test_one_stream_that_breaks_in_the_middle_breaks_all(end):
    engine = Engine()

    async def misbehave(body, send):
        await start(send, 200, "text/event-stream")
        await part(send, sse({"id": "a", "choices": [{"index": 0, "text": "x"}]}))
        if body["prompt"] != "b":
            await asyncio.sleep(60)
        if end == "error":
            raise ValueError("inside")
        await part(send, b"data: {\n\n" if end == "no json" else b"", more=False)

    engine.misbehave = misbehave
    async with nothing_left():
        with pytest.raises((Broke, ValueError)):
            await answered(engine, {**TEXT, "prompt": ["a", "b", "c"], **STREAM})
    assert engine.running == 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("when", ["before", "within"])
async def test_leaving_ends_every_one(stream, when):
    engine = Engine(held=when == "before", step=0.005)
    body = {**TEXT, "n": 4, "max_tokens": 60, **(STREAM if stream else {})}
    async with nothing_left():
        task = asyncio.create_task(answered(engine, body))
        await until(lambda: len(engine.asked) == 4)
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (engine.running, engine.cancelled) == (0, 4)


async def test_a_client_that_does_not_read_lets_none_run_far_ahead():
    engine = Engine()
    sent = 0

    async def misbehave(body, send):
        nonlocal sent
        await start(send, 200, "text/event-stream")
        while True:
            await part(send, sse({"id": "a", "choices": [{"index": 0, "text": "x"}]}))
            sent += 1

    engine.misbehave = misbehave
    async with ask_each(engine, SCOPES["text"], {**TEXT, "n": 3, **STREAM}) as answer:
        await anext(aiter(answer.parts))
        await asyncio.sleep(0.02)
        assert sent < 200
