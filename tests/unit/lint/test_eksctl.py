"""Each rule of an eksctl config against values: kept by the shipped g6 config, broken once."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from raypd import yaml_text
from raypd.data import load
from raypd.lint.eksctl import check_eksctl
from raypd.lint.eksctl.disks import weights_by_name
from raypd.render import ValueArguments, default_chart, render
from raypd.report import Finding

ROOT = Path(__file__).parents[3]
INSTANCES = yaml_text.load((ROOT / "charts/ray-pd-llm/files/instances.yaml").read_text())

EFA_TAINT = {"key": "aws.amazon.com/efa", "operator": "Exists", "effect": "NoSchedule"}
NODE_CONFIG = """
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec: {instance: {localStorage: {strategy: RAID0}}}
"""


def engine(role: str, *, efa: int = 1, gpus: int = 1, replicas: int = 1) -> dict[str, Any]:
    """A worker group as the chart renders it, with what the rules look at."""
    other = {"prefill": "decode", "decode": "prefill"}[role]
    devices = {"nvidia.com/gpu": str(gpus)} | ({"vpc.amazonaws.com/efa": efa} if efa else {})
    apart = {
        "labelSelector": {"matchLabels": {"app.kubernetes.io/component": other}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {
        "groupName": role,
        "replicas": replicas,
        "template": {
            "metadata": {"labels": {"app.kubernetes.io/component": role}},
            "spec": {
                "nodeSelector": {
                    "role": "gpu-worker",
                    "node.kubernetes.io/instance-type": "g6.8xlarge",
                },
                "tolerations": [dict(EFA_TAINT)],
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
                },
                "containers": [
                    {
                        "name": "ray-worker",
                        "resources": {
                            "requests": {"cpu": "16", "memory": "96Gi", **devices},
                            "limits": {"memory": "96Gi", **devices},
                        },
                    }
                ],
                "volumes": [
                    {"name": "cache", "hostPath": {"path": "/mnt/k8s-disks/0/ray-pd-llm"}},
                    {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
                ],
            },
        },
    }


def head() -> dict[str, Any]:
    resources = {"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {"memory": "8Gi"}}
    return {
        "metadata": {"labels": {"app.kubernetes.io/component": "head"}},
        "spec": {
            "nodeSelector": {"role": "system"},
            "containers": [{"name": "ray-head", "resources": resources}],
        },
    }


class Case:
    """The shipped g6 config and the reference pods, to be bent by a test."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = yaml_text.load((ROOT / "eksctl/g6.yaml").read_text())
        self.values: dict[str, Any] = {
            "model": {"source": "Qwen/Qwen3.5-9B", "quantization": ""},
            "head": {"instanceType": "m7i.xlarge"},
        }
        self.head = head()
        self.workers = [engine("prefill"), engine("decode")]
        self.weights_gib: float | None = None
        self.upgrade = "None"

    @property
    def system(self) -> dict[str, Any]:
        return self.config["managedNodeGroups"][0]

    @property
    def gpu(self) -> dict[str, Any]:
        return self.config["managedNodeGroups"][1]

    def pods(self) -> list[dict[str, Any]]:
        return [group["template"]["spec"] for group in self.workers]

    def select(self, **labels: str) -> None:
        for pod in self.pods():
            pod["nodeSelector"].update(labels)

    def on_type(self, name: str) -> None:
        """Config and pods agree on another instance type."""
        self.gpu["instanceType"] = name
        self.select(**{"node.kubernetes.io/instance-type": name})

    def request(self, **resources: Any) -> None:
        for pod in self.pods():
            for part in ("requests", "limits"):
                pod["containers"][0]["resources"][part].update(resources)

    def without_efa(self) -> None:
        for pod in self.pods():
            for part in ("requests", "limits"):
                pod["containers"][0]["resources"][part].pop("vpc.amazonaws.com/efa")

    def findings(self) -> list[Finding]:
        cluster = {
            "headGroupSpec": {"template": self.head},
            "workerGroupSpecs": self.workers,
        }
        manifests = [
            {"kind": "ConfigMap", "data": {}},
            {
                "kind": "RayService",
                "spec": {"upgradeStrategy": {"type": self.upgrade}, "rayClusterConfig": cluster},
            },
        ]
        return check_eksctl(self.config, self.values, manifests, INSTANCES, self.weights_gib)


