"""Models, instance types: what the chart's tables and the plan's own know, and files that are given."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

from raypd.data import load
from raypd.plan.shape import Config
from raypd.report import UsageError

_KEYS = {
    "num_hidden_layers": "layers",
    "num_attention_heads": "attentionHeads",
    "num_key_value_heads": "kvHeads",
    "head_dim": "headDim",
    "max_position_embeddings": "maxModelLen",
}


def config_of(name: str, models: dict[str, Any]) -> Config | None:
    """The config.json of a model that the chart's table and the plan's know; None for another."""
    facts, more = models.get(name), load("plan/models.yaml").get(name)
    if facts is None or more is None:
        return None
    state_layers = facts["layers"] - facts["attentionLayers"]
    types = ["full_attention"] * facts["attentionLayers"] + ["linear_attention"] * state_layers
    return {
        **{key: facts[fact] for key, fact in _KEYS.items()},
        **({"layer_types": types} if state_layers else {}),
        **more,
    }


def find_config(model: str, models: dict[str, Any]) -> Config:
    """The config of `model`: a name of the tables, a config.json, or a folder that holds one.

    Raises UsageError for a file that cannot be read and for a name that nobody knows.
    """
    if (known := config_of(model, models)) is not None:
        return known
    path = Path(model)
    if path.is_dir():
        path /= "config.json"
    if path.is_file():
        return read_config(path)
    near = difflib.get_close_matches(model, load("plan/models.yaml"), n=3, cutoff=0.5)
    meant = f" Near it: {', '.join(near)}." if near else ""
    raise UsageError(
        f"{model} is neither a model that is known nor a file.{meant} Any model can be planned for by "
        "its config.json: download it from Hugging Face and give its path."
    )


def read_config(path: Path) -> Config:
    """A config.json from disk. Raises UsageError."""
    try:
        parsed = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{path} is not JSON: {error}. Give the config.json of a model, as Hugging Face has it."
        ) from error
    if not isinstance(parsed, dict):
        raise UsageError(f"{path} holds no mapping. Give the config.json of a model.")
    return parsed


def with_values(config: Config, dtype: str, quantization: str) -> Config:
    """The config as the chart's `model.dtype` and `model.quantization` would load it."""
    changed = dict(config)
    if dtype != "auto":
        changed["dtype"] = dtype
    if quantization and not config.get("quantization_config"):
        changed["quantization_config"] = {"quant_method": quantization}
    return changed
