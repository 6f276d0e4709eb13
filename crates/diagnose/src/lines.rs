//! A stream of bytes, in pieces of any size, to lines: bounded memory, the same lines for any split.
//!
//! A carriage return ends a line as a newline does (progress bars), but only newlines are counted, so
//! that line numbers agree with an editor's. A line longer than [`WINDOW`] is handed out in windows
//! that overlap by [`OVERLAP`]; a match belongs to the window that owns its first byte.

use serde::{Deserialize, Serialize};

/// Longest piece of a line that is held in memory, in bytes.
pub(crate) const WINDOW: usize = 16 * 1024;

/// How much of a window is seen again at the start of the next, in bytes. No message that a signature
/// needs as a whole is longer.
pub(crate) const OVERLAP: usize = 4 * 1024;

/// Longest block of lines that is handed out at once, in bytes.
const BLOCK: usize = 256 * 1024;

/// One line, or one window of a giant line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinePiece<'a> {
    /// The bytes, without the line end.
    pub bytes: &'a [u8],
    /// Offset of the first byte in its file.
    pub offset: u64,
    /// Line number from 1, counting `\n` only.
    pub line: u64,
    /// Matches that start before this byte belong to this piece.
    pub own: usize,
    /// False for the second and later windows of a giant line.
    pub starts_line: bool,
}

/// Whole lines, each with its end, and where they stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineBlock<'a> {
    /// The bytes; the last is a line end.
    pub bytes: &'a [u8],
    /// Offset of the first byte in its file.
    pub offset: u64,
    /// Number of the first line.
    pub line: u64,
}

impl<'a> LineBlock<'a> {
    /// The line that holds a byte, without its end: where it starts and ends.
    pub(crate) fn line_at(&self, at: usize) -> (usize, usize) {
        let start = memchr::memrchr2(b'\n', b'\r', &self.bytes[..at]).map_or(0, |end| end + 1);
        let end = memchr::memchr2(b'\n', b'\r', &self.bytes[at..]);
        (start, end.map_or(self.bytes.len(), |end| at + end))
    }

    /// A line of the block, in windows if it is a giant one.
    pub(crate) fn pieces(
        &self,
        start: usize,
        end: usize,
        line: u64,
    ) -> impl Iterator<Item = LinePiece<'a>> {
        let text = &self.bytes[start..end];
        let offset = self.offset + start as u64;
        windows(text.len()).map(move |(from, to, own)| LinePiece {
            bytes: &text[from..to],
            offset: offset + from as u64,
            line,
            own,
            starts_line: from == 0,
        })
    }
}

/// The windows of a line of this length: from, to, and how much of it each owns.
pub(crate) fn windows(length: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let mut from = Some(0);
    std::iter::from_fn(move || {
        let start = from?;
        let left = length - start;
        if left < WINDOW {
            from = None;
            return (left > 0).then_some((start, length, left));
        }
        from = Some(start + WINDOW - OVERLAP);
        Some((start, start + WINDOW, WINDOW - OVERLAP))
    })
}

/// Calls `each` with the first match in every line that has one.
pub(crate) fn each_line(
    block: &[u8],
    find: impl Fn(usize) -> Option<usize>,
    mut each: impl FnMut(usize),
) {
    let mut from = 0;
    while from < block.len()
        && let Some(at) = find(from)
    {
        each(at.min(block.len() - 1));
        let rest = block.get(at..).unwrap_or_default();
        from = match memchr::memchr2(b'\n', b'\r', rest) {
            Some(end) => at + end + 1,
            None => block.len(),
        };
    }
}

/// Takes what a [`Splitter`] hands out, in order.
pub(crate) trait Sink {
    /// Takes whole lines; returns how many newlines they hold.
    fn block(&mut self, block: LineBlock<'_>) -> u64;
    /// Takes a line whose bytes came in several pieces, or one window of it.
    fn piece(&mut self, piece: LinePiece<'_>);
}

/// Splits what is fed. Holds at most [`WINDOW`] bytes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Splitter {
    #[serde(with = "super::serial::bytes")]
    carry: Vec<u8>,
    carry_starts_line: bool,
    /// File offset of the next byte expected.
    next: u64,
    newlines: u64,
}

impl Splitter {
    pub(crate) fn new() -> Self {
        Self {
            carry_starts_line: true,
            ..Self::default()
        }
    }

    /// Lines seen so far, an unfinished one included.
    pub(crate) fn lines_seen(&self) -> u64 {
        self.newlines + u64::from(!self.carry.is_empty())
    }

    /// The unfinished line, for display.
    pub(crate) fn unfinished(&self) -> &[u8] {
        &self.carry
    }

    /// File offset of the next byte expected.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// Starts over at `offset`, without handing out the unfinished line.
    pub(crate) fn restart_at(&mut self, offset: u64) {
        if offset == 0 {
            self.newlines = 0;
        }
        self.carry.clear();
        self.carry_starts_line = true;
        self.next = offset;
    }

