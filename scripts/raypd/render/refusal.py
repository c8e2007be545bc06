"""Turns a refusal by Helm into findings: the schema's, the chart's rules', or a failed template."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from raypd.render.chart import as_folder
from raypd.render.helm import HelmFailed, ValueArguments, merged_values, without_schema
from raypd.report import Finding
from raypd.schema import resolved, schema_findings

# One line of the chart's validate template: `[RPD123] path.to.value: reason. Instead: remedy`.
_RULE = re.compile(
    r"\[(?P<code>RPD\d{3})\] (?P<path>[^\s:]+): (?P<message>.*?)\s*Instead: (?P<remedy>.*?)"
    r"(?=\n\s*(?:-\s*)?\[RPD\d{3}\]|\n\s*\n|\Z)",
    re.DOTALL,
)
_SCHEMA_REFUSED = "values don't meet the specifications of the schema"


def chart_findings(message: str) -> list[Finding]:
    """The findings that the chart's validate template wrote into Helm's error message."""
    found = (
        Finding(
            code=match["code"],
            severity="error",
            path=match["path"],
            message=_one_line(match["message"]),
            remedy=_one_line(match["remedy"]),
        )
        for match in _RULE.finditer(message)
    )
    return list(dict.fromkeys(found))  # a rule on both roles tells of a shared value twice


def values_findings(chart: Path, values: dict[str, Any]) -> list[Finding]:
    """The merged values against the chart's values.schema.json (RPD101 to RPD106)."""
    with as_folder(chart) as source:
        path = source / "values.schema.json"
        if not path.is_file():
            return []
        schema = json.loads(path.read_text(encoding="utf-8"))
    # Resolved, so that a finding's remedy can quote the description beside a `$ref`.
    return schema_findings(resolved(schema), values, "RPD10")


def explain(
    failure: HelmFailed,
    chart: Path,
    arguments: ValueArguments,
    release: str,
    namespace: str,
    helm: Path | None,
) -> tuple[list[Finding], str | None]:
    """Why Helm failed, one finding per broken rule, never none; and the manifests that the values
    would give if keys that the schema does not know were left out, where those are all that is wrong.

    Helm stops at the schema, so the chart's own rules are asked for separately: both kinds of
    mistake are told in one go. What a template trips over behind a value of a wrong type is not told,
    because it follows from it.
    """
    text = None
    if _SCHEMA_REFUSED in failure.message:
        findings = values_findings(chart, merged_values(chart, arguments, helm))
        only_unknown_keys = all(finding.code == "RPD101" for finding in findings)
        try:
            rendered = without_schema(chart, arguments, release, namespace, helm)
            text = rendered if findings and only_unknown_keys else None
        except HelmFailed as behind:
            findings += chart_findings(behind.message)
    else:
        findings = chart_findings(failure.message)
    return findings or [_fault(failure)], text


def _fault(failure: HelmFailed) -> Finding:
    return Finding(
        code="RPD100",
        severity="error",
        path="",
        message=f"Helm cannot render the chart: {_one_line(failure.message)}",
        remedy="Values that the chart's schema and rules accept; this failure is a fault of the "
        "chart as well, so please report it with the values that cause it.",
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
