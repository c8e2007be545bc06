"""HTTP to the hub and to registries: short, and a failure says that nothing was looked at."""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx

from raypd.preflight.outcome import NotChecked, Once

_SECONDS = 10.0
_SILENT = (429, 500, 502, 503, 504)  # who answers so says nothing of what was asked


class Web:
    """A client for all of them. `transport` None is the network."""

    def __init__(self, transport: httpx.BaseTransport | None = None) -> None:
        self._client = httpx.Client(
            timeout=_SECONDS, follow_redirects=True, transport=transport, trust_env=True
        )
        self._lock = threading.Lock()
        self._answers: dict[str, Once[httpx.Response]] = {}

    def get(self, url: str, headers: dict[str, str] | None = None, **query: Any) -> httpx.Response:
        """The answer, whatever its status; the same is asked once. Raises NotChecked when there is
        none."""
        key = json.dumps([url, headers, query], sort_keys=True)
        with self._lock:
            if key not in self._answers:
                self._answers[key] = Once(lambda: self._get(url, headers, query))
        return self._answers[key]()

    def _get(
        self, url: str, headers: dict[str, str] | None, query: dict[str, Any]
    ) -> httpx.Response:
        host = httpx.URL(url).host
        try:
            answer = self._client.get(url, headers=headers, params=query or None)
        except httpx.HTTPError as error:
            raise NotChecked(f"{host} does not answer: {error or type(error).__name__}") from error
        if answer.status_code in _SILENT:
            raise NotChecked(f"{host} answers HTTP {answer.status_code} {answer.reason_phrase}")
        return answer

    def json(self, url: str, headers: dict[str, str] | None = None, **query: Any) -> Any:
        """The answer to what has to be there. Raises NotChecked for any other."""
        answer = self.get(url, headers, **query)
        try:
            answer.raise_for_status()
            return answer.json()
        except (httpx.HTTPStatusError, ValueError) as error:
            raise NotChecked(
                f"{httpx.URL(url).host} answers HTTP {answer.status_code} and no JSON of what was "
                "asked for"
            ) from error

    def close(self) -> None:
        """Ends its connections."""
        self._client.close()
