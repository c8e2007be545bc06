"""Images that cannot be pulled (RPD62x). Words of Kubernetes 1.35 (pkg/kubelet/images) and of
containerd."""

from __future__ import annotations

import re
from collections.abc import Iterator

from raypd.live.diagnosis.trouble import Check, Trouble, of_pod
from raypd.live.snapshot import Json, Snapshot, containers

_REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
)
# In this order: "pull access denied, repository does not exist or may require authorization" is both.
_DENIED = re.compile(
    r"401 Unauthorized|403 Forbidden|no basic auth credentials|pull access denied|denied:|"
    r"authorization failed|authentication required|insufficient_scope|unauthorized"
)
_FULL = re.compile(r"no space left on device")
_LIMITED = re.compile(r"toomanyrequests|429 Too Many Requests|rate limit", re.IGNORECASE)
_UNREACHABLE = re.compile(
    r"no such host|i/o timeout|connection refused|TLS handshake timeout|network is unreachable|"
    r"connection reset|server misbehaving|no route to host|context deadline exceeded|"
    r"x509: certificate"
)
_ABSENT = re.compile(r"not found|manifest unknown|no match for platform|does not exist")
_OWN_REGISTRY = re.compile(r"\d{12}\.dkr\.ecr\.[\w-]+\.amazonaws\.com")


def not_pulled(snapshot: Snapshot) -> Iterator[Trouble]:
    for pod in snapshot.alive():
        for container in containers(pod):
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _REASONS:
                yield _trouble(pod, container, waiting, snapshot)
                break  # the containers of a pod have one image, or wait for one another


def _trouble(pod: Json, container: Json, waiting: Json, snapshot: Snapshot) -> Trouble:
    image, reason = container["image"], waiting["reason"]
    words = _words(pod, waiting, snapshot)
    values = "image.repository, image.tag and image.digest"
    if reason == "InvalidImageName":
        return of_pod(
            "RPD623",
            pod,
            f"`{image}` is no name of an image: {words}",
            f"{values} that make a valid name, the tag in quotes.",
        )
    if reason == "ErrImageNeverPull":
        return of_pod(
            "RPD624",
            pod,
            f"The image {image} is not on the node, and its pull policy is Never.",
            "image.pullPolicy IfNotPresent.",
        )
    if _FULL.search(words):
        return of_pod(
            "RPD625",
            pod,
            f"The disk of node {pod['spec'].get('nodeName')} is too small for the image {image}: "
            f"{words}",
            "A larger root volume of the node group (eksctl: volumeSize); `raypd lint --eksctl` "
            "computes the least.",
        )
    if _DENIED.search(words):
        return of_pod(
            "RPD621",
            pod,
            f"The registry does not give the image {image} to this node: {words}"
            f"{_missing_secrets(pod, snapshot)}",
            _credentials(image, snapshot.namespace),
        )
    if _LIMITED.search(words) or _UNREACHABLE.search(words):
        return of_pod(
            "RPD622",
            pod,
            f"The node cannot reach the registry of the image {image}, or is sent away: {words}",
            "A way from the node to the registry (NAT gateway or VPC endpoints, proxy, rate limits), "
            "or a copy of the image in a registry that the node reaches (image.repository).",
        )
    if _ABSENT.search(words):
        return of_pod(
            "RPD620",
            pod,
            f"There is no image {image}: {words}",
            f"{values} of an image that is there, for the nodes' processor.",
        )
    return of_pod(
        "RPD624", pod, f"The image {image} cannot be pulled: {words}", "What the words name."
    )


def _words(pod: Json, waiting: Json, snapshot: Snapshot) -> str:
    """The reason of the pull's failure. While it is backed off older kubelets say only that it is,
    and the event of the try before has the reason."""
    message = waiting.get("message") or ""
    if waiting["reason"] == "ImagePullBackOff" and "Err" not in message:
        events = snapshot.events_of(pod, "Failed")
        pulls = [e["message"] for e in events if e["message"].startswith("Failed to pull image")]
        message = pulls[0] if pulls else message
    return message or waiting["reason"]


def _missing_secrets(pod: Json, snapshot: Snapshot) -> str:
    events = snapshot.events_of(pod, "FailedToRetrieveImagePullSecret")
    return f". {events[0]['message']}" if events else ""


def _credentials(image: str, namespace: str) -> str:
    if _OWN_REGISTRY.match(image):
        return (
            "A policy with ECR read access on the role of the {role} nodes "
            "(AmazonEC2ContainerRegistryPullOnly), and for another account's registry a repository "
            "policy that lets this one in."
        )
    return (
        f"The name of the image, and a pull secret: `kubectl -n {namespace} create secret "
        "docker-registry NAME --docker-server=... --docker-username=... --docker-password=...`, and "
        "NAME in image.pullSecrets."
    )


CHECKS: list[Check] = [not_pulled]