def found(case: Case) -> list[tuple[str, str]]:
    return [(finding.code, finding.path) for finding in case.findings()]


def message(case: Case, code: str) -> str:
    return next(finding.message for finding in case.findings() if finding.code == code)


GPU_GROUP = "managedNodeGroups[1]"


def test_the_shipped_config_suits_the_reference_pods() -> None:
    assert Case().findings() == []


# --- what cannot be read -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ([], "kind"),
        (None, "kind"),
        ({"kind": "Deployment"}, "kind"),
        ({"kind": "ClusterConfig"}, "metadata"),
        ({"kind": "ClusterConfig", "metadata": {"name": "a"}}, "metadata.region"),
        (
            {"kind": "ClusterConfig", "metadata": {"name": "a", "region": "r"}},
            "managedNodeGroups",
        ),
        (
            {
                "kind": "ClusterConfig",
                "metadata": {"name": "a", "region": "r"},
                "managedNodeGroups": {"gpu": {}},
            },
            "managedNodeGroups",
        ),
        (
            {
                "kind": "ClusterConfig",
                "metadata": {"name": "a", "region": "r"},
                "managedNodeGroups": [{"name": "gpu", "volumeSize": "80"}],
            },
            "managedNodeGroups[0].volumeSize",
        ),
    ],
)
def test_a_malformed_file_is_a_finding(config: Any, path: str) -> None:
    findings = check_eksctl(config, {}, [], INSTANCES)
    assert {finding.code for finding in findings} == {"RPD401"}
    assert path in [finding.path for finding in findings]
    assert all(finding.remedy for finding in findings)


def places(tree: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inner = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, value in inner:
        yield (*above, key)
        yield from places(value, (*above, key))


def test_no_value_of_another_type_makes_the_check_fail() -> None:
    for place in list(places(Case().config)):
        for strange in (None, "x", 5, True, [], ["a"], [{}], {}, {"a": "b"}):
            case = Case()
            holder: Any = case.config
            for step in place[:-1]:
                holder = holder[step]
            holder[place[-1]] = strange
            for finding in case.findings():
                assert finding.message and finding.remedy, (place, strange)


# --- the cluster -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.31", "1.37", 1.35, None])
def test_a_kubernetes_version_outside_the_matrix(version: Any) -> None:
    case = Case()
    case.config["metadata"]["version"] = version
    assert found(case) == [("RPD402", "metadata.version")]


def test_a_zone_of_another_region() -> None:
    case = Case()
    case.config["metadata"]["region"] = "us-east-1"
    assert ("RPD403", "availabilityZones") in found(case)
    assert ("RPD403", f"{GPU_GROUP}.availabilityZones") in found(case)


def test_a_zone_that_the_cluster_does_not_have() -> None:
    case = Case()
    case.gpu["availabilityZones"] = ["us-west-2c"]
    assert found(case) == [("RPD403", f"{GPU_GROUP}.availabilityZones")]


def test_a_cluster_in_one_zone() -> None:
    case = Case()
    case.config["availabilityZones"] = ["us-west-2a"]
    assert found(case) == [("RPD404", "availabilityZones")]


# --- EFA ---------------------------------------------------------------------------------------


def test_an_efa_group_in_two_zones() -> None:
    case = Case()
    case.gpu["availabilityZones"] = ["us-west-2a", "us-west-2b"]
    assert ("RPD410", f"{GPU_GROUP}.availabilityZones") in found(case)


def test_an_efa_group_in_two_subnets() -> None:
    case = Case()
    del case.gpu["availabilityZones"]
    case.gpu["subnets"] = ["subnet-1", "subnet-2"]
    assert found(case) == [("RPD410", f"{GPU_GROUP}.subnets")]


def test_an_efa_group_that_names_no_zone() -> None:
    case = Case()
    del case.gpu["availabilityZones"]
    assert ("RPD410", f"{GPU_GROUP}.availabilityZones") in found(case)


def test_efa_on_a_type_without_it() -> None:
    case = Case()
    case.on_type("g6.4xlarge")
    case.request(cpu="8", memory="32Gi")
    codes = found(case)
    assert ("RPD411", f"{GPU_GROUP}.efaEnabled") in codes
    assert ("RPD414", f"{GPU_GROUP}.instanceType") in codes


def test_efa_asked_for_and_not_turned_on() -> None:
    case = Case()
    case.gpu["efaEnabled"] = False
    assert set(found(case)) == {("RPD414", f"{GPU_GROUP}.efaEnabled")}


def test_more_efa_interfaces_than_the_node_has() -> None:
    case = Case()
    case.request(**{"vpc.amazonaws.com/efa": 2})
    assert set(found(case)) == {("RPD414", f"{GPU_GROUP}.instanceType")}


def test_pods_that_do_not_want_efa_run_on_an_efa_group() -> None:
    case = Case()
    case.without_efa()
    assert found(case) == []


def test_many_interfaces_in_a_public_subnet() -> None:
    case = Case()
    case.on_type("p5.48xlarge")
    case.gpu["privateNetworking"] = False
    assert found(case) == [("RPD412", f"{GPU_GROUP}.privateNetworking")]
    case.on_type("g6.8xlarge")  # one interface gets a public address
    assert found(case) == []


def test_rdma_asked_of_a_type_without_rdma_read() -> None:
    case = Case()
    case.on_type("g5.8xlarge")
    for pod in case.pods():
        pod["containers"][0]["env"] = [{"name": "FI_EFA_USE_DEVICE_RDMA", "value": "1"}]
    assert set(found(case)) == {("RPD415", f"{GPU_GROUP}.instanceType")}
    case.on_type("g6.8xlarge")
    assert found(case) == []


# --- zones -------------------------------------------------------------------------------------


def test_pods_pinned_to_another_zone() -> None:
    case = Case()
    case.select(**{"topology.kubernetes.io/zone": "us-west-2b"})
    assert set(found(case)) == {("RPD413", f"{GPU_GROUP}.availabilityZones")}
    case.select(**{"topology.kubernetes.io/zone": "us-west-2a"})
    assert found(case) == []


def test_a_zone_in_the_pods_affinity_counts_as_well() -> None:
    case = Case()
    need = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-west-2b"]}
    for pod in case.pods():
        pod["affinity"]["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [need]}]
            }
        }
    assert set(found(case)) == {("RPD413", f"{GPU_GROUP}.availabilityZones")}


