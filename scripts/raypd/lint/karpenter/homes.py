"""Which NodePools a pod finds a node in, and what keeps it out of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from raypd.lint.eksctl.cluster import Group, listed
from raypd.lint.eksctl.placement import (
    TYPE_LABEL,
    ZONE_LABEL,
    devices_fit,
    labels_match,
    size_fits,
    type_matches,
    untolerated,
    wanted,
    zone_matches,
)
from raypd.lint.eksctl.pods import Pod, terms
from raypd.lint.karpenter.pools import Pool
from raypd.lint.subject import EFA, GPU
from raypd.report import Finding


@dataclass(frozen=True)
class Home:
    """A NodePool that takes a pod, with its nodes that are right for it, smallest first."""

    pool: Pool
    offers: list[Group]


def homes_of(pod: Pod, pools: list[Pool]) -> tuple[list[Home], Finding | None]:
    """The pools that take the pod; and the reason when none does."""
    left = [Home(pool, [_for(pod, pool, offer) for offer in pool.offers]) for pool in pools]
    for keeps, complaint in _STEPS:
        kept = [Home(h.pool, [o for o in h.offers if keeps(pod, o)]) for h in left]
        kept = [home for home in kept if home.offers]
        if not kept:
            return [], complaint(pod, left)
        left = kept
    return [Home(h.pool, sorted(h.offers, key=_size)) for h in left], None


def _size(offer: Group) -> tuple[int, int]:
    return (offer.shape["vcpu"], offer.gpus) if offer.shape else (0, 0)


def _for(pod: Pod, pool: Pool, offer: Group) -> Group:
    """The node as Karpenter would make it for this pod: with labels that the pool leaves open."""
    needed = {
        need["key"]: str(value)
        for term in terms(pod)
        for need in term
        for value in need.get("values") or []
        if need["key"] not in offer.labels and pool.allows(need["key"], str(value))
    }
    return replace(offer, labels={**needed, **offer.labels})


def _tolerates(pod: Pod, offer: Group) -> bool:
    return not untolerated(pod, offer)


def _has_devices(pod: Pod, offer: Group) -> bool:
    if offer.shape is None and not offer.types:
        return not pod.requests.get(GPU)  # the chart's table has every type with GPUs of the family
    return devices_fit(pod, offer)


def _where(homes: list[Home], key: str) -> str:
    pool = homes[0].pool
    return f"NodePool/{pool.name}.spec.template.{key}" if len(homes) == 1 else "NodePool"


def _names(homes: list[Home]) -> str:
    return listed(home.pool.name for home in homes)


def _types(homes: list[Home]) -> str:
    types = [one for home in homes for offer in home.offers for one in offer.types]
    return (
        listed(types[:6]) + (" and others" if len(types) > 6 else "")
        or "no type of the chart's table"
    )


def _finding(code: str, path: str, message: str, remedy: str, head: bool = False) -> Finding:
    severity = "warning" if head else "error"
    return Finding(code=code, severity=severity, path=path, message=message, remedy=remedy)


def _no_label(pod: Pod, homes: list[Home]) -> Finding:
    labels = wanted(pod, lambda key: key not in (TYPE_LABEL, ZONE_LABEL))
    if pod.head:
        return _finding(
            "RPD561",
            "NodePool",
            f"no NodePool gives its nodes {labels}, so the head needs a node that Karpenter does not "
            "make",
            "a node group for it (--eksctl checks that one as well), or the label on a NodePool",
            head=True,
        )
    return _finding(
        "RPD561",
        _where(homes, "metadata.labels"),
        f"{pod.what} must run on a node with {labels}, and no NodePool gives its nodes that label",
        f"labels: {{{labels.replace('=', ': ')}}} on the NodePool that is meant for {pod.name}",
    )


def _no_type(pod: Pod, homes: list[Home]) -> Finding:
    kind = wanted(pod, lambda key: key == TYPE_LABEL).partition("=")[2]
    return _finding(
        "RPD562",
        _where(homes, "spec.requirements"),
        f"{pod.what} must run on {kind} (`{pod.name}.instanceType` of the values), and {_names(homes)} "
        f"allows {_types(homes)}",
        f"{kind} in the requirements, or another `{pod.name}.instanceType`",
    )


def _no_zone(pod: Pod, homes: list[Home]) -> Finding:
    zone = wanted(pod, lambda key: key == ZONE_LABEL).partition("=")[2]
    zones = listed(one for home in homes for offer in home.offers for one in offer.zones)
    return _finding(
        "RPD563",
        _where(homes, "spec.requirements"),
        f"{pod.what} must run in {zone} (`placement.zone` of the values), and {_names(homes)} makes "
        f"nodes in {zones}",
        f"{zone} in the requirements, or `placement.zone: {zones}`",
    )


def _no_toleration(pod: Pod, homes: list[Home]) -> Finding:
    taint = untolerated(pod, homes[0].offers[0])[0]
    return _finding(
        "RPD564",
        _where(homes, "spec.taints"),
        f"{pod.what} would run on nodes of {_names(homes)} but for the taint {taint}",
        f"drop the taint, or add {{key: {taint.key}, operator: Exists, effect: {taint.effect}}} to "
        f"`{pod.name}.tolerations` of the values",
    )


def _no_devices(pod: Pod, homes: list[Home]) -> Finding:
    gpus, efas = int(pod.requests.get(GPU, 0)), int(pod.requests.get(EFA, 0))
    asked = [f"{gpus} GPUs"] * bool(gpus) + [f"{efas} EFA interfaces"] * bool(efas)
    return _finding(
        "RPD562",
        _where(homes, "spec.requirements"),
        f"one {pod.name} pod takes {' and '.join(asked)}, and {_names(homes)} allows {_types(homes)}: "
        "none of them has as many",
        "a type that has them"
        + (", `networkInterfaces` of the EC2NodeClass with efa-only ones," if efas else "")
        + " or a smaller demand"
        + (" (`transport.efa.interfacesPerPod`, `transport.fabric: tcp`)" if efas else ""),
    )


def _no_room(pod: Pod, homes: list[Home]) -> Finding:
    offers = [offer for home in homes for offer in home.offers if offer.shape]
    cpu, memory = max(offer.allocatable() for offer in offers)
    return _finding(
        "RPD562",
        _where(homes, "spec.requirements"),
        f"one {pod.name} pod asks for {pod.requests.get('cpu', 0):g} CPUs and "
        f"{pod.requests.get('memory', 0) / 2**30:.1f} GiB, and the largest node of {_names(homes)} "
        f"({_types(homes)}) has some {cpu:.1f} CPUs and {memory / 1024:.1f} GiB left",
        f"a larger type, or `{pod.name}.resources` below that",
    )


_STEPS: list[tuple[Callable[[Pod, Group], bool], Callable[[Pod, list[Home]], Finding]]] = [
    (labels_match, _no_label),
    (type_matches, _no_type),
    (zone_matches, _no_zone),
    (_tolerates, _no_toleration),
    (_has_devices, _no_devices),
    (size_fits, _no_room),
]
