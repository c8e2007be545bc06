"""The suite against real servers: prefill and decode apart, the aggregated engine, a plain vLLM.

`--write-conformance docs/conformance.md` writes what it said of each into that page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from live.checks import QUICK
from local.plain_vllm import KEY, plain_vllm
from local.results import AGGREGATED, PLAIN_VLLM, PREFILL_AND_DECODE, UNGUARDED, Results, write
from raypd.conformance.outcome import Result, Verdict
from raypd.conformance.suite import CHECKS, checks_of
from raypd.conformance.verb import Question, judge
from raypd.local import chat
from raypd.local.state import State


@pytest.fixture(scope="module")
def measured(request: pytest.FixtureRequest) -> Iterator[Results]:
    """What the tests found, server by server."""
    found = Results()
    yield found
    file: Path | None = request.config.getoption("--write-conformance")
    if file and found.servers:
        write(file, found)


def of(results: list[Result], verdict: Verdict) -> dict[str, list[str]]:
    return {result.id: result.words for result in results if result.verdict == verdict}


def judged(question: Question) -> list[Result]:
    """How each check ends. None may fail, or be left out for want of time."""
    results = judge(question, checks_of(question.groups)).results
    assert of(results, Verdict.FAIL) == {}
    assert of(results, Verdict.NOT_RUN) == {}
    return results


@pytest.mark.slow
def test_without_the_guard_more_differs_and_all_of_it_is_known(
    unguarded: State, measured: Results
) -> None:
    results = judged(Question(unguarded.endpoint))
    assert {"errors/unknown-path", "finish/min-tokens"} <= set(of(results, Verdict.KNOWN_GAP))
    measured.add(UNGUARDED, results)


def test_what_every_client_meets_differs_in_what_is_known_and_in_nothing_else(
    disaggregated: State,
) -> None:
    results = judged(Question(disaggregated.endpoint, chat.api_key(disaggregated), groups=QUICK))
    assert len(of(results, Verdict.PASS)) > len(results) // 2


@pytest.mark.slow
def test_prefill_and_decode_apart_differ_in_what_is_known_and_in_nothing_else(
    disaggregated: State, measured: Results
) -> None:
    results = judged(Question(disaggregated.endpoint, chat.api_key(disaggregated)))
    assert of(results, Verdict.KNOWN_GAP) == {}
    assert len(of(results, Verdict.PASS)) > len(CHECKS) // 2
    measured.add(PREFILL_AND_DECODE, results)


@pytest.mark.slow
def test_greedy_answers_are_those_of_the_aggregated_engine(
    disaggregated: State, aggregated: State, measured: Results
) -> None:
    question = Question(
        disaggregated.endpoint,
        chat.api_key(disaggregated),
        reference=aggregated.endpoint,
        groups=["reference"],
    )
    results = judged(question)
    assert [result.verdict for result in results] == [Verdict.PASS] * 2
    assert all("by ids" in result.words[0] for result in results)
    measured.add(PREFILL_AND_DECODE, results)


@pytest.mark.slow
def test_the_aggregated_engine_differs_in_what_is_known_and_in_nothing_else(
    aggregated: State, measured: Results
) -> None:
    results = judged(Question(aggregated.endpoint))
    assert "finish/min-tokens" in of(results, Verdict.PASS)
    measured.add(AGGREGATED, results)


@pytest.mark.slow
def test_a_plain_vllm_is_accused_of_nothing_that_is_not_known(
    tmp_path: Path, measured: Results
) -> None:
    with plain_vllm(tmp_path) as url:
        results = judged(Question(url, KEY))
    measured.add(PLAIN_VLLM, results)
