"""What is wrong with the cluster and its groups whatever runs on them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from raypd.lint.eksctl.cluster import (
    AL2023,
    Cluster,
    Group,
    Json,
    Taint,
    facts,
    listed,
    local_storage,
    node_config,
)
from raypd.lint.subject import EFA, GPU
from raypd.report import Finding


def kubernetes_version(cluster: Cluster) -> Iterator[Finding]:
    known = facts()["kubernetesVersions"]
    version = cluster.raw["metadata"].get("version")
    if version in known:
        return
    if isinstance(version, int | float):
        message = f"{version} is a number, and eksctl refuses it (1.30 would become 1.3)"
    elif version is None:
        message = "without a version the cluster gets what this eksctl takes for the default"
    else:
        message = f"{version} lies outside what the chart is made for"
    yield Finding(
        code="RPD402",
        severity="error",
        path="metadata.version",
        message=message,
        remedy=f'one of {", ".join(known)}, in quotes, such as "1.35"',
    )


def zones(cluster: Cluster) -> Iterator[Finding]:
    own = cluster.raw.get("availabilityZones") or []
    if len(own) == 1:
        yield Finding(
            code="RPD404",
            severity="error",
            path="availabilityZones",
            message="EKS wants subnets of its control plane in two zones, and only one is named",
            remedy=f"[{own[0]}, a second zone of {cluster.region}]; the GPU group keeps its one zone",
        )
    named = [("availabilityZones", zone, True) for zone in own]
    for group in cluster.groups:
        zones = group.raw.get("availabilityZones") or []
        named += [
            (f"{group.path}.availabilityZones", zone, not own or zone in own) for zone in zones
        ]
    for path, zone, in_cluster in named:
        if not re.fullmatch(re.escape(cluster.region) + r"(-[a-z]+-\d+)?[a-z]", str(zone)):
            message = f"{zone} is not a zone of metadata.region {cluster.region}"
            remedy = f"a zone such as {cluster.region}a, or the region that {zone} belongs to"
        elif not in_cluster:
            message = f"{zone} is not among the cluster's availabilityZones {listed(own)}"
            remedy = f"one of those, or add {zone} to the top-level availabilityZones"
        else:
            continue
        yield Finding(code="RPD403", severity="error", path=path, message=message, remedy=remedy)


def group_alone(group: Group) -> Iterator[Finding]:
    if group.shape is None:
        yield group.finding(
            "RPD405",
            "instanceType",
            f"{listed(group.types) or 'the type chosen by eksctl'} is not in the chart's table of "
            "instance types, so devices, CPU, memory and disk of this group were not checked",
            "a type of files/instances.yaml of the chart, or look at its figures yourself",
            "warning",
        )
    if group.efa:
        yield from _efa_group(group)
    if group.gpus and group.family not in facts()["nvidiaImageFamilies"]:
        yield group.finding(
            "RPD443",
            "amiFamily",
            f"the {group.family} image has no NVIDIA driver, so its nodes never offer {GPU}",
            f"amiFamily: {AL2023}",
        )
    if len(group.types) > 1 and group.gpus:
        yield group.finding(
            "RPD424",
            "instanceTypes",
            f"the group may bring any of {listed(group.types)}, and the values are made for one",
            f"instanceType: {group.types[0]}",
        )
    yield from _bootstrap(group)
    yield from _capacity_block(group)


def _efa_group(group: Group) -> Iterator[Finding]:
    zones = group.raw.get("availabilityZones") or []
    places = zones or group.raw.get("subnets") or []
    key = "subnets" if group.raw.get("subnets") else "availabilityZones"
    if len(places) > 1:
        yield group.finding(
            "RPD410",
            key,
            f"EFA does not leave a zone, and the group spans {listed(places)}; eksctl refuses it",
            f"{key}: [{next(iter(places))}]",
        )
    elif not places:
        yield group.finding(
            "RPD410",
            "availabilityZones",
            "EFA needs all nodes in one zone; none is named, so eksctl takes any one, and a second "
            "group may get another",
            f"availabilityZones: [{group.zones[0] if group.zones else 'one zone'}]",
        )
    if group.shape and not group.shape["efa"]["interfaces"]:
        yield group.finding(
            "RPD411",
            "efaEnabled",
            f"{group.types[0]} has no EFA, and eksctl refuses the group",
            "efaEnabled: false with `transport.fabric: tcp` in the values, or a type that has EFA "
            "(g6.8xlarge and larger)",
        )
    elif group.efa_interfaces > 1 and not group.raw.get("privateNetworking"):
        yield group.finding(
            "RPD412",
            "privateNetworking",
            f"{group.types[0]} starts with {group.efa_interfaces} network interfaces, and EC2 gives "
            "such an instance no public address; in a public subnet it has no way out and never "
            "joins the cluster",
            "privateNetworking: true",
        )
    plugin = facts()["efaPlugin"]
    for i, taint in enumerate(group.taints):
        if taint.blocks and not _plugin_tolerates(plugin, taint):
            yield group.finding(
                "RPD440",
                f"taints[{i}]",
                f"eksctl's EFA device plugin does not tolerate {taint}: it never runs here, and the "
                f"nodes never offer {EFA}",
                "{key: aws.amazon.com/efa, value: 'true', effect: NoSchedule}, or no taint",
            )
    if group.efa_interfaces and group.types[0] not in plugin["instanceTypes"]:
        yield group.finding(
            "RPD442",
            "instanceType",
            f"eksctl's EFA device plugin is bound to a list of types that lacks {group.types[0]}, "
            f"so the nodes do not offer {EFA} by themselves",
            "install AWS's Helm chart aws-efa-k8s-device-plugin after the cluster is made",
            "warning",
        )


def _bootstrap(group: Group) -> Iterator[Finding]:
    text = group.raw.get("overrideBootstrapCommand")
    if text is None or group.family != AL2023:
        return
    written = node_config(group)
    if written is None:
        yield group.finding(
            "RPD433",
            "overrideBootstrapCommand",
            f"for {AL2023} eksctl reads this as one nodeadm NodeConfig, and it is not one; shell "
            "commands and MIME parts are refused or lost",
            "one YAML document with `apiVersion: node.eks.aws/v1alpha1` and `kind: NodeConfig`; "
            "shell commands go to preBootstrapCommands",
        )
        return
    strategy = local_storage(written).get("strategy")
    if strategy and group.shape and not group.shape["nvmeGB"]:
        yield group.finding(
            "RPD433",
            "overrideBootstrapCommand",
            f"localStorage.strategy is {strategy}, and {group.types[0]} has no NVMe disks",
            "leave localStorage out, or take a type with instance storage",
        )


def _capacity_block(group: Group) -> Iterator[Finding]:
    target = group.reservation
    wanted = group.market.get("marketType") == "capacity-block"
    reservation = target.get("capacityReservationID")
    if wanted and not reservation and not target.get("capacityReservationResourceGroupARN"):
        yield group.finding(
            "RPD450",
            "capacityReservation",
            "the group is to run in a capacity block, and no reservation is named; it never gets "
            "a node",
            "capacityReservation.capacityReservationTarget.capacityReservationID: the id that "
            "`aws ec2 purchase-capacity-block` printed",
        )
    elif reservation is not None and (
        reservation == facts()["placeholderReservation"]
        or not re.fullmatch(r"cr-([0-9a-f]{8}|[0-9a-f]{17})", str(reservation))
    ):
        yield group.finding(
            "RPD451",
            "capacityReservation.capacityReservationTarget.capacityReservationID",
            f"{reservation} stands for a reservation that you have yet to buy",
            "the id that `aws ec2 describe-capacity-reservations` shows, and its zone in "
            "availabilityZones",
            "warning",
        )
    if wanted and group.raw.get("spot"):
        yield group.finding(
            "RPD450", "spot", "a capacity block is not spot capacity", "leave `spot` out"
        )
    if wanted and len(group.zones) != 1 and not group.raw.get("subnets"):
        yield group.finding(
            "RPD450",
            "availabilityZones",
            "a capacity block lies in one zone, and nodes elsewhere never start",
            "the block's zone alone",
        )


def nvidia_plugin(cluster: Cluster) -> Iterator[Finding]:
    """Taints that keep eksctl's NVIDIA plugin off: it takes one value a key over all groups."""
    plugin = facts()["nvidiaPlugin"]
    followed: dict[str, Taint] = {}
    fixed = {taint["key"] for taint in plugin["toleratedTaints"]}
    gpu_groups = [g for g in cluster.groups if g.gpus and g.family == AL2023]
    for group in gpu_groups:
        for i, taint in enumerate(group.taints):
            first = followed.setdefault(taint.key, taint)
            if not taint.blocks or _plugin_tolerates(plugin, taint):
                continue
            if taint.key in fixed:
                reason = f"it tolerates {taint.key} with effect NoSchedule alone"
            elif first.value != taint.value:
                reason = f"it follows one value for each key and already took {first}"
            else:
                continue
            yield group.finding(
                "RPD441",
                f"taints[{i}]",
                f"eksctl's NVIDIA device plugin does not tolerate {taint}: {reason}; the nodes "
                f"never offer {GPU}",
                "the same taint on all GPU groups, with effect NoSchedule",
            )


def _plugin_tolerates(plugin: Json, taint: Taint) -> bool:
    return any(
        known["key"] == taint.key and known.get("effect", taint.effect) == taint.effect
        for known in plugin["toleratedTaints"]
    )
