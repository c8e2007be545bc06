"""A node: a machine with containerd, kubelet, kube-proxy and kube-router's firewall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from cluster.devcluster import cgroups, hardware, store
from cluster.devcluster.binaries import kubernetes, router
from cluster.devcluster.certificates import Authority
from cluster.devcluster.control_plane import server
from cluster.devcluster.layout import DOMAIN, NVME, OWN_FOLDERS, Addresses, Node
from cluster.devcluster.machine import Machine

PLUGINS = Path("/usr/lib/cni")
SOCKET = Path("/run/containerd/containerd.sock")


def prepare(machine: Machine, cluster: str, node: Node) -> None:
    """Gives the machine folders and a cgroup of its own, NVMe, and the looks of its type."""
    for path in OWN_FOLDERS:
        own = machine.folder / "root" / path.lstrip("/")
        own.mkdir(parents=True, exist_ok=True)
        machine.run("mount", "--bind", own, path)
    # The kubelet wants its folder to hand mounts on to containers.
    kubelet = "/var/lib/kubelet"
    machine.run("mkdir", "-p", "/run/lock", kubelet)
    machine.run("mount", "--bind", kubelet, kubelet)
    machine.run("mount", "--make-rshared", kubelet)
    if node.devices:
        machine.run("mkdir", "-p", NVME)
    cgroups.create(cluster, node.name)
    hardware.disguise(machine, node)


def nvme(machine: Machine) -> Path:
    """Where the node's NVMe lies on this host."""
    return machine.folder / "root" / NVME.relative_to("/")


def start_containerd(machine: Machine, node: Node, images: Path, pause: str) -> None:
    """containerd, with what the store `images` holds; `pause` is the image that holds a pod."""
    store.copy(images, machine.folder / "root" / "var/lib/containerd")
    config = machine.folder / "containerd.toml"
    network = machine.folder / "cni"
    network.mkdir(exist_ok=True)
    (network / "pods.conflist").write_text(_pod_network(node))
    config.write_text(f"""\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true  # lowering the score takes CAP_SYS_RESOURCE
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{network}"
""")
    machine.start("containerd", "containerd", "--config", config)


def start_kubelet(
    machine: Machine, cluster: str, node: Node, addresses: Addresses, authority: Authority
) -> None:
    user = f"system:node:{node.name}"
    kubeconfig = authority.kubeconfig(
        authority.folder / f"kubelet-{node.name}.kubeconfig",
        server(addresses),
        user,
        ["system:nodes"],
    )
    certificate, key = authority.issue(f"{node.name}-server", user, hosts=[node.address, node.name])
    resolv = machine.folder / "resolv.conf"
    resolv.touch()  # of this machine's name servers a pod could reach none
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [addresses.control_plane],
        "clusterDomain": DOMAIN,
        "resolvConf": str(resolv),
        "registerWithTaints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect}
            for taint in node.taints
        ],
        "systemReserved": {
            "cpu": f"{node.reserved_cpus * 1000:.0f}m",
            "memory": f"{node.reserved_mib:.0f}Mi",
        },
        "enforceNodeAllocatable": [],
        "cgroupRoot": cgroups.root(cluster, node.name),
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        # A root without CAP_SYS_RESOURCE may not set what a kubelet likes to set.
        "featureGates": {"KubeletInUserNamespace": True},
        # No quotas on a disk that is shared with everything else, and nothing is evicted or thrown
        # away because this machine's disk or memory is rather full.
        "localStorageCapacityIsolation": False,
        "evictionHard": {
            "memory.available": "1%",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }
    path = machine.folder / "kubelet.yaml"
    path.write_text(yaml.safe_dump(config))
    labels = ",".join(f"{key}={value}" for key, value in node.labels.items())
    machine.start(
        "kubelet",
        kubernetes("kubelet"),
        f"--config={path}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        f"--node-labels={labels}",
    )


def start_proxy(machine: Machine, node: Node, addresses: Addresses, authority: Authority) -> None:
    kubeconfig = authority.kubeconfig(
        authority.folder / f"proxy-{node.name}.kubeconfig",
        server(addresses),
        "system:kube-proxy",
    )
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": node.name,
        "mode": "iptables",
        # Packets from outside this range (this host) get the node's address, so that answers return.
        "clusterCIDR": addresses.all_pods,
        # Sizes of the kernel's table are not this cluster's to change.
        "conntrack": {"maxPerCore": 0, "min": 0},
    }
    path = machine.folder / "kube-proxy.yaml"
    path.write_text(yaml.safe_dump(config))
    machine.start("kube-proxy", kubernetes("kube-proxy"), f"--config={path}")


def start_firewall(
    machine: Machine, node: Node, addresses: Addresses, authority: Authority
) -> None:
    """Makes NetworkPolicies hold for the node's pods; the node has to be registered."""
    kubeconfig = authority.kubeconfig(
        authority.folder / f"router-{node.name}.kubeconfig",
        server(addresses),
        "kube-router",
        ["system:masters"],
    )
    machine.start(
        "kube-router",
        router(),
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={node.name}",
        f"--service-cluster-ip-range={addresses.services}",
        "--run-firewall",
        "--run-router=false",
        "--run-service-proxy=false",
        "--health-port=0",
    )


def _pod_network(node: Node) -> str:
    """Point to point, not a bridge: traffic between pods of one node is routed too, and kube-proxy
    sees it without br_netfilter."""
    return f"""\
{{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [{{
    "type": "ptp",
    "ipMasq": false,
    "ipam": {{
      "type": "host-local",
      "ranges": [[{{"subnet": "{node.pods}"}}]],
      "routes": [{{"dst": "0.0.0.0/0"}}]
    }}
  }}]
}}
"""