def two_groups(case: Case, zone: str) -> None:
    """One group a role; decode's is in `zone`."""
    case.gpu.update(labels={"role": "prefill"}, desiredCapacity=1)
    decode = copy.deepcopy(case.gpu)
    decode.update(name="decode", labels={"role": "decode"}, availabilityZones=[zone])
    case.config["managedNodeGroups"].append(decode)
    for group in case.workers:
        group["template"]["spec"]["nodeSelector"]["role"] = group["groupName"]


def test_roles_in_different_zones() -> None:
    case = Case()
    two_groups(case, "us-west-2b")
    assert found(case) == [("RPD413", "managedNodeGroups")]
    assert "EFA" in message(case, "RPD413")
    case = Case()
    two_groups(case, "us-west-2a")
    assert found(case) == []


def test_same_zone_without_efa_is_a_choice_of_the_values() -> None:
    case = Case()
    two_groups(case, "us-west-2b")
    case.without_efa()
    assert found(case) == []
    together = {
        "labelSelector": {"matchLabels": {"app.kubernetes.io/instance": "llm"}},
        "topologyKey": "topology.kubernetes.io/zone",
    }
    for pod in case.pods():
        pod["affinity"]["podAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [together]
        }
    assert "sameZone" in message(case, "RPD413")


# --- labels, taints, sizes ---------------------------------------------------------------------


def test_no_group_with_the_label() -> None:
    case = Case()
    case.gpu["labels"] = {"role": "gpu"}
    assert set(found(case)) == {("RPD420", f"{GPU_GROUP}.labels")}
    assert "role=gpu-worker" in message(case, "RPD420")


def test_no_group_for_the_head() -> None:
    case = Case()
    del case.system["labels"]
    assert found(case) == [("RPD420", "managedNodeGroups[0].labels")]


