"""NodePools and EC2NodeClasses of a file: what their nodes are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator

from raypd.data import load
from raypd.lint.eksctl.cluster import AL2023, Group, Json, taints_of
from raypd.lint.eksctl.placement import TYPE_LABEL, ZONE_LABEL
from raypd.lint.eksctl.pods import quantity
from raypd.report import Finding
from raypd.schema import dotted

_TYPE = "karpenter.k8s.aws/instance-"
_KINDS = ("NodePool", "EC2NodeClass")


def facts() -> Json:
    """What Karpenter does on its own, from data/karpenter.yaml."""
    return load("karpenter.yaml")


@dataclass(frozen=True, eq=False)
class Pool:
    """A NodePool with its EC2NodeClass ({} where the file does not hold it). `offers` are its nodes,
    a group for each instance type that it allows; one of unknown type where the chart's table has
    none of them, and no offer at all where the requirements exclude each other.
    """

    raw: Json
    node_class: Json
    offers: list[Group]

    @property
    def name(self) -> str:
        return self.raw["metadata"]["name"]

    @property
    def path(self) -> str:
        return f"NodePool/{self.name}.spec"

    @property
    def class_path(self) -> str:
        return f"EC2NodeClass/{self.template['nodeClassRef']['name']}.spec"

    @property
    def template(self) -> Json:
        return self.raw["spec"]["template"]["spec"]

    @property
    def requirements(self) -> list[Json]:
        return list(self.template.get("requirements") or [])

    @property
    def capacity_types(self) -> list[str]:
        """Those that it allows, in the order in which Karpenter tries them."""
        label = facts()["capacityTypeLabel"]
        return [one for one in facts()["capacityTypes"] if _allowed(self.requirements, label, one)]

    @property
    def disruption(self) -> Json:
        return self.raw["spec"].get("disruption") or {}

    @property
    def static(self) -> bool:
        """A fixed number of nodes, that are never consolidated."""
        return self.raw["spec"].get("replicas") is not None

    @property
    def family(self) -> str:
        """AL2023, AL2 or what else the class names; empty where nothing says it."""
        terms = self.node_class.get("amiSelectorTerms") or []
        alias = next((str(t["alias"]).partition("@")[0] for t in terms if t.get("alias")), "")
        return (
            alias.upper()
            if alias in ("al2", "al2023")
            else self.node_class.get("amiFamily") or alias
        )

    @property
    def raid(self) -> bool:
        """The NVMe disks become one array that kubelet and containerd live on."""
        in_user_data = re.search(r"strategy:\s*RAID(0|10)\b", str(self.node_class.get("userData")))
        return self.node_class.get("instanceStorePolicy") == "RAID0" or bool(in_user_data)

    @property
    def root_gib(self) -> float:
        """Size of the root disk."""
        mappings = self.node_class.get("blockDeviceMappings") or []
        default = facts()["rootDiskGiB"].get(self.family, 20)
        for mapping in mappings:
            if mapping.get("rootVolume") or mapping.get("deviceName") == facts()["rootDevice"]:
                size = (mapping.get("ebs") or {}).get("volumeSize")
                return quantity(size) / 2**30 if size else default
        return default

    def allows(self, key: str, value: str) -> bool:
        """Its nodes may carry this label: by its labels, or by a requirement that leaves it open."""
        labels = (self.raw["spec"]["template"].get("metadata") or {}).get("labels") or {}
        named = any(requirement["key"] == key for requirement in self.requirements)
        if key in labels:
            return labels[key] == value
        return named and _allowed(self.requirements, key, value)

    def finding(
        self, code: str, path: str, message: str, remedy: str, severity: Any = "error"
    ) -> Finding:
        return Finding(code=code, severity=severity, path=path, message=message, remedy=remedy)


def malformed(documents: list[Any]) -> Iterator[Finding]:
    """What keeps the checks from reading the file."""
    schemas = load("karpenter.schema.yaml")
    mappings = [document for document in documents if isinstance(document, Mapping)]
    known = [document for document in mappings if document.get("kind") in _KINDS]
    if not any(document["kind"] == "NodePool" for document in known):
        kinds = ", ".join(str(document.get("kind")) for document in mappings) or "nothing"
        yield _unreadable(
            "", f"there is no NodePool in it, but {kinds}", "NodePools and EC2NodeClasses"
        )
    classes = set()
    for document in known:
        kind = document["kind"]
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        path = f"{kind}/{name}"
        wanted = facts()["apiVersions"][kind]
        if document.get("apiVersion") != wanted:
            yield _unreadable(
                f"{path}.apiVersion",
                f"{document.get('apiVersion')} is not what these checks read",
                f"{wanted}",
            )
        if kind == "EC2NodeClass":
            classes.add(str(name))
        validator = Draft202012Validator({**schemas[kind], "$defs": schemas["$defs"]})
        for error in validator.iter_errors(document):
            remedy = (
                str(error.schema.get("description", "")) if isinstance(error.schema, dict) else ""
            )
            yield _unreadable(
                dotted(error.path, path), error.message, remedy or "what the CRD wants"
            )


def _unreadable(path: str, message: str, remedy: str) -> Finding:
    return Finding(code="RPD560", severity="error", path=path, message=message, remedy=remedy)


def pools(documents: list[Any], instances: Mapping[str, Json]) -> list[Pool]:
    """The NodePools of a file that is not malformed."""
    classes = {
        document["metadata"]["name"]: document["spec"]
        for document in documents
        if isinstance(document, Mapping) and document.get("kind") == "EC2NodeClass"
    }
    found = []
    for document in documents:
        if isinstance(document, Mapping) and document.get("kind") == "NodePool":
            reference = document["spec"]["template"]["spec"]["nodeClassRef"]["name"]
            pool = Pool(document, classes.get(reference, {}), [])
            pool.offers.extend(_offers(pool, instances))
            found.append(pool)
    return found


def _offers(pool: Pool, instances: Mapping[str, Json]) -> Iterator[Group]:
    types = [
        name
        for name, shape in instances.items()
        if all(_satisfied(r, _labels_of(name, shape).get(r["key"])) for r in _about_types(pool))
    ]
    named = {
        value
        for requirement in pool.requirements
        if requirement["key"] == TYPE_LABEL and requirement["operator"] == "In"
        for value in requirement.get("values") or []
    }
    for name in types:
        yield _group(pool, (name,), instances[name])
    unknown = tuple(sorted(named - set(instances)))
    if unknown or not (types or named):
        yield _group(pool, unknown, None)


def _group(pool: Pool, types: tuple[str, ...], shape: Json | None) -> Group:
    metadata = pool.raw["spec"]["template"].get("metadata") or {}
    labels = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "karpenter.sh/nodepool": pool.name,
        **(_labels_of(types[0], shape) if shape else {}),
        **(metadata.get("labels") or {}),
    }
    zones = tuple(
        value
        for requirement in pool.requirements
        if requirement["key"] == ZONE_LABEL and requirement["operator"] == "In"
        for value in requirement.get("values") or []
    )
    # Karpenter adds the EFA interfaces of a type when a pod asks for some.
    efa = bool(shape and shape["efa"]["interfaces"]) and _class_lets_efa(pool)
    raw = {"name": pool.name, "amiFamily": AL2023, "efaEnabled": efa}
    return Group(
        pool.path, raw, types, zones, labels, tuple(taints_of(pool.template.get("taints"))), shape
    )


def _class_lets_efa(pool: Pool) -> bool:
    """Interfaces that the class lists replace those that Karpenter would add."""
    listed = pool.node_class.get("networkInterfaces") or []
    return not listed or any("efa" in str(one.get("interfaceType")) for one in listed)


def _about_types(pool: Pool) -> list[Json]:
    fixed = (TYPE_LABEL, "kubernetes.io/arch", "kubernetes.io/os")
    return [
        requirement
        for requirement in pool.requirements
        if requirement["key"] in fixed
        or (
            requirement["key"].startswith(_TYPE)
            and requirement["key"].removeprefix(_TYPE) in _KNOWN
        )
    ]


_KNOWN = ("category", "family", "generation", "size", "cpu", "memory", "local-nvme")
_KNOWN += ("gpu-name", "gpu-count", "gpu-memory", "gpu-manufacturer")


def _labels_of(name: str, shape: Json) -> dict[str, str]:
    """The labels of a type that Karpenter knows, as far as the chart's table tells them."""
    family, _, size = name.partition(".")
    category = re.match(r"[a-z]+", family)
    generation = re.search(r"\d+", family)
    labels = {
        TYPE_LABEL: name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        f"{_TYPE}family": family,
        f"{_TYPE}size": size,
        f"{_TYPE}category": category[0] if category else "",
        f"{_TYPE}generation": generation[0] if generation else "",
        f"{_TYPE}cpu": str(shape["vcpu"]),
        f"{_TYPE}memory": str(shape["memoryGiB"] * 1024),
    }
    if shape["nvmeGB"]:
        labels[f"{_TYPE}local-nvme"] = str(shape["nvmeGB"])
    if shape["gpu"]["count"]:
        labels |= {
            f"{_TYPE}gpu-name": str(shape["gpu"]["model"]).lower(),
            f"{_TYPE}gpu-count": str(shape["gpu"]["count"]),
            f"{_TYPE}gpu-memory": str(shape["gpu"]["memoryMiB"]),
            f"{_TYPE}gpu-manufacturer": "nvidia",
        }
    return labels


def _satisfied(requirement: Json, value: str | None) -> bool:
    """A requirement on a label whose value is known; None where the node does not have it."""
    operator = requirement["operator"]
    wanted = [str(one) for one in requirement.get("values") or []]
    if operator == "DoesNotExist":
        return value is None
    if operator == "NotIn":
        return value not in wanted
    if value is None:
        return False
    if operator == "Exists":
        return True
    if operator == "In":
        return value in wanted
    try:
        have, bound = float(value), float(wanted[0])
    except (ValueError, IndexError):
        return False
    return {"Gt": have > bound, "Lt": have < bound, "Gte": have >= bound, "Lte": have <= bound}[
        operator
    ]


def _allowed(requirements: list[Json], key: str, value: str) -> bool:
    return all(_satisfied(one, value) for one in requirements if one["key"] == key)
