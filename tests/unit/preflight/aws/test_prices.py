"""Prices by the hour."""

from __future__ import annotations

from datetime import UTC, datetime

from raypd.preflight.aws.prices import prices
from unit.preflight.simulated import Simulated, codes, config, only, outcomes, seen, site


def test_all_nodes_together(aws: Simulated) -> None:
    found = outcomes(prices, site(aws))
    assert codes(found) == []
    assert "2 x g6.8xlarge on-demand at 2.0144" in seen(found)
    assert "; 4.23 USD an hour" in seen(found)


def test_a_type_that_is_not_sold_on_demand(aws: Simulated) -> None:
    del aws.prices["g6.8xlarge"]
    found = outcomes(prices, site(aws))
    assert only(found, "RPD809").path == "managedNodeGroups[1]"
    assert "at least 0.20 USD" in seen(found)


def test_a_price_of_nothing_is_none(aws: Simulated) -> None:
    aws.prices["m7i.xlarge"] = "0.0000000000"
    assert codes(outcomes(prices, site(aws))) == ["RPD809"]


def test_spot_takes_the_latest_price_of_the_dearest_zone(aws: Simulated) -> None:
    written = config()
    written["managedNodeGroups"][1] |= {"spot": True, "availabilityZones": []}

    def history(_: object) -> dict[str, object]:
        entries = [("a", 8, "0.90"), ("a", 9, "0.70"), ("b", 9, "0.80")]
        return {
            "SpotPriceHistory": [
                {
                    "AvailabilityZone": f"us-west-2{zone}",
                    "Timestamp": datetime(2026, 3, 1, hour, tzinfo=UTC),
                    "SpotPrice": price,
                }
                for zone, hour, price in entries
            ]
        }

    aws.answers["ec2.DescribeSpotPriceHistory"] = history
    assert "2 x g6.8xlarge spot at 0.8000" in seen(outcomes(prices, site(aws, config=written)))


def test_a_capacity_block_is_paid_ahead(aws: Simulated) -> None:
    said = seen(outcomes(prices, site(aws, config=config("p5"))))
    assert "the block is paid when it is bought" in said
    assert "at least 0.20 USD" in said
