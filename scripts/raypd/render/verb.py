"""`raypd render`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

from raypd.render import RenderRefused, default_chart, render
from raypd.render.helm import ValueArguments
from raypd.report import Output, Report


def run(
    chart: Path | None,
    arguments: ValueArguments,
    release: str,
    namespace: str,
    serve_config_only: bool,
    output: Output,
) -> int:
    """Prints the render and returns the exit code.

    People get YAML on standard output and a refusal on standard error, so that a pipe into kubectl
    never carries prose; programs get JSON on standard output in both cases.
    """
    try:
        rendered = render(
            chart or default_chart(),
            arguments,
            release,
            namespace,
        )
    except RenderRefused as refused:
        report = Report(findings=refused.findings)
        report.print(output, file=sys.stdout if output == "json" else sys.stderr)
        return report.exit_code
    if output == "json":
        whole = {"manifests": rendered.manifests, "serve_config": rendered.serve_config}
        print(json.dumps(rendered.serve_config if serve_config_only else whole, indent=2))
    elif serve_config_only:
        print(yaml.safe_dump(rendered.serve_config, sort_keys=False), end="")
    else:
        print(rendered.text, end="")
    return 0
