//! The sieve: which places of a block of text could matter at all, at a few cycles per 64 bytes.
//!
//! Rule: a place that the tables, the frames of a traceback or a progress pattern could have something to
//! say about is never missed; one that is found in vain costs time only.
//!
//! What is looked for are *needles*, all from tables: the literals of the signatures, what announces a
//! phase, what begins a traceback, and a few bytes that every progress line holds. Long ones are found by
//! `grams`, short ones by `pairs`. Bytes that [`unescaped`] takes out can split a needle; where they
//! stand between two bytes that are neighbours in some needle, the line is looked at without them.

mod bars;
mod grams;
mod pairs;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(crate) use bars::{BUILT_IN, Bar, Shown};

use super::clean::{removed, unescaped};
use super::phase::AMBIENT;
use super::signatures::{self, ALSO};
use grams::Grams;
use pairs::Pairs;

/// What a place means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// The line is to be read.
    Read,
    /// It announces a phase: an index into [`AMBIENT`].
    Ambient(u8),
    /// It may show progress.
    Progress(Bar),
}

/// A place that could matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    /// A byte of the line that could matter.
    pub at: usize,
    pub what: What,
}

/// A text that is looked for.
#[derive(Debug, Clone)]
struct Needle {
    text: &'static [u8],
    what: What,
    /// Signatures of which it is a literal.
    entries: Vec<u16>,
}

/// All needles, ready to be looked for.
pub(crate) struct Sieve {
    long: Vec<Needle>,
    grams: Grams,
    short: Vec<Needle>,
    pairs: Pairs,
    /// By pair: the number of its list, 0 for none.
    lists: Vec<u8>,
    /// The short needles that hold a pair, and where in them.
    by_pair: Vec<Vec<(usize, usize)>>,
    joints: Joints,
}

/// The needles of the built-in tables.
pub(crate) static SIEVE: LazyLock<Sieve> = LazyLock::new(|| Sieve::new(needles()));

/// A frame as pytest prints it: `train.py:12: in main`. Its parts are too ordinary to be needles.
const PYTEST_FRAME: &str = ".py:";

fn needles() -> Vec<Needle> {
    let mut by_text: BTreeMap<&'static str, Needle> = BTreeMap::new();
    let mut add = |text: &'static str, what: What, entry: Option<usize>| {
        let needle = by_text.entry(text).or_insert_with(|| Needle {
            text: text.as_bytes(),
            what,
            entries: Vec::new(),
        });
        if what == What::Read {
            needle.what = what;
        }
        let entry = entry.and_then(|e| u16::try_from(e).ok());
        needle.entries.extend(entry);
    };
    for (entry, signature) in signatures::all().enumerate() {
        for literal in signature.literals {
            add(literal, What::Read, Some(entry));
        }
    }
    for text in ALSO {
        add(text, What::Read, None);
    }
    add(PYTEST_FRAME, What::Read, None);
    for (marker, row) in AMBIENT.iter().enumerate() {
        for text in row.needles {
            add(text, What::Ambient(u8::try_from(marker).unwrap_or(0)), None);
        }
    }
    for (text, bar) in bars::HINTS {
        add(text, What::Progress(bar), None);
    }
    by_text.into_values().collect()
}

impl Sieve {
    fn new(needles: Vec<Needle>) -> Self {
        let joints = Joints::new(needles.iter().map(|n| n.text));
        let (long, short): (Vec<Needle>, Vec<Needle>) = needles
            .into_iter()
            .partition(|n| n.text.len() >= grams::LONG);
        let mut by_pair: BTreeMap<[u8; 2], Vec<(usize, usize)>> = BTreeMap::new();
        for (index, needle) in short.iter().enumerate() {
            let at = rarest_pair(needle.text);
            let pair = [needle.text[at], needle.text[at + 1]];
            by_pair.entry(pair).or_default().push((index, at));
        }
        let mut lists = vec![0; 1 << 16];
        for (number, pair) in by_pair.keys().enumerate() {
            lists[pair_number(*pair)] = u8::try_from(number + 1).unwrap_or(u8::MAX);
        }
        let mut pairs: Vec<pairs::Pair> = by_pair
            .keys()
            .map(|pair| pairs::Pair {
                first: pair[0],
                second: Some(pair[1]),
            })
            .collect();
        pairs.push(pairs::Pair {
            first: 0,
            second: None,
        });
        pairs.push(pairs::Pair {
            first: b'^',
            second: Some(b'['),
        });
        Self {
            grams: Grams::new(long.iter().map(|n| n.text).collect()),
            pairs: Pairs::new(&pairs),
            long,
            short,
            lists,
            by_pair: std::iter::once(Vec::new())
                .chain(by_pair.into_values())
                .collect(),
            joints,
        }
    }

