"""Capacity reservations and capacity blocks that the nodes are to run in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

from raypd.lint.eksctl.cluster import facts
from raypd.lint.subject import error, warning
from raypd.preflight.aws.account import Json
from raypd.preflight.aws.network import zones_of
from raypd.preflight.outcome import Idle, NotChecked, Outcome, Seen
from raypd.preflight.site import Nodes, Site

_COMES = ("scheduled", "pending", "payment-pending", "assessing", "delayed")


def reservations(site: Site) -> Iterator[Outcome]:
    """Each reservation that is named is there, is for these nodes, and has room for them."""
    wanted: dict[str, list[Nodes]] = defaultdict(list)
    for nodes in site.nodes:
        if nodes.reservation == facts()["placeholderReservation"]:
            yield NotChecked(f"{nodes.path} names the placeholder {nodes.reservation} (RPD451)")
        elif nodes.reservation:
            wanted[nodes.reservation].append(nodes)
    known = {found["CapacityReservationId"]: found for found in site.account.reservations()}
    for identity, groups in wanted.items():
        path = f"{groups[0].path}.capacityReservation"
        if identity not in known:
            yield error(
                "RPD805",
                path,
                f"{site.account.region} has no capacity reservation {identity} for this account.",
                f"One of {', '.join(sorted(known)) or 'none, so one has to be bought'}: aws ec2 "
                f"describe-capacity-reservations --region {site.account.region}",
            )
            continue
        yield from _of(site, known[identity], groups, path)
    if not any(nodes.reservation for nodes in site.nodes):
        yield Idle("none named")


def _of(site: Site, found: Json, groups: list[Nodes], path: str) -> Iterator[Outcome]:
    identity, state = found["CapacityReservationId"], found["State"]
    count = sum(nodes.count for nodes in groups)
    until = f", until {_time(found['EndDate'])}" if found.get("EndDate") else ""
    for nodes in groups:
        zones = zones_of(site, nodes)
        if found["InstanceType"] not in nodes.types:
            unlike = f"is for {found['InstanceType']}, and the nodes are {nodes.type}"
        elif zones and found["AvailabilityZone"] not in zones:
            unlike = f"lies in {found['AvailabilityZone']}, and the nodes in {', '.join(zones)}"
        elif state != "active" and state not in _COMES:
            unlike = f"is {state}"
        else:
            continue
        yield error(
            "RPD806",
            path,
            f"The capacity reservation {identity} {unlike}: no node starts in it.",
            "A reservation of that type and zone that is active, or the group's type and zone as "
            "the reservation has them.",
        )
        return
    running = [
        instance
        for instance in site.account.instances_of(site.cluster_name)
        if instance.get("CapacityReservationId") == identity
    ]
    total, free = found["TotalInstanceCount"], found["AvailableInstanceCount"]
    if state in _COMES:
        begin = f"begins at {_time(found['StartDate'])}" if found.get("StartDate") else "is to come"
        yield warning(
            "RPD808",
            path,
            f"The capacity reservation {identity} is {state} and {begin}{until}: nodes asked for "
            "before that never come.",
            "`desiredCapacity: 0` until then, and `eksctl scale nodegroup` after it.",
        )
        free = total
    if free + len(running) < count:
        yield error(
            "RPD807",
            path,
            f"The capacity reservation {identity} has {total} instances, {free} of them free, and "
            f"{count} nodes are to run in it.",
            f"A larger reservation, or {free + len(running)} nodes.",
        )
    yield Seen(f"{identity} {state}: {free} of {total} {found['InstanceType']} free{until}")


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M %Z}"


CHECKS = [("capacity reservations and blocks", reservations)]
