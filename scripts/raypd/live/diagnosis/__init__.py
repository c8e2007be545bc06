"""Why a release does not serve: findings from one snapshot, the root cause first.

A check is a function that takes a Snapshot and yields Troubles. Adding one is writing it and naming
it in its file's CHECKS; its code gets an entry in data/rules.yaml.
"""

from __future__ import annotations

from raypd.live.diagnosis import (
    containers,
    engine,
    images,
    install,
    scheduling,
    serve,
    transfer,
    volumes,
)
from raypd.live.diagnosis.trouble import Check, causes, findings
from raypd.live.snapshot import Snapshot
from raypd.report import Finding

__all__ = ["STAGES", "diagnose"]

# What a stage of checks looks at, as a report says it, in the order in which things start: what is
# found in one explains what does not work in the later ones.
STAGES: list[tuple[str, list[Check]]] = [
    ("the release, the operator, and whether KubeRay accepts the RayService", install.CHECKS),
    ("nodes and the room on them", scheduling.CHECKS),
    ("volumes", volumes.CHECKS),
    ("image pulls", images.CHECKS),
    ("containers: configuration, memory, crashes, probes", containers.CHECKS),
    ("the engines' own errors", engine.CHECKS),
    ("Ray Serve's application and its deployments", serve.CHECKS),
    ("KV transfers in the engines' logs", transfer.CHECKS),
]


def diagnose(snapshot: Snapshot) -> list[Finding]:
    """What is wrong with a release; [] when nothing is, as while it is still loading."""
    return findings(causes([checks for _, checks in STAGES], snapshot))
