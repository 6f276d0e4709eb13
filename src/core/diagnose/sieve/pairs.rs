//! Short needles by pairs of bytes, 32 places at once where the processor has AVX2.
//!
//! Each needle is represented by its rarest pair. Pairs fall into eight buckets; four tables of 16
//! entries (low and high half of the first and of the second byte) say which buckets a place may belong
//! to. (The method is that of Hyperscan's Teddy: W. Langdale, 2015.) What is left is looked up exactly.
//!
//! On the same way newlines are counted, and escape sequences that may stand inside a message are found:
//! those that follow neither a line end nor a closing parenthesis, as the colours of Ray's prefix do.

use super::commonness;

/// Buckets of pairs: one bit each.
const BUCKETS: usize = 8;

/// What begins an escape sequence.
pub(super) const ESCAPE: u8 = 0x1b;

/// Can an escape sequence behind this byte stand inside a message? Behind a line end there is no message
/// yet, and behind `)` ends the prefix of Ray's lines.
pub(super) fn splits_behind(byte: u8) -> bool {
    !matches!(byte, b'\n' | b'\r' | b')')
}

/// One pair of bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub first: u8,
    /// `None`: any byte.
    pub second: Option<u8>,
}

/// A set of pairs.
pub(super) struct Pairs {
    masks: [[u8; 16]; 4],
    /// Which pairs are wanted, one bit each.
    exact: Vec<u8>,
}

/// Pairs that share a bit of the tables.
#[derive(Debug, Clone, Default)]
struct Bucket {
    /// Low and high halves that occur: of the first byte, of the second.
    halves: [u16; 4],
}

impl Bucket {
    fn of(pair: Pair) -> Self {
        let bit = |half: u8| 1 << half;
        let second = pair
            .second
            .map_or([u16::MAX; 2], |b| [bit(b & 15), bit(b >> 4)]);
        Self {
            halves: [
                bit(pair.first & 15),
                bit(pair.first >> 4),
                second[0],
                second[1],
            ],
        }
    }

    fn with(&self, other: &Self) -> Self {
        let mut halves = self.halves;
        for (mine, theirs) in halves.iter_mut().zip(other.halves) {
            *mine |= theirs;
        }
        Self { halves }
    }

    /// How often ordinary text falls into it, as a product of two frequencies.
    fn cost(&self) -> u64 {
        let falls = |low: u16, high: u16| -> u64 {
            let bytes =
                (0..=255_u8).filter(|b| low >> (b & 15) & 1 == 1 && high >> (b >> 4) & 1 == 1);
            bytes.map(|b| u64::from(commonness(b))).sum()
        };
        falls(self.halves[0], self.halves[1]) * falls(self.halves[2], self.halves[3])
    }
}

/// Puts pairs together until [`BUCKETS`] are left, always the two that let the least more through.
fn buckets(pairs: &[Pair]) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = pairs.iter().map(|p| Bucket::of(*p)).collect();
    while buckets.len() > BUCKETS {
        let two = (0..buckets.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        let more = |(a, b): &(usize, usize)| {
            let (a, b) = (&buckets[*a], &buckets[*b]);
            i128::from(a.with(b).cost()) - i128::from(a.cost()) - i128::from(b.cost())
        };
        let (a, b) = two.min_by_key(more).unwrap_or((0, 1));
        let joined = buckets[a].with(&buckets[b]);
        buckets.remove(b);
        buckets[a] = joined;
    }
    buckets
}

impl Pairs {
    pub(super) fn new(pairs: &[Pair]) -> Self {
        let mut masks = [[0; 16]; 4];
        for (number, bucket) in buckets(pairs).iter().enumerate() {
            for (mask, halves) in masks.iter_mut().zip(bucket.halves) {
                for (half, entry) in mask.iter_mut().enumerate() {
                    *entry |= u8::from(halves >> half & 1 == 1) << number;
                }
            }
        }
        let mut exact = vec![0; 1 << 13];
        for pair in pairs {
            for second in pair.second.map_or(0..=255, |b| b..=b) {
                let key = key(pair.first, second);
                exact[key >> 3] |= 1 << (key & 7);
            }
        }
        Self { masks, exact }
    }

    /// Calls `hit` with the place of every wanted pair, and of the byte before an escape sequence that may
    /// split a message, in order; returns how many newlines there are. `hit` answers with the next place
    /// that it wants to hear of. A text that begins with an escape sequence begins a line.
    pub(super) fn find(&self, text: &[u8], mut hit: impl FnMut(usize) -> usize) -> usize {
        let mut from = 0;
        let mut check = |at: usize| {
            if at >= from && self.wanted(text, at) {
                from = hit(at);
            }
        };
        let (done, newlines) = self.find_wide(text, &mut check);
        (done..text.len()).for_each(check);
        newlines + memchr::memchr_iter(b'\n', &text[done..]).count()
    }

