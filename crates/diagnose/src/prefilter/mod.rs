//! The prefilter: which places of a block of text could matter at all, at a few cycles per 64 bytes.
//!
//! Rule: a place that the tables, the frames of a traceback or a progress pattern could have something to
//! say about is never missed; one that is found in vain costs time only.
//!
//! What is looked for are *needles*, all from tables: the literals of the signatures, what announces a
//! phase, what begins a traceback, and a few bytes that every progress line holds. Long ones are found by
//! `ngrams`, short ones by `short`. Bytes that [`unescaped`] takes out can split a needle; where they
//! stand between two bytes that are neighbours in some needle, the line is looked at without them.

mod bars;
mod bloom;
mod marks;
mod needles;
mod ngrams;
mod ordinary;
mod quad;
mod short;
mod wide;

use std::sync::LazyLock;

pub(crate) use bars::{BUILT_IN, Bar, BarMatch};
pub(crate) use ordinary::rarest_quad;

use super::clean::{removed, unescaped};
use needles::{Needle, looked_for};
use ngrams::Grams;
use short::{ShortNeedles, WantedNeedles};

/// What a place means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// The line is to be read.
    Read,
    /// It announces a phase: an index into [`super::phase::Markers::announced`].
    Ambient(u8),
    /// It may show progress.
    Progress(Bar),
    /// The name of a figure: an index into [`super::course::NAMED`].
    Figure(u8),
}

/// A place that could matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    /// A byte of the line that could matter.
    pub at: usize,
    pub what: What,
}

/// What a search found in a text. It is used again for the next, for its memory.
#[derive(Debug, Default)]
pub(crate) struct PrefilterHits {
    /// The places that could matter, in order.
    pub hits: Vec<Hit>,
    /// How many newlines there are.
    pub newlines: usize,
    /// How many there are before every [`bloom::STRETCH`] bytes.
    before: Vec<usize>,
}

impl PrefilterHits {
    /// The places from one byte to another.
    pub(crate) fn between(&self, from: usize, to: usize) -> &[Hit] {
        let first = self.hits.partition_point(|hit| hit.at < from);
        let end = self.hits.partition_point(|hit| hit.at < to);
        &self.hits[first..end.max(first)]
    }

    /// Newlines before a place of the text, counted from the place nearest before it of which they are
    /// known: `counted` is one, with how many there are.
    pub(crate) fn newlines_before(&self, text: &[u8], at: usize, counted: (usize, usize)) -> usize {
        let stretch = (at / bloom::STRETCH).min(self.before.len().saturating_sub(1));
        let known = self.before.get(stretch).copied().unwrap_or(0);
        let noted = (stretch * bloom::STRETCH, known);
        let counted = Some(counted).filter(|(from, _)| *from <= at);
        let (from, known) = counted.map_or(noted, |counted| counted.max(noted));
        known + memchr::memchr_iter(b'\n', &text[from..at]).count()
    }
}

/// What stands in a line, in the order of the tables.
#[derive(Debug, Default)]
pub(crate) struct LineHits {
    /// The signatures of which it has a literal, each with the first place of one.
    pub entries: Vec<(usize, usize)>,
    /// The phases that it announces: indices into [`super::phase::Markers::announced`].
    pub markers: Vec<u8>,
    /// It may show progress.
    pub bar: bool,
}

/// All needles, ready to be looked for.
pub(crate) struct Prefilter {
    long: Vec<Needle>,
    ngrams: Grams,
    short: ShortNeedles,
    joints: Joints,
}

/// The needles of the built-in tables.
pub(crate) static PREFILTER: LazyLock<Prefilter> = LazyLock::new(|| Prefilter::new(looked_for()));

impl Prefilter {
    fn new(needles: Vec<Needle>) -> Self {
        let joints = Joints::new(needles.iter().map(|n| n.text));
        let (long, short): (Vec<Needle>, Vec<Needle>) = needles
            .into_iter()
            .partition(|n| n.text.len() >= ngrams::LONG);
        Self {
            ngrams: Grams::new(long.iter().map(|n| n.text).collect()),
            long,
            short: ShortNeedles::new(short),
            joints,
        }
    }

    /// Fills `found` with the places of a text that could matter, those of bars only as far as they are
    /// wanted. The text begins at the beginning of a line or of a window of one.
    pub(crate) fn search(
        &self,
        text: &[u8],
        wants: impl Fn(Bar) -> bool,
        found: &mut PrefilterHits,
    ) {
        let PrefilterHits { hits, before, .. } = found;
        let wanted = WantedNeedles::bars(wants);
        hits.clear();
        before.clear();
        self.ngrams.find(text, &mut |needle, at| {
            let what = self.long[usize::from(needle)].what;
            hits.push(Hit { at, what });
        });
        let from_grams = hits.len();
        let newlines = self.short.find(text, before, wanted, |at| {
            for (needle, from) in self.short.at(text, at) {
                if wanted.has(needle.what) {
                    hits.push(Hit {
                        at: from,
                        what: needle.what,
                    });
                }
            }
            let gap = match (text[at], text.get(at + 1)) {
                (0 | quad::ESCAPE, _) => at,
                (_, Some(&quad::ESCAPE)) => at + 1,
                (b'^', _) => at,
                _ => return at + 1,
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
            // The last bytes of a gap may begin a needle: an escape takes the letter behind it with it.
            end.saturating_sub(3).max(gap + 1)
        });
        if from_grams > 0 && from_grams < hits.len() {
            // Two runs in order, which this sort merges.
            hits.sort_by_key(|hit| hit.at);
        }
        found.newlines = newlines;
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
        self.ngrams.find(&closed, &mut |needle, from| {
            across(&self.long[usize::from(needle)], from)
        });
        self.short
            .find(&closed, &mut Vec::new(), WantedNeedles::all(), |at| {
                self.short
                    .at(&closed, at)
                    .for_each(|(needle, from)| across(needle, from));
                at + 1
            });
        joined
    }

    /// What a text that is read holds, as it stands.
    pub(crate) fn held(&self, text: &str) -> LineHits {
        let text = text.as_bytes();
        let mut held = LineHits::default();
        let mut note_one = |needle: &Needle, at: usize| {
            let entries = needle.entries.iter();
            held.entries
                .extend(entries.map(|entry| (usize::from(*entry), at)));
            held.markers.extend(needle.marker);
            held.bar |= matches!(needle.what, What::Progress(_));
        };
        let mut note = |needle: &Needle, at: usize| {
            note_one(needle, at);
            for outer in &needle.around {
                if let Some(from) = outer.begins(text, at) {
                    note_one(&outer.needle, from);
                }
            }
        };
        self.ngrams.find(text, &mut |needle, at| {
            note(&self.long[usize::from(needle)], at)
        });
        self.short
            .find(text, &mut Vec::new(), WantedNeedles::all(), |at| {
                for (needle, from) in self.short.at(text, at) {
                    note(needle, from);
                }
                at + 1
            });
        held.entries.sort_unstable();
        held.entries.dedup_by_key(|(entry, _)| *entry);
        held.markers.sort_unstable();
        held
    }
}

fn is_end(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// Where what is taken out of a text from `at` on ends; `None` where nothing is.
fn gap_end(text: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    while let Some(length) = text.get(end..).and_then(removed) {
        end += length;
    }
    (end > at).then_some(end)
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

#[cfg(test)]
pub(crate) mod naive;
#[cfg(test)]
mod tests;
