"""Zones and the instance types in them, by AWS's own table."""

from __future__ import annotations

from raypd.preflight.aws.offerings import types_offered, zones_there
from unit.preflight.simulated import Simulated, codes, config, only, outcomes, seen, site, unseen


def test_zones_that_are_there(aws: Simulated) -> None:
    found = outcomes(zones_there, site(aws))
    assert codes(found) == []
    assert seen(found) == "us-west-2a, us-west-2b"


def test_a_zone_that_is_not(aws: Simulated) -> None:
    written = config()
    written["availabilityZones"].append("us-west-2z")
    finding = only(outcomes(zones_there, site(aws, config=written)), "RPD804")
    assert finding.path == "zone us-west-2z"
    assert "us-west-2a" in finding.message


def test_types_where_their_nodes_are_to_be(aws: Simulated) -> None:
    found = outcomes(types_offered, site(aws))
    assert codes(found) == []
    assert "g6.8xlarge in us-west-2a" in seen(found)


def test_a_type_that_the_zone_lacks(aws: Simulated) -> None:
    written = config("g5-tcp")
    written["managedNodeGroups"][1]["availabilityZones"] = ["us-west-2d"]
    finding = only(outcomes(types_offered, site(aws, config=written)), "RPD802")
    assert finding.path == "managedNodeGroups[1]"
    assert "us-west-2d has no g5.4xlarge" in finding.message
    assert "us-west-2a, us-west-2b, us-west-2c" in finding.remedy


def test_a_type_that_the_region_lacks(aws: Simulated) -> None:
    written = config()
    written["managedNodeGroups"][1]["instanceType"] = "p6-b300.48xlarge"
    aws.answers["ec2.DescribeInstanceTypeOfferings"] = lambda _: {
        "InstanceTypeOfferings": [{"InstanceType": "m7i.xlarge", "Location": "us-west-2a"}]
    }
    finding = only(outcomes(types_offered, site(aws, config=written)), "RPD803")
    assert "p6-b300.48xlarge" in finding.message


def test_the_zone_of_a_subnet_counts(aws: Simulated) -> None:
    written = config("g5-tcp")
    del written["availabilityZones"]
    for group in written["managedNodeGroups"]:
        del group["availabilityZones"]
        group["subnets"] = [aws.subnets("us-west-2d")[0]]
    assert codes(outcomes(types_offered, site(aws, config=written))) == ["RPD802"]


def test_without_nodes_nothing_is_checked(aws: Simulated) -> None:
    assert "which nodes are wanted" in unseen(outcomes(types_offered, site(aws, nodes=[])))
