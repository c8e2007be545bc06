"""The guard in the render: its code in every pod, its settings in the serve config, its keys from a Secret."""

from __future__ import annotations

import pytest

from chart.rendering import CHART
from endpoint_guard.settings import KeyLimits, Settings

KEYS = {"endpoint": {"guard": {"apiKeys": {"existingSecret": "llm-keys"}}}}
OFF = {"endpoint": {"guard": {"enabled": False}}}
AGGREGATED = {"topology": {"mode": "aggregated"}, "cache": {"type": "emptyDir"}}


def pods(render, values=None):
    cluster = render.rayservice(values)["rayClusterConfig"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def user_config(render, values=None):
    return render.serve_application(values)["deployments"][0]["user_config"]


def test_the_config_map_has_the_package_as_it_is(render):
    (found,) = [m for m in render.kind("ConfigMap") if m["metadata"]["name"].endswith("-guard")]
    files = {f.name: f.read_text().strip() for f in (CHART / "files/endpoint_guard").glob("*.py")}
    assert found["data"] == files and "app.py" in files


@pytest.mark.parametrize("values", [None, OFF, AGGREGATED])
def test_every_pod_mounts_it_where_python_looks(render, values):
    (config_map,) = [
        m for m in render.kind("ConfigMap", values) if m["metadata"]["name"].endswith("-guard")
    ]
    for pod in pods(render, values):
        (volume,) = [v for v in pod["volumes"] if v["name"] == "guard"]
        assert volume["configMap"]["name"] == config_map["metadata"]["name"]
        container = pod["containers"][0]
        (mount,) = [m for m in container["volumeMounts"] if m["name"] == "guard"]
        (path,) = [e["value"] for e in container["env"] if e["name"] == "PYTHONPATH"]
        assert mount["mountPath"] == f"{path}/endpoint_guard"


def test_switching_it_changes_no_pod(render):
    assert pods(render, OFF) == pods(render)


def test_ray_serve_is_told_to_use_it(render):
    for values in (None, AGGREGATED):
        args = render.serve_args(values)
        wanted = {"ingress_cls": "endpoint_guard.ray_ingress:GuardedIngress"}
        assert args["ingress_cls_config"] == wanted
        # Alerts, dashboards and raypd know the ingress by this name, whichever it is.
        assert args["ingress_deployment_config"]["name"] == "OpenAiIngress"
    assert "ingress_cls_config" not in render.serve_args(OFF)
    assert "user_config" not in render.serve_application(OFF)["deployments"][0]


def test_settings_arrive_as_the_guard_reads_them(render):
    values = {
        "endpoint": {
            "replicas": 2,
            "guard": {
                "limits": {"requestsPerMinute": 60},
                "keyLimits": {"batch": {"tokensPerMinute": 5_000_000, "concurrentRequests": 2}},
                "inFlight": 100,
                "queue": 7,
                "queueSeconds": 3,
                "bodyBytes": 2_000_000,
                "choices": 4,
                "answerTokens": 1_000_000,
                "extraFields": ["mm_processor_kwargs"],
                "mediaUrls": True,
                "serverTiming": True,
            },
        }
    }
    assert Settings.read(user_config(render, values)) == Settings(
        disaggregated=True,
        context=4096,
        replicas=2,
        api_keys=False,
        limits=KeyLimits(requests_per_minute=60),
        key_limits={"batch": KeyLimits(tokens_per_minute=5_000_000, concurrent_requests=2)},
        in_flight=100,
        queue=7,
        queue_seconds=3,
        body_bytes=2_000_000,
        choices=4,
        answer_tokens=1_000_000,
        extra_fields=("mm_processor_kwargs",),
        media_urls=True,
        server_timing=True,
    )


def test_the_defaults_are_those_of_the_package(render):
    assert Settings.read(user_config(render)) == Settings(context=4096)
    assert not Settings.read(user_config(render, AGGREGATED)).disaggregated


def test_keys_are_mounted_from_the_secret_and_written_nowhere(render):
    assert Settings.read(user_config(render, KEYS)).api_keys
    for pod in pods(render, KEYS):
        (volume,) = [v for v in pod["volumes"] if v["name"] == "api-keys"]
        assert volume["secret"] == {"secretName": "llm-keys"}
        container = pod["containers"][0]
        (mount,) = [m for m in container["volumeMounts"] if m["name"] == "api-keys"]
        env = {e["name"]: e.get("value") for e in container["env"]}
        assert mount["readOnly"] and env["ENDPOINT_API_KEYS"] == mount["mountPath"]
    for pod in pods(render):
        assert "api-keys" not in {v["name"] for v in pod["volumes"]}


@pytest.mark.parametrize(
    ("values", "role", "told"),
    [
        (None, "decode", True),
        (None, "prefill", False),
        (OFF, "decode", False),
        ({"image": {"rayVersion": "2.56.1", "vllmVersion": "0.22.0"}}, "decode", False),
        ({"image": {"rayVersion": "2.57.1", "vllmVersion": "0.25.1"}}, "decode", True),
    ],
)
def test_the_engine_that_writes_tells_its_times_where_it_can(render, values, role, told):
    kwargs = render.serve_args(values)[f"{role}_config"]["engine_kwargs"]
    assert kwargs.get("enable_per_request_metrics", False) is told
    assert "enable_prompt_tokens_details" not in kwargs


def test_only_an_engine_that_does_both_knows_what_was_cached(render):
    (config,) = render.serve_args(AGGREGATED)["llm_configs"]
    assert config["engine_kwargs"]["enable_prompt_tokens_details"]


def test_parsers_of_tools_and_reasoning_reach_both_engines(render):
    values = {"model": {"toolCallParser": "hermes", "reasoningParser": "qwen3"}}
    for role in ("prefill", "decode"):
        kwargs = render.serve_args(values)[f"{role}_config"]["engine_kwargs"]
        assert kwargs["enable_auto_tool_choice"] and kwargs["tool_call_parser"] == "hermes"
        assert kwargs["reasoning_parser"] == "qwen3"
        assert "tool_call_parser" not in render.serve_args()[f"{role}_config"]["engine_kwargs"]
