"""A cgroup for each node, below one for the cluster, in which its kubelet keeps the pods."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from raypd.report import UsageError

MOUNT = Path("/sys/fs/cgroup")


def root(cluster: str, node: str) -> str:
    """The node's cgroup, as the kubelet's cgroupRoot wants it."""
    return f"/{_folder(cluster)}/{node}"


def create(cluster: str, node: str) -> None:
    for hierarchy in _hierarchies():
        path = hierarchy
        for part in (_folder(cluster), node):
            parent, path = path, path / part
            path.mkdir(exist_ok=True)
            # Version 1: a new cpuset is empty, and no process may enter it.
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (path / file).exists() and hierarchy != MOUNT:
                    (path / file).write_text((parent / file).read_text())
            # Version 2: what a group hands on to its children has to be said.
            if hierarchy == MOUNT:
                controllers = (path / "cgroup.controllers").read_text().split()
                (path / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in controllers))


def remove(cluster: str, patience: float = 20) -> None:
    """Removes the cluster's cgroups; what is still in one of them is the cluster's and is killed."""
    deadline = time.monotonic() + patience
    for hierarchy in _hierarchies():
        top = hierarchy / _folder(cluster)
        while top.exists():
            folders = [path for path in top.rglob("*") if path.is_dir()]
            for folder in [*sorted(folders, key=lambda path: -len(path.parts)), top]:
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise UsageError(f"{folder} cannot be removed: {error.strerror}") from None
                    _kill(top)
                    time.sleep(0.1)
                    break


def _kill(top: Path) -> None:
    for file in top.rglob("cgroup.procs"):
        with suppress(OSError):  # the group, or the process, is gone already
            for pid in file.read_text().split():
                os.kill(int(pid), signal.SIGKILL)


def _folder(cluster: str) -> str:
    return f"raypd-devcluster-{cluster}"


def _hierarchies() -> list[Path]:
    """The one of version 2, or each of version 1 (links such as cpu,cpuacct counted once)."""
    if (MOUNT / "cgroup.controllers").exists():
        return [MOUNT]
    return [path for path in MOUNT.iterdir() if path.is_dir() and not path.is_symlink()]
