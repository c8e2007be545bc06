"""File systems that the render or the cluster's volumes name: EFS and FSx."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from raypd.data import load
from raypd.lint.subject import error, mapping, warning
from raypd.preflight.aws.account import Account, Json, Refused
from raypd.preflight.aws.network import zones_of
from raypd.preflight.outcome import Idle, NotChecked, Outcome, Seen
from raypd.preflight.site import Site

_DRIVERS = {"efs.csi.aws.com": "efs", "fsx.csi.aws.com": "fsx"}
_ID = re.compile(r"fs-[0-9a-f]{8,17}")


def file_systems(site: Site) -> Iterator[Outcome]:
    """Each file system that volumes are made of is there, and the nodes reach it."""
    named, unseen = _named(site)
    yield from unseen
    if not named and not unseen:
        yield Idle("none named")
    for identity, service in sorted(named.items()):
        path = f"file system {identity}"
        try:
            yield from _efs(site, identity) if service == "efs" else _fsx(site, identity)
        except Refused as refusal:
            if "NotFound" not in refusal.code:
                raise
            yield error(
                "RPD830",
                path,
                f"There is no file system {identity} in {site.account.region}, and volumes are to be "
                "made of it: pods stay in ContainerCreating.",
                "The id of one that is there, in the StorageClass or PersistentVolume.",
            )


def _named(site: Site) -> tuple[dict[str, str], list[NotChecked]]:
    """Service ("efs", "fsx") by file system id, from the render and from the cluster's objects."""
    sources = [m for m in site.rendered.manifests if m.get("kind") in _KINDS]
    unseen: list[NotChecked] = []
    if site.block("cache").get("type") == "persistentVolumeClaim":
        try:
            sources += site.kube.volume_sources(_claim(site))
        except NotChecked as reason:
            unseen.append(NotChecked(f"those of the cluster's volumes: {reason}"))
    found: dict[str, str] = {}
    for source in sources:
        csi = mapping(mapping(source.get("spec")).get("csi"))
        driver = str(csi.get("driver") or source.get("provisioner") or "")
        parameters = mapping(source.get("parameters"))
        handle = str(csi.get("volumeHandle") or parameters.get("fileSystemId") or "")
        match = _ID.match(handle)
        if driver in _DRIVERS and match:
            found[match[0]] = _DRIVERS[driver]
    return found, unseen


_KINDS = ("PersistentVolume", "StorageClass")


def _claim(site: Site) -> Json:
    """What the values say of the claim: existingClaim, storageClassName."""
    return site.block("cache", "persistentVolumeClaim")


def _efs(site: Site, identity: str) -> Iterator[Outcome]:
    account = site.account
    (found,) = account.ask("efs", "describe_file_systems", FileSystemId=identity)["FileSystems"]
    if found["LifeCycleState"] != "available":
        yield _not_available(identity, found["LifeCycleState"])
        return
    targets = account.ask("efs", "describe_mount_targets", FileSystemId=identity)["MountTargets"]
    by_zone = {t["AvailabilityZoneName"]: t for t in targets if t["LifeCycleState"] == "available"}
    for zone in _engine_zones(site):
        if zone not in by_zone:
            there = ", ".join(sorted(by_zone)) or "no zone"
            yield error(
                "RPD832",
                f"file system {identity}",
                f"{identity} has mount targets in {there} and none in {zone}, where the engines run: "
                "its name does not resolve there, and pods stay in ContainerCreating.",
                f"aws efs create-mount-target --region {account.region} --file-system-id {identity} "
                f"--subnet-id (one in {zone}) --security-groups (one that admits port 2049)",
            )
            continue
        target = by_zone[zone]
        answer = account.ask(
            "efs",
            "describe_mount_target_security_groups",
            MountTargetId=target["MountTargetId"],
        )
        yield from _reached(site, identity, "efs", answer["SecurityGroups"])
    yield Seen(f"EFS {identity} with mount targets in {', '.join(sorted(by_zone)) or 'no zone'}")


