"""Makes the tiny model: a random Qwen3 that is real in every part but its size.

    python tiny_model.py FOLDER

Runs in the CPU runtime's Python (it needs transformers and tokenizers), never in raypd's own. The
same seed gives the same weights, so that an answer at temperature 0 is the same on every run. Weights
are large enough for every answer to depend on the whole prompt: a lost KV block changes the answer.
"""

import sys
from pathlib import Path

VERSION = 2  # raise it when anything below changes: models are kept by this number

TEXT = (
    "The quick brown fox jumps over the lazy dog while prefill reads the whole prompt once, hands its"
    " keys and values to decode over the wire, and decode writes one word after the other until"
    " someone says that this is enough for a very small model with no idea what it talks about."
)
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def main(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,  # more than the text has merges: every word becomes one token
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)

    torch.manual_seed(20)
    config = Qwen3Config(
        vocab_size=len(fast),
        initializer_range=0.3,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    # Of the vocabulary (all 256 bytes, parts of words, words) only whole words get a score that is
    # not 0, so that the answer is a salad of words and not of broken UTF-8.
    words = {i for token, i in fast.get_vocab().items() if token.startswith("Ġ") and len(token) > 2}
    silent = [i for i in range(len(fast)) if i not in words | {fast.eos_token_id}]
    with torch.no_grad():
        model.lm_head.weight[silent] = 0
    model.save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # the weights are written for their owner alone


if __name__ == "__main__":
    main(Path(sys.argv[1]))
