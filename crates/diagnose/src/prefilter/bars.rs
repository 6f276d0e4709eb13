//! Lines that show progress, told apart without a regular expression.
//!
//! A log can be made of redrawn bars. What the built-in patterns of `progress` match is recognised here
//! from the bytes around a hint: surely yes, surely no, or perhaps (colours inside, an unusual prefix),
//! and then the pattern itself is asked.

/// What a progress line holds, and where the patterns look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bar {
    /// `step:`
    Step,
    /// `%|` of a bar.
    Percent,
    /// `|` behind a number and a blank, as in Megatron-LM's `iteration 10/ 100 |`.
    Column,
    /// Matched by a pattern that is not built in.
    Other,
}

/// The needles.
pub(super) const HINTS: [(&str, Bar); 12] = [
    ("step:", Bar::Step),
    ("%|", Bar::Percent),
    // The digit is a part of it: bars are full of blanks before a bar.
    ("0 |", Bar::Column),
    ("1 |", Bar::Column),
    ("2 |", Bar::Column),
    ("3 |", Bar::Column),
    ("4 |", Bar::Column),
    ("5 |", Bar::Column),
    ("6 |", Bar::Column),
    ("7 |", Bar::Column),
    ("8 |", Bar::Column),
    ("9 |", Bar::Column),
];

/// The built-in patterns, by number; the order of [`super::super::progress`]'s table.
pub(crate) const BUILT_IN: usize = 5;
const STEP: usize = 0;
const TRAINING: usize = 1;
const ITERATION: usize = 2;
const EPOCH: usize = 3;
const BARE: usize = 4;

/// What a line shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarMatch {
    /// No progress.
    Nothing,
    /// The pattern has to be asked.
    Perhaps,
    /// The built-in pattern of this number matches and gives these. `initial` as the bar is drawn before
    /// anything was done.
    Step {
        pattern: usize,
        step: u64,
        total: Option<u64>,
        initial: bool,
    },
}

impl BarMatch {
    /// Is this the next of the same bar, or the same again?
    pub(crate) fn goes_on(self, to: u64, end: Option<u64>) -> bool {
        matches!(self, Self::Step { step, total, .. } if to >= step && end == total)
    }
}

impl Bar {
    /// The built-in patterns that a line with this hint can match, by number.
    pub(crate) fn patterns(self) -> &'static [usize] {
        match self {
            Self::Step => &[STEP],
            Self::Percent => &[TRAINING, EPOCH, BARE],
            Self::Column => &[ITERATION],
            Self::Other => &[],
        }
    }

    /// What the line around a hint at `at` shows.
    pub(crate) fn shown(self, text: &[u8], at: usize) -> BarMatch {
        let shown = match self {
            Self::Step => step(text, at),
            Self::Percent => percent(text, at),
            Self::Column => column(text, at),
            Self::Other => BarMatch::Perhaps,
        };
        if escapes_matter(&text[..at], shown) {
            BarMatch::Perhaps
        } else {
            shown
        }
    }
}

const ESCAPE: u8 = 0x1b;

/// Could cleaning make something else of a hint, by what an escape sequence before it in its line takes out? A
/// colour takes out only itself, so it matters only where it may stand inside what is looked for.
fn escapes_matter(head: &[u8], shown: BarMatch) -> bool {
    const NEAR: usize = 24;
    let mut end = head.len();
    while let Some(at) = memchr::memrchr3(ESCAPE, b'\n', b'\r', &head[..end]) {
        if head[at] != ESCAPE {
            return false;
        }
        let matters = match shown {
            BarMatch::Perhaps => return true,
            BarMatch::Nothing => head.len() - at <= NEAR,
            BarMatch::Step { .. } => false,
        };
        if matters || !is_colour(&head[at + 1..]) {
            return true;
        }
        end = at;
    }
    false
}

/// Does a colour follow an escape, as in `[36m`?
fn is_colour(text: &[u8]) -> bool {
    let Some(numbers) = text.strip_prefix(b"[") else {
        return false;
    };
    let mut behind = numbers.iter().skip_while(|b| matches!(b, b'0'..=b';'));
    behind.next() == Some(&b'm')
}

/// Reads forward.
struct ByteCursor<'t>(&'t [u8]);

impl ByteCursor<'_> {
    fn blanks(&mut self) {
        let count = self.0.iter().take_while(|b| **b == b' ').count();
        self.0 = &self.0[count..];
    }

    /// A number. One that is too large stays ahead.
    fn number(&mut self) -> Option<u64> {
        let digits = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        let (number, rest) = self.0.split_at(digits);
        let number = std::str::from_utf8(number).ok()?.parse().ok()?;
        self.0 = rest;
        Some(number)
    }

    fn text(&mut self, text: &[u8]) -> bool {
        let rest = self.0.strip_prefix(text);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// What it means that something else stands here.
    fn other(&self) -> BarMatch {
        match self.0.first() {
            Some(b'\n' | b'\r') => BarMatch::Nothing,
            Some(b) if unusual(*b) || b.is_ascii_digit() => BarMatch::Perhaps,
            _ => BarMatch::Nothing,
        }
    }
}

/// Bytes that cleaning may take out or that a pattern may read as blanks or digits.
fn unusual(byte: u8) -> bool {
    !(b' '..0x7f).contains(&byte) || byte == b'^'
}

