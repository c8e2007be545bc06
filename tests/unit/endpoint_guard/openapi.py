"""What the guard serves, as an OpenAPI description: what schemathesis makes requests out of."""

from __future__ import annotations

from typing import Any

from endpoint_guard.body import CHAT, COMPLETIONS, FIELDS
from unit.endpoint_guard.engine import MODEL

Json = dict[str, Any]

_TEXT: Json = {"type": "string", "maxLength": 40}
_FLAG: Json = {"type": "boolean"}
_OBJECT: Json = {"type": "object", "maxProperties": 3}
_IDS: Json = {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 4}
_TEXTS: Json = {"type": "array", "items": _TEXT, "maxItems": 4}
_MESSAGE: Json = {
    "type": "object",
    "properties": {"role": {"enum": ["system", "user", "assistant", "tool"]}, "content": _TEXT},
    "required": ["role", "content"],
}


def _whole(least: int, most: int) -> Json:
    return {"type": "integer", "minimum": least, "maximum": most}


def _number(least: float, most: float) -> Json:
    return {"type": "number", "minimum": least, "maximum": most}


_PROMPTS: Json = {"anyOf": [_TEXT, {**_TEXTS, "minItems": 1}, {**_IDS, "minItems": 1}]}
_SCHEMAS: dict[str, Json] = {
    "add_generation_prompt": _FLAG,
    "add_special_tokens": _FLAG,
    "allowed_token_ids": _IDS,
    "bad_words": _TEXTS,
    "cache_salt": _TEXT,
    "chat_template_kwargs": _OBJECT,
    "continue_final_message": _FLAG,
    "echo": _FLAG,
    "frequency_penalty": _number(-2, 2),
    "function_call": _TEXT,
    "functions": {"type": "array", "items": _OBJECT, "maxItems": 2},
    "ignore_eos": _FLAG,
    "include_reasoning": _FLAG,
    "include_stop_str_in_output": _FLAG,
    "length_penalty": _number(0, 2),
    "logit_bias": {"type": "object", "additionalProperties": _number(-100, 100)},
    "max_completion_tokens": _whole(1, 32),
    "max_tokens": _whole(1, 32),
    "messages": {"type": "array", "items": _MESSAGE, "minItems": 1, "maxItems": 4},
    "metadata": _OBJECT,
    "min_p": _number(0, 1),
    "min_tokens": _whole(0, 32),
    "modalities": _TEXTS,
    "model": {"enum": [MODEL]},
    "n": _whole(1, 3),
    "parallel_tool_calls": _FLAG,
    "prediction": _OBJECT,
    "presence_penalty": _number(-2, 2),
    "prompt": _PROMPTS,
    "prompt_cache_key": _TEXT,
    "reasoning_effort": {"enum": ["low", "medium", "high"]},
    "repetition_penalty": _number(0.1, 2),
    "response_format": _OBJECT,
    "return_token_ids": _FLAG,
    "return_tokens_as_token_ids": _FLAG,
    "safety_identifier": _TEXT,
    "seed": _whole(-(2**63), 2**63 - 1),
    "service_tier": _TEXT,
    "skip_special_tokens": _FLAG,
    "spaces_between_special_tokens": _FLAG,
    "stop": {"anyOf": [_TEXT, _TEXTS]},
    "stop_token_ids": _IDS,
    "store": _FLAG,
    "stream": _FLAG,
    "structured_outputs": _OBJECT,
    "suffix": _TEXT,
    "temperature": _number(0, 2),
    "thinking_token_budget": _whole(0, 100),
    "tool_choice": {"enum": ["none", "auto", "required"]},
    "tools": {"type": "array", "items": _OBJECT, "maxItems": 2},
    "top_k": _whole(0, 100),
    "top_logprobs": _whole(0, 20),
    "top_p": _number(0.01, 1),
    "truncate_prompt_tokens": _whole(1, 100),
    "user": _TEXT,
    "verbosity": {"enum": ["low", "medium", "high"]},
}
# Fields that go with others, which a schema of one field cannot say.
_TOGETHER = {"best_of": {"enum": [None]}, "stream_options": {"enum": [None]}}
_LOGPROBS = {CHAT: _FLAG, COMPLETIONS: _whole(0, 20)}


def _operation(path: str) -> Json:
    properties = {
        name: _LOGPROBS[path] if name == "logprobs" else _TOGETHER.get(name) or _SCHEMAS[name]
        for name in sorted(FIELDS[path])
    }
    body = {
        "type": "object",
        "properties": properties,
        "required": ["messages" if path == CHAT else "prompt"],
        "additionalProperties": False,
    }
    content = {"application/json": {"schema": body}}
    return {"post": {"requestBody": {"required": True, "content": content}, "responses": _ANSWERS}}


_ANSWERS = {"default": {"description": "an answer, or an error in OpenAI's envelope"}}
_NAME = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}

DESCRIPTION: Json = {
    "openapi": "3.1.0",
    "info": {"title": "the endpoint", "version": "1"},
    "paths": {
        CHAT: _operation(CHAT),
        COMPLETIONS: _operation(COMPLETIONS),
        "/v1/models": {"get": {"responses": _ANSWERS}},
        "/v1/models/{model}": {"get": {"parameters": [_NAME], "responses": _ANSWERS}},
        "/health": {"get": {"responses": _ANSWERS}},
        "/version": {"get": {"responses": _ANSWERS}},
    },
}
