"""An engine of constant speed for Ray Serve LLM: a token every STEADY_STEP seconds, whatever else there is.

Ray takes it in vLLM's place by RAYLLM_VLLM_ENGINE_CLS. bench/endpoint.py uses it to measure what stands between an
engine and its clients.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from ray.llm._internal.serve.core.engine.protocol import LLMEngine
from starlette.responses import StreamingResponse

_STEP = float(os.environ.get("STEADY_STEP", "0.02"))


class SteadyEngine(LLMEngine):
    """Streams chat answers of as many tokens as are asked for, and can do nothing else."""

    def __init__(self, llm_config: Any) -> None:
        self._model = llm_config.model_id

    async def start(self) -> None:
        pass

    def routing_stats(self) -> dict[str, Any]:
        return {}

    async def chat(self, request: Any, raw_request_info: Any = None) -> AsyncIterator[str]:
        async for part in _answer(self._model, request.max_tokens):
            yield part

    async def build_asgi_app(self) -> Any:
        """What Ray's direct streaming puts in front of clients."""
        app = FastAPI()

        @app.post("/v1/chat/completions")
        async def chat(request: Request) -> StreamingResponse:
            asked = await request.json()
            answer = _answer(asked["model"], asked["max_tokens"])
            return StreamingResponse(answer, media_type="text/event-stream")

        return app

    async def resolve_lora(self, lora_model: Any) -> None:
        raise NotImplementedError

    async def completions(self, request: Any, raw_request_info: Any = None) -> Any:
        raise NotImplementedError

    async def embeddings(self, request: Any, raw_request_info: Any = None) -> Any:
        raise NotImplementedError

    async def transcriptions(self, request: Any, raw_request_info: Any = None) -> Any:
        raise NotImplementedError

    async def reset_prefix_cache(self) -> None:
        pass

    async def sleep(self, **kwargs: Any) -> None:
        raise NotImplementedError

    async def wakeup(self, **kwargs: Any) -> None:
        raise NotImplementedError


class GuardedSteadyEngine(SteadyEngine):
    """The same behind the guard, as endpoint_guard.ray_direct puts it around vLLM."""

    async def build_asgi_app(self) -> Any:
        from endpoint_guard.ray_direct import put_guard

        application = await super().build_asgi_app()
        self._following = put_guard(application, self._model, self.check_health)
        return application


async def _answer(model: str, tokens: int) -> AsyncIterator[str]:
    head = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 0, "model": model}
    began = time.perf_counter()
    for number in range(1, tokens + 1):
        await asyncio.sleep(max(0.0, began + number * _STEP - time.perf_counter()))
        delta = {"content": " one"} if number > 1 else {"role": "assistant", "content": " one"}
        finish = "length" if number == tokens else None
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        yield _event({**head, "choices": [choice]})
    usage = {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": tokens + 1}
    yield _event({**head, "choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


def _event(chunk: dict[str, Any]) -> str:
    return f"data: {json.dumps(chunk)}\n\n"
