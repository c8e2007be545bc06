"""Pod security: what Kubernetes' own admission has against each pod that is rendered."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chart.rendering import SITUATIONS, Manifest, Render
from raypd.toolchain import go

Against = dict[str, str]  # reason to detail, in the admission's words
Judge = Callable[[str, list[Manifest]], list[Against]]

ADDS = 'container "{}" must not include "{}" in securityContext.capabilities.add'
AS_ROOT = {
    "runAsNonRoot != true": "pod must not set securityContext.runAsNonRoot=false",
    "runAsUser=0": "pod must not set runAsUser=0",
}
INIT_AS_ROOT = {
    "runAsNonRoot != true": 'container "cache-owner" must not set securityContext.runAsNonRoot=false',
    "runAsUser=0": 'container "cache-owner" must not set runAsUser=0',
}


@pytest.fixture(scope="session")
def judge() -> Judge:
    """judge(level, pods): for each what the level refuses; nothing when it is admitted."""
    source = (Path(__file__).parent / "pod-security" / "main.go").read_text()
    # The cache keeps programs by name and version: the source is part of the name.
    name = f"pod-security-{hashlib.sha256(source.encode()).hexdigest()[:12]}"
    program = go.build("k8s.io/pod-security-admission", name, "v0.35.4", files={"main.go": source})

    def ask(level: str, pods: list[Manifest]) -> list[Against]:
        asked = json.dumps({"level": level, "pods": pods})
        done = subprocess.run([program], input=asked, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask


def with_jobs(values: Manifest) -> Manifest:
    """The values with the Jobs that fill the cache, where the cache outlives a pod."""
    cache = values.get("cache", {})
    if cache.get("type") == "emptyDir":
        return values
    return values | {"cache": cache | {"prefetch": {"enabled": True}}}


def pods(render: Render, values: Manifest) -> Iterator[Manifest]:
    """Every pod of a render, with its labels: Ray's, those of Jobs, that of `helm test`."""
    for group in render.groups(values).values():
        yield group["template"]
    for manifest in render.all(values):
        if manifest["kind"] == "Job":
            yield manifest["spec"]["template"]
        elif manifest["kind"] == "Pod":
            yield manifest


def excused(pod: Manifest, efa_roles: set[str]) -> Against:
    """What the restricted level may have against a pod: nothing, but for EFA and for a cache on the node."""
    component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
    role = component.removeprefix("prefetch-")
    on_node = [v["name"] for v in pod["spec"].get("volumes", []) if "hostPath" in v]
    reasons: Against = {}
    if role in efa_roles:
        # EFA has to lock memory, and Kubernetes gives added capabilities to root only. The Job that
        # fills such an engine's cache is root as well, since it writes what the engine then owns.
        reasons |= AS_ROOT
        if component == role:
            reasons["unrestricted capabilities"] = ADDS.format("ray-worker", "IPC_LOCK")
    if on_node:
        assert on_node == ["cache"]
        reasons["restricted volume types"] = 'volume "cache" uses restricted volume type "hostPath"'
        if role not in efa_roles:
            reasons |= INIT_AS_ROOT
            reasons["unrestricted capabilities"] = ADDS.format("cache-owner", "CHOWN")
    return reasons


def efa_roles(render: Render, values: Manifest) -> set[str]:
    return {
        name
        for name, pod in render.pods(values).items()
        if "vpc.amazonaws.com/efa" in pod["containers"][0]["resources"]["limits"]
    }


@pytest.mark.parametrize("values", SITUATIONS.values(), ids=SITUATIONS)
def test_every_pod_keeps_to_the_restricted_profile_but_for_efa_and_caches_on_nodes(
    render, judge, values
):
    values = with_jobs(values)
    made = list(pods(render, values))
    assert len(made) >= 3
    roles = efa_roles(render, values)
    expected = [excused(pod, roles) for pod in made]
    assert judge("restricted", made) == expected


def test_every_pod_keeps_to_it_without_efa_and_with_a_claim(render, judge):
    claim = {"type": "persistentVolumeClaim", "prefetch": {"enabled": True}}
    values = {"transport": {"fabric": "tcp"}, "cache": claim}
    made = list(pods(render, values))
    assert len(made) == 5
    assert judge("restricted", made) == [{}] * 5


def test_with_efa_and_a_claim_baseline_misses_nothing_but_the_locked_memory(render, judge):
    values = {"cache": {"type": "persistentVolumeClaim"}}
    locked = {"non-default capabilities": ADDS.format("ray-worker", "IPC_LOCK")}
    made = list(pods(render, values))
    names = [pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in made]
    assert dict(zip(names, judge("baseline", made), strict=True)) == {
        "head": {},
        "prefill": locked,
        "decode": locked,
        "test": {},
    }


def test_only_a_value_makes_engines_privileged_and_the_head_never(render, judge):
    values = {"transport": {"efa": {"privileged": True}}}
    made = list(pods(render, values))
    refused = {
        pod["metadata"]["labels"]["app.kubernetes.io/component"]
        for pod, against in zip(made, judge("baseline", made), strict=True)
        if "privileged" in against
    }
    assert refused == {"prefill", "decode"}


def test_only_the_head_has_a_token_for_the_api_server_and_only_with_the_autoscaler(render):
    for values, expected in (
        ({}, set()),
        ({"decode": {"autoscaling": {"enabled": True, "maxReplicas": 2}}}, {"head"}),
    ):
        with_token = {
            pod["metadata"]["labels"]["app.kubernetes.io/component"]
            for pod in pods(render, with_jobs(values))
            if pod["spec"]["automountServiceAccountToken"]
        }
        assert with_token == expected
