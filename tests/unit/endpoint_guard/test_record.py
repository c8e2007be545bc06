"""What is written down of a request."""

from __future__ import annotations

import json

import pytest

from endpoint_guard.record import Record

USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "prompt_tokens_details": {"cached_tokens": 2},
}
TIMES = {"queue_time_ms": 200.0, "time_to_first_token_ms": 30.0, "generation_time_ms": 400.0}


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr("endpoint_guard.record.time.perf_counter", lambda: 11.0)


def record(**fields) -> Record:
    return Record("/v1/completions", "id", began=10.0, **fields)


def stages(one: Record) -> dict[str, float]:
    return {name: round(seconds, 6) for name, seconds in one.stages.items()}


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, (0, 0, 0)),
        ({}, (0, 0, 0)),
        ({"prompt_tokens": None, "prompt_tokens_details": None}, (0, 0, 0)),
        (USAGE, (7, 3, 2)),
    ],
)
def test_tokens_are_those_of_the_usage(usage, counts):
    one = record(usage=usage)
    assert (one.prompt_tokens, one.completion_tokens, one.cached_tokens) == counts


def test_a_whole_answer_apart_is_prefill_transfer_first_token_and_decode(clock):
    one = record(asked=10.1)
    one.answered(TIMES, disaggregated=True)
    assert stages(one) == {
        "queue": 0.1,
        "prefill": 0.27,
        "kv_transfer": 0.2,
        "first_token": 0.03,
        "decode": 0.4,
    }
    assert sum(one.stages.values()) == pytest.approx(1.0)


def test_a_stream_apart_is_split_at_its_first_event(clock):
    one = record(asked=10.1, first=10.5)
    one.answered(TIMES, disaggregated=True)
    assert stages(one)["prefill"] == 0.17


def test_one_engine_has_a_queue_and_a_prefill_of_its_own(clock):
    one = record(asked=10.1, first=10.5)
    one.answered(TIMES, disaggregated=False)
    assert stages(one) == {"queue": 0.1, "engine_queue": 0.37, "prefill": 0.03, "decode": 0.4}


@pytest.mark.parametrize("times", [None, {}, {"queue_time_ms": None}, {"queue_time_ms": 1.0}])
def test_without_the_engines_times_the_guards_own_are_told(clock, times):
    one = record(asked=10.1, first=10.5)
    one.answered(times, disaggregated=True)
    assert stages(one) == {"queue": 0.1, "first_token": 0.4, "decode": 0.5}


def test_a_request_that_no_engine_was_asked_has_no_stages(clock):
    one = record()
    one.answered(TIMES, disaggregated=True)
    assert one.stages == {} and one.server_timing == ""


def test_clocks_that_differ_give_no_time_below_zero(clock):
    one = record(asked=10.9)
    one.answered(TIMES, disaggregated=True)
    assert min(one.stages.values()) >= 0


def test_server_timing_is_in_milliseconds(clock):
    one = record(asked=10.1)
    one.answered(None, disaggregated=True)
    assert one.server_timing == "queue;dur=100.0"


def test_a_line_of_the_log_is_json_behind_a_word(caplog, clock):
    caplog.set_level("INFO", "ray.serve.endpoint")
    one = record(usage=USAGE, status=200, key="alice", asked=10.1)
    one.answered(TIMES, disaggregated=True)
    one.log()
    (line,) = caplog.messages
    word, _, fields = line.partition(" ")
    assert word == "request"
    assert json.loads(fields) == {
        "request_id": "id",
        "path": "/v1/completions",
        "key": "alice",
        "status": 200,
        "code": None,
        "stream": False,
        "cut": False,
        "prompt_tokens": 7,
        "cached_tokens": 2,
        "completion_tokens": 3,
        "total_ms": 1000.0,
        "queue_ms": 100.0,
        "prefill_ms": 270.0,
        "kv_transfer_ms": 200.0,
        "first_token_ms": 30.0,
        "decode_ms": 400.0,
    }


def test_a_line_is_one_line(caplog):
    caplog.set_level("INFO", "ray.serve.endpoint")
    Record("/v1/completions", 'a\nb\x85"}').log()
    assert len(caplog.messages[0].splitlines()) == 1
