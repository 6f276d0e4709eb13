"""Sizes of decoders, as a config.json names them."""


def decoder(kind, hidden, layers, heads, kv_heads, ffn, vocab, **more):
    return {"model_type": kind, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "intermediate_size": ffn, "vocab_size": vocab, "max_position_embeddings": 32768, **more}


LLAMA = decoder("llama", 4096, 32, 32, 8, 14336, 128256, tie_word_embeddings=False)
MISTRAL = decoder("mistral", 4096, 32, 32, 8, 14336, 32000, sliding_window=4096)
GEMMA = decoder("gemma", 3072, 28, 16, 16, 24576, 256000, head_dim=256)
GEMMA2 = decoder("gemma2", 2304, 26, 8, 4, 9216, 256000, head_dim=256, sliding_window=4096)
QWEN2 = decoder("qwen2", 3584, 28, 28, 4, 18944, 152064, tie_word_embeddings=False)
# Qwen-7B's own code is not in transformers: Qwen2's with its sizes.
QWEN = decoder("qwen2", 4096, 32, 32, 32, 11008, 151936, tie_word_embeddings=False)
