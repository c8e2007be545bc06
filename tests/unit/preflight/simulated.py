"""An AWS account, a hub and registries in memory, and a Site on them.

moto answers what it knows, with AWS's own tables of instance types and zones. What it does not know
(quotas, prices, capacity reservations, placement groups, EKS's security group) is answered from here, each
answer held against the shapes of botocore's service models as botocore's Stubber does it.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import boto3
import httpx
from botocore.loaders import create_loader
from botocore.validate import validate_parameters
from moto import mock_aws

from raypd import yaml_text
from raypd.live.cluster import Cluster
from raypd.live.install.facts import Facts
from raypd.live.install.preconditions import Case
from raypd.preflight.aws.account import Account
from raypd.preflight.image import image_name, look_up
from raypd.preflight.kubernetes.kube import Kube
from raypd.preflight.outcome import NotChecked, Once, Outcome, Seen
from raypd.preflight.site import Site, nodes_of_config
from raypd.preflight.web import Web
from raypd.render import default_chart
from raypd.report import Finding
from unit.live import paper

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
CHART = default_chart()
INSTANCES = yaml_text.load((CHART / "files" / "instances.yaml").read_text())
VERSIONS = yaml_text.load((CHART / "files" / "versions.yaml").read_text())
DEFAULTS = yaml_text.load((CHART / "values.yaml").read_text())

CLUSTER = "ray-pd-g6"
QUOTAS = {"L-DB2E81BA": 160.0, "L-1216C47A": 32.0, "L-417A185B": 0.0, "L-3819A6DF": 64.0}
PRICES = {
    **{"g6.8xlarge": "2.0144", "m7i.xlarge": "0.2016", "g5.4xlarge": "1.6240"},
    **{"g6e.12xlarge": "10.4926", "p5.48xlarge": "55.0400"},
}
AMI_NAME = "amazon-eks-node-al2023-x86_64-nvidia-1.35-v20260714"
BLOCK = "cr-0abcdef0123456789"


class Fails(Exception):
    """An answer that is AWS's error: code and message."""


Reply = Callable[[Json], Json]


