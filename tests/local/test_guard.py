"""The guard in front of real engines: what it needs Ray Serve, vLLM and NIXL for."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest

from raypd.evidence import unseen_prompt
from raypd.local import chat, evidence, serve, web
from raypd.local.state import State

SECONDS = 30  # for what takes two, on a machine that does other things as well
KEYS = {"alice": "a-key-of-the-tests-0001", "bob": "a-key-of-the-tests-0002"}
STAGES = ["queue", "prefill", "kv_transfer", "first_token", "decode"]


@pytest.fixture(scope="module")
def run(disaggregated: State) -> State:
    return disaggregated


def ask(run: State, key: str | None = KEYS["alice"], **options: Any) -> httpx.Response:
    body = {
        "messages": [{"role": "user", "content": unseen_prompt()}],
        "max_tokens": 8,
        "temperature": 0,
        **options,
    }
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    url = f"{run.endpoint}/chat/completions"
    return web.client().post(url, json=body, headers=headers, timeout=60)


def long_stream(run: State) -> Any:
    """A streamed answer of 700 tokens that has begun, which takes some seconds."""
    return chat.client(run).chat.completions.with_raw_response.create(
        model=run.model_id,
        messages=[{"role": "user", "content": unseen_prompt()}],
        max_tokens=700,
        extra_body={"ignore_eos": True},
        stream=True,
    )


def until(what: Callable[[], Any], words: str) -> Any:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.5)
    raise AssertionError(f"not within {SECONDS} s: {words}")


def logged(run: State, request_id: str) -> dict[str, Any] | None:
    """The guard's line about a request."""
    for log in run.folder.glob("ray/*/session_2*/logs/serve/*OpenAiIngress*"):
        for line in log.read_text(errors="replace").splitlines():
            if f'"{request_id}"' in line and " request {" in line:
                return json.loads(line.partition(" request ")[2])
    return None


def counter(run: State, name: str) -> float:
    """The sum of a metric over all nodes and labels."""
    total = 0.0
    for text in evidence.exported(run).values():
        total += sum(float(n) for n in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.M))
    return total


@contextmanager
def settings(run: State, **changed: Any) -> Iterator[None]:
    """Within it the serve config has other settings of the guard, as after an upgrade."""
    details = web.client().get(f"{run.dashboard}/api/serve/applications/").json()
    config = details["applications"]["llm"]["deployed_app_config"]
    other = copy.deepcopy(config)
    ingress = next(d for d in other["deployments"] if d["name"] == "OpenAiIngress")
    ingress["user_config"] |= changed
    try:
        _put(run, other)
        yield
    finally:
        _put(run, config)


def _put(run: State, application: dict[str, Any]) -> None:
    """As KubeRay does it."""
    url = f"{run.dashboard}/api/serve/applications/"
    web.client().put(url, json={"applications": [application]}, timeout=60).raise_for_status()
    until(lambda: serve.standing(run).status == "RUNNING", "the application runs")


def replicas(run: State) -> set[str]:
    return {replica.replica_id for replica in serve.standing(run).replicas}


def test_each_key_opens_and_no_other(run):
    for key in KEYS.values():
        assert ask(run, key).status_code == 200
    for key in (None, "a-key-of-the-tests-0003", "a-key"):
        answer = ask(run, key)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"
    with pytest.raises(openai.AuthenticationError):
        chat.client(run).with_options(api_key="wrong").models.list()


def test_a_key_that_is_added_opens_until_it_is_taken_out(run):
    folders = list(run.folder.glob("mounts/*/opt/ray-pd-llm/api-keys"))
    new = "a-key-of-the-tests-0004"
    assert ask(run, new).status_code == 401
    for folder in folders:
        (folder / "carol").write_text(new)
    until(lambda: ask(run, new).status_code == 200, "the new key opens")
    for folder in folders:
        (folder / "carol").unlink()
    until(lambda: ask(run, new).status_code == 401, "the old key opens no more")


def test_where_the_time_went_is_told_logged_and_counted(run):
    before = counter(run, "ray_llm_endpoint_stage_seconds_count")
    answer = ask(run, KEYS["bob"])
    told = dict(re.findall(r"(\w+);dur=([\d.]+)", answer.headers["server-timing"]))
    assert list(told) == STAGES
    line = until(lambda: logged(run, answer.headers["x-request-id"]), "the request is logged")
    assert line["key"] == "bob" and line["status"] == 200 and not line["cut"]
    assert line["completion_tokens"] == answer.json()["usage"]["completion_tokens"] > 0
    stages = sum(line[f"{stage}_ms"] for stage in STAGES)
    assert stages == pytest.approx(line["total_ms"], abs=max(20, 0.2 * line["total_ms"]))
    until(
        lambda: counter(run, "ray_llm_endpoint_stage_seconds_count") >= before + len(STAGES),
        "each stage is counted",
    )