def test_another_instance_type() -> None:
    case = Case()
    case.gpu["instanceType"] = "g6.12xlarge"
    assert set(found(case)) == {("RPD424", f"{GPU_GROUP}.instanceType")}
    assert "g6.8xlarge" in message(case, "RPD424") and "g6.12xlarge" in message(case, "RPD424")


def test_a_group_of_several_types() -> None:
    case = Case()
    del case.gpu["instanceType"]
    case.gpu["instanceTypes"] = ["g6.8xlarge", "g6.16xlarge"]
    assert found(case) == [("RPD424", f"{GPU_GROUP}.instanceTypes")]


def test_a_type_that_the_table_lacks_is_said_not_to_be_checked() -> None:
    case = Case()
    case.on_type("g99.8xlarge")
    [finding] = case.findings()
    assert (finding.code, finding.severity) == ("RPD405", "warning")


@pytest.mark.parametrize(
    "tolerations",
    [
        [],
        [{"key": "aws.amazon.com/efa", "value": "false", "effect": "NoSchedule"}],
        [{"key": "aws.amazon.com/efa", "operator": "Exists", "effect": "NoExecute"}],
    ],
)
def test_a_taint_that_the_pods_do_not_tolerate(tolerations: list[dict[str, str]]) -> None:
    case = Case()
    for pod in case.pods():
        pod["tolerations"] = tolerations
    assert set(found(case)) == {("RPD421", f"{GPU_GROUP}.taints")}


@pytest.mark.parametrize(
    "tolerations",
    [
        [{"operator": "Exists"}],
        [{"key": "aws.amazon.com/efa", "value": "true"}],
        [{"key": "aws.amazon.com/efa", "operator": "Exists"}],
    ],
)
def test_tolerations_that_do(tolerations: list[dict[str, str]]) -> None:
    case = Case()
    for pod in case.pods():
        pod["tolerations"] = tolerations
    assert found(case) == []


def test_the_older_form_of_taints_is_read() -> None:
    case = Case()
    case.gpu["taints"] = {"aws.amazon.com/efa": "true:NoSchedule"}
    assert found(case) == []
    case.pods()[0]["tolerations"] = []
    assert found(case) == [("RPD421", f"{GPU_GROUP}.taints")]


@pytest.mark.parametrize(
    ("nodes", "code"), [({"desiredCapacity": 1}, True), ({"desiredCapacity": 2}, False)]
)
def test_roles_apart_need_a_node_each(nodes: dict[str, int], code: bool) -> None:
    case = Case()
    case.gpu.update(nodes)
    assert found(case) == ([("RPD422", f"{GPU_GROUP}.desiredCapacity")] if code else [])


def test_a_group_that_begins_at_zero_counts_with_what_it_may_grow_to() -> None:
    case = Case()
    case.gpu.update(desiredCapacity=0, minSize=0, maxSize=2)
    assert found(case) == []
    case.gpu["maxSize"] = 1
    assert found(case) == [("RPD422", f"{GPU_GROUP}.desiredCapacity")]


def test_several_replicas_share_a_node_with_room_for_them() -> None:
    case = Case()
    case.on_type("g6.12xlarge")  # 4 GPUs, one EFA interface, 48 vCPUs, 192 GiB
    case.without_efa()
    case.request(cpu="10", memory="40Gi")
    case.workers[0]["replicas"] = 4
    assert found(case) == []
    case.workers[0]["replicas"] = 5
    assert "need 3 nodes" in message(case, "RPD422")


def test_one_efa_interface_serves_one_pod() -> None:
    case = Case()
    case.on_type("g6.12xlarge")
    case.request(cpu="10", memory="40Gi")
    case.workers[0]["replicas"] = 2
    assert "need 3 nodes" in message(case, "RPD422")


def test_one_replica_over_two_nodes() -> None:
    case = Case()
    case.workers = [engine("prefill")]
    case.workers[0]["numOfHosts"] = 2
    assert found(case) == []
    case.workers[0]["numOfHosts"] = 3
    assert found(case) == [("RPD422", f"{GPU_GROUP}.desiredCapacity")]


def test_a_second_cluster_during_upgrades_needs_its_own_nodes() -> None:
    case = Case()
    case.upgrade = "NewCluster"
    assert ("RPD422", f"{GPU_GROUP}.desiredCapacity") in found(case)
    assert "NewCluster" in message(case, "RPD422")


