"""Ray Serve's application and deployments where no engine is to blame."""

from __future__ import annotations

import json

import pytest

from raypd.live.diagnosis import diagnose
from unit.live.sample import (
    EPOCH,
    changed,
    deployment,
    event,
    parse,
    pod,
    rayservice,
    serve,
    snapshot,
    unready,
    waiting,
)

LOADING = rayservice(ready=False)
PODS = [pod("head"), unready("prefill"), unready("decode")]


def unplaced(name, required, free):
    return (
        f"Deployment '{name}' in application 'llm' has 1 replicas that have taken more than 30s to be "
        "scheduled. This may be due to waiting for the cluster to auto-scale or for a runtime "
        "environment to be installed. Resources required for each replica: "
        f"{json.dumps(required)}, total resources available: {json.dumps(free)}. "
        "Use `ray status` for more details."
    )


def waits(role, required, free, **changes):
    words = unplaced("x", required, free)
    part = {**deployment(role, "UPDATING", words), "replicas": []}
    base = {"rayservice": LOADING, "pods": PODS, "serve": serve("DEPLOYING", **{role: part})}
    return diagnose(snapshot(**{**base, **changes}))


def test_a_resource_that_no_group_has():
    (finding,) = waits("decode", [{"CPU": 2.0, "GPU": 1.0, "decoder": 1.0}], {})
    assert finding.code == "RPD641"
    assert "CPU 2, GPU 1, decoder 1" in finding.message
    assert "no group of pods offers that" in finding.message
    assert "decode has CPU 16, GPU 1, decoder 0" in finding.message
    assert finding.path == "deployment Decode:qwen3.5-9b of application llm"


def test_a_resource_that_is_in_use():
    (finding,) = waits("decode", [{"CPU": 2.0, "GPU": 1.0, "decode": 1.0}], {"CPU": 14.0})
    assert finding.code == "RPD641"
    assert "Pods of decode offer that" in finding.message
    assert "free of it now: CPU 14." in finding.message
    assert finding.severity == "error"


def test_a_replica_that_has_its_place_lacks_none():
    words = unplaced("x", [{"CPU": 2.0, "decode": 1.0}], {})
    part = deployment("decode", "UPDATING", words, state="STARTING")
    base = {"rayservice": LOADING, "pods": PODS, "serve": serve("DEPLOYING", decode=part)}
    assert diagnose(snapshot(**base)) == []


@pytest.mark.parametrize(("age", "severity"), [(100, "warning"), (400, "error")])
def test_a_young_replica_may_hold_its_place_itself(age, severity):
    words = unplaced("x", [{"CPU": 2.0, "decode": 1.0, "GPU": 0.0}], {})
    part = deployment("decode", "UPDATING", words)
    part["replicas"] = [
        {**replica, "state": "STARTING", "node_ip": None, "start_time_s": EPOCH - age}
        for replica in part["replicas"]
    ]
    base = {"rayservice": LOADING, "pods": PODS, "serve": serve("DEPLOYING", decode=part)}
    (finding,) = diagnose(snapshot(**base))
    assert (finding.code, finding.severity) == ("RPD641", severity)
    assert "free of it now: nothing" in finding.message
    assert "GPU" not in finding.message


def test_the_ingress_takes_a_cpu_of_any_group():
    (finding,) = waits("ingress", {"CPU": 64.0}, {"CPU": 4.0})
    assert finding.code == "RPD641"
    assert "{role}" not in finding.remedy


def test_a_replica_whose_pod_is_still_coming_waits_for_that():
    coming = waiting("decode", "ContainerCreating")
    assert waits("decode", [{"decode": 1.0}], {}, pods=[*PODS[:2], coming]) == []


def test_a_container_that_has_just_started_has_yet_to_join():
    fresh = changed(unready("decode"), "{}")
    state = fresh["status"]["containerStatuses"][0]["state"]
    state["running"]["startedAt"] = "2026-03-01T11:59:30Z"
    assert waits("decode", [{"decode": 1.0}], {}, pods=[*PODS[:2], fresh]) == []


BUILD = """\
Traceback (most recent call last):
  File "/usr/local/lib/python3.13/site-packages/ray/serve/_private/application_state.py", line 1
pydantic_core._pydantic_core.ValidationError: 1 validation error for PDServingArgs
decode_configs
  Extra inputs are not permitted [type=extra_forbidden, input_value={}, input_type=dict]
"""


def test_an_application_that_cannot_be_built():
    failed = {
        "applications": {"llm": {"status": "DEPLOY_FAILED", "message": BUILD, "deployments": {}}}
    }
    (finding,) = diagnose(snapshot(rayservice=LOADING, pods=PODS, serve=failed))
    assert finding.code == "RPD640"
    assert finding.path == "application llm"
    assert "Extra inputs are not permitted" in finding.message
    assert "Traceback" not in finding.message


