"""The GPUs of this machine, as NVIDIA's driver lists them."""

from __future__ import annotations

import shutil
import subprocess


def names() -> list[str]:
    """Model and driver of each GPU, as "NVIDIA H200, driver 580.95.05"; empty where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        return []
    rows = done.stdout.splitlines() if done.returncode == 0 else []
    return [row.strip().replace(", ", ", driver ") for row in rows if row.strip()]
