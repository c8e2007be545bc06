"""Free addresses, and security groups in both directions."""

from __future__ import annotations

import pytest

from raypd.preflight.aws.network import efa_self_rules, free_addresses, one_tagged_group
from unit.preflight.simulated import (
    CLUSTER,
    Simulated,
    codes,
    config,
    only,
    outcomes,
    seen,
    site,
    unseen,
)


def free(aws: Simulated, **by_zone: int) -> None:
    """Subnets of the cluster with so many free addresses, by the letter of their zone."""
    subnets = [
        {
            "SubnetId": f"subnet-{letter}",
            "AvailabilityZone": f"us-west-2{letter}",
            "AvailableIpAddressCount": count,
            "MapPublicIpOnLaunch": False,
        }
        for letter, count in by_zone.items()
    ]
    aws.eks(subnets=[str(subnet["SubnetId"]) for subnet in subnets])
    aws.answers["ec2.DescribeSubnets"] = lambda _: {"Subnets": subnets}


def test_room_for_the_nodes_and_their_pods(aws: Simulated) -> None:
    free(aws, a=400, b=3)
    found = outcomes(free_addresses, site(aws))
    assert codes(found) == []
    # 2 x (1 EFA + 2 interfaces of 30) and 1 x 2 interfaces of 15
    assert seen(found) == "subnet-a: 400 free, up to 152 needed"


def test_no_room_for_the_nodes(aws: Simulated) -> None:
    free(aws, a=2)
    finding = only(outcomes(free_addresses, site(aws)), "RPD810")
    assert "at least 3 addresses, and subnet-a have 2 left" in finding.message


def test_little_room_for_pods(aws: Simulated) -> None:
    free(aws, a=100)
    assert only(outcomes(free_addresses, site(aws)), "RPD812").severity == "warning"


def test_nodes_that_run_have_their_addresses(aws: Simulated) -> None:
    aws.run("g6.8xlarge", count=2, cluster=CLUSTER)
    aws.run("m7i.xlarge", cluster=CLUSTER)
    free(aws, a=0)
    assert codes(outcomes(free_addresses, site(aws))) == []


def test_a_zone_without_a_subnet(aws: Simulated) -> None:
    free(aws, b=400)
    assert codes(outcomes(free_addresses, site(aws))) == ["RPD811", "RPD811"]


def test_subnets_that_the_config_names(aws: Simulated) -> None:
    written = config()
    named = aws.subnets("us-west-2a")[0]
    written["vpc"] = {"subnets": {"private": {"us-west-2a": {"id": named}}}}
    assert named in seen(outcomes(free_addresses, site(aws, config=written)))
    written["vpc"]["subnets"]["private"]["us-west-2a"]["id"] = "subnet-0123456789abcdef0"
    found = outcomes(free_addresses, site(aws, config=written))
    assert set(codes(found)) == {"RPD811"}
    assert "subnet-0123456789abcdef0" in str(found)


def test_subnets_that_are_not_made_yet(aws: Simulated) -> None:
    found = outcomes(free_addresses, site(aws))
    assert codes(found) == []
    assert f"no EKS cluster {CLUSTER} in us-west-2 yet" in unseen(found)


def test_the_clusters_group_admits_efa(aws: Simulated) -> None:
    aws.eks()
    found = outcomes(efa_self_rules, site(aws))
    assert codes(found) == []
    assert aws.group in seen(found)


@pytest.mark.parametrize(
    ("inbound", "outbound", "code", "verb"),
    [
        (False, True, "RPD813", "authorize-security-group-ingress"),
        (True, False, "RPD814", "authorize-security-group-egress"),
    ],
)
def test_a_direction_that_is_missing_is_named(
    aws: Simulated, inbound: bool, outbound: bool, code: str, verb: str
) -> None:
    aws.eks()
    group = aws.security_group("nodes", inbound, outbound)
    aws.run("g6.8xlarge", count=2, cluster=CLUSTER, groups=[group])
    finding = only(outcomes(efa_self_rules, site(aws)), code)
    assert group in finding.path
    assert f"{verb} --region us-west-2 --group-id {group}" in finding.remedy


def test_both_directions_may_be_missing(aws: Simulated) -> None:
    aws.eks()
    bare = aws.security_group("bare", inbound=False, outbound=False)
    aws.run("g6.8xlarge", cluster=CLUSTER, groups=[bare])
    # Moto gives it the rule for 0.0.0.0/0, as AWS does; it does not count.
    assert codes(outcomes(efa_self_rules, site(aws))) == ["RPD813", "RPD814"]


def test_any_group_of_all_nodes_may_have_the_rules(aws: Simulated) -> None:
    aws.eks()
    bare = aws.security_group("bare", inbound=False, outbound=False)
    shared = aws.security_group("efa")
    aws.run("g6.8xlarge", count=2, cluster=CLUSTER, groups=[bare, shared])
    assert codes(outcomes(efa_self_rules, site(aws))) == []


def test_nodes_without_a_group_in_common(aws: Simulated) -> None:
    aws.eks()
    one, other = aws.security_group("one"), aws.security_group("other")
    (first,) = aws.run("g6.8xlarge", cluster=CLUSTER, groups=[one])
    aws.run("g6.8xlarge", cluster=CLUSTER, groups=[other])
    finding = only(outcomes(efa_self_rules, site(aws)), "RPD815")
    assert f"{first} has {one}" in finding.message


def test_the_system_node_needs_no_rules_for_efa(aws: Simulated) -> None:
    aws.eks()
    aws.run("m7i.xlarge", cluster=CLUSTER, groups=[aws.security_group("closed", False, False)])
    aws.run("g6.8xlarge", cluster=CLUSTER)
    assert codes(outcomes(efa_self_rules, site(aws))) == []


def test_without_efa_there_is_nothing_to_look_at(aws: Simulated) -> None:
    found = outcomes(efa_self_rules, site(aws, config=config("g5-tcp")))
    assert (codes(found), seen(found)) == ([], "no EFA is asked for")


def test_a_cluster_that_is_not_made_yet_is_not_checked(aws: Simulated) -> None:
    assert "yet" in unseen(outcomes(efa_self_rules, site(aws)))
    assert "yet" in unseen(outcomes(one_tagged_group, site(aws)))


def test_one_tagged_group_a_node(aws: Simulated) -> None:
    aws.eks()
    untagged = aws.security_group("efa")
    aws.run("g6.8xlarge", count=2, cluster=CLUSTER, groups=[aws.group, untagged])
    assert codes(outcomes(one_tagged_group, site(aws))) == []


def test_two_tagged_groups_on_a_node(aws: Simulated) -> None:
    aws.eks()
    second = aws.security_group("eksctl-efa", tagged=True)
    aws.run("g6.8xlarge", count=2, cluster=CLUSTER, groups=[aws.group, second])
    finding = only(outcomes(one_tagged_group, site(aws)), "RPD816")
    assert aws.group in finding.message
    assert second in finding.message
    assert f"Key=kubernetes.io/cluster/{CLUSTER}" in finding.remedy
