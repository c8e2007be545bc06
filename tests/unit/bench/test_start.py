"""`raypd bench start`: of a local run's folder, and of a release's pods."""

from __future__ import annotations

import os
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from raypd.bench import pod_start, start, timeline
from raypd.local.chat import Answer
from raypd.local.state import State

INIT = "init engine (profile, create kv cache, warmup model) took 5.74 s"


@pytest.fixture
def run(tmp_path, monkeypatch) -> State:
    """A run whose prefill engine is up and whose decode engine is not, with caches that two variables
    name."""
    logs = {"prefill-0": f"INFO 12-02 16:21:26 [core.py:347] {INIT}\n", "decode-0": "nothing yet\n"}
    for node, text in logs.items():
        folder = tmp_path / "ray" / node / "session_2026-12-02" / "logs"
        folder.mkdir(parents=True)
        (folder / "worker-1-2-3.out").write_text(text)
    (tmp_path / "cache" / "vllm").mkdir(parents=True)
    answer = Answer("x", "length", 9, 2, 0.25, 0.3)
    monkeypatch.setattr(start.chat, "ask", lambda run, prompt, **_: answer)
    return State(
        name="a",
        run_id="a-1",
        folder=tmp_path,
        model_id="m",
        model_source="/m",
        max_model_len=1024,
        caches={"HF_HOME": f"{tmp_path}/cache", "VLLM_CACHE_ROOT": f"{tmp_path}/cache/vllm"},
        disaggregated=True,
        backends=["UCX"],
        gcs_port=1,
        dashboard_port=2,
        http_port=3,
        metrics={},
        nixl_metrics={},
        groups={"head": "head", "prefill-0": "prefill", "decode-0": "decode"},
    )


def test_a_row_for_each_engine_and_none_for_the_head(run):
    prefill, decode = start.of_run(run)
    assert (prefill["engine"], prefill["init"], prefill["error"]) == ("prefill-0", 5.74, None)
    assert prefill["first_token"] == 0.25
    assert decode["init"] is None
    assert "does not say that the engine is up" in decode["error"]


def test_only_what_this_start_wrote_is_counted_and_each_file_once(run):
    old = Path(run.caches["HF_HOME"], "old")
    old.write_text("before")
    os.utime(old, (run.started - 60, run.started - 60))
    Path(run.caches["VLLM_CACHE_ROOT"], "graph").write_text("12345")
    row = start.of_run(run)[0]
    assert (row["cache_files_written"], row["cache_bytes_written"]) == (1, 5)


def test_a_warm_start_that_compiles_or_downloads_is_told():
    row = {"graphs_compiled": 0, "downloads": 0}
    assert start.missed(row) is None
    assert "2 graphs compiled" in start.missed({**row, "graphs_compiled": 2})
    assert "1 downloads" in start.missed({**row, "downloads": 1})


def test_without_a_graph_the_compile_cache_is_said_to_be_untested(run):
    rows = start.of_run(run)
    assert any("says nothing about the compile cache" in note for note in start.notes(rows))
    rows[0]["graphs_reused"] = 3
    assert not any("says nothing" in note for note in start.notes(rows))


def _pod(made: datetime, **status) -> dict:
    return {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "uid": "u",
            "creationTimestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        "spec": {"containers": [{"name": "ray"}]},
        "status": status,
    }


def test_a_pods_own_seconds():
    made = datetime(2026, 12, 2, 16, 0, tzinfo=UTC)
    pod = _pod(
        made,
        conditions=[
            {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": "2026-12-02T16:00:07Z",
            }
        ],
        containerStatuses=[
            {"name": "sidecar", "state": {"running": {"startedAt": "2026-12-02T16:00:09Z"}}},
            {"name": "ray", "state": {"running": {"startedAt": "2026-12-02T16:02:00Z"}}},
        ],
    )
    assert pod_start.scheduled(pod) == 7
    assert pod_start.container_began(pod) == made + timedelta(minutes=2)
    assert pod_start.scheduled(_pod(made)) is None


@pytest.mark.parametrize(
    ("messages", "seconds"),
    [
        (['Successfully pulled image "i" in 1m2.5s (1m3s including waiting). Image size: 9'], 62.5),
        (['Container image "i" already present on machine'], 0),
        (['Successfully pulled image "i" in 812ms (812ms including waiting). Image size: 9'], 0.81),
        (
            [
                'Successfully pulled image "i" in 10s (10s including waiting). Image size: 9',
                'Container image "i" already present on machine',
            ],
            10,
        ),
        ([], None),
    ],
)
def test_seconds_of_an_image(messages, seconds):
    events = [{"reason": "Pulled", "message": message} for message in messages]
    assert pod_start.image([{"reason": "Started", "message": ""}, *events]) == seconds


class FakeCluster:
    """Runs what is to run in a container on this machine, where the logs are in another folder."""

    def __init__(self, logs: Path, env: dict[str, str]) -> None:
        self.logs, self.env = logs, env

    def exec(self, namespace, pod, container, command, seconds=30):
        script = command[-1].replace("/tmp/ray/session_latest/logs", str(self.logs))
        done = subprocess.run(
            [*command[:-1], script],
            capture_output=True,
            text=True,
            env={**self.env, "PATH": os.environ["PATH"], "TZ": "Etc/GMT-2"},
            check=True,
        )
        return done.stdout


def test_only_lines_that_tell_leave_the_pod_with_its_clock(tmp_path):
    began = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=30)
    here = (began + timedelta(hours=2, seconds=12)).strftime("%Y-%m-%d %H:%M:%S,000")
    (tmp_path / "worker-1.err").write_text(
        f"INFO {here} x -- Running tasks to download model files on worker nodes\nnoise\n"
    )
    (tmp_path / "worker-1.out").write_text("")
    cache = tmp_path / "cache"
    (cache / "vllm").mkdir(parents=True)
    (cache / "vllm" / "graph").write_text("12345")
    (cache / "old").write_text("before")
    os.utime(cache / "old", (time.time() - 600,) * 2)
    env = {"HF_HOME": str(cache), "VLLM_CACHE_ROOT": str(cache / "vllm")}
    state = {"running": {"startedAt": began.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    pod = _pod(began, containerStatuses=[{"name": "ray", "state": state}])
    lines, begin, files, size = pod_start.read(FakeCluster(tmp_path, env), pod)
    assert len(lines) == 1
    assert timeline.read(lines, begin).to_replica == 12
    assert (files, size) == (1, 5)


def test_a_pod_without_caches_and_without_logs(tmp_path):
    began = datetime.now(UTC).replace(microsecond=0)
    state = {"running": {"startedAt": began.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    pod = _pod(began, containerStatuses=[{"name": "ray", "state": state}])
    lines, _, files, _ = pod_start.read(FakeCluster(tmp_path / "none", {}), pod)
    assert (lines, files) == ([], 0)


def test_every_line_that_is_understood_is_fetched():
    from unit.bench.test_timeline import ENGINE, REPLICA

    told = [line for line in [*ENGINE, *REPLICA] if "Backend UCX" not in line]
    for line in told:
        assert any(word in line for word in timeline.WORDS), line
