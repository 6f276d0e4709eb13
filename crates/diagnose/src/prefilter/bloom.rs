//! Short needles by four neighbouring bytes, 32 or 64 places at once.
//!
//! Each needle is represented by the four bytes of it that ordinary text holds least often. These bloom
//! fall into eight groups, and tables say for each byte value in which groups it may be the first, second,
//! third and fourth byte: where the four answers share a group, the place is looked up exactly. (The method
//! is that of Hyperscan's Teddy: W. Langdale, 2015.)
//!
//! On the same way newlines are counted, and escape sequences that may stand inside a message are found:
//! those that follow neither a line end nor a closing parenthesis, as the colours of Ray's prefix do.

use super::ordinary::commonness;
use super::quad::{Classes, ESCAPE, Halves, Quad, WIDTH};
use super::wide::{STEP, Tables};

/// Groups of bloom: one bit each.
const GROUPS: usize = 7;

/// The bit of what may split a message.
const SPLITS: u8 = 1 << GROUPS;

/// Bytes after which newlines are noted: a multiple of [`STEP`].
pub(super) const STRETCH: usize = 4096;

/// A set of bloom.
pub(super) struct Bloom {
    classes: Box<Classes>,
    tables: Tables,
}

/// Can an escape sequence behind this byte stand inside a message? Behind a line end there is no message
/// yet, and behind `)` ends the prefix of Ray's lines.
fn splits_behind(byte: u8) -> bool {
    !matches!(byte, b'\n' | b'\r' | b')')
}

/// Runs of four bytes that share a bit of the tables.
#[derive(Debug, Clone)]
struct QuadGroup {
    bloom: Vec<Quad>,
    sets: Sets,
}

impl QuadGroup {
    fn of(quad: Quad) -> Self {
        Self {
            bloom: vec![quad],
            sets: Sets::of(quad),
        }
    }
}

/// What stands at each place of some bloom, one bit each: low and high halves of bytes, and whole bytes.
#[derive(Debug, Clone, Copy)]
struct Sets {
    halves: Halves,
    bytes: [[u128; 2]; WIDTH],
}

impl Sets {
    fn of(quad: Quad) -> Self {
        let halves = |byte: u8| [1 << (byte & 15), 1 << (byte >> 4)];
        let bytes = |byte: u8| [0, 1].map(|half| u128::from(byte >> 7 == half) << (byte & 127));
        Self {
            halves: quad.map(|byte| byte.map_or([u16::MAX; 2], halves)),
            bytes: quad.map(|byte| byte.map_or([u128::MAX; 2], bytes)),
        }
    }

    fn joined(&self, other: &Self) -> Self {
        let mut joined = *self;
        for place in 0..WIDTH {
            for half in 0..2 {
                joined.halves[place][half] |= other.halves[place][half];
                joined.bytes[place][half] |= other.bytes[place][half];
            }
        }
        joined
    }

    /// How often ordinary text falls into them, as a product of frequencies. `exact` where whole bytes
    /// are told apart, not only their halves.
    fn cost(&self, exact: bool) -> u64 {
        let of_bytes = |[low, high]: [u128; 2]| -> u64 {
            let bytes = values(low).chain(values(high).map(|b| b | 128));
            bytes.map(commonness).sum()
        };
        let of_halves = |[low, high]: [u16; 2]| -> u64 {
            let low = u128::from(low);
            let bytes = values(high.into()).flat_map(|h| values(low).map(move |l| h << 4 | l));
            bytes.map(commonness).sum()
        };
        if exact {
            self.bytes.map(of_bytes).iter().product()
        } else {
            self.halves.map(of_halves).iter().product()
        }
    }
}

/// The bits that are set, the lowest first.
#[inline(always)]
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = set.trailing_zeros() as usize;
        if set == 0 {
            return None;
        }
        set &= set - 1;
        Some(bit)
    })
}

/// The values of a set of byte values or halves of them.
fn values(set: u128) -> impl Iterator<Item = u8> {
    let halves = [(set as u64, 0), ((set >> 64) as u64, 64)];
    let values = halves.map(|(half, from)| bits(half).map(move |bit| from + bit as u8));
    values.into_iter().flatten()
}

