"""Telling a failed application from a loading one, and finding the engine's own error."""

from __future__ import annotations

from raypd.local.serve import Standing, engine_error, first_error

LOG = """\
(EngineCore pid=77) INFO 12-01 22:00:01 [core.py:10] Initializing a V1 LLM engine
(EngineCore pid=77) ERROR 12-01 22:00:02 [core.py:99] EngineCore failed to start.
(EngineCore pid=77) ERROR 12-01 22:00:02 [core.py:99] Traceback (most recent call last):
(EngineCore pid=77) ERROR 12-01 22:00:02 [core.py:99]   File "x.py", line 1, in f
(EngineCore pid=77) ERROR 12-01 22:00:02 [core.py:99] ValueError: No available memory for the cache blocks.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def _standing(status="DEPLOYING", message="", **deployments) -> Standing:
    return Standing(status, message, deployments, [])


def test_loading_is_no_error(tmp_path):
    assert first_error(_standing(Decode=("UPDATING", "")), tmp_path) is None


def test_waiting_for_a_node_is_no_error(tmp_path):
    waits = (
        "UPDATING",
        "Deployment 'Decode' has 1 replicas that have taken more than 30s to start",
    )
    assert first_error(_standing(Decode=waits), tmp_path) is None


def test_the_engines_own_error_comes_before_the_replicas(tmp_path):
    logs = tmp_path / "ray" / "decode-0" / "session_2026" / "logs"
    logs.mkdir(parents=True)
    (logs / "worker-1.err").write_text(LOG)
    failed = ("DEPLOY_FAILED", "Traceback ...\nRuntimeError: Engine core initialization failed.")
    error = first_error(_standing("DEPLOY_FAILED", Decode=failed), tmp_path)
    assert error is not None
    assert error.startswith("ValueError: No available memory for the cache blocks.")
    assert "worker-1.err" in error


def test_the_earliest_error_of_all_processes(tmp_path):
    logs = tmp_path / "ray" / "decode-0" / "session_2026" / "logs"
    logs.mkdir(parents=True)
    (logs / "worker-1.err").write_text(LOG)
    unnamed = (
        "ERROR 12-01 22:00:01 [multiproc_executor.py:9] subprocess.CalledProcessError: lscpu\n"
    )
    (logs / "worker-2.out").write_text(unnamed)
    error = engine_error(tmp_path)
    assert error is not None
    assert error.startswith("subprocess.CalledProcessError: lscpu")


def test_without_an_engines_log_serves_words(tmp_path):
    failed = ("UPDATING", "Traceback (most recent call last):\n  ...\nKeyError: 'decode'")
    error = first_error(_standing(Decode=failed), tmp_path)
    assert error == "KeyError: 'decode'"


def test_an_application_that_failed_before_its_deployments(tmp_path):
    assert (
        first_error(_standing("DEPLOY_FAILED", "no module named x"), tmp_path)
        == "no module named x"
    )


def test_no_log_no_engine_error(tmp_path):
    assert engine_error(tmp_path) is None
