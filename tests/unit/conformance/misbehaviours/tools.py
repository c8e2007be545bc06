"""Servers that are wrong in one way each, and the checks of the whole suite that find it."""

from __future__ import annotations

import json

from unit.conformance.wrong import called, events, misbehaviour, parts, refusing


def _chosen(body, choice):
    return body.get("tools") and body.get("tool_choice") == choice


def _as_stop(original, body, index, generated):
    choice = original(body, index, generated)
    return {**choice, "finish_reason": "stop"} if generated.calls else choice


def _without_index(part):
    for call in part["delta"].get("tool_calls", []):
        del call["index"]


MISBEHAVIOURS = [
    misbehaviour(
        "tools mean nothing",
        "tools/required tools/named tools/streamed-call tools/client-sees-the-call",
        tool=lambda o, body: None,
    ),
    misbehaviour(
        "calls without an id",
        "tools/required tools/named tools/auto tools/streamed-call",
        generate=called(lambda call: call.update(id=None)),
    ),
    misbehaviour(
        "calls of another tool",
        "tools/required tools/named tools/auto tools/streamed-call tools/client-sees-the-call",
        generate=called(lambda call: call["function"].update(name="other")),
    ),
    misbehaviour(
        "arguments are half of JSON",
        "tools/required tools/named tools/auto tools/streamed-call",
        generate=called(lambda call: call["function"].update(arguments='{"state": ')),
    ),
    misbehaviour(
        "arguments break the schema",
        "tools/required tools/named tools/auto tools/streamed-call",
        generate=called(lambda call: call["function"].update(arguments='{"state": 1}')),
    ),
    misbehaviour("a call ends like a text", "tools/required", choice=_as_stop),
    misbehaviour(
        "a required call is not made",
        "tools/required",
        tool=lambda o, body: None if _chosen(body, "required") else o(body),
    ),
    misbehaviour(
        "neither text nor a call",
        "tools/auto",
        tool=lambda o, body: None if _chosen(body, "auto") else o(body),
        said=lambda o, body, r: [] if _chosen(body, "auto") else o(body, r),
    ),
    misbehaviour(
        "a call against the will",
        "tools/none",
        tool=lambda o, body: o({**body, "tool_choice": "auto"}),
    ),
    misbehaviour(
        "parts of calls without an index", "tools/streamed-call", events=parts(_without_index)
    ),
    misbehaviour(
        "calls in streams lack a part",
        "tools/streamed-call",
        events=events(lambda all_: [e for e in all_ if '"arguments": "{' not in json.dumps(e)]),
    ),
    misbehaviour(
        "a tool's result fells the server",
        "tools/result-is-taken",
        validate=refusing(lambda b: b["messages"][-1]["role"] == "tool", 500, "Sorry."),
    ),
    misbehaviour(
        "any tool may be named", "tools/no-such-tool", validate_tools=lambda o, body: None
    ),
    misbehaviour(
        "tools are refused without a word",
        "tools/required tools/named tools/auto tools/none tools/streamed-call "
        "tools/client-sees-the-call",
        validate=refusing(lambda b: b.get("tools") and b["messages"][0]["content"], 400, "No."),
    ),
]
