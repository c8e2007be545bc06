"""What the cluster consists of: its addresses, and its nodes as eksctl/g6.yaml describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

from raypd import yaml_text
from raypd.lint.eksctl.cluster import Cluster, Group, Taint

ROOT = Path(__file__).resolve().parents[3]
EKSCTL_CONFIG = ROOT / "eksctl" / "g6.yaml"
INSTANCES = ROOT / "charts" / "ray-pd-llm" / "files" / "instances.yaml"

DOMAIN = "cluster.local"
# Where nodeadm's RAID0 over a node's NVMe disks is mounted, and the folder below it that pods use.
NVME = Path("/mnt/k8s-disks/0")
# What a node has for itself at the usual paths, so that it does not see this machine's there.
OWN_FOLDERS = ("/run", "/var/lib", "/var/log", "/mnt")


@dataclass(frozen=True)
class Addresses:
    """Each cluster has a 10.x.0.0/16 of its own; `second` is the x."""

    second: int

    @property
    def network(self) -> str:
        return f"10.{self.second}.0.0/16"

    @property
    def control_plane(self) -> str:
        return f"10.{self.second}.0.1"

    @property
    def host(self) -> str:
        """This machine's end of the wire into the cluster."""
        return f"10.{self.second}.0.254"

    def node(self, index: int) -> str:
        return f"10.{self.second}.0.{11 + index}"

    def pods(self, index: int) -> str:
        """The pods of one node."""
        return f"10.{self.second}.{64 + index}.0/24"

    @property
    def all_pods(self) -> str:
        return f"10.{self.second}.64.0/18"

    @property
    def services(self) -> str:
        return f"10.{self.second}.128.0/17"

    @property
    def first_service(self) -> str:
        """`kubernetes.default`: always the first address of the services' range."""
        return f"10.{self.second}.128.1"


@dataclass(frozen=True)
class Node:
    """A node as EC2 would deliver it: `cpus` and `memory_mib` are the instance type's, `reserved_*`
    what is not left for Ray's pods (the sum that `raypd lint` counts with)."""

    name: str
    address: str
    pods: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    devices: Mapping[str, int]
    cpus: int
    memory_mib: int
    reserved_cpus: float
    reserved_mib: float


def nodes(addresses: Addresses, config: Path = EKSCTL_CONFIG) -> list[Node]:
    """The nodes of an eksctl config; a group of several gives NAME-a, NAME-b ..."""
    cluster = Cluster.of(yaml_text.load(config.read_text()), yaml_text.load(INSTANCES.read_text()))
    named = [
        (group.name if group.nodes == 1 else f"{group.name}-{ascii_lowercase[number]}", group)
        for group in cluster.groups
        for number in range(group.nodes)
    ]
    return [_node(name, group, i, addresses) for i, (name, group) in enumerate(named)]


def _node(name: str, group: Group, index: int, addresses: Addresses) -> Node:
    assert group.shape is not None  # the shipped config names types of instances.yaml only
    cpus, memory_mib = group.shape["vcpu"], group.shape["memoryGiB"] * 1024
    free_cpus, free_mib = group.allocatable()
    devices = {"nvidia.com/gpu": group.gpus, "vpc.amazonaws.com/efa": group.efa_interfaces}
    # The kubelet itself sets the labels of operating system and architecture.
    labels = {k: v for k, v in group.labels.items() if not k.startswith("kubernetes.io/")}
    return Node(
        name=name,
        address=addresses.node(index),
        pods=addresses.pods(index),
        labels={
            **labels,
            "node.kubernetes.io/instance-type": group.types[0],
            "topology.kubernetes.io/zone": group.zones[0],
        },
        taints=group.taints,
        devices={name: count for name, count in devices.items() if count},
        cpus=cpus,
        memory_mib=memory_mib,
        reserved_cpus=cpus - free_cpus,
        reserved_mib=memory_mib - free_mib,
    )
