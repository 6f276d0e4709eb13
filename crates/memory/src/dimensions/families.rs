//! What the families of models have in common and their `config.json` does not say: defaults of the classes in
//! Hugging Face transformers 4.57 (`models/*/configuration_*.py`, `modeling_*.py`).

use oomctl_base::word_list;

/// Which linear layers have a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bias {
    None,
    /// Queries, keys and values.
    Inputs,
    /// All of the attention.
    Attention,
    /// All of attention and MLP.
    All,
}

/// Norms of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadNorms {
    None,
    /// One weight for each number of a head, shared by all heads.
    Shared,
    /// One weight for each number of all heads.
    Whole,
}

/// What a family of models has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family {
    /// Values of `model_type`.
    pub names: &'static [&'static str],
    /// `tie_word_embeddings` where the file does not say.
    pub tied: bool,
    /// Three matrices in the MLP instead of two.
    pub gated: bool,
    /// Biases where the file does not say.
    pub bias: Bias,
    /// What `attention_bias: true` means.
    pub attention_bias: Bias,
    /// Weights of the norms of a layer, over the width.
    pub norms: f64,
    /// Weights behind the last layer, over the width.
    pub last: f64,
    /// Norms of queries and keys.
    pub head_norms: HeadNorms,
    /// Learned positions, beyond the longest sequence; `None` for a family that has none.
    pub positions: Option<f64>,
    /// The MLP is so many times as wide as the model where the file does not say.
    pub expansion: Option<f64>,
    /// The output projection has a bias.
    pub head_bias: bool,
    /// Shared experts where the file does not say.
    pub shared: f64,
    /// Heads, key and value heads, width of a head, and words where the file does not say.
    pub sizes: Option<[f64; 4]>,
}

/// A decoder in the manner of Llama, and what is assumed of a family that is not known.
pub(super) const PLAIN: Family = Family {
    names: &word_list::<6>("llama mistral ministral3 mixtral internlm2 granite"),
    tied: false,
    gated: true,
    bias: Bias::None,
    attention_bias: Bias::Attention,
    norms: 2.0,
    last: 1.0,
    head_norms: HeadNorms::None,
    positions: None,
    expansion: None,
    head_bias: false,
    shared: 0.0,
    sizes: None,
};

/// A decoder in the manner of GPT: layer norms with biases, an MLP of two matrices.
const CLASSIC: Family = Family {
    names: &["gpt2"],
    tied: true,
    gated: false,
    bias: Bias::All,
    norms: 4.0,
    last: 2.0,
    positions: Some(0.0),
    expansion: Some(4.0),
    ..PLAIN
};

const FAMILIES: &[Family] = &[
    PLAIN,
    Family {
        names: &word_list::<6>("qwen2 qwen2_moe qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text"),
        bias: Bias::Inputs,
        ..PLAIN
    },
    Family {
        names: &["qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text"],
        head_norms: HeadNorms::Shared,
        ..PLAIN
    },
    Family {
        names: &["smollm3", "gemma"],
        tied: true,
        ..PLAIN
    },
    Family {
        names: &["gemma2"],
        tied: true,
        norms: 4.0,
        ..PLAIN
    },
    Family {
        names: &["gemma3_text"],
        tied: true,
        norms: 4.0,
        head_norms: HeadNorms::Shared,
        sizes: Some([8.0, 4.0, 256.0, 262_208.0]),
        ..PLAIN
    },
    Family {
        names: &word_list::<6>("phi3 phimoe deepseek_v2 deepseek_v3 kimi_k2 gpt_oss"),
        ..PLAIN
    },
    Family {
        names: &["phi"],
        tied: false,
        norms: 2.0,
        positions: None,
        head_bias: true,
        ..CLASSIC
    },
    Family {
        names: &["glm", "glm4_moe"],
        attention_bias: Bias::Inputs,
        ..PLAIN
    },
    Family {
        names: &["glm4"],
        attention_bias: Bias::Inputs,
        norms: 4.0,
        ..PLAIN
    },
    Family {
        names: &["llama4_text"],
        shared: 1.0,
        ..PLAIN
    },
    Family {
        names: &["olmo"],
        norms: 0.0,
        last: 0.0,
        ..PLAIN
    },
    Family {
        names: &["olmo2", "olmo3", "olmoe"],
        head_norms: HeadNorms::Whole,
        ..PLAIN
    },
    Family {
        names: &["cohere", "cohere2"],
        tied: true,
        norms: 1.0,
        ..PLAIN
    },
    Family {
        names: &["stablelm"],
        norms: 4.0,
        last: 2.0,
        ..PLAIN
    },
    CLASSIC,
    Family {
        names: &["gpt_bigcode", "gpt_neo"],
        ..CLASSIC
    },
    Family {
        names: &["gptj"],
        tied: false,
        norms: 2.0,
        positions: None,
        head_bias: true,
        ..CLASSIC
    },
    Family {
        names: &["opt"],
        positions: Some(2.0),
        ..CLASSIC
    },
    Family {
        names: &["gpt_neox"],
        tied: false,
        positions: None,
        ..CLASSIC
    },
    Family {
        names: &["starcoder2"],
        positions: None,
        ..CLASSIC
    },
    Family {
        names: &["bloom"],
        positions: None,
        last: 4.0,
        ..CLASSIC
    },
    Family {
        names: &["falcon"],
        bias: Bias::None,
        positions: None,
        norms: 2.0,
        ..CLASSIC
    },
    Family {
        names: &["mpt"],
        bias: Bias::None,
        positions: None,
        norms: 2.0,
        last: 1.0,
        ..CLASSIC
    },
];

/// Families that are no decoders, or whose files have the usual names and mean something else by them.
const OTHERS: [&str; 13] = word_list(
    "albert arctic bert dbrx deberta deberta-v2 distilbert electra grok hf_olmo qwen roberta
     xlm-roberta",
);

/// What the class of a decoder is called, in parts.
const DECODERS: [&str; 3] = ["CausalLM", "ConditionalGeneration", "LMHead"];

impl Family {
    /// The family of a `model_type`, and whether it is known.
    pub(super) fn of(model_type: &str) -> (&'static Self, bool) {
        let known = FAMILIES.iter().find(|f| f.names.contains(&model_type));
        known.map_or((&PLAIN, false), |family| (family, true))
    }

    /// True for a `model_type` that cannot be counted.
    pub(super) fn is_other(model_type: &str) -> bool {
        OTHERS.contains(&model_type)
    }

    /// True for a class (`LlamaForCausalLM`) that is a decoder by its name.
    pub(super) fn is_decoder(class: &str) -> bool {
        DECODERS.iter().any(|part| class.contains(part))
    }
}
