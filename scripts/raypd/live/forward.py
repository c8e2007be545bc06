"""An HTTP client for a port of a pod, through the API server's port-forward.

Whoever may forward ports reaches the pod this way from anywhere: no Service, no Ingress and no
NetworkPolicy is in between. A connection of the client is one WebSocket to the API server, used as
the stream below httpcore: no local port is opened, and no thread runs that could stay behind.
"""

from __future__ import annotations

import json
import select
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpcore
import httpx
from kubernetes.stream.ws_client import get_websocket_url, websocket_proxycare
from websocket import (
    ABNF,
    WebSocket,
    WebSocketBadStatusException,
    WebSocketConnectionClosedException,
    WebSocketException,
    WebSocketTimeoutException,
)

from raypd.report import UsageError

if TYPE_CHECKING:
    from raypd.live.cluster import Cluster

SECONDS = 20  # to connect, and without a byte from the pod
_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1  # channels of the one port that a connection forwards
_LARGEST_FRAME = 64 * 1024


@contextmanager
def forward(
    cluster: Cluster, namespace: str, pod: str, port: int, seconds: float = SECONDS
) -> Iterator[httpx.Client]:
    """A client whose relative URLs go to `port` of `pod`.

    Each request makes a connection. That raises UsageError when the API server does not
    let the user forward ports or knows no such pod, and httpx.ConnectError when it cannot be
    reached or nothing listens on the port. `seconds` bounds each wait, not a whole request; give
    a request its own `timeout` where an answer takes longer.
    """
    with httpx.Client(
        transport=to_pod(cluster, namespace, pod),
        base_url=f"http://{pod}:{port}",
        timeout=seconds,
        trust_env=False,
    ) as client:
        yield client


def to_pod(cluster: Cluster, namespace: str, pod: str) -> httpx.BaseTransport:
    """What `forward` puts below its client: whatever host a URL names, its port is the pod's."""
    return _Transport(_Backend(cluster, namespace, pod))


