"""A plain vLLM server on the CPU with the tiny model: a server of others, to be judged fairly.

It has what the local run has not, so that these checks meet a real server, too: an API key and a parser of
tool calls.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from raypd.local.ports import free_ports
from raypd.local.source import tiny_model_folder
from raypd.toolchain import runtime_environment, runtime_python

MODEL, KEY = "tiny-qwen3", "sk-of-the-plain-server"
SECONDS = 300  # of a start
_OPTIONS = {
    "--served-model-name": MODEL,
    "--host": "127.0.0.1",
    "--api-key": KEY,
    "--tool-call-parser": "hermes",
    "--max-model-len": "1024",
    "--max-num-seqs": "8",
    "--kv-cache-memory-bytes": str(64 * 2**20),
}
_FLAGS = ("--enforce-eager", "--enable-auto-tool-choice")
_ENVIRONMENT = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


@contextmanager
def plain_vllm(folder: Path) -> Iterator[str]:
    """Serves until left; gives the URL. Its log is in the folder."""
    (port,) = free_ports(1)
    options = [word for pair in _OPTIONS.items() for word in pair]
    # Not `vllm serve`, which asks for the version of a package that is called vllm-cpu here.
    serve = ["-m", "vllm.entrypoints.openai.api_server", "--model", str(tiny_model_folder())]
    python = runtime_python()
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **runtime_environment(), **_ENVIRONMENT, "PATH": path}
    log = folder / "vllm.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [python, *serve, "--port", str(port), *_FLAGS, *options],
            env=environment,
            stdout=output,
            stderr=output,
        )
        try:
            _wait(process, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            _end(process)


def _wait(process: subprocess.Popen, url: str, log: Path) -> None:
    end = time.monotonic() + SECONDS
    with httpx.Client(trust_env=False, timeout=5) as client:
        while time.monotonic() < end:
            assert process.poll() is None, log.read_text()[-4000:]
            try:
                if client.get(url).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(1)
    raise AssertionError(f"vLLM did not serve within {SECONDS} s: {log.read_text()[-4000:]}")


def _end(process: subprocess.Popen) -> None:
    """Ends it with its engine, which is a process of its own."""
    if process.poll() is not None:
        return
    server = psutil.Process(process.pid)
    tree = [server, *server.children(recursive=True)]
    process.terminate()
    _, alive = psutil.wait_procs(tree, timeout=20)
    for left in alive:
        left.kill()
    process.wait(timeout=20)
