"""What is written down of a request, when it has ended: never a prompt, an answer or a key."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from typing import Any

logger = logging.getLogger(
    "ray.serve.endpoint"
)  # below Ray Serve's own, so that it reaches its files


@dataclass
class Record:
    """One request. Times are seconds; a stage that nothing is known of is not in `stages`.

    `cut` says that the client hung up before the end; `key` is the name of the API key.
    """

    path: str
    request_id: str
    key: str = ""
    stream: bool = False
    status: int = 0
    code: str | None = None
    cut: bool = False
    usage: dict[str, Any] | None = None
    stages: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)
    asked: float | None = None
    first: float | None = None
    ended: float | None = None

    @property
    def prompt_tokens(self) -> int:
        return (self.usage or {}).get("prompt_tokens") or 0

    @property
    def completion_tokens(self) -> int:
        return (self.usage or {}).get("completion_tokens") or 0

    @property
    def cached_tokens(self) -> int:
        return ((self.usage or {}).get("prompt_tokens_details") or {}).get("cached_tokens") or 0

    def answered(self, metrics: dict[str, Any] | None, disaggregated: bool) -> None:
        """Works the stages out: of the guard's own times, and of the times that the engine which wrote the
        answer tells (vLLM's `enable_per_request_metrics`).

        That engine's clock starts when it gets the request, which with prefill apart is after prefill. Its
        queue is then the wait for the KV, and the first token the last step of the prompt.
        """
        self.ended = time.perf_counter()
        if self.asked is None:
            return
        self.stages["queue"] = self.asked - self.began
        metrics = {
            name: value / 1e3 for name, value in (metrics or {}).items() if value is not None
        }
        waited, first = metrics.get("queue_time_ms"), metrics.get("time_to_first_token_ms")
        if waited is None or first is None:
            if self.first is not None:
                self.stages["first_token"] = self.first - self.asked
                self.stages["decode"] = self.ended - self.first
            return
        decode = metrics.get("generation_time_ms", 0.0)
        before = max(self.ended - self.asked - waited - first - decode, 0.0)
        if self.first is not None:
            before = max(self.first - self.asked - waited - first, 0.0)
        if disaggregated:
            self.stages |= {"prefill": before, "kv_transfer": waited, "first_token": first}
        else:
            self.stages |= {"engine_queue": before + waited, "prefill": first}
        self.stages["decode"] = decode

    @property
    def server_timing(self) -> str:
        """The value of a Server-Timing header."""
        return ", ".join(f"{name};dur={seconds * 1e3:.1f}" for name, seconds in self.stages.items())

    def log(self) -> None:
        ended = self.ended or time.perf_counter()
        fields: dict[str, Any] = {
            "request_id": self.request_id,
            "path": self.path,
            "key": self.key,
            "status": self.status,
            "code": self.code,
            "stream": self.stream,
            "cut": self.cut,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "total_ms": round((ended - self.began) * 1e3, 1),
        }
        fields |= {f"{name}_ms": round(s * 1e3, 1) for name, s in self.stages.items()}
        logger.info("request %s", json.dumps(fields))
