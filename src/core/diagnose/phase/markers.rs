//! The needles of the table of frames, looked for all at once.

use std::sync::LazyLock;

use super::frames::{FRAMES, Row};
use crate::core::diagnose::sieve::rarest_quad;

/// Bytes of a needle by which it is looked for.
const QUAD: usize = 4;

/// What stands for a needle: four bytes of its beginning, and where in it they stand.
#[derive(Debug, Clone, Copy)]
struct Quad {
    bytes: u32,
    at: usize,
    row: usize,
    needle: &'static str,
}

/// All needles, by their quads.
struct Markers {
    /// A bit for each value of [`hash`]: most of what stands in a line has none.
    marks: Vec<u64>,
    /// Sorted by their bytes.
    quads: Vec<Quad>,
}

static MARKERS: LazyLock<Markers> = LazyLock::new(|| {
    let rows = FRAMES.iter().enumerate();
    let needles = rows.flat_map(|(row, r)| r.needles.split(" | ").map(move |n| (row, n)));
    let quad = |(row, needle): (usize, &'static str)| {
        let beginning = parts(needle).0.as_bytes();
        let at = rarest_quad(beginning);
        Some(Quad {
            bytes: u32::from_le_bytes(*beginning[at..].first_chunk::<QUAD>()?),
            at,
            row,
            needle,
        })
    };
    let mut quads: Vec<Quad> = needles.filter_map(quad).collect();
    quads.sort_by_key(|quad| quad.bytes);
    let mut marks = vec![0; 1 << 10];
    for quad in &quads {
        let hash = hash(quad.bytes);
        marks[hash >> 6] |= 1 << (hash & 63);
    }
    Markers { marks, quads }
});

fn hash(quad: u32) -> usize {
    (quad.wrapping_mul(0x9e37_79b1) >> 16) as usize
}

/// The heaviest row of which a needle stands in the line, among equals the last.
pub(super) fn heaviest(line: &str) -> Option<&'static Row> {
    let Markers { marks, quads } = &*MARKERS;
    let order = |row: usize| (FRAMES[row].weight, row);
    let mut heaviest: Option<usize> = None;
    let mut bytes = 0;
    for (end, byte) in (1..).zip(line.as_bytes()) {
        bytes = bytes >> 8 | u32::from(*byte) << 24;
        let hash = hash(bytes);
        if marks[hash >> 6] >> (hash & 63) & 1 == 0 {
            continue;
        }
        let first = quads.partition_point(|quad| quad.bytes < bytes);
        for quad in quads[first..].iter().take_while(|q| q.bytes == bytes) {
            if end >= quad.at + QUAD
                && heaviest.is_none_or(|h| order(quad.row) > order(h))
                && fits(quad.needle, line)
            {
                heaviest = Some(quad.row);
            }
        }
    }
    heaviest.map(|row| &FRAMES[row])
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
        let rows = FRAMES.iter().enumerate();
        let needles = rows.flat_map(|(row, r)| r.needles.split(" | ").map(move |n| (row, n)));
        for (row, needle) in needles {
            assert!(parts(needle).0.len() >= QUAD, "{needle}");
            let line = format!("x{}", needle.replace('*', " ").trim_end_matches('$'));
            let found = heaviest(&line).expect(needle);
            assert!(found.weight >= FRAMES[row].weight, "{needle}");
        }
        assert!(heaviest("a sentence about the weather, and nothing else").is_none());
    }
}
