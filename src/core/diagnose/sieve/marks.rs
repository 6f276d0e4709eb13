//! The first question about a sampled place: could one of our grams stand here at all?
//!
//! A word is multiplied by a large odd number. Sixteen bits of the product, which only the gram's bytes
//! decide, name an entry of a table; six others, which all eight decide, name three bits of the entry. With
//! AVX-512 the products of eight places are taken at once, and the bits of 64 are tested at once; the
//! look-ups in between are single ones on every processor.

/// Bytes between two places that are looked at: a word.
pub(super) const STRIDE: usize = 8;

/// Bytes of a gram.
pub(super) const GRAM: usize = 6;

/// Bytes of text that one mask is about.
pub(super) const GROUP: usize = 64 * STRIDE;

/// Masks at most that are filled at once.
pub(super) const GROUPS: usize = 8;

/// Values of a hash.
const SLOTS: usize = 1 << 16;

/// The marks of all grams, by their hash.
pub(super) struct Marks {
    table: Box<[u8; SLOTS]>,
}

impl Marks {
    pub(super) fn new() -> Self {
        let table = Box::new([0; SLOTS]);
        Self { table }
    }

    /// Adds a gram with the two bytes behind it, or with any where these are not known.
    pub(super) fn add(&mut self, word: u64, whole: bool) {
        let product = product(word);
        self.table[slot(product)] |= if whole { mark(product) } else { u8::MAX };
    }

    /// May this be a gram and what stands behind it?
    #[inline(always)]
    pub(super) fn may_be(&self, word: u64) -> bool {
        let product = product(word);
        let mark = mark(product);
        self.table[slot(product)] & mark == mark
    }

    /// Fills a mask for each [`GROUP`] bytes of a text, at most [`GROUPS`]: a bit for each place that may
    /// hold a gram.
    pub(super) fn look(&self, text: &[u8], masks: &mut [u64]) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx512bw") && has!("avx512dq") && has!("avx512vbmi") {
                // SAFETY: the processor has what the function is compiled for.
                unsafe { avx512::look(&self.table, text, masks) };
                return;
            }
        }
        self.look_anywhere(text, masks);
    }

    fn look_anywhere(&self, text: &[u8], masks: &mut [u64]) {
        let (groups, _) = text.as_chunks::<GROUP>();
        for (mask, group) in masks.iter_mut().zip(groups) {
            let words = group.as_chunks::<STRIDE>().0.iter();
            let found = words.map(|word| self.may_be(u64::from_le_bytes(*word)));
            let bits = found.enumerate().map(|(at, found)| u64::from(found) << at);
            *mask = bits.fold(0, |all, bit| all | bit);
        }
    }
}

/// An odd number without a pattern.
const SPREAD: u64 = 0xc4cc_b560_b5d4_a61d;

/// The hash stands in the bits up to this one, which depend on no byte behind the gram.
const HASHED: u32 = 8 * GRAM as u32;

#[inline(always)]
fn product(word: u64) -> u64 {
    word.wrapping_mul(SPREAD)
}

/// The hash of a gram, of a word's product.
#[inline(always)]
fn slot(product: u64) -> usize {
    usize::from((product >> (HASHED - 16)) as u16)
}

/// Three bits that tell a word from most others whose gram has the same hash.
#[inline(always)]
fn mark(product: u64) -> u8 {
    THREES[(product >> (64 - MARKED)) as usize]
}

/// Bits of a product that name a mark.
const MARKED: u32 = 6;

/// Bytes of which three bits are set; there are 56 of these, and the first few stand here twice.
static THREES: [u8; 1 << MARKED] = {
    let mut all = [0; 1 << MARKED];
    let (mut byte, mut count) = (0_u8, 0);
    while count < all.len() {
        byte = byte.wrapping_add(1);
        if byte.count_ones() == 3 {
            all[count] = byte;
            count += 1;
        }
    }
    all
};

