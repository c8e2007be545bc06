"""What may be in a request: the fields that a client may send, and the bounds of what is in them.

An engine takes any field, its own among them: where to pull KV from, how its request is named, how urgent it
is. So the fields that a client may send are listed, and every other is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .errors import Refusal, invalid
from .settings import Settings

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"

# Of OpenAI's API: those that vLLM reads, and those that clients send and that mean nothing here.
_OPENAI = {
    "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "metadata", "model", "n", "presence_penalty",
    "prompt_cache_key", "safety_identifier", "seed", "stop", "store", "stream", "stream_options", "temperature",
    "top_p", "user",
}  # fmt: skip
_OPENAI_CHAT = {
    "function_call", "functions", "max_completion_tokens", "messages", "modalities", "parallel_tool_calls",
    "prediction", "reasoning_effort", "response_format", "service_tier", "tool_choice", "tools", "top_logprobs",
    "verbosity",
}  # fmt: skip
_OPENAI_COMPLETIONS = {"best_of", "echo", "prompt", "suffix"}
# Of vLLM's (0.26, entrypoints/openai/*/protocol.py): how tokens are chosen and how they are written. Left out
# are its own business (kv_transfer_params, ec_transfer_params, request_id, priority, vllm_xargs), what runs a
# client's template or opens files (chat_template, documents, media_io_kwargs, mm_processor_kwargs), and what
# prefill and decode apart cannot do (prompt_logprobs, prompt_embeds, use_beam_search).
_VLLM = {
    "add_special_tokens", "allowed_token_ids", "bad_words", "cache_salt", "ignore_eos",
    "include_stop_str_in_output", "length_penalty", "min_p", "min_tokens", "repetition_penalty",
    "response_format", "return_token_ids", "return_tokens_as_token_ids", "skip_special_tokens",
    "spaces_between_special_tokens", "stop_token_ids", "structured_outputs", "thinking_token_budget", "top_k",
    "truncate_prompt_tokens",
}  # fmt: skip
_VLLM_CHAT = {
    "add_generation_prompt",
    "chat_template_kwargs",
    "continue_final_message",
    "include_reasoning",
}
FIELDS = {
    CHAT: _OPENAI | _OPENAI_CHAT | _VLLM | _VLLM_CHAT,
    COMPLETIONS: _OPENAI | _OPENAI_COMPLETIONS | _VLLM,
}
# Where a part of a message names its picture, sound or film. vLLM loads http(s) addresses by itself, from
# inside the cluster (0.26, multimodal/media/connector.py).
_MEDIA = ("image_url", "audio_url", "video_url")
_TEMPLATES = (
    "chat_template",
    "tokenize",
)  # what chat_template_kwargs could replace of the model's own
_STOPS = 16  # stop strings; OpenAI takes 4
_SEEDS = 2**63  # and as many below zero
_WHOLE = range(-(2**63), 2**64)  # what can be written to an engine (msgpack)
# Of a request vLLM's engine has room for so much and ends at more (0.26, v1/worker/gpu/sample/). A bad word is
# kept with a space before it and without, and has a token for each byte at most.
_ENTRIES = {"allowed_token_ids": 1024, "logit_bias": 1024, "bad_words": 64}
_BAD_WORD_BYTES = 512
# Levels of objects and lists. Whoever reads the request behind may be deeper down in its own stack.
_DEEPEST = 100
_LONGEST_NAME = 64  # characters of a field's name that a message repeats


def read(content: bytes) -> dict[str, Any]:
    """The request in `content`. Raises Refusal, 400, where that is no JSON object in UTF-8."""
    try:
        body = json.loads(
            content.decode("utf-8"), parse_constant=_no_number, parse_int=_whole_number
        )
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _no_json("it has half of a surrogate pair (\\ud800 to \\udfff) in a string") from None
    except UnicodeDecodeError:
        raise _no_json("it is not in UTF-8") from None
    except RecursionError:
        raise _no_json("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise _no_json(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError as error:  # NaN, Infinity, 1e999, a number of more than 64 bits
        raise _no_json(str(error).split(";")[0]) from None
    if not isinstance(body, dict):
        raise _no_json("it is no object")
    if _too_deep(body):
        raise _no_json("it is nested too deeply")
    return body


def check(body: dict[str, Any], path: str, models: tuple[str, ...], settings: Settings) -> None:
    """Raises Refusal for the first thing in `body` that may not be in it; writes into it the model, where there
    is none, and the longest answer, where the operator set one."""
    _check_fields(body, FIELDS[path] | set(settings.extra_fields))
    _check_model(body, models)
    if path == CHAT:
        _check_messages(body, settings)
        _check_template(body.get("chat_template_kwargs"))
    else:
        _check_prompt(body)
        if (best := body.get("best_of")) not in (None, body.get("n") or 1):
            raise invalid("best_of", f"`best_of` must be the same as `n`, not {_shown(best)}.")
    if isinstance(stream := body.get("stream"), bool | None):
        if body.get("stream_options") is not None and not stream:
            raise invalid("stream_options", "`stream_options` goes with `stream: true` only.")
        _check_object(body, "stream_options")
    else:
        raise invalid(
            "stream", f"`stream` must be true or false, not {_shown(stream)}.", "invalid_type"
        )
    _check_object(body, "structured_outputs")
    _check_bounds(body, path, settings)
    _check_room(body)


def prompts(body: dict[str, Any]) -> int:
    """How many prompts a request has: `prompt` may be a text, a list of texts, of tokens, or of such lists."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        return len(prompt)
    return 1


def _check_object(body: dict[str, Any], name: str) -> None:
    if not isinstance(value := body.get(name), dict | None):
        message = f"`{name}` must be an object, not {_shown(value)}."
        raise invalid(name, message, "invalid_type")


