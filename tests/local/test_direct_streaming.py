"""Engines that answer clients themselves: the guard inside decode's own HTTP application, and prefill apart."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from live.checks import QUICK
from local.conftest import HERE, LOCAL_CPU, serving
from local.test_conformance import of
from local.test_fuzz import endure
from local.test_guard import KEYS, ask, until
from raypd.conformance.outcome import Verdict
from raypd.conformance.suite import checks_of
from raypd.conformance.verb import Question, judge
from raypd.evidence import unseen_prompt
from raypd.local import chat, evidence, serve, web
from raypd.local.state import State


@pytest.fixture(scope="module")
def run() -> Iterator[State]:
    files = [LOCAL_CPU, HERE / "guarded.yaml"]
    yield from serving("test-direct", ["endpoint.directStreaming=true"], files)


def test_no_ingress_stands_in_between(run: State) -> None:
    titles = {" ".join(process.cmdline()).strip() for process in run.processes()}
    assert "ray::HAProxyManager" in titles
    assert not any("OpenAiIngress" in title for title in titles)


def test_prefill_computes_and_decode_pulls(run: State) -> None:
    before = evidence.settled(run)
    answer = ask(run, messages=[{"role": "user", "content": unseen_prompt()}])
    found = evidence.after_request(run, before, answer.json()["usage"]["prompt_tokens"])
    assert found.computed == {"prefill": answer.json()["usage"]["prompt_tokens"]}
    assert found.kv_bytes > 0


def test_what_every_client_meets_differs_in_nothing(
    run: State, pytestconfig: pytest.Config
) -> None:
    groups = [] if pytestconfig.getoption("--slow") else [*QUICK, "finish"]
    results = judge(
        Question(run.endpoint, chat.api_key(run), groups=groups), checks_of(groups)
    ).results
    for verdict in (Verdict.FAIL, Verdict.KNOWN_GAP, Verdict.NOT_RUN):
        assert of(results, verdict) == {}
    assert len(of(results, Verdict.PASS)) > len(results) // 2


def test_only_keys_open_and_only_known_paths_are_there(run: State) -> None:
    assert ask(run, None).status_code == ask(run, "a-key-of-the-tests-0003").status_code == 401
    for path in ("/tokenize", "/invocations", "/v1/messages", "/scale_elastic_ep", "/metrics"):
        url = run.endpoint.removesuffix("/v1") + path
        key = {"authorization": f"Bearer {KEYS['alice']}"}
        answer = web.client().post(url, json={}, headers=key)
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "unknown_url"


@pytest.mark.parametrize("kilobytes", [100, 400, 4000])  # HAProxy's buffer has 16 KiB
def test_a_large_body_passes(run: State, kilobytes: int) -> None:
    body = {"messages": [{"role": "user", "content": unseen_prompt()}], "max_tokens": 4}
    answer = web.client().post(
        f"{run.endpoint}/chat/completions",
        content=json.dumps(body) + " " * (kilobytes << 10),
        headers={"authorization": f"Bearer {KEYS['alice']}", "content-type": "application/json"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["completion_tokens"] == 4


def test_a_prompt_that_is_too_long_is_said_to_be(run: State) -> None:
    said = ask(run, messages=[{"role": "user", "content": "so " * 200_000}])
    assert said.status_code == 400
    assert said.json()["error"]["code"] == "context_length_exceeded"
    said = ask(run, messages=[{"role": "user", "content": "so " * 3_000_000}])
    assert said.status_code == 413
    assert said.json()["error"]["code"] == "request_too_large"


def test_nothing_fails_hangs_or_grows(run: State, pytestconfig: pytest.Config) -> None:
    endure(run, pytestconfig.getoption("--slow"))


def test_settings_change_while_it_runs(run: State) -> None:
    engines = {replica.replica_id for replica in serve.standing(run).replicas}
    files = list(run.folder.glob("mounts/*/opt/ray-pd-llm/endpoint_guard/settings.json"))
    assert files
    kept = files[0].read_text()
    for file in files:
        file.write_text(json.dumps({**json.loads(kept), "answer_tokens": 4}))
    until(lambda: ask(run, max_tokens=8).status_code == 400, "the new limit holds")
    for file in files:
        file.write_text("{")  # half of a file changes nothing
    assert ask(run, max_tokens=8).status_code == 400
    for file in files:
        file.write_text(kept)
    until(lambda: ask(run, max_tokens=8).status_code == 200, "the old limit holds again")
    assert {replica.replica_id for replica in serve.standing(run).replicas} == engines
