"""Devices by node, with the DaemonSet that is to blame, and NVIDIA's driver."""

from __future__ import annotations

from typing import Any

import pytest

from raypd.preflight.kubernetes.devices import devices_offered, driver_on_nodes, plugins_on_head
from unit.live import paper
from unit.preflight.kubernetes.good import EFA_TAINT, Cluster, daemonset, daemonsets, nodes, on
from unit.preflight.simulated import codes, only, outcomes, seen, unseen

TOLERANT = [{"key": "aws.amazon.com/efa", "operator": "Exists"}]
PLUGINS = daemonsets(
    daemonset("nvidia-device-plugin-daemonset", tolerations=TOLERANT),
    daemonset("aws-efa-k8s-device-plugin", tolerations=TOLERANT),
)


def without(device: str, name: str) -> list[dict[str, Any]]:
    made = nodes()
    (node,) = [node for node in made if node["metadata"]["name"] == name]
    del node["status"]["allocatable"][device]
    return made


def test_nodes_with_all_devices() -> None:
    found = outcomes(devices_offered, on(Cluster(PLUGINS)))
    assert codes(found) == []
    assert "gpu-a 1 nvidia.com/gpu" in seen(found)
    assert "gpu-b 1 vpc.amazonaws.com/efa" in seen(found)


def test_a_plugin_that_does_not_tolerate_the_taint() -> None:
    objects = daemonsets(daemonset("nvidia-device-plugin-daemonset"))
    where = on(Cluster(objects), facts={"nodes": without("nvidia.com/gpu", "gpu-a")})
    finding = only(outcomes(devices_offered, where), "RPD851")
    assert finding.path == "node gpu-a"
    assert "kube-system/nvidia-device-plugin-daemonset wants no pod there" in finding.message
    assert "aws.amazon.com/efa=true:NoSchedule" in finding.message


def test_a_plugin_that_is_not_installed() -> None:
    objects = {k: v for k, v in PLUGINS.items() if "nvidia" in k}
    where = on(Cluster(objects), facts={"nodes": without("vpc.amazonaws.com/efa", "gpu-b")})
    finding = only(outcomes(devices_offered, where), "RPD851")
    assert "no device plugin for vpc.amazonaws.com/efa is in the cluster" in finding.message
    assert "aws-efa-k8s-device-plugin" in finding.remedy


def test_a_node_with_fewer_devices_than_a_pod_takes() -> None:
    rendered = paper.rendered("prefill.parallelism.tensor=4", "prefill.instanceType=")
    found = outcomes(devices_offered, on(Cluster(PLUGINS), rendered))
    assert codes(found) == ["RPD851", "RPD851"]
    assert "offers 1 nvidia.com/gpu, and a pod of group prefill takes 4" in str(found)


def test_no_node_of_the_group_is_not_checked() -> None:
    found = outcomes(devices_offered, on(Cluster(PLUGINS), facts={"nodes": nodes()[:1]}))
    assert codes(found) == []
    assert "group prefill" in unseen(found)


def test_daemonsets_that_may_not_be_seen_are_not_checked() -> None:
    cluster = Cluster(PLUGINS, forbidden=("/apis/apps/v1/daemonsets",))
    assert "you may not list" in unseen(outcomes(devices_offered, on(cluster)))


def test_plugins_that_run_on_all_nodes() -> None:
    assert codes(outcomes(plugins_on_head, on(Cluster(PLUGINS)))) == []


def test_a_plugin_that_ends_on_the_heads_node() -> None:
    objects = daemonsets(daemonset("aws-efa-k8s-device-plugin", tolerations=TOLERANT, ready=2))
    finding = only(outcomes(plugins_on_head, on(Cluster(objects))), "RPD852")
    assert finding.path == "DaemonSet kube-system/aws-efa-k8s-device-plugin"
    assert "2 of its 3 pods" in finding.message


def test_a_plugin_that_leaves_the_heads_node_out() -> None:
    objects = daemonsets(daemonset("aws-efa-k8s-device-plugin", ready=1))
    tainted = nodes()
    tainted[0]["spec"]["taints"] = [dict(EFA_TAINT)]
    where = on(Cluster(objects), facts={"nodes": tainted})
    assert codes(outcomes(plugins_on_head, where)) == []


def driver(version: str, *names: str) -> list[dict[str, Any]]:
    made = nodes()
    for node in made:
        if node["metadata"]["name"] in names:
            node["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] = version
    return made


def test_a_driver_that_is_new_enough() -> None:
    facts = {"nodes": driver("580.159.03", "gpu-a", "gpu-b")}
    found = outcomes(driver_on_nodes, on(facts=facts))
    assert codes(found) == []
    assert unseen(found) == ""
    assert "gpu-a has 580.159.03" in seen(found)


@pytest.mark.parametrize("version", ["570.195.03", "550"])
def test_a_driver_that_is_too_old(version: str) -> None:
    facts = {"nodes": driver(version, "gpu-b")}
    found = outcomes(driver_on_nodes, on(facts=facts))
    finding = only(found, "RPD824")
    assert (finding.path, f"Its driver is {version}" in finding.message) == ("node gpu-b", True)
    assert "gpu-a have no label" in unseen(found)
