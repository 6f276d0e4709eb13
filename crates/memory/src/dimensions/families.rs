//! What the families of models have in common and their `config.json` does not say: the rows of `families.yaml`.

use std::sync::LazyLock;

use oomctl_base::word_list;
use serde::Deserialize;

/// Which linear layers have a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HeadNorms {
    None,
    /// One weight for each number of a head, shared by all heads.
    Shared,
    /// One weight for each number of all heads.
    Whole,
}

/// What a family of models has.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Family {
    /// Values of `model_type`.
    pub names: Vec<String>,
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

impl Default for Family {
    fn default() -> Self {
        Self {
            names: Vec::new(),
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
        }
    }
}

/// What is assumed of a family that is not known.
static PLAIN: LazyLock<Family> = LazyLock::new(Family::default);

static FAMILIES: LazyLock<Vec<Family>> = LazyLock::new(|| {
    serde_yaml::from_str(include_str!("families.yaml"))
        .expect("a table of this program, which its tests read")
});

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
        let named = |family: &&Self| family.names.iter().any(|name| name == model_type);
        let known = FAMILIES.iter().find(named);
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
