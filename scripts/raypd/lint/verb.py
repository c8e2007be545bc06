"""`raypd lint`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from raypd import yaml_text
from raypd.lint import OFFLINE, check
from raypd.lint.contract import contract_for
from raypd.lint.subject import Subject, mapping
from raypd.render import (
    Rendered,
    RenderRefused,
    all_from_manifest,
    default_chart,
    manifest_text,
    render,
)
from raypd.render.chart import tables
from raypd.render.helm import ValueArguments, merged_values
from raypd.report import Finding, Output, Report, UsageError


def run(
    chart: Path | None,
    arguments: ValueArguments,
    release: str,
    namespace: str,
    manifest: Path | None,
    eksctl: Path | None,
    karpenter: Path | None,
    output: Output,
) -> int:
    """Prints a report and returns the exit code."""
    if manifest is not None:
        nodes = (eksctl, karpenter)
        if arguments.command_line() or chart is not None or any(nodes):
            raise UsageError(
                "--manifest is a render that is already made, or one by hand, so values, --chart, "
                "--eksctl and --karpenter mean nothing beside it. Leave them out, or leave out --manifest."
            )
        report = of_manifest(manifest)
    else:
        report = of_values(
            chart or default_chart(), arguments, release, namespace, eksctl, karpenter
        )
    report.print(output)
    return report.exit_code


def of_values(
    chart: Path,
    arguments: ValueArguments,
    release: str = "llm",
    namespace: str = "inference",
    eksctl: Path | None = None,
    karpenter: Path | None = None,
    helm: Path | None = None,
) -> Report:
    """The report on what `chart` makes of the values, and on an eksctl config and NodePools beside
    them."""
    config = read_yaml(eksctl, "--eksctl") if eksctl is not None else None
    node_pools = None
    if karpenter is not None:
        node_pools = _parsed(karpenter, "--karpenter", lambda text: list(yaml_text.load_all(text)))
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
    facts = tables(chart, "models", "instances")
    report = check(rendered, values, _model(values, facts["models"]))
    report.findings[:0] = refused
    report.checked.insert(0, "the chart's schema and rules")
    if config is None and node_pools is None:
        report.not_checked.insert(0, "an eksctl config against the values: none given (--eksctl)")
    on_pools: frozenset[str] = frozenset()
    if node_pools is not None:
        from raypd.lint.eksctl import with_nodes
        from raypd.lint.karpenter import NOT_CHECKED, check_karpenter

        shapes, manifests = facts["instances"], rendered.manifests
        elsewhere = with_nodes(config, manifests, shapes) if config is not None else frozenset()
        findings, on_pools = check_karpenter(node_pools, values, manifests, shapes, elsewhere)
        report.findings += findings
        report.checked.append(f"the NodePools of {karpenter} against the values")
        report.not_checked.append(NOT_CHECKED)
    if config is not None:
        from raypd.lint.eksctl import check_eksctl

        report.findings += check_eksctl(
            config, values, rendered.manifests, facts["instances"], elsewhere=on_pools
        )
        report.checked.append(f"the eksctl config {eksctl} against the values")
    return report


def of_manifest(path: Path) -> Report:
    """The report on a manifest, rendered or written by hand; all RayServices of it, one by one."""
    models = _chart_models()
    whole = Report()
    found = all_from_manifest(manifest_text(path, "--manifest"), str(path))
    for rendered in found:
        report = check(rendered, model=_model_of(rendered, models))
        where = f"RayService/{rendered.name} " if len(found) > 1 else ""
        whole.findings += [
            f.model_copy(update={"path": f"{where}{f.path}"}) for f in report.findings
        ]
        for mine, its in ((whole.checked, report.checked), (whole.not_checked, report.not_checked)):
            mine += [line for line in its if line not in mine]
    whole.not_checked.insert(0, "the chart's schema and rules: only the manifest was given")
    return whole


def read_yaml(path: Path, option: str) -> dict[str, Any]:
    """The mapping in the file that an option names. Raises UsageError when there is none."""
    parsed = _parsed(path, option, yaml_text.load)
    if not isinstance(parsed, dict):
        raise UsageError(f"{option} {path} holds no mapping. Give an eksctl ClusterConfig.")
    return parsed


def _parsed(path: Path, option: str, load: Callable[[str], Any]) -> Any:
    try:
        return load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{option} {path} cannot be read as YAML: {error}") from error


def _chart_models() -> dict[str, Any]:
    """The shapes of models that this checkout's chart knows; none outside of a checkout."""
    try:
        return tables(default_chart(), "models")["models"]
    except UsageError:
        return {}


def _model_of(rendered: Rendered, models: dict[str, Any]) -> dict[str, Any] | None:
    """The shape of the first model of a serve config that is known by its source."""
    for engine in Subject(rendered, contract_for("")).engines:
        loading = mapping(engine.config.get("model_loading_config"))
        source = loading.get("model_source", loading.get("model_id"))
        if isinstance(source, str) and "kind" in mapping(models.get(source)):
            return models[source]
    return None


def _model(values: dict[str, Any], models: dict[str, Any]) -> dict[str, Any] | None:
    """The model's shape; what `model.kind` says wins over the table. None when its kind is unknown."""
    block = values.get("model")
    block = block if isinstance(block, dict) else {}
    shape = dict(models.get(block.get("source"), {}))
    if block.get("kind") not in (None, "auto"):
        shape["kind"] = block["kind"]
    return shape if "kind" in shape else None
