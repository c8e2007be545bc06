"""100 prefill and 100 decode workers of the reference deployment, on simulated nodes.

Real are etcd, API server, controllers, scheduler and KubeRay's operator; nobody runs the pods, so
Ray Serve never answers and the RayService stays "initializing". What is seen is that so large a
RayService is admitted, that the operator gets it done, and that the scheduler finds every pod a right
node among hundreds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml

from chart.rendering import ROOT
from cluster.devcluster import layout, lifecycle, nodeless, simulated
from cluster.devcluster.api import Api
from cluster.devcluster.layout import Addresses, Node
from cluster.devcluster.state import State
from cluster.release import NAMESPACE, Release
from cluster.target import Target

pytestmark = pytest.mark.slow
NAME = "scale"
REPLICAS = 100
ROLES = ("prefill", "decode")
ZONES = ("us-west-2a", "us-west-2b")
SPARE = 5  # nodes more than engines in each zone
WRONG = 20  # nodes of each kind that no engine can use
SECONDS = 300  # for a busy machine, for each step
# What there is to count, in the release's namespace or of the whole cluster.
KINDS = {
    "Nodes": "/api/v1/nodes",
    "Leases of nodes": "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    "Pods": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "Services": f"/api/v1/namespaces/{NAMESPACE}/services",
    "EndpointSlices": f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
    "Events": f"/api/v1/namespaces/{NAMESPACE}/events",
    "RayClusters": f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters",
}


class Steps:
    """What was reached when, in seconds since the release began to be installed."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self.taken: dict[str, float] = {}

    def reached(self, what: str) -> None:
        self.taken[what] = time.monotonic() - self._begin

    def __str__(self) -> str:
        return "\n".join(f"  {seconds:6.1f} s  {what}" for what, seconds in self.taken.items())


@pytest.fixture(scope="module")
def made(root: None) -> Iterator[State]:
    """A control plane with all the nodes, and nothing on them."""
    made = nodeless.up(NAME)
    try:
        api = lifecycle.api_of(made)
        simulated.start(made)
        nodes = _nodes(Addresses(made.second))
        for node in nodes:
            simulated.add(api, node)
        deadline = time.monotonic() + SECONDS
        while _ready_nodes(api) < len(nodes):
            assert time.monotonic() < deadline, "KWOK does not get the nodes ready"
            time.sleep(1)
        yield made
    finally:
        lifecycle.down(NAME)


@pytest.fixture(scope="module")
def api(made: State) -> Api:
    return lifecycle.api_of(made)


@pytest.fixture(scope="module")
def large(made: State, api: Api, package, tmp_path_factory) -> Iterator[tuple[Release, Steps]]:
    """The release, once KubeRay calls its RayCluster ready."""
    values = tmp_path_factory.mktemp("values") / "replicas.yaml"
    values.write_text(yaml.safe_dump({role: {"replicas": REPLICAS} for role in ROLES}))
    release = Release(Target(made.kubeconfig, None), package)
    release.make_namespace()
    steps = Steps()
    release.install(ROOT / "values" / "g6-qwen3.5-9b.yaml", values)
    steps.reached("admitted")
    everyone = 1 + len(ROLES) * REPLICAS
    release.wait("every pod made", lambda: len(release.pods()) == everyone, SECONDS)
    steps.reached("pods made by the operator")
    release.wait(
        "every pod scheduled",
        lambda: sum(bool(pod.spec.node_name) for pod in release.pods()) == everyone,
        SECONDS,
    )
    steps.reached("pods scheduled")
    release.wait("the RayCluster ready", lambda: _state(api) == "ready", SECONDS)
    steps.reached("RayCluster ready in the operator's eyes")
    yield release, steps
    release.remove()


def test_every_engine_has_a_node_with_its_gpu_and_efa_interface(api, large):
    nodes = {node["metadata"]["name"]: node for node in api.get(KINDS["Nodes"])["items"]}
    used = Counter(pod.spec.node_name for role in ROLES for pod in large[0].pods(role))
    assert len(used) == len(ROLES) * REPLICAS
    assert set(used.values()) == {1}
    for name in used:
        labels, free = nodes[name]["metadata"]["labels"], nodes[name]["status"]["allocatable"]
        assert labels["role"] == "gpu-worker"
        assert labels["node.kubernetes.io/instance-type"] == "g6.8xlarge"
        assert free["nvidia.com/gpu"] == free["vpc.amazonaws.com/efa"] == "1"


def test_all_engines_are_in_one_zone(api, large):
    zone_of = {
        node["metadata"]["name"]: node["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for node in api.get(KINDS["Nodes"])["items"]
    }
    zones = {zone_of[pod.spec.node_name] for role in ROLES for pod in large[0].pods(role)}
    assert len(zones) == 1


def test_each_role_has_its_number_of_pods_and_nodes_of_its_own(large):
    places = {role: [pod.spec.node_name for pod in large[0].pods(role)] for role in ROLES}
    assert {role: len(names) for role, names in places.items()} == dict.fromkeys(ROLES, REPLICAS)
    assert not set(places["prefill"]) & set(places["decode"])


def test_the_head_is_on_the_system_node(large):
    assert large[0].pod("head").spec.node_name == "system"


def test_what_it_takes(api, large, capsys):
    release, steps = large
    objects = {kind: len(api.get(path)["items"]) for kind, path in KINDS.items()}
    begin = time.monotonic()
    release.uninstall()
    release.wait("no pod left", lambda: not release.pods(), SECONDS)
    gone = time.monotonic() - begin
    counts = ", ".join(f"{count} {kind}" for kind, count in objects.items())
    with capsys.disabled():
        print(f"\n{REPLICAS} workers of each role, since `helm install`:\n{steps}")
        print(f"  {gone:6.1f} s  from `helm uninstall` to the last pod's end\n  {counts}")
    assert objects["Pods"] == 1 + len(ROLES) * REPLICAS
    assert objects["RayClusters"] == 1  # it was never given up and begun anew


def _nodes(addresses: Addresses) -> list[Node]:
    """One system node; in each of two zones GPU nodes for all engines; and nodes that look like them
    but have no EFA interface or are of another type."""
    system, right, *_ = layout.nodes(addresses)
    count = len(ROLES) * REPLICAS + SPARE
    without_efa = {"nvidia.com/gpu": 1}
    found = [system]
    for zone in ZONES:
        here = right.labels | {"topology.kubernetes.io/zone": zone}
        small = here | {"node.kubernetes.io/instance-type": "g6.4xlarge"}
        found += [replace(right, name=f"{zone}-{i}", labels=here) for i in range(count)]
        for i in range(WRONG):
            found += [
                replace(right, name=f"{zone}-no-efa-{i}", labels=here, devices=without_efa),
                replace(right, name=f"{zone}-small-{i}", labels=small),
            ]
    return found


def _ready_nodes(api: Api) -> int:
    conditions = [node["status"].get("conditions", []) for node in api.get(KINDS["Nodes"])["items"]]
    return sum(any(c["type"] == "Ready" and c["status"] == "True" for c in cs) for cs in conditions)


def _state(api: Api) -> str:
    (cluster,) = api.get(KINDS["RayClusters"])["items"]
    return cluster.get("status", {}).get("state", "")
