"""The one way to AWS: what is asked once, and what is said when nothing can be asked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from botocore.exceptions import EndpointConnectionError

from raypd.preflight.aws.account import Account, Refused
from raypd.preflight.outcome import NotChecked
from raypd.report import UsageError
from unit.preflight.simulated import CLUSTER, Fails, Simulated


def test_the_same_is_asked_once_by_all_threads(aws: Simulated) -> None:
    asked = []

    def quota(question: dict[str, str]) -> dict[str, object]:
        asked.append(question["QuotaCode"])
        return {"Quota": {"Value": 1.0}}

    aws.answers["service-quotas.GetServiceQuota"] = quota
    with ThreadPoolExecutor(8) as threads:
        for code in ["L-1", "L-2"] * 8:
            threads.submit(
                aws.account.ask,
                "service-quotas",
                "get_service_quota",
                ServiceCode="ec2",
                QuotaCode=code,
            )
    assert sorted(asked) == ["L-1", "L-2"]


def test_all_pages_come_together(aws: Simulated) -> None:
    def page(question: dict[str, str]) -> dict[str, object]:
        last = question.get("NextToken") == "2"
        kind = {"InstanceType": "g6.xlarge" if last else "g6.2xlarge", "Location": "us-west-2a"}
        return {"InstanceTypeOfferings": [kind], **({} if last else {"NextToken": "2"})}

    aws.answers["ec2.DescribeInstanceTypeOfferings"] = page
    answer = aws.account.ask("ec2", "describe_instance_type_offerings")
    kinds = [offering["InstanceType"] for offering in answer["InstanceTypeOfferings"]]
    assert kinds == ["g6.2xlarge", "g6.xlarge"]


@pytest.mark.parametrize(
    "code",
    ["AccessDeniedException", "UnauthorizedOperation", "ExpiredToken", "ThrottlingException"],
)
def test_who_may_not_ask_is_told_the_action(aws: Simulated, code: str) -> None:
    def refuse(_: object) -> dict[str, object]:
        raise Fails(code, "in AWS's words")

    aws.answers["efs.DescribeFileSystems"] = refuse
    with pytest.raises(NotChecked, match="elasticfilesystem:DescribeFileSystems") as raised:
        aws.account.ask("efs", "describe_file_systems")
    assert not isinstance(raised.value, Refused)
    assert "in AWS's words" in str(raised.value)


def test_what_is_not_there_is_another_thing(aws: Simulated) -> None:
    with pytest.raises(Refused) as raised:
        aws.account.types(["g99.metal"])
    assert raised.value.code == "InvalidInstanceType"


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    with pytest.raises(NotChecked, match="no AWS credentials"):
        Account("us-west-2").instances()


def test_no_region() -> None:
    with pytest.raises(NotChecked, match="--region"):
        Account().instances()


def test_no_network(aws: Simulated) -> None:
    def fail(_: object) -> dict[str, object]:
        raise EndpointConnectionError(endpoint_url="https://eks.us-west-2.amazonaws.com")

    aws.answers["eks.DescribeCluster"] = fail
    with pytest.raises(NotChecked, match=r"eks\.us-west-2\.amazonaws\.com"):
        aws.account.cluster(CLUSTER)


def test_a_profile_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = tmp_path / "config"
    settings.write_text("[profile staging]\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(settings))
    assert Account(profile="staging").region == "eu-west-1"
    with pytest.raises(UsageError, match="there are staging"):
        Account(profile="production")


def test_instances_of_a_cluster_have_its_tags(aws: Simulated) -> None:
    (mine,) = aws.run("g6.8xlarge", cluster=CLUSTER)
    aws.run("g6.8xlarge", cluster="other")
    aws.run("g6.8xlarge")
    assert [i["InstanceId"] for i in aws.account.instances_of(CLUSTER)] == [mine]
    assert aws.account.instances_of(None) == []
