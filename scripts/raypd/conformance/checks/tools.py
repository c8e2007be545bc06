"""Tool calls. Whether a model calls a tool is its own wit; that a forced call has its form is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

from raypd.conformance.answer import Answer, read_json
from raypd.conformance.endpoint import Endpoint, refused_as_missing, taken_by_the_client
from raypd.conformance.outcome import NotApplicable, Outcome, Seen

_NAME = "switch_light"
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"state": {"enum": ["on", "off"]}},
    "required": ["state"],
    "additionalProperties": False,
}
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": _NAME,
            "description": "Switches the light.",
            "parameters": _PARAMETERS,
        },
    }
]
_NAMED = {"type": "function", "function": {"name": _NAME}}
_PROMPT = "Switch the light on."
_TOKENS = 256
_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": _NAME, "arguments": '{"state": "on"}'},
}


def required(endpoint: Endpoint) -> Iterator[Outcome]:
    """tool_choice "required" gives a call."""
    answer = _ask(endpoint, tool_choice="required")
    yield from _called(answer, answer.message.get("tool_calls"))
    if answer.finish not in {"tool_calls", "length"}:
        yield answer.wrong(f"An answer with a call ends for {answer.finish!r}, not 'tool_calls'")


def named(endpoint: Endpoint) -> Iterator[Outcome]:
    """A named tool is called."""
    answer = _ask(endpoint, tool_choice=_NAMED)
    yield from _called(answer, answer.message.get("tool_calls"))


def auto(endpoint: Endpoint) -> Iterator[Outcome]:
    """tool_choice "auto" gives text, or a call that has its form."""
    answer = _ask(endpoint, tool_choice="auto")
    if answer.message.get("tool_calls"):
        yield from _called(answer, answer.message["tool_calls"])
    elif not answer.said:
        yield answer.wrong("An answer with tools has neither text nor a call")


def none(endpoint: Endpoint) -> Iterator[Outcome]:
    """tool_choice "none" gives no call."""
    answer = _ask(endpoint, tool_choice="none")
    if answer.message.get("tool_calls"):
        yield answer.wrong('tool_choice "none" is answered with a call')


def streamed_call(endpoint: Endpoint) -> Iterator[Outcome]:
    """A streamed call comes in deltas that make one."""
    _ask(endpoint, tool_choice=_NAMED)
    stream = endpoint.stream(_PROMPT, tools=_TOOLS, tool_choice=_NAMED, max_tokens=_TOKENS)
    call: dict[str, Any] = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
    for delta in stream.deltas():
        parts = delta.get("tool_calls")
        for part in parts if isinstance(parts, list) else []:
            if not isinstance(part, dict) or not isinstance(part.get("index"), int):
                raise stream.answer.broken("A delta of a call has no index")
            inner = part.get("function")
            function = inner if isinstance(inner, dict) else {}
            call["id"] = call["id"] or part.get("id")
            for name in ("name", "arguments"):
                call["function"][name] += str(function.get(name) or "")
    yield from _called_in(stream.answer, [call], stream.finish)


def result_is_taken(endpoint: Endpoint) -> Iterator[Outcome]:
    """A conversation goes on after a call and its result."""
    answer = endpoint.chat(
        [
            {"role": "user", "content": _PROMPT},
            {"role": "assistant", "content": None, "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "It is on."},
        ]
    )
    if answer.error and answer.status in {400, 422}:
        _ask(
            endpoint, tool_choice="auto"
        )  # the template of a model without tools knows no such role
    answer.good()
    yield Seen("an assistant's call and a tool's result")


def no_such_tool(endpoint: Endpoint) -> Iterator[Outcome]:
    """A choice of a tool that was not given is 400."""
    choice = {"type": "function", "function": {"name": "no_such_tool"}}
    answer = endpoint.chat(_PROMPT, tools=_TOOLS, tool_choice=choice)
    if answer.status not in {400, 422}:
        yield answer.wrong(f"A tool that was not given is answered with HTTP {answer.status}")


def client_sees_the_call(endpoint: Endpoint) -> Iterator[Outcome]:
    """The official client sees a call."""
    answer = _ask(endpoint, tool_choice=_NAMED)
    with taken_by_the_client("an answer with a call"):
        request = endpoint.chat_request(
            _PROMPT, tools=_TOOLS, tool_choice=_NAMED, max_tokens=_TOKENS
        )
        seen = endpoint.client.chat.completions.create(**request)
        calls = seen.choices[0].message.tool_calls or []
        names = [call.function.name for call in calls if call.type == "function"]
    if names != [_NAME] and answer.finish != "length":
        yield answer.wrong("The official client does not see the call")


def _ask(endpoint: Endpoint, **options: Any) -> Answer:
    answer = endpoint.chat(_PROMPT, tools=_TOOLS, max_tokens=_TOKENS, **options)
    choice = options["tool_choice"]
    kind = "of a named tool" if choice == _NAMED else f'"{choice}"'
    refused_as_missing(answer, f"tool_choice {kind}")
    return answer


def _called(answer: Answer, calls: Any) -> Iterator[Outcome]:
    yield from _called_in(answer, calls, answer.finish)


def _called_in(answer: Answer, calls: Any, finish: Any) -> Iterator[Outcome]:
    if finish == "length":
        raise NotApplicable(f"the call was not over after {_TOKENS} tokens")
    if not isinstance(calls, list) or not calls:
        yield answer.wrong("An answer that has to call a tool calls none")
        return
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not call.get("id") or call.get("type") != "function":
            yield answer.wrong("A call has not id, type and function")
            return
        if function.get("name") != _NAME:
            yield answer.wrong("A call is of a tool that was not given")
        try:
            arguments = read_json(function.get("arguments"))
        except (ValueError, TypeError):
            yield answer.wrong("The arguments of a call are no JSON in a string")
            return
        if not Draft202012Validator(_PARAMETERS).is_valid(arguments):
            yield answer.wrong("The arguments of a call do not keep to the tool's schema")


CHECKS = [
    ("a required call is made", required),
    ("a named tool is called", named),
    ("auto gives text or a call", auto),
    ("none gives no call", none),
    ("a streamed call is whole", streamed_call),
    ("a tool's result is taken", result_is_taken),
    ("a tool that was not given is 400", no_such_tool),
    ("the official client sees a call", client_sees_the_call),
]
