"""Clients that people use, each in its own environment, each driven once against a local run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from raypd.local import chat
from raypd.local.state import State
from raypd.toolchain.cache import once_in_place
from raypd.toolchain.process import run
from raypd.toolchain.wheels import uv

pytestmark = pytest.mark.slow

CLIENTS = Path(__file__).with_name("clients")
PYTHON = {"openai": "3.57.0", "langchain-openai": "1.7.4", "litellm": "1.110.2"}
NODE = "7.59.0"  # of npm's openai
SECONDS = 300


def done(command: list, folder: Path, server: State | None = None) -> str:
    """What the command prints. The tests' own proxy settings are none of the local run's business."""
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    if server is not None:
        environment |= {
            "URL": server.endpoint,
            "MODEL": server.model_id,
            "KEY": chat.api_key(server) or "unused",
        }
    finished = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.fixture(scope="session")
def python() -> Path:
    """Python with the clients, kept in the cache by their versions."""
    name = "-".join(f"{package}-{version}" for package, version in PYTHON.items())

    def make(folder: Path) -> None:
        wanted = [f"{package}=={version}" for package, version in PYTHON.items()]
        run([uv(), "venv", "--quiet", folder])
        run([uv(), "pip", "install", "--quiet", "--python", folder / "bin" / "python", *wanted])

    return once_in_place(f"clients-{name}", "Installing clients", make) / "bin" / "python"


def judge(printed: str) -> None:
    """All programs print the same of what they see."""
    seen = json.loads(printed.strip().splitlines()[-1])
    assert seen["whole"]
    assert seen["streamed"] == seen["whole"]
    assert seen["pieces"] > 2
    assert seen["tokens"] == seen["streamed_tokens"] > 0
    assert seen["error"] == 404


@pytest.mark.parametrize("program", ["openai_python", "langchain", "litellm_client"])
def test_a_python_client(program: str, python: Path, disaggregated: State, tmp_path: Path) -> None:
    judge(done([python, CLIENTS / f"{program}.py"], tmp_path, disaggregated))


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm")
def test_openai_of_node(disaggregated: State, tmp_path: Path) -> None:
    done(["npm", "install", "--silent", "--no-audit", f"openai@{NODE}"], tmp_path)
    program = shutil.copy(CLIENTS / "openai_node.mjs", tmp_path)
    judge(done(["node", program], tmp_path, disaggregated))


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_curl_and_nothing_else(disaggregated: State, tmp_path: Path) -> None:
    status, _, stream = done(["sh", CLIENTS / "curl.sh"], tmp_path, disaggregated).partition("\n")
    assert status == "404"
    *events, last, end = stream.split("\n\n")
    assert (last, end.strip()) == ("data: [DONE]", "")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    pieces = [choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"]]
    assert "".join(piece or "" for piece in pieces).strip()
