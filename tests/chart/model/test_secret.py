"""The Secret that the chart makes of a token."""

from __future__ import annotations

import base64

import pytest
import yaml

from chart.rendering import EVERYTHING

TOKEN = "hf_0123456789abcdef"


def test_made_from_a_token_only(render):
    assert render.kind("Secret") == []
    assert render.kind("Secret", {"huggingface": {"existingSecret": {"name": "mine"}}}) == []
    secret = render.one("Secret", {"huggingface": {"token": "hf_0123456789"}})
    assert base64.b64decode(secret["data"]["HF_TOKEN"]) == b"hf_0123456789"


def test_its_key_can_be_chosen(render):
    values = {"huggingface": {"token": "hf_0123456789", "existingSecret": {"key": "token"}}}
    assert set(render.one("Secret", values)["data"]) == {"token"}
    assert render.env(values)["prefill"]["HF_TOKEN"]["secretKeyRef"]["key"] == "token"


@pytest.mark.parametrize("written", [TOKEN, base64.b64encode(TOKEN.encode()).decode()])
def test_the_token_is_in_no_other_manifest(render, written):
    holders = {m["kind"] for m in render.all(EVERYTHING) if written in yaml.safe_dump(m)}
    assert holders <= {"Secret"}
    values = EVERYTHING["huggingface"]
    assert values["token"] == TOKEN


def test_api_keys_come_by_the_name_of_a_secret_only(render):
    values = {"endpoint": {"guard": {"apiKeys": {"existingSecret": "llm-api-keys"}}}}
    assert render.kind("Secret", values) == []
    for pod in render.pods(values).values():
        volumes = {v["name"]: v for v in pod["volumes"]}
        assert volumes["api-keys"] == {
            "name": "api-keys",
            "secret": {"secretName": "llm-api-keys"},
        }
        assert "API_KEYS" not in {
            e["name"] for e in pod["containers"][0]["env"] if "valueFrom" in e
        }
