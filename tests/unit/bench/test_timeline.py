"""Where an engine's seconds went, from lines as vLLM, Ray and NIXL write them."""

from __future__ import annotations

from datetime import datetime

import pytest

from raypd.bench import timeline

BEGIN = datetime(2026, 12, 2, 16, 18, 0)
REPLICA = [
    "INFO 2026-12-02 16:18:23,243 llm_Decode:bench 6n5yp50l -- Running tasks to download model files on worker nodes",
    "INFO 2026-12-02 16:19:36,496 llm_Decode:bench 6n5yp50l -- Started vLLM engine.",
]
ENGINE = [
    "(EngineCore pid=7) INFO 12-02 16:18:34 [core.py:116] Initializing a V1 LLM engine (v0.26.0) with config: ...",
    "(Worker pid=9) INFO 12-02 16:18:40 [model_runner.py:280] Starting to load model /m...",
    "(Worker pid=9) INFO 12-02 16:18:44 [model_runner.py:306] Model loading took 15.27 GiB and 3.851023 seconds",
    "(Worker pid=9) INFO 12-02 16:18:50 [backends.py:393] Compiling a graph for compile range (1, 8192) takes 17.90 s",
    "(Worker pid=9) INFO 12-02 16:19:12 [monitor.py:48] torch.compile took 27.31 s in total",
    "(Worker pid=9) INFO 12-02 16:19:22 [base_worker.py:249] Initializing NIXL wrapper",
    "(Worker pid=9) 2026-12-02 16:19:23 NIXL INFO    _api.py:390 Backend UCX was instantiated",
    "(Worker pid=9) INFO 12-02 16:19:24 [base_worker.py:1073] Registering KV_Caches. use_mla: False",
    "(Worker pid=9) INFO 12-02 16:19:30 [model_runner.py:748] Graph capturing finished in 6 secs, took 0.61 GiB",
    "(EngineCore pid=7) INFO 12-02 16:19:31 [core.py:341] init engine (profile, create kv cache, warmup model) took 47.05 s (compilation: 27.31 s)",
]


def test_each_step_of_a_cold_start():
    start = timeline.read([*ENGINE, *REPLICA], BEGIN)  # files are read one after the other
    assert start == timeline.Start(
        to_replica=23.24,
        to_engine=10.76,
        to_load=6,
        weights=3.851023,
        compile=27.31,
        capture=6,
        nixl=2,
        init=47.05,
        to_ready=96.5,
        graphs_compiled=1,
        graphs_reused=0,
        downloads=0,
    )


def test_a_start_without_a_task_that_downloads():
    line = "INFO 2026-12-02 16:18:23,243 llm_Decode:bench 6n -- Nothing to download from object storage"
    assert timeline.read([line, *ENGINE], BEGIN).to_replica == 23.24
    assert any(word in line for word in timeline.WORDS)


def test_a_warm_start_reuses_and_compiles_nothing():
    lines = [
        "(Worker pid=9) INFO 12-02 16:18:50 [decorators.py:311] Directly load AOT compilation from path /cache/vllm/torch_aot_compile/ab",
        "(Worker pid=9) INFO 12-02 16:18:51 [backends.py:292] Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1.2 s",
    ]
    start = timeline.read(lines, BEGIN)
    assert (start.graphs_compiled, start.graphs_reused) == (0, 2)


def test_what_the_log_does_not_tell_stays_open():
    start = timeline.read(REPLICA[:1], BEGIN)
    assert start.to_replica == 23.24
    assert start.init is start.weights is start.compile is start.nixl is start.to_ready is None


def test_an_engine_without_compilation_has_none():
    lines = [
        "INFO 12-02 16:21:26 [core.py:347] init engine (profile, create kv cache, warmup model) took 5.74 s"
    ]
    start = timeline.read(lines, BEGIN)
    assert (start.init, start.compile) == (5.74, None)


@pytest.mark.parametrize(
    "line",
    [
        "Fetching 12 files:  25%|██▌       | 3/12 [00:10<00:31,  3.5s/it]",
        "Downloading shards: model-00001-of-00004.safetensors:  10%",
    ],
)
def test_a_download_is_seen(line):
    assert timeline.read([line], BEGIN).downloads == 1


def test_over_new_years_eve():
    begin = datetime(2026, 12, 31, 23, 59, 50)
    lines = [
        "INFO 2026-12-31 23:59:55,000 x -- Running tasks to download model files on worker nodes",
        "(EngineCore pid=7) INFO 01-01 00:00:05 [core.py:116] Initializing a V1 LLM engine (v0.26.0)",
    ]
    assert timeline.read(lines, begin).to_engine == 10
