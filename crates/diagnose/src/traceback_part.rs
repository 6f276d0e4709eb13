//! What a line is to the traceback in which it stands.

/// What a line is to a traceback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TracebackPart {
    /// `Traceback (most recent call last):`
    Head,
    /// `File "…", line N, in f`, or a Ray method.
    Frame,
    /// The source line under a frame, or another line that is program text: it fails nothing.
    Code,
    /// Anything else.
    Plain,
}

/// A line of source with its number in front, as notebooks and boxes print it: the source where an arrow
/// points at it, else nothing.
pub(super) fn numbered(body: &str) -> Option<&str> {
    let bare = body.trim_start_matches([' ', '│', '|']);
    let (pointed, bare) = ["---->", "--->", "-->", "->", "❱", ">"]
        .iter()
        .find_map(|arrow| bare.strip_prefix(arrow))
        .map_or((false, bare), |rest| (true, rest.trim_start()));
    let code = bare.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = code.len() < bare.len() && code.starts_with([' ', '│']);
    let blank = body.trim_matches([' ', '│', '|']).is_empty();
    let code = code.trim_matches([' ', '│', '|']);
    (is_numbered || blank).then_some(if pointed { code } else { "" })
}

pub(super) fn classify(body: &str) -> TracebackPart {
    let start = body.trim_start_matches([' ', '│', '|', '❱', '>']);
    if start.starts_with("ray::") || body.contains("): ray::") {
        return TracebackPart::Frame;
    }
    let echoed = ["+ ", "# ", "$ ", "grep ", "echo "];
    let program = [
        "raise ",
        "except ",
        "if ",
        "elif ",
        "assert ",
        "return ",
        "print(",
        "logger.",
        "logging.",
        "warnings.warn(",
        "def ",
        "with ",
        "import ",
        "for ",
    ];
    let boxed = body.starts_with(['│', '╭', '╰', '┌', '└']) && body.contains(" │ ");
    let begins = |text: &str, words: &[&str]| {
        let first = text.bytes().next();
        let same = |word: &str| word.bytes().next() == first && text.starts_with(word);
        words.iter().any(|word| same(word))
    };
    if boxed || begins(body, &echoed) || begins(start, &program) {
        return TracebackPart::Code;
    }
    TracebackPart::Plain
}
