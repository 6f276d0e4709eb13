//! Models of the bench: dimensions as the config.json of each says, and the tensors that they are made of.

/// Dimensions of a decoder-only transformer with a gated MLP.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    pub name: &'static str,
    pub layers: u64,
    pub hidden: u64,
    pub intermediate: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub vocab: u64,
    /// One matrix for embedding and head.
    pub tied: bool,
    /// Longest sequence, in tokens.
    pub context: u64,
}

#[expect(clippy::too_many_arguments, reason = "a row of the table below")]
const fn model(
    name: &'static str,
    layers: u64,
    hidden: u64,
    intermediate: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    vocab: u64,
    tied: bool,
    context: u64,
) -> Model {
    Model {
        name,
        layers,
        hidden,
        intermediate,
        heads,
        kv_heads,
        head_dim,
        vocab,
        tied,
        context,
    }
}

/// From 0.5B to 72B, smallest first.
#[rustfmt::skip]
pub const MODELS: [Model; 20] = [
    model("Qwen/Qwen2.5-0.5B-Instruct", 24, 896, 4864, 14, 2, 64, 151_936, true, 32_768),
    model("meta-llama/Llama-3.2-1B", 16, 2048, 8192, 32, 8, 64, 128_256, true, 131_072),
    model("Qwen/Qwen2.5-1.5B-Instruct", 28, 1536, 8960, 12, 2, 128, 151_936, true, 32_768),
    model("Qwen/Qwen3-1.7B", 28, 2048, 6144, 16, 8, 128, 151_936, true, 40_960),
    model("Qwen/Qwen2.5-3B-Instruct", 36, 2048, 11_008, 16, 2, 128, 151_936, true, 32_768),
    model("meta-llama/Llama-3.2-3B", 28, 3072, 8192, 24, 8, 128, 128_256, true, 131_072),
    model("Qwen/Qwen3-4B", 36, 2560, 9728, 32, 8, 128, 151_936, true, 40_960),
    model("mistralai/Mistral-7B-v0.3", 32, 4096, 14_336, 32, 8, 128, 32_768, false, 32_768),
    model("Qwen/Qwen2.5-7B-Instruct", 28, 3584, 18_944, 28, 4, 128, 152_064, false, 32_768),
    model("meta-llama/Llama-3.1-8B", 32, 4096, 14_336, 32, 8, 128, 128_256, false, 131_072),
    model("Qwen/Qwen3-8B", 36, 4096, 12_288, 32, 8, 128, 151_936, false, 40_960),
    model("mistralai/Mistral-Nemo-Instruct-2407", 40, 5120, 14_336, 32, 8, 128, 131_072, false, 131_072),
    model("Qwen/Qwen2.5-14B-Instruct", 48, 5120, 13_824, 40, 8, 128, 152_064, false, 32_768),
    model("Qwen/Qwen3-14B", 40, 5120, 17_408, 40, 8, 128, 151_936, false, 40_960),
    model("mistralai/Mistral-Small-24B-Base-2501", 40, 5120, 32_768, 32, 8, 128, 131_072, false, 32_768),
    model("Qwen/Qwen2.5-32B-Instruct", 64, 5120, 27_648, 40, 8, 128, 152_064, false, 32_768),
    model("Qwen/Qwen3-32B", 64, 5120, 25_600, 64, 8, 128, 151_936, false, 40_960),
    model("01-ai/Yi-34B", 60, 7168, 20_480, 56, 8, 128, 64_000, false, 4096),
    model("meta-llama/Llama-3.1-70B", 80, 8192, 28_672, 64, 8, 128, 128_256, false, 131_072),
    model("Qwen/Qwen2.5-72B-Instruct", 80, 8192, 29_568, 64, 8, 128, 152_064, false, 32_768),
];

impl Model {
    /// Elements of each weight of one layer, in the order of the forward pass.
    pub fn block(&self) -> [u64; 9] {
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let (h, f) = (self.hidden, self.intermediate);
        [h, h * q, h * kv, h * kv, q * h, h, h * f, h * f, f * h]
    }

    /// Elements of each weight outside the layers: embedding, last norm, head where it is its own.
    pub fn root(&self) -> Vec<u64> {
        let table = self.vocab * self.hidden;
        let mut root = vec![table, self.hidden];
        root.extend((!self.tied).then_some(table));
        root
    }

    /// Parameters in all.
    pub fn params(&self) -> u64 {
        let block: u64 = self.block().iter().sum();
        self.layers * block + self.root().iter().sum::<u64>()
    }

    /// Bytes of keys and values of one token, in bf16.
    pub fn kv_bytes(&self) -> u64 {
        2 * self.layers * self.kv_heads * self.head_dim * 2
    }
}
