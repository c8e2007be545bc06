#!/usr/bin/env python3
"""Packs the engines' runtime for a machine with one GPU and no network: run it where there is one.

    python3 scripts/bootstrap.py python bench/gpu/pack.py .parts

The machine brings Python 3.12, torch and what torch needs (CUDA's libraries, Triton), and the packages
that packages.txt leaves to it; everything else travels. What serving a dense model on one card does
not need is left behind, kernels of other cards first. Each part (p00, p01 ...) is an archive of its
own, so that all can be unpacked at once; unpack.sh does that.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from thin import thin
from uv import find_uv_bin

HERE = Path(__file__).parent
PYTHON = "3.12"
PLATFORM = "x86_64-manylinux_2_35"
ARCHITECTURE = 90  # an H200's
PART_BYTES = 75_000_000  # by the estimate; of 64 MiB that one call takes along with the checkout

# Globs of paths in the site folder. Headers and sources of kernels that are compiled for quantized
# models and for other cards, storage back ends of NIXL, front ends nobody asks for, tests.
LEFT_BEHIND = (
    "bin",
    "include",
    "samples",
    "share",
    "**/tests",
    "**/__pycache__",
    "**/*.pyi",
    "**/*.a",
    "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so",  # an H200 takes version 3
    "vllm/_flashmla*.so",
    "vllm/_qutlass_C.abi3.so",
    "vllm/third_party/deep_gemm",
    "vllm/third_party/fmha_sm100",
    "vllm/vllm-rs",
    "nixl_ep*",
    "nixl_cu13.libs/ucx/libucx_perftest*",
    "nixl_cu13.libs/nixl/libplugin_[!UL]*",  # UCX and LIBFABRIC stay
    "ray/dashboard/client",
    "ray/rllib",
    "ray/jars",
    "ray/thirdparty_files/**/test",
    "mistral_common/data",
    "pycountry/locales",
    "openai_harmony/*.data",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the parts go; what is there is replaced")
    folder = parser.parse_args().folder.absolute()
    with tempfile.TemporaryDirectory(prefix="raypd-pack-") as work:
        site = Path(work, "site")
        install(site)
        prune(site)
        parts = compressed(site, Path(work))
        for old in folder.glob("p[0-9][0-9]"):
            shutil.rmtree(old)
        for number, archive in enumerate(parts):
            target = folder / f"p{number:02}"
            target.mkdir(parents=True)
            shutil.move(archive, target / f"site-{number:02}.tar.xz")
    for archive in sorted(folder.glob("p*/*")):
        print(f"{archive}  {archive.stat().st_size / 1e6:.1f} MB")


def install(site: Path) -> None:
    """The packages' files, side by side; wheels only, nothing of them is run."""
    command = [find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--target", site]
    command += ["--python-version", PYTHON, "--python-platform", PLATFORM]
    command += ["--only-binary", ":all:", "--link-mode", "copy", "-r", HERE / "packages.txt"]
    subprocess.run([str(word) for word in command], check=True)


def prune(site: Path) -> None:
    """Removes what is left behind, symbols for debuggers, and kernels of other cards."""
    for pattern in LEFT_BEHIND:
        for path in list(site.glob(pattern)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    for library in site.rglob("*.so*"):
        if library.is_file() and not library.is_symlink():
            thin(library, ARCHITECTURE)


def compressed(site: Path, work: Path) -> list[Path]:
    """The site folder as archives of about PART_BYTES each."""
    files = sorted(path for path in site.rglob("*") if path.is_file() or path.is_symlink())
    with ThreadPoolExecutor() as threads:  # compression lets go of the interpreter's lock
        sizes = list(threads.map(_estimate, files))
    bins = [[] for _ in range(max(1, -(-sum(sizes) // PART_BYTES)))]
    filled = [0] * len(bins)
    # The largest first, each into the emptiest part.
    for size, path in sorted(zip(sizes, files, strict=True), key=lambda pair: -pair[0]):
        part = filled.index(min(filled))
        bins[part].append(path)
        filled[part] += size
    with ThreadPoolExecutor() as threads:
        return list(
            threads.map(
                lambda part: _archive(work / f"{part[0]}.tar.xz", site, sorted(part[1])),
                enumerate(bins),
            )
        )


def _estimate(path: Path) -> int:
    """Compressed size, from above: zlib does a third of xz's work and a tenth worse."""
    return 0 if path.is_symlink() else len(zlib.compress(path.read_bytes(), 1))


def _archive(archive: Path, site: Path, files: list[Path]) -> Path:
    # The quickest setting: the next ones take three times as long for a tenth.
    with tarfile.open(archive, "w:xz", preset=1) as tar:
        for path in files:
            tar.add(path, path.relative_to(site), recursive=False)
    return archive


if __name__ == "__main__":
    sys.exit(main())
