"""The contract of Ray Serve, Ray Serve LLM and vLLM: kept by the sample, broken once per rule."""

from __future__ import annotations

import pytest

from unit.lint.sample import ABSENT, Break, Sample

APP = "spec.serveConfigV2.applications[0]"
PREFILL = f"{APP}.args.prefill_config"
DECODE = f"{APP}.args.decode_config"


def aggregated(sample: Sample) -> Sample:
    """One engine that does both, on the prefill group."""
    config = sample.prefill
    config["engine_kwargs"].pop("kv_transfer_config")
    sample.application["import_path"] = "ray.serve.llm:build_openai_app"
    sample.application["args"] = {"llm_configs": [config]}
    return sample


BROKEN: list[tuple[str, str, Break]] = [
    # Unknown keys and wrong case, at every level.
    ("RPD301", "spec.serveConfigV2.http", lambda s: s.put("serve_config:http", {})),
    ("RPD301", f"{APP}.routePrefix", lambda s: s.put("application:routePrefix", "/")),
    ("RPD301", f"{APP}.args.prefillConfig", lambda s: s.put("args:prefillConfig", {})),
    ("RPD301", f"{PREFILL}.modelLoadingConfig", lambda s: s.put("prefill:modelLoadingConfig", {})),
    (
        "RPD301",
        f"{PREFILL}.model_loading_config.model_path",
        lambda s: s.put("prefill:model_loading_config|model_path", "/m"),
    ),
    (
        "RPD301",
        f"{PREFILL}.engine_kwargs.max_model_length",
        lambda s: s.put("prefill:engine_kwargs|max_model_length", 1),
    ),
    (
        "RPD301",
        f"{PREFILL}.engine_kwargs.kv_transfer_config.kv_roles",
        lambda s: s.put("prefill:engine_kwargs|kv_transfer_config|kv_roles", "x"),
    ),
    (
        "RPD301",
        f"{DECODE}.deployment_config.numReplicas",
        lambda s: s.put("decode:deployment_config|numReplicas", 1),
    ),
    (
        "RPD301",
        f"{DECODE}.deployment_config.ray_actor_options.num_cpu",
        lambda s: s.put("decode:deployment_config|ray_actor_options", {"num_cpu": 1}),
    ),
    (
        "RPD301",
        f"{DECODE}.deployment_config.autoscaling_config.target_num_ongoing_requests",
        lambda s: s.put("decode:deployment_config|num_replicas", ABSENT).put(
            "decode:deployment_config|autoscaling_config", {"target_num_ongoing_requests": 1}
        ),
    ),
    (
        "RPD301",
        f"{DECODE}.placement_group_config.bundle",
        lambda s: s.put("decode:placement_group_config|bundle", {}),
    ),
    (
        "RPD301",
        f"{DECODE}.experimental_configs.prewarm_prefill_decode",
        lambda s: s.put("decode:experimental_configs|prewarm_prefill_decode", True),
    ),
    (
        "RPD301",
        f"{APP}.args.ingress_cls_config.ingress_class",
        lambda s: s.put("args:ingress_cls_config", {"ingress_class": "a:B"}),
    ),
    (
        "RPD301",
        f"{APP}.args.llm_configs[0].engine_kwarg",
        lambda s: aggregated(s).prefill_of_aggregated().__setitem__("engine_kwarg", {}),
    ),
    # Types, missing keys, choices, bounds.
    (
        "RPD302",
        f"{PREFILL}.engine_kwargs.max_model_len",
        lambda s: s.put("prefill:engine_kwargs|max_model_len", "4096"),
    ),
    (
        "RPD302",
        f"{PREFILL}.engine_kwargs.enforce_eager",
        lambda s: s.put("prefill:engine_kwargs|enforce_eager", "yes"),
    ),
    (
        "RPD303",
        f"{PREFILL}.model_loading_config.model_id",
        lambda s: s.put("prefill:model_loading_config|model_id", ABSENT),
    ),
    ("RPD303", f"{APP}.args.decode_config", lambda s: s.put("args:decode_config", ABSENT)),
    ("RPD303", f"{APP}.import_path", lambda s: s.put("application:import_path", ABSENT)),
    (
        "RPD304",
        f"{PREFILL}.engine_kwargs.dtype",
        lambda s: s.put("prefill:engine_kwargs|dtype", "bf16"),
    ),
    (
        "RPD304",
        f"{PREFILL}.accelerator_type",
        lambda s: s.put("prefill:accelerator_type", "NVIDIA-L4"),
    ),
    (
        "RPD304",
        f"{PREFILL}.placement_group_config.strategy",
        lambda s: s.put("prefill:placement_group_config|strategy", "pack"),
    ),
    (
        "RPD304",
        f"{PREFILL}.engine_kwargs.kv_transfer_config.kv_load_failure_policy",
        lambda s: s.put(
            "prefill:engine_kwargs|kv_transfer_config|kv_load_failure_policy", "ignore"
        ),
    ),
    (
        "RPD305",
        f"{DECODE}.deployment_config.max_ongoing_requests",
        lambda s: s.put("decode:deployment_config|max_ongoing_requests", 0),
    ),
    (
        "RPD306",
        f"{PREFILL}.accelerator_config",
        lambda s: s.put("prefill:accelerator_config", {}),
    ),
    # Rules that the programs check in code.
    (
        "RPD310",
        f"{APP}.import_path",
        lambda s: s.put("application:import_path", "ray.serve.llm:build_pd_openAI_app"),
    ),
    ("RPD311", f"{APP}.port", lambda s: s.put("application:port", 8000)),
    (
        "RPD312",
        "spec.serveConfigV2.applications[1].route_prefix",
        lambda s: s.put(
            "serve_config:applications|1", {"name": "b", "import_path": "a:b", "route_prefix": "/"}
        ),
    ),
    (
        "RPD313",
        f"{APP}.deployments[0].name",
        lambda s: s.put("application:deployments", [{"name": "Decoder:tiny", "num_replicas": 2}]),
    ),
    (
        "RPD314",
        f"{DECODE}.deployment_config.num_replicas",
        lambda s: s.put("decode:deployment_config|autoscaling_config", {"max_replicas": 2}),
    ),
    (
        "RPD315",
        f"{APP}.args.ingress_deployment_config.autoscaling_config",
        lambda s: s.put(
            "args:ingress_deployment_config", {"autoscaling_config": {"min_replicas": 2}}
        ),
    ),
    (
        "RPD316",
        f"{DECODE}.deployment_config.placement_group_strategy",
        lambda s: s.put("decode:deployment_config|placement_group_strategy", "PACK"),
    ),
    (
        "RPD317",
        f"{DECODE}.placement_group_config",
        lambda s: s.put("decode:placement_group_config|bundle_per_worker", {"GPU": 1}),
    ),
    (
        "RPD318",
        f"{DECODE}.engine_kwargs.served_model_name",
        lambda s: s.put("decode:engine_kwargs|served_model_name", "x"),
    ),
    (
        "RPD309",
        f"{DECODE}.engine_kwargs.load_format",
        lambda s: s.put("decode:engine_kwargs|load_format", "safetensor"),
    ),
    (
        "RPD309",
        f"{DECODE}.engine_kwargs.load_format",
        lambda s: s.put("decode:engine_kwargs|load_format", "runai_streamer"),
    ),
    (
        "RPD319",
        f"{DECODE}.engine_kwargs.distributed_executor_backend",
        lambda s: s.put("decode:engine_kwargs|distributed_executor_backend", "mp"),
    ),
    (
        "RPD320",
        f"{DECODE}.engine_kwargs.disable_log_stats",
        lambda s: s.put("decode:engine_kwargs|disable_log_stats", True),
    ),
    (
        "RPD321",
        f"{DECODE}.accelerator_type",
        lambda s: s.put("decode:accelerator_type", "L4").put(
            "decode:placement_group_config|bundles", [{"CPU": 1, "decode": 1}]
        ),
    ),
    ("RPD322", f"{APP}.args.proxy_cls_config", lambda s: s.put("args:proxy_cls_config", {})),
    (
        "RPD323",
        f"{DECODE}.experimental_configs.num_router_replicas",
        lambda s: s.put("decode:experimental_configs|num_router_replicas", 2),
    ),
    (
        "RPD324",
        f"{APP}.args.ingress_deployment_config.autoscaling_config.smoothing_factor",
        lambda s: s.put(
            "args:ingress_deployment_config", {"autoscaling_config": {"smoothing_factor": 0.5}}
        ),
    ),
    (
        "RPD325",
        f"{APP}.args.ingress_deployment_config",
        lambda s: s.env("head", "RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING", "1"),
    ),
    (
        "RPD326",
        "spec.rayClusterConfig.workerGroupSpecs[0].template.spec.containers[0].env[VLLM_CACHE_ROOTS]",
        lambda s: s.env("group0", "VLLM_CACHE_ROOTS", "/cache"),
    ),
    (
        "RPD327",
        f"{DECODE}.deployment_config.max_queued_requests",
        lambda s: s.put("decode:deployment_config|max_queued_requests", 0),
    ),
    (
        "RPD328",
        f"{APP}.args.llm_configs[1].model_loading_config.model_id",
        lambda s: aggregated(s).put("args:llm_configs|1", s.prefill_of_aggregated()),
    ),
    (
        "RPD329",
        f"{DECODE}.lora_config.dynamic_lora_loading_path",
        lambda s: s.put("decode:lora_config", {"dynamic_lora_loading_path": "/adapters"}),
    ),
]


