"""The model on the Hugging Face Hub: that it is there, who may read it, and what it weighs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from kubernetes.utils import parse_quantity

from raypd.lint.subject import error, mapping
from raypd.preflight.outcome import NotChecked, Outcome, Seen
from raypd.preflight.site import Site

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_NVME = "/mnt/k8s-disks"  # where EKS's image mounts the nodes' own disks
_WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")


def token_valid(site: Site) -> Iterator[Outcome]:
    """$HF_TOKEN is one that the Hub knows."""
    if not site.token:
        raise NotChecked("$HF_TOKEN is not set")
    answer = site.web.get(f"{_hub()}/api/whoami-v2", _headers(site))
    if answer.status_code == 401:
        yield error(
            "RPD841",
            "$HF_TOKEN",
            "The Hub does not know this token: it is mistyped, has run out, or was revoked.",
            "A new one of https://huggingface.co/settings/tokens, and in the Secret as well.",
        )
        return
    answer.raise_for_status()
    yield Seen(f"the token of {answer.json().get('name')}")


def model_there(site: Site) -> Iterator[Outcome]:
    """The repository and its revision are there."""
    info = _info(site)
    if info is None:
        revision = site.value("model", "revision")
        named = f"{_repository(site)}{' at ' + revision if revision else ''}"
        known = "this token" if site.token else "nobody without a token"
        yield error(
            "RPD840",
            "model.source",
            f"The Hub shows {known} no {named}: it is not there, or private.",
            "`model.source` and `model.revision` as the Hub has them; for a private one $HF_TOKEN "
            "of somebody who may read it.",
        )
        return
    yield Seen(f"{_repository(site)} at {str(info.get('sha'))[:12]}")


def gated_access(site: Site) -> Iterator[Outcome]:
    """A gated or private model is read with a token that has access, here and in the pods."""
    info = _info(site)
    if info is None:
        raise NotChecked("the Hub shows no such model")
    closed = "gated" if info.get("gated") else "private" if info.get("private") else ""
    if not closed:
        yield Seen("not gated")
        return
    secret = site.value("huggingface", "existingSecret", "name")
    if not secret and not site.value("huggingface", "token"):
        yield error(
            "RPD842",
            "huggingface.existingSecret.name",
            f"{_repository(site)} is {closed}, and the values give the pods no token: engines end "
            "with 401 while they load.",
            f"kubectl -n {site.namespace} create secret generic hf-token --from-literal=HF_TOKEN=..., "
            "and `huggingface.existingSecret.name: hf-token`.",
        )
    if not site.token:
        raise NotChecked(f"it is {closed}, and $HF_TOKEN, which could try it, is not set")
    url = f"{_hub()}/api/models/{_repository(site)}/auth-check"
    status = site.web.get(url, _headers(site)).status_code
    if status in (401, 403, 404):
        yield error(
            "RPD843",
            "$HF_TOKEN",
            f"{_repository(site)} is {closed}, and this token may not read it (HTTP {status}).",
            f"Accept its terms at https://huggingface.co/{_repository(site)} with the token's owner; "
            "a fine-grained token also needs the right to read gated repositories.",
        )
    elif status == 200:
        yield Seen(f"{closed}, and this token may read it")
    else:
        yield NotChecked(f"the Hub answers HTTP {status} to whether this token may read it")


def weights_fit(site: Site) -> Iterator[Outcome]:
    """The cache has room for the weights."""
    info = _info(site)
    if info is None:
        raise NotChecked("the Hub shows no such model")
    size = _size(info)
    if not size:
        raise NotChecked("the Hub gives no sizes of its files")
    yield Seen(f"{size / 1e9:.1f} GB of weights")
    room, what = _room(site)
    if room < size:
        yield error(
            "RPD844",
            "cache",
            f"The weights take {size / 1e9:.1f} GB, and {what} has {room / 1e9:.1f} GB.",
            "A larger volume (`cache`), or an instance type with larger disks.",
        )
    else:
        yield Seen(f"{what} has {room / 1e9:.1f} GB")


def _size(info: dict[str, Any]) -> int:
    """Bytes of what an engine loads: the weights in one format, safetensors first, and the small
    files beside them."""
    files = {str(f["rfilename"]): int(f.get("size") or 0) for f in info.get("siblings") or []}
    top = {name: size for name, size in files.items() if "/" not in name}  # no originals, no ONNX
    for suffix in _WEIGHTS:
        if any(name.endswith(suffix) for name in top):
            others = tuple(s for s in _WEIGHTS if s != suffix)
            return sum(size for name, size in top.items() if not name.endswith(others))
    return 0


def _room(site: Site) -> tuple[float, str]:
    """(bytes, what it is) of the place that the weights are kept in."""
    cache = site.block("cache")
    kind = cache.get("type")
    if kind == "hostPath":
        path = str(mapping(cache.get("hostPath")).get("path"))
        disks = {
            nodes.type: mapping(site.instances.get(nodes.type)).get("nvmeGB")
            for nodes in site.nodes
            if nodes.gpus
        }
        known = {name: size for name, size in disks.items() if size}
        if not path.startswith(_NVME) or not known or len(known) < len(disks):
            raise NotChecked(f"the size of the nodes' disk at {path} is not known")
        smallest = min(known, key=lambda name: known[name])
        return known[smallest] * 1e9, f"the NVMe of a {smallest}"
    if kind == "persistentVolumeClaim":
        claim = mapping(cache.get("persistentVolumeClaim"))
        if claim.get("existingClaim"):
            raise NotChecked(f"the size of the claim {claim['existingClaim']} is not known here")
        return float(parse_quantity(claim.get("size"))), "the claim"
    limit = mapping(cache.get("emptyDir")).get("sizeLimit")
    if not limit:
        raise NotChecked("an emptyDir without a limit has what the node's disk has left")
    return float(parse_quantity(limit)), "the emptyDir"


def _info(site: Site) -> dict[str, Any] | None:
    """What the Hub says of the model; None when it shows none."""
    if site.block("huggingface").get("offline"):
        raise NotChecked("huggingface.offline keeps the engines off the Hub")
    revision = quote(site.value("model", "revision") or "main", safe="")
    url = f"{_hub()}/api/models/{_repository(site)}/revision/{revision}"
    answer = site.web.get(url, _headers(site), blobs="true")
    if answer.status_code == 401 and site.token:
        # To a token that is none the Hub shows nothing, not even what is public.
        answer = site.web.get(url, blobs="true")
    if answer.status_code in (401, 403, 404):
        return None
    if answer.status_code != 200:
        raise NotChecked(f"the Hub answers HTTP {answer.status_code} to what it knows of the model")
    return answer.json()


def _repository(site: Site) -> str:
    source = site.value("model", "source")
    if not _REPOSITORY.fullmatch(source):
        raise NotChecked(f"model.source {source} is no repository of the Hub")
    return source


def _hub() -> str:
    """The Hub, or the mirror that its own libraries would take."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def _headers(site: Site) -> dict[str, str]:
    return {"Authorization": f"Bearer {site.token}"} if site.token else {}


CHECKS = [
    ("token of the Hub ($HF_TOKEN)", token_valid),
    ("the model and its revision", model_there),
    ("access to a gated or private model", gated_access),
    ("room for the weights", weights_fit),
]
