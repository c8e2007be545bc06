"""The Secret that the chart makes of a token."""

from __future__ import annotations

import base64


def test_made_from_a_token_only(render):
    assert render.kind("Secret") == []
    assert render.kind("Secret", {"huggingface": {"existingSecret": {"name": "mine"}}}) == []
    secret = render.one("Secret", {"huggingface": {"token": "hf_0123456789"}})
    assert base64.b64decode(secret["data"]["HF_TOKEN"]) == b"hf_0123456789"


def test_its_key_can_be_chosen(render):
    values = {"huggingface": {"token": "hf_0123456789", "existingSecret": {"key": "token"}}}
    assert set(render.one("Secret", values)["data"]) == {"token"}
    assert render.env(values)["prefill"]["HF_TOKEN"]["secretKeyRef"]["key"] == "token"
