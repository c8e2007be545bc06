"""The endpoint under requests that nobody would write, over sockets: Ray's proxy, the guard, and engines behind it.

tests/unit/endpoint_guard/test_fuzz.py does the same to the guard alone, many times as often. `--slow` sends more;
`-s` prints what was sent, and how it was answered.
"""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from typing import Any

import httpx
import psutil
import pytest
from hypothesis import HealthCheck, given, settings

from local.test_guard import KEYS, ask
from raypd.local import web
from raypd.local.state import State
from unit.endpoint_guard.calls import well_formed
from unit.endpoint_guard.engine import MODEL
from unit.endpoint_guard.test_fuzz import REQUESTS, mangled

SECONDS = 60.0  # within which any request is answered, with engines on two cores that are busy
GROWTH_MIB = 64  # of each process on the way, an engine's memory for a body among it
ANSWER_TOKENS = 4
KEY = {"authorization": f"Bearer {KEYS['alice']}"}
INSIDE = ("Traceback", "site-packages", "/opt/ray-pd-llm", "ray::", 'File "')
ON_THE_WAY = ("ray::ServeReplica:", "ray::ProxyActor", "ray::HAProxyManager", "/haproxy ")


class Seen:
    """What was sent and answered."""

    def __init__(self, run: State) -> None:
        self.run = run
        self.statuses: Counter[str] = Counter()
        self.slowest = 0.0

    def judge(self, status: int, content: bytes, began: float) -> None:
        took = time.perf_counter() - began
        self.slowest = max(self.slowest, took)
        self.statuses[str(status)] += 1
        assert took < SECONDS
        assert status == 200 or 400 <= status < 500, (status, content)
        text = content.decode("utf-8", "replace")
        assert not [word for word in INSIDE if word in text], text

    def post(self, path: str, content: bytes) -> None:
        began = time.perf_counter()
        headers = {**KEY, "content-type": "application/json"}
        url = self.run.endpoint.removesuffix("/v1") + path
        answer = web.client().post(url, content=content, headers=headers, timeout=SECONDS)
        try:
            self.judge(answer.status_code, answer.content, began)
            if answer.status_code != 200:
                well_formed(answer.json()["error"])
        except AssertionError as error:
            error.add_note(f"sent to {path}: {content!r}")
            raise

    def send_tricks(self) -> None:
        for name, parts in TRICKS.items():
            try:
                self._send(parts)
            except (AssertionError, OSError) as error:
                error.add_note(f"sent: {name}")
                raise

    def _send(self, parts: list[bytes]) -> None:
        """Bytes as they are; whoever cannot read them may also hang up."""
        began = time.perf_counter()
        address = httpx.URL(self.run.endpoint)
        with socket.create_connection((address.host, address.port), SECONDS) as connection:
            try:
                for part in parts:
                    connection.sendall(part)
                answer = http_answer(connection)
            except (BrokenPipeError, ConnectionResetError):
                answer = b""
        if not answer:
            self.statuses["hung up on"] += 1
            assert time.perf_counter() - began < SECONDS
            return
        self.judge(int(answer.split(b" ", 2)[1]), answer, began)

    def memory(self) -> dict[int, float]:
        """MiB of each process that a request passes."""
        found = {}
        for process in self.run.processes():
            if any(name in f"{' '.join(process.cmdline())} " for name in ON_THE_WAY):
                found[process.pid] = psutil.Process(process.pid).memory_info().rss / 2**20
        return found

    def __str__(self) -> str:
        counts = ", ".join(f"{n} x {status}" for status, n in sorted(self.statuses.items()))
        return f"{self.statuses.total()} requests: {counts}; the slowest took {self.slowest:.2f} s"


def http_answer(connection: socket.socket) -> bytes:
    """An answer's head and the beginning of its body; empty when the other side hangs up."""
    content = b""
    while b"\r\n\r\n" not in content:
        some = connection.recv(65536)
        if not some:
            return b""
        content += some
    return content


def short(content: Any, model: str) -> Any:
    """The same request for the model that is there and few tokens, as real ones take their time."""
    if isinstance(content, dict):
        content = {"max_tokens": None, **content}
        for name in {"max_tokens", "max_completion_tokens"} & content.keys():
            asked = ANSWER_TOKENS if content[name] is None else content[name]
            content[name] = min(asked, ANSWER_TOKENS) if type(asked) is int else asked
        if content.get("model") == MODEL:
            content["model"] = model
    return content


HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: endpoint\r\nContent-Type: application/json\r\n"
    + (f"Authorization: {KEY['authorization']}\r\n".encode())
)
HELLO = json.dumps(
    {"messages": [{"role": "user", "content": "hello"}], "max_tokens": ANSWER_TOKENS}
).encode()
LENGTH = f"Content-Length: {len(HELLO)}\r\n".encode()


