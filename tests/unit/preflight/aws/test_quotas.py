"""vCPU quotas: what is needed, in use and allowed, by code and market."""

from __future__ import annotations

import pytest

from raypd.preflight.aws.account import quota_of
from raypd.preflight.aws.quotas import vcpu_quotas
from unit.preflight.simulated import (
    BLOCK,
    CLUSTER,
    Fails,
    Simulated,
    codes,
    config,
    only,
    outcomes,
    seen,
    site,
    unseen,
)


def test_enough_for_all_nodes(aws: Simulated) -> None:
    found = outcomes(vcpu_quotas, site(aws))
    assert codes(found) == []
    assert "L-DB2E81BA needed 64, in use 0 (0 of them by this cluster), allowed 160" in seen(found)
    assert "L-1216C47A needed 4" in seen(found)


def test_a_quota_that_is_too_small(aws: Simulated) -> None:
    aws.quotas["L-DB2E81BA"] = 32.0
    finding = only(outcomes(vcpu_quotas, site(aws)), "RPD800")
    assert "2 x g6.8xlarge take 64 vCPUs" in finding.message
    assert "allows 32" in finding.message
    assert "--quota-code L-DB2E81BA --desired-value 64" in finding.remedy


def test_a_quota_that_others_use_up(aws: Simulated) -> None:
    aws.run("g5.12xlarge", count=2)  # 96 of 160
    aws.run("g4dn.xlarge")
    finding = only(outcomes(vcpu_quotas, site(aws)), "RPD801")
    assert "need 64 more" in finding.message
    assert "60 are left" in finding.message
    assert "--desired-value 164" in finding.remedy


def test_other_families_do_not_count(aws: Simulated) -> None:
    aws.run("p4d.24xlarge", count=2)
    assert codes(outcomes(vcpu_quotas, site(aws))) == []


def test_nodes_of_the_cluster_that_run_are_not_needed_again(aws: Simulated) -> None:
    aws.quotas["L-DB2E81BA"] = 64.0
    aws.run("g6.8xlarge", count=2, cluster=CLUSTER)
    found = outcomes(vcpu_quotas, site(aws))
    assert codes(found) == []
    assert "in use 64 (64 of them by this cluster)" in seen(found)


def test_spot_has_quotas_of_its_own(aws: Simulated) -> None:
    written = config()
    written["managedNodeGroups"][1]["spot"] = True
    aws.quotas |= {"L-DB2E81BA": 0.0, "L-3819A6DF": 64.0}
    assert codes(outcomes(vcpu_quotas, site(aws, config=written))) == []
    aws.quotas["L-3819A6DF"] = 63.0
    aws.ask_anew()
    finding = only(outcomes(vcpu_quotas, site(aws, config=written)), "RPD800")
    assert finding.path == "quota L-3819A6DF"


def test_spot_instances_do_not_count_on_demand(aws: Simulated) -> None:
    aws.run("g6.48xlarge", spot=True)
    assert codes(outcomes(vcpu_quotas, site(aws))) == []


def test_what_a_reservation_holds_free_counts(aws: Simulated) -> None:
    aws.reserve("g6.24xlarge", ReservationType="default", AvailableInstanceCount=1)
    assert codes(outcomes(vcpu_quotas, site(aws))) == []  # 96 + 64 of 160
    aws.reserve("g6.xlarge", ReservationType="default", AvailableInstanceCount=1)
    aws.ask_anew()
    assert codes(outcomes(vcpu_quotas, site(aws))) == ["RPD801"]


def test_the_nodes_own_reservation_counts_once(aws: Simulated) -> None:
    written = config()
    target = {"capacityReservationTarget": {"capacityReservationID": BLOCK}}
    written["managedNodeGroups"][1]["capacityReservation"] = target
    aws.quotas["L-DB2E81BA"] = 64.0
    aws.reserve("g6.8xlarge", ReservationType="default", AvailabilityZone="us-west-2a")
    assert codes(outcomes(vcpu_quotas, site(aws, config=written))) == []


def test_capacity_blocks_count_against_none(aws: Simulated) -> None:
    written = config("p5")
    found = outcomes(vcpu_quotas, site(aws, config=written))
    assert codes(found) == []
    assert "2 x p5.48xlarge of a capacity block count against no quota" in seen(found)


def test_a_quota_without_a_value_of_its_own_has_the_default(aws: Simulated) -> None:
    del aws.quotas["L-DB2E81BA"]
    aws.answers["service-quotas.GetAWSDefaultServiceQuota"] = lambda asked: {
        "Quota": {"QuotaCode": asked["QuotaCode"], "Value": 0.0}
    }
    assert "allows 0" in only(outcomes(vcpu_quotas, site(aws)), "RPD800").message


def test_a_quota_that_may_not_be_read_is_not_checked(aws: Simulated) -> None:
    def refuse(_: object) -> dict[str, object]:
        raise Fails("AccessDeniedException", "not authorized")

    aws.answers["service-quotas.GetServiceQuota"] = refuse
    found = outcomes(vcpu_quotas, site(aws))
    assert codes(found) == []
    assert "servicequotas:GetServiceQuota (AccessDeniedException)" in unseen(found)


def test_without_nodes_nothing_is_checked(aws: Simulated) -> None:
    assert "instanceType" in unseen(outcomes(vcpu_quotas, site(aws, nodes=[])))


@pytest.mark.parametrize(
    ("kind", "market", "code"),
    [
        ("g6.8xlarge", "on-demand", "L-DB2E81BA"),
        ("gr6.8xlarge", "spot", "L-3819A6DF"),
        ("p4d.24xlarge", "spot", "L-7212CCBC"),
        ("p5en.48xlarge", "spot", "L-C4BD4855"),
        ("p5.48xlarge", "on-demand", "L-417A185B"),
        ("im4gn.large", "on-demand", "L-1216C47A"),
        ("p6-b200.48xlarge", "spot", None),
        ("trn1.2xlarge", "on-demand", None),
        ("p5.48xlarge", "capacity-block", None),
    ],
)
def test_the_quota_of_a_type(kind: str, market: str, code: str | None) -> None:
    found = quota_of(kind, market)
    assert (found and found[0]) == code
