"""Secrets in clear text (RPD5xx): what is in a manifest or a serve config is in Git, in Helm's
release, in Ray's dashboard and in its logs. No finding repeats the secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from raypd.lint.subject import SERVE_CONFIG, Check, Subject, error, mapping
from raypd.report import Finding
from raypd.schema import dotted

# Forms that their issuers document. A word boundary before, so that no hash is taken for one.
_HUGGING_FACE = re.compile(r"\b(hf|api_org)_[A-Za-z0-9]{30,}\b")
_AWS_KEY = re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b")
_BEARER = re.compile(r"\bBearer\s+[A-Za-z0-9._~+/=-]{16,}|\bsk-[A-Za-z0-9_-]{20,}\b", re.IGNORECASE)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")

# Names of variables and keys whose value is a secret whatever it looks like.
_SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|SECRET_ACCESS_KEY|PRIVATE_KEY)$", re.IGNORECASE
)
_NO_SECRET = re.compile(r"^(|true|false|none|null|auto)$", re.IGNORECASE)
_FROM_SECRET = (
    "A Secret, read by `valueFrom.secretKeyRef` (`huggingface.existingSecret` for the hub)."
)


def hugging_face_token(subject: Subject) -> Iterator[Finding]:
    yield from _matches(subject, "RPD501", _HUGGING_FACE, "a Hugging Face token")


def aws_key(subject: Subject) -> Iterator[Finding]:
    yield from _matches(
        subject,
        "RPD502",
        _AWS_KEY,
        "an AWS access key",
        "A role for the service account (EKS pod identity or IRSA), and no key at all.",
    )


def bearer_token(subject: Subject) -> Iterator[Finding]:
    yield from _matches(subject, "RPD503", _BEARER, "a bearer token or API key")


def private_key(subject: Subject) -> Iterator[Finding]:
    yield from _matches(
        subject, "RPD504", _PRIVATE_KEY, "a private key", "A Secret that is mounted as a file."
    )


def secret_by_name(subject: Subject) -> Iterator[Finding]:
    patterns = (_HUGGING_FACE, _AWS_KEY, _BEARER, _PRIVATE_KEY)
    for path, name, value in _named_strings(subject):
        told = any(pattern.search(value) for pattern in patterns)
        if _SECRET_NAME.search(name) and not _NO_SECRET.match(value) and not told:
            yield error(
                "RPD505",
                path,
                f"`{name}` names a secret, and its value is written out here.",
                _FROM_SECRET,
            )


CHECKS: list[Check] = [hugging_face_token, aws_key, bearer_token, private_key, secret_by_name]


def _matches(
    subject: Subject, code: str, pattern: re.Pattern[str], what: str, remedy: str = _FROM_SECRET
) -> Iterator[Finding]:
    for path, _, value in _named_strings(subject):
        if pattern.search(value):
            yield error(code, path, f"This looks like {what}, in clear text.", remedy)


def _named_strings(subject: Subject) -> Iterator[tuple[str, str, str]]:
    """(path, name, text) of every string in the serve config and in all objects but Secrets."""
    yield from _strings(subject.rendered.serve_config, SERVE_CONFIG)
    for manifest in subject.rendered.manifests:
        if manifest.get("kind") == "Secret":
            continue
        if manifest is subject.rayservice:
            spec = {k: v for k, v in subject.spec.items() if k != "serveConfigV2"}
            yield from _strings({**manifest, "spec": spec}, "")
        else:
            name = mapping(manifest.get("metadata")).get("name")
            yield from _strings(manifest, f"{manifest.get('kind')}/{name}")


def _strings(node: Any, path: str, name: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(node, dict):
        for key, value in node.items():
            # An environment entry's value goes by the entry's name.
            own = node["name"] if key == "value" and "name" in node else key
            yield from _strings(value, dotted([key], path), str(own))
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from _strings(value, f"{path}[{i}]", name)
    elif isinstance(node, str):
        yield path, name, node
