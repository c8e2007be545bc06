"""OpenAI's envelope, and what of an engine's words gets into it."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoint_guard.errors import FAILED, Refusal, failed, from_engine, invalid
from unit.endpoint_guard.calls import HELLO, TEXT, well_formed
from unit.endpoint_guard.engine import unreadable, wrapped


def told(status: int, body: object, asked: dict | None = None) -> Refusal:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    refusal = from_engine(status, content, asked or HELLO)
    well_formed(refusal.envelope["error"])
    return refusal


# The envelope


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (503, "server_error"),
    ],
)
def test_each_status_has_its_type(status, kind):
    assert Refusal(status, "why").envelope == {
        "error": {"message": "why", "type": kind, "param": None, "code": None}
    }


def test_an_invalid_value_names_its_field():
    refusal = invalid("n", "why")
    assert (refusal.status, refusal.param, refusal.code) == (400, "n", "invalid_value")


def test_a_failure_says_where_to_look():
    assert (failed().status, failed().message, failed().type) == (500, FAILED, "server_error")


# What engines say

VALIDATION = (
    "1 validation error for ChatCompletionRequest\ntop_p\n  Input should be less than or equal to 1"
    " [type=less_than_equal, input_value=3, input_type=int]\n    For further information visit"
    " https://errors.pydantic.dev/2.11/v/less_than_equal"
)
LONG = (
    "This model's maximum context length is 4096 tokens. However, you requested 1 output tokens and your"
    " prompt contains at least 4096 input tokens, for a total of at least 4097 tokens. Please reduce the"
    " length of the input prompt or the number of requested output tokens. (parameter=input_tokens,"
    " value=4096)"
)


@pytest.mark.parametrize(
    ("said", "message", "param"),
    [
        (
            "temperature must be non-negative, got -1.0. (parameter=temperature, value=-1.0)",
            "temperature must be non-negative, got -1.0.",
            "temperature",
        ),
        (
            "top_p must be in (0, 1], got 3. (parameter=top_p, value=3)",
            "top_p must be in (0, 1], got 3.",
            "top_p",
        ),
        (
            "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)",
            "Parameter 'cache_salt' must be a non-empty string if provided.",
            "cache_salt",
        ),
        (
            "Expected field `name` in `function` in `tool_choice`! (parameter=tool_choice.function.name)",
            "Expected field `name` in `function` in `tool_choice`!",
            "tool_choice",
        ),
        (
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.",
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.",
            None,
        ),
        (VALIDATION, "`top_p`: Input should be less than or equal to 1.", "top_p"),
    ],
)
def test_a_refusal_for_the_client_is_passed_on_in_plain_words(said, message, param):
    for body in (wrapped(400, said), {"error": {"message": said, "code": 400}}):
        refusal = told(400, body)
        assert (refusal.status, refusal.message, refusal.param) == (400, message, param)


@pytest.mark.parametrize(
    ("what", "where", "message", "param"),
    [
        (
            "Input should be a valid string",
            ("body", "messages", 0, "role"),
            "`messages`: Input should be a valid string.",
            "messages",
        ),
        (
            "Value error, `top_logprobs` needs `logprobs`. (parameter=top_logprobs, value=3)",
            ("body",),
            "`top_logprobs` needs `logprobs`.",
            "top_logprobs",
        ),
        ("Field required", ("body",), "Field required.", None),
    ],
)
def test_a_request_that_fastapi_refuses_is_told_by_its_field(what, where, message, param):
    refusal = told(400, unreadable(what, where, {"messages": "secret"}))
    assert (refusal.message, refusal.param) == (message, param)


def test_the_value_of_a_field_is_not_taken_for_its_name():
    assert told(400, unreadable("Field is wrong", ("body", "n"), "abc")).param == "n"


@pytest.mark.parametrize("asked", [HELLO, TEXT], ids=["chat", "completion"])
def test_a_prompt_that_is_too_long_is_told_as_the_client_asked(asked):
    refusal = told(400, wrapped(400, LONG), {**asked, "max_tokens": 50})
    assert (refusal.status, refusal.code) == (400, "context_length_exceeded")
    assert refusal.param == ("messages" if asked is HELLO else "prompt")
    assert "4096 tokens" in refusal.message and "at least 4096 input tokens" in refusal.message
    assert "you asked for 50 output tokens" in refusal.message
    assert "1 output token" not in refusal.message
    assert "you asked" not in told(400, wrapped(400, LONG), asked).message


def test_tools_without_a_parser_are_told_by_the_value_to_set():
    said = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    refusal = told(400, wrapped(400, said))
    assert (refusal.code, refusal.param) == ("unsupported", "tools")
    assert "model.toolCallParser" in refusal.message and "--" not in refusal.message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"Internal Server Error",
        b"<html>gateway</html>",
        b"\xff\xfe",
        [],
        "text",
        None,
        3,
        {},
        {"error": "text"},
        {"error": {}},
        {"error": {"message": None}},
        {"error": {"message": ["a"]}},
        {"error": {"message": {"a": 1}}},
        {"detail": [{"loc": ["body"], "msg": "x"}]},
        {"error": {"message": "fine", "param": {"a": 1}}},
        {"error": {"message": "fine", "param": "../../etc"}},
    ],
    ids=repr,
)
@pytest.mark.parametrize("status", [400, 404, 408, 413, 422, 429, 500, 501, 502, 503, 504])
def test_an_error_in_any_shape_becomes_the_envelope(status, body):
    refusal = told(status, body)
    assert refusal.status == status if status < 500 else refusal.status in (500, 503)
    assert refusal.param is None


@pytest.mark.parametrize("status", [100, 201, 204, 302, 307])
def test_what_is_neither_an_answer_nor_an_error_is_a_failure(status):
    assert told(status, b"{}").status == 500


@pytest.mark.parametrize("status", [502, 503, 504])
def test_an_engine_that_is_not_there_may_be_asked_again(status):
    refusal = told(status, wrapped(status, "no replica"))
    assert (refusal.status, refusal.code) == (503, "model_unavailable")
    assert ("retry-after", "1") in refusal.headers


def test_a_long_message_is_cut():
    assert len(told(400, wrapped(400, "word " * 1000)).message) <= 500


# Nothing of the inside gets out

_word = st.text(string.ascii_lowercase, min_size=3, max_size=8)
_name = _word.map(str.capitalize)
_number = st.integers(1, 10**6)
_byte = st.integers(0, 255)


def _of(template: str, **parts: st.SearchStrategy) -> st.SearchStrategy[str]:
    return st.fixed_dictionaries(parts).map(lambda found: template.format(**found))


_package = st.sampled_from(
    [
        "ray",
        "vllm",
        "torch",
        "nixl",
        "pydantic",
        "starlette",
        "fastapi",
        "asyncio",
        "uvicorn",
        "transformers",
        "jinja2",
        "numpy",
    ]
)
INSIDES = st.one_of(
    _of("/{a}/{b}/{c}", a=_word, b=_word, c=_word),
    _of("/{a}/{b}", a=_word, b=_word),
    _of("{a}.py", a=_word),
    _of("{a}.so", a=_word),
    _of('File "{a}", line {n}, in {b}', a=_word, b=_word, n=_number),
    _of("{a}Error", a=_name),
    _of("{a}{b}Exception", a=_name, b=_name),
    _of("{a}{b}{c}", a=_name, b=_name, c=_name),
    _of("{p}.{a}.{b}", p=_package, a=_word, b=_name),
    _of("{a}.{b}.{c}", a=_word, b=_word, c=_name),
    _of("<{a}.{b} object at 0x{n:x}>", a=_word, b=_name, n=_number),
    _of("<class '{a}'>", a=_word),
    _of("0x{n:08x}", n=_number),
    _of("{a}.{b}.{c}.{d}", a=_byte, b=_byte, c=_byte, d=_byte),
    _of("{a}.{b}.{c}.{d}:{n}", a=_byte, b=_byte, c=_byte, d=_byte, n=_number),
    _of("fd{a:02x}:{b:x}::{c:x}", a=_byte, b=_byte, c=_byte),
    _of("ip-10-0-{a}-{b}.ec2.internal", a=_byte, b=_byte),
    _of("{a}.{b}.svc.cluster.local", a=_word, b=_word),
    _of("tcp://{a}:{n}", a=_word, n=_number),
    _of("{a}_{b}", a=_word.map(str.upper), b=_word.map(str.upper)),
    _of("--{a}-{b}", a=_word, b=_word),
    _of("{a}(request_id='{b}')", a=_name, b=_word),
    _of("{{'{a}': {n}}}", a=_word, n=_number),
    _of("Traceback (most recent call last): {a}", a=_word),
    _of("pid={n}", n=_number),
)
_talk = st.lists(_word, max_size=6).map(" ".join)


@given(_talk, INSIDES, _talk, st.sampled_from([400, 404, 408, 413, 422, 429, 500, 501, 503]))
def test_nothing_of_the_inside_gets_out(before, inside, after, status):
    said = f"{before} {inside} {after}"
    bodies = [
        wrapped(status, said),
        {"error": {"message": said, "type": said, "param": said, "code": said}},
        {"error": {"message": "fine", "type": said, "param": said, "code": said}},
        {"object": "error", "message": said, "type": said, "param": None, "code": status},
        {"detail": said},
        unreadable(said, ("body", "messages"), said),
        unreadable(f"Value error, {said} (parameter=n, value={said})", ("body",), {"n": said}),
        {"error": {"message": f"{before} (parameter=n, value={said})"}},
        {
            "error": {
                "message": f"1 validation error for {said}\nn\n  {said} [type=x, value={said}]"
            }
        },
        said.encode(),
    ]
    for body in bodies:
        shown = json.dumps(told(status, body).envelope)
        assert inside not in shown and json.dumps(inside)[1:-1] not in shown, body


@given(st.text(max_size=300), st.integers(500, 599))
def test_of_a_failure_nothing_at_all_is_passed_on(said, status):
    for body in (
        wrapped(status, said),
        {"error": {"message": said}},
        said.encode("utf-8", "replace"),
    ):
        refusal = told(status, body)
        assert refusal.message in (FAILED, "The model is not available at present. Try again.")


@given(st.binary(max_size=200), st.integers(400, 599))
def test_any_bytes_become_the_envelope(content, status):
    told(status, content)


@given(st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=5))
def test_any_fields_become_the_envelope(value):
    told(400, {"error": {"message": value, "param": value, "code": value, "type": value}})


@pytest.mark.parametrize(
    "said",
    [
        "Invalid request format: " + "(" * 50_000,
        "Message: " + "x, Internal exception" * 5_000,
        "maximum context length is 1 tokens" * 3_000,
        "(parameter=" * 20_000,
        "1 validation error for " + "\n" * 50_000,
        "/" * 100_000,
        "a." * 50_000,
        "Aa" * 50_000,
        "1" * 100_000,
        "::" * 50_000,
    ],
    ids=lambda said: said[:24],
)
@pytest.mark.timeout(5)
def test_no_text_keeps_the_reader_busy(said):
    told(400, wrapped(400, said))
    told(400, {"error": {"message": said}})
