"""`raypd upgrade-plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from raypd.live.cluster import Cluster
from raypd.live.install.facts import gather
from raypd.live.install.preconditions import Case
from raypd.live.release import Helm, is_locked
from raypd.render import (
    Rendered,
    RenderRefused,
    ValueArguments,
    default_chart,
    from_manifest,
    manifest_text,
    render,
)
from raypd.render.chart import tables
from raypd.report import Output, Report, UsageError
from raypd.upgrade import revision as git
from raypd.upgrade.change import serve_config
from raypd.upgrade.plan import Plan, make

Json = dict[str, Any]


def run(
    chart: Path | None,
    arguments: ValueArguments,
    release: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    revision: str | None,
    manifest: Path | None,
    output: Output,
) -> int:
    """Prints a plan and returns the exit code."""
    if revision is not None and manifest is not None:
        raise UsageError("--from and --from-manifest both say what was before. Give one of them.")
    if (revision or manifest) is not None and (kubeconfig or context) is not None:
        raise UsageError(
            "--from and --from-manifest compare renders, and --kubeconfig and --context choose a "
            "cluster. Give one or the other."
        )
    chart = chart or default_chart()
    try:
        after = render(chart, arguments, release, namespace)
    except RenderRefused as refusal:
        report = Report(
            findings=refusal.findings,
            checked=["the chart's schema and rules"],
            not_checked=["the upgrade: the new values do not render, so repair the findings first"],
        )
        report.print(output)
        return report.exit_code
    if revision is not None:
        plan = of_revision(revision, chart, arguments, release, namespace, after)
    elif manifest is not None:
        plan = of_manifest(manifest, after)
    else:
        cluster = Cluster(kubeconfig, context)
        plan = of_cluster(cluster, Helm(kubeconfig, context), chart, release, namespace, after)
    if output == "json":
        print(json.dumps(plan.as_json(), indent=2, default=str))
    else:
        from raypd.upgrade.show import show

        show(plan)
    return plan.exit_code


def of_revision(
    revision: str,
    chart: Path,
    arguments: ValueArguments,
    release: str,
    namespace: str,
    after: Rendered,
) -> Plan:
    """From the chart and the values files at a revision of Git."""
    with git.at(revision, chart, arguments) as then:
        try:
            before = render(then.chart, then.arguments, release, namespace)
        except RenderRefused as refusal:
            raise UsageError(
                f"--from {revision}: the chart of that time refuses the values files of that time: "
                f"{refusal}. Values of the command line are not of that time and left out; give the older "
                "render with --from-manifest."
            ) from refusal
    plan = make(
        f"{release} (namespace {namespace}), from {revision} to what is here", before, after
    )
    if arguments.command_line() != ValueArguments(values=arguments.values).command_line():
        plan.checked.append("values of the command line (--set) on the new side alone")
    plan.not_checked += [
        f"{what}: in no Git checkout, so it is the same before" for what in then.as_now
    ]
    return plan


def of_manifest(path: Path, after: Rendered) -> Plan:
    """From a file that was rendered before."""
    text = manifest_text(path, "--from-manifest")
    return make(f"From {path} to what is here", from_manifest(text, str(path)), after)


def of_cluster(
    cluster: Cluster, helm: Helm, chart: Path, release: str, namespace: str, after: Rendered
) -> Plan:
    """From the release in the cluster, with its RayCluster and its nodes."""
    cluster.get("/version")  # first, so that its failure is plain
    status = helm.status(release, namespace)
    if status is None:
        raise UsageError(
            f"There is no release {release} in namespace {namespace}, so nothing to upgrade: `raypd up` "
            "installs it. Another one with --release and --namespace; two renders with --from."
        )
    if is_locked(status):
        raise UsageError(
            f"The release {release} in namespace {namespace} is {status}: another Helm is at work on "
            "it, or was killed. What it has changed is not known; wait for it, or "
            f"`helm rollback {release} -n {namespace}`."
        )
    manifests = helm.manifests(release, namespace)
    rayservices = [one for one in manifests if one.get("kind") == "RayService"]
    if len(rayservices) != 1:
        raise UsageError(
            f"The release {release} in namespace {namespace} has {len(rayservices)} RayServices, so it "
            "is none of this chart."
        )
    facts = gather(cluster, after, namespace)
    versions = tables(chart, "versions")["versions"]
    live = facts.rayservice or rayservices[0]
    before = Rendered("", manifests, live, serve_config(live))
    title = f"{release} (namespace {namespace}), from the cluster to what is here"
    return make(title, before, after, Case(after, release, namespace, versions, facts))
