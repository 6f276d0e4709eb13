//! The first question about a sampled place: could one of our ngrams stand here at all?
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
const GROUP: usize = 64 * STRIDE;

/// Masks at most that are filled at once.
const GROUPS: usize = 8;

/// Bytes of text at most that are asked about at once.
pub(super) const PART: usize = 4 * GROUPS * GROUP;

/// Places that are written down of every mask, whether it has them or not.
const AHEAD: usize = 2;

/// Words of a part, and those that are written ahead.
pub(super) const PLACES: usize = PART / STRIDE + AHEAD;

/// The numbers of words of a part.
pub(super) type WordPlaces = [u16; PLACES];

/// Values of a hash.
const SLOTS: usize = 1 << 16;

/// The marks of all ngrams, by their hash.
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

    /// How many bytes of a text [`Marks::places`] asks about: whole groups.
    pub(super) fn asked(text: &[u8]) -> usize {
        text.len() / GROUP * GROUP
    }

    /// Writes down the numbers of the words of a part that may begin with a gram, and returns how many
    /// there are. What is left of the part behind its whole groups is not asked about.
    pub(super) fn places(
        &self,
        part: &[u8],
        room: &mut MarkBuffers,
        places: &mut WordPlaces,
    ) -> usize {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let wide = has!("avx512bw") && has!("avx512dq") && has!("avx512vbmi");
            if wide && has!("popcnt") && has!("bmi1") {
                // SAFETY: the processor has what the function is compiled for.
                return unsafe { avx512::places(&self.table, part, room, places) };
            }
        }
        self.places_anywhere(part, room, places)
    }

    fn places_anywhere(
        &self,
        part: &[u8],
        room: &mut MarkBuffers,
        places: &mut WordPlaces,
    ) -> usize {
        let (groups, _) = part.as_chunks::<GROUP>();
        let masks = &mut room.masks[..groups.len()];
        for (mask, group) in masks.iter_mut().zip(groups) {
            let words = group.as_chunks::<STRIDE>().0.iter();
            let found = words.map(|word| self.may_be(u64::from_le_bytes(*word)));
            let bits = found.enumerate().map(|(at, found)| u64::from(found) << at);
            *mask = bits.fold(0, |all, bit| all | bit);
        }
        write_down(masks, places)
    }
}

/// What a look needs in between; it is used again for the next.
#[repr(align(64))]
pub(super) struct MarkBuffers {
    masks: [u64; PART / GROUP],
    /// Of [`GROUPS`] groups: the slots of the words, the numbers of their marks, and the table's entries.
    slots: [[u16; STRIDE]; GROUPS * STRIDE],
    marks: [u8; GROUPS * 64],
    entries: [u8; GROUPS * 64],
}

impl MarkBuffers {
    pub(super) fn new() -> Self {
        Self {
            masks: [0; PART / GROUP],
            slots: [[0; STRIDE]; GROUPS * STRIDE],
            marks: [0; GROUPS * 64],
            entries: [0; GROUPS * 64],
        }
    }
}

