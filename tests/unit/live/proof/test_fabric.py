"""Counters of adapters, as the kernel shows them in a container."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

from raypd.live.proof import fabric
from raypd.report import UsageError

PORT = "sys/class/infiniband/{}/ports/1/hw_counters"
NET = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo: 4031442   31171    0    0    0     0          0         0  4031442   31171    0
  eth0:    5000      51    0    0    0     0          0         0     9000      61    0
  eth1:7000 51 0 0 0 0 0 0 1 1 0
"""
POD = {"metadata": {"name": "decode-0"}, "spec": {"containers": [{"name": "ray-worker"}]}}


def test_adapters_are_summed_and_loopback_left_out():
    text = "".join(
        f"/{PORT.format(device)}/{name} {value}\n"
        for device in ("rdmap0s1", "rdmap0s2")
        for name, value in (("rdma_read_bytes", 100), ("rx_bytes", 7), ("lifespan", ""))
    )
    found = fabric.parse(text + NET)
    assert found.adapters == {"rdmap0s1", "rdmap0s2"}
    assert found.efa == {"rdma_read_bytes": 200, "rx_bytes": 14}
    assert found.tcp_received == 12_000
    assert found.efa_received(fabric.parse(NET)) == 200
    assert found.efa_sent(fabric.parse(NET)) == 0


def test_a_pod_without_adapters():
    assert fabric.parse(NET).adapters == frozenset()


def test_the_script_reads_what_is_there(tmp_path):
    """The very script that runs in a pod, on a tree like the kernel's."""
    folder = tmp_path / PORT.format("rdmap0s1")
    folder.mkdir(parents=True)
    (folder / "rdma_read_bytes").write_text("123456\n")
    (folder / "rdma_read_resp_bytes").write_text("0\n")

    def run(*arguments: object) -> str:
        *_, command = arguments
        here = [part.replace("/sys/class", f"{tmp_path}/sys/class") for part in command]
        done = subprocess.run(here, capture_output=True, text=True, check=True)
        return done.stdout.replace(str(tmp_path), "")

    found = fabric.read(SimpleNamespace(exec=run), "inference", POD)
    assert found.efa == {"rdma_read_bytes": 123_456, "rdma_read_resp_bytes": 0}
    assert found.why == ""


def test_a_refusal_is_kept():
    def refuse(*_: object) -> str:
        raise UsageError("pods/exec is forbidden")

    assert fabric.read(SimpleNamespace(exec=refuse), "inference", POD).why