/// `\bstep:(?P<step>\d+) - `
fn step(text: &[u8], start: usize) -> BarMatch {
    let before = start.checked_sub(1).map_or(b'\n', |before| text[before]);
    if before.is_ascii_alphanumeric() || before == b'_' {
        let near = &text[start.saturating_sub(24)..start];
        let coloured = near.iter().any(|b| unusual(*b));
        return if coloured {
            BarMatch::Perhaps
        } else {
            BarMatch::Nothing
        };
    }
    if unusual(before) && before != b'\n' && before != b'\r' {
        return BarMatch::Perhaps;
    }
    let mut ahead = ByteCursor(&text[start + "step:".len()..]);
    match ahead.number() {
        Some(number) if ahead.text(b" - ") => BarMatch::Step {
            pattern: STEP,
            step: number,
            total: None,
            initial: false,
        },
        _ => {
            ahead.text(b" ");
            ahead.text(b"-");
            ahead.other()
        }
    }
}

/// `\s*\d+%\|[^|]*\|\s*(?P<step>\d+)/(?P<total>\d+) \[` behind nothing, `Epoch N:` or
/// `Training Progress:`.
fn percent(text: &[u8], at: usize) -> BarMatch {
    let pattern = match described(&text[..at]) {
        Ok(pattern) => pattern,
        Err(shown) => return shown,
    };
    let rest = &text[at + 2..];
    let Some(end) = rest.iter().position(|b| matches!(b, b'|' | b'\n' | b'\r')) else {
        return BarMatch::Nothing;
    };
    if rest[..end].contains(&ESCAPE) {
        return BarMatch::Perhaps;
    }
    let mut ahead = ByteCursor(&rest[end..]);
    if !ahead.text(b"|") {
        return BarMatch::Nothing;
    }
    ahead.blanks();
    let step = ahead.number();
    let slash = ahead.text(b"/");
    let total = ahead.number();
    match step {
        Some(step) if slash && total.is_some() && ahead.text(b" [") => BarMatch::Step {
            pattern,
            step,
            total,
            initial: ahead.text(b"00:00<?"),
        },
        _ => {
            ahead.text(b" ");
            ahead.other()
        }
    }
}

/// Which pattern the text before `%|` allows.
fn described(head: &[u8]) -> Result<usize, BarMatch> {
    let digits = head.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let bare = &head[..head.len() - digits];
    let blanks = bare.iter().rev().take_while(|b| **b == b' ').count();
    let bare = &bare[..bare.len() - blanks];
    let Some(last) = bare.last() else {
        return if digits > 0 {
            Ok(BARE)
        } else {
            Err(BarMatch::Nothing)
        };
    };
    if digits == 0 {
        return Err(if unusual(*last) {
            BarMatch::Perhaps
        } else {
            BarMatch::Nothing
        });
    }
    if matches!(last, b'\n' | b'\r') {
        return Ok(BARE);
    }
    if bare.ends_with(b"Training Progress:") {
        return Ok(TRAINING);
    }
    let Some(name) = bare.strip_suffix(b":") else {
        return Err(BarMatch::Perhaps);
    };
    let number = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    if number > 0
        && let Some(before) = name[..name.len() - number].strip_suffix(b"Epoch ")
        && before.last().is_none_or(|b| matches!(b, b'\n' | b'\r'))
    {
        return Ok(EPOCH);
    }
    // A description such as `Processed prompts:`; no prefix of a line ends in a lower-case word.
    let word = name
        .iter()
        .rev()
        .take_while(|b| b.is_ascii_lowercase())
        .count();
    let blank = name[..name.len() - word].last() == Some(&b' ');
    Err(if word > 1 && blank {
        BarMatch::Nothing
    } else {
        BarMatch::Perhaps
    })
}

/// `\biteration\s+(?P<step>\d+)/\s*(?P<total>\d+) \|`, at the last digit.
fn column(text: &[u8], last: usize) -> BarMatch {
    const NEAR: usize = 64;
    let at = last + 1;
    let head = &text[at.saturating_sub(NEAR)..at];
    let digits = head.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let total = ByteCursor(&head[head.len() - digits..]).number();
    let plain = head[..head.len() - digits].iter().rev();
    let blanks = plain.take_while(|b| **b == b' ').count();
    let before = head[..head.len() - digits - blanks].last();
    match before {
        Some(b'/') => {}
        Some(b) if unusual(*b) && *b != b'\n' && *b != b'\r' => return BarMatch::Perhaps,
        _ => return BarMatch::Nothing,
    }
    let head = &head[..head.len() - digits - blanks - 1];
    let done = head.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (word, number) = head.split_at(head.len() - done);
    let gap = word.iter().rev().take_while(|b| **b == b' ').count();
    let word = &word[..word.len() - gap];
    let Some(front) = word
        .strip_suffix(b"iteration")
        .filter(|_| gap > 0 && done > 0)
    else {
        let odd = word.last().is_some_and(|b| unusual(*b));
        return if odd {
            BarMatch::Perhaps
        } else {
            BarMatch::Nothing
        };
    };
    match (front.last(), ByteCursor(number).number()) {
        (None | Some(b' ' | b'\n' | b'\r'), Some(step)) if word.len() < NEAR => BarMatch::Step {
            pattern: ITERATION,
            step,
            total,
            initial: false,
        },
        _ => BarMatch::Perhaps,
    }
}
