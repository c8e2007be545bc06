"""Fields that a CRD drops."""

from __future__ import annotations

from raypd.live.install.crd import pruned, schema_of
from unit.live import paper

POD = {
    "type": "object",
    "properties": {
        "cpu": {"x-kubernetes-int-or-string": True},
        "protocol": {"type": "string", "default": "TCP"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "ports": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
        "inner": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}},
    },
}


def test_a_field_that_no_schema_knows_is_named_with_its_path() -> None:
    written = {
        "kind": "Pod",
        "metadata": {"name": "x"},
        "labels": {"any": "thing"},
        "free": {"what": {"ever": 1}},
        "inner": {"kind": "Pod", "else": 1},
        "ports": [{"name": "a"}, {"name": "b", "speed": {"bits": 1}}],
        "colour": "red",
    }
    assert pruned(POD, written) == ["inner.else", "ports[1].speed", "colour"]


def test_the_chart_loses_nothing_to_the_pinned_kuberay() -> None:
    assert pruned(paper.schema(), paper.rendered().rayservice) == []


def test_an_older_crd_drops_what_it_does_not_know() -> None:
    old = {**paper.schema()["properties"]["spec"]}
    old["properties"] = {k: v for k, v in old["properties"].items() if k != "upgradeStrategy"}
    found = pruned({"properties": {"spec": old}}, paper.rendered().rayservice)
    assert found == ["spec.upgradeStrategy"]


def test_a_version_that_is_not_served_has_no_schema() -> None:
    crd = {"spec": {"versions": [{"name": "v1", "served": False, "schema": {}}]}}
    assert schema_of(crd, "v1") is None
    assert schema_of(crd, "v2") is None
