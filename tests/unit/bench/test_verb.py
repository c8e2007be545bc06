"""The call, before anything is measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from raypd.bench import ends
from raypd.cli import app
from raypd.report import UsageError


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--fabric", "ib"], "--fabric ib: there are default, cuda-ipc, cma, tcp, libfabric"),
        (["--memory", "disk"], "--memory disk: there are host, vram"),
        (["--descriptors", "many"], "--descriptors 'many'"),
        (["--python", "/no/python"], "--python /no/python is no program"),
        (["--json", "no/such/a.json"], "there is no folder"),
        (["--release", "llm", "--python", "python3"], "the engines' own Python is used"),
    ],
)
def test_a_mistake_is_a_sentence(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["bench", "kv", *arguments])
    assert isinstance(done.exception, UsageError)
    assert says in str(done.exception)


def test_results_are_kept_and_what_the_caller_set_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "WORKER", Path(__file__).with_name("worker.py"))
    monkeypatch.setenv("UCX_NET_DEVICES", "lo")
    arguments = ["--python", sys.executable, "--memory", "host", "--descriptors", "4x1KiB"]
    files = ["--json", str(tmp_path / "kv.json"), "--html", str(tmp_path / "kv.html")]
    done = CliRunner().invoke(app, ["bench", "kv", *arguments, *files])
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "kv.json").read_text())
    assert [row["fabric"] for row in told["rows"]] == ["default", "cma", "tcp"]
    assert told["notes"] == ["NIXL with 4 threads.", "Set in the environment: UCX_NET_DEVICES=lo"]
    assert "KV transfer, host memory" in (tmp_path / "kv.html").read_text()
