"""The release, the operator, and RayServices that KubeRay refuses."""

from __future__ import annotations

import pytest

from raypd.live.diagnosis import diagnose
from unit.live.sample import changed, event, rayservice, snapshot


def only(**changes):
    """The one finding of a snapshot."""
    (finding,) = diagnose(snapshot(**changes))
    return finding


def test_a_release_that_serves_has_no_finding():
    assert diagnose(snapshot()) == []


def test_no_release():
    finding = only(rayservice=None, rayclusters=[], pods=[], serve=None, helm=None)
    assert finding.code == "RPD601"
    assert "raypd up" in finding.remedy


def test_no_crd_hides_what_follows_from_it():
    finding = only(crd=False, operator=None, rayservice=None, pods=[], serve=None, helm=None)
    assert finding.code == "RPD602"
    assert "--with-operator" in finding.remedy


def test_no_operator():
    bare = {**rayservice(), "status": {}}
    assert only(operator=None, rayservice=bare, pods=[], serve=None).code == "RPD603"


def test_an_operator_under_another_name_has_left_a_status():
    assert diagnose(snapshot(operator=None)) == []


def test_an_operator_that_one_may_not_see_is_not_missed():
    bare = {**rayservice(), "status": {}}
    unseen = {"Deployments of all namespaces": "forbidden"}
    assert diagnose(snapshot(operator=None, rayservice=bare, pods=[], unseen=unseen)) == []


def test_operator_without_a_ready_pod():
    operator = {
        "metadata": {"name": "kuberay-operator", "namespace": "kuberay-system"},
        "status": {"unavailableReplicas": 1},
    }
    finding = only(operator=operator)
    assert finding.code == "RPD604"
    assert finding.path == "Deployment kuberay-system/kuberay-operator"


def test_rayservice_deleted_behind_helms_back():
    assert only(rayservice=None, rayclusters=[], pods=[], serve=None).code == "RPD608"


@pytest.mark.parametrize(
    ("status", "way_out"), [("failed", "helm history"), ("pending-upgrade", "helm rollback")]
)
def test_helm_stopped_in_the_middle_is_a_warning(status, way_out):
    finding = only(helm={"name": "llm", "status": status, "version": "2"})
    assert (finding.code, finding.severity) == ("RPD607", "warning")
    assert way_out in finding.remedy


REFUSAL = (
    "The RayService spec is invalid: spec.serveService.metadata.name should not be longer than 63"
)


def test_kuberay_refuses_by_a_condition():
    refused = changed(
        rayservice(),
        f"""
        status:
          activeServiceStatus: {{}}
          numServeEndpoints: 0
          conditions:
            - {{type: Ready, status: "False", reason: ValidationFailed, message: "{REFUSAL}"}}
        """,
    )
    finding = only(rayservice=refused, rayclusters=[], pods=[], serve=None)
    assert finding.code == "RPD605"
    assert REFUSAL in finding.message
    assert "raypd lint" in finding.remedy


def test_kuberay_before_1_6_refuses_by_an_event_alone():
    bare = {**rayservice(), "status": {}}
    said = event("RayService", bare, "InvalidRayServiceSpec", f"inference/llm: {REFUSAL}")
    finding = only(rayservice=bare, rayclusters=[], pods=[], serve=None, events=[said])
    assert finding.code == "RPD605"
    assert REFUSAL in finding.message


def test_an_event_about_an_older_object_of_the_name_is_none_about_this_one():
    bare = {**rayservice(), "status": {}}
    said = event("RayService", bare, "InvalidRayServiceSpec", REFUSAL)
    said["involvedObject"]["uid"] = "another"
    assert diagnose(snapshot(rayservice=bare, pods=[], events=[said])) == []


def _not_made(words: str):
    base = snapshot(pods=[], serve=None)
    said = event("RayCluster", base.rayclusters[0], "FailedToCreateWorkerPod", words)
    return only(pods=[], serve=None, events=[said])


def test_quota():
    finding = _not_made(
        "Failed to create worker Pod for the cluster inference/llm-ray-pd-llm-x7k2p, pods "
        '"llm-ray-pd-llm-x7k2p-decode-worker-q" is forbidden: exceeded quota: gpus, requested: '
        "requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=1, limited: "
        "requests.nvidia.com/gpu=1"
    )
    assert finding.code == "RPD606"
    assert "ResourceQuota" in finding.remedy


def test_pod_security():
    finding = _not_made(
        'Failed to create worker Pod for the cluster inference/x, pods "x" is forbidden: violates '
        'PodSecurity "baseline:latest": hostPath volumes (volume "cache")'
    )
    assert finding.code == "RPD606"
    assert "pod-security.kubernetes.io/enforce=privileged" in finding.remedy


def test_refusals_of_long_ago_are_over():
    base = snapshot()
    said = event("RayCluster", base.rayclusters[0], "FailedToCreateWorkerPod", "exceeded quota")
    said["lastTimestamp"] = "2026-03-01T11:00:00Z"
    assert diagnose(snapshot(events=[said])) == []


def test_a_cluster_that_is_refused_behind_an_accepted_rayservice():
    base = snapshot()
    words = "The RayCluster spec is invalid inference/x: upgradeStrategy cannot be set"
    said = event("RayCluster", base.rayclusters[0], "InvalidRayClusterSpec", words)
    finding = only(rayservice=rayservice(ready=False), pods=[], serve=None, events=[said])
    assert finding.code == "RPD605"
    assert words in finding.message


def test_initialization_timeout():
    given_up = changed(
        rayservice(ready=False),
        """
        status:
          pendingServiceStatus: {}
          conditions:
            - type: Ready
              status: "False"
              reason: InitializingTimeout
              message: >-
                RayService failed to become ready within the configured timeout of 10m0s. Time spent
                initializing: 10m1s
        """,
    )
    finding = only(rayservice=given_up, rayclusters=[], pods=[], serve=None)
    assert finding.code == "RPD609"
    assert "10m0s" in finding.message
