//! GiB, as this bench writes and draws them.

pub const GIB: f64 = (1_u64 << 30) as f64;

/// Bytes from GiB.
pub fn gib(x: f64) -> u64 {
    (x * GIB) as u64
}
