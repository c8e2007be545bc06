"""What is wrong with a NodePool whose nodes take pods of the release."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from raypd.lint.eksctl.cluster import Group, Json, listed
from raypd.lint.eksctl.disks import Needs
from raypd.lint.eksctl.placement import ZONE_LABEL
from raypd.lint.eksctl.pods import Pod, quantity
from raypd.lint.karpenter.homes import Home
from raypd.lint.karpenter.pools import Pool, facts
from raypd.lint.subject import EFA, GPU
from raypd.report import Finding

Guests = list[tuple[Pod, Home]]
Rule = Callable[[Pool, Guests, list[dict[str, Any]], float], Iterator[Finding]]


def one_zone(
    pool: Pool, guests: Guests, manifests: list[Json], weights: float
) -> Iterator[Finding]:
    engines = [pod for pod, _ in guests if pod.requests.get(EFA)]
    zones = {zone for _, home in guests for offer in home.offers for zone in offer.zones}
    pinned = any(ZONE_LABEL in (pod.spec.get("nodeSelector") or {}) for pod in engines)
    if engines and len(zones) != 1 and not pinned:
        yield pool.finding(
            "RPD563",
            f"{pool.path}.template.spec.requirements",
            "EFA does not leave a zone, and "
            + (f"the pool makes nodes in {listed(sorted(zones))}" if zones else "no zone is named")
            + ": the first pod's node decides, and the others wait where that zone has no capacity",
            f"{{key: {ZONE_LABEL}, operator: In, values: [one zone]}}, or `placement.zone` of the "
            "values",
            "warning",
        )


def capacity_type(
    pool: Pool, guests: Guests, manifests: list[Json], weights: float
) -> Iterator[Finding]:
    label, types = facts()["capacityTypeLabel"], pool.capacity_types
    path = f"{pool.path}.template.spec.requirements"
    named = any(requirement["key"] == label for requirement in pool.requirements)
    if "spot" in types:
        who = listed(pod.name for pod, _ in guests)
        yield pool.finding(
            "RPD565",
            path,
            ("the pool allows spot" if named else f"without {label} spot is allowed")
            + f", which Karpenter takes before on-demand; {who} then goes two minutes after AWS asks "
            "for the node, with requests in flight and the KV of others",
            f"{{key: {label}, operator: In, values: [on-demand]}} (or reserved)",
            "warning",
        )
    terms = pool.node_class.get("capacityReservationSelectorTerms")
    if types == ["reserved"] and pool.node_class and not terms:
        yield pool.finding(
            "RPD569",
            f"{pool.class_path}.capacityReservationSelectorTerms",
            "the pool takes reserved capacity alone, and the class names no reservation; it never "
            "gets a node",
            "[{id: cr-...}] of the capacity block or on-demand reservation",
        )
    elif terms and "reserved" not in types:
        yield pool.finding(
            "RPD569",
            path,
            "the class names capacity reservations, and the pool does not allow reserved capacity: "
            "they are paid for and stay empty",
            f"{{key: {label}, operator: In, values: [reserved]}}",
        )


def disks(pool: Pool, guests: Guests, manifests: list[Json], weights: float) -> Iterator[Finding]:
    if not pool.node_class or pool.family not in facts()["rootDiskGiB"]:
        return
    offers = [offer for _, home in guests for offer in home.offers if offer.shape]
    has_nvme = all(offer.shape["nvmeGB"] for offer in offers if offer.shape)
    mount = (facts()["localStorageMountPath"], True) if pool.raid and has_nvme else None
    needs = Needs.of(mount, [pod for pod, _ in guests], weights)
    if needs.lost:
        yield pool.finding(
            "RPD567",
            f"{pool.class_path}.instanceStorePolicy",
            f"the pods mount {listed(needs.lost)} of the node, and nothing makes the NVMe array there; "
            "they wait for the directory for ever",
            "instanceStorePolicy: RAID0, and types with NVMe disks"
            if not (pool.raid and has_nvme)
            else f"`cache.hostPath.path: {facts()['localStorageMountPath']}`",
        )
    if pool.root_gib < needs.minimum:
        yield pool.finding(
            "RPD567",
            f"{pool.class_path}.blockDeviceMappings",
            f"the root disk has {pool.root_gib:g} GiB and must hold {needs.root:.0f} GiB below the "
            f"kubelet's limit: {needs.minimum} GiB"
            + (f" (weights of some {weights:.0f} GiB among it)" if needs.cache_on_root else ""),
            f"{{deviceName: {facts()['rootDevice']}, ebs: {{volumeSize: {needs.minimum}Gi}}}} or more"
            + ("" if mount else ", or instanceStorePolicy: RAID0 on types with NVMe"),
        )


def disruption(
    pool: Pool, guests: Guests, manifests: list[Json], weights: float
) -> Iterator[Finding]:
    defaults = facts()["disruption"]
    policy = pool.disruption.get("consolidationPolicy") or defaults["consolidationPolicy"]
    exposed = [pod for pod, _ in guests if not _kept(pod, manifests)]
    consolidates = policy != "WhenEmpty" and pool.disruption.get("consolidateAfter") != "Never"
    if exposed and consolidates and not pool.static:
        annotation = facts()["doNotDisrupt"]
        yield pool.finding(
            "RPD568",
            f"{pool.path}.disruption.consolidationPolicy",
            f"{policy} lets Karpenter end nodes with {listed(pod.name for pod in exposed)} on them "
            "when a cheaper place is found; an engine loads for minutes, and the head takes all "
            "engines with it",
            "consolidationPolicy: WhenEmpty, or "
            + " and ".join(f"`{p.name}.podAnnotations: {{{annotation}: 'true'}}`" for p in exposed),
            "warning",
        )
    age = pool.template.get("expireAfter") or defaults["expireAfter"]
    if age != "Never":
        grace = pool.template.get("terminationGracePeriod")
        yield pool.finding(
            "RPD568",
            f"{pool.path}.template.spec.expireAfter",
            f"nodes are drained after {age}"
            + ("" if pool.template.get("expireAfter") else " (Karpenter's default)")
            + f" with {listed(pod.name for pod, _ in guests)} on them, "
            + (
                f"whose pods are deleted after {grace}"
                if grace
                else "and hang there while a PodDisruptionBudget keeps the engines"
            ),
            "expireAfter: Never, and new nodes when you change something",
            "warning",
        )


RULES: list[Rule] = [one_zone, capacity_type, disks, disruption]


def limits(pool: Pool, guests: Guests) -> Iterator[Finding]:
    """The pool's limits against the nodes that the pods need at the least."""
    needed = {"cpu": 0.0, "memory": 0.0, GPU: 0.0, "nodes": 0.0}
    for pod, home in guests:
        offers = [offer for offer in home.offers if offer.shape]
        if not offers:
            return
        count, offer = min(
            ((_nodes(pod, one), one) for one in offers), key=lambda pair: _cost(*pair)
        )
        assert offer.shape is not None
        needed["nodes"] += count
        needed["cpu"] += count * offer.shape["vcpu"]
        needed["memory"] += count * offer.shape["memoryGiB"] * 2**30
        needed[GPU] += count * offer.gpus
    for name, written in (pool.raw["spec"].get("limits") or {}).items():
        if written is None or name not in needed or quantity(written) >= needed[name]:
            continue
        shown = f"{needed[name] / 2**30:.0f}Gi" if name == "memory" else f"{needed[name]:g}"
        yield pool.finding(
            "RPD566",
            f'{pool.path}.limits["{name}"]',
            f"the pool stops at {written}, and {listed(f'{p.count} x {p.name}' for p, _ in guests)} "
            f"need nodes with {shown} at the least",
            f"{name}: {shown} or more",
        )


