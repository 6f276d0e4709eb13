//! Lines that are told later.

use std::collections::VecDeque;

/// Lines that are kept.
const LINES_MAX: usize = 1_000;

/// The last lines of a story.
#[derive(Debug, Default)]
pub struct LastLines {
    lines: VecDeque<String>,
    /// How many earlier ones had to go.
    gone: usize,
}

impl LastLines {
    /// One more.
    pub fn push(&mut self, line: String) {
        self.lines.push_back(line);
        if self.lines.len() > LINES_MAX {
            self.lines.pop_front();
            self.gone += 1;
        }
    }

    /// Tells them.
    pub fn tell(self) {
        if self.gone > 0 {
            let n = self.gone;
            crate::view::print::talk(&format!(
                "({n} earlier lines omitted; `oomctl status RUN` shows them)"
            ));
        }
        for line in self.lines {
            crate::view::print::talk(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_stay_and_the_others_are_counted() {
        let mut kept = LastLines::default();
        for n in 0..LINES_MAX + 7 {
            kept.push(n.to_string());
        }
        assert_eq!((kept.lines.len(), kept.gone), (LINES_MAX, 7));
        assert_eq!(kept.lines.front().map(String::as_str), Some("7"));
    }
}
