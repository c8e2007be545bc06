"""Which pods find a place on which groups, and whether the nodes suffice for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

from raypd.lint.eksctl.cluster import Cluster, Group, Json, Taint, listed
from raypd.lint.eksctl.pods import Pod, apart, satisfied, terms, tolerates
from raypd.lint.subject import EFA, GPU
from raypd.report import Finding

TYPE_LABEL = "node.kubernetes.io/instance-type"
ZONE_LABEL = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class Placed:
    """A pod and the groups that are meant for it; `fits` when they can hold it."""

    pod: Pod
    homes: list[Group]
    fits: bool


def place(cluster: Cluster, pods: list[Pod]) -> tuple[list[Placed], list[Finding]]:
    """For each pod the groups that can hold it; what rules all of them out becomes a finding.

    A step that leaves no group is reported and passed over, so that the next steps still speak of
    the groups that were meant.
    """
    findings: list[Finding] = []
    placed: list[Placed] = []
    for pod in pods:
        homes, fits = cluster.groups, True
        for keeps, complaint in STEPS:
            if left := [group for group in homes if keeps(pod, group)]:
                homes = left
                continue
            fits = False
            findings.append(complaint(pod, homes))
            if keeps is labels_match:
                homes = _meant(pod, cluster.groups) or homes
        placed.append(Placed(pod, homes, fits))
    return placed, findings


def _meant(pod: Pod, groups: list[Group]) -> list[Group]:
    """Groups with GPUs for engines, without for the head, where labels do not tell."""
    return [group for group in groups if bool(group.gpus) != pod.head]


def _matches(pod: Pod, labels: Json, about: Callable[[str], bool]) -> bool:
    return any(
        all(satisfied(need, labels) for need in term if about(need["key"])) for term in terms(pod)
    )


def labels_match(pod: Pod, group: Group) -> bool:
    return _matches(pod, group.labels, lambda key: key not in (TYPE_LABEL, ZONE_LABEL))


def type_matches(pod: Pod, group: Group) -> bool:
    return not group.types or any(
        _matches(pod, {TYPE_LABEL: one}, lambda key: key == TYPE_LABEL) for one in group.types
    )


def zone_matches(pod: Pod, group: Group) -> bool:
    return not group.zones or any(
        _matches(pod, {ZONE_LABEL: zone}, lambda key: key == ZONE_LABEL) for zone in group.zones
    )


def wanted(pod: Pod, about: Callable[[str], bool]) -> str:
    """The requirements on a node as text: "role=gpu-worker"."""
    needs = {
        f"{need['key']}={'|'.join(map(str, need.get('values') or [])) or need.get('operator')}": 0
        for term in terms(pod)
        for need in term
        if about(need["key"])
    }
    return ", ".join(needs)


def _where(groups: list[Group], key: str) -> str:
    """Path of the one group concerned, or of the list where it may be any."""
    return f"{groups[0].path}.{key}" if len(groups) == 1 else "managedNodeGroups"


def error(code: str, path: str, message: str, remedy: str) -> Finding:
    return Finding(code=code, severity="error", path=path, message=message, remedy=remedy)


def _no_label(pod: Pod, groups: list[Group]) -> Finding:
    labels = wanted(pod, lambda key: key not in (TYPE_LABEL, ZONE_LABEL))
    return error(
        "RPD420",
        _where(_meant(pod, groups), "labels"),
        f"{pod.what} must run on a node with {labels}, and no group has that label",
        f"labels: {{{labels.replace('=', ': ')}}} on the group that is meant for {pod.name}",
    )


def _no_type(pod: Pod, groups: list[Group]) -> Finding:
    kind = wanted(pod, lambda key: key == TYPE_LABEL).partition("=")[2]
    have = listed(one for group in groups for one in group.types)
    return error(
        "RPD424",
        _where(groups, "instanceType"),
        f"{pod.what} must run on {kind} (`{pod.name}.instanceType` of the values), and the "
        f"matching groups bring {have}",
        f"instanceType: {kind}, or set `{pod.name}.instanceType` to {have}",
    )


def _no_zone(pod: Pod, groups: list[Group]) -> Finding:
    zone = wanted(pod, lambda key: key == ZONE_LABEL).partition("=")[2]
    have = listed(zone for group in groups for zone in group.zones)
    return error(
        "RPD413",
        _where(groups, "availabilityZones"),
        f"{pod.what} must run in {zone} (`placement.zone` of the values), and the matching "
        f"groups are in {have}",
        f"availabilityZones: [{zone}], or `placement.zone: {have}`",
    )


def _no_untolerated_taint(pod: Pod, group: Group) -> bool:
    return not untolerated(pod, group)


def untolerated(pod: Pod, group: Group) -> list[Taint]:
    return [
        taint
        for taint in group.taints
        if taint.blocks and not any(tolerates(t, taint) for t in pod.spec.get("tolerations") or [])
    ]


def _no_toleration(pod: Pod, groups: list[Group]) -> Finding:
    taint = untolerated(pod, groups[0])[0]
    return error(
        "RPD421",
        _where(groups, "taints"),
        f"{pod.what} would run on group {groups[0].name} but for its taint {taint}",
        f"drop the taint, or add {{key: {taint.key}, operator: Exists, effect: {taint.effect}}} to "
        f"`{pod.name}.tolerations` of the values",
    )


def devices_fit(pod: Pod, group: Group) -> bool:
    if group.shape is None:
        return True
    return pod.requests.get(GPU, 0) <= group.gpus and (
        pod.requests.get(EFA, 0) <= group.efa_interfaces
    )


def _no_devices(pod: Pod, groups: list[Group]) -> Finding:
    group = groups[0]
    gpus, efas = int(pod.requests.get(GPU, 0)), int(pod.requests.get(EFA, 0))
    if gpus > group.gpus:
        return error(
            "RPD425",
            _where(groups, "instanceType"),
            f"{_one(pod)} takes {gpus} GPUs, and a {group.types[0]} node has {group.gpus}",
            f"a type with {gpus} GPUs or more, or a smaller `{pod.name}.parallelism`",
        )
    if not group.efa:
        has = group.shape is not None and group.shape["efa"]["interfaces"]
        return error(
            "RPD414",
            _where(groups, "efaEnabled"),
            f"{_one(pod)} takes {efas} EFA interfaces (`transport.fabric: efa`), and the group has "
            + ("EFA turned off" if has else f"{group.types[0]}, a type without EFA"),
            "efaEnabled: true"
            if has
            else "a type with EFA (g6.8xlarge and larger), or `transport.fabric: tcp`",
        )
    return error(
        "RPD414",
        _where(groups, "instanceType"),
        f"{_one(pod)} takes {efas} EFA interfaces, and a {group.types[0]} node has "
        f"{group.efa_interfaces}",
        f"`transport.efa.interfacesPerPod: {group.efa_interfaces}` or less",
    )


def size_fits(pod: Pod, group: Group) -> bool:
    if group.shape is None:
        return True
    cpu, memory = group.allocatable()
    return pod.requests.get("cpu", 0) <= cpu and pod.requests.get("memory", 0) / 2**20 <= memory


def _no_room(pod: Pod, groups: list[Group]) -> Finding:
    group = groups[0]
    cpu, memory = group.allocatable()
    asked_cpu, asked_gib = pod.requests.get("cpu", 0), pod.requests.get("memory", 0) / 2**30
    return error(
        "RPD427" if pod.head else "RPD426",
        _where(groups, "instanceType"),
        f"{_one(pod)} asks for {asked_cpu:g} CPUs and {asked_gib:.1f} GiB, and a {group.types[0]} "
        f"node has some {cpu:.1f} CPUs and {memory / 1024:.1f} GiB left after what Kubernetes, EC2 "
        "and the add-ons keep",
        f"a larger type, or `{pod.name}.resources` below that",
    )


def _one(pod: Pod) -> str:
    return f"one {pod.name} pod"


STEPS: list[tuple[Callable[[Pod, Group], bool], Callable[[Pod, list[Group]], Finding]]] = [
    (labels_match, _no_label),
    (type_matches, _no_type),
    (zone_matches, _no_zone),
    (_no_untolerated_taint, _no_toleration),
    (devices_fit, _no_devices),
    (size_fits, _no_room),
]


def one_zone(placed: list[Placed]) -> Iterator[Finding]:
    """Engines that must be in one zone, by EFA or by `placement.sameZone`, on groups that are not."""
    engines = [(p.pod, p.homes) for p in placed if not p.pod.head and p.fits]
    over_efa = any(pod.requests.get(EFA) for pod, _ in engines)
    if not over_efa and not any(_same_zone(pod) for pod, _ in engines):
        return
    if sum(pod.count for pod, _ in engines) < 2:
        return
    if any(group.efa and len(group.zones) > 1 for _, homes in engines for group in homes):
        return  # RPD410 says it of the group itself
    choices = [{group.zones for group in homes if group.zones} for _, homes in engines]
    if not all(choices):
        return  # zones hidden behind subnet ids
    for pick in product(*choices):
        if len(set(pick)) == 1 and len(pick[0]) == 1:
            return
    zones = {z for sets in choices for zone_set in sets for z in zone_set}
    groups = list({id(g): g for _, homes in engines for g in homes}.values())
    yield error(
        "RPD413",
        _where(groups, "availabilityZones"),
        f"{listed(pod.name for pod, _ in engines)} must share one zone "
        + ("(EFA does not leave it)" if over_efa else "(`placement.sameZone`)")
        + f", and their groups are spread over {listed(sorted(zones))}",
        f"availabilityZones: [{min(zones)}] on {listed(g.path for g in groups)}",
    )


@dataclass
class _Node:
    free: dict[str, float]
    pods: list[Pod] = field(default_factory=list)

    def takes(self, pod: Pod) -> bool:
        return all(self.free[r] >= pod.requests.get(r, 0) for r in self.free) and not any(
            apart(pod, other) for other in self.pods
        )

    def add(self, pod: Pod) -> None:
        self.pods.append(pod)
        for resource in self.free:
            self.free[resource] -= pod.requests.get(resource, 0)


def _same_zone(pod: Pod) -> bool:
    affinity = (pod.spec.get("affinity") or {}).get("podAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []
    return any(term.get("topologyKey") == ZONE_LABEL for term in required)


def enough_nodes(cluster: Cluster, placed: list[Placed], twice: bool) -> Iterator[Finding]:
    """Packs the pods, large ones first, and counts the nodes that it took of each group.

    `twice` when an upgrade starts a second Ray cluster beside the first.
    """
    nodes: dict[int, list[_Node]] = {id(group): [] for group in cluster.groups}

    def empty(group: Group) -> _Node:
        if group.shape is None:
            return _Node({})
        cpu, memory = group.allocatable()
        return _Node(
            {GPU: group.gpus, EFA: group.efa_interfaces, "cpu": cpu, "memory": memory * 2**20}
        )

    def put(pod: Pod, homes: list[Group]) -> None:
        for group in homes:
            for node in nodes[id(group)]:
                if node.takes(pod):
                    node.add(pod)
                    return
        group = next((g for g in homes if len(nodes[id(g)]) < g.nodes), homes[-1])
        node = empty(group)
        node.add(pod)
        nodes[id(group)].append(node)

    fitting = [(p.pod, p.homes) for p in placed if p.fits]
    for pod, homes in sorted(fitting, key=lambda one: -one[0].requests.get(GPU, 0)):
        for _ in range(pod.count * (2 if twice else 1)):
            put(pod, homes)
    for group in cluster.groups:
        needed = len(nodes[id(group)])
        if needed <= group.nodes:
            continue
        names: dict[str, int] = {}
        for pod in (pod for node in nodes[id(group)] for pod in node.pods):
            names[pod.name] = names.get(pod.name, 0) + 1
        what = listed(f"{count} x {name}" for name, count in names.items())
        yield group.finding(
            "RPD422",
            "desiredCapacity",
            f"{what} need {needed} nodes of {listed(group.types)}, and the group has {group.nodes}"
            + ("; `upgrade.strategy: NewCluster` runs all pods twice" if twice else ""),
            f"desiredCapacity: {needed} and maxSize: {needed} or more, or fewer replicas",
        )


def head_type(values: Json, placed: list[Placed]) -> Iterator[Finding]:
    wanted = (values.get("head") or {}).get("instanceType")
    for homes in (p.homes for p in placed if p.pod.head and p.fits):
        types = [one for group in homes for one in group.types]
        if wanted and types and wanted not in types:
            yield error(
                "RPD428",
                _where(homes, "instanceType"),
                f"the values were checked for a head on {wanted} (`head.instanceType`), and the "
                f"head's group brings {listed(types)}",
                f"instanceType: {wanted}, or `head.instanceType: {types[0]}`",
            )


def rdma(group: Group, guests: list[Pod]) -> Iterator[Finding]:
    if group.shape is None or group.shape["efa"]["rdmaRead"]:
        return
    for pod in guests:
        env = [e for c in pod.spec["containers"] for e in c.get("env") or []]
        if {"name": "FI_EFA_USE_DEVICE_RDMA", "value": "1"} in env:
            yield group.finding(
                "RPD415",
                "instanceType",
                f"{pod.what} set FI_EFA_USE_DEVICE_RDMA=1, and {group.types[0]} has no RDMA read: "
                "libfabric aborts",
                "a type with RDMA read (g6, g6e, p4d and later), or drop the variable",
            )
