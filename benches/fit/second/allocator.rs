//! A caching block allocator, as PyTorch's is described in the notes of c10/cuda/CUDACachingAllocator.cpp
//! (2.8): requests in units of 512 bytes; up to 1 MiB from segments of 2 MiB, below 10 MiB from segments of
//! 20 MiB, larger ones from segments of their own in units of 2 MiB; the smallest free block that holds a
//! request, split where enough is left; blocks belong to a stream; free segments go back to the driver
//! before a request fails.

use std::collections::BTreeSet;

use super::memory::{Memory, Piece, Shortage, Stream, Usage};

const MIB: u64 = 1 << 20;
/// Requests are multiples of this.
const UNIT: u64 = 512;
const SMALL_REQUEST: u64 = MIB;
const SMALL_SEGMENT: u64 = 2 * MIB;
const MIDDLE_REQUEST: u64 = 10 * MIB;
const MIDDLE_SEGMENT: u64 = 20 * MIB;
const PAGE: u64 = 2 * MIB;
/// No block.
const NONE: u32 = u32::MAX;
/// Pools: a small and a large one for each stream.
const POOLS: usize = 6;

#[derive(Debug, Clone, Copy)]
struct Block {
    bytes: u64,
    /// Neighbours in the same segment.
    left: u32,
    right: u32,
    pool: u8,
    free: bool,
}

/// One process's memory on one GPU.
#[derive(Debug)]
pub struct Blocks {
    capacity: u64,
    /// Segments grow and shrink page by page.
    expandable: bool,
    blocks: Vec<Block>,
    /// Places in `blocks` that are not in use.
    spare: Vec<u32>,
    /// Free blocks of each pool, by size.
    free: [BTreeSet<(u64, u32)>; POOLS],
    live: u64,
    reserved: u64,
    most: Usage,
}

fn is_small(pool: u8) -> bool {
    pool.is_multiple_of(2)
}

fn pool_of(stream: Stream, bytes: u64) -> u8 {
    2 * stream as u8 + u8::from(bytes > SMALL_REQUEST)
}

fn segment_for(bytes: u64) -> u64 {
    match bytes {
        0..=SMALL_REQUEST => SMALL_SEGMENT,
        x if x < MIDDLE_REQUEST => MIDDLE_SEGMENT,
        x => x.next_multiple_of(PAGE),
    }
}

impl Blocks {
    /// A process that may take `capacity` bytes from the driver.
    pub fn new(capacity: u64, expandable: bool) -> Self {
        Self {
            capacity,
            expandable,
            blocks: Vec::new(),
            spare: Vec::new(),
            free: Default::default(),
            live: 0,
            reserved: 0,
            most: Usage::default(),
        }
    }

    fn put(&mut self, block: Block) -> u32 {
        if let Some(index) = self.spare.pop() {
            self.blocks[index as usize] = block;
            return index;
        }
        self.blocks.push(block);
        u32::try_from(self.blocks.len() - 1).expect("far fewer blocks than that")
    }

    fn at(&mut self, index: u32) -> &mut Block {
        &mut self.blocks[index as usize]
    }

    fn found(&mut self, pool: u8, bytes: u64) -> Option<u32> {
        let free = &mut self.free[usize::from(pool)];
        let best = free.range((bytes, 0)..).next().copied()?;
        free.remove(&best);
        Some(best.1)
    }

    /// A segment of its own for a request, after giving back what is unused where that is needed.
    fn segment(&mut self, pool: u8, bytes: u64) -> Option<u32> {
        let size = segment_for(bytes);
        if self.reserved + size > self.capacity {
            self.empty_cache();
        }
        if self.reserved + size > self.capacity {
            return None;
        }
        self.reserved += size;
        self.most.reserved = self.most.reserved.max(self.reserved);
        Some(self.put(Block {
            bytes: size,
            left: NONE,
            right: NONE,
            pool,
            free: false,
        }))
    }

