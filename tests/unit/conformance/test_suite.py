"""A server that is right passes every check; one that is wrong in one way fails those that look at it."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from raypd.conformance.checks import cancellation
from raypd.conformance.outcome import Result, Verdict
from raypd.conformance.suite import CHECKS, GROUPS, Check, checks_of
from raypd.conformance.verb import Question, judge
from unit.conformance.stub import KEY, MODEL, Refused, Stub
from unit.conformance.wrong import Misbehaviour, refusing

FOLDER = Path(__file__).with_name("misbehaviours")
MISBEHAVIOURS: dict[str, list[Misbehaviour]] = {
    file.stem: importlib.import_module(f"unit.conformance.misbehaviours.{file.stem}").MISBEHAVIOURS
    for file in sorted(FOLDER.glob("*.py"))
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "_PATIENCE", 0.3)


def results(
    stub: httpx.BaseTransport,
    checks: list[Check] = CHECKS,
    key: str | None = KEY,
    reference: bool = True,
    **question: float,
) -> dict[str, Result]:
    """How each check ends, by its id."""
    asked = Question(
        "http://stub/v1",
        key,
        model=MODEL,
        reference="http://reference/v1" if reference else None,
        **{"timeout": 20, **question},
    )
    report = judge(asked, checks, stub, Stub(None))
    return {result.id: result for result in report.results}


def of(found: dict[str, Result], verdict: Verdict) -> set[str]:
    return {name for name, result in found.items() if result.verdict == verdict}


def test_checks_have_names_and_sentences() -> None:
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert all(check.title and check.function.__doc__ for check in CHECKS)
    assert set(GROUPS) == {name.replace("_", "-") for name in MISBEHAVIOURS}


def test_a_server_that_is_right_passes_every_check() -> None:
    found = results(Stub())
    assert {r.id: r.words for r in found.values() if r.verdict != Verdict.PASS} == {}


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(one, id=f"{group}: {one.name}")
        for group, all_ in MISBEHAVIOURS.items()
        for one in all_
    ],
)
def test_what_is_wrong_is_found_by_the_checks_that_look_at_it_and_by_no_other(
    wrong: Misbehaviour,
) -> None:
    assert of(results(wrong.stub(), beside(wrong)), Verdict.FAIL) == wrong.found_by


def beside(wrong: Misbehaviour) -> list[Check]:
    """The checks to judge it by: all of them, or with --fast those of the groups that find it."""
    if settings.get_current_profile_name() != "fast":
        return CHECKS
    return checks_of({found.split("/")[0] for found in wrong.found_by})


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_every_check_can_fail_for_a_reason_of_its_own_group(check: Check) -> None:
    own = MISBEHAVIOURS[check.group.replace("-", "_")]
    known = set().union(*(one.found_by for one in own))
    # auth/right-key fails where the verb itself ends the run.
    assert check.id in known | {"auth/right-key"}


# Servers that lack something, and say so


def lacking(test, status: int, text: str) -> Stub:
    stub = Stub()
    validate = stub.validate
    stub.validate = lambda body: refusing(test, status, text)(validate, body)
    return stub


@pytest.mark.parametrize(
    ("test", "status", "text", "group"),
    [
        (
            lambda b: b.get("tools"),
            400,
            '"auto" tool choice requires --enable-auto-tool-choice',
            "tools",
        ),
        (
            lambda b: b.get("response_format"),
            501,
            "response_format is not supported.",
            "structured",
        ),
        (lambda b: b.get("logprobs"), 400, "logprobs are not supported by this model.", "logprobs"),
        (
            lambda b: b.get("logit_bias"),
            422,
            "Unrecognized request argument: logit_bias",
            "sampling",
        ),
    ],
)
def test_what_a_server_says_that_it_lacks_is_not_applicable(test, status, text, group) -> None:
    found = results(lacking(test, status, text))
    assert of(found, Verdict.FAIL) == set()
    assert any(name.startswith(f"{group}/") for name in of(found, Verdict.NOT_APPLICABLE))


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("thought", [4, 1000])
def test_a_model_that_thinks_before_it_speaks_is_not_wrong(name: str, thought: int) -> None:
    """`thought` is characters; with the larger number all that it writes is thought."""

    def split(text: str, begin: int = 0) -> dict:
        cut = max(thought - begin, 0)
        return {name: text[:cut] or None, "content": text[cut:] or None}

    def on(stub: Stub) -> Stub:
        choice, events = stub.choice, stub.events

        def chosen(body, index, generated):
            found = choice(body, index, generated)
            if "response_format" not in body and not generated.calls:
                found["message"].update(split(generated.text))
            return found

        def parted(body, *args):
            begin: dict[int, int] = {}
            for event in events(body, *args):
                for part in event["choices"] if isinstance(event, dict) else []:
                    text = part["delta"].get("content")
                    if text and "response_format" not in body:
                        part["delta"] = split(text, begin.get(part["index"], 0))
                        begin[part["index"]] = begin.get(part["index"], 0) + len(text)
                yield event

        stub.choice, stub.events = chosen, parted
        return stub

    found = results(on(Stub()))
    assert {r.id: r.words for r in found.values() if r.verdict == Verdict.FAIL} == {}
    assert of(found, Verdict.NOT_APPLICABLE) == {"logprobs/spell"}


def test_a_model_without_system_messages_or_tools_is_not_wrong() -> None:
    def test(body: dict) -> bool:
        return bool({"system", "tool"} & {m["role"] for m in body["messages"]})

    stub = lacking(test, 400, "System role not supported")
    validate = stub.validate
    stub.validate = lambda body: refusing(lambda b: b.get("tools"), 400, "tools are not supported")(
        validate, body
    )
    found = results(stub)
    assert of(found, Verdict.FAIL) == set()
    assert {"chat/several-turns", "tools/result-is-taken"} <= of(found, Verdict.NOT_APPLICABLE)


def test_a_server_without_responses_that_says_so_is_not_wrong() -> None:
    stub = Stub()

    def responses(_: dict) -> None:
        raise Refused(404, "Invalid URL (POST /v1/responses): not found")

    stub.responses = stub.completions = responses
    found = results(stub)
    assert of(found, Verdict.NOT_APPLICABLE) == {"chat/responses", "chat/text-completion"}
    assert of(found, Verdict.FAIL) == set()


def test_options_that_a_server_does_not_know_and_passes_over_are_not_applicable() -> None:
    """min_tokens, return_token_ids and kv_transfer_params are vLLM's own."""
    stub = Stub()
    chat = stub.chat
    own = ("min_tokens", "return_token_ids", "kv_transfer_params")
    stub.chat = lambda body: chat({name: v for name, v in body.items() if name not in own})
    found = results(stub)
    assert of(found, Verdict.FAIL) == set()
    assert {"finish/min-tokens", "sampling/bias"} <= of(found, Verdict.NOT_APPLICABLE)
    assert "by logprobs" in found["reference/same-tokens"].words[0]


