"""The devcluster's nodes are those of eksctl/g6.yaml, and its addresses do not meet."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from itertools import combinations

from cluster.devcluster.layout import EKSCTL_CONFIG, Addresses, nodes
from raypd import yaml_text

ADDRESSES = Addresses(77)


def test_one_node_for_each_that_eksctl_makes():
    groups = yaml_text.load(EKSCTL_CONFIG.read_text())["managedNodeGroups"]
    made = nodes(ADDRESSES)
    assert len(made) == sum(group["desiredCapacity"] for group in groups)
    assert [node.name for node in made] == ["system", "gpu-a", "gpu-b"]


def test_nodes_carry_labels_and_taints_of_their_group():
    groups = {g["name"]: g for g in yaml_text.load(EKSCTL_CONFIG.read_text())["managedNodeGroups"]}
    for node in nodes(ADDRESSES):
        group = groups[node.labels["eks.amazonaws.com/nodegroup"]]
        assert node.labels.items() >= group["labels"].items()
        assert node.labels["node.kubernetes.io/instance-type"] == group["instanceType"]
        assert node.labels["topology.kubernetes.io/zone"] == group["availabilityZones"][0]
        taints = [(t["key"], t["value"], t["effect"]) for t in group.get("taints", [])]
        assert [(t.key, t.value, t.effect) for t in node.taints] == taints


def test_only_gpu_nodes_have_devices():
    devices = {node.name: node.devices for node in nodes(ADDRESSES)}
    one_of_each = {"nvidia.com/gpu": 1, "vpc.amazonaws.com/efa": 1}
    assert devices == {"system": {}, "gpu-a": one_of_each, "gpu-b": one_of_each}


def test_what_is_reserved_leaves_most_of_the_node():
    for node in nodes(ADDRESSES):
        assert 0 < node.reserved_cpus < node.cpus / 2
        assert 0 < node.reserved_mib < node.memory_mib / 2


def test_ranges_lie_in_the_cluster_and_apart():
    made = nodes(ADDRESSES)
    ranges = [ip_network(node.pods) for node in made] + [ip_network(ADDRESSES.services)]
    wires = ip_network(f"{ADDRESSES.control_plane}/24", strict=False)
    assert not any(a.overlaps(b) for a, b in combinations([*ranges, wires], 2))
    assert all(r.subnet_of(ip_network(ADDRESSES.network)) for r in [*ranges, wires])
    assert all(ip_network(node.pods).subnet_of(ip_network(ADDRESSES.all_pods)) for node in made)
    ends = [ADDRESSES.control_plane, ADDRESSES.host, *(node.address for node in made)]
    assert len(set(ends)) == len(ends)
    assert all(ip_address(end) in wires for end in ends)


def test_the_first_service_address_is_in_the_services_range():
    services = ip_network(ADDRESSES.services)
    assert ip_address(ADDRESSES.first_service) == next(services.hosts())


def test_clusters_do_not_overlap():
    assert not ip_network(Addresses(77).network).overlaps(ip_network(Addresses(78).network))
