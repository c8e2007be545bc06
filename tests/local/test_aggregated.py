"""The baseline: one engine computes prompt and answer, and no KV moves."""

from __future__ import annotations

from pathlib import Path

from raypd.evidence import unseen_prompt
from raypd.local import chat, cluster, evidence, serve, state, verb


def test_one_engine_does_both_and_no_kv_moves(aggregated):
    before = evidence.settled(aggregated)
    answer = chat.ask(aggregated, unseen_prompt())
    found = evidence.after_request(aggregated, before, answer.prompt_tokens)
    assert answer.text.strip()
    assert found.computed == {"engine": answer.prompt_tokens}
    assert found.received == {}
    assert found.kv_bytes == 0
    assert found.faults(disaggregated=False) == []


def test_the_engine_is_on_its_group(aggregated):
    now = serve.standing(aggregated)
    replicas = verb.placed(aggregated, now, cluster.node_names(aggregated))
    assert {r["group"] for r in replicas if r["deployment"].startswith("LLMServer")} == {"engine"}
    assert verb.misplaced(aggregated, replicas) == []


def test_stream(aggregated):
    answer = chat.ask(aggregated, unseen_prompt(), stream=True)
    assert answer.text.strip()
    assert answer.completion_tokens > 0


def test_down_leaves_nothing(aggregated):
    """Last in this module: it ends the module's run."""
    shared = {
        line.split(maxsplit=5)[5]
        for process in aggregated.processes()
        for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        if "/dev/shm/" in line and not line.endswith("(deleted)")
    }
    assert state.end(aggregated) > 5
    assert aggregated.processes() == []
    assert not aggregated.folder.exists()
    assert not [name for name in shared if Path(name).exists()]
    assert state.find(aggregated.name) is None
