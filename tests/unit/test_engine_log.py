"""Errors and phases in vLLM's log lines."""

from __future__ import annotations

import pytest

from raypd.engine_log import first_error, last_exception, phase, thread_exception

FAILED = """\
(EngineCore pid=77) INFO 12-01 22:00:01 [core.py:116] Initializing a V1 LLM engine (v0.26.0)
(EngineCore pid=77) ERROR 12-01 22:00:02 [core.py:1136] EngineCore failed to start.
(EngineCore pid=77) ERROR 12-01 22:00:02 [core.py:1136] Traceback (most recent call last):
(EngineCore pid=77) ERROR 12-01 22:00:02 [core.py:1136]   File "x.py", line 1, in f
(EngineCore pid=77) ERROR 12-01 22:00:02 [core.py:1136] OSError: You are trying to access a gated repo.
(EngineCore pid=77) ERROR 12-01 22:00:02 [core.py:1136] Make sure to have access to it.
(EngineCore pid=77) ERROR 12-01 22:00:02 [core.py:1136]\x20
(EngineCore pid=77) ERROR 12-01 22:00:02 [core.py:1136] The above exception was the direct cause of:
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def test_all_lines_of_the_exception_and_nothing_behind_it():
    assert first_error([("a.err", FAILED)]) == (
        "OSError: You are trying to access a gated repo.\nMake sure to have access to it.",
        "a.err",
    )


def test_the_earliest_of_several_logs():
    later = FAILED.replace("22:00:02", "22:00:09").replace("OSError", "KeyError")
    found = first_error([("b.err", later), ("a.err", FAILED)])
    assert found is not None
    assert found[1] == "a.err"


def test_workers_of_tensor_parallelism_have_names_of_their_own():
    line = "(Worker_TP1 pid=9) ERROR 12-01 22:00:02 [x.py:1] ValueError: no\n"
    assert first_error([("a", line)]) == ("ValueError: no", "a")


def test_a_log_without_an_error():
    assert first_error([("a", "INFO 12-01 22:00:02 [core.py:1] all is well\n")]) is None


def test_the_last_exception_of_a_traceback():
    words = "Traceback:\nKeyError: 1\n\nDuring handling:\nOSError: gated repo.\nSee there."
    assert last_exception(words) == "OSError: gated repo.\nSee there."
    assert last_exception("Traceback:\nException: bare") == "Exception: bare"
    assert last_exception("no exception at all") == "no exception at all"


def test_the_exception_of_a_thread():
    words = (
        "(EngineCore pid=7) Exception in thread x:\n(EngineCore pid=7) Traceback ...\n"
        "(EngineCore pid=7) zmq.error.ZMQError: Address already in use\nINFO later\n"
    )
    assert thread_exception(words) == "zmq.error.ZMQError: Address already in use"


START = [
    (
        "INFO 2026-12-02 01:35:20,317 llm_Prefill:x kxtn31hv -- Nothing to download from object "
        "storage: the engine starts at once",
        "starts",
    ),
    (
        "INFO 2026-12-02 01:35:23,317 llm_Prefill:x kxtn31hv -- Running tasks to download model files "
        "on worker nodes",
        "looks for the model's files",
    ),
    ("Fetching 14 files:  21%|##1       | 3/14 [00:10<00:40]", "downloads the model, 21 %"),
    (
        "INFO 12-02 01:36:40 [model.py:623] Resolved architecture: Qwen3ForCausalLM",
        "reads the model's configuration",
    ),
    (
        "(EngineCore pid=599) INFO 12-02 01:36:59 [core.py:116] Initializing a V1 LLM engine (v0.26.0)",
        "starts the engine's processes",
    ),
    (
        "(Worker pid=657) INFO 12-02 01:37:21 [gpu_model_runner.py:5251] Starting to load model x...",
        "loads weights",
    ),
    (
        "(Worker pid=657) Loading safetensors checkpoint shards:   0% Completed | 0/5 [00:00<?]\r"
        "(Worker pid=657) Loading safetensors checkpoint shards:  40% Completed | 2/5 [00:12<00:18]",
        "loads weights, 40 % (2 of 5 files)",
    ),
    (
        "(Worker pid=657) INFO 12-02 01:37:21 [default_loader.py:430] Loading weights took 0.01 seconds",
        "has its weights, prepares memory",
    ),
    (
        "(Worker pid=657) INFO 12-02 01:37:23 [backends.py:1156] Dynamo bytecode transform time: 5 s",
        "compiles",
    ),
    (
        "(EngineCore pid=599) INFO 12-02 01:37:22 [kv_cache_utils.py:2177] GPU KV cache size: 65 tokens",
        "lays out the KV cache",
    ),
    (
        "(Worker pid=657) INFO 12-02 01:37:22 [base_worker.py:249] Initializing NIXL wrapper",
        "sets up KV transfer",
    ),
    (
        "(Worker pid=657) Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  45%|####5 | 30/67",
        "captures CUDA graphs, 45 %",
    ),
    (
        "(EngineCore pid=599) INFO 12-02 01:37:23 [core.py:347] init engine (profile, create kv cache, "
        "warmup model) took 1.55 s",
        "has its engine, makes its first steps",
    ),
]


@pytest.mark.parametrize("reached", range(len(START)))
def test_the_furthest_phase_wherever_its_line_stands(reached):
    lines = [line for line, _ in START[: reached + 1]]
    # Progress bars are in another file than the rest, so that the order of lines says nothing.
    assert phase("\n".join(reversed(lines))) == START[reached][1]


def test_a_log_that_says_nothing_has_no_phase():
    assert phase(":job_id:01000000\n:actor_name:ServeReplica:llm:Decode:x\n") is None
