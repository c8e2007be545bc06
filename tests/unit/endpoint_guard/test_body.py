"""What may be in a request."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoint_guard import body as module
from endpoint_guard.body import CHAT, COMPLETIONS, FIELDS, check, prompts, read
from endpoint_guard.errors import Refusal
from endpoint_guard.settings import Settings
from unit.endpoint_guard.calls import HELLO, TEXT, well_formed
from unit.endpoint_guard.engine import MODEL


def refused(call, *arguments) -> Refusal:
    with pytest.raises(Refusal) as caught:
        call(*arguments)
    well_formed(caught.value.envelope["error"])
    return caught.value


def checked(body, path=CHAT, **settings):
    check(body, path, (MODEL, "other"), Settings(**settings))
    return body


def unfit(body, path=CHAT, **settings) -> Refusal:
    return refused(lambda: checked(body, path, **settings))


# Reading


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda some: st.lists(some) | st.dictionaries(st.text(st.characters(codec="utf-8")), some),
    max_leaves=20,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON), st.booleans())
def test_any_object_of_json_is_read_as_it_is(body, ascii_only):
    assert read(json.dumps(body, ensure_ascii=ascii_only).encode()) == body


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(content):
    try:
        assert isinstance(read(content), dict)
    except Refusal as refusal:
        assert (refusal.status, refusal.code) == (400, "invalid_json")
        well_formed(refusal.envelope["error"])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "line 1, column 1"),
        (b"{", "line 1, column 2"),
        (b'{"a": 1}\n{"b"', "line 2, column 1"),
        (b"[]", "no object"),
        (b'"x"', "no object"),
        (b"null", "no object"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": -Infinity}', "-Infinity is no number"),
        (b'{"a": 1e999}', "Out of range float"),
        (b'{"a": "\xff"}', "not in UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not in UTF-8"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": "\\udfff\\ud800"}', "surrogate"),
        (b'{"\\ud83d": 1}', "surrogate"),
        (b'{"a": ' + b"1" * 5000 + b"}", "more than 64 bits"),
        (b'{"a": [18446744073709551616]}', ": 18446744073709551616 has more than 64 bits"),
        (b'{"a": -9223372036854775809}', "more than 64 bits"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_is_no_json_object_is_refused_with_the_reason(content, why):
    refusal = refused(read, content)
    assert (refusal.status, refusal.code, refusal.param) == (400, "invalid_json", None)
    assert why in refusal.message


@pytest.mark.parametrize("depth", [*range(90, 110), *range(900, 1010, 3)])
def test_what_is_read_can_be_written_again_however_deep_the_stack(depth):
    """A request is sent on from deeper down than it was read."""
    try:
        body = read(b'{"a": ' + b"[" * depth + b"]" * depth + b"}")
    except Refusal:
        assert depth > 90
        return

    def deeper(levels):
        return json.dumps(body) if not levels else deeper(levels - 1)

    assert deeper(200)


def test_schemas_as_deep_as_people_write_them_are_read():
    depth = 60
    assert read(b'{"a":' * depth + b"1" + b"}" * depth)


def test_a_pair_of_surrogates_is_a_letter():
    assert read(b'{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


def test_of_a_field_that_is_there_twice_the_last_counts_and_nobody_behind_sees_another():
    assert read(b'{"model": "a", "n": 99, "model": "b", "n": 1}') == {"model": "b", "n": 1}


# Fields


@pytest.mark.parametrize("path", FIELDS)
@pytest.mark.parametrize(
    "name",
    [
        "kv_transfer_params",
        "ec_transfer_params",
        "request_id",
        "priority",
        "vllm_xargs",
        "chat_template",
        "documents",
        "prompt_logprobs",
        "prompt_embeds",
        "use_beam_search",
        "mm_processor_kwargs",
        "data_parallel_rank",
        "",
    ],
)
def test_a_field_between_engines_is_refused_by_name(path, name):
    refusal = unfit({**(HELLO if path == CHAT else TEXT), name: None}, path)
    assert (refusal.status, refusal.code, refusal.param) == (400, "unknown_parameter", name)
    assert f"`{name}`" in refusal.message


def test_an_operator_may_let_a_field_through():
    assert checked({**HELLO, "priority": 1}, extra_fields=("priority",))["priority"] == 1


def test_a_long_name_of_a_field_is_cut():
    refusal = unfit({**HELLO, "x" * 100_000: 1})
    assert len(refusal.message) < 200 and len(refusal.param or "") <= 64


@given(st.sampled_from(sorted(FIELDS)), st.text(max_size=200), JSON)
def test_no_field_passes_that_is_not_listed(path, name, value):
    body = {**(HELLO if path == CHAT else TEXT), name: value}
    try:
        checked(body, path)
    except Refusal as refusal:
        well_formed(refusal.envelope["error"])
    else:
        assert name in FIELDS[path]


def test_fields_of_one_path_are_not_those_of_the_other():
    assert unfit({**HELLO, "prompt": "x"}).code == "unknown_parameter"
    assert unfit({**TEXT, "messages": []}, COMPLETIONS).code == "unknown_parameter"


# The model


def test_without_a_model_it_is_the_first():
    assert checked({"messages": HELLO["messages"]})["model"] == MODEL
    assert checked({**HELLO, "model": None})["model"] == MODEL


def test_another_model_is_not_there():
    refusal = unfit({**HELLO, "model": "gpt-" + "4" * 500})
    assert (refusal.status, refusal.code, refusal.param) == (404, "model_not_found", "model")
    assert f"there is `{MODEL}` and `other`" in refusal.message
    assert len(refusal.message) < 200


@pytest.mark.parametrize("model", [3, ["tiny"], {"a": 1}, True])
def test_a_model_is_named_by_a_text(model):
    assert unfit({**HELLO, "model": model}).code == "invalid_type"


# Messages and prompts


@pytest.mark.parametrize("messages", [None, [], "hello", {}, 3])
def test_messages_must_be_a_list_with_something_in_it(messages):
    refusal = unfit({**HELLO, "messages": messages})
    assert (refusal.param, refusal.code) == ("messages", "invalid_type")


@pytest.mark.parametrize("message", ["hello", None, {}, {"role": 1}, {"content": "x"}, []])
def test_a_message_is_named_by_its_place(message):
    refusal = unfit({**HELLO, "messages": [*HELLO["messages"], message]})
    assert refusal.param == "messages[1]"


def with_part(part):
    text = {"type": "text", "text": "what is it?"}
    return {**HELLO, "messages": [HELLO["messages"][0], {"role": "user", "content": [text, part]}]}


ADDRESSES = [
    "http://169.254.169.254/latest/meta-data/",
    "https://example.org/cat.png",
    "HTTP://127.0.0.1:8265/api/jobs/",
    "file:///etc/passwd",
    " data:image/png;base64,AAAA",
    "",
]


@pytest.mark.parametrize("url", ADDRESSES)
@pytest.mark.parametrize("kind", ["image_url", "audio_url", "video_url"])
@pytest.mark.parametrize("typed", [True, False])
def test_no_engine_is_told_to_load_an_address(kind, url, typed):
    for media in ({"url": url}, url):
        part = {kind: media, **({"type": kind} if typed else {"uuid": "1"})}
        refusal = unfit(with_part(part))
        assert (refusal.status, refusal.param) == (400, "messages[1]")
        assert "data:" in refusal.message and "169.254" not in refusal.message


@pytest.mark.parametrize("url", ["data:image/png;base64,AAAA", "DATA:image/png;base64,AAAA"])
def test_media_may_come_in_the_request(url):
    checked(with_part({"type": "image_url", "image_url": {"url": url}}))
    checked(with_part({"type": "input_image", "image_url": url}))
    checked(with_part({"type": "image_url", "image_url": None, "uuid": "1"}))
    checked(with_part({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}))


def test_an_operator_may_let_engines_load_addresses():
    part = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    checked(with_part(part), media_urls=True)


@pytest.mark.parametrize("name", ["chat_template", "tokenize"])
def test_a_template_of_the_clients_is_not_run(name):
    refusal = unfit({**HELLO, "chat_template_kwargs": {"enable_thinking": False, name: "{{ 1 }}"}})
    assert (refusal.param, refusal.code) == ("chat_template_kwargs", "unknown_parameter")
    checked({**HELLO, "chat_template_kwargs": {"enable_thinking": False}})


@pytest.mark.parametrize("prompt", [None, [], 3, {}, True, 0.5])
def test_a_prompt_is_a_text_or_a_list(prompt):
    assert unfit({**TEXT, "prompt": prompt}, COMPLETIONS).param == "prompt"


@pytest.mark.parametrize(
    ("prompt", "count"),
    [("one", 1), (["one"], 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1, 2], [3]], 2), ([[1]], 1)],
)
def test_prompts_are_counted(prompt, count):
    assert prompts({"prompt": prompt}) == count


def test_a_chat_has_one_prompt():
    assert prompts(HELLO) == 1


# Bounds


@pytest.mark.parametrize("value", [0, -1, 17, 10**30, 10**4000], ids=lambda v: str(v)[:9])
def test_a_number_out_of_its_bounds_is_refused_with_them(value):
    refusal = unfit({**HELLO, "n": value})
    assert (refusal.status, refusal.code, refusal.param) == (400, "invalid_value", "n")
    assert "1 to 16" in refusal.message


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (CHAT, "n"),
        (CHAT, "max_tokens"),
        (CHAT, "max_completion_tokens"),
        (CHAT, "min_tokens"),
        (CHAT, "top_logprobs"),
        (CHAT, "seed"),
        (COMPLETIONS, "logprobs"),
        (COMPLETIONS, "seed"),
    ],
)
@pytest.mark.parametrize("value", ["3", 1.5, True, [1], {}])
def test_a_number_must_be_a_whole_number(path, name, value):
    refusal = unfit({**(HELLO if path == CHAT else TEXT), name: value}, path)
    assert (refusal.status, refusal.param, refusal.code) == (400, name, "invalid_type")


@pytest.mark.parametrize("seed", [0, -1, 2**63 - 1, -(2**63), None])
def test_a_seed_may_be_any_number_that_an_engine_takes(seed):
    assert checked({**HELLO, "seed": seed})["seed"] == seed


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_a_seed_that_no_engine_takes_is_refused(seed):
    assert unfit({**HELLO, "seed": seed}).param == "seed"


def test_choices_are_counted_over_all_prompts():
    assert checked({**TEXT, "prompt": ["a", "b"], "n": 2}, COMPLETIONS, choices=4)
    refusal = unfit({**TEXT, "prompt": ["a", "b"], "n": 3}, COMPLETIONS, choices=4)
    assert refusal.param == "prompt" and "not for 6" in refusal.message
    assert unfit({**TEXT, "prompt": ["a"] * 5}, COMPLETIONS, choices=4).param == "prompt"
    assert unfit({**HELLO, "n": 5}, choices=4).param == "n"


def test_the_longest_answer_is_the_operators():
    assert checked(dict(HELLO), answer_tokens=50)["max_tokens"] == 50
    assert checked({**HELLO, "max_tokens": None}, answer_tokens=50)["max_tokens"] == 50
    assert "max_tokens" not in checked({**HELLO, "max_completion_tokens": 5}, answer_tokens=50)
    for name in ("max_tokens", "max_completion_tokens"):
        assert "1 to 50" in unfit({**HELLO, name: 51}, answer_tokens=50).message


def test_no_token_at_all_is_for_the_older_api_only():
    assert checked({**TEXT, "max_tokens": 0, "echo": True}, COMPLETIONS)
    assert "1 or more" in unfit({**HELLO, "max_tokens": 0}).message


def test_logprobs_are_bounded():
    assert checked({**HELLO, "logprobs": True, "top_logprobs": 20})
    assert unfit({**HELLO, "top_logprobs": 21}).param == "top_logprobs"
    assert unfit({**HELLO, "top_logprobs": -1}).param == "top_logprobs"
    assert unfit({**TEXT, "logprobs": 21}, COMPLETIONS).param == "logprobs"


def test_stops_are_counted():
    assert checked({**HELLO, "stop": ["x"] * 16})
    assert checked({**HELLO, "stop": "x"})
    assert unfit({**HELLO, "stop": ["x"] * 17}).param == "stop"


@pytest.mark.parametrize(
    ("name", "fits", "too_much"),
    [
        ("allowed_token_ids", [1] * 1024, [1] * 1025),
        ("logit_bias", {str(n): 1 for n in range(1024)}, {str(n): 1 for n in range(1025)}),
        ("bad_words", ["x"] * 64, ["x"] * 65),
        ("bad_words", ["x" * 511], ["x" * 512]),
        ("bad_words", ["é" * 7] * 34, ["é" * 8] * 34),
        ("structured_outputs", {"regex": "a"}, []),
        ("structured_outputs", None, "a"),
    ],
)
def test_what_would_end_the_engine_does_not_reach_it(name, fits, too_much):
    assert checked({**HELLO, name: fits})
    assert unfit({**HELLO, name: too_much}).param == name


def test_a_minimum_puts_no_ids_off_that_the_vocabulary_may_not_have():
    assert checked({**HELLO, "stop_token_ids": [10**6]})
    assert checked({**HELLO, "stop_token_ids": [10**6], "min_tokens": 0})
    assert checked({**HELLO, "stop_token_ids": [], "min_tokens": 2})
    assert unfit({**HELLO, "stop_token_ids": [7], "min_tokens": 2}).param == "stop_token_ids"


def test_best_of_is_what_n_is():
    assert checked({**TEXT, "best_of": 2, "n": 2}, COMPLETIONS)
    assert checked({**TEXT, "best_of": 1}, COMPLETIONS)
    assert unfit({**TEXT, "best_of": 2}, COMPLETIONS).param == "best_of"


@pytest.mark.parametrize("stream", ["true", 1, [], {}])
def test_stream_is_true_or_false(stream):
    assert unfit({**HELLO, "stream": stream}).param == "stream"


def test_stream_options_go_with_a_stream():
    assert checked({**HELLO, "stream": True, "stream_options": {"include_usage": True}})
    assert checked({**HELLO, "stream_options": None})
    for stream in ({}, {"stream": False}, {"stream": None}):
        refusal = unfit({**HELLO, **stream, "stream_options": {}})
        assert refusal.param == "stream_options"


@pytest.mark.parametrize("options", [[], "include_usage", 1, True, [["include_usage", True]]])
def test_stream_options_are_an_object(options):
    refusal = unfit({**HELLO, "stream": True, "stream_options": options})
    assert (refusal.param, refusal.code) == ("stream_options", "invalid_type")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": 1}, "an object"),
        ([1], "a list"),
        ("x", '"x"'),
        (None, "null"),
        ("y" * 99, '"' + "y" * 39 + "..."),
    ],
)
def test_a_value_is_shown_short(value, shown):
    assert module._shown(value) == shown
