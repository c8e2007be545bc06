"""The serve config: what Ray Serve is told to run."""

from __future__ import annotations

import json

import pytest

ROLES = ("prefill", "decode")
AGGREGATED = {"topology": {"mode": "aggregated"}, "cache": {"type": "emptyDir"}}


def engine_kwargs(args: dict) -> dict[str, dict]:
    return {role: args[f"{role}_config"]["engine_kwargs"] for role in ROLES}


def test_reference_deployment(render):
    """The defaults alone: Qwen3.5-9B, LIBFABRIC on both sides, producer and consumer."""
    args = render.serve_args()
    for role, kv_role in zip(ROLES, ("kv_producer", "kv_consumer"), strict=True):
        config = args[f"{role}_config"]
        kwargs = config["engine_kwargs"]
        assert config["model_loading_config"] == {
            "model_id": "qwen3.5-9b",
            "model_source": "Qwen/Qwen3.5-9B",
        }
        assert (kwargs["max_model_len"], kwargs["dtype"]) == (4096, "bfloat16")
        assert kwargs["gpu_memory_utilization"] == 0.9
        transfer = kwargs["kv_transfer_config"]
        assert transfer["kv_connector"] == "NixlConnector"
        assert transfer["kv_role"] == kv_role
        assert transfer["kv_connector_extra_config"]["backends"] == ["LIBFABRIC"]


def test_each_role_asks_for_its_own_resource_and_its_group_alone_announces_it(render):
    args, groups = render.serve_args(), render.groups()
    for role, other in (ROLES, ROLES[::-1]):
        bundle = args[f"{role}_config"]["placement_group_config"]["bundle_per_worker"]
        assert bundle == {"CPU": 1, "GPU": 1, role: 1}
        assert groups[role]["rayStartParams"]["resources"] == f'"{{\\"{role}\\": 1}}"'
        assert other not in groups[role]["rayStartParams"]["resources"]
    assert "resources" not in groups["head"]["rayStartParams"]


def test_what_must_agree_comes_from_the_model_block_alone(render):
    values = {
        "model": {
            "source": "Qwen/Qwen3-8B",
            "revision": "abc",
            "dtype": "float16",
            "kvCacheDtype": "fp8",
            "blockSize": 32,
            "quantization": "fp8",
            "engineArgs": {"seed": 1},
        },
        "decode": {"engineArgs": {"seed": 2}},
    }
    both = engine_kwargs(render.serve_args(values))
    for key in (
        "revision",
        "dtype",
        "kv_cache_dtype",
        "block_size",
        "quantization",
        "max_model_len",
    ):
        assert both["prefill"][key] == both["decode"][key]
    assert both["prefill"]["block_size"] == 32
    assert (both["prefill"]["seed"], both["decode"]["seed"]) == (1, 2)


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ({"source": "Qwen/Qwen3-8B"}, 128),
        ({"source": "acme/unknown", "kind": "dense"}, 128),
        ({"source": "acme/unknown", "kind": "dense", "blockSize": None}, 128),
        ({"source": "Qwen/Qwen3-8B", "blockSize": 0}, None),
        ({"source": "Qwen/Qwen3-8B", "blockSize": 16}, 16),
        ({"source": "Qwen/Qwen3.5-9B"}, None),
        ({"source": "acme/unknown", "kind": "hybrid", "blockSize": 528}, 528),
    ],
)
def test_blocks_are_what_moves_fast_unless_a_value_says_otherwise(render, model, size):
    both = engine_kwargs(render.serve_args({"model": model}))
    assert [both[role].get("block_size") for role in ROLES] == [size, size]


def test_where_nothing_moves_blocks_are_left_to_vllm(render):
    args = render.serve_args({**AGGREGATED, "model": {"source": "Qwen/Qwen3-8B"}})
    assert "block_size" not in args["llm_configs"][0]["engine_kwargs"]


def test_a_false_of_the_role_wins_over_the_models_true(render):
    values = {
        "model": {"engineArgs": {"enable_prefix_caching": True}},
        "prefill": {"engineArgs": {"enable_prefix_caching": False}},
    }
    both = engine_kwargs(render.serve_args(values))
    assert [both[r]["enable_prefix_caching"] for r in ROLES] == [False, True]


@pytest.mark.parametrize(
    ("source", "hybrid"), [("Qwen/Qwen3.5-9B", True), ("Qwen/Qwen3-8B", False)]
)
def test_hybrid_models_get_their_settings_on_both_sides(render, source, hybrid):
    values = {"model": {"source": source}}
    both, env = engine_kwargs(render.serve_args(values)), render.env(values)
    for role in ROLES:
        assert (env[role].get("VLLM_SSM_CONV_STATE_LAYOUT") == "DS") is hybrid
        assert (both[role].get("disable_hybrid_kv_cache_manager") is False) is hybrid


