"""What a request has to lose on its way between engines."""

from typing import Any


def without_minimum(request: Any) -> None:
    """Leaves `min_tokens` out where an engine computes a prompt for another: Ray asks that one for a single
    token, and vLLM refuses a minimum above the maximum (Ray 2.58,
    llm/_internal/serve/engines/vllm/kv_transfer/base.py, clamp_request_to_single_token)."""
    if (request.kv_transfer_params or {}).get("do_remote_decode"):
        request.min_tokens = 0
