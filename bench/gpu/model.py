"""Makes a model that is real in shape and has no weights: vLLM fills in random ones (loadFormat: dummy).

    python3 model.py FOLDER [KEY=NUMBER ...]     (needs tokenizers and transformers)

The shape is Qwen3-8B's (https://huggingface.co/Qwen/Qwen3-8B/blob/main/config.json); KEY=NUMBER changes
a key of config.json. The tokenizer has a word for each number of the vocabulary, so that prompts of
random tokens have exactly the length that was asked for, and needs no network.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

SHAPE = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}


def main(folder: Path, changes: dict[str, int]) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    shape = {**SHAPE, **changes}
    words = ["<|endoftext|>", *(f"w{number}" for number in range(1, shape["vocab_size"]))]
    tokenizer = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<|endoftext|>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    end = words[0]
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, pad_token=end)
    fast.chat_template = "{% for message in messages %}{{ message.content }} {% endfor %}"
    folder.mkdir(parents=True, exist_ok=True)
    fast.save_pretrained(folder)
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        **shape,
        "hidden_act": "silu",
        "attention_bias": False,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "eos_token_id": 0,
        "pad_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main(
        Path(sys.argv[1]), {k: int(v) for k, _, v in (word.partition("=") for word in sys.argv[2:])}
    )
