"""Kubernetes quantities as the chart's schema takes them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypd.importer.quantity import amount, as_bytes, as_cpu


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("96Gi", "96Gi"),
        ("96.5Gi", "98816Mi"),
        ("128G", "125000000Ki"),
        (4294967296, "4Gi"),
        ("4294967296", "4Gi"),
        (1000, "1Ki"),
        ("0", None),
        ("many", None),
        (None, None),
        (True, None),
        ([], None),
    ],
)
def test_bytes(written: object, wanted: str | None) -> None:
    assert as_bytes(written) == wanted


@pytest.mark.parametrize(
    ("written", "wanted"),
    [("16", "16"), (16, "16"), ("500m", "500m"), ("1.5", "1500m"), (0.25, "250m"), ("", None)],
)
def test_cpus(written: object, wanted: str | None) -> None:
    assert as_cpu(written) == wanted


@given(st.integers(1, 2**50))
def test_bytes_are_never_less_than_what_was_asked_for(number: int) -> None:
    text = as_bytes(number)
    assert text is not None
    assert re.fullmatch(r"[1-9][0-9]*(Ki|Mi|Gi|Ti)", text)
    assert number <= (amount(text) or 0) < number + 1024
