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
from starlette.responses import Response

from .app import Guard
from .ray_metrics import Metrics
from .ray_request import without_minimum
from .record import logger
from .settings import Settings

_HEALTH_SECONDS = 5.0


class _ChatRequest(ChatCompletionRequest):
    """Reaches the engines as it is, and leaves `min_tokens` out where an engine computes a prompt for another:
    Ray asks that one for a single token, and vLLM refuses a minimum above the maximum (Ray 2.58,
    llm/_internal/serve/engines/vllm/kv_transfer/base.py, clamp_request_to_single_token)."""

    def to_sampling_params(self, *args: Any, **kwargs: Any) -> Any:
        without_minimum(self)
        return super().to_sampling_params(*args, **kwargs)


class _CompletionRequest(CompletionRequest):
    """As `_ChatRequest`."""

    def to_sampling_params(self, *args: Any, **kwargs: Any) -> Any:
        without_minimum(self)
        return super().to_sampling_params(*args, **kwargs)


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
            observe=Metrics().observe,
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
