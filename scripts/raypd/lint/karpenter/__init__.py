"""The nodes that Karpenter would make, against the pods that the values make.

A NodePool is read into the node groups that eksctl's checks know, one for each instance type that it
allows, so that the same rules judge whether a pod finds a node.
"""

from __future__ import annotations

from typing import Any

from raypd.lint.eksctl.cluster import Json
from raypd.lint.eksctl.disks import weights_by_name
from raypd.lint.eksctl.pods import Pod, ray_pods
from raypd.lint.karpenter.homes import Home, homes_of
from raypd.lint.karpenter.pools import Pool, malformed, pools
from raypd.lint.karpenter.rules import RULES, limits
from raypd.report import Finding

NOT_CHECKED = "the device plugins for GPUs and EFA on Karpenter's nodes: Karpenter installs none"


def check_karpenter(
    documents: list[Any],
    values: Json,
    manifests: list[dict[str, Any]],
    instances: dict[str, dict[str, Any]],
    elsewhere: frozenset[str] = frozenset(),
) -> tuple[list[Finding], frozenset[str]]:
    """All that is wrong between NodePools with their EC2NodeClasses and the chart's render, and the
    names of the groups whose pods find a node there.

    `documents` is the parsed file, `instances` the chart's files/instances.yaml. `elsewhere` are
    groups that have nodes without Karpenter: nothing is said of those. A finding's path begins with
    kind and name of the object. Never raises for a malformed file: that is RPD560.
    """
    if unreadable := list(malformed(documents)):
        return unreadable, frozenset()
    found = pools(documents, instances)
    findings = [
        pool.finding(
            "RPD560",
            f"{pool.path}.template.spec.nodeClassRef",
            f"{pool.class_path.removesuffix('.spec')} is not in the file, so disks, NVMe and "
            "reservations of its nodes were not checked",
            "give the EC2NodeClass in the same file",
            "warning",
        )
        for pool in found
        if not pool.node_class
    ]
    findings += [
        pool.finding(
            "RPD562",
            f"{pool.path}.template.spec.requirements",
            "the requirements exclude each other: no instance type meets all of them",
            "requirements that one type meets, such as node.kubernetes.io/instance-type alone",
        )
        for pool in found
        if not pool.offers
    ]
    found = [pool for pool in found if pool.offers]
    placed: list[tuple[Pod, Home]] = []
    for pod in ray_pods(manifests) if found else ():
        homes, complaint = homes_of(pod, found)
        if pod.name in elsewhere and not homes:
            continue
        findings += [complaint] if complaint else []
        placed += [(pod, home) for home in homes]
    weights = weights_by_name(values)
    for pool in found:
        guests = [(pod, home) for pod, home in placed if home.pool is pool]
        if not guests:
            continue
        for rule in RULES:
            findings += rule(pool, guests, manifests, weights)
        findings += limits(pool, guests)
    return findings, frozenset(pod.name for pod, _ in placed)


__all__ = ["NOT_CHECKED", "Pool", "check_karpenter"]
