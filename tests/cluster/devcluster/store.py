"""A containerd folder that holds the images already, made once; each node starts with a copy."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from cluster.devcluster import machine
from cluster.devcluster.api import wait
from cluster.devcluster.images import Image
from cluster.devcluster.machine import Machine, execute
from raypd.toolchain.cache import once


def filled(images: list[Image]) -> Path:
    """The folder with these images imported and unpacked."""
    key = hashlib.sha256(" ".join(sorted(image.name for image in images)).encode()).hexdigest()

    def make(root: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="raypd-store-") as folder:
            host = machine.create("store", Path(folder))
            try:
                _import(host, root, images)
            finally:
                holder = host.holder
                holder.kill()
                holder.wait(30)

    return once(f"devcluster/stores/{key[:12]}", "Unpacking images", make)


def copy(store: Path, root: Path) -> None:
    """A folder of its own for a node. Files of images never change and are linked; the databases
    about them are copied."""
    execute(["cp", "--archive", "--link", str(store), str(root)])
    for database in store.rglob("*.db"):
        own = root / database.relative_to(store)
        own.unlink()
        shutil.copy2(database, own)


def _import(host: Machine, root: Path, images: list[Image]) -> None:
    socket = host.folder / "containerd.sock"
    config = host.folder / "containerd.toml"
    config.write_text(f"""\
version = 2
root = "{root}"
state = "{host.folder / "state"}"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{socket}"
""")
    host.start("containerd", "containerd", "--config", config)

    def answers() -> bool:
        with suppress(RuntimeError):
            host.run("ctr", "--address", socket, "version")
            return True
        return False

    wait("containerd", answers, 30, lambda: host.demand("containerd"))
    for image in images:
        host.run("ctr", "--address", socket, "-n", "k8s.io", "images", "import", image.archive)
    host.stop("containerd")