def test_a_server_that_tells_neither_tokens_nor_its_context_is_judged_by_text() -> None:
    stub = lacking(lambda b: b.get("logprobs"), 400, "logprobs are not supported.")
    stub.own_card = lambda: {"id": MODEL, "object": "model", "created": 1, "owned_by": "x"}
    found = results(stub)
    assert of(found, Verdict.FAIL) == {
        # Without the length of the context these ask for more than this small one has.
        *("long-inputs/long-prompts", "long-inputs/long-streamed"),
        *("reference/same-tokens", "reference/same-tokens-streamed"),
    }
    assert "limits/prompt-too-long" in of(found, Verdict.NOT_APPLICABLE)


def test_a_server_without_keys_is_a_known_gap_and_not_a_failure() -> None:
    found = results(Stub(None), key=None)
    assert of(found, Verdict.FAIL) == set()
    assert of(found, Verdict.KNOWN_GAP) == {"auth/wrong-key"}
    assert of(found, Verdict.NOT_APPLICABLE) == {"auth/right-key", "auth/client-is-refused"}


def test_without_a_reference_nothing_is_said_of_it() -> None:
    found = results(Stub(), reference=False)
    assert of(found, Verdict.NOT_APPLICABLE) == {
        "reference/same-tokens",
        "reference/same-tokens-streamed",
    }


