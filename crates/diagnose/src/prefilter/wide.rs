//! The search for bloom, many places at once where the processor can: 64 with AVX-512, 32 with AVX2.

use super::quad::{Classes, Halves, WIDTH};

/// The tables, as the instructions want them.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(
        dead_code,
        reason = "only the instructions of that architecture read them"
    )
)]
pub(super) struct Tables {
    /// For each place of a quad: which groups a low and a high half belong to.
    halves: [[u8; 16]; 2 * WIDTH],
    /// The same for whole bytes, as far as seven bits tell them apart.
    bytes: [[u8; 128]; WIDTH],
}

impl Tables {
    pub(super) fn new(classes: &Classes, groups: &[Halves]) -> Self {
        let mut halves = [[0; 16]; 2 * WIDTH];
        for (number, group) in groups.iter().enumerate() {
            for (mask, half) in halves.iter_mut().zip(group.iter().flatten()) {
                for (value, entry) in mask.iter_mut().enumerate() {
                    *entry |= u8::from(half >> value & 1 == 1) << number;
                }
            }
        }
        // Of the first byte all that need eight bits count as one; of the others the eighth is left out.
        let mut bytes = classes.map(|class| std::array::from_fn(|b| class[b] | class[b + 128]));
        bytes[0].copy_from_slice(&classes[0][..128]);
        bytes[0][127] = classes[0][127..].iter().fold(0, |all, one| all | one);
        Self { halves, bytes }
    }

    /// Can this processor tell whole bytes apart, not only their halves?
    pub(super) fn tell_bytes() -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            has!("avx512bw") && has!("avx512vbmi") && has!("popcnt")
        }
        #[cfg(not(target_arch = "x86_64"))]
        true
    }

    /// Looks at the first `steps` times [`STEP`] places of a text, behind which stand the bytes that the last
    /// quad needs: a mask for each step, at most 64, with a bit for each place that may begin a quad. `None`
    /// where the processor cannot.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn look(&self, text: &[u8], steps: &mut [u64]) -> Option<WideCounts> {
        use std::arch::is_x86_feature_detected as has;
        if Self::tell_bytes() {
            // SAFETY: the processor has what the function is compiled for.
            return Some(unsafe { avx512::look(&self.bytes, text, steps) });
        }
        if has!("avx2") && has!("popcnt") {
            // SAFETY: the processor has what the function is compiled for.
            return Some(unsafe { avx2::look(&self.halves, text, steps) });
        }
        None
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn look(&self, _: &[u8], _: &mut [u64]) -> Option<WideCounts> {
        None
    }
}

/// What a look has seen besides the places.
#[derive(Debug, Default)]
pub(super) struct WideCounts {
    /// A bit for each step that has a place.
    pub found: u64,
    /// Newlines in all steps.
    pub newlines: usize,
}

/// A bit for each step that has a place.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn with_places(steps: &[u64]) -> u64 {
    let bits = steps.iter().enumerate();
    bits.fold(0, |all, (step, mask)| all | u64::from(*mask != 0) << step)
}

