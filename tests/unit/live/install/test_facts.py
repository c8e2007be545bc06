"""What is read of a cluster before an install, and what the release needs of it."""

from __future__ import annotations

import pytest

from raypd.live.install.facts import (
    RAYSERVICE_CRD,
    Permission,
    Reference,
    gather,
    permissions,
    references,
)
from unit.live import paper

TOKEN = "huggingface.existingSecret.name=hf-token"
DISCOVERY = {
    "/api/v1": [("Pod", "pods"), ("ServiceAccount", "serviceaccounts")],
    "/apis/networking.k8s.io/v1": [("NetworkPolicy", "networkpolicies")],
    "/apis/policy/v1": [("PodDisruptionBudget", "poddisruptionbudgets")],
    "/apis/ray.io/v1": [("RayService", "rayservices"), ("RayService", "rayservices/status")],
}
SPACE = {"metadata": {"name": "kuberay-system", "labels": {"team": "platform"}}}
SECRET = "/api/v1/namespaces/inference/secrets/hf-token"
SERVICE = "/apis/ray.io/v1/namespaces/inference/rayservices/llm-ray-pd-llm"
CLUSTER = "/apis/ray.io/v1/namespaces/inference/rayclusters/c1"


def cluster(*forbidden: str) -> paper.FakeCluster:
    objects = {
        path: {"resources": [{"kind": k, "name": n, "namespaced": True} for k, n in kinds]}
        for path, kinds in DISCOVERY.items()
    }
    objects |= {
        "/api/v1/namespaces/inference": {"metadata": {"name": "inference"}},
        "/api/v1/namespaces/kuberay-system": SPACE,
        RAYSERVICE_CRD: paper.crd(),
        "/apis/apps/v1/deployments/kuberay-operator": paper.operator(),
        "/api/v1/nodes/gpu-a": paper.nodes()[1],
        SECRET: {"metadata": {"name": "hf-token"}, "data": {"HF_TOKEN": "c2VjcmV0"}},
    }
    return paper.FakeCluster(objects, forbidden)


def read(source: paper.FakeCluster, *set_: str):
    return gather(source, paper.rendered(*set_), "inference")  # type: ignore[arg-type]


def test_what_is_there_is_read_and_secrets_stay_secret() -> None:
    facts = read(cluster(), TOKEN)
    assert facts.server == "v1.35.4"
    assert facts.kinds["ray.io/v1"] == {"RayService": ("rayservices", True)}
    assert facts.operator == paper.operator()
    assert facts.operator_space == SPACE
    assert [node["metadata"]["name"] for node in facts.nodes] == ["gpu-a"]
    assert facts.schema == paper.schema()
    assert facts.objects[("Secret", "hf-token")] == {
        "metadata": {"name": "hf-token"},
        "data": {"HF_TOKEN": None},
    }
    assert (facts.refused, facts.unseen, facts.autoscaled) == ([], {}, False)
    assert (facts.rayservice, facts.raycluster) == (None, None)


def test_what_is_not_there_is_none() -> None:
    bare = paper.FakeCluster()
    facts = read(bare, TOKEN)
    assert facts.kinds == dict.fromkeys(DISCOVERY_VERSIONS)
    assert (facts.crd, facts.operator, facts.namespace) == (None, None, None)
    assert facts.operator_space is None
    assert facts.objects[("Secret", "hf-token")] is None


DISCOVERY_VERSIONS = ["v1", "networking.k8s.io/v1", "policy/v1", "ray.io/v1"]


def test_what_may_not_be_read_is_named() -> None:
    facts = read(cluster("/api/v1/nodes", SECRET, RAYSERVICE_CRD), TOKEN)
    assert set(facts.unseen) == {"nodes", "Secret hf-token", "the RayService CRD"}
    assert ("Secret", "hf-token") not in facts.objects


@pytest.mark.parametrize(
    "sign",
    ["/apis/karpenter.sh", "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"],
)
def test_an_autoscaler_of_nodes_is_seen(sign: str) -> None:
    source = cluster()
    source.objects[sign] = {"kind": "it"}
    assert read(source).autoscaled


def test_the_cluster_under_way_counts_before_the_one_that_serves() -> None:
    source = cluster()
    status = {
        "activeServiceStatus": {"rayClusterName": "c0"},
        "pendingServiceStatus": {"rayClusterName": "c1"},
    }
    source.objects[SERVICE] = {"status": status}
    source.objects[CLUSTER] = {"metadata": {"name": "c1"}}
    facts = read(source)
    assert facts.raycluster == {"metadata": {"name": "c1"}}


def test_an_administrator_is_asked_once() -> None:
    source = cluster()
    read(source)
    assert len(source.created) == 1


def test_what_is_refused_is_named() -> None:
    source = cluster()
    source.allowed = False
    facts = read(source)
    assert Permission("create", "ray.io", "rayservices", "inference") in facts.refused
    assert len(source.created) == len(facts.refused) + 1


def test_permissions_follow_the_render() -> None:
    names = {str(p) for p in permissions(paper.rendered(), paper.KINDS, "inference", True, True)}
    assert {
        "create secrets",
        "create namespaces",
        "patch rayclusters.ray.io",
        "create poddisruptionbudgets.policy",
        "delete rayservices.ray.io",
    } <= names
    names = {str(p) for p in permissions(paper.rendered(), paper.KINDS, "inference", False, False)}
    assert not names & {"create namespaces", "patch rayclusters.ray.io"}


def test_references_are_found_once_and_without_the_releases_own() -> None:
    rendered = paper.rendered(
        TOKEN,
        "image.pullSecrets[0]=registry",
        "prefill.priorityClassName=high",
        "serviceAccount.create=false",
        "serviceAccount.name=engines",
        "gcsFaultTolerance.enabled=true",
        "gcsFaultTolerance.redisAddress=redis:6379",
        "gcsFaultTolerance.passwordSecret.name=redis",
    )
    found = references(rendered)
    assert {(r.kind, r.name, r.key) for r in found} == {
        ("Secret", "hf-token", "HF_TOKEN"),
        ("Secret", "registry", ""),
        ("Secret", "redis", "password"),
        ("PriorityClass", "high", ""),
        ("ServiceAccount", "engines", ""),
    }
    assert references(paper.rendered()) == []


def test_a_secret_that_the_release_makes_is_no_reference() -> None:
    assert references(paper.rendered("huggingface.token=hf_abcdefgh")) == []


def test_optional_and_mounted_objects() -> None:
    rendered = paper.rendered()
    optional = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "o", "optional": True}}}
    pod = {
        "containers": [
            {"env": [optional], "envFrom": [{"configMapRef": {"name": "settings"}}]},
        ],
        "volumes": [
            {"secret": {"secretName": "tls"}},
            {"persistentVolumeClaim": {"claimName": "weights"}},
        ],
    }
    rendered.manifests[:] = [{"kind": "Pod", "metadata": {"name": "x"}, "spec": pod}]
    assert references(rendered) == [
        Reference("Secret", "tls", "", "Pod x.spec.volumes[0].secret"),
        Reference(
            "PersistentVolumeClaim", "weights", "", "Pod x.spec.volumes[1].persistentVolumeClaim"
        ),
        Reference("ConfigMap", "settings", "", "Pod x.spec.containers[0].envFrom[0].configMapRef"),
    ]
