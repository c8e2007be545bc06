"""`raypd doctor`: why a release does not serve, and what to do."""

from __future__ import annotations

from pathlib import Path

from raypd.live.diagnosis import STAGES
from raypd.live.snapshot import Snapshot, take
from raypd.live.status import headline, standing
from raypd.report import Finding, Output, Report


def run(
    release: str, namespace: str, kubeconfig: Path | None, context: str | None, output: Output
) -> int:
    """Prints the report and returns its exit code. A release that is still loading is no finding."""
    from raypd.live.cluster import Cluster

    snapshot = take(Cluster(kubeconfig, context), release, namespace)
    now = standing(snapshot)
    if output == "human":
        print(headline(now), end="\n\n")
    report = examine(snapshot, now.findings)
    report.print(output)
    return report.exit_code


def examine(snapshot: Snapshot, findings: list[Finding]) -> Report:
    """The report on a snapshot: its findings, and how far they reach."""
    not_checked = [f"{what}: {why}" for what, why in snapshot.unseen.items()]
    if snapshot.serve is None:
        not_checked.append(f"Ray Serve itself: {snapshot.serve_unreachable}")
    not_checked.append("whether KV moves, over which fabric and how fast: `raypd verify`")
    return Report(findings=findings, checked=[what for what, _ in STAGES], not_checked=not_checked)
