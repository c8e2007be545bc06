"""The container image in its registry: that it is there, for which machines, and with which CUDA."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from raypd.lint.subject import error, mapping
from raypd.preflight.aws.account import Account, Refused
from raypd.preflight.outcome import NotChecked, Outcome, Seen
from raypd.preflight.site import Site
from raypd.preflight.web import Web

Json = dict[str, Any]

_ONE = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_MANY = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_ECR = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?")
_DOCKER_HUB = "registry-1.docker.io"
# Arm types: a g after the generation (m7g, g5g), and those with Grace (p6e-gb200).
_ARM = re.compile(r"[a-z]+\d+g|[a-z0-9]+-gb\d")


class Absent(Exception):
    """The registry has no such image."""


@dataclass(frozen=True)
class Image:
    """What a registry knows of an image: its name, the `architectures` that it is made for, what its
    layers weigh (compressed, of one architecture), and the version of `cuda` that its config names."""

    name: str
    architectures: tuple[str, ...]
    size: int
    cuda: str | None


class _Registry(Protocol):
    """Where manifests and blobs come from."""

    def manifest(self, reference: str) -> Json:
        """The manifest of a tag or digest. Raises Absent."""
        ...

    def blob(self, digest: str) -> Json:
        """A blob that is JSON."""
        ...


def image_name(values: Json) -> str:
    """repository:tag or repository@digest, as the chart writes it."""
    block = mapping(values.get("image"))
    if block.get("digest"):
        return f"{block.get('repository')}@{block['digest']}"
    return f"{block.get('repository')}:{block.get('tag')}"


def look_up(name: str, web: Web, account: Account) -> Image:
    """Asks the registry. Raises Absent when it has no such image, and NotChecked when it does not
    tell."""
    host, repository, reference = _parsed(name)
    private = _ECR.fullmatch(host)
    registry: _Registry
    if private:
        registry = _Ecr(account, web, private[1], private[2], repository)
    else:
        registry = _Public(web, host, repository)
    top = registry.manifest(reference)
    if top.get("mediaType") in _MANY or "manifests" in top:
        platforms = [
            (str(mapping(entry.get("platform")).get("architecture")), entry["digest"])
            for entry in top["manifests"]
            if mapping(entry.get("platform")).get("os") == "linux"
        ]
        digests = dict(platforms)
        chosen = digests.get("amd64") or next(iter(digests.values()), None)
        if chosen is None:
            return Image(name, (), 0, None)
        architectures = tuple(sorted(digests))
        one = registry.manifest(chosen)
        config = registry.blob(one["config"]["digest"])
    else:
        one = top
        config = registry.blob(one["config"]["digest"])
        architectures = (str(config.get("architecture")),)
    variables = mapping(config.get("config")).get("Env") or []
    environment = dict(str(entry).partition("=")[::2] for entry in variables)
    size = sum(layer.get("size", 0) for layer in one.get("layers") or [])
    return Image(name, architectures, size, environment.get("CUDA_VERSION"))


def _parsed(name: str) -> tuple[str, str, str]:
    """(host, repository, tag or digest), with Docker Hub's short names written out."""
    path, at, digest = name.partition("@")
    last = path.rpartition("/")[2]
    tag = last.partition(":")[2]
    repository = path.removesuffix(f":{tag}") if tag else path
    host, slash, rest = repository.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        host, rest = _DOCKER_HUB, repository if slash else f"library/{repository}"
    elif host == "docker.io":
        host = _DOCKER_HUB
    return host, rest, digest if at else tag or "latest"


class _Public:
    """A registry of the OCI distribution API, asked without credentials."""

    def __init__(self, web: Web, host: str, repository: str) -> None:
        self._web, self._host, self._repository = web, host, repository
        self._headers = {"Accept": ", ".join((*_MANY, *_ONE))}

    def manifest(self, reference: str) -> Json:
        return self._get(f"manifests/{reference}")

    def blob(self, digest: str) -> Json:
        return self._get(f"blobs/{digest}")

    def _get(self, path: str) -> Json:
        url = f"https://{self._host}/v2/{self._repository}/{path}"
        answer = self._web.get(url, self._headers)
        if answer.status_code == 401 and "Authorization" not in self._headers:
            self._headers["Authorization"] = self._token(answer.headers.get("WWW-Authenticate", ""))
            answer = self._web.get(url, self._headers)
        if answer.status_code in (401, 403):
            raise NotChecked(
                f"{self._host} shows {self._repository} to nobody without credentials, and pull "
                "Secrets are not read"
            )
        if answer.status_code == 404:
            raise Absent
        try:
            return json.loads(answer.content)
        except ValueError as error:
            raise NotChecked(
                f"{self._host} answers {path} with something else than JSON"
            ) from error

    def _token(self, challenge: str) -> str:
        """A token for anybody, as the challenge says where to get it."""
        fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        if "realm" not in fields:
            raise NotChecked(f"{self._host} wants credentials, and pull Secrets are not read")
        query = {key: fields[key] for key in ("service", "scope") if key in fields}
        query.setdefault("scope", f"repository:{self._repository}:pull")
        answer = self._web.json(fields["realm"], **query)
        return f"Bearer {answer.get('token') or answer.get('access_token')}"


class _Ecr:
    """A private registry of AWS, asked with the account's credentials."""

    def __init__(
        self, account: Account, web: Web, owner: str, region: str, repository: str
    ) -> None:
        self._account = account if account.region == region else account.elsewhere(region)
        self._web = web
        self._where = {"registryId": owner, "repositoryName": repository}

    def manifest(self, reference: str) -> Json:
        key = "imageDigest" if reference.startswith("sha256:") else "imageTag"
        try:
            answer = self._account.ask(
                "ecr",
                "batch_get_image",
                **self._where,
                imageIds=[{key: reference}],
                acceptedMediaTypes=[*_MANY, *_ONE],
            )
        except Refused as refusal:
            if refusal.code != "RepositoryNotFoundException":
                raise
            raise Absent from refusal
        if not answer["images"]:
            raise Absent
        return json.loads(answer["images"][0]["imageManifest"])

    def blob(self, digest: str) -> Json:
        answer = self._account.ask(
            "ecr", "get_download_url_for_layer", **self._where, layerDigest=digest
        )
        return self._web.json(answer["downloadUrl"])


def image_there(site: Site) -> Iterator[Outcome]:
    """The registry has the image, for the architecture of each node."""
    name = image_name(site.values)
    try:
        image = site.image()
    except Absent:
        yield error(
            "RPD822",
            "image",
            f"The registry has no image {name}: pods stay in ImagePullBackOff.",
            "`image.repository` and `image.tag` of an image that is there.",
        )
        return
    cuda = f", CUDA {image.cuda}" if image.cuda else ""
    size = f", {image.size / 1e9:.1f} GB to pull" if image.size else ""
    yield Seen(f"{name} for {', '.join(image.architectures)}{size}{cuda}")
    for nodes in site.nodes:
        needed = "arm64" if _ARM.match(nodes.type) else "amd64"
        if needed not in image.architectures:
            yield error(
                "RPD823",
                nodes.path,
                f"{nodes.type} needs {needed}, and {name} is made for "
                f"{', '.join(image.architectures)}: containers end with `exec format error`.",
                "An image for it, or another instance type.",
            )


CHECKS = [("container image and its architecture", image_there)]