def _check_fields(body: dict[str, Any], known: set[str]) -> None:
    for name in body:
        if name not in known:
            shown = name[:_LONGEST_NAME]
            message = f"`{shown}` is not a field that may be sent here."
            raise invalid(shown, message, "unknown_parameter")


def _check_model(body: dict[str, Any], models: tuple[str, ...]) -> None:
    model = body.get("model")
    if model is None:
        body["model"] = models[0]
    elif not isinstance(model, str):
        raise invalid("model", f"`model` must be a text, not {_shown(model)}.", "invalid_type")
    elif model not in models:
        raise unknown_model(model, models)


def unknown_model(model: str, models: tuple[str, ...]) -> Refusal:
    """The 404 for a model that is not served."""
    there = " and ".join(f"`{name}`" for name in models)
    shown = model[:_LONGEST_NAME]
    message = f"The model `{shown}` does not exist here; there is {there}."
    return Refusal(404, message, "model_not_found", "model")


def _check_messages(body: dict[str, Any], settings: Settings) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise invalid(
            "messages", "`messages` must be a list of at least one message.", "invalid_type"
        )
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            where = f"messages[{number}]"
            raise invalid(where, f"`{where}` must be an object with a `role`.", "invalid_type")
        if not settings.media_urls and any(map(_is_address, _media(message.get("content")))):
            where = f"messages[{number}]"
            raise invalid(
                where, f"`{where}`: media must come as a `data:` URL; no address is loaded."
            )


def _media(content: Any) -> Iterator[Any]:
    for part in content if isinstance(content, list) else ():
        for name in _MEDIA:
            if isinstance(part, dict) and (media := part.get(name)) is not None:
                yield media.get("url") if isinstance(media, dict) else media


def _is_address(url: Any) -> bool:
    return isinstance(url, str) and url[:5].lower() != "data:"


def _check_template(given: Any) -> None:
    for name in _TEMPLATES:
        if isinstance(given, dict) and name in given:
            message = f"`chat_template_kwargs` may not have `{name}`."
            raise invalid("chat_template_kwargs", message, "unknown_parameter")


def _check_prompt(body: dict[str, Any]) -> None:
    prompt = body.get("prompt")
    if prompt is None or prompt == [] or not isinstance(prompt, str | list):
        raise invalid(
            "prompt", "`prompt` must be a text, or a list that is not empty.", "invalid_type"
        )


def _check_bounds(body: dict[str, Any], path: str, settings: Settings) -> None:
    choices = _number(body, "n", 1, settings.choices)
    asked = prompts(body)
    if (choices or 1) * asked > settings.choices:
        param = "n" if asked == 1 else "prompt"
        message = (
            f"a request may ask for {settings.choices} choices, not for {(choices or 1) * asked}."
        )
        raise invalid(param, f"`{param}`: {message}")
    for name in ("max_tokens", "max_completion_tokens"):
        # 0 is what `echo` goes with in the older API.
        lowest = 0 if path == COMPLETIONS else 1
        _number(body, name, lowest, settings.answer_tokens or None)
    if settings.answer_tokens and all(
        body.get(name) is None for name in ("max_tokens", "max_completion_tokens")
    ):
        body["max_tokens"] = settings.answer_tokens
    _number(body, "min_tokens", 0, None)
    _number(body, "seed", -_SEEDS, _SEEDS - 1)
    if path == CHAT:
        _number(body, "top_logprobs", 0, settings.logprobs)
    else:
        _number(body, "logprobs", 0, settings.logprobs)
    stop = body.get("stop")
    if isinstance(stop, list) and len(stop) > _STOPS:
        raise invalid("stop", f"`stop` may have {_STOPS} texts, not {len(stop)}.")


def _check_room(body: dict[str, Any]) -> None:
    """What would end the engine, which does not look before it takes it (vLLM 0.26)."""
    for name, most in _ENTRIES.items():
        given = body.get(name)
        if isinstance(given, dict | list) and len(given) > most:
            raise invalid(name, f"`{name}` may have {most} entries, not {len(given)}.")
    words = body.get("bad_words")
    texts = [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
    if (size := sum(len(text.encode()) + 1 for text in texts)) > _BAD_WORD_BYTES:
        message = f"may have {_BAD_WORD_BYTES} bytes, one between each two words, not {size}."
        raise invalid("bad_words", f"`bad_words` {message}")
    # A minimum puts the ids off by their place in the vocabulary, whose length only the engine knows
    # (https://github.com/vllm-project/vllm/issues/54195).
    if body.get("stop_token_ids") and body.get("min_tokens"):
        message = "`stop_token_ids` cannot go with `min_tokens`; use `stop`."
        raise invalid("stop_token_ids", message)


def _number(body: dict[str, Any], name: str, least: int, most: int | None) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid(
            name, f"`{name}` must be a whole number, not {_shown(value)}.", "invalid_type"
        )
    if value < least or (most is not None and value > most):
        bounds = f"{least} or more" if most is None else f"{least} to {most}"
        raise invalid(name, f"`{name}` must be {bounds}, not {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    """A value for a message: short, and never a whole request."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _too_deep(body: dict[str, Any]) -> bool:
    level: list[Any] = [body]
    for _ in range(_DEEPEST):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _no_json(why: str) -> Refusal:
    return Refusal(400, f"The body must be a JSON object: {why}.", "invalid_json")


def _whole_number(text: str) -> int:
    if len(text) > 20:
        raise ValueError(f"{text[:20]}... has more than 64 bits")
    if int(text) not in _WHOLE:
        raise ValueError(f"{text} has more than 64 bits")
    return int(text)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")
