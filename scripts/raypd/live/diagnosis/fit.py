"""Why a pod does not fit on a node, by the scheduler's own rules: labels, taints, resources and the
pods that are there. What it says can be checked against the scheduler's sentence, which gives
numbers of nodes without their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kubernetes.utils import parse_quantity

from raypd.live.install.room import request_of
from raypd.live.snapshot import Snapshot, ending, labels

Json = dict[str, Any]

# Set by Kubernetes itself on nodes that are not well.
SICK = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
CORDONED = "node.kubernetes.io/unschedulable"
# A DaemonSet's pods tolerate these unasked (Kubernetes 1.35, pkg/controller/daemon/util).
_OF_DAEMONSETS = (
    *SICK,
    CORDONED,
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
)


@dataclass(frozen=True)
class Obstacle:
    """One reason why a node does not take a pod.

    `kind` is "labels", "taint", "sick", "cordoned", "absent" (too little of a resource at all),
    "taken" (by other pods), "leaving" (taken by pods that are ending), "apart" (from another pod) or "near" (to other pods). `what` is the
    label, taint, resource or pod that it is about; `detail` reads on from the node's name.
    """

    kind: str
    what: str
    detail: str


def obstacles(pod: Json, node: Json, snapshot: Snapshot) -> list[Obstacle]:
    """Everything that keeps `pod` off `node`; [] when it would fit."""
    return [
        *_labels(pod["spec"], node),
        *_taints(pod["spec"], node),
        *_resources(pod, node, snapshot),
        *_other_pods(pod, node, snapshot),
    ]


def not_wanted(daemonset: Json, node: Json) -> list[Obstacle]:
    """Why a DaemonSet has no pod for `node`; [] when it has, or will have."""
    spec = daemonset["spec"]["template"]["spec"]
    unasked = [{"key": key, "operator": "Exists"} for key in _OF_DAEMONSETS]
    tolerant = {**spec, "tolerations": [*(spec.get("tolerations") or []), *unasked]}
    return [*_labels(tolerant, node), *_taints(tolerant, node)]


def offers(node: Json, resource: str) -> Decimal:
    """How much of a resource the node has for pods, 0 when it does not know the resource."""
    return parse_quantity((node["status"].get("allocatable") or {}).get(resource, 0))


def holders(resource: str, node: Json, snapshot: Snapshot) -> list[Json]:
    """The pods on the node that hold some of the resource."""
    return [
        pod
        for pod in snapshot.neighbours
        if pod["spec"]["nodeName"] == node["metadata"]["name"]
        and pod["status"]["phase"] not in ("Succeeded", "Failed")
        and request_of(pod["spec"]).get(resource)
    ]


def amount(resource: str, value: Decimal) -> str:
    """An amount as a person writes it: memory in GiB, the rest as a number."""
    if resource in ("memory", "ephemeral-storage"):
        return f"{value / 2**30:.1f} GiB"
    return f"{value.normalize():f}"


def _labels(spec: Json, node: Json) -> Iterator[Obstacle]:
    have = labels(node)
    for key, wanted in (spec.get("nodeSelector") or {}).items():
        if have.get(key) != wanted:
            found = f"it is {have[key]}" if key in have else "it has no such label"
            yield Obstacle("labels", f"{key}={wanted}", f"is not {key}={wanted} ({found})")
    rules = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    terms = rules.get("nodeSelectorTerms") or []
    if terms and not any(_term(term, node) for term in terms):
        wanted = " or ".join(sorted(_said(term) for term in terms))
        yield Obstacle("labels", wanted, f"is not {_short(wanted)}")


def _term(term: Json, node: Json) -> bool:
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    name = {"metadata.name": node["metadata"]["name"]}
    return bool(expressions or fields) and (
        all(_expression(e, labels(node)) for e in expressions)
        and all(_expression(e, name) for e in fields)
    )


def _expression(expression: Json, have: dict[str, str]) -> bool:
    """One requirement of a selector, of nodes or of pods."""
    key, operator = expression["key"], expression["operator"]
    values, value = expression.get("values") or [], have.get(expression["key"])
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return key in have
        case "DoesNotExist":
            return key not in have
        case "Gt" | "Lt":
            if value is None or not value.lstrip("-").isdigit():
                return False
            return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    return False


def _said(term: Json) -> str:
    parts = [*(term.get("matchExpressions") or []), *(term.get("matchFields") or [])]
    return " and ".join(
        f"{e['key']} {e['operator']} {', '.join(e.get('values') or [])}".strip() for e in parts
    )


def _short(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _taints(spec: Json, node: Json) -> Iterator[Obstacle]:
    tolerations = spec.get("tolerations") or []
    for taint in node["spec"].get("taints") or []:
        if taint["effect"] == "PreferNoSchedule" or any(_tolerates(t, taint) for t in tolerations):
            continue
        written = taint_text(taint)
        if taint["key"] in SICK:
            yield Obstacle("sick", written, "is not ready")
        elif taint["key"] == CORDONED:
            yield Obstacle("cordoned", written, "is cordoned")
        else:
            yield Obstacle("taint", written, f"has the taint {written}, which is not tolerated")


def taint_text(taint: Json) -> str:
    """A taint as kubectl takes it: key=value:effect."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _tolerates(toleration: Json, taint: Json) -> bool:
    key, effect = toleration.get("key"), toleration.get("effect")
    if effect and effect != taint["effect"]:
        return False
    if key and key != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def _resources(pod: Json, node: Json, snapshot: Snapshot) -> Iterator[Obstacle]:
    short: list[str] = []  # offered, but in use; devices first, as they have the fewest holders
    for resource, asked in sorted(request_of(pod["spec"]).items(), key=lambda r: "/" not in r[0]):
        offered = offers(node, resource)
        if offered < asked:
            has = f"offers {amount(resource, offered)}" if offered else "offers none"
            yield Obstacle("absent", resource, f"{has} of {amount(resource, asked)} {resource}")
        elif offered - _held(resource, holders(resource, node, snapshot)) < asked:
            short.append(resource)
    if not short:
        return
    used = holders(short[0], node, snapshot)
    stays = [holder for holder in used if not ending(holder)]
    asked = request_of(pod["spec"])[short[0]]
    left = offers(node, short[0]) - _held(short[0], stays) >= asked
    said = ", ".join(
        f"{amount(name, _held(name, holders(name, node, snapshot)))} of "
        f"{amount(name, offers(node, name))} {name}"
        for name in short
    )
    detail = f"has {said} taken by {_names(used, short[0])}"
    yield Obstacle("leaving" if left else "taken", short[0], detail)


