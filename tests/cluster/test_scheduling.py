"""The reference deployment as it is, with its GPUs and EFA interfaces: where its pods go.

Only the image differs: one without Ray, so that nothing runs in the pods. The scheduler and the
kubelets, which admit a pod or refuse it, do not know that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

import pytest
import yaml
from kubernetes import client

from chart.rendering import ROOT
from cluster.devcluster import images
from cluster.release import Release

ADMITTED_SECONDS = 120
ROLES = ("prefill", "decode", "engine")
VALUES = sorted((ROOT / "values").glob("g6-*.yaml"))  # what eksctl/g6.yaml's nodes are for


@pytest.fixture(scope="module", params=VALUES, ids=lambda path: path.stem)
def placed(request: pytest.FixtureRequest, release: Release, tmp_path_factory) -> Iterator[Release]:
    """The release, once each of its Ray pods was admitted by a kubelet."""
    if not release.target.simulated:
        pytest.skip("a GPU cluster would start the engines")
    image = images.runtime()
    # A worker that waits for its head does not hear that it should end, and is waited for.
    soon = {role: {"terminationGracePeriodSeconds": 5} for role in ROLES}
    values = {"image": {"repository": image.repository, "tag": image.tag}, **soon}
    override = tmp_path_factory.mktemp("values") / "image.yaml"
    override.write_text(yaml.safe_dump(values))
    release.clear()
    release.install(request.param, override, adapt=False)
    wanted = _groups(release)
    release.wait("every pod admitted", lambda: _admitted(release) == wanted, ADMITTED_SECONDS)
    yield release
    release.clear()


def test_engines_take_the_gpu_and_the_efa_interface_of_their_nodes(placed):
    nodes = {node.metadata.name: node for node in placed.target.core.list_node().items}
    efa = None if _mode(placed) == "aggregated" else "1"  # where no KV moves, none is asked for
    used: dict[str, int] = {}
    for pod in _engines(placed):
        (container,) = pod.spec.containers
        assert container.resources.requests["nvidia.com/gpu"] == "1"
        assert container.resources.requests.get("vpc.amazonaws.com/efa") == efa
        assert nodes[pod.spec.node_name].metadata.labels["role"] == "gpu-worker"
        used[pod.spec.node_name] = used.get(pod.spec.node_name, 0) + 1
    assert used == {"gpu-a": 1, "gpu-b": 1}


def test_the_head_stays_off_the_gpu_nodes(placed):
    assert placed.pod("head").spec.node_name == "system"


def test_no_pod_was_refused_or_could_not_be_placed(placed):
    refusals = {"FailedScheduling", "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory"}
    refusals |= {"OutOfnvidia.com/gpu", "FailedCreate", "FailedMount"}
    # Pods of the release before this one may have missed what was deleted with it.
    begin = datetime.fromisoformat(placed.rayservice()["metadata"]["creationTimestamp"])
    events = placed.target.core.list_namespaced_event("inference").items
    new = [e for e in events if e.metadata.creation_timestamp >= begin]
    assert {"Created", "Started"} <= {e.reason for e in new}
    assert [(e.reason, e.message) for e in new if e.reason in refusals] == []


def _engines(release: Release) -> list[client.V1Pod]:
    return [p for p in release.pods() if p.metadata.labels["app.kubernetes.io/component"] in ROLES]


def _groups(release: Release) -> int:
    """How many Ray pods the RayService asks for: the head and its workers."""
    config = release.rayservice()["spec"]["rayClusterConfig"]
    groups = config["workerGroupSpecs"]
    return 1 + sum(group["replicas"] * group.get("numOfHosts", 1) for group in groups)


def _mode(release: Release) -> str:
    values = release.target.helm("get", "values", "llm", "-n", "inference", "-o", "json", "--all")
    return json.loads(values)["topology"]["mode"]


def _admitted(release: Release) -> int:
    """Ray pods of which a kubelet has started a container; only admitted ones get that far."""
    pods = [p for p in release.pods() if "ray.io/node-type" in p.metadata.labels]
    return sum(
        any(
            s.state.running or s.state.terminated or s.last_state.terminated
            for s in [
                *(p.status.init_container_statuses or []),
                *(p.status.container_statuses or []),
            ]
        )
        for p in pods
    )