class Simulated:
    """The account: `account` is what the checks ask, `make` a client that makes things in it.

    `answers` are by "service.Operation" and win over moto; `calls` are the IAM actions that were asked
    for.
    """

    def __init__(self, region: str = "us-west-2") -> None:
        self.region = region
        self.account = Account(region)
        self.answers: dict[str, Reply] = {}
        self.calls: set[str] = set()
        self.reservations: list[Json] = []
        self.quotas = dict(QUOTAS)
        self.prices = dict(PRICES)
        self.placement_groups: dict[str, str] = {}
        self.account.session, self.account._clients = _session(region)
        _Asked.whom = self
        self.answers |= {
            "service-quotas.GetServiceQuota": self._quota,
            "pricing.GetProducts": self._price,
            "ec2.DescribeCapacityReservations": lambda _: {
                "CapacityReservations": self.reservations
            },
            "ec2.DescribePlacementGroups": self._placement,
        }
        self.vpc = self.make("ec2").describe_vpcs()["Vpcs"][0]["VpcId"]
        self.group = self.security_group("eks-cluster-sg", tagged=True)
        self.ami = self.image(AMI_NAME)
        self.answers["ssm.GetParameter"] = lambda asked: {
            "Parameter": {"Name": asked["Name"], "Value": self.ami}
        }

    def ask_anew(self) -> None:
        """Forgets the answers that the account remembers, after something was changed."""
        self.account._answers.clear()

    def make(self, service: str) -> Any:
        return _maker(service, self.region)

    def subnets(self, zone: str | None = None) -> list[str]:
        found = self.make("ec2").describe_subnets()["Subnets"]
        return [s["SubnetId"] for s in found if zone in (None, s["AvailabilityZone"])]

    def subnet(self, zone: str, cidr: str) -> str:
        made = self.make("ec2").create_subnet(VpcId=self.vpc, CidrBlock=cidr, AvailabilityZone=zone)
        return made["Subnet"]["SubnetId"]

    def security_group(
        self, name: str, inbound: bool = True, outbound: bool = True, tagged: bool = False
    ) -> str:
        """A group with rules for its own members."""
        ec2 = self.make("ec2")
        identity = ec2.create_security_group(GroupName=name, Description=name, VpcId=self.vpc)[
            "GroupId"
        ]
        rule = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": identity}]}]
        if inbound:
            ec2.authorize_security_group_ingress(GroupId=identity, IpPermissions=rule)
        if outbound:
            ec2.authorize_security_group_egress(GroupId=identity, IpPermissions=rule)
        if tagged:
            tag = {"Key": f"kubernetes.io/cluster/{CLUSTER}", "Value": "owned"}
            ec2.create_tags(Resources=[identity], Tags=[tag])
        return identity

    def image(self, name: str) -> str:
        return self.make("ec2").register_image(Name=name, Architecture="x86_64")["ImageId"]

    def eks(self, name: str = CLUSTER, subnets: list[str] | None = None) -> None:
        """An EKS cluster that is there."""

        def describe(asked: Json) -> Json:
            if asked["name"] != name:
                raise Fails("ResourceNotFoundException", f"No cluster found for name: {name}.")
            network = {
                "subnetIds": subnets or self.subnets(),
                "clusterSecurityGroupId": self.group,
                "vpcId": self.vpc,
            }
            return {"cluster": {"name": name, "version": "1.35", "resourcesVpcConfig": network}}

        self.answers["eks.DescribeCluster"] = describe

    def run(
        self,
        kind: str,
        count: int = 1,
        cluster: str | None = None,
        groups: list[str] | None = None,
        image: str | None = None,
        zone: str = "us-west-2a",
        spot: bool = False,
    ) -> list[str]:
        """Instances that run, in a cluster or in none."""
        tags = [{"Key": "eks:cluster-name", "Value": cluster}] if cluster else []
        market = {"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}
        made = self.make("ec2").run_instances(
            ImageId=image or self.ami,
            InstanceType=kind,
            MinCount=count,
            MaxCount=count,
            SubnetId=self.subnets(zone)[0],
            SecurityGroupIds=groups or [self.group],
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}] if tags else [],
            **market,
        )
        return [instance["InstanceId"] for instance in made["Instances"]]

    def reserve(self, kind: str = "p5.48xlarge", **changes: Any) -> None:
        """A capacity reservation; a capacity block as it stands."""
        found = {
            "CapacityReservationId": BLOCK,
            "InstanceType": kind,
            "AvailabilityZone": "us-east-2a",
            "TotalInstanceCount": 2,
            "AvailableInstanceCount": 2,
            "State": "active",
            "ReservationType": "capacity-block",
            "StartDate": datetime(2026, 3, 1, 11, 30, tzinfo=UTC),
            "EndDate": datetime(2026, 3, 8, 11, 30, tzinfo=UTC),
        }
        self.reservations.append({**found, **changes})

    def respond(self, model: Any, context: Json, **_: Any) -> Any:
        self.calls.add(f"{model.service_model.signing_name}:{model.name}")
        reply = self.answers.get(f"{model.service_model.service_id.hyphenize()}.{model.name}")
        if reply is None:
            return None
        try:
            answer = reply(context["asked"])
        except Fails as failure:
            code, message = failure.args
            return SimpleNamespace(status_code=400), {"Error": {"Code": code, "Message": message}}
        validate_parameters(answer, model.output_shape)
        return SimpleNamespace(status_code=200), answer

    def _quota(self, asked: Json) -> Json:
        code = asked["QuotaCode"]
        if code not in self.quotas:
            raise Fails("NoSuchResourceException", f"no quota {code}")
        return {"Quota": {"QuotaCode": code, "Value": self.quotas[code]}}

    def _price(self, asked: Json) -> Json:
        kind = next(f["Value"] for f in asked["Filters"] if f["Field"] == "instanceType")
        price = {"pricePerUnit": {"USD": self.prices.get(kind, "0")}}
        product = {"terms": {"OnDemand": {"A": {"priceDimensions": {"B": price}}}}}
        return {"PriceList": [json.dumps(product)] if kind in self.prices else []}

    def _placement(self, asked: Json) -> Json:
        (name,) = asked["GroupNames"]
        if name not in self.placement_groups:
            raise Fails(
                "InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown."
            )
        strategy = self.placement_groups[name]
        group = {"GroupName": name, "State": "available", "Strategy": strategy}
        return {"PlacementGroups": [group]}


# Clients and their sessions are kept from test to test: to make a client of EC2 takes longer than most tests.
_LOADER = create_loader()


class _Asked:
    """The account that answers what the kept clients ask."""

    whom: Simulated


@cache
def _session(region: str) -> tuple[boto3.Session, dict[tuple[str, str], Any]]:
    """What an Account asks with, whose questions come to _Asked.whom first; and room for its clients."""
    session = _plain_session(region)

    def remember(params: Json, context: Json, **_: Any) -> None:
        context["asked"] = params

    session.events.register("before-parameter-build", remember)
    session.events.register("before-call", lambda **event: _Asked.whom.respond(**event))
    return session, {}


@cache
def _maker(service: str, region: str) -> Any:
    return _plain_session(region).client(service)


def _plain_session(region: str) -> boto3.Session:
    session = boto3.Session(region_name=region)
    session._session.register_component("data_loader", _LOADER)
    return session


@contextmanager
def simulated(region: str = "us-west-2") -> Iterator[Simulated]:
    """An account for as long as the context lasts."""
    # Its thousands of machine images take a second to make, and nobody looks at them.
    with patch.dict(os.environ, MOTO_EC2_LOAD_DEFAULT_AMIS="false"), mock_aws():
        yield Simulated(region)


