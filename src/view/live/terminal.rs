//! The terminal: its other screen without line editing, and back again whatever happens.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// To the other screen, without a cursor and without lines that go on in the next; and back.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// How the terminal was, while it is ours.
static FOUND: Mutex<Option<Termios>> = Mutex::new(None);

fn found() -> MutexGuard<'static, Option<Termios>> {
    FOUND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves the terminal as it was found; does nothing where that is done.
pub fn restore() {
    if let Some(before) = found().take() {
        let mut out = io::stdout();
        drop(out.write_all(LEAVE).and_then(|()| out.flush()));
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &before);
    }
}

/// What the keys sent, or why there are none.
pub enum Input {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Nothing for as long as was waited.
    Nothing,
    /// There is no terminal any more.
    Gone,
}

/// The terminal, while it is ours.
pub struct Terminal {
    /// What it shows.
    shown: Buffer,
}

impl Terminal {
    /// Takes it. A panic anywhere gives it back before it is told.
    pub fn open() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        static HOOK: std::sync::Once = std::sync::Once::new();
        HOOK.call_once(|| {
            let told = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |what| {
                restore();
                told(what);
            }));
        });
        *found() = Some(before);
        let taken = tcsetattr(io::stdin(), OptionalActions::Now, &raw);
        let shown = Buffer::empty(Rect::default());
        let entered = taken.map_err(io::Error::from).and_then(|()| {
            let mut out = io::stdout();
            out.write_all(ENTER).and_then(|()| out.flush())
        });
        let terminal = Self { shown };
        entered.map(|()| terminal)
    }

    /// Is it still ours?
    pub fn is_ours(&self) -> bool {
        found().is_some()
    }

    /// How large it is.
    pub fn area(&self) -> Rect {
        let size = tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|s| s.ws_col > 0 && s.ws_row > 0);
        let (width, height) = size.map_or((80, 24), |s| (s.ws_col, s.ws_row));
        Rect::new(0, 0, width, height)
    }

    /// Waits for keys.
    pub fn keys(&self, at_most: Duration) -> Input {
        let stdin = io::stdin();
        let mut wait = [PollFd::new(&stdin, PollFlags::IN)];
        let timeout = Timespec::try_from(at_most).ok();
        match poll(&mut wait, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Input::Nothing,
            Ok(_) => {}
            Err(_) => return Input::Gone,
        }
        let mut bytes = [0; 1_024];
        match rustix::io::read(&stdin, &mut bytes) {
            Ok(0) => Input::Gone,
            Ok(n) => Input::Bytes(bytes[..n].to_vec()),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Input::Nothing,
            Err(_) => Input::Gone,
        }
    }

    /// Somebody else wrote on it: the next screen is sent whole.
    pub fn forget(&mut self) {
        self.shown = Buffer::empty(Rect::default());
    }

    /// Shows a screen: only what is new is sent.
    pub fn show(&mut self, next: &Buffer) -> io::Result<()> {
        let mut bytes = Vec::new();
        if self.shown.area != next.area {
            bytes.extend_from_slice(b"\x1b[0m\x1b[2J");
            self.shown = Buffer::empty(next.area);
        }
        let cells = self.shown.diff(next);
        if cells.is_empty() && bytes.is_empty() {
            return Ok(());
        }
        paint(&cells, &mut bytes);
        let mut out = io::stdout();
        out.write_all(&bytes)?;
        out.flush()?;
        self.shown.clone_from(next);
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// The bytes that put cells where they belong.
fn paint(cells: &[(u16, u16, &Cell)], bytes: &mut Vec<u8>) {
    let mut style = None;
    let mut next = None;
    for (x, y, cell) in cells {
        if next != Some((*x, *y)) {
            bytes.extend_from_slice(format!("\x1b[{};{}H", y + 1, x + 1).as_bytes());
        }
        if style != Some((cell.fg, cell.modifier)) {
            style = Some((cell.fg, cell.modifier));
            bytes.extend_from_slice(rendition(cell.fg, cell.modifier).as_bytes());
        }
        bytes.extend_from_slice(cell.symbol().as_bytes());
        // What is wider moves the cursor further than one can be sure of.
        next = cell.symbol().is_ascii().then_some((x + 1, *y));
    }
}

/// Select Graphic Rendition (ECMA-48, 8.3.117), from nothing.
fn rendition(colour: Color, modifier: Modifier) -> String {
    let mut codes = String::from("\x1b[0");
    for (bit, code) in [
        (Modifier::BOLD, ";1"),
        (Modifier::DIM, ";2"),
        (Modifier::UNDERLINED, ";4"),
        (Modifier::REVERSED, ";7"),
    ] {
        if modifier.contains(bit) {
            codes.push_str(code);
        }
    }
    codes.push_str(match colour {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        _ => "",
    });
    codes.push('m');
    codes
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::process::Command;

    use rustix::termios::LocalModes;

    use super::*;

    const LAST_WORDS: &str = "what the thread says";

    #[test]
    #[ignore = "it panics while it has the terminal: the test below runs it on one of its own"]
    fn panicking() {
        let terminal = Terminal::open().unwrap();
        let drawing = std::thread::spawn(|| panic!("{LAST_WORDS}"));
        assert!(drawing.join().is_err());
        assert!(!terminal.is_ours());
    }

    /// The two ends of a new terminal: ours, and that of a program.
    fn terminal() -> (File, OwnedFd) {
        let (mut ours, mut theirs) = (0, 0);
        let (name, settings, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
        // SAFETY: the first two pointers are to living values; nothing else is asked for or said.
        let code = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, name, settings, size) };
        assert_eq!(code, 0);
        // SAFETY: both were opened just now, and nobody else has them.
        unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
    }

    /// The drop of what holds the terminal comes too late for the words of a panic: they would be written to the other screen, and
    /// vanish with it.
    #[test]
    fn a_panic_of_any_thread_gives_the_terminal_back_before_it_is_told() {
        let (mut ours, theirs) = terminal();
        let found = tcgetattr(&theirs).unwrap().local_modes;
        assert!(found.contains(LocalModes::ICANON | LocalModes::ECHO));
        let name = "view::live::terminal::tests::panicking";
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env("RUST_BACKTRACE", "0")
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs.try_clone().unwrap())
            .status();
        assert!(status.unwrap().success());
        assert_eq!(tcgetattr(&theirs).unwrap().local_modes, found);
        drop(theirs);
        let mut sent = Vec::new();
        // A terminal that nobody has any more ends with an error.
        drop(ours.read_to_end(&mut sent));
        let at = |part: &[u8]| sent.windows(part.len()).position(|bytes| bytes == part);
        let order = [at(ENTER), at(LEAVE), at(LAST_WORDS.as_bytes())];
        assert!(order.is_sorted() && order[0].is_some(), "{order:?}");
    }
}
