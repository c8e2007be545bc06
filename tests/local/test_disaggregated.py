"""The chart's default mode, for real: what a client sees, and what the counters say.

The tests share one run and go from harmless to harmful: the last one kills the prefill engine.
"""

from __future__ import annotations

import re
import time

import openai
import psutil
import pytest
import yaml

from chart.monitoring.promql import SUFFIXES
from chart.rendering import ROOT
from raypd.evidence import unseen_prompt
from raypd.local import chat, cluster, evidence, serve, verb
from raypd.local.state import State

COMES_BACK_SECONDS = 300
REPORTED_SECONDS = 30


def _create(run: State, prompt: str, **options):
    request = {"max_tokens": 16, "temperature": 0, **options}
    messages = [{"role": "user", "content": prompt}]
    client = chat.client(run)
    return client.chat.completions.create(model=run.model_id, messages=messages, **request)


def test_the_model_is_listed(disaggregated):
    assert disaggregated.model_id in [m.id for m in chat.client(disaggregated).models.list()]


def test_chat(disaggregated):
    answer = _create(disaggregated, "Hello.")
    assert answer.model == disaggregated.model_id
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content.strip()


def test_the_same_question_has_the_same_answer(disaggregated):
    prompt = unseen_prompt()
    texts = {_create(disaggregated, prompt).choices[0].message.content for _ in range(3)}
    assert len(texts) == 1


def test_stream_has_the_same_answer_in_pieces(disaggregated):
    prompt = unseen_prompt()
    whole = chat.ask(disaggregated, prompt)
    streamed = chat.ask(disaggregated, prompt, stream=True)
    assert streamed.text == whole.text
    assert streamed.finish_reason == whole.finish_reason
    assert streamed.first_seconds <= streamed.seconds
    pieces = list(_create(disaggregated, prompt, stream=True))
    assert sum(bool(c.choices and c.choices[0].delta.content) for c in pieces) > 1


def test_usage_and_length(disaggregated):
    answer = _create(disaggregated, "Hello.", max_tokens=5, extra_body={"ignore_eos": True})
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 5
    assert answer.usage.prompt_tokens > 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 5


def test_stop(disaggregated):
    # The model often says one word only; a few questions are enough to get two of them.
    for number in range(20):
        prompt = unseen_prompt(f"question {number}")
        text = (
            _create(disaggregated, prompt, extra_body={"ignore_eos": True})
            .choices[0]
            .message.content
        )
        first, *others = text.split()
        if stop := next((word for word in others if word not in first), None):
            break
    assert stop, "twenty answers of a single word each"
    cut = _create(disaggregated, prompt, stop=[stop], extra_body={"ignore_eos": True})
    assert cut.choices[0].finish_reason == "stop"
    assert cut.choices[0].message.content == text[: text.index(stop)]


def test_prefill_computes_and_decode_pulls(disaggregated):
    before = evidence.settled(disaggregated)
    answer = chat.ask(disaggregated, unseen_prompt())
    found = evidence.after_request(disaggregated, before, answer.prompt_tokens)
    assert found.faults(disaggregated=True) == []
    assert found.computed == {"prefill": answer.prompt_tokens}
    assert found.received == {"decode": answer.prompt_tokens}
    assert found.kv_bytes > 0
    assert found.kv_reads == 1
    assert found.kv_seconds > 0


def test_kv_bytes_grow_with_the_prompt(disaggregated):
    sizes = []
    for words in ("short", "a much longer prompt, of many words " * 16):
        before = evidence.settled(disaggregated)
        answer = chat.ask(disaggregated, unseen_prompt(words))
        found = evidence.after_request(disaggregated, before, answer.prompt_tokens)
        sizes.append(found.kv_bytes)
    assert sizes[1] > sizes[0] > 0


def test_engines_are_on_their_groups(disaggregated):
    now = serve.standing(disaggregated)
    replicas = verb.placed(disaggregated, now, cluster.node_names(disaggregated))
    groups = {r["deployment"].split(":")[0]: r["group"] for r in replicas}
    assert groups["Prefill"] == "prefill"
    assert groups["Decode"] == "decode"
    assert verb.misplaced(disaggregated, replicas) == []


