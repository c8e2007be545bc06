"""Pods that wait for a node, and nodes that are not well (RPD61x).

The scheduler's sentence gives numbers of nodes ("0/3 nodes are available: 1 Insufficient
nvidia.com/gpu, ..."). Here the same rules are gone through with the nodes' names, and for a device
that a node does not offer the reason is looked for in the DaemonSet of its plugin.
"""

from __future__ import annotations

from collections.abc import Iterator

from raypd.data import load
from raypd.live.diagnosis.fit import Obstacle, not_wanted, obstacles, offers
from raypd.live.diagnosis.trouble import Check, Trouble, of_pod, several
from raypd.live.snapshot import (
    ENGINES,
    HEAD,
    Json,
    Snapshot,
    component_of,
    labels,
    time_of,
    unschedulable,
)

_NODE_COMES = 900  # seconds that a node which an autoscaler has ordered may take
_NODE_STARTS = 180  # seconds that its plugins take on a new node
# The gravest of what stands between a pod and its nodes names the trouble.
_CODES = {
    "absent": "RPD610",
    "taint": "RPD614",
    "sick": "RPD616",
    "cordoned": "RPD616",
    "near": "RPD617",
    "taken": "RPD611",
    "leaving": "RPD611",
    "apart": "RPD613",
}
_SHOWN = 4  # nodes, or groups of nodes alike, that are told one by one


def pending(snapshot: Snapshot) -> Iterator[Trouble]:
    known: dict[str, list[Trouble]] = {}  # by what decides it: a hundred pods of a role are alike
    for pod in snapshot.alive():
        words = unschedulable(pod)
        if words is None or _of_claim(words, snapshot) or awaits_node(pod, snapshot):
            continue
        wants = ("nodeSelector", "tolerations", "affinity", "containers", "initContainers")
        key = repr((component_of(pod), words, [pod["spec"].get(part) for part in wants]))
        if key not in known:
            known[key] = list(_troubles(pod, words, snapshot))
        for trouble in known[key]:
            yield of_pod(trouble.code, pod, trouble.message, trouble.remedy)


def awaits_node(pod: Json, snapshot: Snapshot) -> bool:
    """An autoscaler (cluster-autoscaler, Karpenter) has ordered a node for the pod, which may still
    come."""
    # "NominatedNode" is no scale-up: there the scheduler makes room by preemption.
    events = snapshot.events_of(pod, "TriggeredScaleUp", "Nominated", "NotTriggerScaleUp")
    return (
        bool(events)
        and events[0]["reason"] != "NotTriggerScaleUp"
        and snapshot.age(time_of(events[0])) < _NODE_COMES
    )


def sick_nodes(snapshot: Snapshot) -> Iterator[Trouble]:
    """Nodes that have pods of the release and are not ready."""
    for node in snapshot.nodes:
        name = node["metadata"]["name"]
        mine = [
            pod
            for pod in snapshot.component(HEAD, *ENGINES)  # also those that cannot end there
            if pod["spec"].get("nodeName") == name
        ]
        ready = next(
            (c for c in node["status"].get("conditions") or [] if c["type"] == "Ready"), None
        )
        if not mine or ready is None or ready["status"] == "True":
            continue
        for pod in mine:
            yield of_pod(
                "RPD616",
                pod,
                f"Its node {name} has not been ready since {ready['lastTransitionTime']}: "
                f"{ready.get('message') or ready.get('reason')}",
                f"The node itself: `kubectl describe node {name}`. Where it does not come back, "
                f"`kubectl delete node {name}` lets Kubernetes give its pods up and KubeRay make "
                "others.",
            )


def _troubles(pod: Json, words: str, snapshot: Snapshot) -> Iterator[Trouble]:
    told = f"The scheduler: {words}"
    if not snapshot.nodes:
        yield of_pod("RPD618", pod, f"No node takes it. {told}", _REMEDIES["RPD618"])
        return
    candidates = _candidates(pod, snapshot)
    if not candidates:
        yield _no_such_node(pod, told, snapshot)
        return
    if any(_passes(found, name, snapshot) for name, found in candidates.items()):
        return
    kinds = {obstacle.kind for found in candidates.values() for obstacle in found}
    code = next((code for kind, code in _CODES.items() if kind in kinds), "RPD618")
    nodes = {node["metadata"]["name"]: node for node in snapshot.nodes}
    reasons = {
        name: "; ".join(_told(obstacle, nodes[name], snapshot) for obstacle in found)
        for name, found in candidates.items()
        if found
    }
    message = f"No node takes it: {_by_node(reasons)}. {told}" if reasons else told
    first = next((o for f in candidates.values() for o in f if _CODES.get(o.kind) == code), None)
    yield of_pod(code, pod, message, _remedy(code, first, snapshot))


def _candidates(pod: Json, snapshot: Snapshot) -> dict[str, list[Obstacle]]:
    """By name the nodes with the labels that the pod selects, and what else is in the way there."""
    found = {}
    for node in snapshot.nodes:
        in_the_way = obstacles(pod, node, snapshot)
        kinds = {obstacle.kind for obstacle in in_the_way}
        if "labels" not in kinds:
            # Where the pod may not be anyway, nobody needs to know who takes what there.
            dull = ("taken", "leaving") if "apart" in kinds else ()
            found[node["metadata"]["name"]] = [o for o in in_the_way if o.kind not in dull]
    return found


