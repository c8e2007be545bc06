"""Where nodes lie to each other: placement groups, and the one zone that EFA works in."""

from __future__ import annotations

from collections.abc import Iterator

from raypd.lint.subject import error, mapping
from raypd.preflight.aws.account import Refused
from raypd.preflight.outcome import Idle, NotChecked, Outcome, Seen
from raypd.preflight.site import Nodes, Site


def placement_groups(site: Site) -> Iterator[Outcome]:
    """Placement groups that are named are there and put nodes close together."""
    named = [(nodes, group) for nodes in site.nodes if (group := _placement_group(nodes))]
    if not named:
        yield Idle("none named; eksctl makes one for each EFA group outside capacity blocks")
    for nodes, name in named:
        path = f"{nodes.path}.placement.groupName"
        try:
            answer = site.account.ask("ec2", "describe_placement_groups", GroupNames=[name])
        except Refused as refusal:
            yield error(
                "RPD817",
                path,
                f"There is no placement group {name} in {site.account.region}: {refusal}",
                f"aws ec2 create-placement-group --region {site.account.region} --strategy cluster "
                f"--group-name {name}; or leave it out, as eksctl makes one for EFA groups.",
            )
            continue
        (group,) = answer["PlacementGroups"]
        if group["Strategy"] != "cluster" or group["State"] != "available":
            yield error(
                "RPD817",
                path,
                f"The placement group {name} is {group['State']} and has the strategy "
                f"{group['Strategy']}, which puts nodes apart.",
                "One with the strategy cluster, or none.",
            )
        else:
            yield Seen(f"{name} is a cluster group")


def _placement_group(nodes: Nodes) -> str:
    return str(mapping(nodes.raw.get("placement")).get("groupName") or "")


def efa_nodes_in_one_zone(site: Site) -> Iterator[Outcome]:
    """EFA nodes that run already are all in one zone, because EFA does not leave one."""
    if not site.cluster_name:
        raise NotChecked("no EKS cluster is named, so its nodes are not known (--eksctl)")
    kinds = {kind for nodes in site.nodes if nodes.efa for kind in nodes.types}
    zones: dict[str, int] = {}
    for instance in site.account.instances_of(site.cluster_name):
        if instance["InstanceType"] in kinds:
            zone = instance["Placement"]["AvailabilityZone"]
            zones[zone] = zones.get(zone, 0) + 1
    told = ", ".join(f"{count} in {zone}" for zone, count in sorted(zones.items()))
    if len(zones) > 1:
        yield error(
            "RPD818",
            f"cluster {site.cluster_name}",
            f"Nodes with EFA run in {len(zones)} zones ({told}), and EFA does not leave a zone: a "
            "prefill and a decode engine of two zones cannot exchange KV.",
            "One zone in `availabilityZones` of the group, or `placement.zone` in the values for "
            "those of one zone.",
        )
    yield Seen(told or "none runs")


CHECKS = [
    ("placement groups", placement_groups),
    ("EFA nodes in one zone", efa_nodes_in_one_zone),
]
