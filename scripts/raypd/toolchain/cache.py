"""The cache folder, and making a thing in it exactly once."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from raypd.toolchain.process import progress


def cache_dir() -> Path:
    """$RAYPD_CACHE, else $XDG_CACHE_HOME/raypd, else ~/.cache/raypd; created when missing."""
    if own := os.environ.get("RAYPD_CACHE"):
        folder = Path(own).resolve()
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "raypd"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Holds the cache's lock `name`; the kernel frees it when the process ends, however it ends."""
    with (cache_dir() / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def once(name: str, task: str, make: Callable[[Path], None]) -> Path:
    """The path `name` in the cache, made by `make` when it is not there.

    `make` gets a path that does not exist beside the wanted one and creates a file or folder there,
    which is then renamed; it must not depend on its own path. `task` says what takes so long.
    """
    wanted = cache_dir() / name
    if wanted.exists():
        return wanted
    with locked(name.replace("/", "-")):
        if wanted.exists():
            return wanted
        half = wanted.with_name(f"{wanted.name}.part")
        _remove(half)
        wanted.parent.mkdir(parents=True, exist_ok=True)
        try:
            with progress(task):
                make(half)
        except BaseException:
            _remove(half)
            raise
        half.rename(wanted)
    return wanted


def once_in_place(name: str, task: str, make: Callable[[Path], None]) -> Path:
    """Like `once` for what cannot be moved (a virtual environment holds its own path): a marker
    file, written last, says that the folder is whole."""
    wanted = cache_dir() / name
    marker = wanted / ".complete"
    if marker.exists():
        return wanted
    with locked(name):
        if not marker.exists():
            _remove(wanted)
            with progress(task):
                make(wanted)
            marker.touch()
    return wanted


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
