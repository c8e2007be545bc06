"""YAML as Kubernetes and Helm write it, read fast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """libyaml where it is there. A plain `=`, which YAML 1.1 reserves and PyYAML refuses
    (yaml/pyyaml issue 89), is a string.
    """


_Loader.add_constructor("tag:yaml.org,2002:value", _Loader.construct_yaml_str)


def load(text: str) -> Any:
    """The one document in `text`. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_Loader)


def load_all(text: str) -> Iterator[Any]:
    """Every document in `text`. Raises yaml.YAMLError."""
    return yaml.load_all(text, Loader=_Loader)
