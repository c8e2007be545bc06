"""What `raypd status` says of a release."""

from __future__ import annotations

import json

import pytest

from raypd.live import cluster, status
from raypd.live.status import headline, standing
from unit.live.sample import (
    IMAGE,
    NAMES,
    changed,
    deployment,
    event,
    log,
    node,
    pending,
    pod,
    rayservice,
    serve,
    snapshot,
    unready,
    waiting,
)

LOADING = rayservice(ready=False)


def doing(decode, events=(), **changes):
    """What the pod of decode does."""
    pods = [pod("head"), pod("prefill"), decode]
    base = {"rayservice": LOADING, "serve": serve("DEPLOYING"), "events": list(events)}
    now = standing(snapshot(**{**base, **changes}, pods=pods))
    (line,) = (line for line in now.pods if line.component == "decode")
    return line.doing


def test_a_release_that_serves():
    now = standing(snapshot())
    assert now.state == "serving"
    assert now.endpoint == "http://llm-ray-pd-llm-serve-svc.inference.svc:8000/v1"
    assert [(p.component, p.node, p.ready, p.doing) for p in now.pods] == [
        ("head", "system", True, "ready"),
        ("decode", "gpu-b", True, "ready"),
        ("prefill", "gpu-a", True, "ready"),
    ]
    (application,) = now.applications
    assert {(d.running, d.target, len(d.doing)) for d in application.deployments} == {(1, 1, 0)}
    assert headline(now).endswith(
        "serving at http://llm-ray-pd-llm-serve-svc.inference.svc:8000/v1"
    )


def test_no_release():
    now = standing(snapshot(rayservice=None, helm=None, rayclusters=[], pods=[], serve=None))
    assert (now.state, now.endpoint) == ("absent", None)


def test_a_release_that_loads_says_what_and_for_how_long():
    text = (
        "(Worker pid=9) INFO 03-01 11:59:20 [x.py:1] Starting to load model Qwen/Qwen3.5-9B...\n"
        "(Worker pid=9) Loading safetensors checkpoint shards:  40% Completed | 2/5 [00:12<00:18]"
    )
    parts = {
        "decode": deployment("decode", "UPDATING", state="STARTING"),
        "prefill": deployment("prefill", "UPDATING", state="STARTING"),
        "ingress": {**deployment("ingress", "UPDATING"), "replicas": []},
    }
    now = standing(
        snapshot(
            rayservice=LOADING,
            pods=[pod("head"), unready("prefill"), unready("decode")],
            serve=serve("DEPLOYING", **parts),
            engine_logs={NAMES["decode"]: log("decode", text)},
        )
    )
    assert now.state == "loading"
    (application,) = now.applications
    by_name = {part.name: part.doing for part in application.deployments}
    assert by_name == {
        "Decode:qwen3.5-9b": ["loads weights, 40 % (2 of 5 files) for 73 s"],
        "Prefill:qwen3.5-9b": ["starts for 73 s"],
        "OpenAiIngress": ["waits for a place"],
    }
    assert "Decode:qwen3.5-9b loads weights, 40 % (2 of 5 files) for 73 s" in headline(now)


def test_the_log_of_another_replica_on_the_pod_says_nothing_about_this_one():
    other = log("prefill", "Starting to load model")
    part = deployment("decode", "UPDATING", state="STARTING")
    now = standing(
        snapshot(
            rayservice=LOADING,
            serve=serve("DEPLOYING", decode=part),
            engine_logs={NAMES["decode"]: other},
        )
    )
    assert now.applications[0].deployments[-1].doing == ["starts for 73 s"]


def test_a_release_that_has_failed():
    words = 'secret "hf-token" not found'
    pods = [pod("head"), pod("prefill"), waiting("decode", "CreateContainerConfigError", words)]
    now = standing(snapshot(rayservice=LOADING, serve=serve("DEPLOYING"), pods=pods))
    assert now.state == "failed"
    assert [finding.code for finding in now.findings] == ["RPD630"]


def test_a_release_that_serves_with_one_replica_less_serves():
    extra = changed(
        pending("decode", "0/3 nodes are available: 1 Insufficient nvidia.com/gpu"),
        "metadata: {name: more, uid: more}",
    )
    pods = [pod("head"), pod("prefill"), pod("decode")]
    now = standing(snapshot(pods=[*pods, extra], neighbours=pods))
    assert now.state == "serving"
    assert now.findings


def test_what_pods_do():
    assert doing(unready("decode")) == "runs, no proxy of Ray Serve yet"
    assert doing(waiting("decode", "ImagePullBackOff", "not found")) == "ImagePullBackOff"
    assert doing(waiting("decode", "PodInitializing")) == "starts"
    assert doing(pending("decode", "0/3 nodes are available")) == "waits for a node"
    ends = changed(pod("decode"), "metadata: {deletionTimestamp: '2026-03-01T12:00:00Z'}")
    assert doing(ends) == "ends"


def test_a_node_is_being_made():
    waits = pending("decode", "0/3 nodes are available")
    ordered = event("Pod", waits, "TriggeredScaleUp", "pod triggered scale-up")
    said = doing(waits, [ordered], nodes=[node("system", "system")])
    assert said == "waits for a node that is being made"


def test_an_image_that_is_being_pulled_and_for_how_long():
    waits = waiting("decode", "ContainerCreating")
    pulling = event("Pod", waits, "Pulling", f'Pulling image "{IMAGE}"', "2026-03-01T11:59:20Z")
    assert doing(waits, [pulling]) == f"pulls {IMAGE} for 40 s"
    pulled = event("Pod", waits, "Pulled", f'Successfully pulled image "{IMAGE}" in 30s')
    assert doing(waits, [pulling, pulled]) == "starts"


def test_waiting_for_the_head():
    waits = changed(
        waiting("decode", "PodInitializing"),
        """
        status:
          initContainerStatuses:
            - name: wait-gcs-ready
              image: x
              state: {running: {startedAt: "2026-03-01T11:59:00Z"}}
        """,
    )
    assert doing(waits) == "waits for the head"


@pytest.mark.parametrize(("taken", "code"), [(snapshot(), 0), (snapshot(rayservice=LOADING), 1)])
@pytest.mark.parametrize("output", ["human", "json"])
def test_the_verb(monkeypatch, capsys, taken, code, output):
    monkeypatch.setattr(cluster, "Cluster", lambda kubeconfig, context: None)
    monkeypatch.setattr(status, "take", lambda cluster, release, namespace: taken)
    assert status.run("llm", "inference", None, None, output) == code
    printed = capsys.readouterr().out
    if output == "json":
        whole = json.loads(printed)
        assert whole["state"] == ("loading" if code else "serving")
        assert {line["component"] for line in whole["pods"]} == {"head", "prefill", "decode"}
    else:
        for word in (*NAMES.values(), "gpu-a", "Decode:qwen3.5-9b", "1/1"):
            assert word in printed


def test_findings_and_what_was_not_seen_are_printed(monkeypatch, capsys):
    words = 'secret "hf-token" not found'
    pods = [pod("head"), pod("prefill"), waiting("decode", "CreateContainerConfigError", words)]
    taken = snapshot(rayservice=LOADING, pods=pods, unseen={"nodes": "nodes is forbidden"})
    monkeypatch.setattr(cluster, "Cluster", lambda kubeconfig, context: None)
    monkeypatch.setattr(status, "take", lambda cluster, release, namespace: taken)
    assert status.run("llm", "inference", None, None, "human") == 1
    printed = capsys.readouterr().out
    assert "RPD630" in printed
    assert "raypd doctor" in printed
    assert "Not seen, for want of rights: nodes." in printed