def test_more_gpus_than_the_node_has() -> None:
    case = Case()
    case.request(**{"nvidia.com/gpu": "2"})
    assert set(found(case)) == {("RPD425", f"{GPU_GROUP}.instanceType")}


@pytest.mark.parametrize("resources", [{"memory": "124Gi"}, {"cpu": "32"}])
def test_pods_larger_than_what_the_node_leaves(resources: dict[str, str]) -> None:
    case = Case()
    case.request(**resources)
    assert set(found(case)) == {("RPD426", f"{GPU_GROUP}.instanceType")}


def test_the_head_larger_than_the_system_node() -> None:
    case = Case()
    case.head["spec"]["containers"][0]["resources"]["requests"]["memory"] = "14Gi"
    assert found(case) == [("RPD427", "managedNodeGroups[0].instanceType")]


def test_sidecars_count() -> None:
    case = Case()
    sidecar = {"name": "autoscaler", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}
    case.head["spec"]["containers"].append(sidecar)
    assert found(case) == [("RPD427", "managedNodeGroups[0].instanceType")]


def test_the_head_was_checked_for_another_type() -> None:
    case = Case()
    case.values["head"]["instanceType"] = "m7i.2xlarge"
    assert found(case) == [("RPD428", "managedNodeGroups[0].instanceType")]


# --- disks -------------------------------------------------------------------------------------


def no_nvme(case: Case) -> None:
    del case.gpu["overrideBootstrapCommand"]


def test_the_root_disk_of_the_head_holds_the_image() -> None:
    case = Case()
    case.system["volumeSize"] = 70
    assert found(case) == [("RPD430", "managedNodeGroups[0].volumeSize")]
    assert "73 GiB" in message(case, "RPD430")
    del case.system["volumeSize"]  # eksctl's default is 80 GiB
    assert found(case) == []


def test_with_the_nvme_array_the_root_disk_may_be_small() -> None:
    case = Case()
    case.gpu["volumeSize"] = 20
    assert found(case) == []


def test_images_left_on_the_root_disk() -> None:
    case = Case()
    case.gpu["overrideBootstrapCommand"] = NODE_CONFIG.replace(
        "RAID0", "RAID0, disabledMounts: [Containerd]"
    )
    assert found(case) == []
    case.gpu["volumeSize"] = 60
    assert found(case) == [("RPD430", f"{GPU_GROUP}.volumeSize")]


def test_the_cache_on_the_root_disk_counts_with_the_weights() -> None:
    case = Case()
    no_nvme(case)
    for pod in case.pods():
        pod["volumes"][0]["hostPath"]["path"] = "/var/cache/ray-pd-llm"
    assert found(case) == []  # 9 billion parameters are 17 GiB
    case.values["model"]["source"] = "Qwen/Qwen3-14B"
    assert found(case) == [("RPD430", f"{GPU_GROUP}.volumeSize")]
    case.values["model"]["quantization"] = "fp8"
    assert found(case) == []
    case.weights_gib = 20  # known better than by name
    assert found(case) == [("RPD430", f"{GPU_GROUP}.volumeSize")]
    case.gpu["volumeSize"] = 103
    assert found(case) == []


@pytest.mark.parametrize(
    "command",
    [None, NODE_CONFIG.replace("RAID0", "Mount"), NODE_CONFIG.replace("RAID0", "raid0")],
)
def test_an_nvme_cache_without_the_array(command: str | None) -> None:
    case = Case()
    no_nvme(case)
    if command:
        case.gpu["overrideBootstrapCommand"] = command
    assert found(case) == [("RPD431", f"{GPU_GROUP}.overrideBootstrapCommand")]


def test_an_array_mounted_elsewhere() -> None:
    case = Case()
    case.gpu["overrideBootstrapCommand"] = NODE_CONFIG.replace("RAID0", "RAID0, mountPath: /fast")
    [finding] = case.findings()
    assert finding.code == "RPD431" and "/fast/0" in finding.remedy


def test_an_array_made_by_a_bootstrap_command() -> None:
    case = Case()
    no_nvme(case)
    case.gpu["preBootstrapCommands"] = ["setup-local-disks raid0"]
    assert found(case) == []


