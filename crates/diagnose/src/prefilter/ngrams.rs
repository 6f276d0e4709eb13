//! Long needles by sampling: one look at every eighth place.
//!
//! A needle of at least [`LONG`] bytes covers, wherever it stands, one whole gram of [`GRAM`] bytes that
//! begins at a multiple of [`STRIDE`]. So only those places are looked at. `marks` says which of them may
//! hold a gram and the two bytes behind it; of these, the ones are kept that the two bytes before allow;
//! then the eight bytes on either side are compared, and then the needle. The window of [`LONG`] bytes that
//! stands for a needle is the one whose ngrams are the least like ordinary text.

use super::marks::{GRAM, MarkBuffers, Marks, PART, PLACES, STRIDE, WordPlaces, hash};
use super::ordinary::{commonness, likeness};

/// Shortest needle that cannot slip through between two places.
pub(crate) const LONG: usize = STRIDE + GRAM - 1;

/// Where a gram stands in a needle, with the bytes of the needle around it.
#[derive(Debug, Clone, Copy)]
struct GramPlace {
    needle: u16,
    at: u16,
    /// The eight bytes from the gram on and those before it, as far as the needle has them.
    ahead: MaskedBytes,
    behind: MaskedBytes,
}

/// Eight bytes, of which those count whose bits are set in the mask.
#[derive(Debug, Clone, Copy)]
struct MaskedBytes {
    bytes: u64,
    mask: u64,
}

impl MaskedBytes {
    fn new(bytes: impl Iterator<Item = Option<u8>>) -> Self {
        let mut near = Self { bytes: 0, mask: 0 };
        for (place, byte) in bytes.take(8).enumerate() {
            near.bytes |= u64::from(byte.unwrap_or(0)) << (8 * place);
            near.mask |= u64::from(byte.map_or(0, |_| u8::MAX)) << (8 * place);
        }
        near
    }

    /// Zero where the bytes are these.
    fn differs(&self, bytes: u64) -> u64 {
        (bytes ^ self.bytes) & self.mask
    }
}

impl GramPlace {
    fn new(number: usize, needle: &[u8], at: usize) -> Self {
        let byte = |place: Option<usize>| place.and_then(|p| needle.get(p)).copied();
        Self {
            needle: u16::try_from(number).unwrap_or(u16::MAX),
            at: u16::try_from(at).unwrap_or(u16::MAX),
            ahead: MaskedBytes::new((at..).map(|p| byte(Some(p)))),
            behind: MaskedBytes::new((0..8).map(|p| byte((at + p).checked_sub(8)))),
        }
    }
}

/// A set of long needles.
pub(super) struct Grams {
    marks: Marks,
    /// By gram.
    places: Vec<GramPlace>,
    /// First of `places` by the low bits of the hash, to find a gram without a search.
    starts: Vec<u16>,
    /// By the same: the marks of the two bytes before the ngrams.
    before: Box<[u16; SLOTS]>,
    needles: Vec<&'static [u8]>,
}

impl Grams {
    /// `needles` are at least [`LONG`] bytes each, and fewer than 4,096.
    pub(super) fn new(needles: Vec<&'static [u8]>) -> Self {
        let mut marks = Marks::new();
        let mut places = Vec::new();
        for (needle, bytes) in needles.iter().enumerate() {
            let from = rarest_window(bytes);
            for at in from..from + STRIDE {
                let place = GramPlace::new(needle, bytes, at);
                marks.add(place.ahead.bytes, place.ahead.mask == u64::MAX);
                places.push(place);
            }
        }
        let mut before = Box::new([0; SLOTS]);
        for place in &places {
            let at = usize::from(place.at);
            let pair = at
                .checked_sub(2)
                .and_then(|at| needles[usize::from(place.needle)][at..].first_chunk());
            before[slot(place.ahead.bytes)] |= pair.map_or(u16::MAX, |pair| mark_before(*pair));
        }
        places.sort_by_key(|p| (slot(p.ahead.bytes), p.needle));
        let mut starts = vec![0_u16; SLOTS + 1];
        places
            .iter()
            .for_each(|p| starts[slot(p.ahead.bytes) + 1] += 1);
        for slot in 0..SLOTS {
            starts[slot + 1] += starts[slot];
        }
        Self {
            marks,
            places,
            starts,
            before,
            needles,
        }
    }

