"""One request as several.

With prefill and decode apart an engine that decodes pulls the KV of a prompt once, and prefill lets go of it
then. A request for several choices, or with several prompts, becomes several reads of what one read frees
(vLLM 0.26, distributed/kv_transfer/kv_connector/v1/nixl: one notification of a reader ends the lease; and
entrypoints/openai/completion/serving.py tells the blocks of the first prompt alone). So each choice is asked
for by itself, and the answers are put together again.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

from .body import prompts
from .stream import DONE, events
from .upstream import Answer, Application, Scope, ask


def several(body: dict[str, Any]) -> bool:
    """True for a request with more than one choice in its answer."""
    return (body.get("n") or 1) * prompts(body) > 1


@asynccontextmanager
async def ask_each(
    application: Application, scope: Scope, body: dict[str, Any]
) -> AsyncIterator[Answer]:
    """One answer to all of `body`'s choices; the first refusal where there is one."""
    bodies = list(_each(body))
    async with AsyncExitStack() as stack:
        entered = [stack.enter_async_context(ask(application, scope, each)) for each in bodies]
        answers = await _all(entered)
        for answer in answers:
            if answer.status != 200:
                yield answer
                return
        merged = _Merged(body, len(bodies))
        if body.get("stream"):
            async with aclosing(merged.stream(answers)) as parts:
                yield Answer(200, answers[0].content_type, parts)
        else:
            yield Answer(200, answers[0].content_type, merged.whole(answers))


async def _all(waits: list[Any]) -> list[Any]:
    """The results of all, or the first error once none of them runs any more."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _each(body: dict[str, Any]) -> Any:
    texts = body["prompt"] if prompts(body) > 1 else [body.get("prompt")]
    for text in texts:
        for number in range(body.get("n") or 1):
            one = {**body, "n": 1, "request_id": uuid.uuid4().hex}
            if text is not None:
                one["prompt"] = text
            if body.get("seed") is not None:
                # As an engine does for several choices; with one seed all would be the same.
                one["seed"] = body["seed"] + number
            yield one


class _Merged:
    """Answers put together. Usage is summed, but a prompt is counted once however many choices it has."""

    def __init__(self, body: dict[str, Any], choices: int) -> None:
        self._per_prompt = body.get("n") or 1
        self._usages: list[dict[str, Any]] = [{} for _ in range(choices)]
        self._head: dict[str, Any] = {}

    @property
    def _usage(self) -> dict[str, Any]:
        # A prompt of several choices is read once; what the others find in the cache is its own doing.
        prompt = sum(u.get("prompt_tokens") or 0 for u in self._usages[:: self._per_prompt])
        completion = sum(u.get("completion_tokens") or 0 for u in self._usages)
        usage = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
        }
        found = [u.get("prompt_tokens_details") for u in self._usages[:: self._per_prompt]]
        if details := [each for each in found if each]:
            cached = sum(each.get("cached_tokens") or 0 for each in details)
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        return usage

    async def whole(self, answers: list[Answer]) -> AsyncIterator[bytes]:
        bodies = [json.loads(each) for each in await _all([a.content() for a in answers])]
        choices = []
        for number, body in enumerate(bodies):
            self._usages[number] = body.get("usage") or {}
            choices += [{**choice, "index": number} for choice in body["choices"]]
        yield json.dumps({**bodies[0], "choices": choices, "usage": self._usage}).encode()

    async def stream(self, answers: list[Answer]) -> AsyncGenerator[bytes, None]:
        queue: asyncio.Queue[tuple[int, bytes] | Exception | None] = asyncio.Queue(len(answers))

        async def read(number: int, answer: Answer) -> None:
            try:
                async for some in events(answer.parts):
                    for event in some:
                        if event != DONE:
                            await queue.put((number, event))
                await queue.put(None)
            except Exception as error:
                await queue.put(error)

        readers = [asyncio.create_task(read(*each)) for each in enumerate(answers)]
        try:
            open_streams = len(readers)
            while open_streams:
                found = await queue.get()
                if isinstance(found, Exception):
                    raise found
                if found is None:
                    open_streams -= 1
                elif event := self._event(*found):
                    yield event + b"\n\n"
            last = {**self._head, "choices": [], "usage": self._usage}
            yield b"data: " + json.dumps(last).encode() + b"\n\n" + DONE + b"\n\n"
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)

    def _event(self, number: int, event: bytes) -> bytes | None:
        """An event of one answer as one of all, under the first answer's id; None for its last usage."""
        if not event.startswith(b"data:"):
            return None
        body = json.loads(event[len(b"data:") :])
        if "choices" not in body:
            return event
        self._usages[number] = body.get("usage") or self._usages[number]
        if not self._head:
            self._head = {k: v for k, v in body.items() if k not in ("choices", "usage", "metrics")}
        if not body["choices"]:
            return None
        choices = [{**choice, "index": number} for choice in body["choices"]]
        merged = {**body, **self._head, "choices": choices, "usage": self._usage}
        return b"data: " + json.dumps(merged).encode()
