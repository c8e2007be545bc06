"""What an operator may set. All of it may change while the service runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class KeyLimits:
    """Of one API key, or of all clients together where there are no keys; 0 is no limit."""

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    concurrent_requests: int = 0


@dataclass(frozen=True)
class Settings:
    """`key_limits` has the limits of keys that have their own, by the key's name; `limits` all others'.

    `replicas` is the number of ingress replicas that share the limits: each keeps to its part.
    `disaggregated` says that the engines behind answer one choice a request, out of KV that moved; `context` is
    the longest prompt and answer together, in tokens, 0 where it is not known.
    """

    disaggregated: bool = True
    context: int = 0
    replicas: int = 1
    api_keys: bool = False
    limits: KeyLimits = field(default_factory=KeyLimits)
    key_limits: Mapping[str, KeyLimits] = field(default_factory=dict)
    in_flight: int = 256
    queue: int = 64
    queue_seconds: float = 10
    body_bytes: int = 8 * 2**20
    body_seconds: float = 30
    choices: int = 16
    logprobs: int = 20
    answer_tokens: int = 0
    extra_fields: tuple[str, ...] = ()
    media_urls: bool = False
    server_timing: bool = False

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Settings:
        """Out of a serve config's `user_config`. Raises ValueError for what is not there, so that a misspelt
        limit is not taken for none."""
        _known(cls, written, "settings of the guard")
        values = dict(written)
        if "limits" in values:
            values["limits"] = _limits(values["limits"], "limits")
        if "key_limits" in values:
            values["key_limits"] = {
                key: _limits(limits, f"limits of the key {key}")
                for key, limits in values["key_limits"].items()
            }
        if "extra_fields" in values:
            values["extra_fields"] = tuple(values["extra_fields"])
        return cls(**values)

    def limits_of(self, key: str) -> KeyLimits:
        return self.key_limits.get(key, self.limits)


def _limits(written: Mapping[str, Any], what: str) -> KeyLimits:
    _known(KeyLimits, written, what)
    return KeyLimits(**written)


def _known(of: type, written: Mapping[str, Any], what: str) -> None:
    if unknown := sorted(set(written) - {each.name for each in fields(of)}):
        raise ValueError(f"unknown {what}: {', '.join(unknown)}")
