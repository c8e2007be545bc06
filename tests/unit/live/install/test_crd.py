"""Fields that a CRD drops, and what counts as a difference between what was written and what is."""

from __future__ import annotations

from typing import Any

import pytest

from raypd.live.install.crd import differences, pruned, schema_of
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


@pytest.mark.parametrize(
    ("wanted", "live"),
    [
        ({"cpu": "1000m"}, {"cpu": "1"}),
        ({"cpu": 1}, {"cpu": "1"}),
        ({}, {"protocol": "TCP"}),
        ({"labels": {}}, {}),
        ({}, {"labels": None, "ports": [], "inner": {"else": {}}}),
    ],
)
def test_other_spellings_and_defaults_are_no_difference(wanted: Any, live: Any) -> None:
    assert differences(POD, wanted, live) == []


@pytest.mark.parametrize(
    ("wanted", "live", "path"),
    [
        ({"cpu": "2"}, {"cpu": "1"}, "cpu"),
        ({"protocol": "UDP"}, {"protocol": "TCP"}, "protocol"),
        ({}, {"protocol": "UDP"}, "protocol"),
        ({"labels": {"a": "1"}}, {"labels": {"b": "1"}}, "labels.a"),
        ({"ports": [{"name": "a"}]}, {"ports": [{"name": "b"}]}, "ports[0].name"),
        ({"ports": [{"name": "a"}]}, {"ports": []}, "ports"),
    ],
)
def test_a_difference_is_told_with_its_path(wanted: Any, live: Any, path: str) -> None:
    assert path in differences(POD, wanted, live)
