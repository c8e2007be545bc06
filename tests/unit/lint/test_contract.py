"""The contracts: what is in them, and that they are what the packages of those versions say."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import jsonschema
import pytest

from raypd import data
from raypd.lint.contract import contract_for
from raypd.toolchain.cache import cache_dir, once
from raypd.toolchain.runtime import cpu_name

FOLDER = Path(data.__file__).parent / "contracts"
PINNED = contract_for("2.58.0")


@pytest.mark.parametrize("name", ["ServeDeploySchema", "PDServingArgs", "LLMServingArgs"])
def test_rays_contract_is_a_json_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(PINNED.ray_schema(name))


def test_vllms_contract_is_a_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(PINNED.engine_schema())


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


def test_another_ray_is_checked_against_the_default_and_known_to_be_another() -> None:
    assert PINNED.known
    other = contract_for("2.99.0")
    assert not other.known
    assert other.ray == PINNED.ray


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
    written = {path.name: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
    assert extracted == written