def _nodes(pod: Pod, offer: Group) -> int:
    """Nodes that a pod's equals need: as many on one as devices, CPU and memory allow."""
    cpu, memory = offer.allocatable()
    have = {GPU: offer.gpus, EFA: offer.efa_interfaces, "cpu": cpu, "memory": memory * 2**20}
    rooms = [
        have[name] // asked for name in have if (asked := pod.requests.get(name, 0)) and asked > 0
    ]
    return math.ceil(pod.count / max(min(rooms, default=1), 1))


def _cost(count: int, offer: Group) -> tuple[float, float]:
    assert offer.shape is not None
    return count * offer.gpus, count * offer.shape["vcpu"]


def _kept(pod: Pod, manifests: list[Json]) -> bool:
    """Karpenter leaves the pod's node alone: by the annotation, or by a budget that lets none go."""
    if str(pod.annotations.get(facts()["doNotDisrupt"])).lower() == "true":
        return True
    for manifest in manifests:
        if manifest.get("kind") != "PodDisruptionBudget":
            continue
        spec = manifest.get("spec") or {}
        labels = (spec.get("selector") or {}).get("matchLabels") or {}
        least = spec.get("minAvailable")
        if labels and all(pod.labels.get(key) == value for key, value in labels.items()):
            return isinstance(least, int) and least >= pod.count
    return False
