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
_FORMS = (_HUGGING_FACE, _AWS_KEY, _BEARER, _PRIVATE_KEY)

# Names of variables and keys whose value is a secret whatever it looks like.
_SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|SECRET_ACCESS_KEY|PRIVATE_KEY)$", re.IGNORECASE
)
# Of keys in manifests and serve configs as well (redisPassword, --api-key), for what is only shown.
_HIDDEN_NAME = re.compile(
    r"(token|secret|password|passwd|credentials?|(api|access|private)[_-]?key)$", re.IGNORECASE
)
_OPTION = re.compile(
    r"(?P<option>--?[\w-]*(token|secret|password|key)[= ]+)\S+", re.IGNORECASE
)  # of a command line
_IN_URL = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_HIDDEN = "(hidden)"
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
    for path, name, value in _named_strings(subject):
        if is_secret(name, value) and not _looks_secret(value):
            yield error(
                "RPD505",
                path,
                f"`{name}` names a secret, and its value is written out here.",
                _FROM_SECRET,
            )


def is_secret(name: str, value: str) -> bool:
    """A string is a secret by its own form, or by the name of the key or variable that holds it."""
    by_name = bool(_SECRET_NAME.search(name)) and not _NO_SECRET.match(value)
    return by_name or _looks_secret(value)


CHECKS: list[Check] = [hugging_face_token, aws_key, bearer_token, private_key, secret_by_name]


def hide(value: Any, name: str = "") -> Any:
    """A value as it may be shown, under the name that it has: all in it that is a secret, or may be
    one, is replaced."""
    if isinstance(value, dict):
        return {key: hide(inner, _name_of(value, key)) for key, inner in value.items()}
    if isinstance(value, list):
        before = ["", *map(str, value)]  # --api-key, and then the key
        return [hide(hide(inner, name), one) for inner, one in zip(value, before, strict=False)]
    if not isinstance(value, str) or _NO_SECRET.match(value):
        return value
    if _HIDDEN_NAME.search(name) or _looks_secret(value):
        return _HIDDEN
    return _OPTION.sub(rf"\g<option>{_HIDDEN}", _IN_URL.sub(_HIDDEN, value))


def _looks_secret(value: str) -> bool:
    return any(pattern.search(value) for pattern in _FORMS)


def hide_all(value: Any) -> Any:
    """A value of which nothing may be shown but that it is there."""
    return None if value is None else _HIDDEN


def _name_of(entry: dict[Any, Any], key: Any) -> str:
    """An environment entry's value goes by the entry's name."""
    return str(entry["name"] if key == "value" and "name" in entry else key)


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
            yield from _strings(value, dotted([key], path), _name_of(node, key))
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from _strings(value, f"{path}[{i}]", name)
    elif isinstance(node, str):
        yield path, name, node
