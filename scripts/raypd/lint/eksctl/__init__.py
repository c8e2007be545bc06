"""The cluster that an eksctl config makes, against the pods that the values make.

Everything here is arithmetic over the two: does each pod find a node whose labels, taints, zone,
devices, CPU, memory and disk suit it, do the nodes suffice for all pods at once, and will eksctl's
own device plugins run where the devices are.
"""

from __future__ import annotations

from typing import Any

from raypd.lint.eksctl.cluster import Cluster, Json, malformed
from raypd.lint.eksctl.disks import disks, weights_by_name
from raypd.lint.eksctl.groups import group_alone, kubernetes_version, nvidia_plugin, zones
from raypd.lint.eksctl.placement import enough_nodes, head_type, one_zone, place, rdma
from raypd.lint.eksctl.pods import ray_pods, second_cluster
from raypd.report import Finding


def with_nodes(
    config: Json, manifests: list[dict[str, Any]], instances: dict[str, dict[str, Any]]
) -> frozenset[str]:
    """Names of the groups whose pods find a node in an eksctl config; none where it is malformed."""
    if any(malformed(config)):
        return frozenset()
    placed, _ = place(Cluster.of(config, instances), list(ray_pods(manifests)))
    return frozenset(one.pod.name for one in placed if one.fits)


def check_eksctl(
    config: Json,
    values: Json,
    manifests: list[dict[str, Any]],
    instances: dict[str, dict[str, Any]],
    weights_gib: float | None = None,
    elsewhere: frozenset[str] = frozenset(),
) -> list[Finding]:
    """All that is wrong between an eksctl ClusterConfig and the chart's render.

    `config` is the parsed file, `values` the chart's values with its defaults, `manifests` the
    rendered objects, `instances` the chart's files/instances.yaml (type -> gpu, vcpu, memoryGiB,
    nvmeGB, efa). `weights_gib` is the size of the model's weights in GiB for the disk minimum; None
    takes it from the number in the model's name. `elsewhere` are groups of pods (`head`, `prefill`
    ...) that have nodes of another kind. Finding paths are paths of the eksctl file. Never
    raises for a malformed file: what cannot be read is a finding (RPD401).
    """
    if unreadable := list(malformed(config)):
        return unreadable
    cluster = Cluster.of(config, instances)
    pods = [pod for pod in ray_pods(manifests) if pod.name not in elsewhere]
    placed, findings = place(cluster, pods)
    findings = [
        *kubernetes_version(cluster),
        *zones(cluster),
        *(finding for group in cluster.groups for finding in group_alone(group)),
        *nvidia_plugin(cluster),
        *findings,
        *one_zone(placed),
        *enough_nodes(cluster, placed, second_cluster(manifests)),
        *head_type(values, placed),
    ]
    if weights_gib is None:
        weights_gib = weights_by_name(values)
    for group in cluster.groups:
        guests = [one.pod for one in placed if group in one.homes]
        findings += disks(group, guests, weights_gib)
        findings += rdma(group, guests)
    return findings
