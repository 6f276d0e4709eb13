//! Needles that are too short for `ngrams`, by the four bytes of each that are the rarest.

use super::bloom::Bloom;
use super::needles::{Needle, PYTEST_FRAME, pytest_frame};
use super::ordinary::rarest_quad;
use super::quad::{ESCAPE, Quad};
use super::{Bar, What};

/// A set of short needles.
pub(super) struct ShortNeedles {
    pub(super) needles: Vec<Needle>,
    bloom: Bloom,
    /// By the hash of the first two bytes of the quad.
    places: Vec<QuadPlace>,
    /// First of `places` by that hash.
    starts: [u8; SLOTS + 1],
    /// For each choice of bars, by the same hash: the marks of the third bytes of the bloom that are wanted.
    thirds: [[u32; SLOTS]; WantedNeedles::ALL + 1],
}

/// Which needles are wanted: a bit for each kind of bar. All others always are.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedNeedles(usize);

impl WantedNeedles {
    const ALL: usize = 7;

    /// Whatever there is.
    pub(super) fn all() -> Self {
        Self(Self::ALL)
    }

    /// The needles that are no bars, and the bars that are wanted.
    pub(super) fn bars(wants: impl Fn(Bar) -> bool) -> Self {
        let bars = [Bar::Step, Bar::Percent, Bar::Column].into_iter();
        Self(bars.filter(|bar| wants(*bar)).map(Self::bit).sum())
    }

    fn bit(bar: Bar) -> usize {
        match bar {
            Bar::Step => 1,
            Bar::Percent => 2,
            Bar::Column => 4,
            Bar::Other => 0,
        }
    }

    pub(super) fn has(self, what: What) -> bool {
        match what {
            What::Progress(bar) => self.0 & Self::bit(bar) != 0,
            What::Read | What::Ambient(_) | What::Figure(_) => true,
        }
    }
}

/// Values of the hash of two bytes.
const SLOTS: usize = 256;

/// Where in a needle its quad stands.
#[derive(Debug, Clone, Copy)]
struct QuadPlace {
    /// The bytes of the quad as far as it has them, and a mask of those.
    quad: u32,
    mask: u32,
    needle: u8,
    at: u8,
}

impl QuadPlace {
    fn new(needle: usize, at: usize, quad: Quad) -> Self {
        let small = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
        Self {
            quad: u32::from_le_bytes(quad.map(|byte| byte.unwrap_or(0))),
            mask: u32::from_le_bytes(quad.map(|byte| byte.map_or(0, |_| u8::MAX))),
            needle: small(needle),
            at: small(at),
        }
    }

    /// One bit that tells the third byte from most others; all where it may be any.
    fn third(&self) -> u32 {
        let [_, _, third, _] = self.quad.to_le_bytes();
        let [_, _, known, _] = self.mask.to_le_bytes();
        if known == 0 {
            u32::MAX
        } else {
            1 << (third & 31)
        }
    }
}

impl ShortNeedles {
    /// `needles` are fewer than 256, and of two bytes each at least.
    pub(super) fn new(needles: Vec<Needle>) -> Self {
        let mut places: Vec<QuadPlace> = Vec::new();
        let mut bloom: Vec<Quad> = Vec::new();
        for (number, needle) in needles.iter().enumerate() {
            let at = rarest_quad(needle.text);
            let quad = std::array::from_fn(|place| needle.text.get(at + place).copied());
            bloom.push(quad);
            places.push(QuadPlace::new(number, at, quad));
        }
        places.sort_by_key(|place| slot(place.quad));
        let before = |s| places.partition_point(|place| slot(place.quad) < s);
        let starts = std::array::from_fn(|s| u8::try_from(before(s)).unwrap_or(u8::MAX));
        let mut thirds = [[0; SLOTS]; WantedNeedles::ALL + 1];
        for (wanted, thirds) in thirds.iter_mut().enumerate() {
            for place in &places {
                if WantedNeedles(wanted).has(needles[usize::from(place.needle)].what) {
                    thirds[slot(place.quad)] |= place.third();
                }
            }
        }
        // What else is taken out of lines; `Bloom` itself knows escape sequences.
        bloom.push([Some(0), None, None, None]);
        bloom.push([Some(b'^'), Some(b'['), Some(b'['), None]);
        Self {
            needles,
            bloom: Bloom::new(bloom),
            places,
            starts,
            thirds,
        }
    }

    /// Calls `each` with every place where a needle that is wanted or a gap may begin, in order, and returns
    /// how many newlines there are; see [`Bloom::find`].
    #[inline(always)]
    pub(super) fn find(
        &self,
        text: &[u8],
        before: &mut Vec<usize>,
        wanted: WantedNeedles,
        each: impl FnMut(usize) -> usize,
    ) -> usize {
        let thirds = &self.thirds[wanted.0];
        let keep = |at: usize| {
            let quad = quad_at(text, at);
            let [first, second, third, _] = quad.to_le_bytes();
            let needle = thirds[slot(quad)] >> (third & 31) & 1 == 1;
            needle | (first == 0) | (first == b'^') | (second == ESCAPE)
        };
        self.bloom.find(text, before, keep, each)
    }

    /// The needles whose quad stands at a place: each with where it begins.
    pub(super) fn at(&self, text: &[u8], at: usize) -> impl Iterator<Item = (&Needle, usize)> {
        let quad = quad_at(text, at);
        let slot = slot(quad);
        let range = usize::from(self.starts[slot])..usize::from(self.starts[slot + 1]);
        self.places[range].iter().filter_map(move |place| {
            if (quad ^ place.quad) & place.mask != 0 {
                return None;
            }
            let needle = &self.needles[usize::from(place.needle)];
            let from = at.checked_sub(usize::from(place.at))?;
            let fits = text[from..].starts_with(needle.text)
                && (needle.text != PYTEST_FRAME.as_bytes() || pytest_frame(&text[..from]));
            fits.then_some((needle, from))
        })
    }
}

/// The four bytes from a place on, line ends where the text has none.
#[inline(always)]
fn quad_at(text: &[u8], at: usize) -> u32 {
    match text[at..].first_chunk() {
        Some(quad) => u32::from_le_bytes(*quad),
        None => u32::from_le_bytes([0, 1, 2, 3].map(|i| *text.get(at + i).unwrap_or(&b'\n'))),
    }
}

/// The hash of the first two bytes of a quad.
fn slot(quad: u32) -> usize {
    let pair = quad & 0xffff;
    (pair.wrapping_mul(0x9e37_79b1) >> 24) as usize
}
