"""The client of a pod's port, against a server that speaks the port-forward protocol of Kubernetes
over real WebSockets and hands the bytes to a real HTTP server: the pod."""

from __future__ import annotations

import base64
import hashlib
import json
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from kubernetes import client
from openai import OpenAI
from websocket import ABNF, WebSocket, WebSocketException

from raypd.live.forward import forward
from raypd.report import UsageError

BIG = 3_000_000
ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}
    ],
}


class Pod(BaseHTTPRequestHandler):
    """What listens in the pod."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(1)
        self._send(b"x" * BIG if self.path == "/big" else self.path.encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/chat/completions"):
            self._send(json.dumps(ANSWER).encode(), "application/json")
        else:
            self._send(hashlib.sha256(body).hexdigest().encode())

    def _send(self, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class ApiServer(BaseHTTPRequestHandler):
    """The API server's part of a port-forward; what it saw is kept in the server's lists."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.server.seen.append((url.path, self.headers["Authorization"]))
        if "/pods/forbidden/" in url.path:
            message = 'pods "forbidden" is forbidden: User "x" cannot create pods/portforward'
            body = json.dumps({"kind": "Status", "message": message}).encode()
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        if "/pods/silent/" in url.path:
            time.sleep(1)
            return
        assert "v4.channel.k8s.io" in self.headers["Sec-WebSocket-Protocol"]
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_header("Sec-WebSocket-Accept", accept)
        self.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
        self.end_headers()
        self.wfile.flush()
        (port,) = parse_qs(url.query)["ports"]
        self.close_connection = True
        self.server.ended.append(_relay(self.connection, int(port)))

    def log_message(self, *_: object) -> None:
        pass


def _relay(connection: socket.socket, port: int) -> str:
    """Plays the kubelet; returns which side ended it."""
    peer = WebSocket()
    peer.sock, peer.connected = connection, True
    for channel in (0, 1):
        peer.send_binary(bytes([channel]) + struct.pack("<H", port))
    try:
        pod = socket.create_connection(("127.0.0.1", port), timeout=5)
    except OSError as error:
        peer.send_binary(b"\x01error forwarding port: " + str(error).encode())
        return "pod"
    try:
        with pod:
            return _pump(peer, pod)
    except (WebSocketException, OSError):
        return "client"


