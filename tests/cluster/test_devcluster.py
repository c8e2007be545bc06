"""The devcluster itself: a network as pods expect it, and nothing left when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml
from kubernetes import client, utils

from chart.rendering import ROOT
from cluster.devcluster import images, layout, lifecycle, network, state
from cluster.devcluster.layout import Addresses
from cluster.target import Target

OTHER = "other"
READY_SECONDS = 60
# A server that says its node's name on port 8080, on each node, and a Service before all of them.
WEB = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations: [{operator: Exists}]
      terminationGracePeriodSeconds: 0
      containers:
        - name: web
          image: IMAGE
          command: [bash, -c, 'echo "$NODE" > /tmp/index.html; exec python3 -m http.server -d /tmp 8080']
          env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
          readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
"""


@pytest.fixture(scope="module")
def web(cluster: Target) -> Iterator[dict[str, client.V1Pod]]:
    """The server's pods by node."""
    if not cluster.simulated:
        pytest.skip("about the devcluster")
    manifests = list(yaml.safe_load_all(WEB.replace("IMAGE", images.runtime().name)))
    api = cluster.core.api_client
    utils.create_from_yaml(api, yaml_objects=manifests)
    deadline = time.monotonic() + READY_SECONDS
    while True:
        pods = cluster.core.list_namespaced_pod("default", label_selector="app=web").items
        ready = [p for p in pods if any(s.ready for s in p.status.container_statuses or [])]
        if len(ready) == len(layout.nodes(Addresses(0))):
            break
        assert time.monotonic() < deadline, [p.status for p in pods]
        time.sleep(1)
    yield {pod.spec.node_name: pod for pod in ready}
    cluster.core.delete_namespaced_service("web", "default")
    client.AppsV1Api(api).delete_namespaced_daemon_set("web", "default")


def _in_pod(cluster: Target, pod: client.V1Pod, *command: str) -> str:
    """What a command prints in the pod; run from its node, in the network that the pod has."""
    made = state.find("test")
    assert made is not None
    node = lifecycle.machines(made)[pod.spec.node_name]
    container = pod.status.container_statuses[0].container_id.removeprefix("containerd://")
    words = ["ctr", "-n", "k8s.io", "task", "exec", "--exec-id", f"test-{time.monotonic_ns()}"]
    return node.run(*words, container, *command)


def test_nodes_have_what_the_instance_types_have(cluster):
    if not cluster.simulated:
        pytest.skip("about the devcluster")
    capacity = {n.metadata.name: n.status.capacity for n in cluster.core.list_node().items}
    assert {name: (c["cpu"], c["memory"]) for name, c in capacity.items()} == {
        "system": ("4", "16Gi"),
        "gpu-a": ("32", "128Gi"),
        "gpu-b": ("32", "128Gi"),
    }
    for name in ("gpu-a", "gpu-b"):
        assert capacity[name]["nvidia.com/gpu"] == "1"
        assert capacity[name]["vpc.amazonaws.com/efa"] == "1"


def test_pods_reach_pods_of_every_node(cluster, web):
    for here in web.values():
        for name, there in web.items():
            url = f"http://{there.status.pod_ip}:8080/"
            assert _in_pod(cluster, here, "wget", "-qO-", "-T5", url).strip() == name


def test_pods_reach_services_by_name(cluster, web):
    for here in web.values():
        answer = _in_pod(cluster, here, "wget", "-qO-", "-T5", "http://web.default.svc/")
        assert answer.strip() in web


def test_there_is_no_way_out(cluster, web):
    here = web["system"]
    with pytest.raises(RuntimeError):
        _in_pod(cluster, here, "wget", "-qO-", "-T5", "-t1", "http://192.0.2.1/")
    with pytest.raises(RuntimeError):
        _in_pod(cluster, here, "getent", "hosts", "example.com")


def _traces(name: str, second: int) -> list[str]:
    """What a cluster that is down must not have left on this host."""
    found = [str(p) for p in Path("/sys/fs/cgroup").glob(f"**/raypd-devcluster-{name}")]
    if Path(f"/sys/class/net/{network.host_link(Addresses(second))}").exists():
        found.append(network.host_link(Addresses(second)))
    folder = str(state.folder(name))
    found += [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if folder in line
    ]
    for process in psutil.process_iter(["cmdline"]):
        if any(folder in word for word in process.info["cmdline"] or []):
            found.append(str(process))
    if Path(folder).exists():
        found.append(folder)
    return found


@pytest.fixture
def other(root: None) -> Iterator[None]:
    """A second cluster may be made in the test."""
    lifecycle.down(OTHER)
    yield
    lifecycle.down(OTHER)


def _begin() -> tuple[subprocess.Popen, int]:
    """`devcluster up` half-way: its nodes are there and not ready; and its range's number."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "cluster.devcluster", "up", "--name", OTHER]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "nodes wired" in line:
            break
    made = state.find(OTHER)
    assert made is not None
    assert _traces(OTHER, made.second)
    return process, made.second


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_leaves_nothing(other, number):
    process, second = _begin()
    process.send_signal(number)
    process.communicate(timeout=90)
    assert process.returncode != 0
    assert _traces(OTHER, second) == []


def test_what_a_killed_start_leaves_is_taken_down(other):
    process, second = _begin()
    process.kill()
    process.communicate(timeout=30)
    assert lifecycle.down(OTHER)
    assert _traces(OTHER, second) == []


def test_a_second_cluster_beside_the_first(cluster, other):
    made = lifecycle.up(OTHER)
    assert all(alive for *_, alive in lifecycle.daemons(made))
    first = state.find("test")
    assert first is None or first.second != made.second
    lifecycle.down(OTHER)
    assert _traces(OTHER, made.second) == []
    if cluster.simulated:
        assert first is not None
        assert all(alive for *_, alive in lifecycle.daemons(first))


def test_machines_that_outlive_their_holder_go_down_too(cluster, other):
    """As after a step of the clock on a machine that was suspended: the holder is not found."""
    made = lifecycle.up(OTHER)
    made.holder = None
    made.save()
    assert lifecycle.down(OTHER)
    assert _traces(OTHER, made.second) == []
