"""The guard as Ray Serve's processes have it, an ingress replica or an engine's."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import vllm

from .app import Guard
from .ray_metrics import Metrics
from .record import logger


def new_guard(
    application: Any, models: tuple[str, ...], check_health: Callable[[], Awaitable[None]]
) -> Guard:
    """In front of `application`, with the pod's API keys. `check_health` raises for an engine that is not healthy."""

    async def healthy() -> bool:
        try:
            await check_health()
        except Exception:
            logger.exception("the engine is not healthy")
            return False
        return True

    keys = os.environ.get("ENDPOINT_API_KEYS")
    return Guard(
        application,
        models,
        keys=Path(keys) if keys else None,
        version=vllm.__version__,
        healthy=healthy,
        observe=Metrics().observe,
    )