def written(*headers: bytes, body: bytes = HELLO) -> bytes:
    return HEAD + b"".join(headers) + b"\r\n" + body


def sized(body: bytes) -> bytes:
    return written(f"Content-Length: {len(body)}\r\n".encode(), body=body)


TRICKS = {
    "as it should be": [written(LENGTH)],
    "in many pieces": [bytes([each]) for each in written(LENGTH)],
    "broken UTF-8": [sized(HELLO.replace(b"hello", b"\xff\xc0\xaf"))],
    "half of a surrogate pair": [sized(HELLO.replace(b"hello", rb"\ud800"))],
    "UTF-16": [sized(HELLO.decode().encode("utf-16"))],
    "nested a hundred thousand deep": [sized(b"[" * 100_000)],
    "a number without end": [sized(HELLO.replace(b": 4", b": " + b"9" * 100_000))],
    "a key twice": [sized(HELLO[:-1] + b', "max_tokens": 2}')],
    "no length": [written()],
    "a negative length": [written(b"Content-Length: -1\r\n")],
    "a length of ten gigabytes": [written(b"Content-Length: 10000000000\r\n")],
    "two lengths": [written(LENGTH, b"Content-Length: 5\r\n")],
    "a length and chunks": [written(LENGTH, b"Transfer-Encoding: chunked\r\n", body=b"0\r\n\r\n")],
    "chunks": [
        written(b"Transfer-Encoding: chunked\r\n", body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(HELLO), HELLO))
    ],
    "a chunk of no number": [written(b"Transfer-Encoding: chunked\r\n", body=b"zz\r\nhello\r\n")],
    "compressed, it says": [written(LENGTH, b"Content-Encoding: gzip\r\n")],
    "a header of 70 kB": [written(LENGTH, b"X-Long: " + b"x" * 70_000 + b"\r\n")],
    "a thousand headers": [written(LENGTH, *[b"X-%d: y\r\n" % n for n in range(1000)])],
    "a null byte in a header": [written(LENGTH, b"X-Null: \0\r\n")],
    "a header over two lines": [written(LENGTH, b"X-Two: a\r\n b\r\n")],
    "a request id of its own": [written(LENGTH, b"X-Request-Id: a b\tc\r\n")],
    "two keys": [written(LENGTH, b"Authorization: Bearer another\r\n")],
    "another replica's model": [written(LENGTH, b"serve_multiplexed_model_id: ../x\r\n")],
    "a whole address": [written(LENGTH).replace(b"/v1", b"http://other.example/v1", 1)],
    "a method of its own": [written(LENGTH).replace(b"POST", b"BREW", 1)],
    "HTTP/0.9": [b"GET /v1/models\r\n\r\n"],
    "HTTP/2, and no frames": [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"x" * 100],
    "TLS": [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 300 + b"\r\n\r\n"],
    "no HTTP at all": [b"\0" * 10_000 + b"\r\n\r\n"],
}  # fmt: skip


def endure(run: State, slow: bool) -> None:
    """Sends everything, and made requests of each kind: a few, always the same, or a thousand (`--slow`). What is left
    must be as before."""
    seen = Seen(run)
    every = settings(
        max_examples=1000 if slow else 40,
        derandomize=not slow,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    @every
    @given(REQUESTS)
    def out_of_the_description(case: Any) -> None:
        sent = case.as_transport_kwargs(base_url="http://endpoint")
        if sent["method"] != "POST":
            return
        content = sent.get("data") or b""
        if "json" in sent:
            content = json.dumps(short(sent["json"], run.model_id)).encode()
        seen.post(sent["url"].removeprefix("http://endpoint"), content)

    @every
    @given(mangled())
    def nearly_right(content: bytes) -> None:
        content = content.replace(MODEL.encode(), run.model_id.encode())
        seen.post("/v1/chat/completions", content.replace(b"{", b'{"max_tokens": 4, ', 1))

    seen.send_tricks()
    before = seen.memory()
    assert before
    out_of_the_description()
    nearly_right()
    seen.send_tricks()
    after = seen.memory()
    assert after.keys() == before.keys(), "nothing on the way has begun anew"
    growth = {pid: after[pid] - before[pid] for pid in before}
    print(f"\n{seen}; MiB more in each process: {', '.join(f'{g:.0f}' for g in growth.values())}")
    assert max(growth.values()) < GROWTH_MIB
    assert seen.statuses["200"] > 0
    assert seen.statuses["400"] > 0
    assert ask(run).status_code == 200


def test_nothing_fails_hangs_or_grows(disaggregated: State, pytestconfig: pytest.Config) -> None:
    endure(disaggregated, pytestconfig.getoption("--slow"))
