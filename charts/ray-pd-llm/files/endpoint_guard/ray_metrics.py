"""What the guard counts, on the metrics port of the pod in which it runs."""

from ray.util import metrics

from .record import Record

_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120]


class Metrics:
    """Ray writes `ray_` before the names."""

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
