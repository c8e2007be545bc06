"""What Helm does with a release's objects, and what the API server refuses."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from raypd.upgrade.objects import compare, hooks, read_at_start
from unit.live import paper
from unit.upgrade.test_difference import JSON


def thing(kind: str, name: str = "x", **content: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **content}


def claim(size: str = "10Gi", **annotations: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}}
    made = thing("PersistentVolumeClaim", spec=spec)
    return {**made, "metadata": {"name": "x", "annotations": annotations}}


def test_objects_are_made_changed_deleted_and_kept() -> None:
    before = [
        thing("ConfigMap", "stays", data={"a": "1"}),
        thing("ConfigMap", "changes", data={"a": "1"}),
        thing("ConfigMap", "goes"),
        claim(**{"helm.sh/resource-policy": "keep"}),
    ]
    after = [
        thing("ConfigMap", "stays", data={"a": "1"}),
        thing("ConfigMap", "changes", data={"a": "2"}),
        thing("ConfigMap", "comes"),
    ]
    assert {(one.title, one.fate) for one in compare(before, after)} == {
        ("ConfigMap/changes", "changed"),
        ("ConfigMap/goes", "deleted"),
        ("ConfigMap/comes", "created"),
        ("PersistentVolumeClaim/x", "kept"),
    }


@pytest.mark.parametrize(
    ("kind", "before", "after", "refused"),
    [
        ("Job", {"spec": {"template": {"a": 1}}}, {"spec": {"template": {"a": 2}}}, True),
        ("Job", {"spec": {"completions": 1}}, {"spec": {"completions": 2}}, True),
        ("Job", {"spec": {"parallelism": 1}}, {"spec": {"parallelism": 2}}, False),
        ("Job", {"spec": {"backoffLimit": 1}}, {"spec": {"backoffLimit": 2}}, False),
        ("Service", {"spec": {"clusterIP": "10.0.0.1"}}, {"spec": {"clusterIP": "None"}}, True),
        ("Service", {"spec": {"type": "ClusterIP"}}, {"spec": {"type": "NodePort"}}, False),
        (
            "Deployment",
            {"spec": {"selector": {"a": "b"}}},
            {"spec": {"selector": {"a": "c"}}},
            True,
        ),
        ("Deployment", {"spec": {"template": {"a": 1}}}, {"spec": {"template": {"a": 2}}}, False),
        ("StatefulSet", {"spec": {"serviceName": "a"}}, {"spec": {"serviceName": "b"}}, True),
        ("StatefulSet", {"spec": {"template": {"a": 1}}}, {"spec": {"template": {"a": 2}}}, False),
        ("PodDisruptionBudget", {"spec": {"selector": {"a": "b"}}}, {"spec": {}}, False),
        ("Secret", {"type": "Opaque"}, {"type": "kubernetes.io/tls"}, True),
        ("Secret", {"data": {"a": "Yg=="}}, {"data": {"a": "Yw=="}}, False),
        ("RoleBinding", {"roleRef": {"name": "a"}}, {"roleRef": {"name": "b"}}, True),
    ],
)
def test_which_fields_cannot_be_changed(kind: str, before: Any, after: Any, refused: bool) -> None:
    (found,) = compare([thing(kind, **before)], [thing(kind, **after)])
    assert bool(found.refused) is refused


def test_a_claim_grows_and_does_nothing_else() -> None:
    (grown,) = compare([claim("10Gi")], [claim("20Gi")])
    (shrunk,) = compare([claim("10Gi")], [claim("9000Mi")])
    other = claim("10Gi")
    other["spec"]["storageClassName"] = "fast"
    (moved,) = compare([claim("10Gi")], [other])
    assert [bool(one.refused) for one in (grown, shrunk, moved)] == [False, True, True]
    assert compare([claim("1Gi")], [claim("1024Mi")]) == []


def test_what_the_server_writes_is_no_change() -> None:
    live = thing("ConfigMap", status={"a": 1})
    live["metadata"] |= {"uid": "1", "resourceVersion": "7", "creationTimestamp": "now"}
    assert compare([live], [thing("ConfigMap")]) == []


def test_of_a_rayservice_the_metadata_counts_here() -> None:
    before, after = paper.rendered(), paper.rendered("image.tag=other", "commonLabels.team=ml")
    assert {
        place.path for one in compare(before.manifests, after.manifests) for place in one.places
    } == {"metadata.labels.team"}


def test_hooks_are_no_objects_of_the_release() -> None:
    before, after = paper.rendered(), paper.rendered("tests.enabled=false")
    assert compare(before.manifests, after.manifests) == []
    assert hooks(before.manifests) == ["Pod/llm-ray-pd-llm-test-chat"]


def test_the_tokens_secret_is_read_when_a_container_starts() -> None:
    found = read_at_start(paper.rendered("huggingface.existingSecret.name=hub").manifests)
    assert found == {("Secret", "hub")}
    assert read_at_start(paper.rendered().manifests) == set()


@given(JSON, JSON)
def test_objects_of_any_shape(one: Any, other: Any) -> None:
    before = [
        thing("Job", spec=one),
        {"kind": one, "metadata": other},
        thing("RayService", spec=one),
    ]
    after = [
        thing("Job", spec=other),
        {"kind": one, "metadata": other},
        thing("RayService", spec=other),
    ]
    assert compare(before, copy.deepcopy(before)) == []
    assert all(found.title for found in compare(before, after))
    assert isinstance(read_at_start(after), set)