    fn wanted(&self, text: &[u8], at: usize) -> bool {
        let second = text.get(at + 1).copied().unwrap_or(b'\n');
        let key = key(text[at], second);
        self.exact[key >> 3] & (1 << (key & 7)) != 0
            || (second == ESCAPE && splits_behind(text[at]))
    }

    /// The part of the text that whole vectors cover: where it ends, and its newlines.
    #[cfg(target_arch = "x86_64")]
    fn find_wide(&self, text: &[u8], check: &mut impl FnMut(usize)) -> (usize, usize) {
        use std::arch::is_x86_feature_detected as has;
        if !has!("avx2") || !has!("popcnt") || !has!("bmi1") {
            return (0, 0);
        }
        // SAFETY: the processor has what the function is compiled for.
        unsafe { wide::find(&self.masks, text, check) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn find_wide(&self, _: &[u8], _: &mut impl FnMut(usize)) -> (usize, usize) {
        (0, 0)
    }
}

fn key(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_andnot_si256, _mm256_cmpeq_epi8,
        _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set_m128i,
        _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
    };

    use super::ESCAPE;

    /// Bytes of a vector.
    const WIDTH: usize = 32;

    /// Looks at the places of all whole vectors; returns the first place that none covers, and the
    /// newlines before it.
    #[target_feature(enable = "avx2,popcnt,bmi1")]
    pub(super) fn find(
        masks: &[[u8; 16]; 4],
        text: &[u8],
        check: &mut impl FnMut(usize),
    ) -> (usize, usize) {
        let tables = [0, 1, 2, 3].map(|i| twice(&masks[i]));
        let (mut at, mut newlines) = (0, 0);
        while at + 2 * WIDTH < text.len() {
            let (near, near_ends) = places(&tables, text, at);
            let (far, far_ends) = places(&tables, text, at + WIDTH);
            let mut left = u64::from(near) | u64::from(far) << WIDTH;
            while left != 0 {
                check(at + left.trailing_zeros() as usize);
                left &= left - 1;
            }
            let ends = u64::from(near_ends) | u64::from(far_ends) << WIDTH;
            newlines += ends.count_ones() as usize;
            at += 2 * WIDTH;
        }
        (at, newlines)
    }

    /// One bit for each of the 32 places from `at` on that may begin a wanted pair, and for each newline.
    #[target_feature(enable = "avx2,popcnt,bmi1")]
    #[inline]
    fn places(tables: &[__m256i; 4], text: &[u8], at: usize) -> (u32, u32) {
        let same = |v, byte: u8| _mm256_cmpeq_epi8(v, _mm256_set1_epi8(byte.cast_signed()));
        let nibble = _mm256_set1_epi8(15);
        let high = |v| _mm256_and_si256(_mm256_srli_epi16::<4>(v), nibble);
        let low = |v| _mm256_and_si256(v, nibble);
        let first = load(text, at);
        let second = load(text, at + 1);
        let a = _mm256_and_si256(
            _mm256_shuffle_epi8(tables[0], low(first)),
            _mm256_shuffle_epi8(tables[1], high(first)),
        );
        let b = _mm256_and_si256(
            _mm256_shuffle_epi8(tables[2], low(second)),
            _mm256_shuffle_epi8(tables[3], high(second)),
        );
        let none = _mm256_cmpeq_epi8(_mm256_and_si256(a, b), _mm256_setzero_si256());
        let newline = same(first, b'\n');
        let harmless = _mm256_or_si256(
            newline,
            _mm256_or_si256(same(first, b'\r'), same(first, b')')),
        );
        let splits = _mm256_andnot_si256(harmless, same(second, ESCAPE));
        let nothing = _mm256_andnot_si256(splits, none);
        let bits = |v| _mm256_movemask_epi8(v).cast_unsigned();
        (!bits(nothing), bits(newline))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(text: &[u8], at: usize) -> __m256i {
        let bytes = &text[at..at + WIDTH];
        // SAFETY: the slice holds 32 bytes, and the load needs no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    fn twice(half: &[u8; 16]) -> __m256i {
        // SAFETY: the array holds 16 bytes, and the load needs no alignment.
        let half = unsafe { _mm_loadu_si128(half.as_ptr().cast()) };
        _mm256_set_m128i(half, half)
    }
}