/// The hash of the first [`GRAM`] bytes of a word.
pub(super) fn hash(word: u64) -> usize {
    slot(product(word))
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm_cvtsi128_si64, _mm_extract_epi64, _mm512_and_si512, _mm512_cmpeq_epi8_mask,
        _mm512_cvtepi64_epi8, _mm512_cvtepi64_epi16, _mm512_loadu_si512, _mm512_mullo_epi64,
        _mm512_permutexvar_epi8, _mm512_set1_epi64, _mm512_srli_epi64,
    };

    use super::{GROUP, GROUPS, HASHED, MARKED, SLOTS, SPREAD, THREES};

    /// Bytes of a vector, and vectors in a group.
    const WIDE: usize = 64;
    const LANES: usize = GROUP / WIDE;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi")]
    pub(super) fn look(table: &[u8; SLOTS], text: &[u8], masks: &mut [u64]) {
        let mut slots = [[0; LANES]; GROUPS * LANES];
        let mut marks = [0; GROUPS * GROUP / LANES];
        let mut entries = marks;
        let (vectors, _) = text.as_chunks::<WIDE>();
        let groups = masks.len().min(GROUPS);
        let vectors = &vectors[..groups * LANES];
        hash(vectors, &mut slots, marks.as_chunks_mut::<LANES>().0);
        look_up(
            table,
            &slots[..vectors.len()],
            entries.as_chunks_mut::<LANES>().0,
        );
        let marks = marks.as_chunks::<WIDE>().0.iter();
        let entries = entries.as_chunks::<WIDE>().0.iter();
        let threes = load(&THREES);
        for ((mask, marks), entries) in masks.iter_mut().zip(marks).zip(entries) {
            let wanted = _mm512_permutexvar_epi8(load(marks), threes);
            *mask = _mm512_cmpeq_epi8_mask(_mm512_and_si512(load(entries), wanted), wanted);
        }
    }

    /// The slots of all words, and the numbers of their marks.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi")]
    #[inline]
    fn hash(vectors: &[[u8; WIDE]], slots: &mut [[u16; LANES]], marks: &mut [[u8; LANES]]) {
        let spread = _mm512_set1_epi64(SPREAD.cast_signed());
        for ((vector, slots), marks) in vectors.iter().zip(slots).zip(marks) {
            let product = _mm512_mullo_epi64(load(vector), spread);
            let number = _mm512_srli_epi64::<{ 64 - MARKED }>(product);
            *marks = _mm_cvtsi128_si64(_mm512_cvtepi64_epi8(number)).to_le_bytes();
            let slot = _mm512_cvtepi64_epi16(_mm512_srli_epi64::<{ HASHED - 16 }>(product));
            let halves = [_mm_cvtsi128_si64(slot), _mm_extract_epi64::<1>(slot)];
            *slots = std::array::from_fn(|at| (halves[at / 4] >> (16 * (at % 4))) as u16);
        }
    }

    /// By itself, or it would be compiled for vectors, which cannot do this.
    #[inline(never)]
    fn look_up(table: &[u8; SLOTS], slots: &[[u16; LANES]], entries: &mut [[u8; LANES]]) {
        for (entries, slots) in entries.iter_mut().zip(slots) {
            for (entry, slot) in entries.iter_mut().zip(slots) {
                *entry = table[usize::from(*slot)];
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(bytes: &[u8; WIDE]) -> __m512i {
        // SAFETY: the array holds 64 bytes, and the load needs no alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_place_is_marked_where_the_single_look_up_says_so(
            words in prop::collection::vec(prop::sample::select(vec!["gram one", "gram two", "gram", " and "]), 400..1400),
            looked in 0..=GROUPS,
        ) {
            let mut marks = Marks::new();
            marks.add(u64::from_le_bytes(*b"gram one"), true);
            marks.add(u64::from_le_bytes(*b"and gram"), false);
            let text = words.concat().into_bytes();
            let (mut masks, mut plain) = ([0; GROUPS], [0; GROUPS]);
            let looked = looked.min(text.len() / GROUP);
            marks.look(&text, &mut masks[..looked]);
            marks.look_anywhere(&text, &mut plain[..looked]);
            prop_assert_eq!(masks, plain);
        }
    }
}
