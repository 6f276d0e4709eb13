//! The cache of keys and values of a rollout engine, by the engine's own figures: of its start, and of its refusal to start where
//! the cache is too small for one sequence.

use std::sync::LazyLock;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ascii::compiled;
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
    /// What it has, where it is said in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<Bytes>,
    /// Tokens that its swap space in host memory holds, where it has one (vLLM until 0.8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swapped_tokens: Option<u64>,
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
    .map(|pattern| compiled(&pattern))
});

/// vLLM's lines about a cache that it made: `v1/worker/gpu_worker.py` and `worker/worker.py`; `v1/core/kv_cache_utils.py` and
/// `executor/executor_base.py`; `executor/gpu_executor.py` until 0.6, then `executor_base.py` until 0.8.
static STARTS: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    [
        r"(?:Available KV cache memory: |reserved for KV Cache is )(\d+(?:\.\d+)? ?Gi?B)",
        r"Maximum concurrency for ([\d,]+) tokens per request: (\d+(?:\.\d+)?)x",
        r"# (?:GPU|cuda) blocks: (\d+), # CPU blocks: (\d+)",
    ]
    .map(compiled)
});

/// What stands in such a line.
pub(crate) const STARTING: [&str; 4] = [
    "Available KV cache memory: ",
    "reserved for KV Cache is ",
    "Maximum concurrency for ",
    "# CPU blocks: ",
];

/// Where it says GB it means GiB as well: bytes are divided by 1024 three times.
fn gib(amount: &str) -> Option<Bytes> {
    let number = amount.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    number.parse().ok().map(Bytes::from_gib)
}

/// What an engine printed while it started.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct StartedCache {
    bytes: Option<Bytes>,
    /// Tokens of the longest sequence, and a hundred times as many of these as there is room for.
    sequences: Option<(u64, u64)>,
    /// Blocks on the GPU and in host memory.
    blocks: Option<(u64, u64)>,
}

impl StartedCache {
    /// Takes a line that may be one of them.
    pub(crate) fn see(&mut self, text: &str) {
        if !STARTING.iter().any(|literal| text.contains(literal)) {
            return;
        }
        let [bytes, sequences, blocks] = STARTS.each_ref().map(|line| line.captures(text));
        let numbers = |found: &regex::Captures<'_>| {
            let plain = found[1].replace(',', "");
            Some((plain.parse::<u64>().ok()?, found[2].parse::<f64>().ok()?))
        };
        let bytes = bytes.and_then(|found| gib(&found[1]));
        let sequences = sequences.and_then(|found| numbers(&found));
        let blocks = blocks.and_then(|found| numbers(&found));
        self.bytes = bytes.or(self.bytes);
        let hundredths = |(tokens, times): (u64, f64)| (tokens, (times * 100.0).round() as u64);
        self.sequences = sequences.map(hundredths).or(self.sequences);
        let whole = |(gpu, host): (u64, f64)| (gpu, host as u64);
        self.blocks = blocks.map(whole).or(self.blocks);
    }

    /// The cache that it made; `None` where it did not say for how many sequences.
    pub(crate) fn made(&self) -> Option<EngineCache> {
        let (wanted_tokens, hundredths) = self.sequences?;
        let held = wanted_tokens.checked_mul(hundredths)? / 100;
        Some(EngineCache {
            wanted_tokens,
            held_tokens: Some(held),
            missing_bytes: None,
            cache_bytes: self.bytes,
            swapped_tokens: self.swapped(held),
        })
    }

    fn swapped(&self, held: u64) -> Option<u64> {
        let (gpu, host) = self.blocks.filter(|(_, host)| *host > 0)?;
        held.checked_mul(host)?.checked_div(gpu)
    }
}

impl EngineCache {
    /// Reads a message that may stand on several lines, with what was printed before it; `None` where it says nothing of one
    /// sequence.
    pub(super) fn read(lines: &[String], started: &StartedCache) -> Option<Self> {
        let text = lines.join(" ");
        let [wanted, held, needed, available] = WORDS
            .each_ref()
            .map(|word| Some(word.captures(&text)?.get(1)?.as_str()));
        let wanted_tokens = wanted?.parse().ok()?;
        let held_tokens = held
            .and_then(|n| n.parse().ok())
            .filter(|n| *n < wanted_tokens);
        let cache_bytes = available.and_then(gib);
        let missing_bytes = needed
            .and_then(gib)
            .zip(cache_bytes)
            .and_then(|(needed, available)| needed.0.checked_sub(available.0).map(Bytes));
        (held_tokens.is_some() || missing_bytes.is_some()).then_some(Self {
            wanted_tokens,
            held_tokens,
            missing_bytes,
            cache_bytes,
            swapped_tokens: held_tokens.and_then(|held| started.swapped(held)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(u64, Option<u64>, Option<f64>)> {
        let cache = EngineCache::read(&[text.to_owned()], &StartedCache::default())?;
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
    fn a_cache_that_was_made_is_read() {
        let mut started = StartedCache::default();
        for line in [
            "INFO 09-18 11:02:41 [gpu_worker.py:642] Available KV cache memory: 3.00 GiB",
            "INFO 09-18 11:02:41 [kv_cache_utils.py:1631] GPU KV cache size: 150,000 tokens",
            "INFO 09-18 11:02:41 [kv_cache_utils.py:1636] Maximum concurrency for 120,000 tokens per request: 1.25x",
        ] {
            started.see(line);
        }
        let made = started.made().unwrap();
        assert_eq!(
            (made.wanted_tokens, made.held_tokens, made.cache_bytes),
            (120_000, Some(150_000), Some(Bytes::from_gib(3.0)))
        );
        started.see("GPU KV cache size: 60,000 tokens, Maximum concurrency for 60,000 tokens per request: 2.00x");
        assert_eq!(started.made().unwrap().held_tokens, Some(120_000));
        let mut old = StartedCache::default();
        old.see("INFO 04-11 09:12:20 gpu_executor.py:94] # GPU blocks: 500, # CPU blocks: 1000");
        old.see("the rest of the memory reserved for KV Cache is 3.91GiB.");
        assert!(old.made().is_none());
        let refused = "The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (8000).";
        let cache = EngineCache::read(&[refused.to_owned()], &old).unwrap();
        assert_eq!(cache.swapped_tokens, Some(16_000));
    }

    #[test]
    fn figures_that_contradict_each_other_are_none() {
        assert_eq!(read("max seq len (100), stored in KV cache (200)"), None);
        assert_eq!(read("No available memory for the cache blocks."), None);
    }
}
