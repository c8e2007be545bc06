"""A value against a schema: path, code, and what to write, for each kind of mistake."""

from __future__ import annotations

from typing import Any

import pytest

from raypd.schema import dotted, nearest_key, resolved, schema_findings

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["model"],
    "properties": {
        "model": {"type": "string", "description": "Name of the model.", "minLength": 1},
        "replicas": {"type": "integer", "minimum": 1, "maximum": 8},
        "mode": {"enum": ["disaggregated", "aggregated"]},
        "image": {"type": "string", "pattern": "^[a-z]+$", "examples": ["abc"]},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "resources": {
            "anyOf": [
                {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"cpu": {"type": "string"}},
                },
                {"type": "null"},
            ]
        },
        "ports": {"type": "array", "items": {"type": "integer"}},
        "labels": {
            "type": "object",
            "additionalProperties": False,
            "patternProperties": {"^x-": {"type": "string"}},
        },
    },
}


@pytest.mark.parametrize(
    ("value", "code", "path", "remedy"),
    [
        ({"modl": 1, "model": "m"}, "RPD101", "modl", "`model`"),
        ({"model": "m", "resources": {"cpus": "1"}}, "RPD101", "resources.cpus", "`cpu`"),
        ({"model": "m", "labels": {"y": "1"}}, "RPD101", "labels.y", "Take it out"),
        ({"model": 1}, "RPD102", "model", "a string"),
        ({"model": "m", "size": "x"}, "RPD102", "size", "a whole number or null"),
        ({"model": "m", "resources": {"cpu": 1}}, "RPD102", "resources.cpu", "a string"),
        ({"model": "m", "ports": [1, "2"]}, "RPD102", "ports[1]", "a whole number"),
        ({}, "RPD103", "model", "Name of the model."),
        ({"model": "m", "mode": "Aggregated"}, "RPD104", "mode", '`"aggregated"`'),
        ({"model": "m", "replicas": 0}, "RPD105", "replicas", "At least `1`"),
        ({"model": "m", "replicas": 9}, "RPD105", "replicas", "At most `8`"),
        ({"model": "m", "image": "A"}, "RPD105", "image", 'For example `"abc"`'),
        ({"model": ""}, "RPD105", "model", "A length of at least 1"),
    ],
)
def test_one_mistake_is_one_finding(value: Any, code: str, path: str, remedy: str) -> None:
    (finding,) = schema_findings(SCHEMA, value, "RPD10")
    assert (finding.code, finding.path, finding.severity) == (code, path, "error")
    assert remedy in finding.remedy


def test_a_value_that_fits_gives_nothing() -> None:
    value = {"model": "m", "replicas": 8, "size": None, "labels": {"x-a": "1"}}
    assert schema_findings(SCHEMA, value, "RPD10") == []


def test_all_mistakes_are_told_at_once_below_the_given_path() -> None:
    found = schema_findings(SCHEMA, {"a": 1, "b": 2, "replicas": 0}, "RPD30", "spec.x")
    assert {(f.code, f.path) for f in found} == {
        ("RPD301", "spec.x.a"),
        ("RPD301", "spec.x.b"),
        ("RPD303", "spec.x.model"),
        ("RPD305", "spec.x.replicas"),
    }


def test_a_form_that_fits_no_alternative_names_them() -> None:
    schema = {"oneOf": [{"const": "a"}, {"type": "integer", "minimum": 3}]}
    (finding,) = schema_findings(schema, "b", "RPD10")
    assert finding.code == "RPD104"
    assert '`"a"`' in finding.remedy
    assert "a whole number" in finding.remedy


def test_paths_are_written_as_they_would_be_in_a_program() -> None:
    assert dotted(["env", 0, "name"]) == "env[0].name"
    assert dotted(["nodeSelector", "a.b/c"]) == 'nodeSelector["a.b/c"]'
    assert dotted(["b"], "a") == "a.b"


def test_the_nearest_key_is_found_whatever_its_case() -> None:
    assert "`maxModelLen`" in nearest_key("maxmodellen", ["maxModelLen", "dtype"])
    assert "`dtype`" in nearest_key("zzz", ["maxModelLen", "dtype"])


def test_what_stands_beside_a_reference_wins_over_its_definition() -> None:
    written = {
        "definitions": {
            "cpu": {"type": "string", "description": "A quantity.", "examples": ["4"]},
            "both": {"properties": {"cpu": {"$ref": "#/definitions/cpu"}}},
        },
        "properties": {
            "head": {"$ref": "#/definitions/both"},
            "own": {"$ref": "#/definitions/cpu", "description": "CPU of the head."},
        },
    }
    cpu = {"type": "string", "description": "A quantity.", "examples": ["4"]}
    assert resolved(written) == {
        "properties": {
            "head": {"properties": {"cpu": cpu}},
            "own": cpu | {"description": "CPU of the head."},
        }
    }
    (finding,) = schema_findings(resolved(written), {"own": 4}, "RPD10")
    assert finding.remedy.endswith('For example `"4"`. CPU of the head.')
