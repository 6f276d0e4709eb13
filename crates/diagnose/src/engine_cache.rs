//! The cache of keys and values of a rollout engine that is too small for one sequence, by the engine's own figures.

use std::sync::LazyLock;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ascii::ascii;
use oomctl_base::units::Bytes;

/// What an engine says of its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EngineCache {
    /// Tokens of the longest sequence that it plans for.
    pub wanted_tokens: u64,
    /// Tokens that it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_tokens: Option<u64>,
    /// What is missing for one such sequence, where it is said in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_bytes: Option<Bytes>,
}

/// vLLM `worker/worker.py`, 0.2.6 to 0.8, and `v1/core/kv_cache_utils.py` from 0.8 on (the estimate since vllm#16168; `GB` before).
static WORDS: LazyLock<[Regex; 4]> = LazyLock::new(|| {
    let amount = r"\((\d+(?:\.\d+)?\s*Gi?B)";
    [
        r"max\s+seq\s+len\s+\((\d+)\)".to_owned(),
        r"(?:stored\s+in\s+KV\s+cache\s+\(|maximum\s+model\s+length\s+is\s+)(\d+)".to_owned(),
        format!(r"{amount}\s+KV\s+cache\s+is\s*needed"),
        format!(r"available\s+KV\s+cache\s+memory\s+{amount}"),
    ]
    .map(|pattern| {
        Regex::new(&ascii(&pattern)).expect("a constant of this file, compiled by its tests")
    })
});

impl EngineCache {
    /// Reads a message that may stand on several lines; `None` where it says nothing of one sequence.
    pub(super) fn read(lines: &[String]) -> Option<Self> {
        let text = lines.join(" ");
        let [wanted, held, needed, available] = WORDS
            .each_ref()
            .map(|word| Some(word.captures(&text)?.get(1)?.as_str()));
        let gib = |amount: Option<&str>| {
            // Where it says GB it means GiB as well: bytes are divided by 1024 three times.
            let number = amount?.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
            number.parse().ok().map(Bytes::from_gib)
        };
        let wanted_tokens = wanted?.parse().ok()?;
        let held_tokens = held
            .and_then(|n| n.parse().ok())
            .filter(|n| *n < wanted_tokens);
        let missing_bytes = gib(needed)
            .zip(gib(available))
            .and_then(|(needed, available)| needed.0.checked_sub(available.0).map(Bytes));
        (held_tokens.is_some() || missing_bytes.is_some()).then_some(Self {
            wanted_tokens,
            held_tokens,
            missing_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(u64, Option<u64>, Option<f64>)> {
        let cache = EngineCache::read(&[text.to_owned()])?;
        let missing = cache
            .missing_bytes
            .map(|b| (b.gib() * 100.0).round() / 100.0);
        Some((cache.wanted_tokens, cache.held_tokens, missing))
    }

    #[test]
    fn every_wording_is_read() {
        for (text, told) in [
            (
                "ValueError: The model's max seq len (24576) is larger than the maximum number of tokens that can be stored in KV cache (17200). Try increasing",
                (24_576, Some(17_200), None),
            ),
            (
                "ValueError: To serve at least one request with the models's max seq len (40960), (5.63 GiB KV cache is needed, which is larger than the available KV cache memory (3.13 GiB). Based on the available memory, the estimated maximum model length is 22768. Try",
                (40_960, Some(22_768), Some(2.5)),
            ),
            (
                "ValueError: To serve at least one request with the models's max seq len (32768), (2.00 GB KV cache is needed, which is larger than the available KV cache memory (0.75 GB). Try",
                (32_768, None, Some(1.25)),
            ),
        ] {
            assert_eq!(read(text), Some(told), "{text}");
        }
    }

    #[test]
    fn figures_that_contradict_each_other_are_none() {
        assert_eq!(read("max seq len (100), stored in KV cache (200)"), None);
        assert_eq!(read("No available memory for the cache blocks."), None);
    }
}
