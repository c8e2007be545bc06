"""`raypd lint`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from raypd import yaml_text
from raypd.lint import OFFLINE, check
from raypd.render import Rendered, RenderRefused, default_chart, from_manifest, render
from raypd.render.chart import as_folder
from raypd.render.helm import ValueArguments, merged_values
from raypd.report import Finding, Output, Report, UsageError


def run(
    chart: Path | None,
    arguments: ValueArguments,
    release: str,
    namespace: str,
    manifest: Path | None,
    eksctl: Path | None,
    output: Output,
) -> int:
    """Prints a report and returns the exit code."""
    if manifest is not None:
        if arguments.command_line() or chart is not None or eksctl is not None:
            raise UsageError(
                "--manifest is a render that is already made, so values, --chart and --eksctl mean "
                "nothing beside it. Leave them out, or leave out --manifest."
            )
        report = of_manifest(manifest)
    else:
        report = of_values(chart or default_chart(), arguments, release, namespace, eksctl)
    report.print(output)
    return report.exit_code


def of_values(
    chart: Path,
    arguments: ValueArguments,
    release: str = "llm",
    namespace: str = "inference",
    eksctl: Path | None = None,
    helm: Path | None = None,
) -> Report:
    """The report on what `chart` makes of the values, and on an eksctl config beside them."""
    config = _read_yaml(eksctl, "--eksctl") if eksctl is not None else None
    refused: list[Finding] = []
    try:
        rendered = render(
            chart,
            arguments,
            release,
            namespace,
            helm,
        )
    except RenderRefused as refusal:
        if refusal.rendered is None:
            behind = "everything behind the render: Helm made none, so repair the findings first"
            return Report(
                findings=refusal.findings,
                checked=["the chart's schema and rules"],
                not_checked=[behind, *OFFLINE],
            )
        refused, rendered = refusal.findings, refusal.rendered
    values = merged_values(chart, arguments, helm)
    with as_folder(chart) as folder:
        facts = _chart_data(folder)
    report = check(rendered, values, _model(values, facts["models"]))
    report.findings[:0] = refused
    report.checked.insert(0, "the chart's schema and rules")
    if config is None:
        report.not_checked.insert(0, "an eksctl config against the values: none given (--eksctl)")
    else:
        report.findings += _eksctl_findings(config, values, rendered, facts["instances"])
        report.checked.append(f"the eksctl config {eksctl} against the values")
    return report


def of_manifest(path: Path) -> Report:
    """The report on a file that Helm, or a GitOps tool, has rendered."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--manifest {path} cannot be read: {error}") from error
    report = check(from_manifest(text, str(path)))
    report.not_checked.insert(0, "the chart's schema and rules: only the render was given")
    return report


def _eksctl_findings(
    config: dict[str, Any], values: dict[str, Any], rendered: Rendered, instances: dict[str, Any]
) -> list[Finding]:
    from raypd.lint.eksctl import check_eksctl

    return check_eksctl(config, values, rendered.manifests, instances)


def _read_yaml(path: Path, option: str) -> dict[str, Any]:
    try:
        parsed = yaml_text.load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{option} {path} cannot be read as YAML: {error}") from error
    if not isinstance(parsed, dict):
        raise UsageError(f"{option} {path} holds no mapping. Give an eksctl ClusterConfig.")
    return parsed


def _chart_data(folder: Path) -> dict[str, dict[str, Any]]:
    """The chart's tables of models and instance types; empty for a chart that has none."""
    tables: dict[str, dict[str, Any]] = {}
    for name in ("models", "instances"):
        path = folder / "files" / f"{name}.yaml"
        tables[name] = yaml_text.load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return tables


def _model(values: dict[str, Any], models: dict[str, Any]) -> dict[str, Any] | None:
    """The model's shape; what `model.kind` says wins over the table. None when its kind is unknown."""
    block = values.get("model")
    block = block if isinstance(block, dict) else {}
    shape = dict(models.get(block.get("source"), {}))
    if block.get("kind") not in (None, "auto"):
        shape["kind"] = block["kind"]
    return shape if "kind" in shape else None