@pytest.mark.parametrize(
    ("code", "path", "break_"), BROKEN, ids=[f"{row[0]}-{row[1][-40:]}" for row in BROKEN]
)
def test_a_broken_rule_is_found_at_its_place(code: str, path: str, break_: Break) -> None:
    sample = Sample()
    break_(sample)
    assert path in [finding.path for finding in sample.findings(code)]


@pytest.mark.parametrize(
    ("code", "keep"),
    [
        ("RPD301", aggregated),
        ("RPD310", lambda s: s.put("application:import_path", "my.module:app")),
        ("RPD310", lambda s: s.put("application:import_path", "ray.serve.llm.build_pd_openai_app")),
        (
            "RPD313",
            lambda s: (
                s.put("decode:model_loading_config|model_id", "org/m-1.5")
                .put("prefill:model_loading_config|model_id", "org/m-1.5")
                .put("application:deployments", [{"name": "Decode:org--m-1_5", "num_replicas": 2}])
            ),
        ),
        (
            "RPD314",
            lambda s: s.put("decode:deployment_config|num_replicas", "auto").put(
                "decode:deployment_config|autoscaling_config", {"max_replicas": 2}
            ),
        ),
        (
            "RPD317",
            lambda s: s.put(
                "decode:placement_group_config", {"bundle_per_worker": {"GPU": 1, "decode": 1}}
            ),
        ),
        ("RPD309", lambda s: s.put("decode:engine_kwargs|load_format", "fastsafetensors")),
        ("RPD309", lambda s: s.put("decode:engine_kwargs|load_format", "dummy")),
        ("RPD319", lambda s: s.put("decode:engine_kwargs|distributed_executor_backend", "ray")),
        (
            "RPD320",
            lambda s: s.put("decode:engine_kwargs|disable_log_stats", True).put(
                "decode:log_engine_metrics", False
            ),
        ),
        ("RPD304", lambda s: s.put("decode:accelerator_type", "L4")),
        ("RPD321", lambda s: s.put("decode:accelerator_type", "L4")),
        ("RPD322", lambda s: s.put("args:proxy_cls_config", None)),
        (
            "RPD325",
            lambda s: s.env("head", "RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING", "1").put(
                "args:ingress_deployment_config", ABSENT
            ),
        ),
        ("RPD326", lambda s: s.env("group0", "VLLM_HOST_IP", "10.0.0.1")),
        ("RPD327", lambda s: s.put("decode:deployment_config|max_queued_requests", -1)),
        (
            "RPD329",
            lambda s: s.put("decode:lora_config", {"dynamic_lora_loading_path": "s3://bucket/a"}),
        ),
    ],
)
def test_a_rule_is_kept_at_its_edge(code: str, keep: Break) -> None:
    sample = Sample()
    keep(sample)
    assert sample.findings(code) == []