def test_weights_larger_than_the_nvme() -> None:
    case = Case()
    case.weights_gib = 650
    assert found(case) == []
    case.weights_gib = 700
    assert found(case) == [("RPD432", f"{GPU_GROUP}.instanceType")]


@pytest.mark.parametrize(
    "command", ["#!/bin/bash\nmkfs.xfs /dev/nvme1n1", "MIME-Version: 1.0\n\n--x\nkind: NodeConfig"]
)
def test_a_bootstrap_command_that_is_no_node_config(command: str) -> None:
    case = Case()
    case.gpu["overrideBootstrapCommand"] = command
    assert ("RPD433", f"{GPU_GROUP}.overrideBootstrapCommand") in found(case)


def test_an_array_on_a_type_without_nvme() -> None:
    case = Case()
    case.system["overrideBootstrapCommand"] = NODE_CONFIG
    assert ("RPD433", "managedNodeGroups[0].overrideBootstrapCommand") in found(case)


@pytest.mark.parametrize(
    ("source", "billions"),
    [
        ("Qwen/Qwen3.5-9B", 9),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 30),
        ("openai/gpt-oss-120b", 120),
        ("Qwen/Qwen3-0.6B", 0.6),
        ("/cache/models/my-model", 0),
        ("acme/8bit-2B", 2),
    ],
)
def test_the_weights_by_the_name_of_the_model(source: str, billions: float) -> None:
    assert weights_by_name({"model": {"source": source}}) == pytest.approx(billions * 2e9 / 2**30)


# --- device plugins ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "llm", "effect": "NoSchedule"},
        {"key": "aws.amazon.com/efa", "value": "true", "effect": "NoExecute"},
    ],
)
def test_taints_that_the_efa_plugin_does_not_tolerate(taint: dict[str, str]) -> None:
    case = Case()
    case.gpu["taints"] = [taint]
    for pod in case.pods():
        pod["tolerations"] = [{"operator": "Exists"}]
    assert found(case) == [("RPD440", f"{GPU_GROUP}.taints[0]")]
    case.gpu["taints"][0]["effect"] = "PreferNoSchedule"
    assert found(case) == []


def test_the_nvidia_plugin_follows_one_value_of_a_key() -> None:
    case = Case()
    two_groups(case, "us-west-2a")
    case.without_efa()
    for group in case.config["managedNodeGroups"][1:]:
        group["efaEnabled"] = False
        group["taints"] = [{"key": "dedicated", "value": group["name"], "effect": "NoSchedule"}]
    for pod in case.pods():
        pod["tolerations"] = [{"operator": "Exists"}]
    assert found(case) == [("RPD441", "managedNodeGroups[2].taints[0]")]
    case.config["managedNodeGroups"][2]["taints"][0]["value"] = "gpu"
    assert found(case) == []


def test_a_type_that_the_efa_plugin_does_not_know() -> None:
    case = Case()
    case.on_type("g7.8xlarge")
    assert found(case) == [("RPD442", f"{GPU_GROUP}.instanceType")]


def test_an_image_without_the_nvidia_driver() -> None:
    case = Case()
    case.gpu["amiFamily"] = "Ubuntu2404"
    assert ("RPD443", f"{GPU_GROUP}.amiFamily") in found(case)


# --- capacity blocks ---------------------------------------------------------------------------


def block(case: Case, target: dict[str, str]) -> Case:
    case.gpu["instanceMarketOptions"] = {"marketType": "capacity-block"}
    case.gpu["capacityReservation"] = {"capacityReservationTarget": target}
    return case


def test_a_capacity_block_with_its_reservation() -> None:
    for target in (
        {"capacityReservationID": "cr-0123456789abcdef0"},
        {"capacityReservationResourceGroupARN": "arn:aws:resource-groups:eu-west-1:1:group/g"},
    ):
        assert found(block(Case(), target)) == []


def test_a_capacity_block_without_a_reservation() -> None:
    assert found(block(Case(), {})) == [("RPD450", f"{GPU_GROUP}.capacityReservation")]


@pytest.mark.parametrize("reservation", ["cr-00000000000000000", "cr-REPLACE-ME", ""])
def test_a_placeholder_instead_of_a_reservation(reservation: str) -> None:
    [finding] = block(Case(), {"capacityReservationID": reservation}).findings()
    assert finding.code == ("RPD451" if reservation else "RPD450")


