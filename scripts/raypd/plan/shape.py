"""The shape of a model, from its config.json: parameters, bytes of weights, KV and state.

The keys are Hugging Face's. Norms and biases are left out: together under 0.2 % of any model here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from raypd.report import UsageError

Config = dict[str, Any]

_BITS = {"float32": 32.0, "float16": 16.0, "bfloat16": 16.0}
_ATTENTION = {"full_attention", "attention", "sliding_attention", "chunked_attention"}
_MOST = 10**9  # no width, length or count of a model comes near it
# Keys of architectures whose layers are arranged in a way that is not read here.
_NOT_READ = (
    "hybrid_override_pattern",  # Nemotron-H
    "attn_layer_period",  # Jamba
    "block_types",
    "ssm_cfg",
    "linear_attn_config",  # Kimi Linear
    "attn_type_list",  # MiniMax-01
    "attn_layer_indices",  # Bamba
    "mamba_d_ssm",  # Falcon-H1
    "hybrid_layer_ids",  # Zamba 2
)
# Transformers leaves a setting out of config.json where it is the class's default; these tie by default.
_TIED_BY_DEFAULT = ("gemma", "cohere")


@dataclass(frozen=True)
class ModelShape:
    """What the plan needs to know of a model. Sizes count numbers, not bytes, unless they say so.

    `kv_width` is what one layer keeps for one token: 2 x KV heads x head size, or the latent of MLA,
    which is the same on every card of a tensor-parallel engine (`kv_shared`). `state_bytes` are those
    of one request in all state layers. `rest` are parameters outside embeddings and routed experts.
    """

    name: str
    attention: str
    layers: int
    attention_layers: int
    hidden: int
    heads: int
    kv_heads: int
    score_width: int
    kv_width: int
    kv_shared: bool
    state_bytes: int
    vocabulary: int
    embedding: int
    embeddings: int
    rest: int
    experts: int
    experts_per_token: int
    expert_parameters: int
    vision: int
    active_width: int
    max_context: int
    bits_rest: float
    bits_experts: float
    bits_plain: float
    notes: tuple[str, ...] = field(default=())

    @property
    def parameters(self) -> int:
        """All of the language model's."""
        return self.embedding * self.embeddings + self.rest + self.expert_parameters

    @property
    def routed_part(self) -> float:
        """Part of the routed experts that one token uses; 1 for a dense model."""
        return self.experts_per_token / self.experts if self.experts else 1.0

    @property
    def computed(self) -> float:
        """Parameters that one token of a prompt is multiplied with: no embedding, its experts alone."""
        return self.rest + self.expert_parameters * self.routed_part

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights on all cards of an engine together, vision encoder included."""
        plain = (self.embedding * self.embeddings + self.vision) * self.bits_plain
        return (plain + self.rest * self.bits_rest + self.expert_parameters * self.bits_experts) / 8

    def touched_experts(self, batch: float) -> float:
        """Part of the routed experts that a batch reads when each token picks its own at random."""
        return 1 - (1 - self.routed_part) ** batch if self.experts else 0.0


def kv_bytes_per_token(shape: ModelShape, kv_bytes: float = 2) -> float:
    """Bytes of KV that one token leaves in all layers; what the wire carries for it."""
    return shape.attention_layers * shape.kv_width * kv_bytes


def request_bytes(shape: ModelShape, tokens: float, kv_bytes: float = 2) -> float:
    """Bytes that a request of so many tokens keeps, and a prompt of so many moves."""
    return tokens * kv_bytes_per_token(shape, kv_bytes) + shape.state_bytes


class _Reader:
    """Takes keys of a config, and collects what is wrong with them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.problems: list[str] = []

    def has(self, *names: str) -> bool:
        return any(self.config.get(name) is not None for name in names)

    def whole(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """A whole number under the first of `names` that is set."""
        for name in names:
            value = self.config.get(name)
            if value is None:
                continue
            if isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MOST:
                return value
            shown = repr(value)[:40]
            self.problems.append(f"`{name}` is {shown}, and must be a whole number from {least} on")
            return least
        if default is None:
            self.problems.append(f"`{names[0]}` is missing")
            return least
        return default


def shape_of(config: Any, name: str) -> ModelShape:
    """The shape that a parsed config.json describes; `name` stands in messages.

    Raises UsageError with everything that is wrong with it in one message.
    """
    if not isinstance(config, dict):
        raise UsageError(f"{name} holds no mapping. Give the config.json of a model.")
    text = next(
        (config[key] for key in ("text_config", "llm_config") if isinstance(config.get(key), dict)),
        config,
    )
    read = _Reader({**{k: v for k, v in config.items() if not isinstance(v, dict)}, **text})
    quantization = config.get("quantization_config") or text.get("quantization_config")
    if config.get("is_encoder_decoder"):
        read.problems.append("it describes an encoder-decoder, which vLLM does not serve this way")
    for key in _NOT_READ:
        if read.has(key):
            read.problems.append(f"`{key}` arranges layers in a way that is not read here")
    shape = _shape(read, name, quantization if isinstance(quantization, dict) else {}, config)
    if read.problems:
        raise UsageError(
            f"{name} does not describe a model that can be planned for: "
            + "; ".join(read.problems)
            + ". Give the config.json of a decoder model as Hugging Face has it."
        )
    return shape


def _shape(read: _Reader, name: str, quantization: Config, whole: Config) -> ModelShape:
    hidden = read.whole("hidden_size")
    layers = read.whole("num_hidden_layers")
    heads = read.whole("num_attention_heads")
    kv_heads = read.whole("num_key_value_heads", default=heads)
    vocabulary = read.whole("vocab_size")
    linear, mamba, attention_layers = _kinds(read, layers)
    attention, score_width, kv_width, shared = _attention(read, hidden, heads, kv_heads)
    state_width, state_bytes = _state(read, hidden, linear, mamba)
    moe_layers, dense_layers, width, inside, per_expert = _feed_forward(read, layers)
    experts = read.whole("num_experts", "num_local_experts", "n_routed_experts", default=0, least=0)
    per_token = read.whole(
        "num_experts_per_tok", "experts_per_token", "num_experts_per_token", default=0, least=0
    )
    if experts and not per_token:
        read.problems.append("`num_experts_per_tok` is missing beside its experts")
    if per_token > experts:
        read.problems.append(f"`num_experts_per_tok` is {per_token} of {experts} experts")
    # Llama 4, which interleaves dense layers, has one shared expert and no key for it.
    unsaid = 1 if read.has("interleave_moe_layer_step") else 0
    shared_width = read.whole("n_shared_experts", default=unsaid, least=0) * per_expert
    shared_width = read.whole("shared_expert_intermediate_size", default=shared_width, least=0)
    rest = (
        attention_layers * attention
        + state_width
        + dense_layers * 3 * hidden * width
        + moe_layers * (experts * hidden + 3 * hidden * shared_width)
    )
    rest_bits, expert_bits, plain, notes = _bits(read, quantization)
    if read.has("sliding_window") and "sliding_attention" in (read.config.get("layer_types") or []):
        notes.append("KV of sliding-window layers is counted at full length: an upper bound")
    kind = "MLA" if shared else ("GQA" if kv_heads < heads else "MHA")
    return ModelShape(
        name=name,
        attention=f"hybrid, {kind}" if linear or mamba else kind,
        layers=layers,
        attention_layers=attention_layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        score_width=score_width,
        kv_width=kv_width,
        kv_shared=shared,
        state_bytes=state_bytes,
        vocabulary=vocabulary,
        embedding=vocabulary * hidden,
        embeddings=1 if _tied(read, whole) else 2,
        rest=rest,
        experts=experts if moe_layers else 0,
        experts_per_token=per_token if moe_layers else 0,
        expert_parameters=moe_layers * experts * inside,
        vision=read.whole("vision_parameters", default=0, least=0),
        active_width=max(width if dense_layers else 0, per_token * per_expert + shared_width),
        max_context=read.whole("max_position_embeddings", default=2**20),
        bits_rest=rest_bits,
        bits_experts=expert_bits,
        bits_plain=plain,
        notes=tuple(notes),
    )


def _tied(read: _Reader, whole: Config) -> bool:
    usual = str(read.config.get("model_type") or "").startswith(_TIED_BY_DEFAULT)
    return bool(read.config.get("tie_word_embeddings", whole.get("tie_word_embeddings", usual)))


def _kinds(read: _Reader, layers: int) -> tuple[int, int, int]:
    """Layers of Gated DeltaNet, of Mamba 2, and of attention."""
    types = read.config.get("layer_types")
    if isinstance(types, list):
        if len(types) != layers:
            read.problems.append(f"`layer_types` names {len(types)} of {layers} layers")
        strange = sorted({str(t) for t in types} - _ATTENTION - {"linear_attention", "mamba"})
        if strange:
            read.problems.append(f"`layer_types` has {', '.join(strange)}, which is not read here")
        linear, mamba = types.count("linear_attention"), types.count("mamba")
        return linear, mamba, len(types) - linear - mamba
    if read.has("linear_num_value_heads"):
        interval = read.whole("full_attention_interval", default=4)
        return layers - layers // interval, 0, layers // interval
    return 0, 0, layers


def _attention(read: _Reader, hidden: int, heads: int, kv_heads: int) -> tuple[int, int, int, bool]:
    """Of one attention layer: parameters, width of queries, KV numbers per token, and whether MLA."""
    if read.has("kv_lora_rank"):
        latent = read.whole("kv_lora_rank")
        rope = read.whole("qk_rope_head_dim")
        plain = read.whole("qk_nope_head_dim")
        value = read.whole("v_head_dim")
        queries = heads * (plain + rope)
        low = read.whole("q_lora_rank", default=0, least=0)
        parameters = low * (hidden + queries) if low else hidden * queries
        parameters += hidden * (latent + rope) + latent * heads * (plain + value)
        parameters += heads * value * hidden
        return parameters, heads * (plain + rope + value) // 2, latent + rope, True
    size = read.whole("head_dim", default=max(hidden // heads, 1))
    gated = 2 if read.config.get("attn_output_gate") else 1
    parameters = hidden * size * (heads * (1 + gated) + 2 * kv_heads)
    return parameters, heads * size, 2 * kv_heads * size, False


def _state(read: _Reader, hidden: int, linear: int, mamba: int) -> tuple[int, int]:
    """Parameters of all state layers, and bytes of one request's state in them."""
    parameters, state = 0, 0
    single = 4 if read.config.get("mamba_ssm_dtype") == "float32" else 2
    if linear:
        key_heads = read.whole("linear_num_key_heads")
        value_heads = read.whole("linear_num_value_heads")
        key_size, value_size = (
            read.whole("linear_key_head_dim"),
            read.whole("linear_value_head_dim"),
        )
        kernel = read.whole("linear_conv_kernel_dim", default=4)
        keys, values = key_heads * key_size, value_heads * value_size
        mixed = 2 * keys + values
        parameters += linear * (
            hidden * (mixed + values + 2 * value_heads) + mixed * kernel + values * hidden
        )
        state += linear * (mixed * (kernel - 1) * 2 + value_heads * key_size * value_size * single)
    if mamba:
        inner = read.whole("mamba_n_heads") * read.whole("mamba_d_head")
        size = read.whole("mamba_d_state")
        groups = read.whole("mamba_n_groups", default=1)
        kernel = read.whole("mamba_d_conv", default=4)
        mixed = inner + 2 * groups * size
        parameters += mamba * (
            hidden * (inner + mixed + read.whole("mamba_n_heads")) + mixed * kernel + inner * hidden
        )
        state += mamba * (mixed * (kernel - 1) * 2 + inner * size * single)
    return parameters, state


def _feed_forward(read: _Reader, layers: int) -> tuple[int, int, int, int, int]:
    """MoE layers, dense layers, width of a dense layer, parameters and width of one expert."""
    hidden = read.whole("hidden_size")
    if not read.has("num_experts", "num_local_experts", "n_routed_experts"):
        return 0, layers, read.whole("intermediate_size"), 0, 0
    expert = read.whole("moe_intermediate_size", "intermediate_size")
    dense = read.whole("first_k_dense_replace", default=0, least=0)
    listed = read.config.get("mlp_only_layers")
    dense += len(listed) if isinstance(listed, list) else 0
    step = read.whole("decoder_sparse_step", "interleave_moe_layer_step", default=1)
    moe = max((layers - dense) // step, 0)
    width = read.whole("intermediate_size_mlp", "intermediate_size") if moe < layers else 0
    return moe, layers - moe, width, 3 * hidden * expert, expert


def _bits(read: _Reader, quantization: Config) -> tuple[float, float, float, list[str]]:
    """Bits of a weight: outside experts, in experts, and where quantization leaves it (embeddings)."""
    dtype = str(read.config.get("dtype") or read.config.get("torch_dtype") or "bfloat16")
    plain = _BITS.get(dtype.removeprefix("torch."), 16.0)
    method = str(quantization.get("quant_method") or "").lower()
    if not method:
        return plain, plain, plain, []
    if method == "mxfp4":  # experts alone; a scale of 8 bits for each 32 weights
        return plain, 4.25, plain, []
    bits = _quantized_bits(method, quantization)
    if bits is None:
        note = f"quantization `{method}` is not known: weights are counted at {plain:.0f} bits"
        return plain, plain, plain, [f"{note}, an upper bound"]
    return bits, bits, plain, []


def _quantized_bits(method: str, quantization: Config) -> float | None:
    if "fp8" in method:
        return 8.0
    if method.startswith(("awq", "gptq")):
        bits, group = quantization.get("bits", 4), quantization.get("group_size", 128)
        if isinstance(bits, int) and isinstance(group, int):
            return bits + (16 + bits) / group if group > 0 else float(bits)
    if method == "compressed-tensors" and isinstance(quantization.get("config_groups"), dict):
        widths = [
            part["weights"]["num_bits"]
            for part in quantization["config_groups"].values()
            if isinstance(part, dict)
            and isinstance(part.get("weights"), dict)
            and isinstance(part["weights"].get("num_bits"), int)
        ]
        return float(max(widths)) if widths else None
    return None
