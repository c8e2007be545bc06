"""Kubernetes quantities in the forms that the chart takes."""

from __future__ import annotations

import math
import re
from typing import Any

_POWERS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_POWERS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_BYTES = re.compile(r"[1-9][0-9]*(Ki|Mi|Gi|Ti)")
_CPU = re.compile(r"[1-9][0-9]{0,5}m?")


def amount(written: Any) -> float | None:
    """A quantity as a number: "500m" is 0.5, "1Gi" 2**30. None for what is none."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)([A-Za-z]*)", str(written).strip())
    if not match or isinstance(written, bool):
        return None
    if match[2] == "m":
        return float(match[1]) / 1000
    return float(match[1]) * _POWERS[match[2]] if match[2] in _POWERS else None


def as_bytes(written: Any) -> str | None:
    """Bytes as the chart's schema takes them, rounded up to a KiB; None for what is no quantity."""
    if isinstance(written, str) and _BYTES.fullmatch(written):
        return written
    number = amount(written)
    if not number:
        return None
    left, units = math.ceil(number / 1024), ["Ki", "Mi", "Gi", "Ti"]
    while left % 1024 == 0 and len(units) > 1:
        left //= 1024
        units.pop(0)
    return f"{left}{units[0]}"


def as_cpu(written: Any) -> str | None:
    """CPUs as the chart's schema takes them; None for what is no quantity."""
    if isinstance(written, str) and _CPU.fullmatch(written):
        return written
    number = amount(written)
    if not number:
        return None
    return f"{number:g}" if number == int(number) else f"{math.ceil(number * 1000)}m"
