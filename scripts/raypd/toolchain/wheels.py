"""What comes from the Python package index: by uv, with the hashes of the lock files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from raypd.report import UsageError
from raypd.toolchain.cache import once
from raypd.toolchain.process import run

LOCKS = Path(__file__).resolve().parents[3] / "locks"


def uv() -> str:
    """The uv of this environment: it is a dependency of raypd."""
    from uv import find_uv_bin

    return find_uv_bin()


def lock_file(name: str) -> Path:
    """locks/NAME.txt of the checkout that this package is installed from."""
    path = LOCKS / f"{name}.txt"
    if not path.is_file():
        raise UsageError(
            f"{path} is not there: raypd has to be installed from a checkout (pip install -e),"
            " whose lock files say what to fetch."
        )
    return path


def lock_key(name: str) -> str:
    """Short hash of a lock file's content: what is made from it carries this in its name."""
    return hashlib.sha256(lock_file(name).read_bytes()).hexdigest()[:16]


def unpacked(name: str) -> Path:
    """Folder with the packages of locks/NAME.txt unpacked side by side (no environment)."""

    def install(folder: Path) -> None:
        lock = ["--no-deps", "--require-hashes", "-r", lock_file(name)]
        run([uv(), "pip", "install", "--quiet", "--target", folder, *lock])

    return once(f"{name}-wheel-{lock_key(name)}", f"Fetching {name} as a wheel", install)
