"""Comparison with a server that is right: what counts as the same."""

from __future__ import annotations

import pytest

from raypd.conformance.outcome import Result, Verdict
from raypd.conformance.suite import CHECKS
from raypd.conformance.verb import Question, judge
from unit.conformance.stub import KEY, Stub

REFERENCE = [check for check in CHECKS if check.group == "reference"]


def compared(stub: Stub, reference: Stub) -> list[Result]:
    question = Question("http://a/v1", KEY, reference="http://b/v1", timeout=20)
    return judge(question, REFERENCE, stub, reference).results


def other_first_token(stub: Stub, shorter_than: int) -> None:
    """Answers to prompts of fewer tokens than that begin with another token."""
    cut = stub.cut

    def other(body, prompt, tokens):
        return cut(body, prompt, [b" or", *tokens[1:]] if len(prompt) < shorter_than else tokens)

    stub.cut = other


FEW, ALL = 12, 10_000  # the two shortest prompts; every prompt


def even(stub: Stub) -> None:
    """Every token has a runner-up of almost its probability."""
    logprob = stub.logprob

    def close(token, top):
        entry = logprob(token, top)
        for other in entry["top_logprobs"][1:]:
            other["logprob"] = entry["logprob"] - 0.1
        return entry

    stub.logprob = close


def test_all_prompts_are_new_and_asked_of_both() -> None:
    asked: dict[str, list[str]] = {"a": [], "b": []}

    def noting(name: str) -> Stub:
        stub = Stub(KEY if name == "a" else None)
        prompt = stub.prompt
        stub.prompt = lambda m: asked[name].append(m[0]["content"]) or prompt(m)
        return stub

    for result in compared(noting("a"), noting("b")):
        assert result.verdict == Verdict.PASS
    mine = [p for p in asked["a"] if p != "Say yes."]
    assert mine == [p for p in asked["b"] if p != "Say yes."]
    assert len(mine) == len(set(mine)) > 20


def test_a_token_apart_at_a_near_tie_is_rounding_and_told() -> None:
    stub, reference = Stub(), Stub(None)
    other_first_token(stub, FEW)
    even(reference)
    for result in compared(stub, reference):
        assert result.verdict == Verdict.PASS
        assert result.words[0].endswith("; 2 near ties")


def test_many_near_ties_are_no_rounding() -> None:
    stub, reference = Stub(), Stub(None)
    other_first_token(stub, ALL)
    even(reference)
    for result in compared(stub, reference):
        assert result.verdict == Verdict.FAIL
        assert "differ from the reference where it is near a tie" in result.words[0]


def test_the_same_apart_from_a_tie_is_wrong() -> None:
    stub = Stub()
    other_first_token(stub, FEW)
    for result in compared(stub, Stub(None)):
        assert result.verdict == Verdict.FAIL
        assert len(result.words) == 2


@pytest.mark.parametrize("drop", ["token_ids", "logprobs"])
def test_what_only_one_of_them_tells_is_not_compared(drop: str) -> None:
    stub = Stub()
    choice = stub.choice
    stub.choice = lambda *args: {k: v for k, v in choice(*args).items() if k != drop}
    whole, _ = compared(stub, Stub(None))
    assert whole.verdict == Verdict.PASS
    assert ("by logprobs" if drop == "token_ids" else "by ids") in whole.words[0]


def test_an_answer_that_ends_early_is_wrong_at_the_token_that_is_missing() -> None:
    stub = Stub()
    said = stub.said
    stub.said = lambda body, random_: said(body, random_)[:10]
    whole, streamed = compared(stub, Stub(None))
    assert "Token 11 of the answer" in whole.words[0]
    assert streamed.verdict == Verdict.FAIL