def _held(resource: str, pods: Iterable[Json]) -> Decimal:
    """How much of a resource the pods hold in all."""
    return sum((request_of(pod["spec"]).get(resource, Decimal(0)) for pod in pods), Decimal(0))


def _names(pods: list[Json], resource: str, most: int = 3) -> str:
    """The pods that hold most of a resource."""
    ordered = sorted(pods, key=lambda pod: -request_of(pod["spec"])[resource])
    shown = [f"{p['metadata']['namespace']}/{p['metadata']['name']}" for p in ordered[:most]]
    return ", ".join(shown) + (f" and {len(pods) - most} more" if len(pods) > most else "")


def _other_pods(pod: Json, node: Json, snapshot: Snapshot) -> Iterator[Obstacle]:
    """Rules between pods. They are the chart's own, so the release's pods are all they look at."""
    placed = [p for p in snapshot.alive() if "nodeName" in p["spec"] and p is not pod]
    nodes = {n["metadata"]["name"]: n for n in snapshot.nodes}
    for term in _terms(pod, "podAntiAffinity"):
        for other in placed:
            if _matches(term, other) and _together(
                term, node, nodes.get(other["spec"]["nodeName"])
            ):
                name = other["metadata"]["name"]
                yield Obstacle("apart", name, f"has {name}, from which it has to stay apart")
                break
    for term in _terms(pod, "podAffinity"):
        near = [other for other in placed if _matches(term, other)]
        # A rule that only pods of its own kind can satisfy lets the first of them through.
        if not near and _matches(term, pod):
            continue
        if not any(_together(term, node, nodes.get(o["spec"]["nodeName"])) for o in near):
            key = term["topologyKey"]
            there = {
                labels(nodes[o["spec"]["nodeName"]]).get(key, "")
                for o in near
                if o["spec"]["nodeName"] in nodes
            }
            yield Obstacle(
                "near",
                key,
                f"is in {labels(node).get(key, 'no')} of {key}, and the pods that it has to be near "
                f"to are in {', '.join(sorted(there)) or 'none'}",
            )


def _terms(pod: Json, kind: str) -> Iterable[Json]:
    rules = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return rules.get("requiredDuringSchedulingIgnoredDuringExecution") or []


def _matches(term: Json, pod: Json) -> bool:
    selector, have = term.get("labelSelector") or {}, labels(pod)
    wanted = (selector.get("matchLabels") or {}).items()
    return all(have.get(key) == value for key, value in wanted) and all(
        _expression(e, have) for e in selector.get("matchExpressions") or []
    )


def _together(term: Json, node: Json, other: Json | None) -> bool:
    key = term["topologyKey"]
    return other is not None and key in labels(node) and labels(node)[key] == labels(other).get(key)
