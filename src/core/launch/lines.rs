//! A list of commands as text: one a line, as a shell would split it.

use oomctl_base::{Problem, Refusal};

/// Commands that one list may have.
const MOST: usize = 10_000;

/// The commands of a list. Blank lines and those that begin with `#` are none; a line that ends in `\` goes on;
/// a `--` in front is passed over. Nothing else of the shell is there: no variables, no pipes.
///
/// # Errors
/// Every line that cannot be split, and a list without any command.
pub fn commands(text: &str) -> Result<Vec<Vec<String>>, Refusal> {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    let mut begun: Option<(usize, String)> = None;
    for (at, line) in text.lines().enumerate() {
        let (first, mut whole) = begun.take().unwrap_or((at, String::new()));
        // A shell does not go on with a comment.
        let comment = whole.trim().is_empty() && line.trim_start().starts_with('#');
        if let Some(more) = line.strip_suffix('\\').filter(|_| !comment) {
            begun = Some((first, whole + more + " "));
            continue;
        }
        whole.push_str(line);
        match split(&whole) {
            Ok(words) if words.is_empty() => {}
            Ok(words) => found.push(words),
            Err(what) => problems.push(Problem::new(format!("line {}: {what}", first + 1))),
        }
    }
    if let Some((first, _)) = begun {
        problems.push(Problem::new(format!(
            "line {}: it ends in \\, but no line follows",
            first + 1
        )));
    }
    if found.len() > MOST {
        problems.push(Problem::new(format!("more than {MOST} commands")));
    }
    if found.is_empty() && problems.is_empty() {
        problems.push(Problem::new("the list has no command").hint("write one command a line"));
    }
    if problems.is_empty() {
        Ok(found)
    } else {
        Err(Refusal(problems))
    }
}

fn split(line: &str) -> Result<Vec<String>, String> {
    if line.trim_start().starts_with('#') {
        return Ok(Vec::new());
    }
    let words =
        shlex::split(line).ok_or_else(|| format!("a quote is not closed: {}", line.trim()))?;
    let skip = usize::from(words.first().is_some_and(|w| w == "--"));
    Ok(words.into_iter().skip(skip).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_split_as_a_shell_would() {
        let text = "# LoRA\n\npython t.py data='a b' \\\n  seed=1\n-- ./x.sh\n  # no \\\n./y.sh\n";
        let expected = [
            vec!["python", "t.py", "data=a b", "seed=1"],
            vec!["./x.sh"],
            vec!["./y.sh"],
        ];
        assert_eq!(commands(text).unwrap(), expected);
    }

    #[test]
    fn every_line_that_makes_no_sense_is_named() {
        let problems = commands("a 'b\nc\nd \"e\nf \\").unwrap_err().0;
        let starts: Vec<&str> = problems.iter().map(|p| &p.what[..7]).collect();
        assert_eq!(starts, ["line 1:", "line 3:", "line 4:"]);
        assert!(commands("\n# nothing\n").is_err());
    }
}
