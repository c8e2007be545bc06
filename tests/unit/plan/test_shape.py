"""A model's numbers from its config.json, against published ones; configs that say nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypd.plan.shape import kv_bytes_per_token, request_bytes, shape_of
from raypd.report import UsageError
from unit.plan.samples import DEEPSEEK_V3, MODELS, QWEN3_NEXT, known

DENSE: dict[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("Qwen/Qwen3.5-9B", 32_768),
        ("meta-llama/Llama-3.1-8B-Instruct", 131_072),
        ("Qwen/Qwen2.5-14B-Instruct", 196_608),
        ("meta-llama/Llama-3.1-70B-Instruct", 327_680),
    ],
)
def test_kv_of_a_token(name: str, bytes_per_token: int) -> None:
    assert kv_bytes_per_token(known(name)) == bytes_per_token


def test_the_state_of_a_hybrid_model_is_what_its_connector_registers() -> None:
    assert round(known("Qwen/Qwen3.5-9B").state_bytes / 1e6, 1) == 51.5
    stated = MODELS["Qwen/Qwen3.5-9B"]["statePerRequestMB"]
    assert known("Qwen/Qwen3.5-9B").state_bytes / 1e6 == pytest.approx(stated, abs=0.05)


# Parameters of the language model as Transformers 5 builds it (on the meta device) from these widths.
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Qwen/Qwen3.5-9B", 8_953_803_264),
        ("Qwen/Qwen3-0.6B", 596_049_920),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-32B", 32_762_123_264),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("Qwen/Qwen2.5-14B-Instruct", 14_770_033_664),
        ("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248),
        ("meta-llama/Llama-3.1-70B-Instruct", 70_553_706_496),
        ("openai/gpt-oss-20b", 20_914_757_184),
        ("openai/gpt-oss-120b", 116_829_156_672),
    ],
)
def test_parameters_within_a_thousandth(name: str, parameters: int) -> None:
    assert known(name).parameters == pytest.approx(parameters, rel=1e-3)


@pytest.mark.parametrize(
    ("config", "parameters"), [(DEEPSEEK_V3, 671_026_404_352), (QWEN3_NEXT, 79_674_391_296)]
)
def test_parameters_of_a_config(config: dict[str, Any], parameters: int) -> None:
    assert shape_of(config, "config.json").parameters == pytest.approx(parameters, rel=2e-3)


# Llama 4, cut to what is read. Meta states 109 B (Scout) and 400 B (Maverick), vision encoder included,
# and 17 B active in both, which counts both embeddings.
SCOUT: dict[str, Any] = {
    "hidden_size": 5120,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "interleave_moe_layer_step": 1,
    "num_hidden_layers": 48,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 16,
    "num_experts_per_tok": 1,
    "vocab_size": 202048,
}


@pytest.mark.parametrize(
    ("changed", "billions"),
    [({}, 109), ({"interleave_moe_layer_step": 2, "num_local_experts": 128}, 400)],
)
def test_llama_4_has_a_shared_expert_and_dense_layers_between(
    changed: dict[str, int], billions: int
) -> None:
    shape = shape_of({"text_config": {**SCOUT, **changed}}, "config.json")
    assert shape.parameters / 1e9 == pytest.approx(billions, rel=0.015)
    assert (shape.computed + 2 * shape.embedding) / 1e9 == pytest.approx(17, rel=0.02)


@pytest.mark.parametrize(("model_type", "embeddings"), [("gemma3_text", 1), ("llama", 2)])
def test_a_config_that_leaves_tying_out_means_its_class_default(model_type, embeddings) -> None:
    assert shape_of({**DENSE, "model_type": model_type}, "config.json").embeddings == embeddings
    untied = {**DENSE, "model_type": model_type, "tie_word_embeddings": False}
    assert shape_of(untied, "config.json").embeddings == 2


def test_weights_of_an_mxfp4_checkpoint() -> None:
    """total_size of the two repositories' model.safetensors.index.json."""
    assert known("openai/gpt-oss-20b").weight_bytes == pytest.approx(13_761_264_768, rel=0.005)
    assert known("openai/gpt-oss-120b").weight_bytes == pytest.approx(65_248_815_744, rel=0.005)


def test_mla_keeps_one_latent_for_all_heads() -> None:
    shape = shape_of(DEEPSEEK_V3, "config.json")
    assert kv_bytes_per_token(shape) == 61 * (512 + 64) * 2
    assert shape.attention == "MLA"


