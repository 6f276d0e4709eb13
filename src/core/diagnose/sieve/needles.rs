//! What the sieve looks for.

use std::collections::BTreeMap;

use super::What;
use super::bars;
use crate::core::diagnose::phase::AMBIENT;
use crate::core::diagnose::signatures::{self, ALSO};

/// A text that is looked for.
#[derive(Debug, Clone)]
pub(super) struct Needle {
    pub text: &'static [u8],
    pub what: What,
    /// Signatures of which it is a literal.
    pub entries: Vec<u16>,
    /// The phase that it announces: an index into [`AMBIENT`].
    pub marker: Option<u8>,
}

/// A frame as pytest prints it: `train.py:12: in main`. Its parts are too ordinary to be needles.
pub(super) const PYTEST_FRAME: &str = ".py:";

/// The needles of the built-in tables.
pub(super) fn needles() -> Vec<Needle> {
    let mut by_text: BTreeMap<&'static str, Needle> = BTreeMap::new();
    let mut add = |text: &'static str, what: What, entry: Option<usize>| {
        let needle = by_text.entry(text).or_insert_with(|| Needle {
            text: text.as_bytes(),
            what,
            entries: Vec::new(),
            marker: None,
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

/// Does what stands behind `.py` make a frame of it?
pub(super) fn pytest_frame(behind: &[u8]) -> bool {
    let digits = behind.iter().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && behind[digits..].starts_with(b": in ")
}
