"""The events of a streamed answer."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoint_guard.stream import DONE, Stream, asked_of_engine, events
from endpoint_guard.upstream import Broke
from unit.endpoint_guard.calls import HELLO, well_formed

pytestmark = pytest.mark.anyio

USAGE = {"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2}
DETAILED = {**USAGE, "prompt_tokens_details": {"cached_tokens": 1}}
TIMES = {"time_to_first_token_ms": 3.0, "queue_time_ms": None}


def event(text: str | None = "word", **fields) -> bytes:
    choices = [] if text is None else [{"index": 0, "delta": {"content": text}}]
    return b"data: " + json.dumps({"id": "a", "choices": choices, **fields}).encode()


LAST = event(None, usage=DETAILED, metrics=TIMES)


async def split(parts: list[bytes]) -> list[bytes]:
    async def come():
        for part in parts:
            yield part

    return [each async for some in events(come()) for each in some]


# Where one event ends


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1)),
    st.sampled_from(["\n\n", "\r\n\r\n"]),
    st.lists(st.integers(0, 400)),
)
async def test_events_are_the_same_wherever_they_are_cut(texts, end, places):
    whole = [event(text) for text in texts] + [DONE]
    content = b"".join(each + end.encode() for each in whole)
    edges = sorted({0, len(content), *(min(place, len(content)) for place in places)})
    parts = [content[a:b] for a, b in pairwise(edges)]
    assert await split(parts) == whole


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
async def test_events_may_come_byte_by_byte(end):
    content = end.join([event("é"), event("\n\n"), LAST, DONE, b""])
    assert await split([bytes([each]) for each in content]) == [
        event("é"),
        event("\n\n"),
        LAST,
        DONE,
    ]


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b""],
        [event() + b"\n\n"],
        [event() + b"\n\n", b"data: [DO"],
        [event() + b"\n\n", DONE],
        [b"Internal Server Error"],
    ],
)
async def test_a_stream_without_its_end_is_broken(parts):
    with pytest.raises(Broke):
        await split(parts)


async def test_what_came_before_the_break_is_there():
    async def come():
        yield event() + b"\n\n" + b"data: {"

    seen = []
    with pytest.raises(Broke):
        async for some in events(come()):
            seen += some
    assert seen == [event()]


# What the client gets


def test_an_engine_is_always_asked_to_count():
    counted = {"include_usage": True, "continuous_usage_stats": True}
    assert asked_of_engine(None) == asked_of_engine({}) == counted
    assert asked_of_engine({"include_usage": False, "x": 1}) == {"x": 1, **counted}


@pytest.mark.parametrize(
    ("options", "at_the_end", "in_between"),
    [
        (None, False, False),
        ({}, False, False),
        ({"include_usage": False}, False, False),
        ({"continuous_usage_stats": True}, False, False),
        ({"include_usage": True}, True, False),
        ({"include_usage": True, "continuous_usage_stats": True}, True, True),
    ],
)
def test_a_client_sees_the_counts_that_it_asked_for(options, at_the_end, in_between):
    stream = Stream(options)
    seen, error = stream.seen_by_client([event(usage=USAGE), LAST, DONE], HELLO)
    assert error is None
    assert seen[0] == (event(usage=USAGE) if in_between else event())
    assert seen[1:] == ([event(None, usage=DETAILED)] if at_the_end else []) + [DONE]
    assert (stream.usage, stream.metrics) == (DETAILED, TIMES)


@given(
    st.text(
        st.one_of(
            st.sampled_from(',"usage": {}null\\[]choices metricser'), st.characters(codec="utf-8")
        )
    ),
    st.booleans(),
)
def test_counts_are_found_whatever_the_model_writes(text, spaced):
    for said in (text, f',"usage":{{"prompt_tokens":9}}{text}', f'"choices":[],"metrics":{text}'):
        chunk = {"id": "a", "choices": [{"delta": {"content": said}}]}
        separators = (", ", ": ") if spaced else (",", ":")
        sent = b"data: " + json.dumps({**chunk, "usage": USAGE}, separators=separators).encode()
        stream = Stream(None)
        seen, error = stream.seen_by_client([sent], HELLO)
        assert error is None and stream.usage == USAGE
        assert json.loads(seen[0][5:]) == chunk


def test_the_counts_so_far_are_known_at_any_time():
    stream = Stream(None)
    for written in range(3):
        usage = {**USAGE, "completion_tokens": written}
        stream.seen_by_client([event(usage=usage)], HELLO)
        assert stream.usage == usage
    stream.seen_by_client([event(usage=None)], HELLO)
    assert stream.usage == {**USAGE, "completion_tokens": 2}


def test_an_event_without_counts_is_passed_on_as_it_is():
    assert Stream(None).seen_by_client([event("x")], HELLO) == ([event("x")], None)


def test_comments_and_empty_lines_are_left_out():
    sent = [b": ping", b"", b"event: x", event()]
    assert Stream(None).seen_by_client(sent, HELLO) == ([event()], None)


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ({"error": {"message": "top_p is wrong", "code": 400}}, 400),
        ({"error": {"message": "vllm.Engine died", "code": 500}}, 500),
        ({"error": {"message": "x", "code": 503}}, 503),
        ({"error": {"message": "x", "code": "bad"}}, 500),
        ({"error": {"message": "x", "code": True}}, 500),
        ({"error": "text"}, 500),
        ({"object": "error", "message": "x", "code": 400}, 400),
        ({"message": "x", "object": "error", "code": 404}, 404),
        ({"id": "a"}, 500),
        ({"choices": None}, 500),
        ([1], 500),
        (3, 500),
        (None, 500),
    ],
    ids=str,
)
def test_an_error_in_the_stream_ends_it(told, status):
    sent = [event("before"), b"data: " + json.dumps(told).encode(), event("after"), DONE]
    seen, error = Stream(None).seen_by_client(sent, HELLO)
    assert seen == [event("before")]
    assert error is not None and error.status == status
    assert "vllm" not in well_formed(error.envelope["error"])["message"]


@pytest.mark.parametrize(
    "broken", [b"data:", b"data: {", b"data: Traceback", b"data: \xff", b"data: {}x"]
)
def test_an_event_that_is_no_json_ends_it(broken):
    seen, error = Stream(None).seen_by_client([event(), broken, DONE], HELLO)
    assert seen == [event()]
    assert error is not None and error.status == 500