    /// Leaves what the request does not need as a free block beside it.
    fn split(&mut self, index: u32, bytes: u64) {
        let block = *self.at(index);
        let rest = block.bytes - bytes;
        let worth = if is_small(block.pool) || self.expandable {
            rest >= UNIT
        } else {
            rest > SMALL_REQUEST
        };
        if !worth {
            return;
        }
        let beside = self.put(Block {
            bytes: rest,
            left: index,
            right: block.right,
            pool: block.pool,
            free: true,
        });
        if block.right != NONE {
            self.at(block.right).left = beside;
        }
        let first = self.at(index);
        first.bytes = bytes;
        first.right = beside;
        self.free[usize::from(block.pool)].insert((rest, beside));
    }

    /// Joins a free block to its right neighbour, if that is free too.
    fn join(&mut self, index: u32) {
        let right = self.at(index).right;
        if right == NONE || !self.at(right).free {
            return;
        }
        let gone = *self.at(right);
        self.free[usize::from(gone.pool)].remove(&(gone.bytes, right));
        let block = self.at(index);
        block.bytes += gone.bytes;
        block.right = gone.right;
        if gone.right != NONE {
            self.at(gone.right).left = index;
        }
        self.spare.push(right);
    }

    /// Gives unused segments back to the driver; of expandable ones every unused page.
    pub fn empty_cache(&mut self) {
        for pool in 0..POOLS {
            let all: Vec<(u64, u32)> = self.free[pool].iter().copied().collect();
            for (bytes, index) in all {
                let block = *self.at(index);
                let whole = block.left == NONE && block.right == NONE;
                let pages = if whole {
                    bytes
                } else if self.expandable {
                    bytes / PAGE * PAGE
                } else {
                    0
                };
                if pages > 0 {
                    self.give_back(pool, index, pages);
                }
            }
        }
    }

    fn give_back(&mut self, pool: usize, index: u32, pages: u64) {
        let block = *self.at(index);
        self.free[pool].remove(&(block.bytes, index));
        self.reserved -= pages;
        if block.bytes > pages {
            self.at(index).bytes -= pages;
            self.free[pool].insert((block.bytes - pages, index));
            return;
        }
        if block.left != NONE {
            self.at(block.left).right = NONE;
        }
        if block.right != NONE {
            self.at(block.right).left = NONE;
        }
        self.spare.push(index);
    }

    /// What the blocks add up to: in use, and in all.
    #[allow(dead_code, reason = "tests count")]
    pub fn counted(&self) -> (u64, u64) {
        let gone: BTreeSet<u32> = self.spare.iter().copied().collect();
        let all = self.blocks.iter().zip(0_u32..);
        let all = all.filter(|(_, index)| !gone.contains(index));
        all.fold((0, 0), |(live, whole), (block, _)| {
            let used = if block.free { 0 } else { block.bytes };
            (live + used, whole + block.bytes)
        })
    }

    #[allow(dead_code, reason = "tests compare")]
    pub fn held(&self) -> (u64, u64) {
        (self.live, self.reserved)
    }
}

impl Memory for Blocks {
    fn take(&mut self, stream: Stream, bytes: u64) -> Result<Piece, Shortage> {
        let rounded = bytes.max(1).next_multiple_of(UNIT);
        let pool = pool_of(stream, rounded);
        let found = self.found(pool, rounded);
        let Some(index) = found.or_else(|| self.segment(pool, rounded)) else {
            return Err(Shortage {
                requested: bytes,
                allocated: self.live,
                reserved: self.reserved,
            });
        };
        self.split(index, rounded);
        let block = self.at(index);
        block.free = false;
        let bytes = block.bytes;
        self.live += bytes;
        self.most.allocated = self.most.allocated.max(self.live);
        Ok(Piece { index, bytes })
    }

    fn give(&mut self, piece: Piece) {
        let mut index = piece.index;
        let block = self.at(index);
        block.free = true;
        let (pool, left) = (usize::from(block.pool), block.left);
        self.live -= piece.bytes;
        self.join(index);
        if left != NONE && self.at(left).free {
            let bytes = self.at(left).bytes;
            self.free[pool].remove(&(bytes, left));
            // Its right neighbour is this block, which no pool holds yet.
            self.join(left);
            index = left;
        }
        let bytes = self.at(index).bytes;
        self.free[pool].insert((bytes, index));
    }

    fn most(&self) -> Usage {
        self.most
    }
}