def test_the_remedy_names_the_key_that_was_meant() -> None:
    sample = Sample().put("prefill:engine_kwargs|max_model_length", 4096)
    (finding,) = sample.findings("RPD301")
    assert "`max_model_len`" in finding.remedy


def test_the_remedy_for_a_wrong_type_names_the_type() -> None:
    sample = Sample().put("prefill:engine_kwargs|max_model_len", "4096")
    (finding,) = sample.findings("RPD302")
    assert "whole number" in finding.remedy


def test_arguments_of_a_foreign_application_are_said_to_be_unchecked() -> None:
    sample = Sample().put("application:import_path", "my.module:app").put("args:anything", 1)
    report = sample.report()
    assert not [finding for finding in report.findings if finding.code == "RPD301"]
    assert any("my.module:app" in line for line in report.not_checked)


@pytest.mark.parametrize("value", [None, 7, "text", ["a"], {"a": 1}])
@pytest.mark.parametrize(
    "place",
    [
        "serve_config:applications",
        "application:args",
        "args:prefill_config",
        "prefill:engine_kwargs",
        "prefill:engine_kwargs|kv_transfer_config",
        "prefill:placement_group_config",
        "prefill:placement_group_config|bundles",
        "prefill:deployment_config",
        "prefill:deployment_config|autoscaling_config",
        "prefill:experimental_configs",
        "cluster:headGroupSpec",
        "cluster:workerGroupSpecs",
        "group0:rayStartParams",
        "group0:template",
        "group0:template|spec|containers",
        "group0:template|spec|containers|0|env",
        "group0:replicas",
        "rayservice:metadata",
        "rayservice:spec|rayClusterConfig",
    ],
)
def test_no_shape_of_input_makes_a_check_fall_over(place: str, value: object) -> None:
    sample = Sample()
    sample.put(place, value)
    assert sample.report().checked
