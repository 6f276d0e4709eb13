//! Long needles by sampling: one look at every eighth place.
//!
//! A needle of at least [`LONG`] bytes covers, wherever it stands, one whole gram of [`GRAM`] bytes that
//! begins at a multiple of [`STRIDE`]. So only those places are looked at: eight bytes are loaded, the gram
//! is hashed, and one bit is tested. On a hit the needle is compared. The window of [`LONG`] bytes that
//! stands for a needle is the one whose grams are the least like ordinary text.

use super::commonness;

/// Bytes between two places that are looked at.
const STRIDE: usize = 8;

/// Bytes of a gram.
const GRAM: usize = 6;

/// Shortest needle that cannot slip through between two places.
pub(crate) const LONG: usize = STRIDE + GRAM - 1;

/// Bits of a hash: a table of 64 KiB.
const BITS: u32 = 19;

/// Words of the table.
const TABLE: usize = 1 << (BITS - 6);

/// Places whose bits are joined before a branch.
const LANES: usize = 8;

/// Where a gram stands in a needle.
#[derive(Debug, Clone, Copy)]
struct Place {
    gram: u64,
    needle: u16,
    at: u16,
}

/// A set of long needles.
pub(super) struct Grams {
    /// One bit a hash value.
    table: Box<[u64; TABLE]>,
    /// By gram.
    places: Vec<Place>,
    /// First of `places` by the low bits of the hash, to find a gram without a search.
    starts: Vec<u16>,
    needles: Vec<&'static [u8]>,
}

impl Grams {
    /// `needles` are at least [`LONG`] bytes each, and fewer than 4,096.
    pub(super) fn new(needles: Vec<&'static [u8]>) -> Self {
        let mut table = Box::new([0; TABLE]);
        let mut places = Vec::new();
        for (needle, bytes) in needles.iter().enumerate() {
            let from = rarest_window(bytes);
            for at in from..from + STRIDE {
                let gram = gram_of(&bytes[at..]);
                let hash = hash(gram);
                table[hash >> 6] |= 1 << (hash & 63);
                places.push(Place {
                    gram,
                    needle: u16::try_from(needle).unwrap_or(u16::MAX),
                    at: u16::try_from(at).unwrap_or(u16::MAX),
                });
            }
        }
        places.sort_by_key(|p| (slot(p.gram), p.gram, p.needle));
        let starts = (0..=SLOTS).map(|s| places.partition_point(|p| slot(p.gram) < s));
        let starts = starts
            .map(|n| u16::try_from(n).unwrap_or(u16::MAX))
            .collect();
        Self {
            table,
            places,
            starts,
            needles,
        }
    }

    /// Calls `hit` with the needle and its place for every occurrence, in the order of the grams found.
    pub(super) fn find(&self, text: &[u8], hit: &mut impl FnMut(u16, usize)) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has BMI2.
            unsafe { self.find_with_bmi2(text, hit) };
            return;
        }
        self.find_anywhere(text, hit);
    }

    /// The same code, compiled for shifts by a variable count, which the oldest processors lack.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi2")]
    fn find_with_bmi2(&self, text: &[u8], hit: &mut impl FnMut(u16, usize)) {
        self.find_anywhere(text, hit);
    }

    #[inline(always)]
    fn find_anywhere(&self, text: &[u8], hit: &mut impl FnMut(u16, usize)) {
        const STEP: usize = STRIDE * LANES;
        let (steps, tail) = text.as_chunks::<STEP>();
        for (number, step) in steps.iter().enumerate() {
            let (words, _) = step.as_chunks::<STRIDE>();
            let mut any = 0;
            for word in words {
                any |= self.bit(u64::from_le_bytes(*word) << UNUSED);
            }
            if any & 1 == 0 {
                continue;
            }
            let mut lanes = 0;
            for (lane, word) in words.iter().enumerate() {
                lanes |= (self.bit(u64::from_le_bytes(*word) << UNUSED) & 1) << lane;
            }
            while lanes != 0 {
                let lane = lanes.trailing_zeros() as usize;
                lanes &= lanes - 1;
                let gram = u64::from_le_bytes(words[lane]) << UNUSED;
                self.compare(text, number * STEP + lane * STRIDE, gram, hit);
            }
        }
        let mut at = text.len() - tail.len();
        while at + GRAM <= text.len() {
            self.compare(text, at, gram_of(&text[at..]), hit);
            at += STRIDE;
        }
    }

    /// The gram's bit of the table, in the lowest place.
    #[inline(always)]
    fn bit(&self, gram: u64) -> u64 {
        let hash = hash(gram);
        self.table[hash >> 6] >> (hash & 63)
    }

    /// Compares the needles that hold this gram.
    fn compare(&self, text: &[u8], at: usize, gram: u64, hit: &mut impl FnMut(u16, usize)) {
        let slot = slot(gram);
        let range = usize::from(self.starts[slot])..usize::from(self.starts[slot + 1]);
        for place in &self.places[range] {
            if place.gram != gram {
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

/// Slots of the index over `places`.
const SLOTS: usize = 4096;

fn slot(gram: u64) -> usize {
    hash(gram) & (SLOTS - 1)
}

/// Bits of an eight-byte word that a gram does not use; shifted out.
const UNUSED: u32 = 64 - 8 * GRAM as u32;

fn gram_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..GRAM].copy_from_slice(&bytes[..GRAM]);
    u64::from_le_bytes(word) << UNUSED
}

#[inline(always)]
fn hash(gram: u64) -> usize {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    (gram.wrapping_mul(SPREAD) >> (64 - BITS)) as usize
}

/// Words that logs are full of: a window that avoids them is asked for less often.
const ORDINARY: &[&str] = &[
    "memory allocated (GB): memory reserved device memory used/total (GB): utilization output tokens prompt response",
    "processing processed processes generation generating training validation information operation configuration ",
    "return returns returned number should because before after which would will with that this the of the and the in the",
    "to the for the from the is the each other than number of total expected required available maximum minimum ",
    "worker workers process rank error errors warning failed message received running started starting loading ",
];

fn is_ordinary(gram: &[u8]) -> bool {
    ORDINARY
        .iter()
        .any(|words| memchr::memmem::find(words.as_bytes(), gram).is_some())
}

/// Start of the window of [`LONG`] bytes that ordinary text resembles least.
fn rarest_window(needle: &[u8]) -> usize {
    let likeness = |gram: &[u8]| -> u64 {
        let by_bytes = gram.iter().map(|b| u64::from(commonness(*b)));
        let product = by_bytes.fold(1, |all, one| all * one / 8 + 1);
        product * if is_ordinary(gram) { 100 } else { 1 }
    };
    let window = |from: &usize| -> u64 {
        needle[*from..*from + LONG]
            .windows(GRAM)
            .map(likeness)
            .sum()
    };
    (0..=needle.len() - LONG).min_by_key(window).unwrap_or(0)
}