/// Puts bloom together until [`GROUPS`] are left, always the two that let the least more through.
fn groups(bloom: &[Quad]) -> Vec<QuadGroup> {
    let exact = Tables::tell_bytes();
    let mut groups: Vec<QuadGroup> = bloom.iter().map(|quad| QuadGroup::of(*quad)).collect();
    let mut costs: Vec<u64> = groups.iter().map(|g| g.sets.cost(exact)).collect();
    let more = |groups: &[QuadGroup], costs: &[u64], a: usize, b: usize| {
        let joined = groups[a].sets.joined(&groups[b].sets).cost(exact);
        i128::from(joined) - i128::from(costs[a]) - i128::from(costs[b])
    };
    // What joining a group with each of those before it would cost; most of it stays as it is.
    let mut prices: Vec<Vec<i128>> = (0..groups.len())
        .map(|b| (0..b).map(|a| more(&groups, &costs, a, b)).collect())
        .collect();
    while groups.len() > GROUPS {
        let two = (0..groups.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        let (a, b) = two.min_by_key(|(a, b)| prices[*b][*a]).unwrap_or((0, 1));
        let other = groups.remove(b);
        groups[a].sets = groups[a].sets.joined(&other.sets);
        groups[a].bloom.extend(other.bloom);
        costs.remove(b);
        costs[a] = groups[a].sets.cost(exact);
        prices.remove(b);
        for prices in &mut prices[b..] {
            prices.remove(b);
        }
        for other in (0..groups.len()).filter(|other| *other != a) {
            let (first, second) = (a.min(other), a.max(other));
            prices[second][first] = more(&groups, &costs, first, second);
        }
    }
    groups
}

impl Bloom {
    pub(super) fn new(mut bloom: Vec<Quad>) -> Self {
        bloom.sort_unstable();
        bloom.dedup();
        let mut classes = Box::new([[0; 256]; WIDTH]);
        let groups = groups(&bloom);
        for (number, group) in groups.iter().enumerate() {
            for quad in &group.bloom {
                for (class, byte) in classes.iter_mut().zip(quad) {
                    for value in byte.map_or(0..=255, |b| b..=b) {
                        class[usize::from(value)] |= 1 << number;
                    }
                }
            }
        }
        for byte in 0..=255 {
            if splits_behind(byte) {
                classes[0][usize::from(byte)] |= SPLITS;
            }
            for class in &mut classes[2..] {
                class[usize::from(byte)] |= SPLITS;
            }
        }
        classes[1][usize::from(ESCAPE)] |= SPLITS;
        let halves: Vec<_> = groups.iter().map(|g| g.sets.halves).collect();
        Self {
            tables: Tables::new(&classes, &halves),
            classes,
        }
    }

    /// Calls `hit` with the place of every quad, and of the byte before an escape sequence that may split a
    /// message, in order, some others among them; returns how many newlines there are. `keep` says of a place
    /// whether it could be wanted, at next to no cost and without a branch, for most could not. `hit` answers
    /// with the next place that it wants to hear of. A text that begins with an escape sequence begins a line.
    #[inline(always)]
    pub(super) fn find(
        &self,
        text: &[u8],
        before: &mut Vec<usize>,
        keep: impl Fn(usize) -> bool,
        mut hit: impl FnMut(usize) -> usize,
    ) -> usize {
        let (mut from, mut at, mut newlines) = (0, 0, 0);
        let mut masks = [0; STRETCH / STEP];
        loop {
            let left = (text.len() - at).saturating_sub(WIDTH - 1) / STEP;
            let masks = &mut masks[..left.min(STRETCH / STEP)];
            let Some(seen) = self.tables.look(&text[at..], masks) else {
                break;
            };
            if masks.is_empty() {
                break;
            }
            before.push(newlines);
            newlines += seen.newlines;
            let mut kept = 0;
            for step in bits(seen.found) {
                let places = bits(masks[step]).filter(|place| keep(at + step * STEP + place));
                masks[step] = places.fold(0, |places, place| places | 1 << place);
                kept |= u64::from(masks[step] != 0) << step;
            }
            for step in bits(kept) {
                for place in bits(masks[step]) {
                    let place = at + step * STEP + place;
                    if place >= from {
                        from = hit(place);
                    }
                }
            }
            at += masks.len() * STEP;
        }
        for stretch in text[at..].chunks(STRETCH) {
            if at.is_multiple_of(STRETCH) {
                before.push(newlines);
            }
            newlines += memchr::memchr_iter(b'\n', stretch).count();
        }
        while at < text.len() {
            if at >= from && self.may_begin(text, at) && keep(at) {
                from = hit(at);
            }
            at += 1;
        }
        newlines
    }

    #[cfg(test)]
    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// May a quad, or what splits a message, begin at a place?
    pub(super) fn may_begin(&self, text: &[u8], at: usize) -> bool {
        let byte = |place: usize| usize::from(text.get(at + place).copied().unwrap_or(b'\n'));
        let classes = self.classes.iter().enumerate();
        let groups = classes.map(|(place, class)| class[byte(place)]);
        groups.fold(u8::MAX, |all, groups| all & groups) != 0
    }
}