def _fsx(site: Site, identity: str) -> Iterator[Outcome]:
    account = site.account
    (found,) = account.ask("fsx", "describe_file_systems", FileSystemIds=[identity])["FileSystems"]
    if found["Lifecycle"] not in ("AVAILABLE", "UPDATING"):
        yield _not_available(identity, found["Lifecycle"])
        return
    subnets = account.ask("ec2", "describe_subnets", SubnetIds=sorted(found["SubnetIds"]))
    zones = sorted({subnet["AvailabilityZone"] for subnet in subnets["Subnets"]})
    other = [zone for zone in _engine_zones(site) if zone not in zones]
    if other:
        yield warning(
            "RPD834",
            f"file system {identity}",
            f"{identity} lies in {', '.join(zones)} and the engines in {', '.join(other)}: each byte "
            "between zones is paid for, and comes slower.",
            f"`placement.zone: {zones[0]}`, or a file system in {other[0]}.",
        )
    interfaces = account.ask(
        "ec2",
        "describe_network_interfaces",
        NetworkInterfaceIds=sorted(found.get("NetworkInterfaceIds") or []),
    )["NetworkInterfaces"]
    groups = {group["GroupId"] for interface in interfaces for group in interface["Groups"]}
    if groups:
        yield from _reached(site, identity, "fsx", sorted(groups))
    yield Seen(f"FSx {identity} in {', '.join(zones)}")


def _engine_zones(site: Site) -> list[str]:
    return sorted({z for nodes in site.nodes if nodes.gpus for z in zones_of(site, nodes)})


def _not_available(identity: str, state: str) -> Outcome:
    return error(
        "RPD831",
        f"file system {identity}",
        f"{identity} is {state.lower()}, and volumes of it cannot be mounted.",
        "Wait until it is available, or take another one.",
    )


def _reached(site: Site, identity: str, service: str, groups: list[str]) -> Iterator[Outcome]:
    """The file system's security groups admit the nodes, by a group of theirs or by addresses."""
    try:
        cluster = site.account.cluster(site.cluster_name)
    except NotChecked as reason:
        yield NotChecked(f"whether the nodes reach {identity}: {reason}")
        return
    own = {cluster["resourcesVpcConfig"].get("clusterSecurityGroupId")}
    for instance in site.account.instances_of(site.cluster_name):
        own |= {group["GroupId"] for group in instance["SecurityGroups"]}
    first, last = load("preflight.yaml")["fileSystemPorts"][service]
    rules = [
        rule
        for group in _groups(site.account, groups)
        for rule in group["IpPermissions"]
        if _covers(rule, first, last)
    ]
    by_group = any(
        pair.get("GroupId") in own for rule in rules for pair in rule.get("UserIdGroupPairs") or []
    )
    # Which addresses nodes will have is not known; any range may be the right one.
    if not by_group and not any(rule.get("IpRanges") for rule in rules):
        ports = str(first) if first == last else f"{first} to {last}"
        yield error(
            "RPD833",
            f"security group {', '.join(groups)}",
            f"The security groups of {identity} admit the nodes' groups not on TCP port {ports}: "
            "mounts hang, and pods stay in ContainerCreating.",
            f"aws ec2 authorize-security-group-ingress --region {site.account.region} --group-id "
            f"{groups[0]} --protocol tcp --port {first}-{last} --source-group "
            f"{next(iter(sorted(filter(None, own))), 'sg-OF-THE-NODES')}",
        )


def _groups(account: Account, ids: list[str]) -> list[Json]:
    return account.ask("ec2", "describe_security_groups", GroupIds=sorted(ids))["SecurityGroups"]


def _covers(rule: dict[str, Any], first: int, last: int) -> bool:
    if rule["IpProtocol"] == "-1":
        return True
    return (
        rule["IpProtocol"] in ("tcp", "6") and rule["FromPort"] <= first and rule["ToPort"] >= last
    )


CHECKS = [("EFS and FSx file systems", file_systems)]
