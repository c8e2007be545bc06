"""The schema's derived files agree with it, key by key."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from raypd import yaml_text
from raypd.schema import resolved

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "ray-pd-llm"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location(
        "chart_values", ROOT / "scripts" / "chart_values.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_derived_files_are_up_to_date(generator):
    assert generator.stale() == [], "run: python scripts/chart_values.py"


def test_a_stale_file_is_noticed(generator, tmp_path, monkeypatch):
    monkeypatch.setattr(generator, "outputs", lambda: {tmp_path / "values.yaml": "new"})
    (tmp_path / "values.yaml").write_text("old")
    assert generator.stale() == [tmp_path / "values.yaml"]


def test_helm_compiles_what_roles_share_once():
    """It compiles the schema in each render, and every pattern in it takes its time."""
    written = (CHART / "values.schema.json").read_text()
    schema = json.loads(written)
    roles = {schema["properties"][role]["$ref"] for role in ("prefill", "decode", "engine")}
    assert len(roles) == 1
    for name in ("labelKey", "byteQuantityOrNull", "cpuQuantityOrNull", "instanceTypeOrNull"):
        assert written.count(json.dumps(schema["definitions"][name]["pattern"])) == 1


def keys(tree: dict, schema: dict, prefix: str = "") -> set[str]:
    """Paths of a values tree, down to where the schema stops naming keys."""
    found = set()
    for key, value in tree.items():
        child = schema["properties"].get(key, {})
        found.add(prefix + key)
        if "properties" in child and isinstance(value, dict) and value:
            found |= keys(value, child, f"{prefix}{key}.")
    return found


def schema_keys(schema: dict, prefix: str = "") -> set[str]:
    return {prefix + key for key in schema["properties"]} | {
        found
        for key, child in schema["properties"].items()
        if "properties" in child
        for found in schema_keys(child, f"{prefix}{key}.")
    }


def test_values_schema_defaults_and_reference_have_the_same_keys():
    schema = resolved(json.loads((CHART / "values.schema.json").read_text()))
    values = yaml_text.load((CHART / "values.yaml").read_text())
    defaults = json.loads((CHART / "files" / "defaults.json").read_text())
    wanted = schema_keys(schema)
    wanted -= {"global", "enabled"}
    # `affinity` is the user's own map that happens to name its keys: its default is empty.
    wanted = {key for key in wanted if ".affinity." not in key}
    assert keys(values, schema) == wanted
    assert keys(defaults, schema) == wanted
    reference = (ROOT / "docs" / "values.md").read_text()
    twins = ("decode.", "engine.")
    missing = {k for k in wanted if not k.startswith(twins) and f"`{k}`" not in reference}
    assert missing == set()
