"""What is read of an answer."""

from __future__ import annotations

from itertools import pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypd.conformance.answer import Answer, read_events
from raypd.conformance.outcome import Broken

STREAM = httpx.Headers({"content-type": "text/event-stream; charset=utf-8"})


def answer(content: bytes = b"", status: int = 200) -> Answer:
    return Answer("POST /x", status, STREAM, content)


def data(*reads: bytes) -> list[str]:
    return [event.data for event in read_events(answer(), list(reads)).events]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b": ping\n\nevent: x\nid: 1\nretry: 5\ndata: a\n\n\n\n", ["a"]),
        ("data: one\u2028two\u0085\x0b\x1c\n\n".encode(), ["one\u2028two\u0085\x0b\x1c"]),
        (b"", []),
    ],
)
def test_events_of_a_stream(raw: bytes, expected: list[str]) -> None:
    found = read_events(answer(), [raw])
    assert [event.data for event in found.events] == expected
    assert found.faults == []


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"data: a\n", "no empty line after it"),
        (b"data: a", "no empty line after it"),
        (b"hello\n\n", "no field of an event: 'hello'"),
        (b"data: \xff\n\n", "no UTF-8"),
        ("data: é\n\n".encode("latin-1"), "no UTF-8"),
    ],
)
def test_faults_of_a_stream(raw: bytes, fault: str) -> None:
    (found,) = read_events(answer(), [raw]).faults
    assert fault in found


def test_the_content_type_is_part_of_the_form() -> None:
    plain = Answer("x", 200, httpx.Headers({"content-type": "application/json"}), b"")
    assert read_events(plain, []).faults == [
        "content-type is 'application/json' and not text/event-stream"
    ]


@given(st.lists(st.integers(1, 30), max_size=5))
def test_where_reads_are_cut_changes_no_event(cuts: list[int]) -> None:
    raw = "data: é漢🙂\n\ndata: b\n\ndata: [DONE]\n\n".encode()
    places = sorted({0, *cuts, len(raw)})
    reads = [raw[a:b] for a, b in pairwise(places)]
    assert data(*reads) == ["é漢🙂", "b", "[DONE]"]


def test_an_event_is_of_the_read_that_ends_it() -> None:
    found = read_events(answer(), [b"data: a\n\ndata: b", b"\n\n", b"data: c\n\n"])
    assert [event.read for event in found.events] == [0, 1, 2]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_said(content: bytes) -> None:
    with pytest.raises(Broken, match="no JSON") as broken:
        _ = answer(content).body
    assert broken.value.wrong.status == 200


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{}", "no list of choices"),
        (b'{"choices": []}', "no list of choices"),
        (b'{"choices": [1]}', "no list of choices"),
        (b'{"choices": [{}]}', "no message"),
        (b'{"choices": [{"message": {"content": 1}}]}', "no string"),
    ],
)
def test_what_lacks_its_text_is_said(content: bytes, says: str) -> None:
    with pytest.raises(Broken, match=says):
        _ = answer(content).said


def test_null_is_no_text_and_a_refusal_is_none() -> None:
    assert answer(b'{"choices": [{"message": {"content": null}}]}').said == ""
    with pytest.raises(Broken, match="refused with HTTP 400"):
        _ = answer(b'{"choices": [{"message": {"content": "x"}}]}', 400).said


@pytest.mark.parametrize("count", [b"null", b"-1", b"true", b"1.5", b'"1"'])
def test_what_is_no_count_is_said(count: bytes) -> None:
    usage = b'{"prompt_tokens": 1, "completion_tokens": %s, "total_tokens": 2}' % count
    with pytest.raises(Broken, match=r"usage\.completion_tokens"):
        _ = answer(b'{"usage": %s}' % usage).usage


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"error": {"message": "No."}}', "No."),
        (b'{"error": {"message": null}}', ""),
        (b'{"error": "No."}', ""),
        (b'{"detail": "No."}', ""),
        (b"No.", ""),
    ],
)
def test_the_error_envelope(content: bytes, message: str) -> None:
    found = answer(content, 400)
    assert found.error_message == message
    assert (found.error is None) == (message == "")


def test_a_stream_that_ends_before_done_and_what_comes_after() -> None:
    chunk = b'data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}\n\n'
    found = read_events(answer(), [chunk, b"data: [DONE]\n\n", chunk])
    assert found.said() == "a"
    with pytest.raises(Broken, match="no choice with index 1"):
        found.said(1)
