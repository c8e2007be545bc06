"""What is found in an engine's log: the lines are those of vLLM 0.26.0 and NIXL 1.3.1."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

from raypd.live.proof import nixl_log
from raypd.report import UsageError

BEGIN = "(Worker pid=18150) INFO 12-02 01:33:44 [base_worker.py:250] "
LOG = f"""\
{BEGIN}Initializing NIXL worker cOb7u1-10.0.0.7-22000
(Worker pid=18150) 2026-12-02 01:33:45 NIXL INFO    _api.py:390 Backend LIBFABRIC was instantiated
(Worker pid=18150) 2026-12-02 01:33:45 NIXL INFO    _api.py:268 Initialized NIXL agent: d4bd9af7
"""
CONTEXT = {
    "failure_type": "handshake_failed",
    "request_id": "chatcmpl-1",
    "engine_id": "cOb7u1-10.0.0.7-22000",
    "remote_engine_id": "dMsgwD-10.0.0.5-20000",
    "remote_host": "10.0.0.5",
    "remote_port": 20000,
    "local_block_ids_sample": [1, 2],
}
FAILED = (
    "(Worker pid=18150) ERROR 12-02 01:40:00 [base_worker.py:920] NIXL transfer failure: "
    f"handshake_failed | Context: {CONTEXT}"
)


def test_backends_and_engine():
    found = nixl_log.parse(LOG)
    assert found.backends == {"LIBFABRIC"}
    assert found.engines == {"cOb7u1-10.0.0.7-22000"}
    assert found.failures == ()
    assert found.why == ""


def test_a_failure_names_its_peer():
    (failure,) = nixl_log.parse(f"{LOG}{FAILED}\n").failures
    assert failure.kind == "handshake_failed"
    assert failure.engine == "dMsgwD-10.0.0.5-20000"
    assert failure.host == "10.0.0.5"
    assert failure.line == FAILED


def test_failures_without_a_readable_context_count_too():
    cut = FAILED[: FAILED.index("'remote_host'")] + "}"
    strange = FAILED.replace("[1, 2]", "<object>")
    expired = (
        "(Worker pid=9) ERROR 12-02 01:40:00 [pull_worker.py:380] Potentially invalid KV blocks for"
        " unrecognized request abc were retrieved by a decode worker. They may have expired."
    )
    failures = nixl_log.parse("\n".join([cut, strange, expired])).failures
    assert [f.host for f in failures] == [None, None, None]
    assert "lease" in failures[-1].kind


def test_only_processes_that_live_are_read(tmp_path):
    """The very script that runs in a pod, on files named as Ray names them."""
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        ended.wait()
    (tmp_path / f"worker-0a8d-01000000-{os.getpid()}.out").write_text(f"noise\n{LOG}")
    (tmp_path / f"worker-0a8d-01000000-{os.getpid()}.err").write_text(f"{FAILED}\n")
    (tmp_path / f"worker-3791-01000000-{ended.pid}.out").write_text(LOG.replace("LIBFABRIC", "UCX"))
    found = _read(str(tmp_path))
    assert found.backends == {"LIBFABRIC"}
    assert len(found.failures) == 1


def test_a_log_that_is_not_there_is_no_error(tmp_path):
    assert _read(str(tmp_path)).backends == frozenset()


def test_a_refusal_is_kept():
    def refuse(*_: object) -> str:
        raise UsageError("pods/exec is forbidden")

    found = nixl_log.read(SimpleNamespace(exec=refuse), "inference", POD)
    assert found.why == "pods/exec is forbidden"


POD = {"metadata": {"name": "decode-0"}, "spec": {"containers": [{"name": "ray-worker"}]}}


def _read(folder: str) -> nixl_log.NixlLog:
    def run(namespace: str, pod: str, container: str, command: list[str]) -> str:
        assert (namespace, pod, container) == ("inference", "decode-0", "ray-worker")
        here = [part.replace("/tmp/ray/session_latest/logs", folder) for part in command]
        return subprocess.run(here, capture_output=True, text=True, check=True).stdout

    return nixl_log.read(SimpleNamespace(exec=run), "inference", POD)
