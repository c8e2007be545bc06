"""The chart as Helm renders it: manifests, the RayService, and the serve config inside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from raypd import yaml_text
from raypd.render.chart import default_chart
from raypd.render.helm import HelmFailed, ValueArguments, template
from raypd.render.refusal import explain
from raypd.report import Finding, UsageError

__all__ = [
    "RenderRefused",
    "Rendered",
    "ValueArguments",
    "all_from_manifest",
    "default_chart",
    "from_manifest",
    "is_kept",
    "manifest_text",
    "render",
]


class RenderRefused(Exception):
    """The chart does not accept the values; `findings` says why, one entry per broken rule.

    `rendered` is what the values would give without the keys that the schema does not know, when
    nothing else is wrong with them; else None.
    """

    def __init__(self, findings: list[Finding], rendered: Rendered | None = None) -> None:
        super().__init__("; ".join(f"{f.code} {f.path}: {f.message}" for f in findings))
        self.findings = findings
        self.rendered = rendered


@dataclass(frozen=True)
class Rendered:
    """`text` as Helm printed it, the same parsed into `manifests`, the one `rayservice` among them,
    and `serve_config`, its serveConfigV2 parsed.
    """

    text: str
    manifests: list[dict[str, Any]]
    rayservice: dict[str, Any]
    serve_config: dict[str, Any]

    @property
    def name(self) -> str:
        """The RayService's name; empty where it has none."""
        metadata = self.rayservice.get("metadata")
        return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def render(
    chart: Path,
    arguments: ValueArguments,
    release: str = "llm",
    namespace: str = "inference",
    helm: Path | None = None,
) -> Rendered:
    """Renders `chart` (a folder or a .tgz) with the values given the way Helm takes them.

    `helm` is the program to run; None takes the one of `raypd.toolchain`. Raises RenderRefused when
    the values break the schema or a rule of the chart, and UsageError when a file is missing or
    cannot be read.
    """
    origin = f"the chart {chart}"
    try:
        text = template(chart, arguments, release, namespace, helm)
    except HelmFailed as failure:
        findings, lax = explain(failure, chart, arguments, release, namespace, helm)
        rendered = from_manifest(lax, origin) if lax is not None else None
        raise RenderRefused(findings, rendered) from failure
    return from_manifest(text, origin)


def manifest_text(path: Path, option: str) -> str:
    """What is in the manifest file that an option names. Raises UsageError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option} {path} cannot be read: {error}") from error


def from_manifest(text: str, origin: str) -> Rendered:
    """The one RayService in manifests that are already rendered; `origin` names them in messages."""
    found = all_from_manifest(text, origin)
    if len(found) > 1:
        raise UsageError(
            f"{origin} holds {len(found)} RayServices and must hold exactly one: "
            f"{', '.join(one.name for one in found)}. Give a file for each."
        )
    return found[0]


def all_from_manifest(text: str, origin: str) -> list[Rendered]:
    """Every RayService of manifests in YAML or JSON, each with the other objects beside it; never
    none. A `List` stands for its items.
    """
    try:
        documents = list(yaml_text.load_all(text))
    except yaml.YAMLError as error:
        raise UsageError(f"{origin} is not YAML: {error}. Give manifests.") from error
    manifests = list(_objects(documents))
    rayservices = [m for m in manifests if m.get("kind") == "RayService"]
    if not rayservices:
        kinds = {str(m.get("kind")) for m in manifests}
        alone = ": a RayCluster does not say what is served" if "RayCluster" in kinds else ""
        raise UsageError(
            f"{origin} holds no RayService (it holds {', '.join(sorted(kinds)) or 'nothing'}){alone}. "
            "Give a RayService, or the output of `raypd render` or `helm template`."
        )
    others = [m for m in manifests if m.get("kind") != "RayService"]
    return [
        Rendered(text, [one, *others], one, _serve_config(one, origin))
        if len(rayservices) > 1
        else Rendered(text, manifests, one, _serve_config(one, origin))
        for one in rayservices
    ]


def is_kept(manifest: Mapping[str, Any]) -> bool:
    """Helm leaves the object in the cluster when its release goes (helm.sh/resource-policy)."""
    metadata = manifest.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    policy = annotations.get("helm.sh/resource-policy") if isinstance(annotations, dict) else None
    return str(policy).lower() == "keep"


def _objects(documents: list[Any]) -> Iterator[dict[str, Any]]:
    """The objects of a manifest file, those inside of Lists too."""
    for document in documents:
        if not isinstance(document, dict):
            continue
        items = document.get("items")
        if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
            yield from _objects(items)
        else:
            yield document


def _serve_config(rayservice: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The parsed serveConfigV2, which the API server keeps as a string that it never looks into."""
    spec = rayservice.get("spec")
    written = spec.get("serveConfigV2") if isinstance(spec, dict) else None
    if not isinstance(written, str) or not written.strip():
        raise UsageError(
            f"{origin}: spec.serveConfigV2 of the RayService must be a string of YAML, "
            f"and it is {type(written).__name__}. Write it as a block: `serveConfigV2: |`."
        )
    try:
        parsed = yaml_text.load(written)
    except yaml.YAMLError as error:
        raise UsageError(f"{origin}: spec.serveConfigV2 is not YAML: {error}") from error
    if not isinstance(parsed, dict):
        raise UsageError(
            f"{origin}: spec.serveConfigV2 must hold a mapping with the key `applications`."
        )
    return parsed
