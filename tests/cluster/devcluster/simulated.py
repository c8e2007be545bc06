"""Nodes that exist only in the API: KWOK keeps their heartbeats, and says of every pod bound to one
that it runs and is ready. Scheduler, controllers and KubeRay cannot tell them from others."""

from __future__ import annotations

from typing import Any

from cluster.devcluster import lifecycle
from cluster.devcluster.api import Api
from cluster.devcluster.layout import Addresses, Node
from cluster.devcluster.state import State
from raypd.toolchain import go
from raypd.toolchain.programs import pins

LEASE_SECONDS = 40  # what a kubelet takes
PODS = 110  # a kubelet's own limit


def start(cluster: State) -> None:
    """KWOK, for all nodes of a cluster that has no others."""
    pin = pins()["kwok"]
    addresses = Addresses(cluster.second)
    lifecycle.machines(cluster)[lifecycle.CONTROL_PLANE].start(
        "kwok",
        go.build(pin["module"], pin["package"], pin["version"], stamp=pin["stamp"]),
        f"--kubeconfig={cluster.kubeconfig}",
        "--manage-all-nodes=true",
        f"--node-lease-duration-seconds={LEASE_SECONDS}",
        f"--node-ip={addresses.control_plane}",
        f"--cidr={addresses.all_pods}",
        "--config=/dev/null",  # else one in the user's home would count
    )


def add(api: Api, node: Node) -> None:
    """Registers the node, as its kubelet would."""
    path = f"/api/v1/nodes/{node.name}"
    api.apply(path, _manifest(node))
    free = {
        "cpu": f"{(node.cpus - node.reserved_cpus) * 1000:.0f}m",
        "memory": f"{node.memory_mib - node.reserved_mib:.0f}Mi",
    }
    whole = {"cpu": str(node.cpus), "memory": f"{node.memory_mib}Mi"}
    common = {"pods": str(PODS), **{name: str(count) for name, count in node.devices.items()}}
    status = {"capacity": whole | common, "allocatable": free | common}
    api.merge(f"{path}/status", {"status": status})


def _manifest(node: Node) -> dict[str, Any]:
    own = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": {**node.labels, **own}},
        "spec": {
            "taints": [
                {"key": taint.key, "value": taint.value, "effect": taint.effect}
                for taint in node.taints
            ]
        },
    }
