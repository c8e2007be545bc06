"""Ports and addresses of a run."""

from __future__ import annotations

import ipaddress
import itertools
from pathlib import Path

from raypd.local import cluster, state
from raypd.local.cluster import ports_for, side_channel_address
from raypd.local.plan import NodePlan, Plan
from raypd.local.state import State

UNIX_SOCKET_BYTES = 107
LONGEST_SOCKET = "session_2026-12-02_00-47-07_269822_4194304/sockets/plasma_store"


def test_every_node_has_ports_of_its_own():
    nodes = [NodePlan(n, n, {}, {}) for n in ("head", "prefill", "decode")]
    ports = ports_for(Plan(nodes, {}))
    every = [port for options in ports.values() for port in options.values()]
    assert len(every) == len(set(every))
    assert {"port", "dashboard-port", "http-port"} <= ports["head"].keys()
    assert "port" not in ports["prefill"]
    assert "nixl-port" in ports["decode"]


def test_runs_have_different_loopback_addresses_for_the_side_channel():
    addresses = {side_channel_address(f"run-{n}") for n in range(50)}
    assert len(addresses) == 50
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses)
    assert "127.0.0.1" not in addresses


def test_no_two_nodes_share_a_folder_and_sockets_fit_into_it(monkeypatch):
    monkeypatch.setattr(cluster, "runtime_python", lambda: Path("/env/bin/python"))
    monkeypatch.setattr(cluster, "runtime_environment", dict)
    folder = state.new_folder()
    folder.rmdir()
    nodes = [NodePlan(f"prefill-{n}", "prefill", {}, {}) for n in (0, 1, 999)]
    folders = [_option(cluster.command(node, {}, _run(folder))[0], "--temp-dir") for node in nodes]
    assert len(set(folders)) == len(nodes)
    assert max(len(f"{folder}/{LONGEST_SOCKET}") for folder in folders) <= UNIX_SOCKET_BYTES


def test_the_callers_variables_stay_outside(monkeypatch):
    monkeypatch.setattr(cluster, "runtime_python", lambda: Path("/env/bin/python"))
    monkeypatch.setattr(cluster, "runtime_environment", dict)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("VLLM_USE_V1", "0")
    _, env = cluster.command(
        NodePlan("decode-0", "decode", {}, {"A": "b"}), {}, _run(Path("/tmp/x"))
    )
    assert env["A"] == "b"
    assert env.keys().isdisjoint({"HTTPS_PROXY", "VLLM_USE_V1"})


def test_engines_of_one_machine_look_for_ports_in_ranges_of_their_own():
    nodes = [NodePlan(f"n-{n}", "engine", {}, {}) for n in range(9)]
    ports = ports_for(Plan([NodePlan("head", "head", {}, {}), *nodes], {}))
    firsts = sorted(ports[node.name]["engine-port"] for node in nodes)
    assert all(b - a >= 20 for a, b in itertools.pairwise(firsts))
    assert "engine-port" not in ports["head"]


def test_an_engines_stores_lie_in_its_own_range(monkeypatch):
    monkeypatch.setattr(cluster, "runtime_python", lambda: Path("/env/bin/python"))
    monkeypatch.setattr(cluster, "runtime_environment", dict)
    node = NodePlan("engine-0", "engine", {}, {})
    _, env = cluster.command(node, {"engine-port": 30000}, _run(Path("/tmp/x")))
    assert env["VLLM_PORT"] == "30000"
    assert 30000 < int(env["VLLM_DP_MASTER_PORT"]) + 100 < 30020


def test_nixl_rests_beside_a_processor_and_never_beside_a_gpu(monkeypatch):
    monkeypatch.setattr(cluster, "runtime_python", lambda: Path("/env/bin/python"))
    monkeypatch.setattr(cluster, "runtime_environment", dict)

    def path(gpus: str) -> list[str]:
        node = NodePlan("decode-0", "decode", {"num-gpus": gpus}, {})
        return cluster.command(node, {}, _run(Path("/tmp/x")))[1]["PYTHONPATH"].split(":")

    found = [any(Path(folder).glob("*.dist-info")) for folder in path("0")]
    assert any(found)
    assert not any(any(Path(folder).glob("*.dist-info")) for folder in path("1"))


def _run(folder: Path) -> State:
    return State(
        name="x",
        run_id="x-1",
        folder=folder,
        model_id="m",
        model_source="/m",
        max_model_len=1024,
        caches={},
        disaggregated=True,
        backends=["UCX"],
        gcs_port=1,
        dashboard_port=2,
        http_port=3,
        metrics={},
        nixl_metrics={},
        groups={},
    )


def _option(line: list[str], name: str) -> str:
    return line[line.index(name) + 1]
