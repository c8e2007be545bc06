"""NOTES.txt: exact commands, and the warnings that the values call for."""

from __future__ import annotations

from chart.rendering import run_helm
from raypd.toolchain import helm


def notes(package, *options: str) -> str:
    text = run_helm(
        helm(4), "install", "llm", str(package), "-n", "inference", "--dry-run=client", *options
    )
    return text.split("NOTES:")[1]


def test_commands_fit_the_release(package):
    text = notes(package, "--set", "endpoint.routePrefix=/qwen")
    assert "kubectl -n inference get rayservice llm-ray-pd-llm -w" in text
    assert "port-forward svc/llm-ray-pd-llm-serve-svc 8000:8000" in text
    assert "http://127.0.0.1:8000/qwen/v1/chat/completions" in text
    assert '"model": "qwen3.5-9b"' in text
    assert "helm test -n inference llm" in text


def test_tcp_and_exposure_are_said_out_loud(package):
    assert "over TCP" not in notes(package)
    text = notes(
        package,
        *("--set", "transport.fabric=tcp,cache.type=emptyDir"),
        *("--set", "endpoint.service.type=LoadBalancer"),
    )
    assert "moves over TCP, as asked for" in text
    assert "put authentication in front of it" in text
