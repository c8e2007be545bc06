"""Ray Serve's applications, from the dashboard or from KubeRay."""

from __future__ import annotations

from raypd.live.applications import applications, spare_pods
from unit.live.sample import EPOCH, NAMES, WORKERS, deployment, rayservice, serve, snapshot


def test_the_dashboards_document():
    (application,) = applications(snapshot())
    assert (application.name, application.status) == ("llm", "RUNNING")
    roles = {part.name: part.role for part in application.deployments}
    assert roles == {
        "OpenAiIngress": None,
        "Prefill:qwen3.5-9b": "prefill",
        "Decode:qwen3.5-9b": "decode",
    }
    decode = application.deployments[-1]
    (replica,) = decode.replicas
    assert (replica.pod, replica.worker) == (NAMES["decode"], WORKERS["decode"])
    assert replica.since == EPOCH - 73
    assert decode.target == 1
    assert not decode.failed


def test_before_serve_has_any():
    assert applications(snapshot(serve={"applications": {}})) == []
    assert applications(snapshot(serve=None, rayservice=None)) == []


def test_a_replica_without_a_node():
    part = deployment("decode", "UPDATING", state="STARTING")
    part["replicas"][0].update(node_ip=None, worker_id=None)
    (application,) = applications(snapshot(serve=serve("DEPLOYING", decode=part)))
    (replica,) = application.deployments[-1].replicas
    assert (replica.pod, replica.worker) == ("", "")


def test_failing_is_a_status_or_an_error_in_the_message():
    for part in (
        deployment("decode", "DEPLOY_FAILED"),
        deployment("decode", "UNHEALTHY"),
        deployment("decode", "UPDATING", "A replica failed to start ... Error:\nKeyError: 1"),
    ):
        (application,) = applications(snapshot(serve=serve(decode=part)))
        assert application.deployments[-1].failed


def test_kuberays_view_of_the_cluster_that_is_being_made():
    seen = rayservice(ready=False)
    seen["status"]["pendingServiceStatus"]["applicationStatuses"] = {
        "llm": {
            "status": "DEPLOYING",
            "serveDeploymentStatuses": {"Decode:x": {"status": "UPDATING", "message": "m"}},
        }
    }
    (application,) = applications(snapshot(serve=None, rayservice=seen))
    (part,) = application.deployments
    assert (part.name, part.status, part.message) == ("Decode:x", "UPDATING", "m")
    assert (part.target, part.replicas) == (None, [])


def test_spare_pods_are_those_without_an_engine_once_serve_has_settled():
    look = snapshot()
    assert spare_pods(look, "prefill", 1) == []
    assert spare_pods(look, "prefill", 0) is None
    empty = deployment("prefill")
    empty["replicas"] = []
    look = snapshot(serve=serve("RUNNING", prefill=empty))
    assert spare_pods(look, "prefill", 0) == [NAMES["prefill"]]
    assert spare_pods(look, "decode", 1) == []
    homeless = deployment("prefill", "UPDATING", state="STARTING")
    homeless["replicas"][0].update(node_ip=None)
    assert spare_pods(snapshot(serve=serve("RUNNING", prefill=homeless)), "prefill", 1) is None
    assert spare_pods(snapshot(serve=None), "prefill", 0) is None
