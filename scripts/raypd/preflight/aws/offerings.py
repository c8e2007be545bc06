"""Where AWS has the instance types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from raypd.lint.subject import error
from raypd.preflight.aws.network import zones_of
from raypd.preflight.outcome import Outcome, Seen
from raypd.preflight.site import Site


def zones_there(site: Site) -> Iterator[Outcome]:
    """The zones that are named are there for this account."""
    answer = site.account.ask("ec2", "describe_availability_zones")
    there = sorted(
        zone["ZoneName"] for zone in answer["AvailabilityZones"] if zone["State"] == "available"
    )
    named = dict.fromkeys((site.config or {}).get("availabilityZones") or [])
    named |= dict.fromkeys(zone for nodes in site.nodes for zone in nodes.zones)
    for zone in named:
        if zone not in there:
            yield error(
                "RPD804",
                f"zone {zone}",
                f"{site.account.region} has no zone {zone} for this account; it has "
                f"{', '.join(there)}.",
                "One of these in `availabilityZones` of the eksctl config and of its groups, or in "
                "`placement.zone` of the values.",
            )
    yield Seen(", ".join(named) or "none named")


def types_offered(site: Site) -> Iterator[Outcome]:
    """Each instance type is offered in each zone that its nodes are to be in."""
    kinds = sorted({kind for nodes in site.known_nodes for kind in nodes.types})
    answer = site.account.ask(
        "ec2",
        "describe_instance_type_offerings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": kinds}],
    )
    offered: dict[str, set[str]] = defaultdict(set)
    for offering in answer["InstanceTypeOfferings"]:
        offered[offering["InstanceType"]].add(offering["Location"])
    for kind in kinds:
        yield Seen(f"{kind} in {', '.join(sorted(offered[kind])) or 'no zone'}")
    for nodes in site.nodes:
        for kind in nodes.types:
            if not offered[kind]:
                yield error(
                    "RPD803",
                    nodes.path,
                    f"{site.account.region} has no {kind} in any zone.",
                    "Another region (--region, or metadata.region of the eksctl config), or "
                    "another type.",
                )
                continue
            for zone in zones_of(site, nodes):
                if zone not in offered[kind]:
                    yield error(
                        "RPD802",
                        nodes.path,
                        f"{zone} has no {kind}: the nodes are never started (Unsupported).",
                        f"{', '.join(sorted(offered[kind]))} have it; the zone in all places.",
                    )


CHECKS = [
    ("availability zones", zones_there),
    ("instance types by zone", types_offered),
]
