"""An environment of one's own in place of the CPU runtime."""

from __future__ import annotations

import sys

import pytest

from raypd.report import UsageError
from raypd.toolchain import runtime_environment, runtime_python


def test_a_named_python_is_taken_as_it_is(monkeypatch):
    monkeypatch.setenv("RAYPD_RUNTIME_PYTHON", sys.executable)
    # Not resolved: a virtual environment's Python is a link, and what it links to has no packages.
    assert str(runtime_python()) == sys.executable


def test_a_name_that_is_no_program_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("RAYPD_RUNTIME_PYTHON", str(tmp_path / "python"))
    with pytest.raises(UsageError, match="RAYPD_RUNTIME_PYTHON"):
        runtime_python()


def test_its_engines_find_cuda_where_the_caller_does(monkeypatch):
    monkeypatch.setenv("RAYPD_RUNTIME_PYTHON", sys.executable)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    assert runtime_environment() == {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