/// Writes down the numbers of the bits that are set, and returns how many there are.
#[inline(always)]
fn write_down(masks: &[u64], places: &mut WordPlaces) -> usize {
    let mut count = 0;
    for (group, mask) in (0_u16..).zip(masks) {
        let end = count + mask.count_ones() as usize;
        let mut mask = *mask;
        let mut next = |place: &mut u16| {
            *place = group * 64 + mask.trailing_zeros() as u16;
            mask &= mask.wrapping_sub(1);
        };
        // Most masks have no more: this leaves nothing to guess.
        places[count..][..AHEAD].iter_mut().for_each(&mut next);
        if end > count + AHEAD {
            places[count + AHEAD..end].iter_mut().for_each(next);
        }
        count = end;
    }
    count
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
        __m512i, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_insert_epi8, _mm_setzero_si128,
        _mm512_and_si512, _mm512_cmpeq_epi8_mask, _mm512_cvtepi64_epi8, _mm512_cvtepi64_epi16,
        _mm512_loadu_si512, _mm512_mullo_epi64, _mm512_permutexvar_epi8, _mm512_set1_epi64,
        _mm512_srli_epi64,
    };

    use super::{
        GROUP, GROUPS, HASHED, MARKED, MarkBuffers, SLOTS, SPREAD, STRIDE, THREES, WordPlaces,
        write_down,
    };

    /// Bytes of a vector.
    const WIDE: usize = 64;

    /// Words of a vector.
    const LANES: usize = WIDE / STRIDE;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,popcnt,bmi1")]
    pub(super) fn places(
        table: &[u8; SLOTS],
        part: &[u8],
        room: &mut MarkBuffers,
        places: &mut WordPlaces,
    ) -> usize {
        let (vectors, _) = part.as_chunks::<WIDE>();
        let groups = part.len() / GROUP;
        let vectors = &vectors[..groups * GROUP / WIDE];
        let mut masks = room.masks[..groups].chunks_mut(GROUPS);
        for vectors in vectors.chunks(GROUPS * GROUP / WIDE) {
            hash(vectors, &mut room.slots, room.marks.as_chunks_mut().0);
            let slots = &room.slots[..vectors.len()];
            look_up(table, slots, room.entries.as_chunks_mut().0);
            test(&room.marks, &room.entries, masks.next().unwrap_or_default());
        }
        write_down(&room.masks[..groups], places)
    }

    /// Tests the entries of 64 words at once.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    #[inline]
    fn test(marks: &[u8], entries: &[u8], masks: &mut [u64]) {
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

    /// The entries of eight words go into a register before they are stored: a store a byte is what the
    /// look-ups would wait for.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn look_up(table: &[u8; SLOTS], slots: &[[u16; LANES]], entries: &mut [[u8; LANES]]) {
        for (entries, slots) in entries.iter_mut().zip(slots) {
            let entry = |word: usize| i32::from(table[usize::from(slots[word])]);
            let eight = _mm_setzero_si128();
            let eight = _mm_insert_epi8::<0>(eight, entry(0));
            let eight = _mm_insert_epi8::<1>(eight, entry(1));
            let eight = _mm_insert_epi8::<2>(eight, entry(2));
            let eight = _mm_insert_epi8::<3>(eight, entry(3));
            let eight = _mm_insert_epi8::<4>(eight, entry(4));
            let eight = _mm_insert_epi8::<5>(eight, entry(5));
            let eight = _mm_insert_epi8::<6>(eight, entry(6));
            let eight = _mm_insert_epi8::<7>(eight, entry(7));
            *entries = _mm_cvtsi128_si64(eight).to_le_bytes();
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
        fn a_place_is_written_down_where_the_single_look_up_says_so(
            words in prop::collection::vec(prop::sample::select(vec!["gram one", "gram two", "gram", " and "]), 400..6000),
        ) {
            let mut marks = Marks::new();
            marks.add(u64::from_le_bytes(*b"gram one"), true);
            marks.add(u64::from_le_bytes(*b"and gram"), false);
            let text = words.concat().into_bytes();
            let part = &text[..text.len().min(PART)];
            let (mut places, mut plain) = ([0; PLACES], [0; PLACES]);
            let mut room = MarkBuffers::new();
            let found = marks.places(part, &mut room, &mut places);
            let singly = marks.places_anywhere(part, &mut room, &mut plain);
            let (asked, _) = part[..Marks::asked(part)].as_chunks::<STRIDE>();
            let may_be = |word: &[u8; STRIDE]| marks.may_be(u64::from_le_bytes(*word));
            let wanted = (0_u16..).zip(asked).filter(|(_, word)| may_be(word));
            let wanted: Vec<u16> = wanted.map(|(number, _)| number).collect();
            prop_assert_eq!(&places[..found], &wanted[..]);
            prop_assert_eq!(&plain[..singly], &wanted[..]);
        }
    }
}
