"""Models and cards that several tests of the plan use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raypd import yaml_text
from raypd.plan.catalog import config_of
from raypd.plan.engine import Engine, batch_defaults, card_of
from raypd.plan.shape import ModelShape, shape_of

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "ray-pd-llm"
MODELS = yaml_text.load((CHART / "files" / "models.yaml").read_text())
INSTANCES = yaml_text.load((CHART / "files" / "instances.yaml").read_text())

# config.json of models that are not in the tables, cut to what is read.
DEEPSEEK_V3: dict[str, Any] = {
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_shared_experts": 1,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "quantization_config": {"quant_method": "fp8"},
}
QWEN3_NEXT: dict[str, Any] = {
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "attn_output_gate": True,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "full_attention_interval": 4,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
}


def known(name: str) -> ModelShape:
    """The shape of a model of the tables."""
    return shape_of(config_of(name, MODELS), name)


def engine_on(instance: str, tensor: int = 1, pipeline: int = 1, **settings: Any) -> Engine:
    """An engine with vLLM's defaults on cards of an instance type."""
    card = card_of(INSTANCES[instance]["gpu"])
    assert card is not None
    tokens, seqs = batch_defaults(card)
    return Engine(
        card,
        **{
            "tensor": tensor,
            "pipeline": pipeline,
            "batched_tokens": tokens,
            "max_seqs": seqs,
            **settings,
        },
    )