def _passes(found: list[Obstacle], name: str, snapshot: Snapshot) -> bool:
    """Time alone takes everything out of the way: pods end there, or the node has just come and its
    plugins have yet to start."""
    (node,) = (node for node in snapshot.nodes if node["metadata"]["name"] == name)
    kinds = {obstacle.kind for obstacle in found}
    new = snapshot.age(node["metadata"]["creationTimestamp"]) < _NODE_STARTS
    return bool(kinds) and kinds <= {"leaving", *(("absent", "sick") if new else ())}


def _told(obstacle: Obstacle, node: Json, snapshot: Snapshot) -> str:
    """The obstacle, and for a device that the node does not offer why not."""
    plugins = load("live.yaml")["devicePlugins"]
    if obstacle.kind != "absent" or obstacle.what not in plugins:
        return obstacle.detail
    if "DaemonSets" in snapshot.unseen:
        return obstacle.detail
    return f"{obstacle.detail}, because {no_device(obstacle.what, node, snapshot)}"


def plugins_of(resource: str, daemonsets: list[Json]) -> list[Json]:
    """The DaemonSets among them that make nodes offer a device."""
    names = load("live.yaml")["devicePlugins"][resource]["daemonSets"]
    return [d for d in daemonsets if any(part in d["metadata"]["name"] for part in names)]


def no_device(resource: str, node: Json, snapshot: Snapshot) -> str:
    """Why a node does not offer enough of a device, as the end of a sentence; only for devices whose
    plugins are known (data/live.yaml)."""
    if offers(node, resource):
        return "its type has no more, or some of them are broken"
    plugins = plugins_of(resource, snapshot.daemonsets)
    if not plugins:
        return f"no device plugin for {resource} is in the cluster"
    said = []
    for plugin in plugins:
        name = f"{plugin['metadata']['namespace']}/{plugin['metadata']['name']}"
        against = not_wanted(plugin, node)
        taints = [o.what for o in against if o.kind == "taint"]
        unlike = [o.detail for o in against if o.kind == "labels"]
        if taints:
            said.append(
                f"the DaemonSet {name} wants no pod there: it does not tolerate the taint "
                f"{' and '.join(taints)}"
            )
        elif unlike:
            said.append(f"the DaemonSet {name} wants no pod there: the node {unlike[0]}")
        else:
            status = plugin.get("status") or {}
            said.append(
                f"the DaemonSet {name} wants a pod there, which has not announced any (of its pods "
                f"{status.get('numberReady', 0)} of {status.get('desiredNumberScheduled', 0)} are "
                "ready)"
            )
    return "; ".join(said)


def _no_such_node(pod: Json, told: str, snapshot: Snapshot) -> Trouble:
    """No node has the labels that the pod selects."""
    wanted = pod["spec"].get("nodeSelector") or {}
    said = []
    for key, value in wanted.items():
        have = sorted({labels(node)[key] for node in snapshot.nodes if key in labels(node)})
        if value not in have:
            said.append(
                f"none is {key}={value} (there is {several(have)})"
                if have
                else f"none has the label {key} (it wants {value})"
            )
    selector = ", ".join(f"{key}={value}" for key, value in wanted.items())
    detail = "; ".join(said) or f"none has all of {selector} and the pod's node affinity at once"
    return of_pod(
        "RPD612",
        pod,
        f"It selects nodes that are not there: {detail}. {told}",
        "Nodes with these labels, or what the nodes have in {role}.instanceType, "
        "{role}.nodeSelector and placement.zone.",
    )


def _by_node(reasons: dict[str, str]) -> str:
    """Nodes with the same reason together."""
    alike: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        alike.setdefault(reason, []).append(name)
    said = [f"{several(names)} {reason}" for reason, names in list(alike.items())[:_SHOWN]]
    more = len(alike) - _SHOWN
    return "; ".join(said) + (f"; and {more} other reasons on other nodes" if more > 0 else "")


_REMEDIES = {
    "RPD613": "Another node for it, or, over TCP only, placement.rolesApart false.",
    "RPD614": "A toleration of that taint in the role's tolerations, or nodes without it.",
    "RPD616": "The node itself: `kubectl describe node NAME`; `kubectl uncordon NAME` where it was "
    "cordoned.",
    "RPD617": "Nodes in that zone. EFA does not leave a zone; without EFA placement.sameZone false.",
    "RPD618": "What the scheduler's words name.",
}


def _remedy(code: str, first: Obstacle | None, snapshot: Snapshot) -> str:
    if first is None or code in _REMEDIES:
        return _REMEDIES.get(code, _REMEDIES["RPD618"])
    plugin = load("live.yaml")["devicePlugins"].get(first.what)
    if code == "RPD610":
        if plugin is None:
            return f"A larger instance type, or less in {{role}}.resources.{first.what}."
        return (
            "Where the plugin does not run: a toleration in its DaemonSet or no such taint on the "
            f"nodes; eksctl's EFA plugin tolerates only aws.amazon.com/efa. Plugin: {plugin['remedy']}"
        )
    if len(snapshot.ray_clusters()) > 1:
        return (
            "A second cluster of this release is being made, which needs a second set of nodes. Add "
            "nodes, or go back with `helm rollback` and take upgrade.strategy None."
        )
    return "Another node, or the end of what holds the resource."


def _of_claim(words: str, snapshot: Snapshot) -> bool:
    """The pod waits for a volume first, and volumes.py says why."""
    return "persistentvolumeclaim" in words.lower() and "volume claims" not in snapshot.unseen


CHECKS: list[Check] = [pending, sick_nodes]
