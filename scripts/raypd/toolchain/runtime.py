"""The runtime: Ray, vLLM and NIXL in a Python environment of their own (locks/cpu.txt), for the CPU.

$RAYPD_RUNTIME_PYTHON names the Python of another environment that has them, as on a machine with GPUs.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from pathlib import Path

from raypd.report import UsageError
from raypd.toolchain.cache import once_in_place
from raypd.toolchain.process import run
from raypd.toolchain.wheels import lock_file, lock_key, uv

PYTHONS = ((3, 11), (3, 14))  # lowest and highest with wheels for everything in locks/cpu.txt
NEEDED_GIB = 8  # the environment is 6.2 GB, the rest is what a run writes
OWN = "RAYPD_RUNTIME_PYTHON"
_OWN_LIBRARIES = (
    "CUDA_HOME",
    "LD_LIBRARY_PATH",
)  # where an environment of one's own looks for CUDA


def runtime_python() -> Path:
    """Python of the runtime; the first call makes the environment, which takes minutes."""
    if named := os.environ.get(OWN):
        if not os.access(named, os.X_OK):
            raise UsageError(
                f"{OWN}: {named} is no program that can run. Name the Python of an environment with"
                " Ray, vLLM and NIXL, or leave the variable out for the one that raypd makes."
            )
        return Path(named).absolute()
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        raise UsageError(
            f"raypd runs on Python {_python()}, for which Ray, vLLM or NIXL have no"
            f" wheel: run it with one of 3.{PYTHONS[0][1]} to 3.{PYTHONS[1][1]}."
        )

    def make(folder: Path) -> None:
        free = shutil.disk_usage(folder.parent).free / 2**30
        if free < NEEDED_GIB:
            raise UsageError(
                f"{folder.parent} has {free:.1f} GiB free, the CPU runtime needs {NEEDED_GIB}:"
                " free some, or set RAYPD_CACHE to a folder on a larger disk."
            )
        run([uv(), "venv", "--quiet", "--python", _base_python(), folder])
        target = ["--python", folder / "bin" / "python"]
        # sync, not install: the lock is complete, and its overrides contradict Ray's own metadata.
        # Compiled, because each engine imports half of it in four processes, and pods, which mount it
        # read-only, could not keep what Python compiles.
        options = ["--require-hashes", "--compile-bytecode"]
        run([uv(), "pip", "sync", "--quiet", *target, *options, lock_file("cpu")])
        _lend_libnuma(folder)

    task = "Installing Ray, vLLM and NIXL for CPU (6.2 GB, once)"
    return once_in_place(cpu_name(), task, make) / "bin" / "python"


def cpu_name() -> str:
    """The environment's folder in the cache."""
    return f"cpu-{lock_key('cpu')}-py{_python().replace('.', '')}-compiled"


def runtime_environment() -> dict[str, str]:
    """Variables that this machine needs beside those of the render: what a container image has and
    a bare machine may lack. Empty where all is there."""
    if os.environ.get(OWN):
        return {name: os.environ[name] for name in _OWN_LIBRARIES if name in os.environ}
    variables = {}
    folder = runtime_python().parents[1]
    if not _loads("libnuma.so.1"):
        variables["LD_LIBRARY_PATH"] = str(folder / "lib" / "lent")
    return variables


def _python() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def _base_python() -> str:
    """The interpreter under the tool environment: a venv of a venv would end with the former."""
    return getattr(sys, "_base_executable", sys.executable)


def _lend_libnuma(folder: Path) -> None:
    """vLLM's kernels link to libnuma.so.1, a system library; nixl-cu13 bundles it under another
    file name, and a link with the usual one serves where the system has none."""
    bundled = next(folder.glob("lib/python*/site-packages/nixl_cu13.libs/libnuma-*.so.*"))
    lent = folder / "lib" / "lent"
    lent.mkdir(parents=True)
    (lent / "libnuma.so.1").symlink_to(bundled)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