def test_neither_keys_nor_prompts_are_logged(run):
    prompt = unseen_prompt("a secret matter")
    ask(run, messages=[{"role": "user", "content": prompt}])
    ask(run, KEYS["bob"], messages=[{"role": "user", "content": prompt}], temperature="hot")
    logs = [*run.folder.glob("ray/*/session_2*/logs/**/*"), *run.folder.glob("logs/*")]
    text = "".join(log.read_text(errors="replace") for log in logs if log.is_file())
    assert "request {" in text
    assert not [key for key in KEYS.values() if key in text]
    assert prompt not in text


def test_a_minimum_of_tokens_is_kept(run):
    usage = ask(run, min_tokens=6, max_tokens=8).json()["usage"]
    assert 6 <= usage["completion_tokens"] <= 8


def test_no_request_ends_an_engine(run):
    """The first ended one without the guard; the third does on GPUs (vLLM 0.26)."""
    before = replicas(run)
    assert ask(run, stop_token_ids=[10**6], min_tokens=2).status_code == 400
    assert ask(run, stop_token_ids=[10**6]).status_code == 200
    assert ask(run, bad_words=["x"] * 1000).status_code == 400
    assert ask(run).status_code == 200
    assert replicas(run) == before


def test_several_choices_are_those_of_several_requests_and_each_reads_kv_once(run):
    options = {"temperature": 1, "seed": 7, "max_tokens": 8}
    message = [{"role": "user", "content": unseen_prompt()}]
    alone = [
        ask(run, messages=message, **{**options, "seed": 7 + n}).json()["choices"][0]["message"]
        for n in range(3)
    ]
    fresh = [{"role": "user", "content": message[0]["content"]}]
    answer = ask(run, messages=fresh, n=3, **options).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert [choice["message"]["content"] for choice in answer["choices"]] == [
        each["content"] for each in alone
    ]


def test_several_prompts_each_get_their_own_kv(run):
    texts = [unseen_prompt(f"prompt {n} " * (n + 1)) for n in range(3)]
    client = chat.client(run)
    whole = client.completions.create(model=run.model_id, prompt=texts, max_tokens=6, temperature=0)
    alone = [
        client.completions.create(model=run.model_id, prompt=text, max_tokens=6, temperature=0)
        for text in texts
    ]
    assert [c.text for c in whole.choices] == [a.choices[0].text for a in alone]
    assert whole.usage.prompt_tokens == sum(a.usage.prompt_tokens for a in alone)
    assert whole.usage.completion_tokens == sum(a.usage.completion_tokens for a in alone)


def test_a_stream_that_is_left_ends_in_both_engines_and_is_counted(run):
    stream = long_stream(run)
    pieces = iter(stream.parse())
    for _ in range(4):
        next(pieces)
    stream.http_response.close()
    line = until(lambda: logged(run, stream.headers["x-request-id"]), "the request is logged")
    assert line["cut"] and 0 < line["completion_tokens"] < 700
    until(lambda: counter(run, "ray_vllm_num_requests_running") == 0, "no engine goes on")


def test_settings_change_while_the_engines_stay(run):
    before = replicas(run)
    assert ask(run, n=2).status_code == 200
    with settings(run, choices=1):
        refused = until(lambda: (a := ask(run, n=2)).status_code == 400 and a, "n=2 is refused")
        assert refused.json()["error"]["param"] == "n"
        assert replicas(run) == before
    until(lambda: ask(run, n=2).status_code == 200, "n=2 is taken again")
    assert replicas(run) == before


def test_what_is_too_much_is_refused_at_once(run):
    with settings(run, in_flight=1, queue=0, choices=1):
        until(lambda: ask(run, n=2).status_code == 400, "the settings hold")
        # On a busy machine the second request may come when the first answer has ended.
        refused = until(lambda: asked_beside_a_stream(run), "a second request is refused")
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["code"] == "overloaded"
    until(lambda: ask(run).status_code == 200, "there is room again")


def asked_beside_a_stream(run: State) -> httpx.Response | None:
    """The answer to a request that came while another was answered, unless it was taken."""
    stream = long_stream(run)
    pieces = iter(stream.parse())
    next(pieces)
    begin = time.monotonic()
    answer = ask(run)
    assert time.monotonic() - begin < SECONDS / 3
    stream.http_response.close()
    assert answer.status_code in (200, 503)
    return answer if answer.status_code == 503 else None


def test_the_proof_still_holds_behind_the_guard(run):
    before = evidence.settled(run)
    answer = chat.ask(run, unseen_prompt())
    found = evidence.after_request(run, before, answer.prompt_tokens)
    assert found.faults(disaggregated=True) == []
