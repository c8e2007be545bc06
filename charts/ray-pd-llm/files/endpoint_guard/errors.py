"""OpenAI's error envelope, and what of an engine's words a client may read."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

# An engine's failure is told in these words; what happened is in the log under the request's id.
FAILED = (
    "The model failed to answer. Try again; the server's log tells why, under the request's id."
)
_REFUSED = "The model cannot take this request."
_NO_TOOLS = (
    "Tool calls are not supported here: the server was given no parser for those of this model"
    " (value model.toolCallParser)."
)
_LONGEST = 500  # characters of an engine's message that are passed on
_READ = 2000  # characters of it that are looked at: it may repeat a whole request

# Each type with the statuses that OpenAI gives it.
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}


@dataclass(eq=False)
class Refusal(Exception):
    """An answer that is an error: `status`, and the envelope's fields; `headers` go with it."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def type(self) -> str:
        if self.status >= 500:
            return "server_error"
        return _TYPES.get(self.status, "invalid_request_error")

    @property
    def envelope(self) -> dict[str, Any]:
        fields = {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }
        return {"error": fields}


def invalid(param: str, message: str, code: str = "invalid_value") -> Refusal:
    """A 400 that names the field."""
    return Refusal(400, message, code, param)


def failed() -> Refusal:
    """What a client hears when the fault is not its own."""
    return Refusal(500, FAILED, "model_failed")


def from_engine(status: int, content: bytes, asked: dict[str, Any]) -> Refusal:
    """The refusal or failure of the application behind, in OpenAI's words.

    `asked` is the client's request: an engine that computes a prompt for another one speaks of the one token
    that was asked of itself.
    """
    if status in (502, 503, 504):
        return _unavailable()
    if not 400 <= status < 500:
        return failed()
    message, param = _said(content)
    if long := _TOO_LONG.search(message):
        return _too_long(long, asked)
    if field := _FIELD.match(message):
        # FastAPI's place of a value is a tuple: ('body', 'messages', 0, 'role').
        names = re.findall(r"'(\w+)'", field["at"])[1:]
        param = names[0] if names else None
        about = f"`{param}`: " if param else ""
        message = about + field["what"].removeprefix("Value error, ")
    if value := _VALUE.search(message):
        param = value["param"]
        message = message[: value.start()].rstrip()
    if message and message[-1] not in ".!?":
        message += "."
    if _NO_PARSER.search(message):
        return Refusal(400, _NO_TOOLS, "unsupported", "tools")
    if status in (408, 429):
        return Refusal(status, "The model did not answer in time.", "timeout")
    if not message or _INSIDE.search(message):
        message = _REFUSED
    if param and not _NAME.fullmatch(param):
        param = None
    return Refusal(status, message[:_LONGEST], "invalid_value", param)


def _unavailable() -> Refusal:
    return Refusal(
        503,
        "The model is not available at present. Try again.",
        "model_unavailable",
        headers=(("retry-after", "1"),),
    )


# What Ray Serve writes around a message (Ray 2.58, serve/utils/server_utils.py, get_response_for_error).
_WRAPPED = re.compile(
    r"^Message: (?P<said>.*?)(?: \(Request ID: [^)]*\))?, Internal exception: ", re.S
)
_FIELD = re.compile(r"^Invalid request format: (?P<what>.*?) at (?P<at>\(.*\)|body)$", re.S)
# What vLLM writes behind a message (0.26, exceptions.py, VLLMValidationError).
_VALUE = re.compile(r"\(parameter=(?P<param>\w{1,64})[.\w]*(?:, value=|\))")
_NAME = re.compile(r"[a-z_]{1,64}")  # of a field
_NO_PARSER = re.compile(r"requires --(?:enable-auto-tool-choice|tool-call-parser)")
_TOO_LONG = re.compile(
    r"maximum context length is (?P<context>\d+) tokens.*?prompt contains"
    r" (?P<prompt>(?:at least )?\d+ (?:input tokens|characters))",
    re.S,
)
# Whatever looks as if it came out of a program is not passed on: the reader cannot do anything with it, and
# it tells how the server is made.
_INSIDE = re.compile(
    r"""
    Traceback | \bFile\s" | \bline\ \d | \w\.(?:py|so|cc|cpp|cu|rs)\b    # where in the code
    | (?<!\w)/(?!v1/)\w | \w:// | \.(?:internal|local)\b                 # files and hosts
    | \b\d{1,3}(?:\.\d{1,3}){3}\b | ::\w | (?:\b[0-9a-f]{1,4}:){3}        # addresses
    | \b0x[0-9a-f]{6} | \ object\ at\  | <class\  | \bpid=\d              # what is in memory
    | \b\w+(?:Error|Exception)\b | Internal\ exception
    | \b(?!OpenAI\b)[A-Z][a-z]+[A-Z] | \b[A-Z]\w*\(\w+= | \{'\w+':       # classes and what they print
    | \b(?:ray|vllm|pydantic|torch|nixl)\w*[._]\w | \b[a-z]\w*(?:\.\w+)+\.[A-Z]
    | \b[A-Z]+_[A-Z] | (?<![\w-])--\w                                     # how it is started
    """,
    re.X,
)
_VALIDATION = re.compile(
    r"^\d+ validation errors? for .*?\n(?P<where>[\w.]+)\n\s*(?P<what>.*?)(?: \[type=|$)", re.S
)


def _said(content: bytes) -> tuple[str, str | None]:
    """The message and the field's name in an error of the application behind."""
    try:
        body = json.loads(content)
    except ValueError:
        return "", None
    if not isinstance(body, dict):
        return "", None
    error = body.get("error")
    found = error if isinstance(error, dict) else body
    message = found.get("message") or found.get("detail") or ""
    if not isinstance(message, str):
        return "", None
    if wrapped := _WRAPPED.match(message):
        message = wrapped["said"]
    message = message[:_READ]
    if validation := _VALIDATION.match(message):
        param = validation["where"].split(".")[0]
        return f"`{param}`: {validation['what'].removeprefix('Value error, ')}", param
    param = found.get("param")
    return message, param if isinstance(param, str) else None


def _too_long(match: re.Match[str], asked: dict[str, Any]) -> Refusal:
    wanted = asked.get("max_completion_tokens") or asked.get("max_tokens")
    answer = f" and you asked for {wanted} output tokens" if wanted else ""
    param = "messages" if "messages" in asked else "prompt"
    return Refusal(
        400,
        f"This model's maximum context length is {match['context']} tokens. Your prompt has"
        f" {match['prompt']}{answer}. Shorten the prompt or ask for a shorter answer.",
        "context_length_exceeded",
        param,
    )