class _Transport(httpx.BaseTransport):
    """httpx on a httpcore pool with a network of its own, which httpx's transports do not take."""

    def __init__(self, network: httpcore.NetworkBackend) -> None:
        # Each request has a connection of its own: NIXL's exporter ends them after an answer without
        # saying so, and a request that comes just before that would be lost.
        self._pool = httpcore.ConnectionPool(network_backend=network, max_keepalive_connections=0)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with _httpx_errors():
            answer = self._pool.handle_request(
                httpcore.Request(
                    request.method,
                    httpcore.URL(
                        scheme=request.url.raw_scheme,
                        host=request.url.raw_host,
                        port=request.url.port,
                        target=request.url.raw_path,
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(answer),
            extensions=answer.extensions,
        )

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        with _httpx_errors():
            yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


@contextmanager
def _httpx_errors() -> Iterator[None]:
    """httpcore's exceptions as httpx's, which have the same names."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise getattr(httpx, type(error).__name__)(str(error)) from error


class _Backend(httpcore.NetworkBackend):
    """Connects to a port of the pod; the host of a URL is not looked at."""

    def __init__(self, cluster: Cluster, namespace: str, pod: str) -> None:
        self._cluster, self._namespace, self._pod = cluster, namespace, pod

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        path = f"/api/v1/namespaces/{self._namespace}/pods/{self._pod}/portforward"
        return _Stream(self._open(path, port, timeout or SECONDS))

    def _open(self, path: str, port: int, seconds: float) -> WebSocket:
        api = self._cluster.api
        # The server wants the ports in the query; the client's own call puts them there as well.
        _, url, headers, *_ = api.param_serialize(
            "GET", path, query_params=[("ports", str(port))], auth_settings=["BearerToken"]
        )
        websocket = WebSocket(sslopt=_tls(api.configuration))
        options: dict[str, Any] = {
            "header": [f"{name}: {text}" for name, text in headers.items()],
            "subprotocols": [_PROTOCOL],
            "timeout": seconds,
        }
        if api.configuration.proxy or api.configuration.proxy_headers:
            options = websocket_proxycare(options, api.configuration, url, headers)
        try:
            websocket.connect(get_websocket_url(url), **options)
        except WebSocketBadStatusException as error:
            raise UsageError(self._refusal(port, error)) from error
        except (WebSocketTimeoutException, TimeoutError) as error:
            raise httpcore.ConnectTimeout(f"{self._where(port)}: {error}") from error
        except (WebSocketException, OSError) as error:
            raise httpcore.ConnectError(f"{self._where(port)}: {error}") from error
        return websocket

    def _where(self, port: int) -> str:
        return f"port-forward to port {port} of pod {self._namespace}/{self._pod}"

    def _refusal(self, port: int, error: WebSocketBadStatusException) -> str:
        body = (error.resp_body or b"").decode(errors="replace")
        try:
            said = json.loads(body)["message"]
        except (ValueError, KeyError, TypeError):
            said = body.strip() or "it does not say why"
        advice = (
            "Ask for the verbs get and create on pods/portforward in a Role, or take another user"
            " with --context."
            if error.status_code == 403
            else "`raypd status` shows which pods are there."
        )
        where = self._where(port)
        return f"The API server refuses the {where} (HTTP {error.status_code}): {said}. {advice}"


def _tls(configuration: Any) -> dict[str, Any]:
    """The kubeconfig's TLS settings in the WebSocket library's names."""
    options: dict[str, Any] = {
        "certfile": configuration.cert_file,
        "keyfile": configuration.key_file,
        "server_hostname": configuration.tls_server_name,
    }
    if configuration.verify_ssl:
        options |= {
            "cert_reqs": ssl.CERT_REQUIRED,
            "ca_certs": configuration.ssl_ca_cert,
            "check_hostname": configuration.assert_hostname,
        }
    else:
        options["cert_reqs"] = ssl.CERT_NONE
    return {name: value for name, value in options.items() if value is not None}


class _Stream(httpcore.NetworkStream):
    """Bytes to and from the pod: each binary frame begins with its channel's number.

    The first frame of each channel repeats the port's number. What comes on the error channel after
    it is why the connection to the pod's port has failed.
    """

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._received = b""
        self._begun: set[int] = set()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._received:
            if (payload := self._frame(deadline)) is None:
                return b""
            self._received = payload
        given, self._received = self._received[:max_bytes], self._received[max_bytes:]
        return given

    def _frame(self, deadline: float | None) -> bytes | None:
        """Data of the next frame, b"" for a frame without any, None at the end of the stream."""
        try:
            if deadline is not None:
                # The library answers pings by itself, so that time passes without data.
                self._websocket.settimeout(max(deadline - time.monotonic(), 0.001))
            opcode, frame = self._websocket.recv_data()
        except WebSocketConnectionClosedException:
            return None
        except (WebSocketTimeoutException, TimeoutError) as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except (WebSocketException, OSError) as error:
            raise httpcore.ReadError(str(error)) from error
        if opcode != ABNF.OPCODE_BINARY or not frame:
            return None
        channel, payload = frame[0], frame[1:]
        if channel not in self._begun:
            self._begun.add(channel)
            return b""
        if channel == _ERROR and payload:
            raise httpcore.ConnectError(payload.decode(errors="replace").strip())
        return payload if channel == _DATA else b""

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for begin in range(0, len(buffer), _LARGEST_FRAME):
            try:
                self._websocket.settimeout(timeout)
                frame = bytes([_DATA]) + buffer[begin : begin + _LARGEST_FRAME]
                self._websocket.send_binary(frame)
            except (WebSocketTimeoutException, TimeoutError) as error:
                raise httpcore.WriteTimeout(str(error)) from error
            except (WebSocketException, OSError) as error:
                raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        try:
            self._websocket.settimeout(1)
            self._websocket.send_close()
        except (WebSocketException, OSError):
            pass  # it has gone already
        finally:
            self._websocket.shutdown()  # does not wait for the server's good-bye

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # httpcore asks whether an idle connection has ended meanwhile
            sock = self._websocket.sock
            return sock is None or bool(select.select([sock], [], [], 0)[0])
        return None
