//! Gaps: bytes that are taken out of a line before it is read, and that may stand inside a needle.

use super::is_end;
use crate::clean::removed;

/// Where what is taken out of a text from `at` on ends; `None` where nothing is.
pub(super) fn gap_end(text: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    while let Some(length) = text.get(end..).and_then(removed) {
        end += length;
    }
    (end > at).then_some(end)
}

/// Which bytes stand beside each other in needles.
pub(super) struct Joints {
    /// A bit for each value that [`Joints::key`] gives.
    bits: Vec<u64>,
}

impl Joints {
    pub(super) fn new(needles: impl Iterator<Item = &'static [u8]>) -> Self {
        let mut bits = vec![0; 1 << 10];
        for needle in needles {
            for at in 1..needle.len() {
                let (a, b) = (needle[at - 1], needle[at]);
                let next = needle.get(at + 1);
                for c in next.map_or(0..=255, |c| *c..=*c) {
                    let key = Self::key(a, b, c);
                    bits[key >> 6] |= 1 << (key & 63);
                }
            }
        }
        Self { bits }
    }

    fn key(a: u8, b: u8, c: u8) -> usize {
        let word = u32::from(a) << 16 | u32::from(b) << 8 | u32::from(c);
        (word.wrapping_mul(0x9e37_79b1) >> 16) as usize
    }

    fn has(&self, a: u8, b: u8, c: u8) -> bool {
        let key = Self::key(a, b, c);
        self.bits[key >> 6] >> (key & 63) & 1 == 1
    }

    /// Could a needle stand across the gap between two places?
    pub(super) fn may_join(&self, text: &[u8], gap: usize, end: usize) -> bool {
        let Some(before) = gap.checked_sub(1).map(|at| text[at]) else {
            return false;
        };
        let Some(behind) = text.get(end).filter(|b| !is_end(**b)) else {
            return false;
        };
        if is_end(before) {
            return false;
        }
        match text.get(end + 1) {
            Some(_) if removed(&text[end + 1..]).is_some() => true,
            Some(next) if !is_end(*next) => self.has(before, *behind, *next),
            _ => (0..=255).any(|any| self.has(before, *behind, any)),
        }
    }
}
