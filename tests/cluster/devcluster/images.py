"""Container images made here, as docker-archive files: no registry and no Docker takes part.

pause      holds a pod's namespaces
operator   KubeRay's operator, one static program
runtime    what Ray and vLLM need of a system (shell, compiler, libraries). The Python environment
           itself, 6 GB, is not copied into it: pods mount it read-only from this machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.devcluster import binaries
from raypd import local
from raypd.importer.pods import GUARD_FOLDER
from raypd.toolchain import runtime_python
from raypd.toolchain.cache import once
from raypd.toolchain.process import run
from raypd.toolchain.programs import pins

REPOSITORY = "devcluster.local"
USER = 1000  # the chart's default user of Ray's pods
# bash and wget: KubeRay's probes. g++ and openssl: vLLM has torch compile small functions even when
# eager (and precompile a header under a hash that openssl computes), and stops where it cannot.
# procps: Ray. python3: `helm test` runs without the mounted environment. redis-server: keeps the state
# of Ray's head. The rest are libraries of Python's and vLLM's extension modules.
SYSTEM = (
    *("bash", "wget", "procps", "g++", "openssl", "python3", "redis-server"),
    *("libgomp1", "libnuma1"),
    *("libbz2-1.0", "libexpat1", "libffi8", "liblzma5", "libreadline8", "libsqlite3-0", "libssl3"),
    "zlib1g",
)
# What the Pythons of a local run find on their path; pods have it here. NIXL's progress thread, which
# otherwise keeps a whole core busy for each engine, rests in it.
INSIDE = Path(local.__file__).with_name("inside")
INSIDE_MOUNT = "/opt/raypd/inside"
LEFT_OUT = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/man",
)


@dataclass(frozen=True)
class Image:
    name: str
    archive: Path

    @property
    def repository(self) -> str:
        return self.name.rsplit(":", 1)[0]

    @property
    def tag(self) -> str:
        return self.name.rsplit(":", 1)[1]


def pause() -> Image:
    busybox = Path(shutil.which("busybox") or "")
    wait = "trap exit TERM; while :; do sleep 3600 & wait; done"
    config = {"Entrypoint": ["/busybox", "sh", "-c", wait]}
    return _of_one_file("pause", busybox, "busybox", config)


def operator() -> Image:
    config = {"Entrypoint": ["/manager"], "User": "65532"}
    version = pins()["kuberay"]["version"]  # in the tag, as in those of KubeRay's own images
    return _of_one_file("kuberay-operator", binaries.operator(), "manager", config, f"{version}-")


def runtime() -> Image:
    """The system, with the CPU runtime's programs first on its PATH."""
    environment = runtime_python().parents[1]
    suite = _release()["VERSION_CODENAME"]  # the same libraries as this machine's Python has
    key = hashlib.sha256(" ".join((suite, *SYSTEM, *LEFT_OUT)).encode()).hexdigest()[:12]

    def make(layer: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="runtime-", dir=layer.parent) as temporary:
            root = Path(temporary, "root")
            run(["debootstrap", "--variant=minbase", f"--include={','.join(SYSTEM)}", suite, root])
            for part in LEFT_OUT:
                shutil.rmtree(root / part, ignore_errors=True)
            with (root / "etc" / "passwd").open("a") as users:
                users.write(f"ray:x:{USER}:{USER}::/tmp:/bin/bash\n")
            # The environment is mounted where it lies on the host, maybe below /root, and Ray's
            # user has to get there.
            (root / "root").chmod(0o755)
            with tarfile.open(layer, "w") as tar:
                tar.add(root, arcname=".")

    layer = once(f"devcluster/images/runtime-{key}.layer.tar", "Making the runtime image", make)
    path = f"{environment}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return _image("runtime", layer, {"Env": [f"PATH={path}", "LANG=C.UTF-8"]})


def runtime_pod() -> dict[str, Any]:
    """What a role of the chart's values needs to run in the image: volumes and mounts that bring the
    Python environment, and the Python that it was made of, into a pod at the same paths as here; and
    the environment variable for `INSIDE`."""
    python = runtime_python()
    environment, base = python.parents[1], python.resolve().parents[1]
    # Copied into the cache, which nodes see: the checkout may lie where a node has its own folders.
    inside = once(f"devcluster/inside-{_hash_of(INSIDE)}", "Copying", _copy_inside)
    folders = {"cpu-runtime": (environment, environment), "inside": (inside, INSIDE_MOUNT)}
    if base != Path("/usr"):  # the image has that one
        folders["python"] = (base, base)
    return {
        "volumes": [
            {"name": name, "hostPath": {"path": str(path), "type": "Directory"}}
            for name, (path, _) in folders.items()
        ],
        "volumeMounts": [
            {"name": name, "mountPath": str(mount), "readOnly": True}
            for name, (_, mount) in folders.items()
        ],
        "env": {"PYTHONPATH": f"{INSIDE_MOUNT}:{INSIDE_MOUNT}/rest:{GUARD_FOLDER}"},
    }


def _copy_inside(folder: Path) -> None:
    shutil.copytree(INSIDE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)  # Ray's user reads it


def _hash_of(folder: Path) -> str:
    files = sorted(f for f in folder.rglob("*") if f.is_file() and f.suffix != ".pyc")
    content = hashlib.sha256()
    for file in files:
        content.update(f"{file.relative_to(folder)}\n".encode() + file.read_bytes())
    return content.hexdigest()[:12]


def _of_one_file(
    name: str, file: Path, inside: str, config: dict[str, Any], tag: str = ""
) -> Image:
    key = hashlib.sha256(file.read_bytes()).hexdigest()[:12]

    def make(layer: Path) -> None:
        with tarfile.open(layer, "w") as tar:
            entry = tar.gettarinfo(str(file), arcname=inside)
            entry.mode, entry.uid, entry.gid, entry.mtime = 0o755, 0, 0, 0
            with file.open("rb") as content:
                tar.addfile(entry, content)

    layer = once(f"devcluster/images/{name}-{key}.layer.tar", f"Making the image {name}", make)
    return _image(name, layer, config, tag)


def _image(name: str, layer: Path, config: dict[str, Any], tag: str = "") -> Image:
    """A docker-archive of one layer; its tag, after `tag`, is a hash of what is inside."""
    inside = json.dumps([layer.name, config], sort_keys=True).encode()
    reference = f"{REPOSITORY}/{name}:{tag}{hashlib.sha256(inside).hexdigest()[:12]}"

    def make(archive: Path) -> None:
        with layer.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        image = {
            "architecture": _architecture(),
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
        blob = json.dumps(image).encode()
        file = f"{hashlib.sha256(blob).hexdigest()}.json"
        manifest = [{"Config": file, "RepoTags": [reference], "Layers": ["layer.tar"]}]
        with tarfile.open(archive, "w") as tar:
            for entry, data in ((file, blob), ("manifest.json", json.dumps(manifest).encode())):
                info = tarfile.TarInfo(entry)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
            tar.add(layer, arcname="layer.tar")

    file = f"devcluster/images/{name}-{reference.rsplit(':', 1)[1]}.tar"
    return Image(reference, once(file, f"Packing the image {name}", make))


def _architecture() -> str:
    import platform

    return {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def _release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return dict(line.replace('"', "").split("=", 1) for line in lines if "=" in line)