    /// Hands whole lines out as they lie there, in blocks of at most [`BLOCK`] bytes; only a line whose
    /// end has not come, and a giant one, are copied.
    pub(crate) fn feed(&mut self, bytes: &[u8], sink: &mut impl Sink) {
        let mut rest = self.finish_carry(bytes, sink);
        while !rest.is_empty() {
            let near = &rest[..rest.len().min(BLOCK)];
            match memchr::memrchr2(b'\n', b'\r', near) {
                Some(end) => {
                    let bytes = &rest[..=end];
                    let (offset, line) = (self.next, self.newlines + 1);
                    self.newlines += sink.block(LineBlock {
                        bytes,
                        offset,
                        line,
                    });
                    self.next += bytes.len() as u64;
                    rest = &rest[end + 1..];
                }
                None if near.len() == rest.len() => {
                    self.grow_carry(rest, sink);
                    return;
                }
                None => {
                    let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                    self.grow_carry(&rest[..end], sink);
                    rest = self.finish_carry(&rest[end..], sink);
                }
            }
        }
    }

    /// Hands out an unfinished last line.
    pub(crate) fn finish(&mut self, sink: &mut impl Sink) {
        if !self.carry.is_empty() {
            self.emit_carry(true, sink);
        }
    }

    /// Completes the carried line from the head of `bytes`; returns what follows it.
    fn finish_carry<'b>(&mut self, bytes: &'b [u8], sink: &mut impl Sink) -> &'b [u8] {
        if self.carry.is_empty() && self.carry_starts_line {
            return bytes;
        }
        let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
            self.grow_carry(bytes, sink);
            return &[];
        };
        self.grow_carry(&bytes[..end], sink);
        self.emit_carry(true, sink);
        self.newlines += u64::from(bytes[end] == b'\n');
        self.next += 1;
        &bytes[end + 1..]
    }

    fn grow_carry(&mut self, mut bytes: &[u8], sink: &mut impl Sink) {
        while !bytes.is_empty() {
            let take = bytes.len().min(WINDOW - self.carry.len());
            self.carry.extend_from_slice(&bytes[..take]);
            self.next += take as u64;
            bytes = &bytes[take..];
            if self.carry.len() == WINDOW {
                self.emit_carry(false, sink);
            }
        }
    }

    fn emit_carry(&mut self, complete: bool, sink: &mut impl Sink) {
        let own = if complete {
            self.carry.len()
        } else {
            WINDOW - OVERLAP
        };
        if !self.carry.is_empty() {
            sink.piece(LinePiece {
                bytes: &self.carry,
                offset: self.next - self.carry.len() as u64,
                line: self.newlines + 1,
                own,
                starts_line: self.carry_starts_line,
            });
        }
        self.carry.drain(..own);
        if self.carry.is_empty() {
            self.carry = Vec::new();
        }
        self.carry_starts_line = complete;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type PieceFields = (Vec<u8>, u64, u64, usize, bool);

    fn seen(piece: LinePiece<'_>) -> PieceFields {
        (
            piece.bytes.to_vec(),
            piece.offset,
            piece.line,
            piece.own,
            piece.starts_line,
        )
    }

    struct All(Vec<PieceFields>);

    impl Sink for All {
        fn block(&mut self, block: LineBlock<'_>) -> u64 {
            let (mut at, mut newlines) = (0, 0);
            while at < block.bytes.len() {
                let (start, end) = block.line_at(at);
                let pieces = block.pieces(start, end, block.line + newlines);
                self.0.extend(pieces.map(seen));
                newlines += u64::from(block.bytes[end] == b'\n');
                at = end + 1;
            }
            newlines
        }

        fn piece(&mut self, piece: LinePiece<'_>) {
            self.0.push(seen(piece));
        }
    }

    fn lines_of(parts: &[&[u8]]) -> (Vec<PieceFields>, u64) {
        let mut splitter = Splitter::new();
        let mut out = All(Vec::new());
        for part in parts {
            splitter.feed(part, &mut out);
            assert!(splitter.carry.len() <= WINDOW);
        }
        splitter.finish(&mut out);
        (out.0, splitter.position())
    }

    #[test]
    fn carriage_returns_end_lines_but_are_not_counted() {
        let (lines, end) = lines_of(&[b"a\rbc\r\nd"]);
        let brief: Vec<_> = lines
            .iter()
            .map(|l| (String::from_utf8_lossy(&l.0).into_owned(), l.1, l.2))
            .collect();
        assert_eq!(
            brief,
            [("a".into(), 0, 1), ("bc".into(), 2, 1), ("d".into(), 6, 2)]
        );
        assert_eq!(end, 7);
    }

    #[test]
    fn a_giant_line_comes_in_windows_that_own_each_byte_once() {
        let giant = vec![b'x'; 3 * WINDOW + 17];
        let (lines, _) = lines_of(&[&giant]);
        let owned: usize = lines.iter().map(|l| l.3).sum();
        assert_eq!(owned, giant.len());
        assert!(lines[0].4 && !lines[1].4);
        assert_eq!(lines[1].1, (WINDOW - OVERLAP) as u64);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_lines(
            runs in prop::collection::vec((prop::sample::select(vec![b'a', b'\n', b'\r', 0]), 1_usize..9_000), 0..12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let bytes: Vec<u8> = runs.iter().flat_map(|(b, n)| {
                std::iter::repeat_n(*b, if *b == b'a' { *n } else { n % 4 })
            }).collect();
            let mut at: Vec<usize> = cuts.iter().map(|i| i.index(bytes.len() + 1)).collect();
            at.push(0);
            at.push(bytes.len());
            at.sort_unstable();
            let parts: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(lines_of(&parts), lines_of(&[&bytes]));
        }
    }
}
