"""What stands for a model behind the stub: words that follow from the prompt, in the form asked for."""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

CONTEXT = 400
WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "prefill",
    "reads",
    "and",
    "decode",
    "writes",
]


@dataclass
class Generated:
    """One choice: its tokens as bytes, its text, and how it ends."""

    tokens: list[bytes]
    text: str
    finish: str
    calls: list[Json] = field(default_factory=list)


class StubModel:
    """Tokens of prompts and answers. `body` is a request's."""

    def __init__(self) -> None:
        self.number = 0
        self.lock = threading.Lock()

    def prompt(self, messages: list[Json]) -> list[str]:
        """Tokens of a prompt: words and marks, each byte of other characters, four for a message."""
        tokens: list[str] = []
        for message in messages:
            content = message.get("content") or ""
            if isinstance(content, list):
                content = "".join(part["text"] for part in content)
            tokens += ["<", message["role"], *tokenized(content), ">"]
        return tokens

    def schema(self, body: Json) -> Json | None:
        form = body.get("response_format") or {}
        return form["json_schema"]["schema"] if form.get("type") == "json_schema" else None

    def allowed(self, body: Json) -> int | None:
        return body.get("max_completion_tokens") or body.get("max_tokens")

    def generate(self, body: Json, prompt: list[str], index: int) -> Generated:
        random_ = self.random(body, prompt, index)
        calls: list[Json] = []
        if (name := self.tool(body)) is not None:
            arguments = json.dumps(self.instance(body["tools"][0]["function"]["parameters"]))
            function = {"name": name, "arguments": arguments}
            calls = [{"id": f"call_{self.next()}", "type": "function", "function": function}]
            return Generated([arguments.encode()], "", "tool_calls", calls)
        if (form := self.form(body)) is not None:
            tokens = _bytes(json.dumps(form, ensure_ascii=False))
        else:
            tokens = self.said(body, random_)
        return self.cut(body, prompt, tokens)

    def random(self, body: Json, prompt: list[str], index: int) -> random.Random:
        """Greedy answers follow from the prompt, seeded ones from the seed, too."""
        seed: Any = 0
        if body.get("temperature", 1) != 0:
            seed = body.get("seed")
            seed = random.random() if seed is None else seed
        return random.Random(f"{prompt} {seed} {index}")

    def said(self, body: Json, random_: random.Random) -> list[bytes]:
        banned = {int(token) for token in body.get("logit_bias") or {}}
        length = random_.randrange(48, 64)
        words = [w for w in WORDS if self.id_of(f" {w}".encode()) not in banned]
        return [f" {random_.choice(words)}".encode() for _ in range(length)]

    def cut(self, body: Json, prompt: list[str], tokens: list[bytes]) -> Generated:
        """Ends the answer at a stop string, at its length, or by itself."""
        stops = body.get("stop") or []
        stops = [stops] if isinstance(stops, str) else stops
        room = min(self.allowed(body) or CONTEXT, CONTEXT - len(prompt))
        fewest = body.get("min_tokens") or 0
        kept: list[bytes] = []
        for token in tokens:
            kept.append(token)
            text = b"".join(kept).decode(errors="ignore")
            met = [at for stop in stops if (at := text.find(stop)) >= 0]
            if met and len(kept) >= fewest:
                return Generated(kept, text[: min(met)], "stop")
            if len(kept) == room:
                return Generated(kept, text, "length")
        return Generated([*kept, b""], b"".join(kept).decode(), "stop")

    def form(self, body: Json) -> Any:
        schema = self.schema(body)
        if schema is not None:
            return self.instance(schema)
        return (
            {"a": 1} if (body.get("response_format") or {}).get("type") == "json_object" else None
        )

    def instance(self, schema: Json) -> Any:
        if "enum" in schema:
            return schema["enum"][0]
        if schema.get("type") == "boolean":
            return True
        return {name: self.instance(inner) for name, inner in schema["properties"].items()}

    def tool(self, body: Json) -> str | None:
        """The tool that is called."""
        choice = body.get("tool_choice", "auto")
        return (
            body["tools"][0]["function"]["name"] if body.get("tools") and choice != "none" else None
        )

    def usage(self, prompt: list[str], choices: list[Generated]) -> Json:
        written = sum(len(choice.tokens) for choice in choices)
        return {
            "prompt_tokens": len(prompt),
            "completion_tokens": written,
            "total_tokens": len(prompt) + written,
        }

    def next(self) -> int:
        with self.lock:
            self.number += 1
            return self.number

    def id_of(self, token: bytes) -> int:
        return int.from_bytes(hashlib.sha256(token).digest()[:3], "big")

    def logprobs(self, body: Json, tokens: list[bytes]) -> Json | None:
        if not body.get("logprobs"):
            return None
        return {"content": [self.logprob(token, body.get("top_logprobs") or 0) for token in tokens]}

    def logprob(self, token: bytes, top: int) -> Json:
        def entry(text: bytes, value: float) -> Json:
            return {
                "token": text.decode(errors="replace"),
                "logprob": value,
                "bytes": list(text),
            }

        others = [entry(f" {word}".encode(), -2.0 - n) for n, word in enumerate(WORDS)]
        return {**entry(token, -0.5), "top_logprobs": [entry(token, -0.5), *others][:top]}


def tokenized(text: str) -> list[str]:
    tokens: list[str] = []
    for part in re.findall(r"[\x00-\x20]?[\x21-\x7e]+|[\x00-\x20]|[^\x00-\x7e]", text):
        plain = part.isascii()
        tokens += [part] if plain else [str(b) for b in part.encode("utf-8", errors="replace")]
    return tokens


def _bytes(text: str) -> list[bytes]:
    """Tokens of an answer: a byte each beyond ASCII, so that characters are split."""
    tokens: list[bytes] = []
    for part in re.findall(r"[\x00-\x7e]{1,4}|[^\x00-\x7e]", text):
        raw = part.encode()
        tokens += [raw] if part.isascii() else [raw[n : n + 1] for n in range(len(raw))]
    return tokens
