"""Subnets and security groups of the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from raypd.lint.subject import error, mapping, warning
from raypd.preflight.aws.account import Json, Refused, tags_of
from raypd.preflight.outcome import Idle, NotChecked, Outcome, Seen
from raypd.preflight.site import Nodes, Site

_ALL = "-1"  # every protocol and port


def zones_of(site: Site, nodes: Nodes) -> tuple[str, ...]:
    """The zones that the nodes are to be in: those named, else those of the subnets named; () for
    any."""
    if nodes.zones or not _named_subnets(site, nodes):
        return nodes.zones
    return tuple(sorted({subnet["AvailabilityZone"] for subnet in _subnets(site, nodes)}))


def free_addresses(site: Site) -> Iterator[Outcome]:
    """The subnets have addresses for the nodes that are yet to start, and for their pods."""
    kinds = site.account.types(kind for nodes in site.known_nodes for kind in nodes.types)
    running = site.account.instances_of(site.cluster_name)
    wanted: dict[str, tuple[int, int, list[str]]] = {}
    rooms: dict[str, list[Json]] = {}
    for nodes in site.nodes:
        try:
            subnets = _subnets(site, nodes)
        except Refused as refusal:
            yield error(
                "RPD811", nodes.path, str(refusal), "The ids of subnets that are in this region."
            )
            continue
        if not subnets:
            where = ", ".join(nodes.zones) or "any zone"
            yield error(
                "RPD811",
                nodes.path,
                f"The cluster {site.cluster_name} has no subnet in {where}, so no node starts there.",
                "A zone that the cluster has subnets in, or a subnet more there.",
            )
            continue
        there = sum(instance["InstanceType"] in nodes.types for instance in running)
        missing = max(0, nodes.count - there)
        network = kinds[nodes.type]["NetworkInfo"]
        # Each interface has an address of its own; the VPC CNI fills the first interface with
        # addresses for pods and keeps one more interface ready (its WARM_ENI_TARGET is 1).
        least = missing * max(nodes.efa_interfaces, 1)
        warm = missing * (nodes.efa_interfaces + 2 * network["Ipv4AddressesPerInterface"])
        key = ", ".join(sorted(subnet["SubnetId"] for subnet in subnets))
        before = wanted.get(key, (0, 0, []))
        wanted[key] = (before[0] + least, before[1] + warm, [*before[2], nodes.path])
        rooms[key] = subnets
    for key, (least, warm, paths) in wanted.items():
        free = sum(subnet["AvailableIpAddressCount"] for subnet in rooms[key])
        if free < least:
            yield error(
                "RPD810",
                paths[-1],
                f"The nodes that are to start take at least {least} addresses, and {key} have "
                f"{free} left.",
                "Larger subnets, or a second CIDR block in the VPC.",
            )
        elif free < warm:
            yield warning(
                "RPD812",
                paths[-1],
                f"With the addresses that the VPC CNI keeps ready for pods the nodes take up to "
                f"{warm}, and {key} have {free} left; pods may stay in ContainerCreating.",
                "Larger subnets, or WARM_ENI_TARGET=0 with WARM_IP_TARGET set on the DaemonSet "
                "aws-node.",
            )
        else:
            yield Seen(f"{key}: {free} free, up to {warm} needed")


def _named_subnets(site: Site, nodes: Nodes) -> list[str]:
    """Ids that the eksctl config names for the group, else for the whole cluster in its zones."""
    both = mapping((site.config or {}).get("vpc")).get("subnets")
    private, public = (mapping(mapping(both).get(kind)) for kind in ("private", "public"))
    known = {
        str(key): str(subnet["id"])
        for subnets in (public, private)
        for key, subnet in subnets.items()
        if mapping(subnet).get("id")
    }
    own = [str(subnet) for subnet in nodes.raw.get("subnets") or []]
    if own:
        return [known.get(subnet, subnet) for subnet in own]
    chosen = private if nodes.raw.get("privateNetworking") else public
    return [
        str(subnet["id"])
        for key, subnet in chosen.items()
        if mapping(subnet).get("id")
        and (not nodes.zones or {key, subnet.get("az")} & set(nodes.zones))
    ]


def _subnets(site: Site, nodes: Nodes) -> list[Json]:
    """The subnets that the nodes start in. Raises NotChecked while they are not made yet, and Refused
    when ids are given and not there."""
    named = _named_subnets(site, nodes)
    if named:
        return site.account.ask("ec2", "describe_subnets", SubnetIds=sorted(named))["Subnets"]
    network = site.account.cluster(site.cluster_name)["resourcesVpcConfig"]
    found = site.account.ask("ec2", "describe_subnets", SubnetIds=sorted(network["subnetIds"]))
    inside = [
        s for s in found["Subnets"] if not nodes.zones or s["AvailabilityZone"] in nodes.zones
    ]
    private = [subnet for subnet in inside if not subnet["MapPublicIpOnLaunch"]]
    return private or inside


def efa_self_rules(site: Site) -> Iterator[Outcome]:
    """EFA traffic passes only where a group of all nodes lets its own members in and out; an address
    range (0.0.0.0/0) does not count for it."""
    if not any(nodes.efa for nodes in site.nodes):
        yield Idle("no EFA is asked for")
        return
    members = _groups_of_nodes(site, efa=True)
    common = set.intersection(*map(set, members.values()))
    if not common:
        yield error(
            "RPD815",
            "security groups",
            "The GPU nodes have no security group in common: "
            + "; ".join(f"{name} has {', '.join(ids)}" for name, ids in sorted(members.items()))
            + ".",
            "One group on all of them that lets its own members in and out.",
        )
        return
    groups = _security_groups(site, common)
    names = ", ".join(sorted(common))
    for code, direction, key, verb in (
        ("RPD813", "inbound", "IpPermissions", "authorize-security-group-ingress"),
        ("RPD814", "outbound", "IpPermissionsEgress", "authorize-security-group-egress"),
    ):
        if not any(_admits_itself(group, key) for group in groups):
            first = sorted(common)[0]
            yield error(
                code,
                f"security group {names}",
                f"No {direction} rule for all traffic from the group to itself: EFA's packets are "
                "dropped, and engines time out on the first transfer.",
                f"aws ec2 {verb} --region {site.account.region} --group-id {first} "
                f"--ip-permissions IpProtocol=-1,UserIdGroupPairs=[{{GroupId={first}}}]",
            )
    yield Seen(f"{names} of {len(members)} nodes or of the cluster")


def one_tagged_group(site: Site) -> Iterator[Outcome]:
    """A node has one security group with the cluster's tag; AWS's controllers take no second."""
    members = _groups_of_nodes(site, efa=False)
    groups = _security_groups(site, {identity for ids in members.values() for identity in ids})
    tag = f"kubernetes.io/cluster/{site.cluster_name}"
    tagged = {group["GroupId"] for group in groups if tag in tags_of(group)}
    told: set[tuple[str, ...]] = set()
    for name, ids in sorted(members.items()):
        two = tuple(sorted(set(ids) & tagged))
        if len(two) > 1 and two not in told:
            told.add(two)
            yield warning(
                "RPD816",
                f"security groups of {name}",
                f"{', '.join(two)} carry the tag {tag}: AWS's controllers refuse a node with several "
                "such groups, so Services of type LoadBalancer and Ingresses get no address "
                "(Multiple tagged security groups found).",
                f"The tag on one of them alone: aws ec2 delete-tags --region {site.account.region} "
                f"--resources {two[-1]} --tags Key={tag}",
            )
    yield Seen(f"{len(members)} nodes")


def _groups_of_nodes(site: Site, efa: bool) -> dict[str, list[str]]:
    """Ids of security groups by node; those of the cluster while it has no node. `efa` leaves out
    nodes that need none."""
    cluster = site.account.cluster(site.cluster_name)
    kinds = {kind for nodes in site.nodes if nodes.efa for kind in nodes.types}
    members = {
        instance["InstanceId"]: [group["GroupId"] for group in instance["SecurityGroups"]]
        for instance in site.account.instances_of(site.cluster_name)
        if not efa or instance["InstanceType"] in kinds
    }
    if members:
        return members
    own = cluster["resourcesVpcConfig"].get("clusterSecurityGroupId")
    if not own:
        raise NotChecked(f"the cluster {site.cluster_name} has no nodes and no security group yet")
    return {f"cluster {site.cluster_name}": [own]}


def _security_groups(site: Site, ids: set[str]) -> list[Json]:
    answer = site.account.ask("ec2", "describe_security_groups", GroupIds=sorted(ids))
    return answer["SecurityGroups"]


def _admits_itself(group: Json, key: str) -> bool:
    return any(
        rule["IpProtocol"] == _ALL
        and group["GroupId"] in [pair.get("GroupId") for pair in rule.get("UserIdGroupPairs") or []]
        for rule in group[key]
    )


CHECKS: list[tuple[str, Callable[[Any], Iterator[Outcome]]]] = [
    ("free addresses in the subnets", free_addresses),
    ("security group rules for EFA, in both directions", efa_self_rules),
    ("one security group with the cluster's tag for each node", one_tagged_group),
]
