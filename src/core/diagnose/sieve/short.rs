//! Needles that are too short for `grams`, by the three bytes of each that are the rarest.

use std::collections::BTreeMap;

use super::needles::{Needle, PYTEST_FRAME, pytest_frame};
use super::ordinary::commonness;
use super::trios::{Trio, Trios};

/// A set of short needles.
pub(super) struct Short {
    pub(super) needles: Vec<Needle>,
    trios: Trios,
    /// By the first two bytes of a trio: the number of its list, 0 for none.
    lists: Vec<u8>,
    by_pair: Vec<Vec<Place>>,
}

/// Where in a needle its trio stands.
struct Place {
    third: Option<u8>,
    needle: usize,
    at: usize,
}

impl Short {
    pub(super) fn new(needles: Vec<Needle>) -> Self {
        let mut by_pair: BTreeMap<[u8; 2], Vec<Place>> = BTreeMap::new();
        let mut trios: Vec<Trio> = Vec::new();
        for (index, needle) in needles.iter().enumerate() {
            let (at, trio) = rarest_trio(needle.text);
            trios.push(trio);
            let place = Place {
                third: trio[2],
                needle: index,
                at,
            };
            let pair = [needle.text[at], needle.text[at + 1]];
            by_pair.entry(pair).or_default().push(place);
        }
        // What else is taken out of lines; `Trios` itself knows escape sequences.
        trios.push([Some(0), None, None]);
        trios.push([b'^', b'[', b'['].map(Some));
        let mut lists = vec![0; 1 << 16];
        for (number, pair) in by_pair.keys().enumerate() {
            lists[pair_number(*pair)] = u8::try_from(number + 1).unwrap_or(u8::MAX);
        }
        let first = std::iter::once(Vec::new());
        Self {
            needles,
            trios: Trios::new(trios),
            lists,
            by_pair: first.chain(by_pair.into_values()).collect(),
        }
    }

    /// Calls `each` with every place where a needle or a gap may begin, in order, and returns how many
    /// newlines there are; see [`Trios::find`].
    pub(super) fn find(&self, text: &[u8], each: impl FnMut(usize) -> usize) -> usize {
        self.trios.find(text, each)
    }

    /// The needles whose trio stands at a place: each with where it begins.
    pub(super) fn at(&self, text: &[u8], at: usize) -> impl Iterator<Item = (&Needle, usize)> {
        let pair = [text[at], text.get(at + 1).copied().unwrap_or(b'\n')];
        let list = &self.by_pair[usize::from(self.lists[pair_number(pair)])];
        let third = text.get(at + 2).copied();
        list.iter().filter_map(move |place| {
            if place.third.is_some() && place.third != third {
                return None;
            }
            let needle = &self.needles[place.needle];
            let from = at.checked_sub(place.at)?;
            let rest = text[from..].strip_prefix(needle.text)?;
            let fits = needle.text != PYTEST_FRAME.as_bytes() || pytest_frame(rest);
            fits.then_some((needle, from))
        })
    }
}

fn pair_number(pair: [u8; 2]) -> usize {
    usize::from(u16::from_be_bytes(pair))
}

/// The three bytes of a needle that ordinary text holds least often, and where in it they stand.
fn rarest_trio(needle: &[u8]) -> (usize, Trio) {
    let trio = |at: usize| [0, 1, 2].map(|place| needle.get(at + place).copied());
    let frequency = |at: &usize| -> u64 {
        let bytes = trio(*at).into_iter().flatten();
        bytes.map(|b| u64::from(commonness(b))).product()
    };
    let places = 0..needle.len().saturating_sub(2).max(1);
    let at = places.min_by_key(frequency).unwrap_or(0);
    (at, trio(at))
}
