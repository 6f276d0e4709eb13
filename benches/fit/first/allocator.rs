//! PyTorch's caching allocator, as far as sizes go: rounding, segments, best fit, splitting, merging, and
//! giving cached segments back before it gives up (c10/cuda/CUDACachingAllocator.cpp, PyTorch 2.6).

use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;
/// Every block is a multiple of this.
const ROUND: u64 = 512;
/// Blocks up to this size come from segments of `SMALL_SEGMENT`.
const SMALL: u64 = MIB;
const SMALL_SEGMENT: u64 = 2 * MIB;
/// Blocks below this size come from segments of `LARGE_SEGMENT`, others from their own.
const OWN: u64 = 10 * MIB;
const LARGE_SEGMENT: u64 = 20 * MIB;
/// Segments of their own are multiples of this.
const SEGMENT_ROUND: u64 = 2 * MIB;

/// A live allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle(usize);

/// An allocation that failed, in the words of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes asked for, unrounded.
    pub requested: u64,
    /// Bytes in live blocks.
    pub allocated: u64,
    /// Bytes in segments.
    pub reserved: u64,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    size: u64,
    free: bool,
    small: bool,
    /// Neighbours in the same segment.
    before: Option<usize>,
    after: Option<usize>,
}

/// The allocator of one process with `capacity` bytes to itself.
#[derive(Debug, Clone)]
pub struct Allocator {
    capacity: u64,
    /// Segments grow and shrink in place (`expandable_segments:True`): whatever is free can be used for
    /// anything, so nothing is kept.
    expandable: bool,
    blocks: Vec<Block>,
    unused: Vec<usize>,
    free: [BTreeSet<(u64, usize)>; 2],
    allocated: u64,
    reserved: u64,
    /// Most bytes in live blocks so far.
    pub peak_allocated: u64,
    /// Most bytes in segments so far.
    pub peak_reserved: u64,
}

impl Allocator {
    pub fn new(capacity: u64, expandable: bool) -> Self {
        Self {
            capacity,
            expandable,
            blocks: Vec::new(),
            unused: Vec::new(),
            free: [BTreeSet::new(), BTreeSet::new()],
            allocated: 0,
            reserved: 0,
            peak_allocated: 0,
            peak_reserved: 0,
        }
    }

    /// Allocates; a request of nothing takes one unit, as in PyTorch.
    pub fn take(&mut self, bytes: u64) -> Result<Handle, OutOfMemory> {
        let size = bytes.max(1).div_ceil(ROUND) * ROUND;
        let found = match self.fitting(size) {
            Some(id) => id,
            None => self.grow(size).ok_or(OutOfMemory {
                requested: bytes,
                allocated: self.allocated,
                reserved: self.reserved,
            })?,
        };
        self.split(found, size);
        self.allocated += self.blocks[found].size;
        self.peak_allocated = self.peak_allocated.max(self.allocated);
        self.peak_reserved = self.peak_reserved.max(self.reserved);
        Ok(Handle(found))
    }

    /// Frees.
    pub fn give(&mut self, handle: Handle) {
        let mut id = handle.0;
        self.allocated -= self.blocks[id].size;
        if self.expandable {
            self.reserved -= self.blocks[id].size;
            self.unused.push(id);
            return;
        }
        if let Some(before) = self.blocks[id].before.filter(|b| self.blocks[*b].free) {
            self.unlist(before);
            self.join(before, id);
            id = before;
        }
        if let Some(after) = self.blocks[id].after.filter(|a| self.blocks[*a].free) {
            self.unlist(after);
            self.join(id, after);
        }
        self.blocks[id].free = true;
        self.list(id);
    }

    fn pool(small: bool) -> usize {
        usize::from(!small)
    }

    fn list(&mut self, id: usize) {
        let block = self.blocks[id];
        self.free[Self::pool(block.small)].insert((block.size, id));
    }

    fn unlist(&mut self, id: usize) {
        let block = self.blocks[id];
        self.free[Self::pool(block.small)].remove(&(block.size, id));
    }

    /// Merges the block `after` into `before`, its neighbour.
    fn join(&mut self, before: usize, after: usize) {
        let gone = self.blocks[after];
        self.blocks[before].size += gone.size;
        self.blocks[before].after = gone.after;
        if let Some(next) = gone.after {
            self.blocks[next].before = Some(before);
        }
        self.unused.push(after);
    }

    /// Takes the smallest free block that is large enough off its list.
    fn fitting(&mut self, size: u64) -> Option<usize> {
        let pool = Self::pool(size <= SMALL);
        let (_, id) = self.free[pool].range((size, 0)..).next().copied()?;
        self.unlist(id);
        self.blocks[id].free = false;
        Some(id)
    }

    /// A new segment, after giving back what is wholly unused if need be.
    fn grow(&mut self, size: u64) -> Option<usize> {
        let segment = match size {
            s if self.expandable => s,
            s if s <= SMALL => SMALL_SEGMENT,
            s if s < OWN => LARGE_SEGMENT,
            s => s.div_ceil(SEGMENT_ROUND) * SEGMENT_ROUND,
        };
        if self.reserved + segment > self.capacity {
            self.release();
        }
        if self.reserved + segment > self.capacity {
            return None;
        }
        self.reserved += segment;
        Some(self.insert(Block {
            size: segment,
            free: false,
            small: size <= SMALL,
            before: None,
            after: None,
        }))
    }

    fn insert(&mut self, block: Block) -> usize {
        if let Some(id) = self.unused.pop() {
            self.blocks[id] = block;
            id
        } else {
            self.blocks.push(block);
            self.blocks.len() - 1
        }
    }

    /// Cuts what is left of a block off, where it is worth keeping.
    fn split(&mut self, id: usize, size: u64) {
        let block = self.blocks[id];
        let left = block.size - size;
        let worth = if block.small {
            left >= ROUND
        } else {
            left > SMALL
        };
        if !worth {
            return;
        }
        let rest = self.insert(Block {
            size: left,
            free: true,
            small: block.small,
            before: Some(id),
            after: block.after,
        });
        if let Some(next) = block.after {
            self.blocks[next].before = Some(rest);
        }
        self.blocks[id].after = Some(rest);
        self.blocks[id].size = size;
        self.list(rest);
    }

    /// Gives segments back that hold no live block.
    fn release(&mut self) {
        for pool in 0..2 {
            let whole: Vec<(u64, usize)> = self.free[pool]
                .iter()
                .filter(|(_, id)| {
                    let block = self.blocks[*id];
                    block.before.is_none() && block.after.is_none()
                })
                .copied()
                .collect();
            for entry in whole {
                self.free[pool].remove(&entry);
                self.unused.push(entry.1);
                self.reserved -= entry.0;
            }
        }
    }
}