def test_an_ingress_that_fails():
    words = "A replica failed to start with exception. Retrying. Error:\nKeyError: 'x'"
    part = deployment("ingress", "UPDATING", words)
    (finding,) = diagnose(
        snapshot(rayservice=LOADING, pods=PODS, serve=serve("DEPLOYING", ingress=part))
    )
    assert finding.code == "RPD640"
    assert "OpenAiIngress" in finding.path
    assert "KeyError: 'x'" in finding.message


def test_a_dashboard_that_does_not_answer_although_the_head_is_ready():
    (finding,) = diagnose(snapshot(serve=None, serve_unreachable="timed out"))
    assert finding.code == "RPD643"
    assert "timed out" in finding.message


def test_a_head_that_has_just_become_ready_is_given_time():
    fresh = changed(pod("head"), "{}")
    fresh["status"]["conditions"][1]["lastTransitionTime"] = "2026-03-01T11:59:30Z"
    pods = [fresh, *PODS[1:]]
    whole = snapshot(rayservice=LOADING, pods=pods, serve=None, serve_unreachable="timed out")
    assert diagnose(whole) == []


NOT_UPDATED = (
    "Failed to update serve applications to the RayCluster inference/llm-ray-pd-llm-x7k2p: fail to "
    "create / update Serve applications. If you observe this error consistently, please check "
    '"Issue 5: Fail to create / update Serve applications." in https://docs.ray.io/x for more details. '
)
TIMEOUT = (
    'err: Put "http://llm-ray-pd-llm-x7k2p-head-svc.inference.svc.cluster.local:8265/api/serve/'
    'applications/": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
)
EMPTY = {"applications": {}}


def not_updated(words, head, applications=EMPTY, **parts):
    said = event("RayService", LOADING, "FailedToUpdateServeApplications", NOT_UPDATED + words)
    bare = changed(LOADING, "status: {pendingServiceStatus: {applicationStatuses: null}}")
    return diagnose(
        snapshot(
            rayservice=bare, pods=[head, *PODS[1:]], serve=applications, events=[said], **parts
        )
    )


def test_kuberay_that_cannot_reach_a_head_that_starts_is_no_finding():
    fresh = changed(pod("head"), "{}")
    fresh["status"]["conditions"][1]["lastTransitionTime"] = "2026-03-01T11:59:30Z"
    assert not_updated(TIMEOUT, fresh) == []
    assert not_updated(TIMEOUT, pod("head"), serve("DEPLOYING")) == []


def test_kuberay_that_still_cannot_reach_the_head():
    (finding,) = not_updated(TIMEOUT, pod("head"))
    assert finding.code == "RPD644"
    assert "NetworkPolicy" in finding.remedy
    assert "docs.ray.io" not in finding.message


POLICY = """
    metadata: {name: llm-ray-pd-llm, namespace: inference}
    spec:
      podSelector: {}
      ingress:
        - from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}]
"""


@pytest.mark.parametrize(
    ("admitted", "code"), [("kuberay-system", "RPD644"), ("elsewhere", "RPD645")]
)
def test_a_network_policy_between_kuberay_and_the_head(admitted, code):
    policy = parse(POLICY.replace("NAMESPACE", admitted))
    (finding,) = not_updated(TIMEOUT, pod("head"), policies=[policy])
    assert finding.code == code
    if code == "RPD645":
        assert "in namespace kuberay-system, cannot reach" in finding.message
        assert "networkPolicy.operator" in finding.remedy


def test_a_network_policy_is_no_reason_for_a_config_that_ray_refuses():
    words = "err: UpdateDeployments fail: 500 Internal Server Error ValidationError: route_prefix"
    policy = parse(POLICY.replace("NAMESPACE", "elsewhere"))
    (finding,) = not_updated(words, pod("head"), policies=[policy])
    assert finding.code == "RPD644"


def test_a_serve_config_that_ray_refuses():
    words = "err: UpdateDeployments fail: 500 Internal Server Error ValidationError: route_prefix"
    (finding,) = not_updated(words, pod("head"))
    assert finding.code == "RPD644"
    assert "Ray refuses the serve config" in finding.message
    assert "raypd lint" in finding.remedy


def test_engines_that_serve_in_pods_whose_proxy_does_not():
    (finding,) = diagnose(snapshot(rayservice=LOADING, pods=PODS, serve=serve()))
    assert finding.code == "RPD646"
    assert finding.path.startswith("pod inference/")
    assert "RAY_SERVE_HAPROXY_MAXCONN" in finding.remedy


def test_a_pod_that_has_just_started_is_given_time_for_its_proxy():
    young = [pod("head")]
    for each in PODS[1:]:
        state = each["status"]["containerStatuses"][0]["state"]["running"]
        state = {**state, "startedAt": snapshot().taken}
        young.append(
            changed(
                each,
                "status: {containerStatuses: ["
                + json.dumps(
                    {**each["status"]["containerStatuses"][0], "state": {"running": state}}
                )
                + "]}",
            )
        )
    assert diagnose(snapshot(rayservice=LOADING, pods=young, serve=serve())) == []
