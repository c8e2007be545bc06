"""Processes in pods: how they are started, spoken to and ended, with a pod that is a process of this machine."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raypd.bench import ends, in_pods, kv
from raypd.bench.kv import Pieces, Question
from raypd.bench.report import Row
from raypd.live.served import Served
from raypd.report import UsageError

GOOD = Pieces(8, 1 << 20)


class Running:
    """The stream of a command, as the Kubernetes client gives it."""

    def __init__(self, command: list[str], errors: Path) -> None:
        self.errors = errors
        with errors.open("w") as file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True
            )
        self.told = 0
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put("")

    def write_stdin(self, text: str) -> None:
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def readline_stdout(self, timeout: float) -> str:
        try:
            return self.lines.get(timeout=timeout)
        except queue.Empty:
            return ""

    def read_stderr(self, timeout: float) -> str:
        part = self.errors.read_text()[self.told :]
        self.told += len(part)
        return part

    def close(self) -> None:
        self.process.stdin.close()


class Pods:
    """A cluster that runs commands here, and remembers them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[tuple[str, Running, list[str]]] = []

    def start(self, namespace: str, pod: str, container: str, command: list[str]) -> Running:
        assert (namespace, container) == ("inference", "ray-worker")
        running = Running(command, self.folder / str(len(self.started)))
        self.started.append((pod, running, command))
        return running


def pod(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "inference"},
        "spec": {"nodeName": f"node-of-{name}", "containers": [{"name": "ray-worker"}]},
    }


def serving(backend: str = "UCX", *, apart: bool = True) -> Served:
    roles = ("prefill", "decode") if apart else ("engine",)
    return Served(
        namespace="inference",
        model="m",
        context=64,
        prefix="",
        engines={role: [pod(role)] for role in roles},
        backends={role: [backend] for role in roles if apart},
        head=pod("head"),
        door=pod("head"),
    )


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Pods]:
    monkeypatch.setattr(ends, "WORKER", Path(__file__).with_name("worker.py"))
    made = Pods(tmp_path)
    yield made
    for _, running, _ in made.started:  # what ends of itself may take longer than this test
        running.process.kill()
        running.process.wait()


def rows(pods: Pods, *layouts: Pieces, backend: str = "UCX", seconds: float = 20) -> list[Row]:
    served = serving(backend)
    fabrics = in_pods.fabrics(served)
    question = Question(
        in_pods.starts(pods, served),  # type: ignore[arg-type]
        "10.0.0.1",
        ["host"],
        {name: fabrics[name] for name in ("default", "tcp")},
        layouts,
        case_seconds=seconds,
        time_limit=60,
    )
    return list(kv.measure(question, {}))


def test_target_and_initiator_run_in_the_pods_of_prefill_and_decode(pods: Pods) -> None:
    found = rows(pods, GOOD)
    assert [(row["fabric"], row["error"]) for row in found] == [("default", None), ("tcp", None)]
    assert {row["yardstick"] for row in found} == {"socket"}
    assert found[0]["path"] == "software emulation, tcp/lo"  # what UCX wrote to the error output
    assert [name for name, *_ in pods.started] == ["prefill", "decode"] * 2


def test_only_what_the_fabric_needs_is_set_beside_the_containers_variables(pods: Pods) -> None:
    rows(pods, GOOD)
    told = [[part for part in command[1:] if "=" in part][:2] for *_, command in pods.started]
    assert told[0][:1] == ["UCX_PROTO_INFO=y"]
    assert "UCX_TLS=tcp,cuda_copy" in told[2]
    assert not any("UCX_NET_DEVICES=lo" in part for *_, command in pods.started for part in command)


def test_every_process_reads_the_end_of_its_input(pods: Pods) -> None:
    rows(pods, GOOD)
    for _, running, _ in pods.started:
        assert running.process.wait(timeout=10) == 0


@pytest.mark.parametrize(
    ("bad", "says"),
    [(13, "Not done after 2 s, and ended."), (14, "The process ended with: the driver is gone")],
)
def test_one_bad_layout_leaves_the_others(pods: Pods, bad: int, says: str) -> None:
    begin = time.monotonic()
    found = rows(pods, Pieces(bad, 64), GOOD, seconds=2)
    assert [row["error"] for row in found] == [says, None] * 2
    assert time.monotonic() - begin < 30


def test_default_is_what_the_engines_use(pods: Pods) -> None:
    assert in_pods.fabrics(serving("LIBFABRIC"))["default"].backend == "LIBFABRIC"
    found = rows(pods, GOOD, backend="LIBFABRIC")
    assert found[0]["error"] == "The target did not start: nixlNotFoundError: NIXL_ERR_NOT_FOUND."


def test_engines_that_do_both_move_nothing() -> None:
    with pytest.raises(UsageError, match="engines that do both"):
        in_pods.pair(serving(apart=False))


def test_it_says_between_which_pods() -> None:
    assert in_pods.hardware(serving()) == {
        "target": "prefill on node-of-prefill",
        "initiator": "decode on node-of-decode",
    }