def test_a_hybrid_without_layer_types_goes_by_its_interval() -> None:
    shape = shape_of(QWEN3_NEXT, "config.json")
    assert (shape.layers, shape.attention_layers) == (48, 12)
    assert shape.state_bytes > 0


def test_mamba_layers_keep_state() -> None:
    config = {
        **DENSE,
        "layer_types": ["mamba"] * 24 + ["attention"] * 8,
        "mamba_n_heads": 64,
        "mamba_d_head": 64,
        "mamba_d_state": 128,
    }
    shape = shape_of(config, "config.json")
    assert shape.attention_layers == 8
    assert shape.state_bytes == 24 * ((4096 + 2 * 128) * 3 * 2 + 4096 * 128 * 2)


def test_a_picture_model_is_read_by_its_text_config() -> None:
    inside = shape_of({"model_type": "x", "text_config": DENSE}, "config.json")
    assert inside == shape_of(DENSE, "config.json")


@pytest.mark.parametrize(
    ("quantization", "bits"),
    [
        ({"quant_method": "fp8"}, 8),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"a": {"weights": {"num_bits": 8}}},
            },
            8,
        ),
    ],
)
def test_quantized_weights(quantization: dict[str, Any], bits: float) -> None:
    shape = shape_of({**DENSE, "quantization_config": quantization}, "config.json")
    assert (shape.bits_rest, shape.bits_plain, shape.notes) == (bits, 16, ())


def test_an_unknown_quantization_is_counted_in_full_and_said() -> None:
    shape = shape_of({**DENSE, "quantization_config": {"quant_method": "new"}}, "config.json")
    assert shape.bits_rest == 16
    assert "upper bound" in shape.notes[0]


def test_all_that_is_wrong_with_a_config_is_told_at_once() -> None:
    config = {**DENSE, "hidden_size": "wide", "num_hidden_layers": 0, "vocab_size": None}
    with pytest.raises(UsageError) as error:
        shape_of(config, "my/config.json")
    for part in (
        "my/config.json",
        "`hidden_size` is 'wide'",
        "`num_hidden_layers`",
        "`vocab_size` is",
    ):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ([], "no mapping"),
        ({}, "`hidden_size` is missing"),
        ({**DENSE, "is_encoder_decoder": True}, "encoder-decoder"),
        ({**DENSE, "hybrid_override_pattern": "M-M*"}, "`hybrid_override_pattern`"),
        ({**DENSE, "linear_attn_config": {"kda_layers": [1]}}, "`linear_attn_config`"),
        ({**DENSE, "layer_types": ["full_attention"]}, "names 1 of 32"),
        ({**DENSE, "layer_types": ["full_attention"] * 31 + ["retention"]}, "retention"),
        ({**DENSE, "num_experts": 8}, "`num_experts_per_tok`"),
        ({**DENSE, "num_experts": 8, "num_experts_per_tok": 9}, "9 of 8"),
    ],
)
def test_a_config_that_cannot_be_planned_for(config: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("(", r"\(")):
        shape_of(config, "config.json")


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*DENSE, *DEEPSEEK_V3, *QWEN3_NEXT, "layer_types", "text_config", "dtype"]),
        _ANYTHING,
    )
)
def test_a_config_of_any_form_gives_a_shape_or_one_sentence(changed: dict[str, Any]) -> None:
    try:
        shape = shape_of({**DENSE, **changed}, "config.json")
    except UsageError as error:
        assert str(error).startswith("config.json")
    else:
        assert shape.weight_bytes > 0


@settings(deadline=None)
@given(st.integers(0, 200_000), st.integers(1, 200_000))
def test_a_longer_request_keeps_more(tokens: int, more: int) -> None:
    shape = known("Qwen/Qwen3.5-9B")
    assert request_bytes(shape, tokens + more) > request_bytes(shape, tokens) >= shape.state_bytes


@settings(deadline=None)
@given(st.floats(1, 1000), st.floats(0, 1000))
def test_a_larger_batch_touches_more_experts(batch: float, more: float) -> None:
    shape = known("openai/gpt-oss-120b")
    assert shape.routed_part - 1e-9 <= shape.touched_experts(batch) <= 1
    assert shape.touched_experts(batch + more) >= shape.touched_experts(batch)
