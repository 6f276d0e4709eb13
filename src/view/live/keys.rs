//! Keys from the bytes that a terminal sends.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPress {
    Char(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Tab,
    Backspace,
    Escape,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-L.
    Redraw,
}

/// Longest sequence of one key that is waited for, in bytes.
const SEQUENCE_MAX: usize = 16;

/// Takes the bytes as they come. A sequence that is cut in two by a slow line is put together; `settled` says that no
/// more comes, so that a lone escape is a key.
#[derive(Debug, Default)]
pub struct Keys {
    rest: Vec<u8>,
}

impl Keys {
    /// The keys in these bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<KeyPress> {
        self.rest.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some((key, length)) = first(&self.rest) {
            keys.extend(key);
            self.rest.drain(..length.min(self.rest.len()));
        }
        if self.rest.len() > SEQUENCE_MAX {
            self.rest.clear();
        }
        keys
    }

    /// No more came for a while.
    pub fn settled(&mut self) -> Option<KeyPress> {
        let lone = std::mem::take(&mut self.rest) == [0x1b];
        lone.then_some(KeyPress::Escape)
    }
}

/// The first key and its length in bytes, where it is whole; no key where the bytes are none that is known.
fn first(bytes: &[u8]) -> Option<(Option<KeyPress>, usize)> {
    match bytes {
        [] => None,
        [0x1b, b'[' | b'O', rest @ ..] => {
            let end = rest.iter().position(|b| (0x40..=0x7e).contains(b))?;
            Some((sequence(&rest[..=end]), end + 3))
        }
        [0x1b] => None,
        // Escape, or a key with Alt, which means no more.
        [0x1b, _, ..] => Some((Some(KeyPress::Escape), 1)),
        [b'\r' | b'\n', ..] => Some((Some(KeyPress::Enter), 1)),
        [b'\t', ..] => Some((Some(KeyPress::Tab), 1)),
        [0x08 | 0x7f, ..] => Some((Some(KeyPress::Backspace), 1)),
        [0x03, ..] => Some((Some(KeyPress::Interrupt), 1)),
        [0x0c, ..] => Some((Some(KeyPress::Redraw), 1)),
        [0x00..=0x1f, ..] => Some((None, 1)),
        [b, ..] => {
            let length = match b {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 1,
            };
            let text = bytes.get(..length)?;
            let c = std::str::from_utf8(text)
                .ok()
                .and_then(|t| t.chars().next());
            Some((c.map(KeyPress::Char), if c.is_some() { length } else { 1 }))
        }
    }
}

/// What stands behind `ESC [` or `ESC O`: a final byte, maybe after a number and modifiers (xterm and VT220 send the
/// same keys in several ways).
fn sequence(body: &[u8]) -> Option<KeyPress> {
    Some(match body {
        [.., b'A'] => KeyPress::Up,
        [.., b'B'] => KeyPress::Down,
        [.., b'C'] => KeyPress::Right,
        [.., b'D'] => KeyPress::Left,
        [.., b'H'] | [b'1' | b'7', b'~'] => KeyPress::Home,
        [.., b'F'] | [b'4' | b'8', b'~'] => KeyPress::End,
        [b'5', .., b'~'] => KeyPress::PageUp,
        [b'6', .., b'~'] => KeyPress::PageDown,
        [b'M'] => KeyPress::Enter,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<KeyPress> {
        Keys::default().take(bytes)
    }

    #[test]
    fn letters_of_any_script_and_the_keys_of_xterm_and_vt220_are_read() {
        use KeyPress::{Char, Down, End, Enter, Home, Interrupt, PageDown, PageUp, Up};
        assert_eq!(keys("qß?".as_bytes()), [Char('q'), Char('ß'), Char('?')]);
        assert_eq!(keys(b"\x1b[A\x1bOB\x1b[1;5A"), [Up, Down, Up]);
        assert_eq!(keys(b"\x1b[5~\x1b[6~"), [PageUp, PageDown]);
        assert_eq!(
            keys(b"\x1b[H\x1b[4~\x1b[1~\r\x03"),
            [Home, End, Home, Enter, Interrupt]
        );
    }

    #[test]
    fn a_sequence_in_two_pieces_is_one_key_and_a_lone_escape_is_one_too() {
        let mut keys = Keys::default();
        assert_eq!(keys.take(b"\x1b"), []);
        assert_eq!(keys.take(b"[5"), []);
        assert_eq!(keys.take(b"~j"), [KeyPress::PageUp, KeyPress::Char('j')]);
        assert_eq!(keys.take(b"\x1b"), []);
        assert_eq!(keys.settled(), Some(KeyPress::Escape));
        assert_eq!(keys.settled(), None);
    }

    #[test]
    fn whatever_comes_is_read_to_its_end_and_nothing_piles_up() {
        let mut keys = Keys::default();
        for seed in 0..4_096_u32 {
            let byte = seed.wrapping_mul(2_654_435_761).to_be_bytes()[0];
            keys.take(&[byte]);
            assert!(keys.rest.len() <= SEQUENCE_MAX);
        }
    }
}
