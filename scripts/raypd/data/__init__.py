"""Facts in files, each with its source; read through `load`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any


@cache
def load(name: str) -> Any:
    """Parsed content of a data file, e.g. `load("rules.yaml")` or `load("contracts/vllm.yaml")`.

    The result is shared between callers: read it, never change it.
    """
    from raypd import yaml_text

    return yaml_text.load(files(__name__).joinpath(name).read_text(encoding="utf-8"))
