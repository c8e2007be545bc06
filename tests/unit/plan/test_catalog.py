"""Where models come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raypd.data import load
from raypd.plan import catalog
from raypd.plan.engine import card_of
from raypd.plan.shape import kv_bytes_per_token, shape_of
from raypd.report import UsageError
from unit.plan.samples import DEEPSEEK_V3, INSTANCES, MODELS


def test_every_model_of_the_chart_can_be_planned_for() -> None:
    assert set(MODELS) == set(load("plan/models.yaml"))
    for name, facts in MODELS.items():
        shape = shape_of(catalog.config_of(name, MODELS), name)
        expected = 2 * facts["attentionLayers"] * facts["kvHeads"] * facts["headDim"] * 2
        assert kv_bytes_per_token(shape) == expected


def test_every_gpu_of_the_chart_has_its_figures() -> None:
    gpus = [facts["gpu"] for facts in INSTANCES.values() if facts["gpu"]["count"]]
    assert [gpu for gpu in gpus if card_of(gpu) is None] == []


def test_a_card_that_nobody_knows() -> None:
    assert card_of({"model": "L4", "memoryMiB": 1}) is None


def test_a_config_by_file_and_by_folder(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(DEEPSEEK_V3))
    assert catalog.find_config(str(path), MODELS) == DEEPSEEK_V3
    assert catalog.find_config(str(tmp_path), MODELS) == DEEPSEEK_V3


def test_a_name_that_is_nearly_right() -> None:
    with pytest.raises(UsageError, match=r"Qwen/Qwen3-8B.*config\.json"):
        catalog.find_config("Qwen/Qwen3-8b", MODELS)


@pytest.mark.parametrize(
    ("text", "says"), [("{", "is not JSON"), ("[1, 2]", "no mapping"), ("\xff", "is not JSON")]
)
def test_a_config_file_that_is_none(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=says) as error:
        catalog.find_config(str(path), MODELS)
    assert str(path) in str(error.value)


def test_values_say_how_weights_are_loaded() -> None:
    config = catalog.config_of("Qwen/Qwen3-8B", MODELS)
    assert config is not None
    whole = shape_of(catalog.with_values(config, "bfloat16", ""), "x")
    quantized = shape_of(catalog.with_values(config, "bfloat16", "fp8"), "x")
    double = shape_of(catalog.with_values(config, "float32", ""), "x")
    assert quantized.weight_bytes < whole.weight_bytes
    assert double.weight_bytes == 2 * whole.weight_bytes
