//! Four neighbouring bytes, by which a short needle is found.

/// What begins an escape sequence.
pub(super) const ESCAPE: u8 = 0x1b;

/// Bytes of a quad.
pub(super) const WIDTH: usize = 4;

/// Four neighbouring bytes; `None`: any.
pub(super) type Quad = [Option<u8>; WIDTH];

/// For each byte value a bit for each group in which it may stand at a place of a quad.
pub(super) type Classes = [[u8; 256]; WIDTH];

/// Low and high halves of the bytes that stand at each place of some bloom, one bit each.
pub(super) type Halves = [[u16; 2]; WIDTH];
