"""`raypd local up` from a file that was rendered before."""

from __future__ import annotations

from pathlib import Path

import pytest

from raypd.local import source
from raypd.local.verb import run_up
from raypd.report import UsageError


def test_a_manifest_is_taken_without_values(tmp_path):
    with pytest.raises(UsageError, match="--manifest is rendered already"):
        run_up(None, [], ["model.id=x"], [], tmp_path / "m.yaml", "default", 10, "human")


def test_a_manifest_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"--manifest .*m\.yaml cannot be read"):
        source.from_file(tmp_path / "m.yaml")


def test_a_manifest_needs_neither_helm_nor_its_client(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyhelm3", None)
    manifest = Path(tmp_path, "m.yaml")
    manifest.write_text(
        "kind: RayService\nmetadata: {name: llm}\nspec: {serveConfigV2: 'applications: []'}\n"
    )
    assert source.from_file(manifest).name == "llm"