    /// The short needles whose pair stands at a place: each with where it would begin.
    fn at_pair(&self, text: &[u8], at: usize) -> impl Iterator<Item = (&Needle, usize)> {
        let pair = [text[at], text.get(at + 1).copied().unwrap_or(b'\n')];
        let list = &self.by_pair[usize::from(self.lists[pair_number(pair)])];
        list.iter().filter_map(move |(index, offset)| {
            let needle = &self.short[*index];
            let from = at.checked_sub(*offset)?;
            let rest = text[from..].strip_prefix(needle.text)?;
            let fits = needle.text != PYTEST_FRAME.as_bytes() || pytest_frame(rest);
            fits.then_some((needle, from))
        })
    }

    /// Fills `hits` with the places of a text that could matter, in order, and returns how many newlines
    /// there are. The text begins at the beginning of a line or of a window of one.
    pub(crate) fn search(&self, text: &[u8], hits: &mut Vec<Hit>) -> usize {
        hits.clear();
        self.grams.find(text, &mut |needle, at| {
            let what = self.long[usize::from(needle)].what;
            hits.push(Hit { at, what });
        });
        let from_grams = hits.len();
        let newlines = self.pairs.find(text, |at| {
            for (needle, from) in self.at_pair(text, at) {
                hits.push(Hit {
                    at: from,
                    what: needle.what,
                });
            }
            let gap = if text[at] == pairs::ESCAPE || text.get(at + 1) != Some(&pairs::ESCAPE) {
                at
            } else {
                at + 1
            };
            let Some(end) = gap_end(text, gap) else {
                return at + 1;
            };
            if self.joints.may_join(text, gap, end) && self.joined(text, gap) {
                hits.push(Hit {
                    at,
                    what: What::Read,
                });
            }
            end
        });
        if from_grams > 0 && from_grams < hits.len() {
            // Two runs in order, which this sort merges.
            hits.sort_by_key(|hit| hit.at);
        }
        newlines
    }

    /// Does a needle stand across a gap when it is closed?
    fn joined(&self, text: &[u8], at: usize) -> bool {
        /// How much is looked at on each side: more than a needle and the gaps in it.
        const SIDE: usize = 512;
        let (before, behind) = text.split_at(at);
        let before = &before[before.len().saturating_sub(SIDE)..];
        let from = memchr::memrchr2(b'\n', b'\r', before).map_or(0, |end| end + 1);
        let behind = &behind[..behind.len().min(SIDE)];
        let to = memchr::memchr2(b'\n', b'\r', behind).unwrap_or(behind.len());
        let mut closed = unescaped(&before[from..]);
        let gap = closed.len();
        closed.extend(unescaped(&behind[..to]));
        let mut joined = false;
        let mut across = |needle: &Needle, from: usize| {
            joined |= from < gap && gap < from + needle.text.len();
        };
        self.grams.find(&closed, &mut |needle, from| {
            across(&self.long[usize::from(needle)], from)
        });
        self.pairs.find(&closed, |at| {
            self.at_pair(&closed, at)
                .for_each(|(needle, from)| across(needle, from));
            at + 1
        });
        joined
    }

    /// The signatures of which a literal stands in a text, each with the first place of one, in order.
    pub(crate) fn entries(&self, text: &str) -> Vec<(usize, usize)> {
        let text = text.as_bytes();
        let mut found: Vec<(usize, usize)> = Vec::new();
        let mut note = |needle: &Needle, at: usize| {
            found.extend(needle.entries.iter().map(|entry| (usize::from(*entry), at)));
        };
        self.grams.find(text, &mut |needle, at| {
            note(&self.long[usize::from(needle)], at)
        });
        self.pairs.find(text, |at| {
            for (needle, from) in self.at_pair(text, at) {
                note(needle, from);
            }
            at + 1
        });
        found.sort_unstable();
        found.dedup_by_key(|(entry, _)| *entry);
        found
    }
}

