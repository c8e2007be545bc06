"""Each rule about the pods of engines: kept by the sample, broken once, and left alone where it does
not hold."""

from __future__ import annotations

from typing import Any

import pytest

from unit.lint.sample import ABSENT, Break, Sample

EFA = "vpc.amazonaws.com/efa"
CONTAINER = "template|spec|containers|0"
EXTRA = "engine_kwargs|kv_transfer_config|kv_connector_extra_config"


def without_efa(sample: Sample, group: str) -> Sample:
    for kind in ("limits", "requests"):
        sample.put(f"{group}:{CONTAINER}|resources|{kind}|{EFA}", ABSENT)
    return sample


def one_group(sample: Sample) -> Sample:
    """Both roles on the first group, pinned by nothing."""
    for role in ("prefill", "decode"):
        sample.put(f"{role}:placement_group_config|bundles", [{"CPU": 1, "GPU": 1}])
    sample.cluster["workerGroupSpecs"] = sample.cluster["workerGroupSpecs"][:1]
    return sample.put("group0:replicas", 4).put("group0:maxReplicas", 4)


def over_ucx(sample: Sample) -> Sample:
    for role in ("prefill", "decode"):
        sample.put(f"{role}:{EXTRA}|backends", ["UCX"])
    return sample


def volume(kind: str, path: str) -> list[dict[str, Any]]:
    return [{"name": "cache", "hostPath": {"path": path, "type": kind}}]


BROKEN: list[tuple[str, str, Break]] = [
    (
        "RPD570",
        "workerGroupSpecs[1].template.spec.containers[0].resources.limits",
        lambda s: without_efa(s, "group1"),
    ),
    (
        "RPD571",
        "args.prefill_config.engine_kwargs.kv_transfer_config.kv_connector_extra_config.backends",
        over_ucx,
    ),
    (
        "RPD572",
        "workerGroupSpecs[0]",
        lambda s: s.put(f"group0:{CONTAINER}|resources|limits|{EFA}", ABSENT),
    ),
    (
        "RPD572",
        "workerGroupSpecs[1]",
        lambda s: s.put(f"group1:{CONTAINER}|resources|requests|nvidia.com/gpu", 2),
    ),
    (
        "RPD573",
        "workerGroupSpecs[1].template.spec.containers[0].securityContext",
        lambda s: s.put(f"group1:{CONTAINER}|securityContext", {"runAsUser": 0}),
    ),
    ("RPD574", "headGroupSpec", lambda s: s.put(f"head:{CONTAINER}|resources|limits|{EFA}", 1)),
    ("RPD575", "workerGroupSpecs[0].template.spec.affinity", one_group),
    (
        "RPD576",
        "workerGroupSpecs[0].template.spec.volumes[0].hostPath.type",
        lambda s: s.put(
            "group0:template|spec|volumes", volume("DirectoryOrCreate", "/mnt/k8s-disks/0/hf")
        ),
    ),
]
RIGHT: list[tuple[str, Break]] = [
    ("RPD570", lambda s: without_efa(without_efa(over_ucx(s), "group0"), "group1")),
    ("RPD571", lambda s: without_efa(without_efa(over_ucx(s), "group0"), "group1")),
    ("RPD572", lambda s: s.put(f"group0:{CONTAINER}|resources|requests", {"cpu": "16"})),
    ("RPD573", lambda s: s.put(f"group1:{CONTAINER}|securityContext", {"privileged": True})),
    ("RPD574", lambda s: s.put(f"head:{CONTAINER}|resources|limits|memory", "9Gi")),
    ("RPD575", lambda s: one_group(s).env("group0", "FI_EFA_ENABLE_SHM_TRANSFER", "0")),
    (
        "RPD576",
        lambda s: s.put(
            "group0:template|spec|volumes", volume("DirectoryOrCreate", "/var/lib/models")
        ),
    ),
    (
        "RPD576",
        lambda s: s.put("group1:template|spec|volumes", volume("Directory", "/mnt/k8s-disks/0")),
    ),
]


@pytest.mark.parametrize(
    ("code", "path", "change"), BROKEN, ids=[f"{b[0]}-{i}" for i, b in enumerate(BROKEN)]
)
def test_a_broken_rule_is_told_at_its_place(code: str, path: str, change: Break) -> None:
    sample = Sample()
    assert sample.findings(code) == []
    change(sample)
    assert any(path in finding.path for finding in sample.findings(code))


@pytest.mark.parametrize(
    ("code", "change"), RIGHT, ids=[f"{b[0]}-{i}" for i, b in enumerate(RIGHT)]
)
def test_what_is_right_is_left_alone(code: str, change: Break) -> None:
    sample = Sample()
    change(sample)
    assert sample.findings(code) == []
