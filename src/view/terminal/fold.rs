//! Text for people, folded at the terminal's width instead of in the middle of words.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use textwrap::core::display_width;

/// The widest label that later lines of its text are indented below.
const LABEL: usize = 40;
/// The least room for text. A narrower terminal folds by itself.
const NARROW: usize = 24;

/// Columns of the terminal; `None` where standard output is none.
pub fn columns() -> Option<usize> {
    columns_of(std::io::stdout())
}

/// Columns of the terminal that a stream is; `None` where it is none.
pub fn columns_of(stream: impl IsTerminal + AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(&stream).ok()?;
    stream.is_terminal().then(|| usize::from(size.ws_col))
}

/// Folds the lines that are wider than `columns`. The lines that follow are indented below the text of the first.
/// Diffs and commands stay as they are, since people copy them.
pub fn folded(text: &str, columns: usize) -> Cow<'_, str> {
    if text.lines().all(|line| display_width(line) <= columns) {
        return Cow::Borrowed(text);
    }
    let mut in_diff = false;
    let lines = text.lines().map(|line| {
        let plain = anstream::adapter::strip_str(line).to_string();
        let bare = plain.trim_start();
        // A line that a diff only shows begins with a blank.
        let of_diff = plain.starts_with(' ') || bare.starts_with(['+', '-', '@', '\\']);
        in_diff = bare.starts_with("--- ") || in_diff && of_diff;
        let whole = in_diff || is_command(bare) || display_width(line) <= columns;
        match hanging(&plain) {
            indent if !whole && indent + NARROW <= columns => fold(line, indent, columns).into(),
            _ => Cow::Borrowed(line),
        }
    });
    let mut out = lines.collect::<Vec<_>>().join("\n");
    if text.ends_with('\n') {
        out.push('\n');
    }
    Cow::Owned(out)
}

/// A line on so many columns, further ones behind an indent.
pub fn fold(line: &str, indent: usize, columns: usize) -> String {
    let below = " ".repeat(indent);
    let is_long = |word: &str| indent + display_width(word) > columns;
    // Each line is filled, unless a long word would leave its label alone.
    let algorithm = match line.split(' ').any(is_long) {
        true => textwrap::WrapAlgorithm::new_optimal_fit(),
        false => textwrap::WrapAlgorithm::FirstFit,
    };
    let options = textwrap::Options::new(columns)
        .subsequent_indent(&below)
        .wrap_algorithm(algorithm)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(line, options)
}

/// Where the text of a line without colours begins: behind the last gap of two blanks or more that ends a label.
fn hanging(plain: &str) -> usize {
    let mut begins = plain.len() - plain.trim_start().len();
    let (mut blanks, mut column) = (0, 0);
    for c in plain.chars() {
        if c != ' ' {
            if blanks > 1 && column <= LABEL {
                begins = column;
            }
            blanks = 0;
        } else {
            blanks += 1;
        }
        column += 1;
    }
    begins
}

fn is_command(line: &str) -> bool {
    line.starts_with("oomctl ") || line.starts_with("$ ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_follows_stands_below_the_text_of_its_line() {
        let text = "  kind    cuda_oom\n  helps   gradient checkpointing; offload of optimizer states\nshort\n";
        assert_eq!(
            folded(text, 40),
            "  kind    cuda_oom\n  helps   gradient checkpointing;\n          offload of optimizer states\nshort\n"
        );
    }

    #[test]
    fn diffs_and_commands_stay_whole() {
        let text = "--- job.sh\n+++ attempt-2/job.sh\n@@ -1,2 +1,2 @@\n module load cuda/12.4 and a lot more words\n-python train.py --per_device_train_batch_size 8\n\
                    +python train.py --per_device_train_batch_size 4\n\n  oomctl submit job.sh --set per_device_train_batch_size=4";
        assert_eq!(folded(text, 30), text);
    }

    #[test]
    fn a_line_is_filled_before_the_next_begins() {
        let text = "unknown: accumulation may change the loss (finetune.py:24): it may";
        assert_eq!(
            folded(text, 40),
            "unknown: accumulation may change the\nloss (finetune.py:24): it may"
        );
    }

    #[test]
    fn a_word_that_is_too_long_stays_whole() {
        let path = "/a/path/that/is/longer/than/the/terminal/is/wide/slurm.err:33:";
        assert_eq!(
            folded(&format!("  log  {path} end"), 40),
            format!("  log  {path}\n       end")
        );
    }

    proptest! {
        #[test]
        fn no_word_is_lost(text in "([a-z+@-]{1,12}[ \n]{1,4}){0,30}", columns in 1usize..90) {
            let folded = folded(&text, columns);
            prop_assert_eq!(
                text.split_whitespace().collect::<Vec<_>>(),
                folded.split_whitespace().collect::<Vec<_>>()
            );
        }
    }
}
