"""The few calls of the Kubernetes API that making a cluster takes."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from raypd.report import UsageError

Json = dict[str, Any]


class Api:
    """`url` with a client's certificate; paths are those of the REST API."""

    def __init__(self, url: str, authority: Path, certificate: Path, key: Path) -> None:
        context = ssl.create_default_context(cafile=str(authority))
        context.load_cert_chain(certificate, key)
        self._client = httpx.Client(base_url=url, verify=context, timeout=30, trust_env=False)

    def get(self, path: str) -> Json:
        return _json(self._client.get(path))

    def apply(self, path: str, manifest: Json | bytes) -> Json:
        """Server-side apply of an object, or of its YAML as it lies in a file."""
        body = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
        return _json(
            self._client.patch(
                path,
                content=body,
                params={"fieldManager": "devcluster", "force": "true"},
                headers={"Content-Type": "application/apply-patch+yaml"},
            )
        )

    def merge(self, path: str, change: Json) -> Json:
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        return _json(self._client.patch(path, content=json.dumps(change), headers=headers))

    def ready(self) -> bool:
        """The server answers and its own start-up work is done."""
        try:
            return self._client.get("/readyz").is_success
        except httpx.TransportError:
            return False


def wait(
    what: str,
    condition: Callable[[], bool],
    seconds: float,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Polls until `condition` holds; `check` may raise because it never will."""
    deadline = time.monotonic() + seconds
    while not condition():
        check()
        if time.monotonic() > deadline:
            raise UsageError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.25)


def _json(response: httpx.Response) -> Json:
    if response.is_error:
        raise RuntimeError(f"{response.request.method} {response.request.url}: {response.text}")
    return response.json()
