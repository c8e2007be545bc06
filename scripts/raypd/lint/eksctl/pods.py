"""The Ray pods of a render, and Kubernetes' rules of what may stand where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from raypd.lint.eksctl.cluster import Json, Taint

HOST_LABEL = "kubernetes.io/hostname"


@dataclass(frozen=True, eq=False)
class Pod:
    """`count` equal pods; `name` as the chart calls their group."""

    name: str
    spec: Json
    labels: Json
    count: int
    head: bool = False
    requests: Json = field(default_factory=dict)
    annotations: Json = field(default_factory=dict)

    @property
    def what(self) -> str:
        return f"the {self.name} pod" + ("s" if self.count > 1 else "")

    @property
    def host_paths(self) -> list[str]:
        """Directories of the node that the pod mounts, devices and kernel interfaces left out."""
        paths = [
            (volume.get("hostPath") or {}).get("path", "")
            for volume in self.spec.get("volumes") or []
        ]
        return [path for path in paths if path and not re.match(r"/(dev|sys|proc|run)(/|$)", path)]

    @property
    def emptydir_gib(self) -> float:
        """Disk that emptyDir volumes may take; those in memory take none."""
        dirs = [volume.get("emptyDir") for volume in self.spec.get("volumes") or []]
        on_disk = [d for d in dirs if d and d.get("medium") != "Memory"]
        return sum(quantity(d.get("sizeLimit", 0)) for d in on_disk) / 2**30


def ray_pods(manifests: Iterable[Json]) -> Iterator[Pod]:
    """The Ray pods of the RayService, head first."""
    for manifest in manifests:
        if manifest.get("kind") != "RayService":
            continue
        cluster = manifest["spec"]["rayClusterConfig"]
        yield _pod("head", cluster["headGroupSpec"]["template"], 1, head=True)
        for group in cluster.get("workerGroupSpecs") or []:
            replicas = group.get("replicas", group.get("minReplicas", 1))
            count = replicas * group.get("numOfHosts", 1)
            yield _pod(group["groupName"], group["template"], count)


def second_cluster(manifests: Iterable[Json]) -> bool:
    """Does a change of the RayService start another Ray cluster beside the first?"""
    return any(
        (manifest["spec"].get("upgradeStrategy") or {}).get("type") == "NewCluster"
        for manifest in manifests
        if manifest.get("kind") == "RayService"
    )


def _pod(name: str, template: Json, count: int, head: bool = False) -> Pod:
    spec = template["spec"]
    labels = {
        # KubeRay sets these on every pod, and affinity rules may name them.
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": "head" if head else "worker",
        "ray.io/group": "headgroup" if head else name,
        **((template.get("metadata") or {}).get("labels") or {}),
    }
    requests: dict[str, float] = {}
    for container in spec["containers"]:
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for resource, written in asked.items():
            requests[resource] = requests.get(resource, 0) + quantity(written)
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return Pod(name, spec, labels, count, head, requests, annotations)


def quantity(text: Any) -> float:
    """A Kubernetes quantity as a number: "500m" -> 0.5, "96Gi" -> 96 * 2**30."""
    match = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(text).strip())
    if not match:
        return 0
    powers = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    powers |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
    return float(match[1]) * powers.get(match[2], 1)


def terms(pod: Pod) -> list[list[Json]]:
    """Alternatives (OR) of requirements (AND) on a node's labels."""
    selector = [
        {"key": key, "operator": "In", "values": [str(value)]}
        for key, value in (pod.spec.get("nodeSelector") or {}).items()
    ]
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or [{}]
    return [selector + list(term.get("matchExpressions") or []) for term in terms]


def satisfied(requirement: Json, labels: Json) -> bool:
    key, operator = requirement["key"], requirement.get("operator", "In")
    wanted = [str(value) for value in requirement.get("values") or []]
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    if operator == "NotIn":
        return key not in labels or str(labels[key]) not in wanted
    return key in labels and str(labels[key]) in wanted


def tolerates(toleration: Json, taint: Taint) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    key = toleration.get("key")
    if toleration.get("operator", "Equal") == "Exists":
        return not key or key == taint.key
    return key == taint.key and str(toleration.get("value") or "") == taint.value


def apart(one: Pod, other: Pod) -> bool:
    """Does a required anti-affinity rule keep the two off one node?"""
    return _repels(one, other) or _repels(other, one)


def _repels(pod: Pod, other: Pod) -> bool:
    anti = (pod.spec.get("affinity") or {}).get("podAntiAffinity") or {}
    for term in anti.get("requiredDuringSchedulingIgnoredDuringExecution") or []:
        selector = term.get("labelSelector") or {}
        needs = [
            {"key": key, "operator": "In", "values": [value]}
            for key, value in (selector.get("matchLabels") or {}).items()
        ] + list(selector.get("matchExpressions") or [])
        if term.get("topologyKey") == HOST_LABEL and all(
            # KubeRay names the Ray cluster; both pods belong to the same one.
            need["key"] == "ray.io/cluster" or satisfied(need, other.labels)
            for need in needs
        ):
            return True
    return False
