"""How KV moves between the roles: each rule kept by the sample, broken once."""

from __future__ import annotations

import pytest

from unit.lint.sample import ABSENT, Break, Sample

APP = "spec.serveConfigV2.applications[0]"
PREFILL = f"{APP}.args.prefill_config"
DECODE = f"{APP}.args.decode_config"
PREFILL_KV = f"{PREFILL}.engine_kwargs.kv_transfer_config"
DECODE_KV = f"{DECODE}.engine_kwargs.kv_transfer_config"
GROUP0 = "spec.rayClusterConfig.workerGroupSpecs[0].template.spec.containers[0].env"


def kv(role: str, key: str) -> str:
    return f"{role}:engine_kwargs|kv_transfer_config|{key}"


def extra(role: str, key: str) -> str:
    return kv(role, f"kv_connector_extra_config|{key}")


def hybrid(sample: Sample) -> Sample:
    """The same application with a hybrid model, set up as such a model needs it."""
    sample.model = {"kind": "hybrid"}
    for group in ("group0", "group1"):
        sample.env(group, "VLLM_SSM_CONV_STATE_LAYOUT", "DS")
    return sample


BROKEN: list[tuple[str, str, Break]] = [
    (
        "RPD330",
        DECODE_KV,
        lambda s: s.put("decode:engine_kwargs|kv_transfer_config", ABSENT),
    ),
    ("RPD331", f"{PREFILL_KV}.kv_connector", lambda s: s.put(kv("prefill", "kv_connector"), None)),
    (
        "RPD332",
        f"{PREFILL_KV}.kv_connector",
        lambda s: s.put(kv("prefill", "kv_connector"), "NIXLConnector"),
    ),
    (
        "RPD333",
        f"{DECODE_KV}.kv_connector",
        lambda s: s.put(kv("decode", "kv_connector"), "LMCacheConnectorV1"),
    ),
    ("RPD334", f"{DECODE_KV}.kv_role", lambda s: s.put(kv("decode", "kv_role"), ABSENT)),
    ("RPD335", f"{DECODE_KV}.kv_role", lambda s: s.put(kv("decode", "kv_role"), "kv_both")),
    ("RPD336", f"{DECODE_KV}.kv_role", lambda s: s.put(kv("decode", "kv_role"), "kv_producer")),
    (
        "RPD337",
        f"{PREFILL_KV}.kv_connector_extra_config.backends",
        lambda s: s.put(extra("prefill", "backends"), ABSENT),
    ),
    (
        "RPD338",
        f"{DECODE_KV}.kv_connector_extra_config.backends",
        lambda s: s.put(extra("decode", "backends"), ["UCX"]),
    ),
    (
        "RPD339",
        f"{PREFILL_KV}.kv_connector_extra_config.backends",
        lambda s: s.put(extra("prefill", "backends"), ["libfabric"]),
    ),
    (
        "RPD340",
        f"{PREFILL_KV}.kv_connector_extra_config.backend",
        lambda s: s.put(extra("prefill", "backend"), ["LIBFABRIC"]),
    ),
    ("RPD341", f"{PREFILL_KV}.backends", lambda s: s.put(kv("prefill", "backends"), ["UCX"])),
    (
        "RPD341",
        f"{PREFILL_KV}.kv_connector_extra_config.kv_load_failure_policy",
        lambda s: s.put(extra("prefill", "kv_load_failure_policy"), "fail"),
    ),
    (
        "RPD342",
        f"{PREFILL_KV}.kv_buffer_device",
        lambda s: s.put(kv("prefill", "kv_buffer_device"), "gpu"),
    ),
    (
        "RPD343",
        f"{PREFILL_KV}.kv_connector_extra_config.kv_lease_duration",
        lambda s: s.put(extra("prefill", "kv_lease_duration"), "30s"),
    ),
    (
        "RPD343",
        f"{PREFILL_KV}.kv_connector_extra_config.backends",
        lambda s: s.put(extra("prefill", "backends"), "LIBFABRIC"),
    ),
    (
        "RPD345",
        f"{GROUP0}[VLLM_NIXL_ABORT_REQUEST_TIMEOUT]",
        lambda s: s.env("group0", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT", "120"),
    ),
    (
        "RPD346",
        f"{GROUP0}[VLLM_NIXL_SIDE_CHANNEL_HOST]",
        lambda s: s.env("group0", "VLLM_NIXL_SIDE_CHANNEL_HOST", "0.0.0.0"),
    ),
    (
        "RPD346",
        f"{APP}.runtime_env.env_vars[VLLM_NIXL_SIDE_CHANNEL_PORT]",
        lambda s: s.put(
            "application:runtime_env", {"env_vars": {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}}
        ),
    ),
    (
        "RPD347",
        f"{DECODE}.experimental_configs.NIXL_SIDE_CHANNEL_PORT_BASE",
        lambda s: s.put("decode:experimental_configs|NIXL_SIDE_CHANNEL_PORT_BASE", 20001),
    ),
    (
        "RPD347",
        f"{DECODE}.experimental_configs.NIXL_SIDE_CHANNEL_PORT_BASE",
        lambda s: s.put("decode:experimental_configs|NIXL_SIDE_CHANNEL_PORT_BASE", 65535),
    ),
    (
        "RPD350",
        f"{DECODE}.model_loading_config.model_id",
        lambda s: s.put("decode:model_loading_config|model_id", "other"),
    ),
    (
        "RPD351",
        f"{DECODE}.model_loading_config.model_source",
        lambda s: s.put("decode:model_loading_config|model_source", "/models/llama"),
    ),
    (
        "RPD352",
        f"{DECODE}.engine_kwargs.revision",
        lambda s: s.put("decode:engine_kwargs|revision", "abc"),
    ),
    (
        "RPD353",
        f"{DECODE}.engine_kwargs.dtype",
        lambda s: s.put("decode:engine_kwargs|dtype", "float16"),
    ),
    (
        "RPD354",
        f"{DECODE}.engine_kwargs.kv_cache_dtype",
        lambda s: s.put("decode:engine_kwargs|kv_cache_dtype", "fp8"),
    ),
    (
        "RPD355",
        f"{DECODE}.engine_kwargs.block_size",
        lambda s: s.put("decode:engine_kwargs|block_size", 24),
    ),
    (
        "RPD356",
        f"{DECODE}.engine_kwargs.attention_backend",
        lambda s: s.put("decode:engine_kwargs|attention_backend", "FLASHINFER"),
    ),
    (
        "RPD357",
        f"{DECODE}.engine_kwargs.disable_hybrid_kv_cache_manager",
        lambda s: s.put("decode:engine_kwargs|disable_hybrid_kv_cache_manager", True),
    ),
    (
        "RPD358",
        f"{DECODE}.engine_kwargs.max_model_len",
        lambda s: s.put("decode:engine_kwargs|max_model_len", 4096),
    ),
    (
        "RPD359",
        f"{DECODE}.engine_kwargs.tensor_parallel_size",
        lambda s: s.put("prefill:engine_kwargs|tensor_parallel_size", 2).put(
            "decode:engine_kwargs|tensor_parallel_size", 3
        ),
    ),
    (
        "RPD360",
        f"{DECODE}.engine_kwargs.pipeline_parallel_size",
        lambda s: s.put("decode:engine_kwargs|pipeline_parallel_size", 2),
    ),
    (
        "RPD360",
        f"{PREFILL}.engine_kwargs.pipeline_parallel_size",
        lambda s: hybrid(s).put("prefill:engine_kwargs|pipeline_parallel_size", 2),
    ),
    (
        "RPD361",
        "spec.rayClusterConfig.workerGroupSpecs[1].template.spec.containers[0].env"
        "[VLLM_SSM_CONV_STATE_LAYOUT]",
        lambda s: hybrid(s).put("group1:template|spec|containers|0|env", []),
    ),
    (
        "RPD362",
        f"{PREFILL}.engine_kwargs.disable_hybrid_kv_cache_manager",
        lambda s: hybrid(s).put("prefill:engine_kwargs|disable_hybrid_kv_cache_manager", True),
    ),
    (
        "RPD363",
        f"{PREFILL_KV}.kv_buffer_device",
        lambda s: hybrid(s).put(kv("prefill", "kv_buffer_device"), "cpu"),
    ),
]


@pytest.mark.parametrize(
    ("code", "path", "break_"), BROKEN, ids=[f"{row[0]}-{row[1][-30:]}" for row in BROKEN]
)
def test_a_broken_rule_is_found_at_its_place(code: str, path: str, break_: Break) -> None:
    sample = Sample()
    break_(sample)
    assert path in [finding.path for finding in sample.findings(code)]


@pytest.mark.parametrize(
    ("code", "keep"),
    [
        ("RPD332", lambda s: s.put(kv("prefill", "kv_connector_module_path"), "my.module")),
        ("RPD333", lambda s: s.put(kv("prefill", "kv_connector"), "NixlConnector")),
        ("RPD342", lambda s: s.put(kv("prefill", "kv_buffer_device"), "cpu")),
        ("RPD343", lambda s: s.put(extra("prefill", "kv_lease_duration"), 60)),
        (
            "RPD347",
            lambda s: s.put("decode:experimental_configs|NIXL_SIDE_CHANNEL_PORT_BASE", 20002),
        ),
        ("RPD347", lambda s: s.put("decode:experimental_configs", ABSENT)),
        (
            "RPD357",
            lambda s: s.put("decode:engine_kwargs|disable_hybrid_kv_cache_manager", False),
        ),
        (
            "RPD359",
            lambda s: s.put("prefill:engine_kwargs|tensor_parallel_size", 2).put(
                "decode:engine_kwargs|tensor_parallel_size", 8
            ),
        ),
        ("RPD360", lambda s: s.put("prefill:engine_kwargs|pipeline_parallel_size", 2)),
        ("RPD361", hybrid),
        ("RPD362", hybrid),
        ("RPD363", hybrid),
        ("RPD363", lambda s: s.put(kv("prefill", "kv_buffer_device"), "cpu")),
    ],
)
def test_a_rule_is_kept_at_its_edge(code: str, keep: Break) -> None:
    sample = Sample()
    keep(sample)
    assert sample.findings(code) == []


def test_a_block_size_that_vllm_can_split_is_only_a_warning() -> None:
    sample = Sample().put("decode:engine_kwargs|block_size", 32)
    assert [finding.severity for finding in sample.findings("RPD355")] == ["warning"]
    hybrid(sample)
    assert [finding.severity for finding in sample.findings("RPD355")] == ["error"]


def test_a_misplaced_key_is_told_once_with_its_place() -> None:
    sample = Sample().put(kv("prefill", "backends"), ["LIBFABRIC"])
    (finding,) = sample.findings()
    assert finding.code == "RPD341"
    assert "kv_connector_extra_config.backends" in finding.remedy


def test_port_ranges_count_replicas_and_devices() -> None:
    """2 replicas of 4 devices take 20000 to 20007."""
    sample = Sample()
    for role in ("prefill", "decode"):
        sample.put(f"{role}:engine_kwargs|tensor_parallel_size", 4)
    sample.put("decode:experimental_configs|NIXL_SIDE_CHANNEL_PORT_BASE", 20007)
    (finding,) = sample.findings("RPD347")
    assert "20000 to 20007" in finding.message
    sample.put("decode:experimental_configs|NIXL_SIDE_CHANNEL_PORT_BASE", 20008)
    assert sample.findings("RPD347") == []


def test_a_layout_given_in_the_runtime_env_counts() -> None:
    sample = Sample()
    sample.model = {"kind": "hybrid"}
    assert sample.findings("RPD361")
    sample.put("application:runtime_env", {"env_vars": {"VLLM_SSM_CONV_STATE_LAYOUT": "DS"}})
    assert sample.findings("RPD361") == []


def test_rules_for_hybrid_models_are_said_to_be_unchecked_when_the_kind_is_not_known() -> None:
    sample = Sample()
    assert not any("hybrid" in line for line in sample.report().not_checked)
    sample.model = None
    assert any("hybrid" in line for line in sample.report().not_checked)
