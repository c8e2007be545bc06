"""Whether the nodes of a cluster have room for the pods of a release that is not there yet."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from raypd.lint.subject import Group, mapping
from raypd.live.diagnosis.fit import amount, obstacles
from raypd.live.install.room import Amounts, add, amounts, request_of
from raypd.live.snapshot import Snapshot, labels

Json = dict[str, Any]

_ENDED = ("Succeeded", "Failed")
_ZONE = "topology.kubernetes.io/zone"
# KubeRay's own for the autoscaler's container (KubeRay 1.6, common/pod.go, BuildAutoscalerContainer).
_AUTOSCALER = {"cpu": "500m", "memory": "512Mi"}


@dataclass(frozen=True)
class Wanted:
    """The pods of one group: how many, what they are (labels and spec), and what one of them takes."""

    group: str
    path: str
    count: int
    labels: dict[str, str]
    pod: Json
    request: Amounts


@dataclass(frozen=True)
class Shortage:
    """A group of which only `placed` of `wanted.count` pods find a node.

    `selected` are the nodes that the group's selector and affinity allow. When there are none,
    `selector` says by label how many nodes have it. `obstacles` are by node: why no (further) pod
    of the group fits there, reading on from the node's name.
    """

    wanted: Wanted
    placed: int
    selected: list[str]
    selector: dict[str, int] = field(default_factory=dict)
    obstacles: dict[str, str] = field(default_factory=dict)


def wanted(groups: list[Group], autoscaler: Json | None = None) -> list[Wanted]:
    """What the groups of a RayService ask of the nodes at its start, the head's group first.

    `autoscaler` are the autoscalerOptions where Ray's autoscaler runs in the head's pod, else None.
    """
    found = []
    for group in groups:
        request = request_of(group.pod)
        if group.name == "head" and autoscaler is not None:
            resources = mapping(autoscaler.get("resources"))
            own = mapping(resources.get("requests")) or mapping(resources.get("limits"))
            add(request, amounts(own or _AUTOSCALER))
        metadata = mapping(mapping(group.spec.get("template")).get("metadata"))
        count = 1 if group.name == "head" else group.pods[0]
        known = mapping(metadata.get("labels"))
        found.append(Wanted(group.name, group.path, count, known, group.pod, request))
    return found


def shortages(groups: list[Wanted], nodes: list[Json], pods: list[Json]) -> list[Shortage]:
    """Groups whose pods do not all find a node beside the `pods` that are there.

    Pods are put where there is room, one after the other, beginning in the zone that takes most of
    them. Spread constraints are not kept to, nor are affinities to pods of other releases.
    """
    free = _free(nodes, pods)
    zones = sorted({labels(node).get(_ZONE, "") for node in nodes}) or [""]
    attempts = [
        _place(
            groups,
            sorted(nodes, key=lambda node: labels(node).get(_ZONE) != zone),
            {name: dict(left) for name, left in free.items()},
        )
        for zone in zones
    ]
    return min(attempts, key=lambda found: sum(s.wanted.count - s.placed for s in found))


def left(groups: list[Wanted], nodes: list[Json], pods: list[Json]) -> Amounts:
    """What is left, beside the `pods` that are there, of the nodes whose labels any of the groups
    selects, added up."""
    free = _free(nodes, pods)
    total: Amounts = {}
    state = Snapshot("", "", "", nodes=nodes)
    for node in nodes:
        found = [obstacles(_pod(group, None), node, state) for group in groups]
        if any(all(o.kind != "labels" for o in against) for against in found):
            add(total, free[_name(node)])
    return total


def shortage_text(short: Shortage) -> str:
    """Which pods find no node, and why not."""
    group = short.wanted
    head = f"{short.placed} of {group.count} pods of group {group.group} find a node."
    if not short.selected:
        if not short.selector:
            return f"{head} No node meets the group's node affinity."
        labels = ", ".join(
            f"{label} on {count or 'no'} nodes" for label, count in short.selector.items()
        )
        return f"{head} No node has all labels that the group selects: {labels}."
    reasons: dict[str, list[str]] = {}
    for node, why in short.obstacles.items():
        reasons.setdefault(why, []).append(node)
    lines = [f"{_few(nodes)} {why}" for why, nodes in reasons.items()]
    return f"{head} {'; '.join(lines)}."


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _place(groups: list[Wanted], nodes: list[Json], left: dict[str, Amounts]) -> list[Shortage]:
    """One trial, which takes from what is `left` of each node."""
    placed: list[Json] = []
    short = []
    for group in groups:
        reasons: dict[str, str] = {}
        selected: list[str] = []
        count = 0
        for node in nodes:
            name = _name(node)
            trial = _pod(group, None)
            state = Snapshot("", "", "", nodes=nodes, pods=placed)
            found = obstacles(trial, node, state)
            if any(obstacle.kind == "labels" for obstacle in found):
                continue
            selected.append(name)
            if found:
                reasons[name] = "; ".join(obstacle.detail for obstacle in found)
                continue
            free = left[name]
            fits = 0
            while count < group.count and not (why := _lacking(group.request, free)):
                for resource, asked in group.request.items():
                    free[resource] -= asked
                count, fits = count + 1, fits + 1
            if fits:
                placed.append(_pod(group, name))
            if count < group.count:
                reasons[name] = why
        if count < group.count:
            holders = {} if selected else _holders(group.pod, nodes)
            short.append(Shortage(group, count, selected, holders, reasons))
    return short


def _lacking(request: Amounts, free: Amounts) -> str:
    """What is left too little of for one more pod, "" when there is enough of all."""
    for resource, asked in request.items():
        left = free.get(resource, Decimal(0))
        if left < asked:
            has = f"{amount(resource, left)} {resource} left" if left > 0 else f"no {resource} left"
            return f"has {has} of {amount(resource, asked)} that a pod takes"
    return ""


def _pod(group: Wanted, node: str | None) -> Json:
    """A pod of the group as the scheduler sees it, on a node or on none."""
    spec = {**group.pod, "nodeName": node} if node else group.pod
    metadata = {"name": f"a pod of group {group.group}", "labels": group.labels}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def _holders(pod: Json, nodes: list[Json]) -> dict[str, int]:
    """By label that the pod selects: how many nodes have it."""
    have = Counter((key, value) for node in nodes for key, value in labels(node).items())
    return {f"{k}={v}": have[(k, v)] for k, v in mapping(pod.get("nodeSelector")).items()}


def _free(nodes: list[Json], pods: list[Json]) -> dict[str, Amounts]:
    """By node what is left of its resources beside the pods that are on it."""
    free = {
        _name(node): amounts(mapping(mapping(node.get("status")).get("allocatable")))
        for node in nodes
    }
    for pod in pods:
        spec = mapping(pod.get("spec"))
        left = free.get(str(spec.get("nodeName")))
        if left is not None and mapping(pod.get("status")).get("phase") not in _ENDED:
            for resource, taken in request_of(spec).items():
                left[resource] = left.get(resource, Decimal(0)) - taken
    return free


def _name(node: Json) -> str:
    return str(node["metadata"]["name"])
