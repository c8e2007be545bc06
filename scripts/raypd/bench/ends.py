"""The processes that measure KV transfer (inside/kv_worker.py), on this machine or in pods, spoken to by
lines of JSON."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from raypd.report import UsageError

WORKER = Path(__file__).with_name("inside") / "kv_worker.py"
START_SECONDS = 120  # imports of torch and NIXL, CUDA, and filling the buffer
# UCX then writes what it chose for each kind of access.
TELLING = {"UCX_PROTO_INFO": "y"}

Json = dict[str, Any]


class Failure(Exception):
    """Why a case has no figure. `final`: the fabric has none for any layout."""

    def __init__(self, message: str, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class End:
    """One process."""

    def ask(self, request: Json, seconds: float, until: float) -> Json:
        """Its answer, within `seconds` and before `until`. Raises Failure."""
        left = until - time.monotonic()
        if left <= 0:
            raise Failure("Not measured: the time limit was reached.", final=True)
        line = self._exchange(json.dumps(request) + "\n", min(seconds, left))
        if line is None:
            raise Failure(f"Not done after {min(seconds, left):.0f} s, and ended.")
        if not line:
            last = (self.log().strip().splitlines() or ["no word"])[-1]
            raise Failure(f"The process ended with: {last}", final="role" in request)
        return json.loads(line)

    def log(self) -> str:
        """What NIXL and UCX wrote."""
        raise NotImplementedError

    def kill(self) -> None:
        """NIXL's clean-up waits for peers, and nothing is kept."""
        raise NotImplementedError

    def _exchange(self, line: str, seconds: float) -> str | None:
        """The line that comes for this one: None in time, "" from a process that has ended."""
        raise NotImplementedError


Start = Callable[[Mapping[str, str]], End]  # with these variables beside those that it has anyway


class Here(End):
    """On this machine, in the Python that is given."""

    def __init__(self, python: Path, env: Mapping[str, str]) -> None:
        with tempfile.NamedTemporaryFile(prefix="raypd-bench-", delete=False) as file:
            self._log = Path(file.name)
            try:
                self._process = subprocess.Popen(
                    [python, WORKER],
                    env={**os.environ, **TELLING, **env},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=file,
                    text=True,
                    start_new_session=True,
                )
            except OSError as error:
                self._log.unlink()
                raise UsageError(
                    f"--python {python} cannot be started: {error.strerror}."
                ) from error
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdin.close()
        self._log.unlink(missing_ok=True)

    def _exchange(self, line: str, seconds: float) -> str | None:
        with suppress(BrokenPipeError):  # it has ended; the queue says so
            self._process.stdin.write(line)
            self._process.stdin.flush()
        try:
            return self._lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")
