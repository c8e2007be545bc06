"""`raypd preflight`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from raypd.lint.eksctl.cluster import malformed
from raypd.lint.verb import read_yaml
from raypd.preflight import checks
from raypd.preflight.aws.account import Account
from raypd.preflight.image import image_name, look_up
from raypd.preflight.kubernetes.kube import Kube, eks_cluster
from raypd.preflight.outcome import Once
from raypd.preflight.site import Site, nodes_of_config, nodes_of_values
from raypd.preflight.web import Web
from raypd.render import Rendered, RenderRefused, ValueArguments, default_chart, render
from raypd.render.chart import tables
from raypd.render.helm import merged_values
from raypd.report import Finding, Output, UsageError

Json = dict[str, Any]


def list_checks(output: Output) -> int:
    """Prints every check: where it looks, its name, what it looks at."""
    if output == "json":
        rows = [{"side": c.side, "name": c.name, "title": c.title} for c in checks.CHECKS]
        print(json.dumps(rows, indent=2))
        return 0
    table = Table("where", "check", "what it looks at", box=None, pad_edge=False)
    for check in checks.CHECKS:
        table.add_row(check.side, check.name, check.title)
    Console().print(table)
    return 0


def run(
    chart: Path | None,
    arguments: ValueArguments,
    release: str,
    namespace: str,
    eksctl: Path | None,
    region: str | None,
    profile: str | None,
    kubeconfig: Path | None,
    context: str | None,
    output: Output,
) -> int:
    """Prints a report and returns the exit code.

    Raises UsageError for what is wrong with the call. Where AWS, the hub or the cluster is out of
    reach, the report says so instead.
    """
    chart = chart or default_chart()
    refused: list[Finding] = []
    try:
        rendered = render(chart, arguments, release, namespace)
    except RenderRefused as refusal:
        refused = refusal.findings
        if refusal.rendered is None:
            return _tell_refused(refused, output)
        rendered = refusal.rendered
    config = read_yaml(eksctl, "--eksctl") if eksctl is not None else None
    if config is not None and (unreadable := list(malformed(config))):
        return _tell_refused([*refused, *unreadable], output)
    site = site_of(
        chart,
        rendered,
        merged_values(chart, arguments),
        release,
        namespace,
        config,
        region,
        profile,
        kubeconfig,
        context,
    )
    console = Console(stderr=True)
    with console.status("Asking AWS, the registry, the hub and the cluster"):
        report = checks.run(site)
    site.web.close()
    report.findings[:0] = refused
    report.print(output)
    return report.exit_code


def site_of(
    chart: Path,
    rendered: Rendered,
    values: Json,
    release: str = "llm",
    namespace: str = "inference",
    config: Json | None = None,
    region: str | None = None,
    profile: str | None = None,
    kubeconfig: Path | None = None,
    context: str | None = None,
    web: Web | None = None,
) -> Site:
    """Everything that the checks look at; asks nobody yet.

    `config` is a well-formed eksctl config. Raises UsageError when the options contradict each other
    or name what is not there.
    """
    known = tables(chart, "instances", "versions")
    for name, table in known.items():
        if not table:
            raise UsageError(
                f"The chart has no files/{name}.yaml: it is not ray-pd-llm. See --chart."
            )
    instances, versions = known["instances"], known["versions"]
    own = _metadata(config)
    if region and own and region != own["region"]:
        raise UsageError(
            f"--region {region}: the eksctl config makes its nodes in {own['region']}. Leave "
            "--region out, or change metadata.region and the zones."
        )
    current = eks_cluster(kubeconfig, context)
    name = own.get("name") or (current[0] if current else None)
    region = region or own.get("region") or (current[1] if current else None)
    account = Account(region, profile)
    web = web or Web()
    expected = own.get("name")
    return Site(
        rendered=rendered,
        values=values,
        release=release,
        namespace=namespace,
        instances=instances,
        versions=versions,
        nodes=nodes_of_config(config, instances)
        if config is not None
        else nodes_of_values(values, rendered, instances),
        account=account,
        kube=Kube(rendered, release, namespace, versions, kubeconfig, context, expected),
        web=web,
        image=Once(lambda: look_up(image_name(values), web, account)),
        config=config,
        cluster_name=name,
        token=os.environ.get("HF_TOKEN") or None,
    )


def _metadata(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return config["metadata"] if config is not None else {}


def _tell_refused(findings: list[Finding], output: Output) -> int:
    """The report where there is nothing to look for."""
    report = checks.Preflight(
        findings=findings,
        checked=["the chart's schema and rules, and the form of the eksctl config"],
        not_checked=["everything else: repair the findings first"],
        total=len(checks.CHECKS),
    )
    report.print(output)
    return 1
