"""A bounded stream of chat requests whose right answers are known, and what became of each.

Answers at temperature 0 are the same every time, so that a wrong one is found by comparing: those to
`PROMPTS` with what was answered before anything was broken, those to prompts that no cache has seen
with what the mended service answers to the same prompt.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
from openai import OpenAI
from openai.types.chat import ChatCompletion

PROMPTS = ("Hello.", "What is a cache?", "Count from one to five.", "Name a colour.")
UNSEEN_EVERY = 4  # one request in so many has a prompt of its own
MAX_TOKENS = 16
# Between the starts of two requests. More requests would take the machine from what has to restart.
PAUSE_SECONDS = 2.0
DEADLINE_SECONDS = 30.0  # an answer that takes longer counts as none
MAX_REQUESTS = 1000
IN_FLIGHT = 48  # more than are started within the deadline
OK, ERROR, WRONG, HUNG = "ok", "error", "wrong", "hung"


@dataclass
class Sent:
    """One request: when it was sent (monotonic seconds), how long it took, what became of it (one of
    OK, ERROR, WRONG, HUNG) and what the client saw; `text` is the answer's, if there was one."""

    prompt: str
    at: float
    seconds: float = 0.0
    outcome: str = ""
    seen: str = ""
    text: str | None = None


@dataclass
class Endpoint:
    """An OpenAI-compatible endpoint at `url` (up to and without /v1) that serves `model`."""

    url: str
    model: str
    right: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # No connection is used twice: each request comes as from a client of its own.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx.Client(base_url=self.url, limits=limits, trust_env=False)

    def learn(self) -> None:
        """Records the right answers to PROMPTS; fails unless each comes twice, and not empty."""
        for prompt in PROMPTS:
            first, second = self.ask(prompt), self.ask(prompt)
            assert first.text, f"no answer to {prompt!r}: {first.seen}"
            assert first.text == second.text, f"two answers to {prompt!r}: {first}, {second}"
            self.right[prompt] = first.text

    def chat(self, prompt: str) -> ChatCompletion:
        """One answer as the official client gives it."""
        client = OpenAI(base_url=f"{self.url}/v1", api_key="unused", timeout=120, max_retries=0)
        messages = [{"role": "user", "content": prompt}]
        return client.chat.completions.create(
            model=self.model, messages=messages, max_tokens=MAX_TOKENS, temperature=0
        )

    def ask(self, prompt: str, seconds: float = DEADLINE_SECONDS) -> Sent:
        """One request, judged as far as its right answer is known."""
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": MAX_TOKENS,
            "temperature": 0,
        }
        sent = Sent(prompt, time.monotonic())
        try:
            answer = self._client.post("/v1/chat/completions", json=body, timeout=seconds)
        except httpx.TimeoutException as error:
            sent.outcome, sent.seen = HUNG, type(error).__name__
        except httpx.TransportError as error:
            sent.outcome, sent.seen = ERROR, f"connection: {type(error).__name__}"
        else:
            self._judge(sent, answer)
        sent.seconds = time.monotonic() - sent.at
        return sent

    def _judge(self, sent: Sent, answer: httpx.Response) -> None:
        if answer.status_code >= 400:
            sent.outcome, sent.seen = ERROR, f"HTTP {answer.status_code}"
            return
        try:
            choice = answer.json()["choices"][0]
            sent.text = choice["message"]["content"]
        except (ValueError, LookupError, TypeError):
            sent.outcome, sent.seen = WRONG, f"HTTP {answer.status_code}: {answer.text[:200]}"
            return
        sent.seen = f"{choice.get('finish_reason')}: {sent.text!r}"
        self.compare(sent)

    def compare(self, sent: Sent) -> None:
        """Judges an answer by the right one; without one any answer is taken that is not empty."""
        right = self.right.get(sent.prompt, sent.text)
        sent.outcome = OK if sent.text and sent.text == right else WRONG


class Stream:
    """Requests at a steady pace, however long each takes, until it is stopped or reaches its limit."""

    def __init__(self, endpoint: Endpoint, pause: float) -> None:
        self.endpoint = endpoint
        self.pause = pause
        self.sent: list[Sent] = []
        self._lock = threading.Lock()
        self._ending = threading.Event()

    def run(self) -> None:
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            for number in range(MAX_REQUESTS):
                if self._ending.wait(self.pause):
                    return
                pool.submit(self._send, _prompt(number))

    def stop(self) -> None:
        self._ending.set()

    def in_a_row(self, since: float) -> int:
        """How many answers were right at the end of what was sent after `since` (monotonic)."""
        row = 0
        for sent in reversed(self._after(since)):
            if sent.outcome != OK:
                break
            row += 1
        return row

    def recovery_seconds(self, since: float) -> float:
        """From `since` to the first right answer after the last trouble; 0 when there was none.

        A refusal shows trouble when it arrives, silence from when the request was sent.
        """
        everything = self._after(0)
        bad = [s for s in everything if s.outcome != OK and s.at + s.seconds >= since]
        if not bad:
            return 0.0
        last = max(s.at if s.outcome == HUNG else s.at + s.seconds for s in bad)
        sent = max((s.at for s in bad if s.outcome == HUNG), default=0.0)
        back = (s for s in everything if s.outcome == OK and s.at > sent)
        return min(s.at + s.seconds for s in back if s.at + s.seconds > last) - since

    def counts(self) -> Counter[str]:
        return Counter(sent.outcome for sent in self.sent)

    def seen(self) -> dict[str, int]:
        """What clients saw of the requests that were not answered rightly, and how often."""
        return dict(Counter(sent.seen for sent in self.sent if sent.outcome != OK))

    def judge_unseen(self) -> None:
        """Asks again what had no known answer, and judges what was answered then."""
        for sent in self.sent:
            if sent.prompt not in self.endpoint.right and sent.text is not None:
                again = self.endpoint.ask(sent.prompt)
                assert again.text, f"no answer after the recovery: {again}"
                sent.outcome = OK if sent.text == again.text else WRONG
                sent.seen += f", then {again.text!r}"

    def _send(self, prompt: str) -> None:
        sent = self.endpoint.ask(prompt)
        with self._lock:
            self.sent.append(sent)

    def _after(self, since: float) -> list[Sent]:
        with self._lock:
            return sorted((s for s in self.sent if s.at >= since), key=lambda s: s.at)


@contextmanager
def streaming(endpoint: Endpoint, pause: float = PAUSE_SECONDS) -> Iterator[Stream]:
    """A stream that runs beside the body, and is at its end after it; `pause` is in seconds."""
    stream = Stream(endpoint, pause)
    thread = threading.Thread(target=stream.run, daemon=True)
    thread.start()
    try:
        yield stream
    finally:
        stream.stop()
        thread.join(DEADLINE_SECONDS + 10)


def _prompt(number: int) -> str:
    if number % UNSEEN_EVERY == UNSEEN_EVERY - 1:
        return f"{uuid.uuid4().hex[:12]} is new. What is it?"
    return PROMPTS[number % len(PROMPTS)]
