//! Memory that is free when a large request comes, but in pieces that are too small for it.
//!
//! How much that is, is a matter of luck: which blocks lie between others in use when the last gradient is allocated
//! depends on all sizes that were asked for before. A run with the same sizes has the same luck, one with other lengths
//! or shards another, larger or smaller (PyTorch, `CUDACachingAllocator`: best fit, split blocks, whole segments given
//! back). So what one attempt had in pieces says nothing of the next.

use std::sync::LazyLock;

use oomctl_memory::Spec;
use oomctl_memory::logistic::SCALE;

/// Spread of what is in pieces, as a logarithm.
const SPREAD: f64 = 0.6;
/// Different lucks there are.
const LUCKS: u32 = 64;
/// Relative difference in tokens or shards from which on a run has other luck.
const OTHER: f64 = 0.05;

/// What luck makes of the middle.
static FACTORS: LazyLock<Vec<f64>> = LazyLock::new(|| (0..LUCKS).map(factor).collect());

/// What may be in pieces in a phase of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fragmentation {
    /// The middle, in bytes.
    pub bytes: f64,
    /// Number of what decides its luck.
    draw: u32,
}

impl Fragmentation {
    /// Of so many bytes in the middle.
    pub fn new(spec: &Spec, bytes: f64) -> Self {
        let sizes = [spec.tokens(), spec.data_parallel, spec.tensor_parallel];
        let mixed = sizes.iter().fold(1, |mixed: u32, size| {
            (mixed ^ step(*size))
                .wrapping_mul(0x9E37_79B1)
                .rotate_left(13)
        });
        Self { bytes, draw: mixed }
    }

    /// In bytes, under the particle with this number.
    pub fn under(&self, particle: u32) -> f64 {
        if self.bytes <= 0.0 {
            return 0.0;
        }
        let mixed = (particle ^ self.draw).wrapping_mul(0x85EB_CA6B);
        let luck = (mixed ^ (mixed >> 15)).wrapping_mul(0xC2B2_AE35) >> 16;
        self.bytes * FACTORS[(luck % LUCKS) as usize]
    }
}

/// Equal for sizes that are about as large.
fn step(size: f64) -> u32 {
    (size.max(1.0).ln() / OTHER).round() as u32
}

/// One of evenly likely factors, about as normal deviates of the logarithm.
fn factor(luck: u32) -> f64 {
    let place = (f64::from(luck) + 0.5) / f64::from(LUCKS);
    (SPREAD * SCALE * (place / (1.0 - place)).ln()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_memory::{MeasurementRow, Profile};

    fn spec(seq_len: f64) -> Spec {
        let row = serde_json::json!({
            "params_b": 7.6, "layers": 28, "hidden": 3584, "heads": 28, "ffn": 18944, "vocab": 152_064,
            "micro_batch": 2, "seq_len": seq_len, "grad_checkpointing": "full", "sharding": "fsdp", "dp": 8,
        });
        let row: MeasurementRow = serde_json::from_value(row).unwrap();
        row.spec(&Profile::default()).unwrap()
    }

    fn lucks(seq_len: f64) -> Vec<f64> {
        let pieces = Fragmentation::new(&spec(seq_len), 1.0);
        (1..=4096).map(|particle| pieces.under(particle)).collect()
    }

    #[test]
    fn the_same_sizes_have_the_same_luck_and_others_another() {
        let (one, again, other) = (lucks(2048.0), lucks(2050.0), lucks(1024.0));
        assert_eq!(one, again);
        let unlucky: Vec<usize> = (0..one.len()).filter(|i| one[*i] > 1.5).collect();
        let still = unlucky.iter().filter(|i| other[**i] > 1.5).count();
        // A quarter is unlucky, and of those a quarter again.
        assert!((800..1300).contains(&unlucky.len()), "{}", unlucky.len());
        assert!(still * 3 < unlucky.len(), "{still} of {}", unlucky.len());
    }

    #[test]
    fn half_of_all_lucks_are_better_than_the_middle() {
        let better = lucks(2048.0).iter().filter(|luck| **luck < 1.0).count();
        assert!((1900..2200).contains(&better), "{better}");
    }
}
