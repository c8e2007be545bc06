"""API keys: the files of a mounted Secret, one for each key, named after whoever has it."""

from __future__ import annotations

import hashlib
import hmac
import time
from pathlib import Path

from .errors import Refusal

_LOOK_SECONDS = (
    2.0  # between two looks at the folder; kubelet brings a changed Secret within about a minute
)
_SHORTEST = 16  # characters; a shorter key can be guessed


class Keys:
    """The keys in `folder`; none without one. They are kept as digests, and never shown."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._digests: dict[str, bytes] = {}
        self._seen: object = None
        self._looked = float("-inf")
        self.too_short: list[str] = []
        self._read()

    def name(self, authorization: str | None) -> str:
        """The name of the key in an `authorization` header. Raises Refusal, 401, for none and for a wrong one.

        Every key is compared, so that the time tells neither whether nor where one was found.
        """
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._read()
        scheme, _, given = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not given.strip():
            raise _refused("No API key was given. Send it as `authorization: Bearer KEY`.")
        # The header's own bytes, whichever letters a key has.
        digest = _digest(given.encode("latin-1").strip())
        found = [name for name, key in self._digests.items() if hmac.compare_digest(key, digest)]
        if not found:
            raise _refused("The API key is not known here.")
        return found[0]

    def _read(self) -> None:
        self._looked = time.monotonic()
        if self._folder is None:
            return
        try:
            files = sorted(f for f in self._folder.iterdir() if not f.name.startswith("."))
            seen = [(f.name, f.stat().st_mtime_ns) for f in files]
            if seen == self._seen:
                return
            keys = {f.name: f.read_bytes().strip() for f in files if f.is_file()}
        except OSError:
            # While kubelet swaps the folder; until then the keys that were there hold.
            return
        self._seen = seen
        self.too_short = [name for name, key in keys.items() if len(key) < _SHORTEST]
        self._digests = {n: _digest(k) for n, k in keys.items() if len(k) >= _SHORTEST}


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _refused(message: str) -> Refusal:
    return Refusal(401, message, "invalid_api_key", headers=(("www-authenticate", "Bearer"),))
