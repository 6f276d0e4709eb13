//! A live view: the terminal's other screen, which is left as it was found.

use std::io::Write;

use anstream::stream::IsTerminal;

use super::fold::{columns, folded};
use super::print::terminal_safe;

/// To the other screen, without a cursor and without lines that go on in the next; and back.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l";
const LEAVE: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";

/// The other screen, while it lives.
pub struct AlternateScreen {
    out: anstream::AutoStream<std::io::Stdout>,
    last: String,
}

impl AlternateScreen {
    /// Takes it; `None` where standard output is no terminal.
    pub fn open() -> Option<Self> {
        if !std::io::stdout().is_terminal() {
            return None;
        }
        let mut stdout = std::io::stdout();
        // Escapes that are no colours pass also where colours are not wanted.
        stdout.write_all(ENTER.as_bytes()).ok()?;
        Some(Self {
            out: anstream::stdout(),
            last: String::new(),
        })
    }

    /// Draws a frame; false where the terminal is gone.
    pub fn draw(&mut self, text: &str) -> bool {
        let text = terminal_safe(text);
        self.last = folded(&text, columns().unwrap_or(80)).into_owned();
        let rows = rows();
        let mut stdout = std::io::stdout();
        let mut drawn = stdout.write_all(b"\x1b[H");
        for line in self.last.lines().take(rows) {
            drawn = drawn
                .and_then(|()| write!(self.out, "{line}"))
                .and_then(|()| self.out.flush())
                .and_then(|()| stdout.write_all(b"\x1b[K\r\n"));
        }
        let drawn = drawn.and_then(|()| stdout.write_all(b"\x1b[J"));
        drawn.and_then(|()| stdout.flush()).is_ok()
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        let mut stdout = std::io::stdout();
        drop(stdout.write_all(LEAVE.as_bytes()));
        // What was seen last stays.
        drop(self.out.write_all(self.last.as_bytes()));
        drop(self.out.flush());
    }
}

/// Lines that fit; the last one stays empty.
fn rows() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let rows = size.map_or(24, |size| usize::from(size.ws_row));
    if rows == 0 { 24 } else { rows - 1 }
}