/// Where what is taken out of a text from `at` on ends; `None` where nothing is.
fn gap_end(text: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    while let Some(length) = text.get(end..).and_then(removed) {
        end += length;
    }
    (end > at).then_some(end)
}

fn pair_number(pair: [u8; 2]) -> usize {
    usize::from(u16::from_be_bytes(pair))
}

fn is_end(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

fn pytest_frame(behind: &[u8]) -> bool {
    let digits = behind.iter().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && behind[digits..].starts_with(b": in ")
}

/// Which bytes stand beside each other in needles.
struct Joints {
    /// A bit for each value that [`Joints::key`] gives.
    bits: Vec<u64>,
}

impl Joints {
    fn new(needles: impl Iterator<Item = &'static [u8]>) -> Self {
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
    fn may_join(&self, text: &[u8], gap: usize, end: usize) -> bool {
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

/// The place of the pair that ordinary text holds least often.
fn rarest_pair(needle: &[u8]) -> usize {
    let frequency = |at: &usize| commonness(needle[*at]) * commonness(needle[at + 1]);
    (0..needle.len() - 1).min_by_key(frequency).unwrap_or(0)
}

/// How often a byte stands in logs of training, in thousandths or so.
fn commonness(byte: u8) -> u32 {
    match byte {
        b' ' => 140,
        b'e' => 80,
        b'a' | b'i' | b'n' | b'o' | b'r' | b's' | b't' => 55,
        b'c' | b'd' | b'h' | b'l' | b'm' | b'p' | b'u' => 28,
        b'0' | b'1' => 25,
        b'2'..=b'9' => 14,
        b'b' | b'f' | b'g' | b'k' | b'v' | b'w' | b'y' => 12,
        b'.' | b',' | b'_' | b'-' | b'/' | b':' | b'[' | b']' | b'(' | b')' | 0x1b => 10,
        b'A'..=b'Z' | b'"' | b'\'' | b'=' | b'\n' | b'\r' => 4,
        0x80.. => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;

/// The same questions, answered by plain searches: what the sieve must agree with.
#[cfg(test)]
pub(crate) mod naive {
    use std::sync::LazyLock;

    use memchr::memmem;

    use super::super::clean::removed;
    use super::{Needle, PYTEST_FRAME, What, needles, pytest_frame};

    static NEEDLES: LazyLock<Vec<(Needle, memmem::Finder<'static>)>> = LazyLock::new(|| {
        let all = needles().into_iter();
        all.map(|n| (n.clone(), memmem::Finder::new(n.text)))
            .collect()
    });

    fn places((needle, finder): &(Needle, memmem::Finder<'_>), text: &[u8]) -> Vec<usize> {
        let frame = needle.text == PYTEST_FRAME.as_bytes();
        let fits = |at: &usize| !frame || pytest_frame(&text[at + needle.text.len()..]);
        finder.find_iter(text).filter(fits).collect()
    }

    /// Is the line to be read for what it holds, as it stands or with its gaps closed?
    pub(crate) fn is_read(text: &[u8]) -> bool {
        let mut closed = Vec::new();
        let mut gaps = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let Some(length) = removed(&text[at..]) else {
                closed.push(text[at]);
                at += 1;
                continue;
            };
            let harmless = text[at] == 0x1b && at > 0 && text[at - 1] == b')';
            if !harmless && gaps.last() != Some(&closed.len()) {
                gaps.push(closed.len());
            }
            at += length;
        }
        NEEDLES.iter().any(|needle| {
            let length = needle.0.text.len();
            let split = |from: &usize| gaps.iter().any(|g| from < g && *g < from + length);
            (needle.0.what == What::Read && !places(needle, text).is_empty())
                || (!gaps.is_empty() && places(needle, &closed).iter().any(split))
        })
    }

    /// The markers that announce a phase, in the order in which they stand.
    pub(crate) fn ambient(text: &[u8]) -> Vec<u8> {
        let mut found: Vec<(usize, u8)> = Vec::new();
        for needle in NEEDLES.iter() {
            if let What::Ambient(marker) = needle.0.what {
                let places = places(needle, text).into_iter();
                found.extend(places.map(|at| (at, marker)));
            }
        }
        found.sort_unstable();
        found.into_iter().map(|(_, marker)| marker).collect()
    }
}