class Pages:
    """Answers of the hub and of registries by URL without its query; anything else is out of reach."""

    def __init__(self) -> None:
        self.pages: dict[str, Callable[[httpx.Request], httpx.Response]] = {}
        self.asked: list[str] = []
        self.web = Web(httpx.MockTransport(self._answer))

    def put(self, url: str, body: Any = None, status: int = 200, **headers: str) -> None:
        answer = httpx.Response(status, json=body, headers=headers)
        self.pages[url] = lambda _: httpx.Response(
            answer.status_code, content=answer.content, headers=answer.headers
        )

    def model(self, name: str = "Qwen/Qwen3.5-9B", **changes: Any) -> None:
        """A model of the hub."""
        weights = [
            {"rfilename": f"model-0000{part}-of-00002.safetensors", "size": 9_000_000_000}
            for part in (1, 2)
        ]
        known = {"sha": "c0ffee" * 7, "gated": False, "private": False, "siblings": weights}
        url = f"https://huggingface.co/api/models/{name}/revision/main"
        self.put(url, {**known, **changes})

    def image(self, host: str, repository: str, tag: str, **platform: str) -> None:
        """An image of one architecture in a registry that gives anybody a token."""
        base = f"https://{host}/v2/{repository}"
        architecture = platform.get("architecture", "amd64")
        config = {"architecture": architecture, "config": {"Env": ["CUDA_VERSION=13.0.2"]}}
        layers = [{"size": 6_500_000_000}, {"size": 500_000_000}]
        self._guarded(
            f"{base}/manifests/{tag}", {"config": {"digest": "sha256:c"}, "layers": layers}
        )
        self._guarded(f"{base}/blobs/sha256:c", config)
        self.put(f"https://{host}/token/", {"token": "anybody"})

    def _guarded(self, url: str, body: Json) -> None:
        host = httpx.URL(url).host

        def answer(request: httpx.Request) -> httpx.Response:
            if request.headers.get("Authorization") == "Bearer anybody":
                return httpx.Response(200, json=body)
            challenge = f'Bearer realm="https://{host}/token/",service="{host}"'
            return httpx.Response(401, headers={"WWW-Authenticate": challenge})

        self.pages[url] = answer

    def _answer(self, request: httpx.Request) -> httpx.Response:
        url = str(request.url.copy_with(query=None))
        self.asked.append(url)
        if url not in self.pages:
            if any(page.startswith(f"https://{request.url.host}/") for page in self.pages):
                return httpx.Response(404)
            raise httpx.ConnectError("Name or service not known")
        return self.pages[url](request)


class PaperKube(Kube):
    """A cluster on paper: `facts` as they are given, everything else from `cluster`."""

    def __init__(
        self, rendered: Any, cluster: Any = None, facts: Facts | None = None, **options: Any
    ) -> None:
        super().__init__(rendered, "llm", "inference", VERSIONS, **options)
        self._paper, self._facts = cluster, facts

    def _connect(self) -> Cluster:
        if self._paper is None:
            raise NotChecked("There is no kubeconfig")
        return self._paper

    def _gather(self) -> Case:
        if self._facts is None:
            return super()._gather()
        return Case(self._rendered, "llm", "inference", VERSIONS, self._facts)


def config(name: str = "g6") -> Json:
    """A shipped eksctl config, the caller's to change."""
    return yaml_text.load((ROOT / "eksctl" / f"{name}.yaml").read_text())


def values(**changes: Any) -> Json:
    """The chart's defaults with blocks replaced or extended."""
    made = copy.deepcopy(DEFAULTS)
    for block, change in changes.items():
        made[block] = {**made[block], **change} if isinstance(change, dict) else change
    return made


def site(aws: Simulated | None = None, **parts: Any) -> Site:
    """The reference on the simulated account, with parts of it replaced."""
    made: Json = values()
    rendered = parts.pop("rendered", None) or paper.rendered()
    written = parts.pop("config", None) or config()
    chosen = parts.get("values", made)
    account = aws.account if aws else Account("us-west-2")
    web = parts.pop("web", None) or Pages().web
    known: Json = {
        "rendered": rendered,
        "values": chosen,
        "release": "llm",
        "namespace": "inference",
        "instances": INSTANCES,
        "versions": VERSIONS,
        "nodes": nodes_of_config(written, INSTANCES),
        "account": account,
        "kube": PaperKube(rendered),
        "web": web,
        "image": Once(lambda: look_up(image_name(chosen), web, account)),
        "config": written,
        "cluster_name": written["metadata"]["name"],
        "token": None,
    }
    return Site(**{**known, **parts})


def outcomes(check: Callable[[Site], Iterator[Outcome]], where: Site) -> list[Outcome]:
    """What a check comes to, a NotChecked that it raises among it."""
    found: list[Outcome] = []
    try:
        found.extend(check(where))
    except NotChecked as reason:
        found.append(reason)
    return found


def codes(found: list[Outcome]) -> list[str]:
    return [outcome.code for outcome in found if isinstance(outcome, Finding)]


def seen(found: list[Outcome]) -> str:
    return "; ".join(outcome.text for outcome in found if isinstance(outcome, Seen))


def unseen(found: list[Outcome]) -> str:
    return "; ".join(str(outcome) for outcome in found if isinstance(outcome, NotChecked))


def only(found: list[Outcome], code: str) -> Finding:
    """The one finding, which has this code."""
    (finding,) = [outcome for outcome in found if isinstance(outcome, Finding)]
    assert finding.code == code
    return finding
