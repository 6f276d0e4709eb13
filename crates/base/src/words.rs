//! Lists and tables, written as a text.

/// The words of a text, between blanks and line ends.
///
/// # Panics
/// Where there are not `N`: in a constant, when it is compiled.
pub const fn word_list<const N: usize>(text: &'static str) -> [&'static str; N] {
    let mut words = [""; N];
    let (mut rest, mut number) = (text.trim_ascii(), 0);
    while !rest.is_empty() {
        let mut end = 0;
        while end < rest.len() && !rest.as_bytes()[end].is_ascii_whitespace() {
            end += 1;
        }
        let (word, more) = rest.split_at(end);
        words[number] = word;
        (rest, number) = (more.trim_ascii_start(), number + 1);
    }
    assert!(number == N, "there are fewer words than the type says");
    words
}

/// The rows of a text, one a line, with `|` between their columns. Columns that a row leaves out at its end are empty;
/// the last one may hold a `|`.
///
/// # Panics
/// Where there are not `ROWS`: in a constant, when it is compiled.
pub const fn table<const COLUMNS: usize, const ROWS: usize>(
    text: &'static str,
) -> [[&'static str; COLUMNS]; ROWS] {
    let mut rows = [[""; COLUMNS]; ROWS];
    let (mut rest, mut row) = (text.trim_ascii(), 0);
    while !rest.is_empty() {
        let (mut line, below) = cut(rest, b'\n');
        let mut column = 0;
        while !line.is_empty() {
            let last = column + 1 == COLUMNS;
            let (cell, others) = if last { (line, "") } else { cut(line, b'|') };
            rows[row][column] = cell.trim_ascii();
            (line, column) = (others, column + 1);
        }
        (rest, row) = (below.trim_ascii_start(), row + 1);
    }
    assert!(row == ROWS, "there are fewer rows than the type says");
    rows
}

/// Whether a text has this word: nothing that `is_part` of a word touches it.
pub fn has_word(text: &str, word: &str, is_part: impl Fn(char) -> bool) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let (before, rest) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(&is_part) && !rest.starts_with(&is_part)
    })
}

/// A text before a sign and behind it; nothing is behind it where there is none.
const fn cut(text: &str, sign: u8) -> (&str, &str) {
    let mut at = 0;
    while at < text.len() {
        if text.as_bytes()[at] == sign {
            return (text.split_at(at).0, text.split_at(at + 1).1);
        }
        at += 1;
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_not_part_of_a_longer_one() {
        let has = |text, word| has_word(text, word, |c| c.is_alphanumeric());
        assert!(has("slurm-471-gpu1.out", "471") && has("slurm-471-gpu1.out", "gpu1"));
        assert!(!has("slurm-4711-gpu11.out", "471") && !has("slurm-471-gpu11.out", "gpu1"));
    }

    #[test]
    fn words_are_told_apart_by_blanks_and_line_ends() {
        const LIST: [&str; 3] = word_list(
            "one two
             three",
        );
        assert_eq!(LIST, ["one", "two", "three"]);
        assert!(std::panic::catch_unwind(|| word_list::<2>("one")).is_err());
        assert!(std::panic::catch_unwind(|| word_list::<1>("one two")).is_err());
    }

    #[test]
    fn a_row_is_a_line_and_may_leave_out_columns_at_its_end() {
        const TABLE: [[&str; 3]; 2] = table(
            "
            a b | c |  d | e
            f |
            ",
        );
        assert_eq!(TABLE, [["a b", "c", "d | e"], ["f", "", ""]]);
        assert!(std::panic::catch_unwind(|| table::<2, 1>("a\nb")).is_err());
        assert!(std::panic::catch_unwind(|| table::<1, 2>("a")).is_err());
    }
}
