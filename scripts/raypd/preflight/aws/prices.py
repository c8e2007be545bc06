"""What the nodes cost by the hour, at today's prices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from raypd.lint.subject import warning
from raypd.preflight.outcome import Outcome, Seen
from raypd.preflight.site import Nodes, Site


def prices(site: Site) -> Iterator[Outcome]:
    """Each node's price, and all of them together."""
    total, complete = Decimal(0), True
    for nodes in site.known_nodes:
        if nodes.market == "capacity-block":
            yield Seen(f"{nodes}: the block is paid when it is bought")
            complete = False
            continue
        price = _spot(site, nodes) if nodes.market == "spot" else _on_demand(site, nodes.type)
        if price is None:
            complete = False
            yield warning(
                "RPD809",
                nodes.path,
                f"{site.account.region} has no {nodes.market} price for {nodes.type}, so it is not "
                "sold that way.",
                "A capacity block (docs/eks.md#capacity-blocks), another region, or another type.",
            )
            continue
        total += price * nodes.count
        yield Seen(f"{nodes} {nodes.market} at {price:.4f}")
    least = "" if complete else "at least "
    if total:
        yield Seen(f"{least}{total:.2f} USD an hour for the nodes, without disks and traffic")


def _on_demand(site: Site, kind: str) -> Decimal | None:
    """US dollars an hour for Linux; None when it is not sold on demand."""
    wanted = {
        "instanceType": kind,
        "regionCode": site.account.region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    answer = site.account.ask(
        "pricing",
        "get_products",
        ServiceCode="AmazonEC2",
        Filters=[{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in wanted.items()],
    )
    found = [
        Decimal(dimension["pricePerUnit"]["USD"])
        for product in map(json.loads, answer["PriceList"])
        for term in product["terms"].get("OnDemand", {}).values()
        for dimension in term["priceDimensions"].values()
    ]
    return max((price for price in found if price), default=None)


def _spot(site: Site, nodes: Nodes) -> Decimal | None:
    """US dollars an hour, the latest in the dearest of the zones."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    answer = site.account.ask(
        "ec2",
        "describe_spot_price_history",
        InstanceTypes=[nodes.type],
        ProductDescriptions=["Linux/UNIX"],
        StartTime=(today - timedelta(days=1)).isoformat(),
    )
    latest: dict[str, tuple[datetime, Decimal]] = {}
    for entry in answer["SpotPriceHistory"]:
        zone = entry["AvailabilityZone"]
        if not nodes.zones or zone in nodes.zones:
            new = (entry["Timestamp"], Decimal(entry["SpotPrice"]))
            latest[zone] = max(latest.get(zone, new), new)
    return max((price for _, price in latest.values()), default=None)


CHECKS = [("prices by the hour", prices)]