def _pump(peer: WebSocket, pod: socket.socket) -> str:
    while True:
        readable, _, _ = select.select([peer.sock, pod], [], [], 10)
        if peer.sock in readable:
            opcode, frame = peer.recv_data(control_frame=True)
            if opcode == ABNF.OPCODE_CLOSE:
                return "client"
            if opcode == ABNF.OPCODE_BINARY:
                pod.sendall(frame[1:])
        if pod in readable:
            data = pod.recv(30_000)
            if not data:
                peer.send_close()
                return "pod"
            peer.ping()  # as load balancers make servers do
            peer.send_binary(b"\x00" + data)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.seen: list[tuple[str, str]] = []
        self.ended: list[str] = []

    def handle_error(self, *_: object) -> None:
        """A client that goes away in the middle is what some tests are about."""


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[Server]:
    server = Server(handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def pod() -> Iterator[int]:
    with _serving(Pod) as server:
        yield server.server_port


@pytest.fixture
def server() -> Iterator[Server]:
    with _serving(ApiServer) as server:
        yield server


@pytest.fixture
def cluster(server: Server) -> SimpleNamespace:
    return _cluster(f"http://127.0.0.1:{server.server_port}")


def _cluster(host: str) -> SimpleNamespace:
    configuration = client.Configuration(host=host, api_key={"BearerToken": "Bearer secret"})
    return SimpleNamespace(api=client.ApiClient(configuration))


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def _ended(server: Server, count: int) -> list[str]:
    deadline = time.monotonic() + 5
    while len(server.ended) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    return server.ended


def test_each_request_reaches_the_pod_over_a_connection_that_is_closed(cluster, server, pod):
    with forward(cluster, "inference", "engine-0", pod) as http:
        assert http.get("/metrics").text == "/metrics"
        assert http.get("/other?a=b").text == "/other?a=b"
    path = "/api/v1/namespaces/inference/pods/engine-0/portforward"
    assert server.seen == [(path, "Bearer secret")] * 2
    assert _ended(server, 2) == ["client"] * 2


class Curt(Pod):
    """Ends its connections a moment after an answer without saying so, as NIXL's exporter does."""

    def do_GET(self) -> None:
        super().do_GET()
        self.close_connection = True
        time.sleep(0.05)


def test_a_pod_that_ends_its_connections_without_a_word(cluster):
    with _serving(Curt) as pod, forward(cluster, "inference", "engine-0", pod.server_port) as http:
        assert [http.get(f"/{i}").text for i in range(5)] == [f"/{i}" for i in range(5)]


def test_large_bodies_both_ways(cluster, pod):
    body = bytes(range(256)) * 4000
    with forward(cluster, "inference", "engine-0", pod) as http:
        assert http.get("/big").content == b"x" * BIG
        assert http.post("/hash", content=body).text == hashlib.sha256(body).hexdigest()


def test_concurrent_requests_have_connections_of_their_own(cluster, server, pod):
    with forward(cluster, "inference", "engine-0", pod) as http:
        texts: list[str] = []
        threads = [
            threading.Thread(target=lambda n=n: texts.append(http.get(f"/{n}").text))
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(texts) == ["/0", "/1", "/2", "/3"]
    assert set(_ended(server, len(server.seen))) == {"client"}


def test_the_openai_client_takes_it(cluster, pod):
    with forward(cluster, "inference", "engine-0", pod) as http:
        openai = OpenAI(
            base_url=http.base_url.join("/v1"), api_key="unused", http_client=http, max_retries=0
        )
        messages = [{"role": "user", "content": "Hello."}]
        answer = openai.chat.completions.create(model="m", messages=messages)
    assert answer.choices[0].message.content == "hello"


def test_an_answer_that_is_not_read_leaves_nothing_open(cluster, server, pod):
    with (
        forward(cluster, "inference", "engine-0", pod) as http,
        http.stream("GET", "/big") as answer,
    ):
        assert answer.status_code == 200
    assert _ended(server, 1) == ["client"]


def test_nothing_listens_in_the_pod(cluster):
    with (
        forward(cluster, "inference", "engine-0", _free_port()) as http,
        pytest.raises(httpx.ConnectError, match="error forwarding port"),
    ):
        http.get("/")


def test_a_pod_that_does_not_answer_in_time(cluster, server, pod):
    with forward(cluster, "inference", "engine-0", pod, seconds=0.3) as http:
        begin = time.monotonic()
        with pytest.raises(httpx.ReadTimeout):
            http.get("/slow")
        assert time.monotonic() - begin < 2
        assert http.get("/fast").text == "/fast"
    assert len(server.seen) == 2  # a connection that timed out is not used again


def test_a_server_that_does_not_answer_in_time(cluster):
    with (
        forward(cluster, "inference", "silent", 80, seconds=0.3) as http,
        pytest.raises(httpx.ConnectTimeout, match=r"port 80 of pod inference/silent"),
    ):
        http.get("/")


def test_a_server_that_is_not_there():
    with (
        forward(_cluster(f"http://127.0.0.1:{_free_port()}"), "inference", "a", 80) as http,
        pytest.raises(httpx.ConnectError, match=r"inference/a"),
    ):
        http.get("/")


def test_a_refusal_says_what_to_ask_for(cluster):
    with (
        forward(cluster, "inference", "forbidden", 80) as http,
        pytest.raises(UsageError, match=r"cannot create pods/portforward.*Ask for the verbs"),
    ):
        http.get("/")


def test_no_thread_is_left(cluster, pod):
    before = threading.active_count()
    with forward(cluster, "inference", "engine-0", pod) as http:
        http.get("/")
        ours = [t for t in threading.enumerate() if "forward" in t.name]
        assert ours == []
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threading.active_count() <= before  # the servers' own threads, gone with the connection
