//! Colours, few and always with a word beside them.

use anstyle::{AnsiColor, Style};

/// What went right.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// What went wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// What deserves a second look.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Names.
pub const NAME: Style = AnsiColor::Cyan.on_default();
/// What can be passed over.
pub const DIM: Style = Style::new().dimmed();

/// Text in a style. Escapes are taken out again where the stream is no terminal or `NO_COLOR` is set.
pub struct Paint<'a>(pub Style, pub &'a str);

impl std::fmt::Display for Paint<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}{}", self.0.render(), self.1, self.0.render_reset())
    }
}

/// A line in the colours of a diff.
pub fn diff_line(line: &str) -> String {
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => NAME,
        [b'+', ..] => GOOD,
        [b'-', ..] => BAD,
        [b'@', ..] => DIM,
        _ => return line.to_owned(),
    };
    Paint(style, line).to_string()
}
