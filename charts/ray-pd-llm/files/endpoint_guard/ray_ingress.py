"""The ingress class that Ray Serve LLM is told to use (`ingress_cls_config`, Ray 2.56 to 2.60)."""

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from ray.serve.llm.ingress import OpenAiIngress
from ray.serve.llm.openai_api_models import ChatCompletionRequest, CompletionRequest
from starlette.responses import Response

from .app import Guard
from .ray_guard import new_guard
from .ray_request import without_minimum
from .record import logger
from .settings import Settings

_HEALTH_SECONDS = 5.0


class _ChatRequest(ChatCompletionRequest):
    """Reaches the engines as it is, and loses there what they would refuse."""

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
        self._guard = new_guard(app, tuple(self._model_cards), self._check_health)
        super()._set_asgi_app(self._guard)

    def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Called by Ray Serve at the start and whenever `user_config` changes, without a restart."""
        self._guard.settings = Settings.read(user_config)
        logger.info("settings of the guard: %s", self._guard.settings)

    async def _check_health(self) -> None:
        async with asyncio.timeout(_HEALTH_SECONDS):
            for handle in self._default_serve_handles.values():
                await handle.check_health.remote()
