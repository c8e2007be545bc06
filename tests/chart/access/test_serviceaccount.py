"""The identity of the pods."""

from __future__ import annotations


def test_made_and_used_by_every_pod(render):
    values = {
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}}
    }
    account = render.one("ServiceAccount", values)
    assert account["metadata"]["annotations"] == {
        "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"
    }
    name = account["metadata"]["name"]
    assert {pod["serviceAccountName"] for pod in render.pods(values).values()} == {name}


def test_an_existing_one(render):
    values = {"serviceAccount": {"create": False, "name": "mine"}}
    assert render.kind("ServiceAccount", values) == []
    assert {pod["serviceAccountName"] for pod in render.pods(values).values()} == {"mine"}


def test_the_default_one(render):
    values = {"serviceAccount": {"create": False}}
    assert {pod["serviceAccountName"] for pod in render.pods(values).values()} == {"default"}


def test_no_pod_gets_a_token_of_the_api_server(render):
    assert not any(pod["automountServiceAccountToken"] for pod in render.pods().values())


def test_it_stays_for_the_job_that_empties_the_redis(render):
    values = {
        "gcsFaultTolerance": {"enabled": True, "redisAddress": "redis:6379"},
        "serviceAccount": {"annotations": {"a": "b"}},
    }
    annotations = render.one("ServiceAccount", values)["metadata"]["annotations"]
    assert annotations == {"a": "b", "helm.sh/resource-policy": "keep"}
    assert "annotations" not in render.one("ServiceAccount")["metadata"]
