"""What an eksctl config describes: groups of nodes, and what one node has to give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from raypd.data import load
from raypd.report import Finding

Json = Mapping[str, Any]

AL2023 = "AmazonLinux2023"


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str

    @property
    def blocks(self) -> bool:
        """PreferNoSchedule only makes the scheduler look elsewhere first."""
        return self.effect in ("NoSchedule", "NoExecute")

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


@dataclass(frozen=True, eq=False)
class Group:
    """One node group; `zones` is empty where subnets hide them, `shape` None for unknown types."""

    path: str
    raw: Json
    types: tuple[str, ...]
    zones: tuple[str, ...]
    labels: Json
    taints: tuple[Taint, ...]
    shape: Json | None

    @classmethod
    def of(cls, path: str, raw: Json, metadata: Json, zones: list[str], shapes: Json) -> Group:
        distribution = raw.get("instancesDistribution") or {}
        types = raw.get("instanceTypes") or distribution.get("instanceTypes") or []
        types = [raw["instanceType"]] if raw.get("instanceType") else list(types)
        own_zones = raw.get("availabilityZones") or ([] if raw.get("subnets") else zones)
        labels = {
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/region": metadata["region"],
            "alpha.eksctl.io/cluster-name": metadata["name"],
            "alpha.eksctl.io/nodegroup-name": raw["name"],
            "eks.amazonaws.com/nodegroup": raw["name"],
            **(raw.get("labels") or {}),
        }
        return cls(
            path=path,
            raw=raw,
            types=tuple(types),
            zones=tuple(own_zones),
            labels=labels,
            taints=tuple(taints_of(raw.get("taints"))),
            shape=shapes.get(types[0]) if types else None,
        )

    @property
    def name(self) -> str:
        return self.raw["name"]

    @property
    def efa(self) -> bool:
        return bool(self.raw.get("efaEnabled"))

    @property
    def efa_interfaces(self) -> int:
        """eksctl puts one EFA interface on each network card of the type."""
        return self.shape["efa"]["interfaces"] if self.efa and self.shape else 0

    @property
    def gpus(self) -> int:
        return self.shape["gpu"]["count"] if self.shape else 0

    @property
    def family(self) -> str:
        return self.raw.get("amiFamily") or AL2023

    @property
    def market(self) -> Json:
        return self.raw.get("instanceMarketOptions") or {}

    @property
    def reservation(self) -> Json:
        return (self.raw.get("capacityReservation") or {}).get("capacityReservationTarget") or {}

    @property
    def nodes(self) -> int:
        """Nodes to count with; a group that begins at zero is scaled to its `maxSize` by hand."""
        given = (self.raw.get("desiredCapacity"), self.raw.get("minSize"))
        default = facts()["nodeDefaults"]["desiredCapacity"]
        desired = next((number for number in given if number is not None), default)
        return desired or self.raw.get("maxSize") or 0

    @property
    def runs_addons(self) -> bool:
        """CoreDNS, metrics-server and the like land where no GPU is and no taint keeps them off."""
        return self.gpus == 0 and not self.taints

    def allocatable(self) -> tuple[float, float]:
        """(CPUs, MiB) left for Ray pods on one node."""
        assert self.shape is not None
        known = facts()
        reserve = known["nodeReserve"]
        first, second, third, rest = reserve["cpuPartOfCore"]
        vcpu = self.shape["vcpu"]
        kept = first + second * (vcpu > 1) + third * max(0, min(vcpu, 4) - 2)
        kept += rest * max(0, vcpu - 4)
        max_pods = next(pods for most, pods in reserve["maxPods"].items() if vcpu <= most)
        memory = self.shape["memoryGiB"] * 1024 * (1 - reserve["hypervisorPart"])
        memory -= reserve["memoryMiBPerPod"] * max_pods + reserve["memoryMiBFixed"]
        memory -= reserve["evictionMiB"]
        neighbours = [known["addonRequests"]["everyNode"]]
        if self.runs_addons:
            neighbours.append(known["addonRequests"]["systemNodes"])
        for requests in neighbours:
            kept += requests["cpu"]
            memory -= requests["memoryMiB"]
        return vcpu - kept, memory

    def finding(
        self, code: str, key: str, message: str, remedy: str, severity: Any = "error"
    ) -> Finding:
        path = f"{self.path}.{key}" if key else self.path
        return Finding(code=code, severity=severity, path=path, message=message, remedy=remedy)


@dataclass(frozen=True)
class Cluster:
    raw: Json
    groups: list[Group]

    @classmethod
    def of(cls, config: Json, instances: Json) -> Cluster:
        zones = config.get("availabilityZones") or []
        groups = [
            Group.of(f"{kind}[{i}]", raw, config["metadata"], zones, instances)
            for kind in ("managedNodeGroups", "nodeGroups")
            for i, raw in enumerate(config.get(kind) or [])
        ]
        return cls(config, groups)

    @property
    def region(self) -> str:
        return self.raw["metadata"]["region"]


def facts() -> Json:
    return load("eksctl.yaml")


def taints_of(written: Any) -> Iterator[Taint]:
    """Both forms of eksctl: a list of {key, value, effect}, and the older {key: "value:effect"}."""
    if isinstance(written, Mapping):
        for key, text in written.items():
            value, _, effect = str(text).rpartition(":")
            yield Taint(key, value, effect)
    for taint in written if isinstance(written, list) else []:
        yield Taint(taint.get("key") or "", taint.get("value") or "", taint.get("effect") or "")


def malformed(config: Any) -> Iterator[Finding]:
    """What keeps the checks from reading the file, by a schema of the keys that they read."""
    if not isinstance(config, Mapping):
        config = {"kind": config}
    for error in Draft202012Validator(load("eksctl.schema.yaml")).iter_errors(config):
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.path)
        remedy, message = error.schema.get("description", ""), error.message
        if error.validator == "required":
            missing = message.split("'")[1]  # "'name' is a required property"
            path, message = f"{path}.{missing}", "is missing, and eksctl refuses a file without it"
            properties = error.schema["properties"]
            remedy = _described(properties[missing])
        elif error.validator == "anyOf":
            path, message = "managedNodeGroups", "there is no node group, so no pod can run"
            remedy = "a group with the label role=system and one with role=gpu-worker"
        yield Finding(
            code="RPD401",
            severity="error",
            path=path.removeprefix("."),
            message=message,
            remedy=remedy,
        )


def _described(schema: Json) -> str:
    definitions = load("eksctl.schema.yaml")["$defs"]
    return (definitions[schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema)[
        "description"
    ]


def node_config(group: Group) -> Json | None:
    """The nodeadm NodeConfig of an AL2023 group; None where the text is something else."""
    try:
        parsed = yaml.safe_load(group.raw.get("overrideBootstrapCommand") or "")
    except yaml.YAMLError:
        return None
    if isinstance(parsed, Mapping) and parsed.get("kind") == "NodeConfig":
        return parsed
    return None


def local_storage(node_config: Json) -> Json:
    found: Any = node_config
    for key in ("spec", "instance", "localStorage"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def listed(items: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(str(item) for item in items))
