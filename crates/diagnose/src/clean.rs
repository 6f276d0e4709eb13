//! Bytes of a log to text that is safe to match and to show.
//!
//! Rule: what leaves this file holds no control character, so no log line can move the reader's
//! cursor, set the terminal's title or hide a part of itself.

use std::borrow::Cow;

/// How many characters of a log line are ever shown or stored as evidence.
pub(crate) const EVIDENCE_CHARS: usize = 1_000;

/// Decodes lossily and removes C0, C1 and DEL control characters, ANSI CSI, OSC and APC sequences (also in
/// the caret notation of pasted logs, `^[[0m`) and the Unicode marks that reorder text. Tabs and line
/// ends become one space each.
///
/// Source of the sequences: ECMA-48, 5.4 (CSI), 8.3.89 (OSC) and 8.3.2 (APC, in which Buildkite puts its times).
pub fn sanitize(text: &[u8]) -> String {
    // Broken bytes are rare, and looking for them is slow.
    let decoded = match std::str::from_utf8(text) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(text),
    };
    let mut out = String::with_capacity(decoded.len());
    let mut rest = decoded.as_ref();
    loop {
        let plain = plain_bytes(rest.as_bytes());
        out.push_str(&rest[..plain]);
        rest = &rest[plain..];
        let Some(c) = rest.chars().next() else {
            return out;
        };
        if let Some(length) = escape_length(rest) {
            rest = &rest[length..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => out.push(' '),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
}

/// How many bytes at the start of a text are plain, many looked at together.
fn plain_bytes(text: &[u8]) -> usize {
    let (blocks, _) = text.as_chunks::<32>();
    let whole = blocks
        .iter()
        .take_while(|block| block.iter().fold(true, |all, b| all & is_plain(*b)))
        .count();
    let rest = &text[32 * whole..];
    32 * whole + rest.iter().take_while(|b| is_plain(**b)).count()
}

/// Printable ASCII that begins no escape sequence.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'^'
}

/// The first `EVIDENCE_CHARS` characters of a cleaned line.
pub(crate) fn clip(text: &str) -> String {
    let end = text.char_indices().nth(EVIDENCE_CHARS);
    text[..end.map_or(text.len(), |(at, _)| at)].to_owned()
}

/// Bytes at the start of `text` that [`sanitize`] takes out without a trace and that can therefore stand
/// inside a message: a NUL, or an escape sequence. None of them reaches over the end of a line.
pub(crate) fn removed(text: &[u8]) -> Option<usize> {
    let (intro, body) = match text {
        [0, ..] => return Some(1),
        [b'^', b'[', b'[', body @ ..] => {
            let length = csi_bytes(body).filter(|n| body[n - 1] == b'm');
            return length.map(|n| 3 + n);
        }
        [0x1b, body @ ..] => (1, body),
        _ => return None,
    };
    Some(match body {
        [b'[', body @ ..] => intro + 1 + csi_bytes(body).unwrap_or(0),
        [b']' | b'_', body @ ..] => {
            let end = body.iter().position(|b| matches!(b, b'\n' | b'\r'));
            let line = String::from_utf8_lossy(&body[..end.unwrap_or(body.len())]);
            // A length in characters that were broken is too long, and then the line ends before it.
            (intro + 1 + osc_length(&line)).min(intro + 1 + end.unwrap_or(body.len()))
        }
        [b'(' | b')' | b'#', c, ..] if !matches!(c, b'\n' | b'\r') => intro + 2,
        [b'0'..=b'~', ..] => intro + 1,
        _ => intro,
    })
}

/// A text without what [`removed`] finds.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match removed(&text[at..]) {
            Some(length) => at += length,
            None => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    out
}

/// Bytes up to and including the final byte of a CSI sequence; `None` when there is no final byte.
fn csi_bytes(body: &[u8]) -> Option<usize> {
    let end = body.iter().position(|b| !matches!(b, b' '..=b'?'))?;
    matches!(body[end], b'@'..=b'~').then_some(end + 1)
}

/// Bytes of the escape sequence at the start of `text`, if one starts there.
fn escape_length(text: &str) -> Option<usize> {
    if let Some(body) = text.strip_prefix('\u{9b}') {
        return Some(2 + csi_bytes(body.as_bytes()).unwrap_or(0));
    }
    removed(text.as_bytes()).map(|length| text.ceil_char_boundary(length))
}

/// Bytes of an OSC string with its terminator (BEL or ESC `\`), or of what there is of it on the line.
fn osc_length(body: &str) -> usize {
    let bell = body.find('\u{7}').map(|at| at + 1);
    let string_end = body.find("\u{1b}\\").map(|at| at + 2);
    match (bell, string_end) {
        (Some(a), Some(b)) => a.min(b),
        (Some(a), None) | (None, Some(a)) => a,
        (None, None) => body.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_titles_and_cursor_moves_disappear() {
        assert_eq!(sanitize(b"\x1b[36m(W pid=1)\x1b[0m CUDA"), "(W pid=1) CUDA");
        assert_eq!(sanitize(b"\x1b]0;evil title\x07ok"), "ok");
        assert_eq!(sanitize(b"\x1b]8;;http://x\x1b\\link"), "link");
        assert_eq!(sanitize(b"\x1b_bk;t=17195551\x07ok"), "ok");
        assert_eq!(sanitize(b"^[[32mgreen^[[0m"), "green");
        assert_eq!(sanitize(b"a\x1b[2K\x1b[1Ab\x08\x7f"), "ab");
        assert_eq!(sanitize("a\u{9b}31mb\u{202e}c".as_bytes()), "abc");
    }

    #[test]
    fn nuls_and_broken_bytes_are_harmless() {
        assert_eq!(sanitize(b"out\0 of\xff memory\r"), "out of\u{fffd} memory ");
        assert_eq!(sanitize(b"cut \x1b"), "cut ");
        assert_eq!(sanitize(b"cut \x1b[3"), "cut 3");
        assert_eq!(sanitize("kept: █ é 显存".as_bytes()), "kept: █ é 显存");
    }

    #[test]
    fn nothing_that_leaves_is_a_control_character() {
        for a in 0_u8..=255 {
            for b in [0x1b, b'[', b']', b'm', 0x9b, 7, b'^'] {
                let text = sanitize(&[a, b, a, b'x', b, a]);
                assert!(!text.chars().any(char::is_control), "{a} {b}: {text:?}");
            }
        }
    }
}
