"""What the root disk and the NVMe array of each group have to hold, and what they have."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from raypd.lint.eksctl.cluster import AL2023, Group, Json, facts, listed, local_storage, node_config
from raypd.lint.eksctl.pods import Pod
from raypd.report import Finding


def _nvme_mount(group: Group) -> tuple[str, bool] | None:
    """(Mount point of the NVMe array, whether images are kept on it); None where there is none."""
    default = facts()["nodeDefaults"]["localStorageMountPath"]
    if group.family == AL2023 and (written := node_config(group)):
        storage = local_storage(written)
        if storage.get("strategy") in ("RAID0", "RAID10"):
            mount = str(storage.get("mountPath") or default).rstrip("/")
            return f"{mount}/0", "Containerd" not in (storage.get("disabledMounts") or [])
    commands = " ".join(map(str, group.raw.get("preBootstrapCommands") or []))
    if re.search(r"setup-local-disks\s+raid(0|10)\b", commands):
        return f"{default}/0", True
    return None


def weights_by_name(values: Json) -> float:
    """GiB of the weights, from the number in the model's name ("Qwen3-30B-A3B" -> 30e9 parameters).

    Two bytes a parameter, one where `model.quantization` is set; 0 where the name has no number.
    An estimate on the large side for checkpoints that come quantized.
    """
    model = values.get("model") or {}
    name = str(model.get("source") or model.get("id") or "").rsplit("/", 1)[-1]
    billions = re.search(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)[bB](?![A-Za-z0-9])", name)
    size = 1 if model.get("quantization") else 2
    return float(billions[1]) * 1e9 * size / 2**30 if billions else 0


def _under(path: str, mount: str) -> bool:
    return path == mount or path.startswith(mount + "/")


@dataclass(frozen=True)
class Needs:
    """GiB that the root disk and the NVMe array have to hold. `lost` are host paths that nothing
    makes, `minimum` the root disk that stays below the kubelet's limit.
    """

    root: float
    nvme: float
    lost: list[str]
    cache_on_root: bool

    @property
    def minimum(self) -> int:
        return math.ceil(self.root / facts()["diskGiB"]["usable"])

    @classmethod
    def of(cls, mount: tuple[str, bool] | None, guests: list[Pod], weights_gib: float) -> Needs:
        """`mount` is where the NVMe array is and whether images are kept on it, None without one."""
        sizes = facts()["diskGiB"]
        paths = sorted({path for pod in guests for path in pod.host_paths})
        default = facts()["nodeDefaults"]["localStorageMountPath"]
        lost = [
            path
            for path in paths
            if _under(path, default) and not (mount and _under(path, mount[0]))
        ]
        cache = (sizes["compileCaches"] + weights_gib) if paths else 0
        cache_on_nvme = bool(mount) and all(_under(path, mount[0]) for path in paths)
        cache_on_root = bool(paths) and not lost and not cache_on_nvme
        images = sizes["image"] + sizes["imageDownload"]
        state = sizes["logs"] + max(pod.emptydir_gib for pod in guests)
        root, nvme = sizes["operatingSystem"], 0.0
        if mount and mount[1]:
            nvme += images
        else:
            root += images
        if mount:
            nvme += state  # nodeadm moves /var/lib/kubelet and the pods' logs there
        else:
            root += state
        if cache_on_nvme:
            nvme += cache
        elif cache_on_root:
            root += cache
        return cls(root, nvme, lost, cache_on_root)


def disks(group: Group, guests: list[Pod], weights_gib: float) -> Iterator[Finding]:
    if not guests or group.family not in (AL2023, "AmazonLinux2"):
        return
    sizes = facts()["diskGiB"]
    mount = _nvme_mount(group)
    needs = Needs.of(mount, guests, weights_gib)
    if needs.lost:
        yield group.finding(
            "RPD431",
            "overrideBootstrapCommand",
            f"the pods mount {listed(needs.lost)} of the node, and nothing makes the NVMe array there"
            + (f" (it is at {mount[0]})" if mount else "")
            + "; they wait for the directory for ever",
            "a NodeConfig with `spec.instance.localStorage.strategy: RAID0`"
            if not mount
            else f"`cache.hostPath.path: {mount[0]}`",
        )
    size = group.raw.get("volumeSize") or facts()["nodeDefaults"]["volumeSizeGiB"]
    if size < needs.minimum:
        yield group.finding(
            "RPD430",
            "volumeSize",
            f"the root disk has {size} GiB and must hold {needs.root:.0f} GiB below the kubelet's "
            f"limit of {sizes['usable']:.0%}: {needs.minimum} GiB"
            + (f" (weights of some {weights_gib:.0f} GiB among it)" if needs.cache_on_root else ""),
            f"volumeSize: {needs.minimum} or more",
        )
    if mount and group.shape and group.shape["nvmeGB"]:
        have = group.shape["nvmeGB"] * 1e9 / 2**30
        full = needs.nvme / sizes["usable"]
        if have < full:
            yield group.finding(
                "RPD432",
                "instanceType",
                f"the NVMe disks of {group.types[0]} have {have:.0f} GiB, and image, caches and "
                f"weights need {full:.0f} GiB",
                "a type with more instance storage, or the cache on a persistentVolumeClaim",
            )