def test_a_proxy_that_hands_on_two_events_at_a_time_is_not_wrong() -> None:
    stub = Stub()
    written = stub.written

    def paired(events: Iterator) -> Iterator[bytes]:
        parts = list(written(events))
        return (b"".join(parts[n : n + 2]) for n in range(0, len(parts), 2))

    stub.written = paired
    assert of(results(stub), Verdict.FAIL) == set()


def test_comments_carriage_returns_and_fields_of_events_are_legal() -> None:
    stub = Stub()
    written = stub.written

    def dressed(events: Iterator) -> Iterator[bytes]:
        yield b": ping\r\n\r\n"
        for part in written(events):
            yield b"event: message\r\n" + part.replace(b"\n", b"\r\n")

    stub.written = dressed
    assert of(results(stub), Verdict.FAIL) == set()


# Limits of time


def test_what_the_time_limit_leaves_no_time_for_is_neither_passed_nor_failed() -> None:
    found = results(Stub(), CHECKS[:3], time_limit=0.5)
    assert of(found, Verdict.PASS) == {check.id for check in CHECKS[:3]}
    stub = Stub()
    chat = stub.chat

    def slow(body):
        time.sleep(0.4)
        return chat(body)

    stub.chat = slow
    found = results(stub, checks_of(["chat"]), time_limit=0.6)
    assert Verdict.NOT_RUN in {result.verdict for result in found.values()}
    assert of(found, Verdict.FAIL) == set()


# Anything may come back

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("id", "choices", "message", "content", "delta", "usage", "index", "text"),
                    *("logprobs", "token", "logprob", "top_logprobs", "error", "data", "param"),
                    *("tool_calls", "function", "arguments", "finish_reason", "completion_tokens"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(
    max_examples=min(30, settings.default.max_examples),
    deadline=None,
    phases=[Phase.generate],  # a suite is slow to shrink with
    suppress_health_check=list(HealthCheck),
)
@given(body=ANYTHING, status=st.sampled_from([200, 200, 200, 400, 404, 500]), stream=st.booleans())
def test_no_answer_ends_the_suite(body, status, stream) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if stream:
            text = f"data: {json.dumps(body)}\n\ndata: [DONE]\n\n"
            return httpx.Response(status, headers={"content-type": "text/event-stream"}, text=text)
        return httpx.Response(status, json=body)

    for check in CHECKS:
        (found,) = results(httpx.MockTransport(answer), [check], reference=False).values()
        assert found.verdict in Verdict


@settings(
    max_examples=min(30, settings.default.max_examples),
    deadline=None,
    phases=[Phase.generate],  # a suite is slow to shrink with
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_no_part_of_an_answer_ends_the_suite(data) -> None:
    """One place of an answer that is right holds anything."""
    stub = Stub()
    name = data.draw(st.sampled_from(["whole", "choice", "usage", "logprob", "own_card"]))
    field = data.draw(
        st.sampled_from(
            [
                *("id", "choices", "usage", "model", "message", "finish_reason", "index", "token"),
                *("logprobs", "logprob", "top_logprobs", "bytes", "prompt_tokens", "max_model_len"),
                *("completion_tokens", "token_ids", "prompt_token_ids", "created"),
            ]
        )
    )
    value = data.draw(ANYTHING)
    original = getattr(stub, name)
    setattr(stub, name, lambda *args: {**original(*args), field: value})
    for result in results(stub).values():
        assert result.verdict in Verdict
