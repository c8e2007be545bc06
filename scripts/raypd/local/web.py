"""The one HTTP client for what a run serves."""

from __future__ import annotations

from functools import cache

import httpx


@cache
def client() -> httpx.Client:
    """A client that keeps its connections, and asks no proxy: all it talks to is on loopback."""
    return httpx.Client(trust_env=False, verify=False, timeout=20)
