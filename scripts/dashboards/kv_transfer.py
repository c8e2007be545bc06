"""KV transfer: does the KV cache move, how fast, and what fails."""

from __future__ import annotations

from grafana import Dashboard, Panel, Query, Row, quantiles

BYTES = "ray_vllm_nixl_bytes_transferred"
TIME = "ray_vllm_nixl_xfer_time_seconds"
POST = "ray_vllm_nixl_post_time_seconds"
DESCRIPTORS = "ray_vllm_nixl_num_descriptors"
TOKENS = "ray_vllm_prompt_tokens_by_source_total"
COARSE = (
    " Ray exports a histogram's sum from the middles of its buckets: right in magnitude, not in digits "
    "(up to a factor of four)."
)


def ratio(over: str, under: str, by: str = "", window: str = "@w") -> str:
    """PromQL: growth of one series over growth of another."""
    group = f" by ({by})" if by else ""
    return f"sum{group} (rate({over}{{@}}[{window}])) / sum{group} (rate({under}{{@}}[{window}]))"


def faults(metric: str) -> str:
    """PromQL: faults in the time range shown. The counter is absent until its first count, which
    increase() does not see: what is there now and was not at the range's begin counts in full."""
    counter = f"{metric}_total{{@}}"
    grown = f"increase({counter}[$__range]) > 0"
    return f"sum(({grown}) or ({counter} unless {counter} offset $__range)) or vector(0)"


STATE = Row(
    "State",
    (
        Panel(
            "Prompt tokens pulled",
            "Of the prompt tokens that decode did not have in its own cache, the part that came from "
            "prefill. Exact. Well below 100 % means that decode computes prompts itself.",
            "percentunit",
            (
                Query(
                    f'sum(rate({TOKENS}{{@,role="decode",source="external_kv_transfer"}}[@w])) / sum(rate('
                    f'{TOKENS}{{@,role="decode",source=~"local_compute|external_kv_transfer"}}[@w]))',
                    "pulled",
                ),
            ),
            kind="stat",
        ),
        Panel(
            "Speed of a transfer",
            "Bytes over the time that transfers took." + COARSE,
            "Bps",
            (Query(ratio(f"{BYTES}_sum", f"{TIME}_sum"), "speed"),),
            kind="stat",
        ),
        Panel(
            "Failed transfers",
            "In the time range shown.",
            "short",
            (Query(faults("ray_vllm_nixl_num_failed_transfers"), "failed"),),
            kind="stat",
            bad=1,
        ),
        Panel(
            "Expired requests",
            "KV caches that prefill gave up because nobody fetched them in time, in the time range shown.",
            "short",
            (Query(faults("ray_vllm_nixl_num_kv_expired_reqs"), "expired"),),
            kind="stat",
            bad=1,
        ),
    ),
    height=5,
)

FLOW = Row(
    "Flow",
    (
        Panel(
            "KV bytes",
            "Pulled, by the pod that pulls." + COARSE,
            "Bps",
            (Query(f"sum by (pod) (rate({BYTES}_sum{{@}}[@w]))", "{{pod}}"),),
        ),
        Panel(
            "Transfers",
            "By the pod that pulls. Each tensor-parallel rank counts its own.",
            "ops",
            (Query(f"sum by (pod) (rate({BYTES}_count{{@}}[@w]))", "{{pod}}"),),
        ),
        Panel(
            "Prompt tokens at decode by source",
            "Healthy: external_kv_transfer and local_cache_hit only.",
            "cps",
            (Query(f'sum by (source) (rate({TOKENS}{{@,role="decode"}}[@w]))', "{{source}}"),),
        ),
    ),
)

SPEED = Row(
    "Speed",
    (
        Panel(
            "Speed of a transfer",
            "Bytes over time, by the pod that pulls." + COARSE,
            "Bps",
            (Query(ratio(f"{BYTES}_sum", f"{TIME}_sum", "pod"), "{{pod}}"),),
        ),
        Panel(
            "Transfer time",
            "From posting to done. Buckets begin at 5 ms.",
            "s",
            quantiles(TIME, "", "", (0.5, 0.95, 0.99)),
        ),
        Panel(
            "Post time",
            "Handing a transfer to NIXL; grows with the number of descriptors.",
            "s",
            quantiles(POST, "", "", (0.5, 0.95, 0.99)),
        ),
    ),
)

SHAPE = Row(
    "Shape of a transfer",
    (
        Panel(
            "Bytes per transfer",
            "Mean." + COARSE,
            "bytes",
            (Query(ratio(f"{BYTES}_sum", f"{BYTES}_count"), "mean"),),
        ),
        Panel(
            "Descriptors per transfer",
            "Contiguous pieces that a transfer is made of. Many small ones are slow on any fabric.",
            "short",
            (
                *quantiles(DESCRIPTORS, "", "", (0.5, 0.95)),
                Query(ratio(f"{DESCRIPTORS}_sum", f"{DESCRIPTORS}_count"), "mean"),
            ),
        ),
        Panel(
            "Bytes per descriptor",
            "Mean." + COARSE,
            "bytes",
            (Query(ratio(f"{BYTES}_sum", f"{DESCRIPTORS}_sum"), "mean"),),
        ),
    ),
)

FAULTS = Row(
    "Faults",
    (
        Panel(
            "Faults",
            "Failed transfers and notifications at decode, expired KV caches at prefill. A counter is "
            "absent until its first fault.",
            "short",
            tuple(
                Query(
                    f"sum by (pod) (increase(ray_vllm_nixl_{metric}_total{{@}}[@w]))",
                    f"{legend}, {{{{pod}}}}",
                )
                for metric, legend in (
                    ("num_failed_transfers", "failed transfer"),
                    ("num_failed_notifications", "failed notification"),
                    ("num_kv_expired_reqs", "expired"),
                )
            ),
        ),
    ),
)

DASHBOARD = Dashboard(
    "kv-transfer",
    "Ray P/D LLM: KV transfer",
    "Whether the KV cache of a ray-pd-llm release moves from prefill to decode, how fast, and what fails.",
    (STATE, FLOW, SPEED, SHAPE, FAULTS),
)
