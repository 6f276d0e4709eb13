//! The needles of the table of frames, looked for all at once.

use std::sync::LazyLock;

use super::{MARKERS, Marker};
use crate::prefilter::rarest_quad;

/// Bytes of a needle by which it is looked for.
const GRAM: usize = 5;

/// Bytes between two places of a line that are looked at. No needle begins with fewer bytes than cover a gram
/// wherever it stands.
const STRIDE: usize = 2;

/// What stands for a needle: some bytes of its beginning, and where in it they stand. Each has [`STRIDE`].
#[derive(Debug, Clone, Copy)]
struct Gram {
    bytes: u64,
    at: usize,
    row: usize,
    needle: &'static str,
    /// What the needle begins with.
    first: &'static [u8],
}

/// All needles, by their grams.
struct NeedleIndex {
    /// A bit for each value of [`hash`]: most of what stands in a line has none.
    marks: Box<[u64; 1 << 10]>,
    /// By the slot of their bytes.
    grams: Vec<Gram>,
    /// First of `grams` by slot.
    starts: Box<[u16; SLOTS + 1]>,
}

/// Slots of the index over the grams.
const SLOTS: usize = 1 << 11;

static INDEX: LazyLock<NeedleIndex> = LazyLock::new(|| {
    let rows = MARKERS.frames.iter().enumerate();
    let needles = rows.flat_map(|(row, r)| r.contains.iter().map(move |n| (row, n.as_str())));
    let grams = |(row, needle): (usize, &'static str)| {
        let first = parts(needle).0.as_bytes();
        let latest = (first.len() + 1).saturating_sub(GRAM + STRIDE);
        let from = rarest_quad(first).min(latest);
        (from..from + STRIDE).map(move |at| Gram {
            bytes: gram_of(word_of(&first[at..])),
            at,
            row,
            needle,
            first,
        })
    };
    let mut grams: Vec<Gram> = needles.flat_map(grams).collect();
    grams.sort_by_key(|gram| slot(hash(gram.bytes)));
    let before = |s| grams.partition_point(|gram| slot(hash(gram.bytes)) < s);
    let starts = Box::new(std::array::from_fn(|s| {
        u16::try_from(before(s)).unwrap_or(u16::MAX)
    }));
    let mut marks = Box::new([0; 1 << 10]);
    for gram in &grams {
        let hash = hash(gram.bytes);
        marks[hash >> 6] |= 1 << (hash & 63);
    }
    NeedleIndex {
        marks,
        grams,
        starts,
    }
});

/// The gram that a word begins with, as a number.
fn gram_of(word: [u8; 8]) -> u64 {
    u64::from_le_bytes(word) & (u64::MAX >> (64 - 8 * GRAM))
}

/// Up to eight bytes, and zeros behind them.
fn word_of(bytes: &[u8]) -> [u8; 8] {
    std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
}

fn hash(gram: u64) -> usize {
    (gram.wrapping_mul(0xc4cc_b560_b5d4_a61d) >> 48) as usize
}

fn slot(hash: usize) -> usize {
    hash % SLOTS
}

/// The heaviest row of which a needle stands in the line, among equals the last.
pub(super) fn heaviest(line: &str) -> Option<&'static Marker> {
    let NeedleIndex {
        marks,
        grams,
        starts,
    } = &*INDEX;
    let order = |row: usize| (MARKERS.frames[row].weight, row);
    let mut heaviest: Option<usize> = None;
    let text = line.as_bytes();
    for at in (0..text.len()).step_by(STRIDE) {
        let rest = &text[at..];
        let bytes = gram_of(rest.first_chunk().map_or_else(|| word_of(rest), |w| *w));
        let hash = hash(bytes);
        if marks[hash >> 6] >> (hash & 63) & 1 == 0 {
            continue;
        }
        let slot = slot(hash);
        let range = usize::from(starts[slot])..usize::from(starts[slot + 1]);
        for gram in grams[range].iter().filter(|gram| gram.bytes == bytes) {
            let from = at.checked_sub(gram.at);
            if from.is_some_and(|from| text[from..].starts_with(gram.first))
                && heaviest.is_none_or(|h| order(gram.row) > order(h))
                && fits(gram.needle, line)
            {
                heaviest = Some(gram.row);
            }
        }
    }
    heaviest.map(|row| &MARKERS.frames[row])
}

/// What a needle begins with, what follows its `*`, and whether a `$` ends it.
fn parts(needle: &str) -> (&str, Option<&str>, bool) {
    let (needle, at_end) = match needle.strip_suffix('$') {
        Some(needle) => (needle, true),
        None => (needle, false),
    };
    match needle.split_once('*') {
        None => (needle, None, at_end),
        Some((first, last)) => (first, Some(last), at_end),
    }
}

/// Does the line hold the needle? `*` stands for anything, `$` at the end for the end of the line.
pub(super) fn fits(needle: &str, line: &str) -> bool {
    let (first, last, at_end) = parts(needle);
    let rest = match last {
        None => Some((line, first)),
        Some(last) => line.find(first).map(|at| (&line[at + first.len()..], last)),
    };
    rest.is_some_and(|(rest, last)| match at_end {
        true => rest.ends_with(last),
        false => rest.contains(last),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_needle_is_found_wherever_it_stands() {
        let rows = MARKERS.frames.iter().enumerate();
        let needles = rows.flat_map(|(row, r)| r.contains.iter().map(move |n| (row, n.as_str())));
        for (row, needle) in needles {
            assert!(parts(needle).0.len() >= GRAM + STRIDE - 1, "{needle}");
            for before in ["", "x", "xx"] {
                let text = needle.replace('*', " ");
                let line = format!("{before}{}", text.trim_end_matches('$'));
                let found = heaviest(&line).expect(needle);
                assert!(found.weight >= MARKERS.frames[row].weight, "{needle}");
            }
        }
        assert!(heaviest("a sentence about the weather, and nothing else").is_none());
    }
}
