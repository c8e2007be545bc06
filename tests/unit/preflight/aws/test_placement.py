"""Placement groups, and the one zone of EFA."""

from __future__ import annotations

from typing import Any

from raypd.preflight.aws.placement import efa_nodes_in_one_zone, placement_groups
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


def placed(name: str) -> dict[str, Any]:
    written = config()
    written["managedNodeGroups"][1]["placement"] = {"groupName": name}
    return written


def test_a_cluster_group(aws: Simulated) -> None:
    aws.placement_groups["close"] = "cluster"
    found = outcomes(placement_groups, site(aws, config=placed("close")))
    assert (codes(found), seen(found)) == ([], "close is a cluster group")


def test_a_group_that_puts_nodes_apart(aws: Simulated) -> None:
    aws.placement_groups["apart"] = "spread"
    finding = only(outcomes(placement_groups, site(aws, config=placed("apart"))), "RPD817")
    assert "spread" in finding.message


def test_a_group_that_is_not_there(aws: Simulated) -> None:
    finding = only(outcomes(placement_groups, site(aws, config=placed("gone"))), "RPD817")
    assert "create-placement-group" in finding.remedy


def test_no_group_named(aws: Simulated) -> None:
    assert "none named" in seen(outcomes(placement_groups, site(aws)))


def test_efa_nodes_together(aws: Simulated) -> None:
    aws.run("g6.8xlarge", count=2, cluster=CLUSTER)
    aws.run("m7i.xlarge", cluster=CLUSTER, zone="us-west-2b")
    found = outcomes(efa_nodes_in_one_zone, site(aws))
    assert (codes(found), seen(found)) == ([], "2 in us-west-2a")


def test_efa_nodes_in_two_zones(aws: Simulated) -> None:
    aws.run("g6.8xlarge", cluster=CLUSTER)
    aws.run("g6.8xlarge", cluster=CLUSTER, zone="us-west-2b")
    finding = only(outcomes(efa_nodes_in_one_zone, site(aws)), "RPD818")
    assert "1 in us-west-2a, 1 in us-west-2b" in finding.message


def test_nodes_of_another_cluster_do_not_count(aws: Simulated) -> None:
    aws.run("g6.8xlarge", cluster=CLUSTER)
    aws.run("g6.8xlarge", cluster="other", zone="us-west-2b")
    assert codes(outcomes(efa_nodes_in_one_zone, site(aws))) == []


def test_without_a_cluster_nothing_is_checked(aws: Simulated) -> None:
    assert "--eksctl" in unseen(outcomes(efa_nodes_in_one_zone, site(aws, cluster_name=None)))
