"""A checkpoint of a decoder without its weights: names and shapes are there, what follows is a hole in the file, read as zeros."""
import json
import os
import struct


def shapes(sizes):
    """Names and shapes of the tensors of a Llama or a Qwen2."""
    hidden, ffn, heads, shared = (sizes[name] for name in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"))
    head = sizes.get("head_dim", hidden // heads)
    products = {"self_attn.q_proj": (heads * head, hidden), "self_attn.k_proj": (shared * head, hidden), "self_attn.v_proj": (shared * head, hidden),
                "self_attn.o_proj": (hidden, heads * head), "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden), "mlp.down_proj": (hidden, ffn)}
    yield "model.embed_tokens.weight", (sizes["vocab_size"], hidden)
    for layer in range(sizes["num_hidden_layers"]):
        for name, shape in products.items():
            yield "model.layers.%d.%s.weight" % (layer, name), shape
            if sizes["model_type"] == "qwen2" and name[-6:] in ("q_proj", "k_proj", "v_proj"):
                yield "model.layers.%d.%s.bias" % (layer, name), shape[:1]
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield "model.layers.%d.%s.weight" % (layer, name), (hidden,)
    yield "model.norm.weight", (hidden,)
    if not sizes["tie_word_embeddings"]:
        yield "lm_head.weight", (sizes["vocab_size"], hidden)


def write(folder, sizes):
    """The file, in 16 bits."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes(sizes):
        size = 2
        for length in shape:
            size *= length
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
