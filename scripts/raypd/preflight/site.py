"""What is to run, and the places that it needs: everything that a check looks at."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raypd.lint.contract import contract_for
from raypd.lint.eksctl import cluster as eksctl
from raypd.lint.subject import EFA, GPU, Group, Subject, mapping, quantity
from raypd.preflight.outcome import NotChecked, Once
from raypd.render import Rendered

if TYPE_CHECKING:
    from raypd.preflight.aws.account import Account
    from raypd.preflight.image import Image
    from raypd.preflight.kubernetes.kube import Kube
    from raypd.preflight.web import Web

Json = dict[str, Any]

_TYPE = "node.kubernetes.io/instance-type"


@dataclass(frozen=True)
class Nodes:
    """`count` equal nodes that are wanted. `path` is the place that asks for them, in the eksctl config
    or in the values. `types` are the instance types that they may be of, the preferred one first.
    `zones` is empty when none is named. `market` is "on-demand", "spot" or "capacity-block". `raw` is
    eksctl's node group, {} when there is none.
    """

    path: str
    types: tuple[str, ...]
    count: int
    zones: tuple[str, ...] = ()
    market: str = "on-demand"
    efa: bool = False
    efa_interfaces: int = 0
    gpus: bool = False
    reservation: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def type(self) -> str:
        return self.types[0]

    def __str__(self) -> str:
        return f"{self.count} x {self.type}"


@dataclass(frozen=True)
class Site:
    """A render with its values, and the account, registry, hub and cluster that it is to meet.

    `config` is the eksctl config and `cluster_name` the EKS cluster's name where they are known.
    `instances` and `versions` are the chart's files of these names, `token` is $HF_TOKEN.
    """

    rendered: Rendered
    values: Json
    release: str
    namespace: str
    instances: Json
    versions: Json
    nodes: list[Nodes]
    account: Account
    kube: Kube
    web: Web
    image: Once[Image]
    config: Mapping[str, Any] | None = None
    cluster_name: str | None = None
    token: str | None = None

    @property
    def known_nodes(self) -> list[Nodes]:
        """The nodes. Raises NotChecked when neither config nor values tell of any."""
        if not self.nodes:
            raise NotChecked(
                "which nodes are wanted is not known: give --eksctl, or `instanceType` in the values"
            )
        return self.nodes

    def block(self, *path: str) -> Json:
        """A block of the values, {} where it is not there."""
        block: Any = self.values
        for key in path:
            block = mapping(block).get(key)
        return mapping(block)

    def value(self, *path: str) -> str:
        """A value as a string, "" where it is not there."""
        found = self.block(*path[:-1]).get(path[-1])
        return "" if found is None else str(found)


def nodes_of_config(config: Json, instances: Json) -> list[Nodes]:
    """The nodes that an eksctl config makes. The config has to be well-formed (lint's `malformed`)."""
    return [
        Nodes(
            path=group.path,
            types=group.types,
            count=group.nodes,
            zones=group.zones,
            market=_market(group),
            efa=group.efa,
            efa_interfaces=group.efa_interfaces,
            gpus=group.gpus > 0,
            reservation=group.reservation.get("capacityReservationID"),
            raw=group.raw,
        )
        for group in eksctl.Cluster.of(config, instances).groups
        if group.types
    ]


def _market(group: eksctl.Group) -> str:
    if group.market.get("marketType") == "capacity-block":
        return "capacity-block"
    mixed = group.raw.get("instancesDistribution") or {}
    all_spot = mixed.get("onDemandPercentageAboveBaseCapacity") == 0 and not mixed.get(
        "onDemandBaseCapacity"
    )
    return "spot" if group.raw.get("spot") or all_spot else "on-demand"


def nodes_of_values(values: Json, rendered: Rendered, instances: Json) -> list[Nodes]:
    """The fewest nodes that carry the render, by the instance types that the values name."""
    subject = Subject(rendered, contract_for(""))
    placement = mapping(values.get("placement"))
    zones = (str(placement["zone"]),) if placement.get("zone") else ()
    together: dict[str, list[Group]] = defaultdict(list)
    for group in subject.workers:
        kind = str(mapping(group.pod.get("nodeSelector")).get(_TYPE) or "")
        apart = placement.get("rolesApart", True)
        together[f"{kind} {group.name}" if apart else kind].append(group)
    found = []
    head = mapping(values.get("head")).get("instanceType")
    if head:
        found.append(Nodes("head.instanceType", (str(head),), 1, zones))
    for key, groups in together.items():
        kind = key.partition(" ")[0]
        if not kind:
            continue
        offered = mapping(mapping(instances.get(kind)).get("gpu")).get("count") or 1
        asked = sum(group.pods[0] * max(_asked(group, GPU), 1) for group in groups)
        efa = any(_asked(group, EFA) for group in groups)
        interfaces = mapping(mapping(instances.get(kind)).get("efa")).get("interfaces", 1)
        found.append(
            Nodes(
                path=f"{groups[0].name}.instanceType",
                types=(kind,),
                count=math.ceil(asked / offered),
                zones=zones,
                efa=efa,
                efa_interfaces=interfaces if efa else 0,
                gpus=True,
            )
        )
    return found


def _asked(group: Group, resource: str) -> float:
    """How much of a device one pod of the group asks for."""
    return sum(
        quantity(mapping(mapping(container.get("resources")).get("limits")).get(resource))
        for container in group.pod.get("containers") or []
    )