def test_engines_without_work_leave_the_cores_alone(disaggregated):
    def spent() -> float:
        engines = [p for p in disaggregated.processes() if "VLLM" in " ".join(p.cmdline())]
        assert len(engines) >= 4  # a core and a worker for each of two engines
        return sum(t.user + t.system for t in (p.cpu_times() for p in engines))

    before = spent()
    time.sleep(4)
    assert spent() - before < 2  # a thread that polls takes as much as it gets, up to 8


def test_an_unknown_model_is_an_error(disaggregated):
    with pytest.raises(openai.APIStatusError):
        chat.client(disaggregated).chat.completions.create(
            model="no-such-model", messages=[{"role": "user", "content": "Hello."}]
        )


def test_a_second_run_of_the_name_is_refused(disaggregated):
    with pytest.raises(verb.UsageError, match="already up"):
        verb.start(
            None, verb.ValueArguments([], [], [], [], []), disaggregated.name, 10, verb.Stages()
        )


def test_no_process_is_started_to_download_nothing(disaggregated):
    logs = list(disaggregated.folder.glob("ray/*/session_2*/logs/worker-*"))
    assert logs
    assert not [log for log in logs if "initialize_remote_node" in log.read_text(errors="replace")]


def test_every_metric_of_alerts_and_dashboards_is_exported_by_its_roles(disaggregated):
    chat.ask(disaggregated, unseen_prompt())
    lacking = wanted = _wanted_metrics()
    deadline = time.monotonic() + REPORTED_SECONDS
    while lacking and time.monotonic() < deadline:
        time.sleep(1)
        exported = _exported_metrics(disaggregated)
        lacking = {(role, name) for role, name in lacking if name not in exported[role]}
    assert wanted
    assert not lacking


def _wanted_metrics() -> set[tuple[str, str]]:
    """Role and name of what is there after a request, without what only a fault or load brings."""
    listed = yaml.safe_load((ROOT / "scripts/dashboards/metrics.yaml").read_text())
    return {
        (role, name + suffix)
        for name, facts in listed.items()
        if facts["appears"] in ("start", "request", "transfer")
        for role in facts["roles"]
        if role != "engine"  # of the other mode
        for suffix in SUFFIXES[facts["type"]]
    }


def _exported_metrics(run: State) -> dict[str, set[str]]:
    """Names of the metrics with a series now, by role; "proxy" and "ingress" can be on any node."""
    found: dict[str, set[str]] = {"proxy": set(), "ingress": set()}
    for node, text in evidence.exported(run).items():
        names = set(re.findall(r"^(\w+)[{ ]", text, re.M))
        for role in (run.groups[node], "proxy", "ingress"):
            found.setdefault(role, set()).update(names)
    return found


def test_a_killed_prefill_engine_never_gives_a_wrong_answer_and_comes_back(disaggregated):
    prompts = [unseen_prompt(f"question {n}") for n in range(3)]
    right = {prompt: chat.ask(disaggregated, prompt).text for prompt in prompts}
    before = {r.replica_id for r in _replicas(disaggregated, "Prefill")}
    for replica in _replicas(disaggregated, "Prefill"):
        psutil.Process(replica.pid).kill()
    client = chat.client(disaggregated).with_options(timeout=20)

    def ask(prompt: str) -> str | None:
        """The answer, or None for an error, which a client can see and repeat."""
        try:
            answer = client.chat.completions.create(
                model=disaggregated.model_id,
                messages=[{"role": "user", "content": prompt}],
                max_tokens=24,
                temperature=0,
            )
        except openai.APIError:
            return None
        return answer.choices[0].message.content

    deadline = time.monotonic() + COMES_BACK_SECONDS
    back = False
    while not back and time.monotonic() < deadline:
        for prompt in prompts:
            assert ask(prompt) in (None, right[prompt])
        running = [r for r in _replicas(disaggregated, "Prefill") if r.state == "RUNNING"]
        back = bool(running) and not before & {r.replica_id for r in running}
        time.sleep(2)
    assert back, f"prefill did not come back within {COMES_BACK_SECONDS} s"
    fresh = unseen_prompt()
    counters = evidence.settled(disaggregated)
    answer = chat.ask(disaggregated, fresh)
    found = evidence.after_request(disaggregated, counters, answer.prompt_tokens)
    assert found.faults(disaggregated=True) == []
    for prompt in prompts:
        assert chat.ask(disaggregated, prompt).text == right[prompt]


def _replicas(run: State, role: str) -> list[serve.Replica]:
    return [r for r in serve.standing(run).replicas if r.deployment.startswith(f"{role}:")]
