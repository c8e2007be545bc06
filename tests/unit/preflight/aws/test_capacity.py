"""Capacity reservations and blocks that node groups name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from raypd.preflight.aws.capacity import reservations
from unit.preflight.simulated import (
    BLOCK,
    Simulated,
    codes,
    config,
    only,
    outcomes,
    seen,
    simulated,
    site,
    unseen,
)


@pytest.fixture
def ohio(alone: None) -> Iterator[Simulated]:
    with simulated("us-east-2") as account:
        yield account


def p5(identity: str = BLOCK) -> dict[str, Any]:
    written = config("p5")
    target = {"capacityReservationTarget": {"capacityReservationID": identity}}
    written["managedNodeGroups"][1]["capacityReservation"] = target
    return written


def test_a_block_that_suits(ohio: Simulated) -> None:
    ohio.reserve()
    found = outcomes(reservations, site(ohio, config=p5()))
    assert codes(found) == []
    assert f"{BLOCK} active: 2 of 2 p5.48xlarge free, until 2026-03-08 11:30 UTC" in seen(found)


def test_a_block_that_is_not_there(ohio: Simulated) -> None:
    ohio.reserve(CapacityReservationId="cr-99999999999999999")
    finding = only(outcomes(reservations, site(ohio, config=p5())), "RPD805")
    assert "cr-99999999999999999" in finding.remedy


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"InstanceType": "p5en.48xlarge"}, "is for p5en.48xlarge"),
        ({"AvailabilityZone": "us-east-2c"}, "lies in us-east-2c"),
        ({"State": "expired"}, "is expired"),
        ({"State": "payment-failed"}, "is payment-failed"),
    ],
)
def test_a_block_for_something_else(ohio: Simulated, changes: dict[str, str], says: str) -> None:
    ohio.reserve(**changes)
    assert says in only(outcomes(reservations, site(ohio, config=p5())), "RPD806").message


def test_a_block_that_is_too_small(ohio: Simulated) -> None:
    ohio.reserve(TotalInstanceCount=1, AvailableInstanceCount=1)
    finding = only(outcomes(reservations, site(ohio, config=p5())), "RPD807")
    assert "1 of them free, and 2 nodes" in finding.message


def test_a_block_that_is_used_by_its_own_nodes(ohio: Simulated) -> None:
    ohio.reserve(AvailableInstanceCount=0)
    nodes = [
        {"InstanceId": f"i-{n}", "InstanceType": "p5.48xlarge", "CapacityReservationId": BLOCK}
        for n in (1, 2)
    ]
    for node in nodes:
        node["Tags"] = [{"Key": "eks:cluster-name", "Value": "ray-pd-p5"}]  # type: ignore[assignment]
    ohio.answers["ec2.DescribeInstances"] = lambda _: {"Reservations": [{"Instances": nodes}]}
    assert codes(outcomes(reservations, site(ohio, config=p5()))) == []


def test_a_block_that_has_yet_to_begin(ohio: Simulated) -> None:
    ohio.reserve(State="scheduled", AvailableInstanceCount=0)
    finding = only(outcomes(reservations, site(ohio, config=p5())), "RPD808")
    assert "begins at 2026-03-01 11:30 UTC" in finding.message


def test_the_placeholder_is_not_checked(ohio: Simulated) -> None:
    found = outcomes(reservations, site(ohio, config=config("p5")))
    assert codes(found) == []
    assert "placeholder" in unseen(found)


def test_groups_without_a_reservation(aws: Simulated) -> None:
    assert seen(outcomes(reservations, site(aws))) == "none named"