@pytest.mark.parametrize(
    "bend",
    [
        lambda gpu: gpu.update(spot=True),
        lambda gpu: gpu.update(availabilityZones=["us-west-2a", "us-west-2b"], efaEnabled=False),
    ],
)
def test_a_capacity_block_is_neither_spot_nor_in_two_zones(
    bend: Callable[[dict[str, Any]], None],
) -> None:
    case = block(Case(), {"capacityReservationID": "cr-0123456789abcdef0"})
    bend(case.gpu)
    assert "RPD450" in [code for code, _ in found(case)]


# --- all at once -------------------------------------------------------------------------------


def test_several_mistakes_are_reported_together() -> None:
    case = Case()
    case.config["metadata"]["version"] = "1.29"
    case.gpu.update(desiredCapacity=1, taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}])
    no_nvme(case)
    case.system["volumeSize"] = 20
    codes = {code for code, _ in found(case)}
    assert {"RPD402", "RPD421", "RPD440", "RPD430"} <= codes


# --- the shipped files -------------------------------------------------------------------------

PAIRS = {
    "g6-qwen3.5-9b": "g6",
    "g6-qwen3.5-9b-aggregated": "g6",
    "g6-qwen2.5-14b-multinode": "g6",
    "g5-qwen3-8b-tcp": "g5-tcp",
    "g6e-qwen3-30b-a3b": "g6e",
    "p5-gpt-oss-120b": "p5",
}


def shipped(values: str, eksctl: str) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """(eksctl config, values, manifests) of a shipped pair, rendered by Helm."""
    file = ROOT / f"values/{values}.yaml"
    rendered = render(default_chart(), ValueArguments([file]))
    config = yaml_text.load((ROOT / f"eksctl/{eksctl}.yaml").read_text())
    return config, yaml_text.load(file.read_text()), rendered.manifests


def test_each_shipped_file_has_its_partner() -> None:
    on_aws = {file.stem for file in (ROOT / "values").glob("*.yaml")} - {"local-cpu"}
    assert on_aws == set(PAIRS)
    assert {file.stem for file in (ROOT / "eksctl").glob("*.yaml")} == set(PAIRS.values())


@pytest.mark.parametrize(("values", "eksctl"), PAIRS.items())
def test_a_shipped_pair_gives_no_finding(values: str, eksctl: str) -> None:
    config, given, manifests = shipped(values, eksctl)
    gpu = config["managedNodeGroups"][1]
    if eksctl == "p5":  # bought by whoever uses the file, and said so until then
        [placeholder] = check_eksctl(config, given, manifests, INSTANCES)
        assert (placeholder.code, placeholder.severity) == ("RPD451", "warning")
        target = gpu["capacityReservation"]["capacityReservationTarget"]
        target["capacityReservationID"] = "cr-0123456789abcdef0"
    assert check_eksctl(config, given, manifests, INSTANCES) == []


@pytest.mark.parametrize(("values", "eksctl"), PAIRS.items())
def test_a_shipped_pair_is_tight(values: str, eksctl: str) -> None:
    """The same render with one GPU node less, or on the next smaller type, does not fit."""
    config, given, manifests = shipped(values, eksctl)
    gpu = config["managedNodeGroups"][1]
    for key in ("desiredCapacity", "maxSize"):
        gpu[key] = max(0, gpu["maxSize"] - 1)
    codes = {finding.code for finding in check_eksctl(config, given, manifests, INSTANCES)}
    assert "RPD422" in codes
    gpu["instanceType"] = "g6.xlarge"
    codes = {finding.code for finding in check_eksctl(config, given, manifests, INSTANCES)}
    assert {"RPD424", "RPD426"} <= codes


def test_every_code_has_its_entry_among_the_rules() -> None:
    known = {rule["code"] for rule in load("rules.yaml")}
    sources = (ROOT / "scripts/raypd/lint/eksctl").glob("*.py")
    used = {code for file in sources for code in re.findall(r'"(RPD4\d\d)"', file.read_text())}
    assert used == {code for code in known if code.startswith("RPD4")}
