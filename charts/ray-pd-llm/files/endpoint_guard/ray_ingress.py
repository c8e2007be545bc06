"""The ingress class that Ray Serve LLM is told to use (`ingress_cls_config`, Ray 2.56 to 2.60)."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import vllm
from fastapi import Request
from ray.serve.llm.ingress import OpenAiIngress
from ray.serve.llm.openai_api_models import ChatCompletionRequest, CompletionRequest
from ray.util import metrics
from starlette.responses import Response

from .app import Guard
from .record import Record, logger
from .settings import Settings

_HEALTH_SECONDS = 5.0
_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120]


class _ChatRequest(ChatCompletionRequest):
    """Reaches the engines as it is, and leaves `min_tokens` out where an engine computes a prompt for another:
    Ray asks that one for a single token, and vLLM refuses a minimum above the maximum (Ray 2.58,
    llm/_internal/serve/engines/vllm/kv_transfer/base.py, clamp_request_to_single_token)."""

    def to_sampling_params(self, *args: Any, **kwargs: Any) -> Any:
        _without_minimum(self)
        return super().to_sampling_params(*args, **kwargs)


class _CompletionRequest(CompletionRequest):
    """As `_ChatRequest`."""

    def to_sampling_params(self, *args: Any, **kwargs: Any) -> Any:
        _without_minimum(self)
        return super().to_sampling_params(*args, **kwargs)


def _without_minimum(request: Any) -> None:
    if (request.kv_transfer_params or {}).get("do_remote_decode"):
        request.min_tokens = 0


class GuardedIngress(OpenAiIngress):
    """Ray's ingress behind the guard."""

    _guard: Guard

    async def chat(self, body: _ChatRequest, request: Request) -> Response:
        return await super().chat(body, request)

    async def completions(self, body: _CompletionRequest, request: Request) -> Response:
        return await super().completions(body, request)

    def _set_asgi_app(self, app: Any) -> None:
        """Called by Ray Serve with the application of this ingress (serve/_private/http_util.py)."""
        keys = os.environ.get("ENDPOINT_API_KEYS")
        self._guard = Guard(
            app,
            tuple(self._model_cards),
            keys=Path(keys) if keys else None,
            version=vllm.__version__,
            healthy=self._engines_answer,
            observe=_Metrics().observe,
        )
        super()._set_asgi_app(self._guard)

    def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Called by Ray Serve at the start and whenever `user_config` changes, without a restart."""
        self._guard.settings = Settings.read(user_config)
        logger.info("settings of the guard: %s", self._guard.settings)

    async def _engines_answer(self) -> bool:
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                for handle in self._default_serve_handles.values():
                    await handle.check_health.remote()
        except Exception:
            logger.exception("the engine is not healthy")
            return False
        return True


class _Metrics:
    """On each Ray pod's metrics port, where Ray writes `ray_` before the names."""

    def __init__(self) -> None:
        self._requests = metrics.Counter(
            "llm_endpoint_requests",
            "Requests, by the status of their answer and the name of their API key.",
            ("path", "status", "key"),
        )
        self._cut = metrics.Counter("llm_endpoint_cut", "Requests whose client hung up.", ("key",))
        self._tokens = metrics.Counter(
            "llm_endpoint_tokens",
            "Tokens read (prompt), not read again (cached) and written.",
            ("kind", "key"),
        )
        self._stages = metrics.Histogram(
            "llm_endpoint_stage_seconds", "Where the time of an answer went.", _SECONDS, ("stage",)
        )

    def observe(self, record: Record) -> None:
        tags = {"path": record.path, "status": str(record.status), "key": record.key}
        self._requests.inc(1, tags)
        if record.cut:
            self._cut.inc(1, {"key": record.key})
        for kind, count in (
            ("prompt", record.prompt_tokens),
            ("cached", record.cached_tokens),
            ("completion", record.completion_tokens),
        ):
            if count:
                self._tokens.inc(count, {"kind": kind, "key": record.key})
        for stage, seconds in record.stages.items():
            self._stages.observe(seconds, {"stage": stage})
