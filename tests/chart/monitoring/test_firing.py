"""The alerts at work: Prometheus's own rule engine over made-up series.

Every scenario starts from a healthy deployment (nothing fires) and changes some series. One sample
a minute; `a+bxn` is Prometheus's notation for n growing samples, `_xn` for n missing ones.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from chart.monitoring.objects import Monitored, alerts, in_mode, one
from raypd.toolchain import go

MINUTES = 45
Series = dict[str, str]  # selector -> values
Fired = list[dict]


def series(metric: str, values: str, **labels: str) -> Series:
    process = {"WorkerId": "a1"} if metric.startswith("ray_") else {}  # Ray's label for a process
    given = {"namespace": "inference", "release": "llm"} | process | labels
    return {metric + "{" + ",".join(f'{k}="{v}"' for k, v in given.items()) + "}": values}


def steady(per_minute: float) -> str:
    return f"0+{per_minute:g}x{MINUTES}"


def constant(value: float) -> str:
    return f"{value:g}x{MINUTES}"


def histogram(metric: str, at_most: float, **labels: str) -> Series:
    """60 observations a minute, all in the bucket that ends at `at_most` and begins at half of it."""
    result: Series = {}
    for bound, growth in ((at_most / 2, 0), (at_most, 60), ("+Inf", 60)):
        result |= series(f"{metric}_bucket", steady(growth), le=str(bound), **labels)
    return result


P = {"role": "prefill", "pod": "prefill-0"}
D = {"role": "decode", "pod": "decode-0"}
PREFILL = {"deployment": "Prefill:m", "application": "llm"}
DECODE = {"deployment": "Decode:m", "application": "llm"}
MIB = 2**20
TOKENS = "ray_vllm_prompt_tokens_by_source_total"
FAILED = "ray_vllm_nixl_num_failed_transfers_total"
EXPIRED = "ray_vllm_nixl_num_kv_expired_reqs_total"
HEALTHY_REPLICA = "ray_serve_deployment_replica_healthy"
HTTP = "ray_serve_num_http_requests_total"
ANSWERS = "ray_llm_endpoint_requests_total"
CUT = "ray_llm_endpoint_cut_total"


def transfers(mib: float, seconds: float) -> Series:
    """One KV transfer a second of that size and time, as decode counts them."""
    return (
        series("ray_vllm_nixl_bytes_transferred_count", steady(60), **D)
        | series("ray_vllm_nixl_bytes_transferred_sum", steady(60 * mib * MIB), **D)
        | series("ray_vllm_nixl_xfer_time_seconds_sum", steady(60 * seconds), **D)
    )


HEALTHY: Series = (
    series("up", constant(1), role="head", pod="head-0")
    | series("up", constant(1), **P)
    | series("up", constant(1), **D)
    | series("ray_serve_application_status", constant(6), application="llm")
    | series("ray_serve_deployment_status", constant(6), **PREFILL)
    | series(HEALTHY_REPLICA, constant(1), replica="old", **PREFILL)
    | series(HTTP, steady(60), application="llm", status_code="200")
    | series(ANSWERS, steady(60), status="200", key="team-a")
    | series(ANSWERS, steady(60), status="200", key="team-b")
    | series(TOKENS, steady(6000), source="local_compute", **P)
    | series(TOKENS, steady(60), source="local_compute", **D)
    | series(TOKENS, steady(6000), source="external_kv_transfer", **D)
    | series("ray_vllm_generation_tokens_total", steady(3000), **D)
    | transfers(mib=40, seconds=0.02)
    | series("ray_vllm_kv_cache_usage_perc", constant(0.5), **D)
    | series("ray_vllm_num_preemptions_total", constant(7), **D)
    | histogram("ray_vllm_time_to_first_token_seconds", 0.5, **P)
    | histogram("ray_vllm_time_to_first_token_seconds", 0.25, **D)
    | histogram("ray_vllm_inter_token_latency_seconds", 0.05, **D)
    | histogram("ray_vllm_request_queue_time_seconds", 0.3, **D)
)


def without(*metrics: str) -> Series:
    return {name: f"_x{MINUTES}" for name in HEALTHY if name.startswith(metrics)}


FAULTS: dict[str, tuple[Series, set[str]]] = {
    "healthy": ({}, set()),
    "the first failed transfers, in one burst": (
        series(FAILED, "_x38 3x10", **D),
        {"LLMKVTransfersFailing"},
    ),
    "transfers go on failing": (series(FAILED, "5x20 6+1x30", **D), {"LLMKVTransfersFailing"}),
    "transfers that failed long ago": (series(FAILED, constant(5), **D), set()),
    "another release's transfers fail": (
        series(FAILED, steady(9), **D | {"release": "other"}),
        set(),
    ),
    "a prefill engine was replaced and transfers fail since": (
        series(HEALTHY_REPLICA, "1x20 _x30", replica="old", **PREFILL)
        | series(HEALTHY_REPLICA, "_x23 1x30", replica="new", **PREFILL)
        | series(FAILED, "_x22 1+1x30", **D),
        {"LLMKVTransfersFailing", "LLMStalePrefillPeers"},
    ),
    "a prefill engine was replaced and all is well": (
        series(HEALTHY_REPLICA, "1x20 _x30", replica="old", **PREFILL)
        | series(HEALTHY_REPLICA, "_x23 1x30", replica="new", **PREFILL),
        set(),
    ),
    "Ray Serve's controller was replaced and transfers fail": (
        series(HEALTHY_REPLICA, "1x20 _x30", replica="old", WorkerId="first", **PREFILL)
        | series(HEALTHY_REPLICA, "_x21 1x30", replica="old", WorkerId="second", **PREFILL)
        | series(FAILED, "_x22 1+1x30", **D),
        {"LLMKVTransfersFailing"},
    ),
    "a decode engine was replaced and transfers fail": (
        series(HEALTHY_REPLICA, "1x20 _x30", replica="gone", **DECODE)
        | series(FAILED, "_x22 1+1x30", **D),
        {"LLMKVTransfersFailing"},
    ),
    "decode computes all prompts": (
        series(TOKENS, steady(6000), source="local_compute", **D)
        | series(TOKENS, constant(0), source="external_kv_transfer", **D),
        {"LLMDecodeRecomputesPrompts"},
    ),
    "decode has no connector": (
        without(TOKENS, "ray_vllm_nixl")
        | series(TOKENS, steady(6000), source="local_compute", **D),
        {"LLMDecodeRecomputesPrompts", "LLMKVNotMoving"},
    ),
    "no traffic at all": (
        without("ray_vllm_generation_tokens_total", TOKENS, "ray_vllm_nixl", HTTP, ANSWERS),
        set(),
    ),
    "KV at the speed of a bad TCP path": (transfers(mib=40, seconds=2.2), {"LLMKVTransferSlow"}),
    "small transfers, where latency counts": (transfers(mib=0.1, seconds=0.0075), set()),
    "KV expires": (series(EXPIRED, "_x38 2x10", **P), {"LLMKVExpired"}),
    "a pod does not answer": (series("up", "1x30 0x20", **D), {"LLMPodDown"}),
    "a short restart": (series("up", "1x40 0x2 1x5", **D), set()),
    "the last prefill pod is gone": (series("up", "1x20 _x30", **P), {"LLMRoleAbsent"}),
    "a deployment failed": (
        series("ray_serve_deployment_status", "6x30 1x20", **PREFILL),
        {"LLMDeploymentUnhealthy"},
    ),
    "a deployment scales up": (
        series("ray_serve_deployment_status", constant(4), **PREFILL),
        set(),
    ),
    "never gets to RUNNING": (
        series("ray_serve_application_status", constant(5), application="llm"),
        {"LLMNotRunning"},
    ),
    "takes ten minutes to load": (
        series("ray_serve_application_status", "6x30 5x10 6x10", application="llm"),
        set(),
    ),
    "one answer in ten is a 503": (
        series(HTTP, steady(6), application="llm", status_code="503"),
        {"LLMErrorRateHigh"},
    ),
    "clients send bad requests": (
        series(HTTP, steady(60), application="llm", status_code="400"),
        set(),
    ),
    "health checks fail, requests do not": (
        series(HTTP, steady(60), application="", status_code="503"),
        set(),
    ),
    "a key is over its limit a third of the time": (
        series(ANSWERS, steady(30), status="429", key="team-b"),
        {"LLMClientRefused"},
    ),
    "a key meets its limit now and then": (
        series(ANSWERS, steady(3), status="429", key="team-b"),
        set(),
    ),
    "clients without keys are refused together": (
        series(ANSWERS, steady(60), status="200") | series(ANSWERS, steady(60), status="429"),
        {"LLMClientRefused"},
    ),
    "a third of the clients do not wait": (
        series(CUT, steady(40), key="team-a"),
        {"LLMClientsHangUp"},
    ),
    "a client hangs up now and then": (series(CUT, steady(2), key="team-a"), set()),
    "both stages are slow, neither alone above the threshold": (
        without("ray_vllm_time_to_first_token")
        | histogram("ray_vllm_time_to_first_token_seconds", 4, **P)
        | histogram("ray_vllm_time_to_first_token_seconds", 4, **D),
        {"LLMTimeToFirstTokenHigh"},
    ),
    "tokens come slowly": (
        without("ray_vllm_inter_token")
        | histogram("ray_vllm_inter_token_latency_seconds", 0.4, **D),
        {"LLMInterTokenLatencyHigh"},
    ),
    "requests queue": (
        histogram("ray_vllm_request_queue_time_seconds", 20, **P),
        {"LLMQueueTimeHigh"},
    ),
    "the KV cache is full": (
        series("ray_vllm_kv_cache_usage_perc", constant(0.98), **D),
        {"LLMKVCacheNearlyFull"},
    ),
    "requests are preempted": (
        series("ray_vllm_num_preemptions_total", steady(5), **D),
        {"LLMPreemptions"},
    ),
}


@pytest.fixture(scope="session")
def firing(monitored: Monitored) -> Callable[..., list[Fired]]:
    """firing(series, *Helm options): the alerts that fire at the end, by Prometheus's own engine."""
    source = (Path(__file__).parent / "firing" / "main.go").read_text()
    # The cache keeps programs by name and version: the source is part of the name.
    name = f"firing-{hashlib.sha256(source.encode()).hexdigest()[:12]}"
    program = go.build(
        "github.com/prometheus/prometheus", name, "v0.316.0", files={"main.go": source}
    )

    def run(scenarios: list[Series], *options: str) -> list[Fired]:
        rules = one(monitored(*options), "PrometheusRule")["spec"]
        cases = [
            {"minutes": MINUTES, "series": [f"{name} {values}" for name, values in each.items()]}
            for each in scenarios
        ]
        asked = json.dumps({"rules": json.dumps(rules), "cases": cases})
        done = subprocess.run([program], input=asked, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def outcome(firing: Callable[..., list[Fired]]) -> dict[str, Fired]:
    """Every scenario's firing alerts; all of them are played in one run of the engine."""
    played = firing([HEALTHY | changed for changed, _ in FAULTS.values()])
    return dict(zip(FAULTS, played, strict=True))


@pytest.mark.parametrize("fault", FAULTS)
def test_exactly_the_right_alerts_fire(outcome: dict[str, Fired], fault: str) -> None:
    assert {fired["alert"] for fired in outcome[fault]} == FAULTS[fault][1]


def test_every_alert_fires_in_some_scenario(monitored: Monitored) -> None:
    expected = set().union(*(names for _, names in FAULTS.values()))
    assert expected == {rule["alert"] for rule in alerts(monitored())}


def test_messages_name_the_culprit_and_the_figure(outcome: dict[str, Fired]) -> None:
    (burst,) = outcome["the first failed transfers, in one burst"]
    assert burst["labels"]["pod"] == "decode-0"
    assert burst["annotations"]["description"].startswith("3 KV transfers failed")
    (slow,) = outcome["KV at the speed of a bad TCP path"]
    assert "about 0.019 GB/s, below 0.05" in slow["annotations"]["description"]
    (absent,) = outcome["the last prefill pod is gone"]
    assert absent["annotations"]["summary"] == "No prefill pod"
    (refused,) = outcome["a key is over its limit a third of the time"]
    assert refused["annotations"]["summary"] == "A client is over its limits, by key team-b"
    (nameless,) = outcome["clients without keys are refused together"]
    assert nameless["annotations"]["summary"] == "A client is over its limits"
    (failed,) = outcome["a deployment failed"]
    assert failed["annotations"]["description"] == "Its status is DEPLOY_FAILED."


def test_no_alert_begins_anew_when_a_process_is_replaced(outcome: dict[str, Fired]) -> None:
    assert not [f for fired in outcome.values() for f in fired if "WorkerId" in f["labels"]]


def test_no_message_has_a_hole(outcome: dict[str, Fired]) -> None:
    texts = [
        text for fired in outcome.values() for f in fired for text in f["annotations"].values()
    ]
    assert texts
    assert not [text for text in texts if "no value" in text or "error" in text.lower().split()[:1]]
    assert not [text for text in texts if "  " in text or "()" in text]


def test_an_aggregated_deployment_misses_its_engines(firing: Callable[..., list[Fired]]) -> None:
    head = series("up", constant(1), role="head", pod="head-0")
    engine = series("up", constant(1), role="engine", pod="engine-0")
    whole, headless, idle = firing([head | engine, engine, head], *in_mode("aggregated"))
    assert whole == []
    assert [(f["alert"], f["labels"]["role"]) for f in headless] == [("LLMRoleAbsent", "head")]
    assert [(f["alert"], f["labels"]["role"]) for f in idle] == [("LLMRoleAbsent", "engine")]
