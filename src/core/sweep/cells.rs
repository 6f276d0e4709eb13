//! The cells of a sweep that are judged: every combination of the values that matter, or the corners and a
//! sample where those are too many.

use super::axis::{Axis, Sweep, number};
use super::draw::RandomStream;
use super::judge::Judge;
use super::nodes::Cell;

/// Combinations that are all judged; of more, the corners and a sample.
pub const MOST_CELLS: u64 = 200_000;
/// Corners that are judged at most.
const MOST_CORNERS: u32 = 1 << 14;
/// Cells drawn between the corners.
const DRAWN: u64 = 20_000;

/// Cells to judge. Axes that neither memory nor a rule looks at stay at their first value: each cell then stands
/// for all that differ only there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cells {
    /// The cells, by the numbers of their values.
    pub cells: Vec<Vec<u32>>,
    /// Cells of the sweep for which each of them stands.
    pub each: u64,
    /// True when they are corners and a sample, not all.
    pub sampled: bool,
}

impl Cells {
    /// The cells of `sweep` that `judge` must look at.
    pub fn new(sweep: &Sweep, judge: &Judge<'_>) -> Self {
        let matter = judge.axes();
        let size = |axis: usize| u64::try_from(sweep.axes[axis].values.len()).unwrap_or(u64::MAX);
        let sizes: Vec<u64> = matter.iter().map(|a| size(*a)).collect();
        let all = sizes.iter().fold(1, |n: u64, s| n.saturating_mul(*s));
        let each = sweep.cells() / all.max(1);
        let blank = vec![0; sweep.axes.len()];
        let put = |numbers: &[u64]| {
            let mut cell: Cell = blank.clone();
            for (axis, number) in matter.iter().zip(numbers) {
                cell[*axis] = u32::try_from(*number).unwrap_or(u32::MAX);
            }
            cell
        };
        let sampled = all > MOST_CELLS;
        let cells = if sampled {
            let ends: Vec<(u64, u64)> = matter.iter().map(|a| ends(&sweep.axes[*a])).collect();
            let mut cells: Vec<Cell> = corners(&ends).map(|c| put(&c)).collect();
            cells.extend((0..DRAWN).map(|i| put(&drawn(&sizes, i))));
            cells.sort_unstable();
            cells.dedup();
            cells
        } else {
            (0..all).map(|i| put(&digits(&sizes, i))).collect()
        };
        Self {
            cells,
            each: each.max(1),
            sampled,
        }
    }
}

/// The numbers of combination `index`, the last axis running fastest.
pub(super) fn digits(sizes: &[u64], mut index: u64) -> Vec<u64> {
    let mut numbers = vec![0; sizes.len()];
    for (number, size) in numbers.iter_mut().zip(sizes).rev() {
        *number = index % size;
        index /= size;
    }
    numbers
}

/// The numbers of an axis's least and largest value; of text the first and the last.
fn ends(axis: &Axis) -> (u64, u64) {
    let numbers = axis.values.iter().zip(0..);
    let mut found: Vec<(f64, u64)> = numbers
        .filter_map(|(v, at)| Some((number(v)?, at)))
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    match (found.first(), found.last()) {
        (Some(low), Some(high)) => (low.1, high.1),
        _ => (
            0,
            u64::try_from(axis.values.len())
                .unwrap_or(1)
                .saturating_sub(1),
        ),
    }
}

/// Combinations of the ends; of too many the first ones and the one with every axis at its largest.
fn corners(ends: &[(u64, u64)]) -> impl Iterator<Item = Vec<u64>> + '_ {
    let count = u32::try_from(ends.len())
        .ok()
        .and_then(|n| 1_u32.checked_shl(n));
    let masks = (0..count.unwrap_or(MOST_CORNERS).min(MOST_CORNERS)).chain([u32::MAX]);
    masks.map(move |mask| {
        let end = |(bit, (low, high)): (u32, &(u64, u64))| {
            let largest = mask == u32::MAX || mask.checked_shr(bit).unwrap_or(0) & 1 == 1;
            if largest { *high } else { *low }
        };
        (0..).zip(ends).map(end).collect()
    })
}

/// Combination `index` of a sample that is the same in every run.
fn drawn(sizes: &[u64], index: u64) -> Vec<u64> {
    let mut stream = RandomStream::new(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    sizes.iter().map(|size| stream.next() % size).collect()
}
