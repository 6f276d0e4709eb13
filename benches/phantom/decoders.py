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


def cut(sizes, layers):
    return {**sizes, "num_hidden_layers": layers}


QWEN3_MOE = decoder("qwen3_moe", 2048, 48, 32, 4, 6144, 151936, head_dim=128, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, norm_topk_prob=True,
                    tie_word_embeddings=False)
MIXTRAL = decoder("mixtral", 4096, 32, 32, 8, 14336, 32000, num_local_experts=8, num_experts_per_tok=2, tie_word_embeddings=False)
MODELS = {
    "llama-7b": decoder("llama", 4096, 32, 32, 32, 11008, 32000, tie_word_embeddings=False),
    "qwen2.5-0.5b": decoder("qwen2", 896, 24, 14, 2, 4864, 151936, tie_word_embeddings=True),
    "qwen2.5-1.5b": decoder("qwen2", 1536, 28, 12, 2, 8960, 151936, tie_word_embeddings=True),
    "qwen2.5-7b": QWEN2,
    "llama-3.2-1b": decoder("llama", 2048, 16, 32, 8, 8192, 128256, tie_word_embeddings=True, head_dim=64),
    "llama-3.2-3b": decoder("llama", 3072, 28, 24, 8, 8192, 128256, tie_word_embeddings=True, head_dim=128),
    "llama-3-8b": LLAMA,
    "mistral-7b": MISTRAL,
    "gemma-2b": decoder("gemma", 2048, 18, 8, 1, 16384, 256000, head_dim=256),
    "gemma-7b": GEMMA,
    "qwen2.5-14b": decoder("qwen2", 5120, 48, 40, 8, 13824, 152064, tie_word_embeddings=False),
    "qwen2.5-32b": decoder("qwen2", 5120, 64, 40, 8, 27648, 152064, tie_word_embeddings=False),
    "llama-3-70b": decoder("llama", 8192, 80, 64, 8, 28672, 128256, tie_word_embeddings=False),
    "qwen2.5-72b": decoder("qwen2", 8192, 80, 64, 8, 29568, 152064, tie_word_embeddings=False),
    # Of few layers: a mixture's weights are mostly experts, of which a layer has all.
    "qwen3-30b-a3b-4": cut(QWEN3_MOE, 4),
    "qwen3-30b-a3b-8": cut(QWEN3_MOE, 8),
    "mixtral-8x7b-2": cut(MIXTRAL, 2),
    "mixtral-8x7b-4": cut(MIXTRAL, 4),
}
