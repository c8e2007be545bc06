"""All that can be known offline about a render: what would fail once a GPU is paid for.

A check is a function that takes a Subject and yields findings. Adding one is writing it and naming
it in its file's CHECKS; its code gets an entry in data/rules.yaml.
"""

from __future__ import annotations

from typing import Any

from raypd.lint import (
    fabric,
    kuberay,
    placement,
    secrets,
    serve_config,
    speed,
    transfer,
    versions,
)
from raypd.lint.subject import Check, Subject
from raypd.render import Rendered
from raypd.report import Report

__all__ = ["FAMILIES", "check"]

# What a family of checks looks at, as a report says it; {versions} are those of the contract.
FAMILIES: list[tuple[str, list[Check]]] = [
    ("KubeRay 1.6.2's rules for a RayService", kuberay.CHECKS),
    ("the serve config against {versions}", [*serve_config.CHECKS, *versions.CHECKS]),
    ("KV transfer between the roles", transfer.CHECKS),
    ("the pods' devices, rights and host folders", fabric.CHECKS),
    ("settings that are known to be slow", speed.CHECKS),
    ("room for every replica and the ingress in Ray's books", placement.CHECKS),
    ("secrets in clear text", secrets.CHECKS),
]

# What no check can see without a machine, an account or a cluster.
OFFLINE = [
    "the live AWS account and cluster: quotas, capacity, plugins, CRDs, storage, Secrets",
    "what is in the image: versions, bash and wget, NIXL's libraries",
    "whether the model exists, may be read with the token, and fits the GPUs' memory",
    "the fabric itself: that LIBFABRIC loads and that KV moves over EFA",
    "fields that the installed KubeRay does not know and would drop",
]


def check(
    rendered: Rendered, values: dict[str, Any] | None = None, model: dict[str, Any] | None = None
) -> Report:
    """Runs every check on a render.

    `values` are the merged values where they are known, and `model` the shape of the model as the
    chart's files/models.yaml has it (`kind: hybrid` brings rules of its own).
    """
    subject = Subject.of(rendered, values, model)
    contract = subject.contract
    report = Report(not_checked=list(OFFLINE))
    for title, checks in FAMILIES:
        report.checked.append(title.format(versions=contract.versions))
        for function in checks:
            report.findings.extend(function(subject))
    if not versions.is_default(contract):
        told = {finding.path for finding in report.findings}
        findings, compared = versions.differences(subject, told)
        report.findings += findings
        report.checked.append(compared)
        report.not_checked.insert(0, versions.NOT_COMPARED.format(versions=contract.versions))
    if model is None:
        report.not_checked.insert(0, "rules for hybrid models: the model's kind is not known")
    report.not_checked[:0] = [
        f"{path}: it is in the file {name} of the image" for path, name in subject.config_files
    ]
    report.not_checked[:0] = [
        f"the arguments of `{path}`: only Ray Serve LLM's own builders are known"
        for path in serve_config.unknown_builders(subject)
    ]
    return report
