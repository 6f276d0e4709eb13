//! The questions of the prefilter, answered by plain searches: what it must agree with.

use std::sync::LazyLock;

use memchr::memmem;

use super::What;
use super::needles::{Needle, PYTEST_FRAME, needles, pytest_frame};
use crate::clean::removed;

static NEEDLES: LazyLock<Vec<(Needle, memmem::Finder<'static>)>> = LazyLock::new(|| {
    let all = needles().into_iter();
    all.map(|n| (n.clone(), memmem::Finder::new(n.text)))
        .collect()
});

fn places((needle, finder): &(Needle, memmem::Finder<'_>), text: &[u8]) -> Vec<usize> {
    let frame = needle.text == PYTEST_FRAME.as_bytes();
    let fits = |at: &usize| !frame || pytest_frame(&text[..*at]);
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

/// The names of figures, with where they stand.
pub(crate) fn figures(text: &[u8]) -> Vec<(usize, u8)> {
    let number = |needle: &Needle| match needle.what {
        What::Figure(number) => Some(number),
        _ => None,
    };
    let named = NEEDLES.iter().filter_map(|n| Some((n, number(&n.0)?)));
    let places =
        named.flat_map(|(n, number)| places(n, text).into_iter().map(move |at| (at, number)));
    places.collect()
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
