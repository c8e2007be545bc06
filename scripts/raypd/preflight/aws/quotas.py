"""Quotas of vCPUs, which EC2 keeps by region, family of types, and on-demand or spot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from raypd.lint.subject import error
from raypd.preflight.aws.account import Account, Json, Refused, market_of, quota_of
from raypd.preflight.outcome import NotChecked, Outcome, Seen
from raypd.preflight.site import Nodes, Site


@dataclass
class _Demand:
    """What counts against one quota, in vCPUs: `needed` by the nodes in all, `used` by everything
    that runs or is reserved, and of both what is `there` already."""

    name: str = ""
    needed: int = 0
    used: int = 0
    there: int = 0
    nodes: list[Nodes] = field(default_factory=list)

    @property
    def others(self) -> int:
        return self.used - self.there

    @property
    def missing(self) -> int:
        """What has to be started yet."""
        return max(0, self.needed - self.there)


def vcpu_quotas(site: Site) -> Iterator[Outcome]:
    """Needed, used and allowed for each quota that the nodes count against."""
    account = site.account
    demands: dict[str, _Demand] = defaultdict(_Demand)
    nodes_wanted = site.known_nodes
    vcpus = _vcpus(site)
    for nodes in nodes_wanted:
        if nodes.market == "capacity-block":
            yield Seen(f"{nodes} of a capacity block count against no quota of vCPUs")
            continue
        quota = quota_of(nodes.type, nodes.market)
        if quota is None:
            yield NotChecked(f"no {nodes.market} quota is known that {nodes.type} counts against")
            continue
        code, name = quota
        demand = demands[code]
        demand.name = name
        demand.needed += nodes.count * max(vcpus[kind] for kind in nodes.types)
        demand.nodes.append(nodes)
    _count_use(site, vcpus, demands)
    for code, demand in sorted(demands.items()):
        try:
            allowed = _allowed(account, code)
        except NotChecked as reason:
            yield NotChecked(f"{code}: {reason}")
            continue
        yield _verdict(account.region, code, demand, allowed)


def _vcpus(site: Site) -> dict[str, int]:
    """By instance type, of those wanted and those that run."""
    account = site.account
    kinds = {kind for nodes in site.nodes for kind in nodes.types}
    kinds |= {instance["InstanceType"] for instance in account.instances()}
    kinds |= {reservation["InstanceType"] for reservation in account.reservations()}
    return {name: kind["VCpuInfo"]["DefaultVCpus"] for name, kind in account.types(kinds).items()}


def _count_use(site: Site, vcpus: dict[str, int], demands: dict[str, _Demand]) -> None:
    """What runs, and what reservations hold free, which counts as if it ran."""
    account = site.account
    own = {instance["InstanceId"] for instance in account.instances_of(site.cluster_name)}
    for instance in account.instances():
        quota = quota_of(instance["InstanceType"], market_of(instance))
        on_host = (instance.get("Placement") or {}).get("Tenancy") == "host"
        if quota is None or on_host or quota[0] not in demands:
            continue  # dedicated hosts have quotas of their own
        demand = demands[quota[0]]
        demand.used += vcpus[instance["InstanceType"]]
        if instance["InstanceId"] in own:
            demand.there += vcpus[instance["InstanceType"]]
    wanted = {nodes.reservation for nodes in site.nodes}
    for reservation in account.reservations():
        quota = quota_of(reservation["InstanceType"], "on-demand")
        if (
            reservation["State"] != "active"
            or reservation.get("ReservationType") == "capacity-block"
            or quota is None
            or quota[0] not in demands
        ):
            continue
        held = reservation["AvailableInstanceCount"] * vcpus[reservation["InstanceType"]]
        demands[quota[0]].used += held
        if reservation["CapacityReservationId"] in wanted:
            demands[quota[0]].there += held


def _allowed(account: Account, code: str) -> int:
    wanted = {"ServiceCode": "ec2", "QuotaCode": code}
    try:
        answer: Json = account.ask("service-quotas", "get_service_quota", **wanted)
    except Refused as refusal:
        if refusal.code != "NoSuchResourceException":
            raise
        # A quota that was never changed may have no value of the account's own.
        answer = account.ask("service-quotas", "get_aws_default_service_quota", **wanted)
    return int(answer["Quota"]["Value"])


def _verdict(region: str, code: str, demand: _Demand, allowed: int) -> Outcome:
    nodes = " and ".join(map(str, demand.nodes))
    wanted = max(demand.needed, demand.there) + demand.others
    raise_it = (
        f"aws service-quotas request-service-quota-increase --region {region} --service-code ec2 "
        f"--quota-code {code} --desired-value {wanted}"
    )
    numbers = (
        f"needed {demand.needed}, in use {demand.used} ({demand.there} of them by this cluster), "
        f"allowed {allowed}"
    )
    if allowed < demand.needed:
        return error(
            "RPD800",
            f"quota {code}",
            f'{nodes} take {demand.needed} vCPUs of the quota "{demand.name}", and {region} allows '
            f"{allowed} ({numbers}): EC2 refuses to start them (VcpuLimitExceeded).",
            f"{raise_it}; minutes to days, as AWS looks at it.",
        )
    if allowed - demand.used < demand.missing:
        return error(
            "RPD801",
            f"quota {code}",
            f'{nodes} need {demand.missing} more vCPUs of the quota "{demand.name}", and of '
            f"{allowed} in {region} {max(0, allowed - demand.used)} are left ({numbers}).",
            f"End what uses them, or {raise_it}",
        )
    return Seen(f"{code} {numbers}")


CHECKS = [("vCPU quotas against what is needed and in use", vcpu_quotas)]
