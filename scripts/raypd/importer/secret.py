"""The hub's token, and every other secret that stands in a manifest: none gets into the values."""

from __future__ import annotations

from typing import Any

from raypd.importer.draft import Draft, cut, leaves
from raypd.importer.read import Original
from raypd.lint.secrets import is_secret
from raypd.lint.subject import mapping, sequence
from raypd.schema import dotted

TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_DEFAULT = "hf-token"  # as docs/eks.md names the Secret


def hub(draft: Draft, original: Original) -> None:
    """Fills huggingface: the Secret that the engines' token comes from, or the one to make."""
    for role, group in original.homes.items():
        variables = original.variables(role, group)
        if str(variables.get("HF_HUB_OFFLINE", ("", ""))[1]).lower() in ("1", "true", "yes", "on"):
            draft.put("huggingface.offline", True)
        for name in TOKENS:
            if name in variables:
                _token(draft, original, name, *variables[name])
        for i, source in enumerate(map(mapping, sequence(group.ray_container.get("envFrom")))):
            secret = mapping(source.get("secretRef")).get("name")
            if secret and not draft.get("huggingface.existingSecret.name"):
                draft.put("huggingface.existingSecret.name", secret)
                draft.changed(
                    "RPD754",
                    f"{group.pod_path}.containers[0].envFrom[{i}]",
                    f"All of Secret {secret} becomes variables; the chart takes one key of it, for "
                    "the hub's token.",
                    "`huggingface.existingSecret.key` where it is not HF_TOKEN, and `model.env` "
                    "with valueFrom for other keys.",
                )


def _token(draft: Draft, original: Original, name: str, path: str, value: Any) -> None:
    reference = mapping(mapping(value).get("secretKeyRef"))
    if reference.get("name"):
        draft.put("huggingface.existingSecret.name", reference["name"])
        draft.put("huggingface.existingSecret.key", reference.get("key", "HF_TOKEN"))
        if name != TOKENS[0]:
            draft.changed(
                "RPD753", path, f"{name} is the older name of {TOKENS[0]}.", "Nothing to do."
            )
        return
    draft.put(
        "huggingface.existingSecret.name",
        _DEFAULT,
        f'kubectl -n {original.namespace} create secret generic {_DEFAULT} --from-literal=HF_TOKEN="$HF_TOKEN"',
    )
    draft.lost(
        "RPD754",
        path,
        "The token is written out here, in clear text; the values name a Secret in its place.",
        f"Make the Secret: `kubectl -n {original.namespace} create secret generic {_DEFAULT} "
        '--from-literal=HF_TOKEN="$HF_TOKEN"`; and a new token, because this one was readable.',
    )


def scrub(draft: Draft) -> None:
    """Takes out of the values whatever looks like a secret."""
    for path, value in reversed(list(leaves(draft.values))):  # places in lists stay as they are
        name = str(path[-1])
        if name == "value" and (holder := _holder(draft.values, path)):
            name = holder
        if not isinstance(value, str) or not is_secret(name, value):
            continue
        cut(draft.values, path)
        draft.lost(
            "RPD754",
            dotted(path),
            "What the manifest has here looks like a secret in clear text and was left out.",
            "A Secret, and in the values a map with `valueFrom.secretKeyRef` where it is a variable.",
        )


def _holder(values: Any, path: tuple[str | int, ...]) -> str:
    """The name of the list entry that a `value` belongs to."""
    node = values
    for key in path[:-1]:
        node = node[key]
    return str(mapping(node).get("name", ""))
