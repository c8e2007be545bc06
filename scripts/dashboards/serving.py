"""Serving overview: what clients get, and which role makes them wait."""

from __future__ import annotations

from grafana import Dashboard, Panel, Query, Row, quantiles

LEVELS = (0.5, 0.95, 0.99)


def first_token(level: float) -> Query:
    """Prefill's and decode's quantiles added up: a client waits for the one, then for the other."""
    return Query(
        f"sum(histogram_quantile({level}, sum by (role, le)"
        " (rate(ray_vllm_time_to_first_token_seconds_bucket{@}[@w]))))",
        f"p{level * 100:g}",
    )


TRAFFIC = Row(
    "Traffic",
    (
        Panel(
            "Requests",
            "HTTP requests that Ray Serve's proxies have answered, by status. An error after a stream "
            "has begun still counts as 200.",
            "reqps",
            (
                Query(
                    "sum by (status_code) (rate("
                    'ray_serve_num_http_requests_total{@,application!=""}[@w]))',
                    "{{status_code}}",
                ),
            ),
        ),
        Panel(
            "Tokens",
            "Prompt tokens that went through an engine, and tokens generated. Prefill generates one "
            "token for each request.",
            "cps",
            (
                Query(
                    "sum by (role) (rate(ray_vllm_prompt_tokens_by_source_total{@}[@w]))",
                    "prompt, {{role}}",
                ),
                Query(
                    "sum by (role) (rate(ray_vllm_generation_tokens_total{@}[@w]))",
                    "generated, {{role}}",
                ),
            ),
        ),
        Panel(
            "Requests in engines",
            "Running and waiting, by role. An idle engine reports nothing.",
            "short",
            (
                Query("sum by (role) (ray_vllm_num_requests_running{@})", "running, {{role}}"),
                Query("sum by (role) (ray_vllm_num_requests_waiting{@})", "waiting, {{role}}"),
            ),
        ),
    ),
)

LATENCY = Row(
    "Latency",
    (
        Panel(
            "Time to first token",
            "Prefill's and decode's quantiles added up: an estimate of what a client waits.",
            "s",
            tuple(first_token(level) for level in LEVELS),
        ),
        Panel(
            "Inter-token latency",
            "Time between two tokens of an answer.",
            "s",
            quantiles("ray_vllm_inter_token_latency_seconds", "", "", LEVELS),
        ),
        Panel(
            "Request time in an engine",
            "From arrival at an engine to its last token, by role.",
            "s",
            quantiles("ray_vllm_e2e_request_latency_seconds", "role", "{{role}}", (0.5, 0.95)),
        ),
    ),
)

STAGES = Row(
    "Where the time goes",
    (
        Panel(
            "First token by role",
            "Decode's share holds the KV transfer.",
            "s",
            quantiles("ray_vllm_time_to_first_token_seconds", "role", "{{role}}", (0.5, 0.95)),
        ),
        Panel(
            "Queue",
            "Waiting for a place in the batch. On decode it holds the wait for the KV cache too.",
            "s",
            quantiles("ray_vllm_request_queue_time_seconds", "role", "{{role}}", (0.5, 0.95)),
        ),
        Panel(
            "Prefill stage",
            "From the first scheduling to the first token. Buckets begin at 0.3 s: below it, read p95 "
            "as `under 0.3 s`.",
            "s",
            quantiles("ray_vllm_request_prefill_time_seconds", "role", "{{role}}", (0.5, 0.95)),
        ),
        Panel(
            "Decode stage",
            "From the first token to the last.",
            "s",
            quantiles("ray_vllm_request_decode_time_seconds", "role", "{{role}}", (0.5, 0.95)),
        ),
    ),
)

ENDPOINT = Row(
    "Endpoint (with endpoint.guard)",
    (
        Panel(
            "Answers",
            "By status, as clients got them. 429: a key is over its limit; 503: the queue was full.",
            "reqps",
            (
                Query(
                    "sum by (status) (rate(ray_llm_endpoint_requests_total{@}[@w]))", "{{status}}"
                ),
            ),
        ),
        Panel(
            "Tokens by key",
            "As a bill counts them, by the name of the API key.",
            "cps",
            (
                Query(
                    "sum by (key, kind) (rate(ray_llm_endpoint_tokens_total{@}[@w]))",
                    "{{key}} {{kind}}",
                ),
            ),
        ),
        Panel(
            "An answer's stages",
            "What one client waited for: the guard's queue, prefill, the KV transfer, decode.",
            "s",
            quantiles("ray_llm_endpoint_stage_seconds", "stage", "{{stage}}", (0.5, 0.95)),
        ),
        Panel(
            "Clients that hung up",
            "Before their answer was whole, by the name of the API key.",
            "reqps",
            (Query("sum by (key) (rate(ray_llm_endpoint_cut_total{@}[@w]))", "{{key}}"),),
        ),
    ),
)

ENGINES = Row(
    "Engines",
    (
        Panel(
            "KV cache in use",
            "By pod. Near 100 % requests wait and are preempted. An idle engine reports nothing.",
            "percentunit",
            (
                Query(
                    "max by (role, pod) (ray_vllm_kv_cache_usage_perc{@})",
                    "{{role}} {{pod}}",
                ),
            ),
        ),
        Panel(
            "Preemptions",
            "Requests that lost their KV cache and are computed again.",
            "cps",
            (Query("sum by (role) (rate(ray_vllm_num_preemptions_total{@}[@w]))", "{{role}}"),),
        ),
        Panel(
            "Prompt tokens by source",
            "Where prompt tokens came from: computed here, this engine's prefix cache, or KV transfer.",
            "cps",
            (
                Query(
                    "sum by (role, source) (rate(ray_vllm_prompt_tokens_by_source_total{@}[@w]))",
                    "{{role}} {{source}}",
                ),
            ),
        ),
        Panel(
            "Healthy replicas",
            "By Ray Serve deployment.",
            "short",
            (
                Query(
                    "count by (deployment) (max by (deployment, replica)"
                    " (ray_serve_deployment_replica_healthy{@}) == 1)",
                    "{{deployment}}",
                ),
            ),
        ),
    ),
)

DASHBOARD = Dashboard(
    "serving",
    "Ray P/D LLM: serving",
    "What clients of a ray-pd-llm release get, and which role makes them wait.",
    (TRAFFIC, LATENCY, STAGES, ENDPOINT, ENGINES),
)
