"""What is read of package metadata when a pair of versions is added."""

from __future__ import annotations

import subprocess
import sys

import pytest

from raypd.data.pairs import overrides, pinned
from raypd.toolchain.wheels import LOCKS


@pytest.mark.parametrize(
    ("requirement", "found"),
    [
        ('vllm[audio]==0.26.0; extra == "llm"', {"vllm": "0.26.0"}),
        ('nixl-cu13==1.3.1; extra == "llm"', {"nixl-cu13": "1.3.1"}),
        ('torch==2.11.0+cpu; platform_machine == "x86_64"', {"torch": "2.11.0"}),
        ('vllm[audio]>=0.18.0; extra == "llm"', {}),
        ("click!=8.3.*,>=7.0", {}),
        ("jsonschema", {}),
    ],
)
def test_only_one_exact_version_is_a_pin(requirement: str, found: dict[str, str]) -> None:
    assert pinned([requirement]) == found


def test_the_first_pin_of_a_name_counts() -> None:
    assert pinned(["torch==2.11.0+cpu; a", "torch==2.12.0; b"]) == {"torch": "2.11.0"}


def test_only_torch_changes_in_the_overrides() -> None:
    written = (LOCKS / "cpu-overrides.txt").read_text(encoding="utf-8")
    changed = overrides(written, "2.13.0")
    assert "\ntorch==2.13.0\n" in changed
    assert [line for line in written.splitlines() if line not in changed.splitlines()] == [
        "torch==2.11.0"
    ]


@pytest.mark.parametrize("arguments", [[], ["latest"], ["2.60.0", "2.59.0"]])
def test_a_wrong_call_ends_with_a_sentence(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "raypd.data.pairs", *arguments], capture_output=True, text=True
    )
    assert done.returncode
    assert done.stderr.startswith("Which Ray?")
    assert "Traceback" not in done.stderr