def test_tcp_is_ucx_on_both_sides_and_only_when_asked_for(render):
    values = {"transport": {"fabric": "tcp"}, "cache": {"type": "emptyDir"}}
    for kwargs in engine_kwargs(render.serve_args(values)).values():
        assert kwargs["kv_transfer_config"]["kv_connector_extra_config"]["backends"] == ["UCX"]


def test_transport_settings_arrive(render):
    values = {
        "transport": {
            "leaseSeconds": 90,
            "threads": 8,
            "loadFailurePolicy": "recompute",
            "ports": {"prefill": 21000, "decode": 23000},
            "extraConfig": {"enable_cross_layers_blocks": False},
        }
    }
    args = render.serve_args(values)
    for role, port in zip(ROLES, (21000, 23000), strict=True):
        transfer = args[f"{role}_config"]["engine_kwargs"]["kv_transfer_config"]
        assert transfer["kv_load_failure_policy"] == "recompute"
        assert transfer["kv_connector_extra_config"] == {
            "backends": ["LIBFABRIC"],
            "kv_lease_duration": 90,
            "num_threads": 8,
            "enable_cross_layers_blocks": False,
        }
        assert args[f"{role}_config"]["experimental_configs"]["NIXL_SIDE_CHANNEL_PORT_BASE"] == port


def test_prewarm_is_the_decode_sides(render):
    for wanted in (True, False):
        args = render.serve_args({"transport": {"prewarm": wanted}})
        assert "_prewarm_prefill_decode" not in args["prefill_config"]["experimental_configs"]
        assert (
            "_prewarm_prefill_decode" in args["decode_config"]["experimental_configs"]
        ) is wanted


