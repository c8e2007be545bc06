"""What comes from Debian: installed as root where it is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from raypd.report import UsageError
from raypd.toolchain.process import progress, run

# Package -> a file that shows that it is there.
NEEDED = {
    "busybox-static": "busybox",
    "conntrack": "conntrack",
    "containerd": "containerd",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "debootstrap": "debootstrap",
    "etcd-server": "etcd",
    "iproute2": "ip",
    "ipset": "ipset",
    "iptables": "iptables",
    "procps": "sysctl",
    "runc": "runc",
    "util-linux": "nsenter",
}


def require() -> None:
    """Installs missing packages, or says which ones to install."""
    if os.geteuid() != 0:
        raise UsageError(
            "the devcluster makes namespaces, mounts and cgroups: run it as root, or give the tests"
            " an existing cluster with --kubeconfig."
        )
    # A user's PATH may lack the folders of system programs.
    os.environ["PATH"] += f"{os.pathsep}/usr/sbin{os.pathsep}/sbin"
    if not (lacking := missing()):
        return
    if not shutil.which("apt-get"):
        raise UsageError(
            f"install the programs of these Debian packages first: {' '.join(lacking)}"
        )
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    with progress(f"Installing {', '.join(lacking)}"):
        run(["apt-get", "update", "-qq"], env=quiet)
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *lacking]
        # Debian's packages start their daemons; on a machine without an init system they cannot.
        run(command, env=quiet | {"RUNLEVEL": "1"})
    if lacking := missing():
        raise UsageError(f"installed, but not to be found: {' '.join(lacking)}")


def missing() -> list[str]:
    return [package for package, sign in NEEDED.items() if not _there(sign)]


def _there(sign: str) -> bool:
    return Path(sign).exists() if sign.startswith("/") else shutil.which(sign) is not None
