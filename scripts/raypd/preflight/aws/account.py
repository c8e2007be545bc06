"""One AWS account in one region: the only way to AWS that the checks have, and it only reads."""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Iterable
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ProfileNotFound

from raypd.data import load
from raypd.preflight.outcome import NotChecked, Once
from raypd.report import UsageError

Json = dict[str, Any]

_ON_DEMAND = "on-demand"
# An answer to these says nothing about what was asked, only about who asks.
_NO_ANSWER = re.compile(
    r"AccessDenied|UnauthorizedOperation|UnrecognizedClient|InvalidClientTokenId|ExpiredToken"
    r"|AuthFailure|SignatureDoesNotMatch|OptInRequired|SubscriptionRequired|Throttl|RequestLimit"
)
_PRICES_IN = (
    "us-east-1"  # the price list has endpoints in few regions, and all of them know all prices
)
_TYPES_A_CALL = 100  # DescribeInstanceTypes takes so many names
_CLUSTER_TAGS = ("eks:cluster-name", "aws:eks:cluster-name", "alpha.eksctl.io/cluster-name")


class Refused(NotChecked):
    """AWS understood the question and has no answer; `code` is AWS's own, as "InvalidAMIID.NotFound"."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Account:
    """The account of a profile. `region` None takes the profile's or $AWS_REGION."""

    def __init__(self, region: str | None = None, profile: str | None = None) -> None:
        """Reads the profile and asks nothing yet. Raises UsageError when there is no such profile."""
        try:
            self.session = boto3.Session(profile_name=profile, region_name=region)
        except ProfileNotFound as error:
            known = ", ".join(boto3.Session().available_profiles) or "none"
            raise UsageError(
                f"--profile {profile}: there is no such AWS profile; there are {known}."
            ) from error
        self._region: str | None = self.session.region_name
        self._lock = threading.RLock()
        self._clients: dict[tuple[str, str], Any] = {}
        self._answers: dict[str, Once[Json]] = {}

    @property
    def region(self) -> str:
        """The region that is asked. Raises NotChecked when none is known."""
        if not self._region:
            raise NotChecked("no AWS region is known: give --region or an eksctl config (--eksctl)")
        return self._region

    def elsewhere(self, region: str) -> Account:
        """The same account in another region."""
        other = copy.copy(self)
        other._region = region
        return other

    def ask(self, service: str, operation: str, **parameters: Any) -> Json:
        """What an operation answers, all pages of it; the same question is asked once.

        `operation` is named as in boto3 ("describe_instances"). Raises NotChecked when AWS cannot be
        asked, and its kind Refused when what was asked for does not exist or is malformed.
        """
        key = json.dumps([service, operation, self.region, parameters], sort_keys=True)
        with self._lock:
            if key not in self._answers:
                self._answers[key] = Once(lambda: self._ask(service, operation, parameters))
        return self._answers[key]()

    def _ask(self, service: str, operation: str, parameters: Json) -> Json:
        try:
            client = self._client(service)
            if client.can_paginate(operation):
                return client.get_paginator(operation).paginate(**parameters).build_full_result()
            return getattr(client, operation)(**parameters)
        except ClientError as error:
            code = error.response["Error"].get("Code", "")
            words = error.response["Error"].get("Message", "")
            model = client.meta.service_model
            action = f"{model.signing_name}:{client.meta.method_to_api_mapping[operation]}"
            if _NO_ANSWER.search(code):
                raise NotChecked(f"AWS does not answer {action} ({code}): {words}") from error
            raise Refused(code, f"AWS refuses {action} ({code}): {words}") from error
        except BotoCoreError as error:
            raise NotChecked(f"AWS cannot be asked: {error}") from error

    def _client(self, service: str) -> Any:
        region = _PRICES_IN if service == "pricing" else self.region
        with self._lock:  # a session makes one client at a time
            if self.session.get_credentials() is None:
                raise NotChecked(
                    "there are no AWS credentials: `aws configure`, `aws sso login`, or --profile"
                )
            if (service, region) not in self._clients:
                settings = Config(
                    connect_timeout=5,
                    read_timeout=20,
                    retries={"total_max_attempts": 3, "mode": "standard"},
                )
                self._clients[service, region] = self.session.client(
                    service, region_name=region, config=settings
                )
            return self._clients[service, region]

    def instances(self) -> list[Json]:
        """All instances of the region that run or start."""
        states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        answer = self.ask("ec2", "describe_instances", Filters=states)
        return [i for reservation in answer["Reservations"] for i in reservation["Instances"]]

    def instances_of(self, cluster: str | None) -> list[Json]:
        """Those of an EKS cluster; none for no cluster."""
        owned = f"kubernetes.io/cluster/{cluster}"
        return [
            instance
            for instance in self.instances()
            if cluster
            and (
                owned in (tags := tags_of(instance))
                or any(tags.get(key) == cluster for key in _CLUSTER_TAGS)
            )
        ]

    def types(self, names: Iterable[str]) -> dict[str, Json]:
        """What EC2 says of instance types, by their names. A type that the region does not have
        raises Refused."""
        wanted = sorted(set(names))
        parts = [wanted[at : at + _TYPES_A_CALL] for at in range(0, len(wanted), _TYPES_A_CALL)]
        return {
            found["InstanceType"]: found
            for part in parts
            for found in self.ask("ec2", "describe_instance_types", InstanceTypes=part)[
                "InstanceTypes"
            ]
        }

    def reservations(self) -> list[Json]:
        """All capacity reservations and capacity blocks, whatever their state."""
        return self.ask("ec2", "describe_capacity_reservations")["CapacityReservations"]

    def cluster(self, name: str | None) -> Json:
        """The EKS cluster. Raises NotChecked when it is not named, or not there yet."""
        if not name:
            raise NotChecked(
                "no EKS cluster is named: give its eksctl config (--eksctl), or a context of EKS"
            )
        try:
            return self.ask("eks", "describe_cluster", name=name)["cluster"]
        except Refused as refusal:
            if refusal.code != "ResourceNotFoundException":
                raise
            raise NotChecked(
                f"there is no EKS cluster {name} in {self.region} yet; run this again when there is"
            ) from refusal


def tags_of(item: Json) -> dict[str, str]:
    """The tags of a thing of AWS, by key."""
    return {tag["Key"]: tag["Value"] for tag in item.get("Tags") or []}


def market_of(instance: Json) -> str:
    """How an instance is paid: "on-demand", "spot" or "capacity-block"."""
    return instance.get("InstanceLifecycle") or _ON_DEMAND


def quota_of(kind: str, market: str) -> tuple[str, str] | None:
    """(code, name) of the vCPU quota that an instance type counts against; None when not known."""
    parts = re.match(r"([a-z]+)(\d+)", kind)
    if not parts:
        return None
    family, generation = parts[1], int(parts[2])
    for quota in load("preflight.yaml")["vcpuQuotas"]:
        generations = quota.get("generations")
        if (
            quota["market"] == market
            and family in quota["families"]
            and (generations is None or generation in generations)
        ):
            return quota["code"], quota["name"]
    return None
