//! The part of a log that is looked at: a window of bounded size, as lines that know where they stand in the file.

use std::ops::Range;

use oomctl_diagnose::sanitize;

/// Most bytes of a log that are held.
pub const WINDOW: u64 = 256 * 1024;
/// Most characters of a line that are held.
const LINE_MAX: usize = 4_096;

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// What a terminal would show of it.
    pub text: String,
}

/// The lines of a part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogText {
    /// In the order of the file.
    pub lines: Vec<LogLine>,
    /// The part, in bytes.
    pub part: Range<u64>,
    /// Bytes of the whole file.
    pub length: u64,
}

/// Where in a log the screen stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogPosition {
    /// At its end, wherever that will be.
    #[default]
    End,
    /// With the line that begins at or behind this byte on top.
    At(u64),
}

impl LogPosition {
    /// The part of a file of so many bytes that is read for this place.
    pub fn part(self, length: u64) -> Range<u64> {
        let start = match self {
            Self::End => length.saturating_sub(WINDOW),
            Self::At(offset) => offset.min(length).saturating_sub(WINDOW / 2),
        };
        start..length.min(start + WINDOW)
    }
}

impl LogText {
    /// The lines of `bytes`, which stand at `start` in a file of `length` bytes. A first line whose beginning is not among
    /// them is left out, unless it is the only one.
    pub fn new(bytes: &[u8], start: u64, length: u64) -> Self {
        let mut lines = Vec::new();
        let mut offset = start;
        for (at, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
            let torn = at == 0 && start > 0 && line.len() < bytes.len();
            if !torn {
                lines.push(LogLine {
                    offset,
                    text: shown(line),
                });
            }
            offset += line.len() as u64;
        }
        Self {
            lines,
            part: start..offset,
            length,
        }
    }

    /// The line on top of `rows` rows at a place.
    pub fn top(&self, place: LogPosition, rows: usize) -> usize {
        let last = self.lines.len().saturating_sub(rows);
        match place {
            LogPosition::End => last,
            LogPosition::At(offset) => {
                let top = self.lines.partition_point(|l| l.offset < offset);
                // The last screen is full where the file ends with it; elsewhere the window will move.
                if self.part.end >= self.length {
                    top.min(last)
                } else {
                    top.min(self.lines.len().saturating_sub(1))
                }
            }
        }
    }

    /// The place `by` lines further, seen through `rows` rows.
    pub fn moved(&self, place: LogPosition, by: isize, rows: usize) -> LogPosition {
        let top = self.top(place, rows);
        let to = top.saturating_add_signed(by);
        let at_end = self.part.end >= self.length;
        if at_end && to + rows >= self.lines.len() {
            return LogPosition::End;
        }
        let last = self.lines.len().saturating_sub(1);
        match self.lines.get(to.min(last)) {
            Some(line) => LogPosition::At(line.offset),
            None => place,
        }
    }
}

/// What a terminal would show of a line: a bar that was drawn again and again with carriage returns as it stood at last.
fn shown(line: &[u8]) -> String {
    let parts = line.split(|b| matches!(b, b'\r' | b'\n')).rev();
    let last = parts.into_iter().find(|part| !part.is_empty());
    let last = last.unwrap_or_default();
    let bytes = &last[..last.len().min(LINE_MAX * 4)];
    let text = sanitize(bytes);
    match text.char_indices().nth(LINE_MAX) {
        Some((cut, _)) => text[..cut].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &LogText) -> Vec<&str> {
        text.lines.iter().map(|l| l.text.as_str()).collect()
    }

    #[test]
    fn a_line_is_what_a_terminal_would_show_of_it() {
        let log = b"10%|#  |\r20%|## |\r\n\x1b[31mred\x1b[0m\ta\x07\n\nend";
        let text = LogText::new(log, 0, log.len() as u64);
        assert_eq!(texts(&text), ["20%|## |", "red a", "", "end"]);
        assert_eq!(text.lines[1].offset, 19);
    }

    #[test]
    fn a_line_whose_beginning_is_missing_is_left_out_unless_there_is_no_other() {
        assert_eq!(texts(&LogText::new(b"ail\nnext\n", 90, 99)), ["next"]);
        assert_eq!(
            texts(&LogText::new(b"one endless line", 90, 106)),
            ["one endless line"]
        );
        assert_eq!(texts(&LogText::new(b"first\n", 0, 6)), ["first"]);
    }

    #[test]
    fn a_line_of_any_length_takes_bounded_room() {
        let log = vec![b'x'; usize::try_from(WINDOW).unwrap()];
        let text = LogText::new(&log, 0, WINDOW);
        assert_eq!(text.lines[0].text.len(), LINE_MAX);
    }

    #[test]
    fn scrolling_goes_line_by_line_and_stays_at_the_end_once_it_is_there() {
        let log: String = (0..100).map(|n| format!("line {n:02}\n")).collect();
        let text = LogText::new(log.as_bytes(), 0, log.len() as u64);
        assert_eq!(text.top(LogPosition::End, 10), 90);
        let up = text.moved(LogPosition::End, -1, 10);
        assert_eq!(up, LogPosition::At(89 * 8));
        assert_eq!(text.moved(up, 1, 10), LogPosition::End);
        assert_eq!(text.moved(up, -1_000, 10), LogPosition::At(0));
        assert_eq!(text.moved(LogPosition::At(0), 3, 10), LogPosition::At(24));
        // Fewer lines than rows: there is nothing to scroll.
        assert_eq!(text.moved(LogPosition::End, -1, 200), LogPosition::End);
    }

    #[test]
    fn a_window_lies_around_its_place_and_never_outside_of_the_file() {
        assert_eq!(LogPosition::End.part(1_000), 0..1_000);
        assert_eq!(LogPosition::End.part(3 * WINDOW), 2 * WINDOW..3 * WINDOW);
        assert_eq!(LogPosition::At(5).part(3 * WINDOW), 0..WINDOW);
        assert_eq!(LogPosition::At(9 * WINDOW).part(1_000), 0..1_000);
        let middle = LogPosition::At(2 * WINDOW).part(4 * WINDOW);
        assert_eq!(middle, 3 * WINDOW / 2..5 * WINDOW / 2);
    }
}
