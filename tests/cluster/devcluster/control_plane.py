"""etcd, API server, controller manager and scheduler, as daemons of one machine."""

from __future__ import annotations

from pathlib import Path

from cluster.devcluster.binaries import kubernetes
from cluster.devcluster.certificates import Authority
from cluster.devcluster.layout import DOMAIN, Addresses
from cluster.devcluster.machine import Machine

ETCD = "http://127.0.0.1:2379"  # loopback of the machine's own network: pods cannot reach it
DAEMONS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


def server(addresses: Addresses) -> str:
    return f"https://{addresses.control_plane}:6443"


def start(machine: Machine, addresses: Addresses, authority: Authority) -> None:
    """Starts all four; the clients among them wait for the API server by themselves."""
    keys = authority.key_pair("service-accounts")
    start_etcd(machine)
    start_api_server(machine, addresses, authority, keys)
    url, folder = server(addresses), authority.folder
    # Kubernetes has roles for these two user names.
    manager = authority.kubeconfig(
        folder / "controller-manager.kubeconfig", url, "system:kube-controller-manager"
    )
    scheduler = authority.kubeconfig(folder / "scheduler.kubeconfig", url, "system:kube-scheduler")
    machine.start(
        "kube-controller-manager",
        kubernetes("kube-controller-manager"),
        f"--kubeconfig={manager}",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={keys[1]}",
        f"--root-ca-file={authority.certificate}",
        # Each node knows its pods' range already, and the routes are set.
        "--controllers=*,-node-ipam-controller,-node-route-controller",
    )
    machine.start(
        "kube-scheduler",
        kubernetes("kube-scheduler"),
        f"--kubeconfig={scheduler}",
        "--leader-elect=false",
    )


def start_etcd(machine: Machine) -> None:
    machine.start(
        "etcd",
        "etcd",
        f"--data-dir={machine.folder / 'etcd'}",
        f"--listen-client-urls={ETCD}",
        f"--advertise-client-urls={ETCD}",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--logger=zap",
    )


def start_api_server(
    machine: Machine, addresses: Addresses, authority: Authority, keys: tuple[Path, Path]
) -> None:
    certificate, key = authority.issue(
        "kube-apiserver",
        "kube-apiserver",
        hosts=[
            addresses.control_plane,
            addresses.first_service,
            "kubernetes.default.svc",
            f"kubernetes.default.svc.{DOMAIN}",
        ],
    )
    # The user by whom the API server asks kubelets for logs and exec.
    kubelet_certificate, kubelet_key = authority.issue(
        "apiserver-kubelet-client", "kube-apiserver-kubelet-client", ["system:masters"]
    )
    public, private = keys
    machine.start(
        "kube-apiserver",
        kubernetes("kube-apiserver"),
        f"--etcd-servers={ETCD}",
        f"--advertise-address={addresses.control_plane}",
        f"--service-cluster-ip-range={addresses.services}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--client-ca-file={authority.certificate}",
        f"--kubelet-client-certificate={kubelet_certificate}",
        f"--kubelet-client-key={kubelet_key}",
        f"--kubelet-certificate-authority={authority.certificate}",
        "--kubelet-preferred-address-types=InternalIP",  # node names are in no DNS
        f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
        f"--service-account-key-file={public}",
        f"--service-account-signing-key-file={private}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
    )
