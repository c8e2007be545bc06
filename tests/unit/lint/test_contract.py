"""The contracts: what is in them, and that they are what the packages of those versions say."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import jsonschema
import pytest

from raypd import data, yaml_text
from raypd.lint.contract import PARTS, contract_for, default_version, known_versions
from raypd.lint.serve_config import _DEPRECATED_PROXY, _DEPRECATED_SCALING
from raypd.render import default_chart
from raypd.toolchain.cache import cache_dir, once
from raypd.toolchain.runtime import cpu_name

FOLDER = Path(data.__file__).parent / "contracts"
PINNED = contract_for("2.58.0")


@pytest.mark.parametrize("version", known_versions())
def test_every_contract_is_json_schema(version: str) -> None:
    contract = contract_for(version)
    for name in ("ServeDeploySchema", "PDServingArgs", "LLMServingArgs"):
        assert name in contract.ray["$defs"]
    # What differs between the schemas of one contract is the name that they refer to.
    for schema in (contract.ray_schema("PDServingArgs"), contract.engine_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)


def test_what_the_design_relies_on_is_in_the_contracts() -> None:
    arguments = PINNED.vllm["$defs"]["EngineKwargs"]["properties"]
    assert {"max_model_len", "kv_transfer_config", "block_size", "revision"} <= set(arguments)
    assert {"backends", "kv_lease_duration"} <= set(PINNED.vllm["nixl_extra_config"])
    assert {"UCX", "LIBFABRIC"} <= set(PINNED.nixl["backends"])
    experimental = PINNED.ray["$defs"]["LLMConfig"]["properties"]["experimental_configs"]
    assert {"NIXL_SIDE_CHANNEL_PORT_BASE", "_prewarm_prefill_decode"} <= set(
        experimental["properties"]
    )


def test_no_prose_of_the_packages_is_kept() -> None:
    for path in FOLDER.glob("*.json"):
        assert '"description"' not in path.read_text(encoding="utf-8")


def test_every_file_is_named_by_a_version_and_is_of_that_version() -> None:
    named = set()
    for version in known_versions():
        contract = contract_for(version)
        assert contract.known
        assert version.startswith(contract.ray["source"]["ray"].rpartition(".")[0])
        named |= {f"{part}-{getattr(contract, part)['source'][part]}.json" for part in PARTS}
    assert named == {path.name for path in FOLDER.glob("*.json")}


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        ("2.57.9", "2.57.0"),
        ("2.59.3", "2.59.0"),
        ("2.99.0", "2.60.0"),
        ("2.58", "2.58.0"),
        ("2." + "9" * 5000, "2.58.0"),
        ("2.9.0", "2.56.0"),
        ("nightly", "2.58.0"),
        ("None", "2.58.0"),
    ],
)
def test_an_unknown_ray_is_checked_against_the_nearest_older_one(asked: str, read: str) -> None:
    contract = contract_for(asked)
    assert not contract.known
    assert contract.ray["source"]["ray"] == read
    assert f"Ray {read}," in contract.versions


def test_a_patch_release_that_shares_a_file_is_called_by_its_own_number() -> None:
    assert contract_for("2.58.1").ray == PINNED.ray
    assert contract_for("2.58.1").versions.startswith("Ray 2.58.1, vLLM 0.26.0 ")


def test_the_charts_matrix_and_the_contracts_speak_of_the_same_pairs() -> None:
    files = default_chart() / "files"
    matrix = yaml_text.load((files / "versions.yaml").read_text(encoding="utf-8"))["ray"]
    assert list(matrix) == known_versions()
    for version, row in matrix.items():
        contract = contract_for(version)
        assert row["vllm"] == [contract.version_of("vllm")]
        assert row["nixl"] == [contract.version_of("nixl").rpartition(".")[0]]
    values = yaml_text.load((default_chart() / "values.yaml").read_text(encoding="utf-8"))
    assert values["image"]["rayVersion"] == default_version()
    assert values["image"]["vllmVersion"] == PINNED.version_of("vllm")


@pytest.mark.parametrize("version", known_versions())
def test_what_ray_marks_as_deprecated_has_a_replacement_in_the_rules(version: str) -> None:
    marked = {
        key
        for name, definition in contract_for(version).ray["$defs"].items()
        for key, schema in definition.get("properties", {}).items()
        if schema.get("deprecated") and not definition.get("deprecated")
    }
    assert "smoothing_factor" in marked
    assert marked <= {*_DEPRECATED_PROXY, *_DEPRECATED_SCALING}


def test_the_contracts_are_what_the_packages_say() -> None:
    """What is extracted depends on the script and the runtime alone, so it is kept for both: reading
    Ray and vLLM takes half a minute.
    """
    python = cache_dir() / cpu_name() / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no CPU runtime at {python}; `raypd local up` makes it")
    script = Path(data.__file__).parent / "extract.py"

    def extract(folder: Path) -> None:
        subprocess.run([python, script, folder], check=True, capture_output=True, timeout=300)

    digest = hashlib.sha256(script.read_bytes()).hexdigest()[:16]
    folder = once(
        f"contracts-{cpu_name()}-{digest}", "Reading the contracts of Ray and vLLM", extract
    )
    extracted = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
    assert f"ray-{default_version()}.json" in extracted
    for name, contract in extracted.items():
        assert contract == json.loads((FOLDER / name).read_text()), name
