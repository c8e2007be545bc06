"""The chart as Helm renders it: manifests, the RayService, and the serve config inside it."""

from __future__ import annotations

from collections.abc import Mapping
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
    "default_chart",
    "from_manifest",
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


def from_manifest(text: str, origin: str) -> Rendered:
    """Parses manifests that are already rendered; `origin` names them in messages."""
    try:
        documents = list(yaml_text.load_all(text))
    except yaml.YAMLError as error:
        raise UsageError(f"{origin} is not YAML: {error}. Give rendered manifests.") from error
    manifests = [document for document in documents if isinstance(document, dict)]
    rayservices = [m for m in manifests if m.get("kind") == "RayService"]
    if len(rayservices) != 1:
        kinds = ", ".join(sorted({str(m.get("kind")) for m in manifests})) or "nothing"
        raise UsageError(
            f"{origin} holds {len(rayservices)} RayServices and must hold exactly one "
            f"(it holds {kinds}). Give the output of `raypd render` or `helm template` of this chart."
        )
    return Rendered(text, manifests, rayservices[0], _serve_config(rayservices[0], origin))


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
