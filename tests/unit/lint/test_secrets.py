"""Secrets in clear text: found wherever they stand, never repeated."""

from __future__ import annotations

import pytest

from raypd.lint.secrets import hide, hide_all
from unit.lint.sample import Break, Sample

HUB = "hf_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0xR"
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
BEARER = "Bearer " + "abcdefghijklmnop0123456789"
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE"
APP = "spec.serveConfigV2.applications[0]"

BROKEN: list[tuple[str, str, str, Break]] = [
    (
        "RPD501",
        f"{APP}.args.prefill_config.engine_kwargs.hf_token",
        HUB,
        lambda s: s.put("prefill:engine_kwargs|hf_token", HUB),
    ),
    (
        "RPD501",
        f"{APP}.runtime_env.env_vars.HF_TOKEN",
        HUB,
        lambda s: s.put("application:runtime_env", {"env_vars": {"HF_TOKEN": HUB}}),
    ),
    (
        "RPD501",
        "spec.rayClusterConfig.workerGroupSpecs[0].template.spec.containers[0].env[2].value",
        HUB,
        lambda s: s.env("group0", "HUB", HUB),
    ),
    (
        "RPD502",
        "spec.rayClusterConfig.headGroupSpec.template.spec.containers[0].env[1].value",
        AWS,
        lambda s: s.env("head", "AWS_ACCESS_KEY_ID", AWS),
    ),
    (
        "RPD503",
        "ConfigMap/extra.data.header",
        BEARER,
        lambda s: s.others.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "extra"},
                "data": {"header": BEARER},
            }
        ),
    ),
    (
        "RPD504",
        "ConfigMap/extra.data.key",
        PEM,
        lambda s: s.others.append(
            {"kind": "ConfigMap", "metadata": {"name": "extra"}, "data": {"key": PEM}}
        ),
    ),
    (
        "RPD505",
        "spec.rayClusterConfig.headGroupSpec.template.spec.containers[0].env[1].value",
        "correct horse",
        lambda s: s.env("head", "REDIS_PASSWORD", "correct horse"),
    ),
]


@pytest.mark.parametrize(
    ("code", "path", "secret", "break_"), BROKEN, ids=[f"{r[0]}-{r[1][-20:]}" for r in BROKEN]
)
def test_a_secret_is_found_at_its_place(code: str, path: str, secret: str, break_: Break) -> None:
    sample = Sample()
    break_(sample)
    assert path in [finding.path for finding in sample.findings(code)]


@pytest.mark.parametrize(
    ("code", "path", "secret", "break_"), BROKEN, ids=[f"{r[0]}-{r[1][-20:]}" for r in BROKEN]
)
def test_no_finding_repeats_the_secret(code: str, path: str, secret: str, break_: Break) -> None:
    sample = Sample()
    break_(sample)
    assert secret not in sample.report().model_dump_json()


@pytest.mark.parametrize(
    "keep",
    [
        lambda s: s.others.append(
            {"kind": "Secret", "metadata": {"name": "hub"}, "stringData": {"token": HUB}}
        ),
        lambda s: s.env("head", "HF_TOKEN", ""),
        lambda s: s.env("head", "TOKENIZERS_PARALLELISM", "false"),
        lambda s: s.put("prefill:engine_kwargs|hf_token", True),
        lambda s: s.put("prefill:model_loading_config|model_source", "org/hf_model").put(
            "decode:model_loading_config|model_source", "org/hf_model"
        ),
    ],
)
def test_what_is_no_secret_is_left_alone(keep: Break) -> None:
    sample = Sample()
    keep(sample)
    assert sample.findings() == []


@pytest.mark.parametrize(
    ("value", "name", "shown"),
    [
        (HUB, "anything", "(hidden)"),
        (f"a {BEARER} b", "header", "(hidden)"),
        ("hunter2", "redisPassword", "(hidden)"),
        ("hunter2", "RAY_AUTH_TOKEN", "(hidden)"),
        ("redis://user:hunter2@cache:6379", "redisAddress", "redis://(hidden)@cache:6379"),
        ("serve --api-key=hunter2 --port 80", "command", "serve --api-key=(hidden) --port 80"),
        (["--api-key", "hunter2", "x"], "args", ["--api-key", "(hidden)", "x"]),
        ({"name": "MY_SECRET", "value": "hunter2"}, "", {"name": "MY_SECRET", "value": "(hidden)"}),
        ({"deep": [{"password": "hunter2"}]}, "", {"deep": [{"password": "(hidden)"}]}),
        # No secrets.
        ("Qwen/Qwen3-8B", "tokenizer", "Qwen/Qwen3-8B"),
        (512, "token", 512),
        ("true", "automountServiceAccountToken", "true"),
        (
            {"secretKeyRef": {"name": "hub", "key": "HF"}},
            "",
            {"secretKeyRef": {"name": "hub", "key": "HF"}},
        ),
        (None, "password", None),
    ],
)
def test_what_is_shown_has_no_secret_in_it(value: object, name: str, shown: object) -> None:
    assert hide(value, name) == shown


def test_of_a_secret_only_that_it_is_there_is_shown() -> None:
    assert (hide_all({"a": "b"}), hide_all(None)) == ("(hidden)", None)
