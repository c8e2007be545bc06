"""The way of the KV cache from prefill to decode, in bytes a second."""

from __future__ import annotations

from raypd.plan.engine import GIGA, assumed
from raypd.plan.shape import ModelShape, request_bytes


def efa_rate(network_gbps: float, node_interfaces: int, interfaces: int) -> float:
    """What `interfaces` of a node's EFA interfaces carry together. An estimate."""
    part = min(interfaces, node_interfaces) / node_interfaces if node_interfaces else 0.0
    return network_gbps * part / 8 * GIGA * assumed("efaEfficiency")


def tcp_rate(network_gbps: float) -> float:
    """What one TCP flow carries, which is what EC2 allows between two nodes. An estimate."""
    return min(network_gbps, assumed("tcpFlowGbps")) / 8 * GIGA


def tokens_carried(shape: ModelShape, rate: float, prompt: float, kv_bytes: float = 2) -> float:
    """Prompt tokens a second whose KV a wire of `rate` carries, in prompts of so many tokens."""
    return prompt / (request_bytes(shape, prompt, kv_bytes) / rate) if rate else 0.0


def transfer_seconds(shape: ModelShape, rate: float, prompt: float, kv_bytes: float = 2) -> float:
    """How long the KV of one prompt is on an idle wire."""
    return request_bytes(shape, prompt, kv_bytes) / rate if rate else float("inf")