    /// Calls `hit` with the needle and its place for every occurrence, in the order of the ngrams found.
    pub(super) fn find(&self, text: &[u8], hit: &mut impl FnMut(u16, usize)) {
        let asked = Marks::asked(text);
        if asked > 0 {
            self.find_in_parts(text, asked, hit);
        }
        let mut at = asked;
        while at + GRAM <= text.len() {
            if self.marks.may_be(word_at(text, Some(at))) {
                self.compare(text, at, hit);
            }
            at += STRIDE;
        }
    }

    /// The same for the first bytes of a text, a part at a time: so many that a loop over what is likely
    /// seldom ends, for its end is guessed wrong.
    fn find_in_parts(&self, text: &[u8], asked: usize, hit: &mut impl FnMut(u16, usize)) {
        let mut room = MarkBuffers::new();
        let mut likely: WordPlaces = [0; PLACES];
        for (number, part) in text[..asked].chunks(PART).enumerate() {
            let from = number * PART;
            let marked = self.marks.places(part, &mut room, &mut likely);
            // What is only likely is sorted out without a branch on it.
            let mut count = 0;
            for place in 0..marked {
                let at = from + usize::from(likely[place]) * STRIDE;
                likely[count] = likely[place];
                count += usize::from(self.may_follow(text, at));
            }
            for place in &likely[..count] {
                self.compare(text, from + usize::from(*place) * STRIDE, hit);
            }
        }
    }

    /// May one of our ngrams stand at a place, behind these bytes?
    #[inline(always)]
    fn may_follow(&self, text: &[u8], at: usize) -> bool {
        let slot = slot(word_at(text, Some(at)));
        let pair = text[at.saturating_sub(2)..].first_chunk();
        let mark = pair.map_or(u16::MAX, |pair| mark_before(*pair));
        (at == 0) | (self.before[slot] & mark != 0)
    }

    /// Compares the needles that hold the gram at a place.
    fn compare(&self, text: &[u8], at: usize, hit: &mut impl FnMut(u16, usize)) {
        let (ahead, behind) = (word_at(text, Some(at)), word_at(text, at.checked_sub(8)));
        let slot = slot(ahead);
        let range = usize::from(self.starts[slot])..usize::from(self.starts[slot + 1]);
        for place in &self.places[range] {
            // Most texts that share a gram differ near it, and a look is cheaper than a comparison.
            if place.ahead.differs(ahead) | place.behind.differs(behind) != 0 {
                continue;
            }
            let Some(from) = at.checked_sub(usize::from(place.at)) else {
                continue;
            };
            if text[from..].starts_with(self.needles[usize::from(place.needle)]) {
                hit(place.needle, from);
            }
        }
    }
}

/// The eight bytes from a place on, zeros where the text has none.
fn word_at(text: &[u8], at: Option<usize>) -> u64 {
    let rest = at.and_then(|at| text.get(at..)).unwrap_or_default();
    match rest.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => MaskedBytes::new(rest.iter().map(|b| Some(*b))).bytes,
    }
}

/// Slots of the index over `places`.
const SLOTS: usize = 1 << 14;

fn slot(word: u64) -> usize {
    hash(word) & (SLOTS - 1)
}

/// One bit that tells two bytes from most others.
#[inline(always)]
fn mark_before(pair: [u8; 2]) -> u16 {
    1 << (u16::from_le_bytes(pair).wrapping_mul(0x9e37) >> 12)
}

/// Start of the window of [`LONG`] bytes that ordinary text resembles least.
fn rarest_window(needle: &[u8]) -> usize {
    let frequency = |at: usize| -> u64 {
        let gram = &needle[at..at + GRAM];
        let by_bytes = gram.iter().map(|b| commonness(*b));
        let product = by_bytes.fold(1, |all, one| all * one / 8 + 1);
        // A gram whose next bytes are not known is taken for every other with its hash.
        let bare = if at + 8 > needle.len() { 64 } else { 1 };
        product * likeness(gram) * bare
    };
    let frequencies: Vec<u64> = (0..=needle.len() - GRAM).map(frequency).collect();
    let window = |from: &usize| frequencies[*from..*from + STRIDE].iter().sum::<u64>();
    (0..=needle.len() - LONG).min_by_key(window).unwrap_or(0)
}
