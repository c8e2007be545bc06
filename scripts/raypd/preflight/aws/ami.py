"""The machine images of GPU nodes, and whether NVIDIA's driver in them is new enough."""

from __future__ import annotations

import re
from collections.abc import Iterator

from raypd.data import load
from raypd.lint.eksctl.cluster import AL2023
from raypd.lint.subject import error, mapping
from raypd.preflight.aws.account import Json, Refused
from raypd.preflight.outcome import NotChecked, Outcome, Seen
from raypd.preflight.site import Nodes, Site

# As EKS names its images: amazon-eks-node-al2023-x86_64-nvidia-1.35-v20260714.
_NAME = re.compile(r"amazon-eks-node-al2023-(?:x86_64|arm64)-nvidia-(\d+\.\d+)-v(\d{8})")
# As eksctl's `releaseVersion` takes it: 1.35.2-20260714.
_RELEASE = re.compile(r"(\d+\.\d+)\.\d+-(\d{8})")


def driver_in_ami(site: Site) -> Iterator[Outcome]:
    """The image that GPU nodes start from has a driver for the CUDA of the container image."""
    cuda, _ = cuda_of(site)
    needed = load("preflight.yaml")["driverOfCuda"].get(cuda)
    if needed is None:
        raise NotChecked(f"the driver that CUDA {cuda} needs is not known")
    gpu_nodes = [nodes for nodes in site.nodes if nodes.gpus]
    if not gpu_nodes:
        raise NotChecked("no nodes with GPUs are known: the values name no instance types")
    for nodes in gpu_nodes:
        try:
            name, minor, release = _image_of(site, nodes)
        except Refused as refusal:
            yield error(
                "RPD820",
                f"{nodes.path}.ami" if nodes.raw.get("ami") else nodes.path,
                str(refusal),
                "Leave `ami` out for the image that EKS recommends, or an image of this region.",
            )
            continue
        except NotChecked as reason:
            yield reason
            continue
        yield from _verdict(nodes, needed, name, minor, release)
    yield from _running(site, needed)


def cuda_of(site: Site) -> tuple[int, str]:
    """(major version, how it is known) of the CUDA in the container image."""
    try:
        cuda = site.image().cuda
    except NotChecked:
        cuda = None
    if cuda:
        return int(cuda.partition(".")[0]), "by the container image"
    ray = site.value("image", "rayVersion")
    known = load("preflight.yaml")["cudaOfRay"].get(ray)
    if known is None:
        raise NotChecked(f"the CUDA of an image with Ray {ray} is not known")
    return int(known), f"by Ray {ray} in the image"


def _image_of(site: Site, nodes: Nodes) -> tuple[str, str, int]:
    """(name, version of Kubernetes, day of the release) of the image that the nodes start from."""
    family = nodes.raw.get("amiFamily") or AL2023
    custom, pinned = nodes.raw.get("ami"), nodes.raw.get("releaseVersion")
    if pinned and (found := _RELEASE.fullmatch(str(pinned))):
        return f"release {pinned}", found[1], int(found[2])
    if custom and str(custom).startswith("ami-"):
        return _parsed(_described(site, str(custom)))
    if family != AL2023:
        raise NotChecked(f"{nodes.path}: which driver {family} has is not known")
    version = _kubernetes_version(site)
    machine = site.account.types([nodes.type])[nodes.type]["ProcessorInfo"]
    architecture = "arm64" if "arm64" in machine["SupportedArchitectures"] else "x86_64"
    parameter = (
        f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/nvidia/"
        "recommended/image_id"
    )
    identity = site.account.ask("ssm", "get_parameter", Name=parameter)["Parameter"]["Value"]
    return _parsed(_described(site, identity))


def _kubernetes_version(site: Site) -> str:
    written = mapping((site.config or {}).get("metadata")).get("version")
    return str(written or site.account.cluster(site.cluster_name)["version"])


def _described(site: Site, identity: str) -> Json:
    images = site.account.ask("ec2", "describe_images", ImageIds=[identity])["Images"]
    if not images:
        raise Refused("InvalidAMIID.NotFound", f"There is no image {identity} for this account.")
    return images[0]


def _parsed(image: Json) -> tuple[str, str, int]:
    name = image.get("Name") or image["ImageId"]
    found = _NAME.fullmatch(name)
    if not found:
        raise NotChecked(f"{name} is not EKS's own image, so its driver is not known")
    return name, found[1], int(found[2])


def _verdict(
    where: Nodes | str, needed: int, name: str, minor: str, release: int
) -> Iterator[Outcome]:
    first = load("preflight.yaml")["firstReleaseWithDriver"].get(needed, {}).get(minor)
    if first is None:
        yield NotChecked(f"which driver {name} has is not known")
    elif release < first:
        path = where.path if isinstance(where, Nodes) else where
        yield error(
            "RPD821",
            path,
            f"{name} has a driver older than {needed}, which the CUDA of the container image needs: "
            "engines end with `CUDA driver version is insufficient`.",
            f"An EKS image of v{first} or newer: no `ami` and `releaseVersion` for a new group, "
            "`eksctl upgrade nodegroup` for one that runs.",
        )
    else:
        yield Seen(f"{name} has driver {needed} or newer")


def _running(site: Site, needed: int) -> Iterator[Outcome]:
    """The images of GPU nodes that run already, which an update of EKS does not change."""
    kinds = {kind for nodes in site.nodes if nodes.gpus for kind in nodes.types}
    running: dict[str, list[str]] = {}
    for instance in site.account.instances_of(site.cluster_name):
        if instance["InstanceType"] in kinds:
            running.setdefault(instance["ImageId"], []).append(instance["InstanceId"])
    for identity, instances in running.items():
        try:
            name, minor, release = _parsed(_described(site, identity))
        except NotChecked as reason:
            yield NotChecked(f"{', '.join(instances)}: {reason}")
            continue
        yield from _verdict(f"nodes {', '.join(instances)}", needed, name, minor, release)


CHECKS = [("NVIDIA's driver in the nodes' image", driver_in_ami)]
