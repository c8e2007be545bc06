"""The engine class that Ray Serve LLM is told to use where engines answer clients themselves: direct streaming
(RAYLLM_VLLM_ENGINE_CLS, Ray 2.58, llm/_internal/serve/core/server/llm_server.py). There no ingress class is
called; the guard stands inside the engine's own HTTP application."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import vllm
from ray.llm._internal.serve.engines.vllm.vllm_engine import VLLMEngine

from .app import Guard, Healthy
from .ray_metrics import Metrics
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
        self._following = put_guard(application, self.llm_config.model_id, self._answers)
        return application

    def chat(self, request: Any, raw_request_info: Any = None) -> Any:
        without_minimum(request)
        return super().chat(request, raw_request_info)

    def completions(self, request: Any, raw_request_info: Any = None) -> Any:
        without_minimum(request)
        return super().completions(request, raw_request_info)

    async def _answers(self) -> bool:
        try:
            await self.check_health()
        except Exception:
            logger.exception("the engine is not healthy")
            return False
        return True


def put_guard(application: Any, model: str, healthy: Healthy) -> asyncio.Task[None]:
    """Puts the guard around all that a FastAPI application answers. The task takes over its settings as long as
    it is kept. Raises OSError and ValueError where there are none that can be read: an engine without them
    would ask for no key."""
    keys = os.environ.get("ENDPOINT_API_KEYS")
    guard = Guard(
        # The stack and not add_middleware, which is refused: vLLM has put the stack together by now.
        application.middleware_stack or application.build_middleware_stack(),
        (model,),
        keys=Path(keys) if keys else None,
        version=vllm.__version__,
        healthy=healthy,
        observe=Metrics().observe,
    )
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