def test_replicas_or_autoscaling_per_role(render):
    values = {
        "prefill": {"replicas": 3},
        "decode": {"autoscaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 5}},
    }
    deployments = {d["name"]: d for d in render.serve_application(values)["deployments"]}
    prefill, decode = (deployments[f"{r.capitalize()}:qwen3_5-9b"] for r in ROLES)
    assert prefill["num_replicas"] == 3 and "autoscaling_config" not in prefill
    assert "num_replicas" not in decode
    assert (
        decode["autoscaling_config"]["min_replicas"],
        decode["autoscaling_config"]["max_replicas"],
    ) == (2, 5)


def test_heterogeneous_roles(render):
    values = {
        "model": {"source": "Qwen/Qwen3-30B-A3B"},
        "prefill": {"instanceType": "g6e.12xlarge", "parallelism": {"tensor": 2}},
        "decode": {"instanceType": "g6e.12xlarge", "parallelism": {"tensor": 4}},
    }
    both, groups = engine_kwargs(render.serve_args(values)), render.groups(values)
    for role, devices in zip(ROLES, (2, 4), strict=True):
        assert both[role]["tensor_parallel_size"] == devices
        limits = groups[role]["template"]["spec"]["containers"][0]["resources"]["limits"]
        assert limits["nvidia.com/gpu"] == devices
        assert groups[role]["rayStartParams"]["resources"] == f'"{{\\"{role}\\": {devices}}}"'


def test_logging_is_set_up_before_serve_opens_its_log(render):
    """By what the engine imports: NIXL in the roles that move KV, and else vLLM alone."""
    hook = "__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR"
    args = render.serve_args()
    for role in ROLES:
        named = args[f"{role}_config"]["runtime_env"]["env_vars"][hook]
        assert named.startswith("vllm.distributed.nixl_utils.")
    (config,) = render.serve_args(AGGREGATED)["llm_configs"]
    assert config["runtime_env"]["env_vars"][hook].startswith("vllm.logger.")


@pytest.mark.parametrize(
    ("source", "skips"),
    [("Qwen/Qwen3-8B", True), ("/cache/models/qwen", True), ("s3://bucket/models/qwen", False)],
)
def test_ray_downloads_only_from_object_storage(render, source, skips):
    args = render.serve_args({"model": {"source": source, "kind": "dense"}})
    for role in ROLES:
        callback = args[f"{role}_config"].get("callback_config", {}).get("callback_class")
        assert callback == ("endpoint_guard.ray_engine:NoDownload" if skips else None)


def test_no_class_is_named_that_a_path_of_ones_own_hides(render):
    values = {
        "endpoint": {"guard": {"enabled": False}},
        "decode": {"env": {"PYTHONPATH": "/code"}},
    }
    args = render.serve_args(values)
    assert "callback_config" in args["prefill_config"]
    assert "callback_config" not in args["decode_config"]


def test_aggregated_has_one_role_and_moves_nothing(render):
    args = render.serve_args(AGGREGATED)
    (config,) = args["llm_configs"]
    assert "kv_transfer_config" not in config["engine_kwargs"]
    assert "experimental_configs" not in config
    assert config["placement_group_config"]["bundle_per_worker"] == {
        "CPU": 1,
        "GPU": 1,
        "engine": 1,
    }
    assert set(render.groups(AGGREGATED)) == {"head", "engine"}


def test_multinode_spreads_one_replica_over_pods(render):
    values = {
        "topology": {"mode": "multinode"},
        "engine": {"replicas": 2, "parallelism": {"pipeline": 2, "nodes": 2}},
    }
    (config,) = render.serve_args(values)["llm_configs"]
    deployments = {d["name"]: d for d in render.serve_application(values)["deployments"]}
    assert deployments["LLMServer:qwen3_5-9b"]["num_replicas"] == 2
    assert config["placement_group_config"]["strategy"] == "PACK"
    group = render.groups(values)["engine"]
    assert group["replicas"] == 4
    assert group["rayStartParams"]["resources"] == '"{\\"engine\\": 1}"'


def test_endpoint_settings_arrive(render):
    values = {"endpoint": {"replicas": 2, "maxOngoingRequests": 1000}}
    ingress = render.serve_application(values)["deployments"][0]
    assert ingress["name"] == "OpenAiIngress"
    assert ingress["num_replicas"] == ingress["user_config"]["replicas"] == 2
    assert ingress["max_ongoing_requests"] == 1000


@pytest.mark.parametrize(
    "values",
    [
        {"prefill": {"replicas": 5}},
        {"decode": {"maxOngoingRequests": 7}},
        {"endpoint": {"replicas": 3, "maxOngoingRequests": 900}},
        {"endpoint": {"guard": {"inFlight": 9, "limits": {"requestsPerMinute": 5}}}},
    ],
)
def test_numbers_that_change_while_it_runs_leave_the_engines_arguments_alone(render, values):
    """Ray Serve starts every engine anew when anything in `args` differs."""
    assert render.serve_args(values) == render.serve_args()
    assert render.serve_application(values) != render.serve_application()


def test_deployments_have_the_names_that_ray_serve_llm_makes(render):
    values = {"model": {"id": "org/Model-1.5"}}
    names = [d["name"] for d in render.serve_application(values)["deployments"]]
    assert names == ["OpenAiIngress", "Prefill:org--Model-1_5", "Decode:org--Model-1_5"]


def test_no_code_of_the_models_repository_runs_unless_a_value_asks(render):
    for asked in (False, True):
        args = render.serve_args({"model": {"trustRemoteCode": asked}} if asked else None)
        for role in ("prefill_config", "decode_config"):
            assert args[role]["engine_kwargs"]["trust_remote_code"] is asked


@pytest.mark.parametrize("mode", ["disaggregated", "aggregated"])
def test_with_direct_streaming_there_is_no_word_of_an_ingress(render, mode):
    values = {"endpoint": {"directStreaming": True}, "topology": {"mode": mode}}
    if mode == "aggregated":
        values |= AGGREGATED
    application = render.serve_application(values)
    assert not [key for key in application["args"] if key.startswith("ingress")]
    assert "OpenAiIngress" not in [d["name"] for d in application["deployments"]]


def test_with_direct_streaming_the_guard_stands_in_the_engines(render):
    class_ = "endpoint_guard.ray_direct:GuardedEngine"
    for enabled in (True, False):
        values = {"endpoint": {"directStreaming": True, "guard": {"enabled": enabled}}}
        for name, env in render.env(values).items():
            assert env["RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING"] == "1"
            assert env["RAY_SERVE_ENABLE_HA_PROXY"] == "1"
            wanted = class_ if enabled and name != "head" else None
            assert env.get("RAYLLM_VLLM_ENGINE_CLS") == wanted


def test_with_direct_streaming_the_guard_has_its_settings_from_a_file(render):
    values = {
        "endpoint": {"directStreaming": True, "guard": {"inFlight": 7}},
        "decode": {"replicas": 3},
    }
    guard = render.one("ConfigMap", values)
    settings = json.loads(guard["data"]["settings.json"])
    assert (settings["in_flight"], settings["replicas"]) == (7, 3)
    assert "settings.json" not in render.one("ConfigMap", {})["data"]
