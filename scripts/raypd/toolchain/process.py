"""Running other programs so that nothing of them outlives us, and saying so when it takes long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from raypd.report import UsageError


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Runs `command` to its end and returns what it printed.

    The command gets a process group of its own, which is killed as a whole when this process is
    interrupted meanwhile. Raises UsageError with the end of its error output when it fails.
    """
    words = [str(word) for word in command]
    process = subprocess.Popen(
        words,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate()
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if process.returncode != 0:
        raise UsageError(
            f"`{' '.join(words)}` failed with exit code {process.returncode}:\n{(err or out)[-4000:].rstrip()}"
        )
    return out


@contextmanager
def progress(task: str, quiet_seconds: float = 2.0) -> Iterator[None]:
    """Shows `task` and the time it takes on stderr once it has taken longer than `quiet_seconds`.

    On a terminal the line is alive; in a log it is one line at the start and one at the end.
    """
    from rich.console import Console

    console = Console(stderr=True)
    begin = time.monotonic()
    done = threading.Event()

    def show() -> None:
        if done.wait(quiet_seconds):
            return
        if not console.is_terminal:
            print(f"{task} ...", file=sys.stderr, flush=True)
            return
        with console.status(task) as status:
            while not done.wait(1):
                status.update(f"{task} ({time.monotonic() - begin:.0f} s)")

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    seconds = time.monotonic() - begin
    if seconds > quiet_seconds:
        print(f"{task}: done in {seconds:.0f} s", file=sys.stderr, flush=True)
