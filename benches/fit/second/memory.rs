//! Where tensors go: blocks of an allocator, or a sum of bytes where that settles it already.

/// Blocks of one stream are not used by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Compute = 0,
    Gather = 1,
    Reduce = 2,
}

/// A tensor's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub index: u32,
    pub bytes: u64,
}

/// A request that could not be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    pub requested: u64,
    pub allocated: u64,
    pub reserved: u64,
}

/// The most that was in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub allocated: u64,
    pub reserved: u64,
}

pub type Step<T> = Result<T, Shortage>;

pub trait Memory {
    fn take(&mut self, stream: Stream, bytes: u64) -> Step<Piece>;
    fn give(&mut self, piece: Piece);
    fn most(&self) -> Usage;
}

/// Counts bytes alone: what does not fit here fits in no allocator.
#[derive(Debug)]
pub struct Sum {
    capacity: u64,
    live: u64,
    most: u64,
}

impl Sum {
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            live: 0,
            most: 0,
        }
    }
}

impl Memory for Sum {
    fn take(&mut self, _: Stream, bytes: u64) -> Step<Piece> {
        if self.live + bytes > self.capacity {
            return Err(Shortage {
                requested: bytes,
                allocated: self.live,
                reserved: self.live,
            });
        }
        self.live += bytes;
        self.most = self.most.max(self.live);
        Ok(Piece { index: 0, bytes })
    }

    fn give(&mut self, piece: Piece) {
        self.live -= piece.bytes;
    }

    fn most(&self) -> Usage {
        Usage {
            allocated: self.most,
            reserved: self.most,
        }
    }
}
