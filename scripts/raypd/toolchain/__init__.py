"""Programs and environments that raypd needs, obtained on first use and kept in one cache folder.

Everything is keyed by version, made under a temporary name and renamed, and guarded by a file lock,
so that an interrupted or a parallel run never sees half of a thing.
"""

from raypd.toolchain.cache import cache_dir
from raypd.toolchain.programs import binary, helm, kuberay_module
from raypd.toolchain.runtime import runtime_environment, runtime_python

__all__ = [
    "binary",
    "cache_dir",
    "helm",
    "kuberay_module",
    "runtime_environment",
    "runtime_python",
]
