"""The pod of `helm test`, and the script in it against a real HTTP server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from chart.rendering import CHART

ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3},
}


@contextmanager
def endpoint(models: list[str], status: int, answer: dict) -> Iterator[str]:
    """An HTTP server on loopback that answers as told; its base URL."""

    class Handler(BaseHTTPRequestHandler):
        def reply(self, status: int, body: dict) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.reply(200, {"data": [{"id": name} for name in models]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert body["model"] == "qwen"
            self.reply(status, answer)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def run(base: str) -> subprocess.CompletedProcess[str]:
    script = (CHART / "files" / "helm-test.py").read_text()
    return subprocess.run(
        [sys.executable, "-c", script, base, "qwen", "10"],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_passes_on_a_good_answer():
    with endpoint(["qwen"], 200, ANSWER) as base:
        done = run(base)
    assert done.returncode == 0, done.stderr
    assert "Hello." in done.stdout


def test_fails_with_the_reason():
    cut = ANSWER | {"choices": [ANSWER["choices"][0] | {"finish_reason": None}]}
    for models, status, answer, reason in (
        (["other"], 200, ANSWER, "qwen is not among them"),
        (["qwen"], 500, {"error": "engine is dead"}, "engine is dead"),
        (["qwen"], 200, cut, "finish_reason"),
        (["qwen"], 200, ANSWER | {"usage": {"prompt_tokens": 0, "completion_tokens": 3}}, "usage"),
    ):
        with endpoint(models, status, answer) as base:
            done = run(base)
        assert done.returncode == 1 and reason in done.stderr, done
        assert "Traceback" not in done.stderr


def test_calls_the_service_under_the_route_prefix(render):
    values = {"endpoint": {"routePrefix": "/qwen"}, "tests": {"timeoutSeconds": 60}}
    pod = render.one("Pod", values)
    base, model, patience = pod["spec"]["containers"][0]["command"][-3:]
    assert base == "http://llm-ray-pd-llm-serve-svc.inference.svc:8000/qwen/v1"
    assert (model, patience) == ("qwen3.5-9b", "60")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"


def test_can_be_left_out(render):
    assert render.kind("Pod", {"tests": {"enabled": False}}) == []
