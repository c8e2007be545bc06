"""Published and installed the two ways that Helm knows: an OCI registry, and a chart repository."""

from __future__ import annotations

import http.server
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from chart.rendering import CHART, run_helm
from raypd import yaml_text
from raypd.toolchain import binary, helm

VERSION = yaml_text.load((CHART / "Chart.yaml").read_text())["version"]


@pytest.fixture(params=[3, 4], ids=["helm3", "helm4"])
def program(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    for variable, folder in (("CONFIG", "config"), ("CACHE", "cache"), ("DATA", "data")):
        monkeypatch.setenv(f"HELM_{variable}_HOME", str(tmp_path / folder))
    return helm(request.param)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """Address of an OCI registry on loopback, empty."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = {
        "version": "0.1",
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": address},
    }
    file = tmp_path / "registry.yaml"
    file.write_text(yaml.safe_dump(config))
    with (tmp_path / "registry.log").open("wb") as log:
        process = subprocess.Popen([binary("registry"), "serve", file], stdout=log, stderr=log)
    try:
        _wait_for(address)
        yield address
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def repository(tmp_path: Path, package: Path) -> Iterator[str]:
    """URL of a chart repository on loopback that holds the package."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / package.name).write_bytes(package.read_bytes())
    run_helm(helm(4), "repo", "index", str(folder))
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_from_an_oci_registry(program, package, registry):
    chart = f"oci://{registry}/charts"
    run_helm(program, "push", str(package), chart, "--plain-http")
    pulled = ("template", "llm", f"{chart}/ray-pd-llm", "-n", "inference", "--plain-http")
    assert run_helm(program, *pulled, "--version", VERSION) == _from_file(program, package)


def test_from_a_chart_repository(program, package, repository):
    run_helm(program, "repo", "add", "ray-pd-llm", repository)
    listed = yaml_text.load(run_helm(program, "search", "repo", "ray-pd-llm", "-o", "yaml"))
    assert [(c["name"], c["version"]) for c in listed] == [("ray-pd-llm/ray-pd-llm", VERSION)]
    installed = run_helm(program, "template", "llm", "ray-pd-llm/ray-pd-llm", "-n", "inference")
    assert installed == _from_file(program, package)


def _from_file(program: Path, package: Path) -> str:
    return run_helm(program, "template", "llm", str(package), "-n", "inference")


def _wait_for(address: str) -> None:
    host, port = address.split(":")
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
