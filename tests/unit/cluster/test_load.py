"""The stream of requests tells right answers from wrong ones, refusals and silence."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cluster.load import ERROR, HUNG, OK, PROMPTS, WRONG, Endpoint, streaming

SILENT_SECONDS = 1.5


class Service(ThreadingHTTPServer):
    """An endpoint whose answer to a prompt is the prompt's own length, until `breaks` is set."""

    breaks = ""
    request_queue_size = 64  # a burst is not refused

    def answer(self, prompt: str) -> str:
        return f"{len(prompt)} letters"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][0]["content"]
        how = self.server.breaks
        if how == "silent":
            time.sleep(SILENT_SECONDS)
        if how == "cut":
            return  # the connection ends without an answer
        content = "" if how == "empty" else self.server.answer(prompt)
        if how == "lies" or (how == "lies to new prompts" and prompt not in PROMPTS):
            content = "something else"
        answer = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
        self._send(
            500 if how == "fails" else 200, "no JSON" if how == "odd" else json.dumps(answer)
        )

    def _send(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *words: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=service.serve_forever, args=(0.05,))
    thread.start()
    yield service
    service.shutdown()
    thread.join()
    service.server_close()


@pytest.fixture
def endpoint(service: Service) -> Endpoint:
    endpoint = Endpoint(f"http://127.0.0.1:{service.server_address[1]}", "m")
    endpoint.learn()
    return endpoint


def test_a_right_answer_is_ok(endpoint):
    assert endpoint.right["Hello."] == "6 letters"
    assert endpoint.ask("Hello.").outcome == OK


@pytest.mark.parametrize("how", ["lies", "empty", "odd"])
def test_any_other_answer_is_wrong(service, endpoint, how):
    service.breaks = how
    assert endpoint.ask("Hello.").outcome == WRONG


@pytest.mark.parametrize(
    ("how", "seen"), [("fails", "HTTP 500"), ("cut", "connection: RemoteProtocolError")]
)
def test_a_refusal_is_an_error_and_says_which(service, endpoint, how, seen):
    service.breaks = how
    sent = endpoint.ask("Hello.")
    assert (sent.outcome, sent.seen) == (ERROR, seen)


def test_silence_is_told_from_a_refusal(service, endpoint):
    service.breaks = "silent"
    assert endpoint.ask("Hello.", seconds=0.3).outcome == HUNG


def test_nothing_is_learned_from_a_service_that_is_broken(service):
    service.breaks = "fails"
    with pytest.raises(AssertionError, match="HTTP 500"):
        Endpoint(f"http://127.0.0.1:{service.server_address[1]}", "m").learn()


def _until(condition) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_recovery_is_counted_from_the_fault_to_the_first_answer_that_stays(service, endpoint):
    with streaming(endpoint, 0.02) as stream:
        _until(lambda: len(stream.sent) >= 5)
        since = time.monotonic()
        service.breaks = "fails"
        _until(lambda: stream.counts()[ERROR] >= 5)
        mended = time.monotonic()
        assert stream.in_a_row(mended) == 0
        service.breaks = ""
        _until(lambda: stream.in_a_row(mended) >= 3)
    assert stream.recovery_seconds(since) > mended - since - 0.1
    assert stream.recovery_seconds(time.monotonic()) == 0
    assert stream.seen() == {"HTTP 500": stream.counts()[ERROR]}
    assert stream.counts()[OK] + stream.counts()[ERROR] == len(stream.sent)


def test_a_wrong_answer_to_a_new_prompt_is_found_afterwards(service, endpoint):
    service.breaks = "lies to new prompts"
    with streaming(endpoint, 0.02) as stream:
        _until(lambda: len(stream.sent) >= 8)
    assert stream.counts()[WRONG] == 0
    service.breaks = ""
    stream.judge_unseen()
    assert stream.counts()[WRONG] >= 2
