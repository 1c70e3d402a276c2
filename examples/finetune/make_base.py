"""Makes a stand-in for a model of the hub: python make_base.py FOLDER [STEPS]

A Llama of 0.12 million parameters, which has learned to write digits backwards: 3142<2413.
"""

import random
import sys

import torch
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHARACTERS = ("pad", "end", *"0123456789<>")  # a token each

if __name__ == "__main__":
    folder, n_steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300
    words = Tokenizer(WordLevel({name: n for n, name in enumerate(CHARACTERS)}, unk_token="pad"))
    words.pre_tokenizer = Split(Regex("."), "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="pad", eos_token="end")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    draw = random.Random(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=len(CHARACTERS), hidden_size=64, intermediate_size=128, num_hidden_layers=3,
        num_attention_heads=4, max_position_embeddings=64, tie_word_embeddings=True,
        pad_token_id=0, bos_token_id=None, eos_token_id=1,
    ))  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(n_steps):
        digits = ["".join(draw.choices("0123456789", k=6)) for _ in range(64)]
        token_BT = torch.tensor(tokenizer([f"{text}<{text[::-1]}" for text in digits])["input_ids"])
        optimizer.zero_grad()
        model(input_ids=token_BT, labels=token_BT).loss.backward()
        optimizer.step()
    model.save_pretrained(folder, max_shard_size="200KB")  # several files, as of a large model
