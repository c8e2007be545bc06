"""Each rule of NodePools against values: kept by one pool of g6.8xlarge, broken once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from raypd import yaml_text
from raypd.lint.karpenter import check_karpenter
from raypd.lint.verb import of_values
from raypd.render import ValueArguments, default_chart
from raypd.report import Finding
from unit.lint.test_eksctl import INSTANCES, ROOT, engine, head, places

POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  limits: {cpu: "64", memory: 256Gi, nvidia.com/gpu: 2, nodes: "2"}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30m}
  template:
    metadata: {labels: {role: gpu-worker}}
    spec:
      expireAfter: Never
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      taints: [{key: aws.amazon.com/efa, value: "true", effect: NoSchedule}]
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.8xlarge]}
        - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
"""
CLASS = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  instanceStorePolicy: RAID0
"""
TYPE, ZONE, CAPACITY = range(3)  # places of the requirements


class Case:
    """One NodePool for the engines, the head elsewhere, budgets as the chart makes them."""

    def __init__(self) -> None:
        self.pool: dict[str, Any] = yaml_text.load(POOL)
        self.node_class: dict[str, Any] = yaml_text.load(CLASS)
        self.documents: list[Any] = [self.pool, self.node_class]
        self.values: dict[str, Any] = {"model": {"source": "Qwen/Qwen3.5-9B"}}
        self.workers = [engine("prefill"), engine("decode")]
        self.elsewhere = frozenset({"head"})
        self.budgets = 1

    @property
    def spec(self) -> dict[str, Any]:
        return self.pool["spec"]["template"]["spec"]

    def require(self, place: int, operator: str, *values: str, key: str = "") -> Case:
        requirement = self.spec["requirements"][place]
        requirement |= {"operator": operator, "values": list(values)}
        requirement["key"] = key or requirement["key"]
        return self

    def any_type(self) -> Case:
        """The pods take whatever type the pool allows."""
        for group in self.workers:
            del group["template"]["spec"]["nodeSelector"]["node.kubernetes.io/instance-type"]
        return self

    def set(self, where: str, value: Any) -> Case:
        *parents, last = where.split(".")
        node: Any = {
            "pool": self.pool["spec"],
            "class": self.node_class["spec"],
            "spec": self.spec,
        }[parents[0]]
        for key in parents[1:]:
            node = node[key]
        node[last] = value
        return self

    def findings(self) -> list[Finding]:
        cluster = {"headGroupSpec": {"template": head()}, "workerGroupSpecs": self.workers}
        budgets = [
            {
                "kind": "PodDisruptionBudget",
                "spec": {
                    "minAvailable": self.budgets,
                    "selector": {
                        "matchLabels": {"app.kubernetes.io/component": group["groupName"]}
                    },
                },
            }
            for group in self.workers
        ]
        service = {"kind": "RayService", "spec": {"rayClusterConfig": cluster}}
        return check_karpenter(
            self.documents, self.values, [service, *budgets], INSTANCES, self.elsewhere
        )[0]


def found(case: Case) -> list[tuple[str, str]]:
    return [(finding.code, finding.path) for finding in case.findings()]


def test_a_pool_that_suits_the_pods() -> None:
    assert Case().findings() == []


RIGHT = {
    "a family and a size": lambda c: c.require(TYPE, "In", "g6", key="karpenter.k8s.aws/instance-family"),
    "GPUs by name": lambda c: c.any_type().require(TYPE, "In", "l4", key="karpenter.k8s.aws/instance-gpu-name"),
    "enough CPUs": lambda c: c.any_type().require(TYPE, "Gt", "31", key="karpenter.k8s.aws/instance-cpu"),
    "at least so many CPUs": lambda c: c.any_type().require(TYPE, "Gte", "32", key="karpenter.k8s.aws/instance-cpu"),
    "others ruled out": lambda c: c.require(TYPE, "NotIn", "g6.4xlarge"),
    "a custom label left open": lambda c: (c.pool["spec"]["template"].pop("metadata"), c.spec["requirements"].append({"key": "role", "operator": "Exists"})),
    "a custom label of several": lambda c: (c.pool["spec"]["template"].pop("metadata"), c.spec["requirements"].append({"key": "role", "operator": "In", "values": ["x", "gpu-worker"]})),
    "a type that nobody knows": lambda c: (c.any_type(), c.require(TYPE, "In", "g99.8xlarge")),
    "no limits": lambda c: c.pool["spec"].pop("limits"),
    "consolidation that a budget stops": lambda c: c.set("pool.disruption", None),
    "a static pool": lambda c: (c.set("pool.replicas", 2), c.set("pool.limits", {"nodes": 2}), c.set("pool.disruption", {})),
    "RAID0 by user data": lambda c: (c.node_class["spec"].pop("instanceStorePolicy"), c.set("class.userData", "spec: {instance: {localStorage: {strategy: RAID0}}}")),
    "a larger root disk": lambda c: c.set("class.blockDeviceMappings", [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}]),
    "another image family": lambda c: (c.set("class.amiSelectorTerms", [{"alias": "bottlerocket@latest"}]), c.set("class.instanceStorePolicy", None)),
    "EFA interfaces of the class": lambda c: c.set("class.networkInterfaces", [{"interfaceType": "interface"}, {"interfaceType": "efa-only"}]),
    "reserved capacity": lambda c: (c.require(CAPACITY, "In", "reserved"), c.set("class.capacityReservationSelectorTerms", [{"id": "cr-1"}])),
    "a startup taint": lambda c: c.set("spec.startupTaints", [{"key": "x", "effect": "NoExecute"}]),
    "a zone that the values pin": lambda c: (c.require(ZONE, "In", "us-west-2a", "us-west-2b"), [g["template"]["spec"]["nodeSelector"].update({"topology.kubernetes.io/zone": "us-west-2a"}) for g in c.workers]),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_left_alone(name: str) -> None:
    case = Case()
    RIGHT[name](case)
    assert case.findings() == []


REQUIREMENTS = "NodePool/gpu.spec.template.spec.requirements"
BROKEN = {
    "no pool": ("RPD560", "", lambda c: c.documents.pop(0)),
    "an older version": ("RPD560", "NodePool/gpu.apiVersion", lambda c: c.pool.update(apiVersion="karpenter.sh/v1beta1")),
    "a number among values": ("RPD560", "NodePool/gpu.spec.template.spec.requirements[0].values[0]", lambda c: c.require(TYPE, "Gt", 31)),
    "no class in the file": ("RPD560", "NodePool/gpu.spec.template.spec.nodeClassRef", lambda c: c.documents.pop()),
    "a label that no pool has": ("RPD561", "NodePool/gpu.spec.template.metadata.labels", lambda c: c.pool["spec"]["template"].pop("metadata")),
    "a head without a node": ("RPD561", "NodePool", lambda c: setattr(c, "elsewhere", frozenset())),
    "another type": ("RPD562", REQUIREMENTS, lambda c: c.require(TYPE, "In", "g6.12xlarge")),
    "types without EFA": ("RPD562", REQUIREMENTS, lambda c: c.any_type().require(TYPE, "In", "g6.4xlarge", "g5.xlarge")),
    "types without GPUs": ("RPD562", REQUIREMENTS, lambda c: c.any_type().require(TYPE, "In", "c", key="karpenter.k8s.aws/instance-category")),
    "types that are too small": ("RPD562", REQUIREMENTS, lambda c: (c.require(TYPE, "Lt", "33", key="karpenter.k8s.aws/instance-cpu"), [g["template"]["spec"]["containers"][0]["resources"]["requests"].update(cpu="40") for g in c.workers])),
    "interfaces without EFA": ("RPD562", REQUIREMENTS, lambda c: c.set("class.networkInterfaces", [{"interfaceType": "interface"}])),
    "another architecture": ("RPD562", REQUIREMENTS, lambda c: c.spec["requirements"].append({"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]})),
    "another zone": ("RPD563", REQUIREMENTS, lambda c: [g["template"]["spec"]["nodeSelector"].update({"topology.kubernetes.io/zone": "us-west-2c"}) for g in c.workers]),
    "two zones": ("RPD563", REQUIREMENTS, lambda c: c.require(ZONE, "In", "us-west-2a", "us-west-2b")),
    "no zone": ("RPD563", REQUIREMENTS, lambda c: c.spec["requirements"].pop(ZONE)),
    "a taint that is not tolerated": ("RPD564", "NodePool/gpu.spec.template.spec.taints", lambda c: c.set("spec.taints", [{"key": "team", "value": "ml", "effect": "NoSchedule"}])),
    "spot": ("RPD565", REQUIREMENTS, lambda c: c.require(CAPACITY, "In", "spot", "on-demand")),
    "any capacity": ("RPD565", REQUIREMENTS, lambda c: c.spec["requirements"].pop(CAPACITY)),
    "too few CPUs": ("RPD566", 'NodePool/gpu.spec.limits["cpu"]', lambda c: c.set("pool.limits", {"cpu": "48"})),
    "too few GPUs": ("RPD566", 'NodePool/gpu.spec.limits["nvidia.com/gpu"]', lambda c: c.set("pool.limits", {"nvidia.com/gpu": 1})),
    "too few nodes": ("RPD566", 'NodePool/gpu.spec.limits["nodes"]', lambda c: c.workers[0].update(replicas=2)),
    "no array of NVMe": ("RPD567", "EC2NodeClass/gpu.spec.instanceStorePolicy", lambda c: c.node_class["spec"].pop("instanceStorePolicy")),
    "a root disk for the image": ("RPD567", "EC2NodeClass/gpu.spec.blockDeviceMappings", lambda c: c.node_class["spec"].pop("instanceStorePolicy")),
    "a small root disk": ("RPD567", "EC2NodeClass/gpu.spec.blockDeviceMappings", lambda c: c.set("class.blockDeviceMappings", [{"rootVolume": True, "ebs": {"volumeSize": "10Gi"}}])),
    "consolidation": ("RPD568", "NodePool/gpu.spec.disruption.consolidationPolicy", lambda c: (setattr(c, "budgets", 0), c.set("pool.disruption", None))),
    "expiry by default": ("RPD568", "NodePool/gpu.spec.template.spec.expireAfter", lambda c: c.spec.pop("expireAfter")),
    "reserved without a reservation": ("RPD569", "EC2NodeClass/gpu.spec.capacityReservationSelectorTerms", lambda c: c.require(CAPACITY, "In", "reserved")),
    "a reservation that is not used": ("RPD569", REQUIREMENTS, lambda c: c.set("class.capacityReservationSelectorTerms", [{"id": "cr-1"}])),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_told_at_its_place(name: str) -> None:
    code, path, change = BROKEN[name]
    case = Case()
    change(case)
    assert (code, path) in found(case)


def test_the_annotation_keeps_a_pod_from_consolidation() -> None:
    case = Case()
    case.budgets = 0
    case.set("pool.disruption", {"consolidationPolicy": "WhenEmptyOrUnderutilized"})
    (told,) = case.findings()
    assert "prefill.podAnnotations" in told.remedy
    for group in case.workers:
        group["template"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    assert case.findings() == []


def test_engines_that_share_a_node_are_counted_once() -> None:
    """Two prefill engines of four GPUs fit on one p5.48xlarge."""
    case = Case()
    case.any_type().require(TYPE, "In", "p5.48xlarge")
    case.workers = [engine("prefill", gpus=4, efa=16, replicas=2), engine("decode", gpus=8, efa=32)]
    case.any_type()
    case.set("pool.limits", {"nvidia.com/gpu": "16"})
    assert case.findings() == []
    case.set("pool.limits", {"nvidia.com/gpu": "15"})
    assert [code for code, _ in found(case)] == ["RPD566"]


def test_no_value_of_another_type_makes_the_check_fail() -> None:
    for index, document in enumerate(Case().documents):
        for place in list(places(document)):
            for strange in (None, "x", 5, True, [], ["a"], [{}], {}, {"a": "b"}):
                case = Case()
                holder: Any = case.documents[index]
                for step in place[:-1]:
                    holder = holder[step]
                holder[place[-1]] = strange
                for finding in case.findings():
                    assert finding.message and finding.remedy, (place, strange)
    for documents in ([], [None], [1, "x"], [{"kind": "NodePool"}], [{"kind": ["NodePool"]}]):
        case = Case()
        case.documents = documents
        assert {code for code, _ in found(case)} == {"RPD560"}


def test_pods_on_either_kind_of_node_are_no_finding(tmp_path: Path) -> None:
    """The head on eksctl's system group, the engines on Karpenter's nodes; and the other way round."""
    config = yaml_text.load((ROOT / "eksctl/g6.yaml").read_text())
    config["managedNodeGroups"] = config["managedNodeGroups"][:1]
    eksctl, karpenter = tmp_path / "eksctl.yaml", tmp_path / "karpenter.yaml"
    eksctl.write_text(yaml.safe_dump(config))
    karpenter.write_text(f"{POOL}---{CLASS}")
    arguments = ValueArguments([ROOT / "values/g6-qwen3.5-9b.yaml"])
    both = of_values(default_chart(), arguments, eksctl=eksctl, karpenter=karpenter)
    assert both.findings == []
    alone = of_values(default_chart(), arguments, karpenter=karpenter)
    assert [(f.code, f.severity) for f in alone.findings] == [("RPD561", "warning")]
    without = of_values(default_chart(), arguments, eksctl=eksctl)
    assert {f.code for f in without.findings} >= {"RPD420"}


def test_the_example_of_the_docs_suits_the_reference(tmp_path: Path) -> None:
    text = (ROOT / "docs/eks.md").read_text()
    (example,) = (part for part in text.split("```") if "kind: NodePool" in part)
    path = tmp_path / "nodepools.yaml"
    path.write_text(example.removeprefix("yaml"))
    arguments = ValueArguments([ROOT / "values/g6-qwen3.5-9b.yaml"])
    report = of_values(default_chart(), arguments, eksctl=ROOT / "eksctl/g6.yaml", karpenter=path)
    assert report.findings == []