/// Places that one mask is about.
pub(super) const STEP: usize = 64;

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm512_and_si512, _mm512_cmpeq_epi8_mask, _mm512_loadu_si512, _mm512_min_epu8,
        _mm512_permutex2var_epi8, _mm512_set1_epi8, _mm512_test_epi8_mask,
    };

    use super::{STEP, WIDTH, WideCounts, with_places};

    /// A table of 128 bytes.
    type Table = [__m512i; 2];

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,popcnt")]
    pub(super) fn look(bytes: &[[u8; 128]; WIDTH], text: &[u8], steps: &mut [u64]) -> WideCounts {
        let tables: [Table; WIDTH] =
            std::array::from_fn(|i| [0, STEP].map(|half| load(&bytes[i], half)));
        let look_up = |table: &Table, v| _mm512_permutex2var_epi8(table[0], v, table[1]);
        let seven_bits = _mm512_set1_epi8(127);
        let newline = _mm512_set1_epi8(b'\n'.cast_signed());
        let mut seen = WideCounts::default();
        let texts = text.windows(STEP + WIDTH - 1).step_by(STEP);
        for (text, mask) in texts.zip(steps.iter_mut()) {
            let first = load(text, 0);
            let a = look_up(&tables[0], _mm512_min_epu8(first, seven_bits));
            let b = look_up(&tables[1], load(text, 1));
            let c = look_up(&tables[2], load(text, 2));
            let d = look_up(&tables[3], load(text, 3));
            *mask = _mm512_test_epi8_mask(_mm512_and_si512(a, b), _mm512_and_si512(c, d));
            seen.newlines += _mm512_cmpeq_epi8_mask(first, newline).count_ones() as usize;
        }
        seen.found = with_places(steps);
        seen
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(text: &[u8], at: usize) -> __m512i {
        let bytes = &text[at..at + STEP];
        // SAFETY: the slice holds 64 bytes, and the load needs no alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_andnot_si256, _mm256_cmpeq_epi8,
        _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set_m128i,
        _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
    };

    use super::super::quad::{ESCAPE, WIDTH};
    use super::{STEP, WideCounts, with_places};

    /// Bytes of a vector.
    const HALF: usize = STEP / 2;

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn look(
        halves: &[[u8; 16]; 2 * WIDTH],
        text: &[u8],
        steps: &mut [u64],
    ) -> WideCounts {
        let tables = std::array::from_fn(|i| twice(&halves[i]));
        let mut seen = WideCounts::default();
        for (step, mask) in steps.iter_mut().enumerate() {
            let at = step * STEP;
            let (near, near_ends) = places(&tables, text, at);
            let (far, far_ends) = places(&tables, text, at + HALF);
            *mask = u64::from(near) | u64::from(far) << HALF;
            seen.newlines += (near_ends.count_ones() + far_ends.count_ones()) as usize;
        }
        seen.found = with_places(steps);
        seen
    }

    /// One bit for each of the 32 places from `at` on that may begin a quad, and for each newline.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn places(tables: &[__m256i; 2 * WIDTH], text: &[u8], at: usize) -> (u32, u32) {
        let same = |v, byte: u8| _mm256_cmpeq_epi8(v, _mm256_set1_epi8(byte.cast_signed()));
        let nibble = _mm256_set1_epi8(15);
        let groups = |v, low, high| {
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(v), nibble);
            _mm256_and_si256(
                _mm256_shuffle_epi8(low, _mm256_and_si256(v, nibble)),
                _mm256_shuffle_epi8(high, upper),
            )
        };
        let (first, second) = (load(text, at), load(text, at + 1));
        let a = groups(first, tables[0], tables[1]);
        let b = groups(second, tables[2], tables[3]);
        let c = groups(load(text, at + 2), tables[4], tables[5]);
        let d = groups(load(text, at + 3), tables[6], tables[7]);
        let shared = _mm256_and_si256(_mm256_and_si256(a, b), _mm256_and_si256(c, d));
        let none = _mm256_cmpeq_epi8(shared, _mm256_setzero_si256());
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
        let bytes = &text[at..at + HALF];
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

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use proptest::prelude::*;

    use super::super::bloom::Bloom;
    use super::*;

    proptest! {
        #[test]
        fn every_place_that_may_begin_a_quad_is_found_by_both_ways(
            words in prop::collection::vec(
                prop::sample::select(vec!["abc", "x|", "\0", "^[[", "\u{1b}[", ")\u{1b}", "\n", "é", "q"]),
                40..160,
            ),
        ) {
            let quad = |text: &[u8]| std::array::from_fn(|at| text.get(at).copied());
            let bloom = [&b"abcx"[..], b"x|", b"\0", b"^[[", "é\u{e9}".as_bytes()];
            let bloom = Bloom::new(bloom.into_iter().map(quad).collect());
            let text = words.concat().into_bytes();
            let mut steps = vec![0; text.len().saturating_sub(3) / STEP];
            let looked = steps.len() * STEP;
            let wanted: Vec<usize> = (0..looked).filter(|at| bloom.may_begin(&text, *at)).collect();
            let newlines = text[..looked].iter().filter(|b| **b == b'\n').count();
            for counted in bloom.tables().both(&text, &mut steps) {
                let (steps, ends) = counted;
                prop_assert_eq!(ends.newlines, newlines);
                let found = |at: &usize| steps[at / STEP] >> (at % STEP) & 1 == 1;
                prop_assert!(wanted.iter().all(found));
                let any = |(step, mask): (usize, &u64)| (ends.found >> step & 1 == 1) == (*mask != 0);
                prop_assert!(steps.iter().enumerate().all(any));
            }
        }
    }

    impl Tables {
        /// The masks and what else is seen, by each way that this processor has.
        fn both(&self, text: &[u8], steps: &mut [u64]) -> Vec<(Vec<u64>, WideCounts)> {
            let mut all = Vec::new();
            if let Some(seen) = self.look(text, steps) {
                all.push((steps.to_vec(), seen));
            }
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("popcnt") {
                // SAFETY: the processor has what the function is compiled for.
                let seen = unsafe { avx2::look(&self.halves, text, steps) };
                all.push((steps.to_vec(), seen));
            }
            all
        }
    }
}
