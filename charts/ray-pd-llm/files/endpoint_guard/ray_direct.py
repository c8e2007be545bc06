"""The engine class that Ray Serve LLM is told to use where engines answer clients themselves: direct streaming
(RAYLLM_VLLM_ENGINE_CLS, Ray 2.58, llm/_internal/serve/core/server/llm_server.py). There no ingress class is
called; the guard stands inside the engine's own HTTP application."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ray.llm._internal.serve.engines.vllm.vllm_engine import VLLMEngine

from .app import Guard
from .ray_guard import new_guard
from .ray_request import without_minimum
from .record import logger
from .settings import Settings

_SETTINGS = Path(__file__).with_name("settings.json")
_LOOK_SECONDS = 2.0  # between two looks; kubelet brings a changed ConfigMap within about a minute


class GuardedEngine(VLLMEngine):
    """vLLM behind the guard."""

    _following: asyncio.Task[None]

    async def build_asgi_app(self) -> Any:
        """Called by Ray Serve once the engine is there. With prefill and decode apart it then replaces the
        routes of chat and completions, inside of what is added here."""
        application = await super().build_asgi_app()
        self._following = put_guard(application, self.llm_config.model_id, self.check_health)
        return application

    def chat(self, request: Any, raw_request_info: Any = None) -> Any:
        without_minimum(request)
        return super().chat(request, raw_request_info)

    def completions(self, request: Any, raw_request_info: Any = None) -> Any:
        without_minimum(request)
        return super().completions(request, raw_request_info)


def put_guard(
    application: Any, model: str, check_health: Callable[[], Awaitable[None]]
) -> asyncio.Task[None]:
    """Puts the guard around all that a FastAPI application answers. The task takes over its settings as long as
    it is kept. Raises OSError and ValueError where there are none that can be read: an engine without them
    would ask for no key."""
    # The stack and not add_middleware, which is refused: vLLM has put the stack together by now.
    inside = application.middleware_stack or application.build_middleware_stack()
    guard = new_guard(inside, (model,), check_health)
    seen = _read(guard, None)
    application.middleware_stack = guard
    return asyncio.create_task(_follow(guard, seen))


async def _follow(guard: Guard, seen: str | None) -> None:
    """Takes over what the operator changes."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            seen = _read(guard, seen)
        except (OSError, ValueError) as error:  # also while kubelet swaps the folder
            logger.error("settings of the guard stay as they are: %s", error)


def _read(guard: Guard, seen: str | None) -> str:
    """Gives the guard its settings where they differ from those that were seen last."""
    written = _SETTINGS.read_text()
    if written != seen:
        guard.settings = Settings.read(json.loads(written))
        logger.info("settings of the guard: %s", guard.settings)
    return written
