//! What the prefilter looks for.

use std::collections::BTreeMap;

use memchr::memmem;

use super::ngrams::LONG;
use super::{What, bars};
use crate::course::NAMED;
use crate::phase::MARKERS;
use crate::signatures::{self, ALSO};

/// A text that is looked for.
#[derive(Debug, Clone)]
pub(super) struct Needle {
    pub text: &'static [u8],
    pub what: What,
    /// Signatures of which it is a literal.
    pub entries: Vec<u16>,
    /// The phase that it announces: an index into [`MARKERS`].
    pub marker: Option<u8>,
    /// Needles that hold this one: they are not looked for by themselves.
    pub around: Vec<Around>,
}

/// A needle that holds a shorter one.
#[derive(Debug, Clone)]
pub(super) struct Around {
    /// Its first bytes, which tell it from most others.
    head: [u8; 4],
    /// Where in it the shorter one stands.
    inside: usize,
    pub needle: Box<Needle>,
}

impl Around {
    /// Where it begins, if it stands around the shorter one at a place.
    #[inline(always)]
    pub(super) fn begins(&self, text: &[u8], at: usize) -> Option<usize> {
        let from = at.checked_sub(self.inside)?;
        let rest = &text[from..];
        (rest.starts_with(&self.head) && rest.starts_with(self.needle.text)).then_some(from)
    }
}

/// A frame as pytest prints it: `train.py:12: in main`. What stands before it are the digits.
pub(super) const PYTEST_FRAME: &str = ": in ";

/// The needles of the built-in tables.
pub(super) fn needles() -> Vec<Needle> {
    let mut by_text: BTreeMap<&'static str, Needle> = BTreeMap::new();
    let mut add = |text: &'static str, what: What, entry: Option<usize>| {
        let needle = by_text.entry(text).or_insert_with(|| Needle {
            text: text.as_bytes(),
            what,
            entries: Vec::new(),
            marker: None,
            around: Vec::new(),
        });
        if let What::Ambient(marker) = what {
            needle.marker = Some(marker);
        }
        if what == What::Read {
            needle.what = what;
        }
        let entry = entry.and_then(|e| u16::try_from(e).ok());
        needle.entries.extend(entry);
    };
    for (entry, signature) in signatures::all().enumerate() {
        for literal in &signature.contains {
            add(literal, What::Read, Some(entry));
        }
    }
    for text in ALSO {
        add(text, What::Read, None);
    }
    add(PYTEST_FRAME, What::Read, None);
    for (marker, row) in MARKERS.announced.iter().enumerate() {
        for text in &row.contains {
            add(text, What::Ambient(u8::try_from(marker).unwrap_or(0)), None);
        }
    }
    for (number, figure) in NAMED.iter().enumerate() {
        add(
            figure.name,
            What::Figure(u8::try_from(number).unwrap_or(0)),
            None,
        );
    }
    for (text, bar) in bars::HINTS {
        add(text, What::Progress(bar), None);
    }
    by_text.into_values().collect()
}

/// The needles that have to be looked for. One that holds a short one stands only where that one does, in a
/// line that is read for it.
pub(super) fn looked_for() -> Vec<Needle> {
    let mut all = needles();
    all.sort_by_key(|needle| needle.text.len());
    let mut kept: Vec<Needle> = Vec::with_capacity(all.len());
    let mut short: Vec<(usize, memmem::Finder<'static>)> = Vec::new();
    for needle in all {
        let reads = needle.what == What::Read && needle.text != PYTEST_FRAME.as_bytes();
        let place = |(number, finder): &(usize, memmem::Finder<'_>)| {
            Some((*number, finder.find(needle.text)?))
        };
        let inner = short.iter().find_map(place);
        match inner.filter(|_| reads && needle.marker.is_none()) {
            Some((number, inside)) => kept[number].around.push(Around {
                head: std::array::from_fn(|at| needle.text[at]),
                inside,
                needle: Box::new(needle),
            }),
            None => {
                if reads && needle.text.len() < LONG {
                    short.push((kept.len(), memmem::Finder::new(needle.text)));
                }
                kept.push(needle);
            }
        }
    }
    kept
}

/// Does what stands before `: in ` make a frame of it?
pub(super) fn pytest_frame(before: &[u8]) -> bool {
    let digits = before
        .iter()
        .rev()
        .take_while(|b| b.is_ascii_digit())
        .count();
    digits > 0 && before[..before.len() - digits].ends_with(b":")
}
