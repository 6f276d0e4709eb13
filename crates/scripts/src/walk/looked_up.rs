//! What a script looks up in a table: `$(sed -n 3p FILE)`, `$(awk -F, -v id=3 '$1==id {print $2}' FILE)`, `$(head -3 FILE | tail -1)`.
//!
//! Rule: a command is read only where every word of it is known and has one meaning here; else what it prints is unknown.

use super::doc::Doc;
use super::{MAX_CALLS_DEEP, Walker};
use crate::shell::{ScriptBlock, SimpleCommand};
use crate::traced::{Quote, Traced};

/// Commands that hand text on to each other.
const MAX_COMMANDS: usize = 8;

impl Walker<'_> {
    /// What the code between these bytes prints, without the ends of lines behind it, as a shell takes it.
    pub(super) fn looked_up(&mut self, start: usize, end: usize, doc: &Doc) -> Option<String> {
        let code = doc.text.get(start..end)?;
        let (before, behind) = match code.starts_with('`') {
            true => (1, 1),
            false => (code.strip_prefix("$(").map(|_| 2)?, 1),
        };
        let traced = doc.traced.slice(start + before, end.checked_sub(behind)?);
        if self.depth >= MAX_CALLS_DEEP || !self.spend(traced.cost()) {
            return None;
        }
        let inner = doc.part(traced);
        let [block] = inner.script.blocks.as_slice() else {
            return None;
        };
        let mut commands = Vec::new();
        commands_of(block, &mut commands)?;
        self.depth += 1;
        let printed = commands.into_iter().try_fold(None, |printed, command| {
            self.printed(command, printed, &inner).map(Some)
        });
        self.depth -= 1;
        Some(printed??.trim_end_matches('\n').to_owned())
    }

    fn printed(
        &mut self,
        command: &SimpleCommand,
        input: Option<String>,
        doc: &Doc,
    ) -> Option<String> {
        let plain = command.assignments.is_empty() && command.redirects.is_empty();
        let words = self.expand_all(&command.words, doc).into_iter();
        let words = words.map(|word| word.text.known().filter(|_| !word.maybe));
        let words: Vec<Option<String>> = words.collect();
        let Some(words) = words
            .iter()
            .cloned()
            .collect::<Option<Vec<String>>>()
            .filter(|_| plain)
        else {
            // Which line it takes may be known later, as of one task of an array.
            self.table(words.last()?.as_deref()?, command, doc);
            return None;
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let ["echo", texts @ ..] = words.as_slice() {
            let options = texts.first().is_some_and(|text| text.starts_with('-'));
            return (!options).then(|| format!("{}\n", texts.join(" ")));
        }
        let (filter, files) = Filter::of(&words)?;
        let text = match (files, input) {
            ([], Some(text)) => text,
            ([file], None) => self.table(file, command, doc)?,
            _ => return None,
        };
        self.spend(text.len()).then(|| filter.apply(&text))?
    }

    /// The text of a file that no command of the script writes.
    fn table(&mut self, file: &str, command: &SimpleCommand, doc: &Doc) -> Option<String> {
        let place = doc.place(command.start, command.start, false).0;
        let path = self.resolved(&Traced::escape(place, file, Quote::Nested), doc)?;
        if self.out.created.contains_key(&path) || self.out.rewritten.contains(&path) {
            return None;
        }
        match self.source(&path) {
            Some(file) => Some(self.out.sources[file].text.clone()),
            None => {
                self.out.sought.insert(path);
                None
            }
        }
    }
}

/// The commands of a pipeline, or the one that stands alone.
fn commands_of<'b>(block: &'b ScriptBlock, all: &mut Vec<&'b SimpleCommand>) -> Option<()> {
    match block {
        ScriptBlock::Command(command) => all.push(command),
        ScriptBlock::Pipeline(parts) => {
            for part in parts {
                let [block] = part.as_slice() else {
                    return None;
                };
                commands_of(block, all)?;
            }
        }
        _ => return None,
    }
    (all.len() <= MAX_COMMANDS).then_some(())
}

/// What a command makes of the lines that it reads.
enum Filter {
    /// All of them.
    All,
    /// From one line on, so many.
    Lines(usize, usize),
    /// The last.
    Last(usize),
    /// A column, between these characters.
    Cut(char, usize),
    /// Columns of the lines that awk takes.
    Awk(Awk),
}

/// `awk -F, 'NR==3 {print $2}'`.
struct Awk {
    separator: Option<char>,
    /// The column (0 for the number of the line) and what it must be.
    only: Option<(usize, String)>,
    /// Columns that are printed; none for the line.
    prints: Vec<usize>,
}

impl Filter {
    /// The filter that a command is, and the files that it reads.
    fn of<'w>(words: &'w [&'w str]) -> Option<(Self, &'w [&'w str])> {
        let (name, rest) = words.split_first()?;
        match (*name, rest) {
            ("cat", files) => Some((Self::All, files)),
            ("sed", ["-n", script, files @ ..]) => {
                let line = script.strip_suffix("{p;q}").or(script.strip_suffix('p'))?;
                Some((Self::Lines(line.parse().ok()?, 1), files))
            }
            ("sed", [script, files @ ..]) => {
                let line = script.strip_suffix("q;d")?.parse().ok()?;
                Some((Self::Lines(line, 1), files))
            }
            ("head", rest) => {
                let (count, files) = counted(rest)?;
                Some((Self::Lines(1, count.parse().ok()?), files))
            }
            ("tail", rest) => {
                let (count, files) = counted(rest)?;
                let filter = match count.strip_prefix('+') {
                    Some(first) => Self::Lines(first.parse().ok()?, usize::MAX),
                    None => Self::Last(count.parse().ok()?),
                };
                Some((filter, files))
            }
            ("cut", rest) => {
                let (separator, rest) = option(rest, "-d").unwrap_or(("\t", rest));
                let (column, files) = option(rest, "-f")?;
                Some((Self::Cut(one(separator)?, column.parse().ok()?), files))
            }
            ("awk" | "gawk" | "mawk", rest) => Awk::of(rest).map(|(awk, f)| (Self::Awk(awk), f)),
            _ => None,
        }
    }

    fn apply(&self, text: &str) -> Option<String> {
        let lines = text.lines();
        let kept: Vec<String> = match self {
            Self::All => return Some(text.to_owned()),
            Self::Lines(first, count) => {
                let lines = lines.skip(first.checked_sub(1)?).take(*count);
                lines.map(str::to_owned).collect()
            }
            Self::Last(count) => {
                let before = lines.clone().count().saturating_sub(*count);
                lines.skip(before).map(str::to_owned).collect()
            }
            Self::Cut(separator, column) => {
                let at = column.checked_sub(1)?;
                // A line without the character is printed whole.
                let cut = |line: &str| {
                    let field = line.split(*separator).nth(at)?;
                    line.contains(*separator).then(|| field.to_owned())
                };
                lines.map(cut).collect::<Option<_>>()?
            }
            Self::Awk(awk) => {
                let numbered = (1..).zip(lines);
                let kept = numbered.filter(|(number, line)| awk.takes(*number, line));
                kept.map(|(_, line)| awk.printed(line)).collect()
            }
        };
        Some(kept.iter().map(|line| format!("{line}\n")).collect())
    }
}

impl Awk {
    fn of<'w>(mut rest: &'w [&'w str]) -> Option<(Self, &'w [&'w str])> {
        let (mut separator, mut variables) = (None, Vec::new());
        loop {
            if let Some((text, behind)) = option(rest, "-F") {
                (separator, rest) = (Some(one(text)?), behind);
            } else if let Some((text, behind)) = option(rest, "-v") {
                variables.push(text.split_once('=')?);
                rest = behind;
            } else {
                break;
            }
        }
        let (program, files) = rest.split_first()?;
        let (condition, action) = match program.split_once('{') {
            None => (*program, ""),
            Some((condition, action)) => {
                let action = action.trim_end().strip_suffix('}')?.trim();
                let action = action.strip_suffix("exit").unwrap_or(action);
                let action = action.trim().trim_end_matches(';').trim();
                (condition, action.strip_prefix("print")?.trim())
            }
        };
        let only = match condition.trim() {
            "" => None,
            condition => {
                let (left, right) = condition.split_once("==")?;
                let column = match left.trim() {
                    "NR" | "FNR" => 0,
                    field => column(field)?,
                };
                Some((column, value(right.trim(), &variables)?))
            }
        };
        let prints = match action {
            "" | "$0" => Vec::new(),
            fields => {
                let fields = fields.split(',').map(|field| column(field.trim()));
                fields.collect::<Option<_>>()?
            }
        };
        let awk = Self {
            separator,
            only,
            prints,
        };
        Some((awk, files))
    }

    fn fields<'l>(&self, line: &'l str) -> Vec<&'l str> {
        match self.separator {
            None => line.split_whitespace().collect(),
            Some(separator) => line.split(separator).collect(),
        }
    }

    fn takes(&self, number: usize, line: &str) -> bool {
        let Some((column, wanted)) = &self.only else {
            return true;
        };
        match column.checked_sub(1) {
            None => wanted.parse() == Ok(number),
            Some(at) => {
                let fields = self.fields(line);
                let field = fields.get(at).map_or("", |field| field.trim());
                // Numbers are compared as such.
                let same = field.parse::<f64>().ok().zip(wanted.parse::<f64>().ok());
                same.map_or(field == wanted, |(a, b)| a.total_cmp(&b).is_eq())
            }
        }
    }

    fn printed(&self, line: &str) -> String {
        let fields = self.fields(line);
        let field = |at: &usize| fields.get(at - 1).copied().unwrap_or_default();
        match self.prints.is_empty() {
            true => line.to_owned(),
            false => self.prints.iter().map(field).collect::<Vec<_>>().join(" "),
        }
    }
}

/// `$3` as a number, from 1 on.
fn column(field: &str) -> Option<usize> {
    field.strip_prefix('$')?.parse().ok().filter(|at| *at > 0)
}

/// A number, a text in quotes, a variable, and a number that is added to it.
fn value(text: &str, variables: &[(&str, &str)]) -> Option<String> {
    if let Some(inner) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        return (!inner.contains(['"', '\\'])).then(|| inner.to_owned());
    }
    if let Some((left, right)) = text.split_once('+') {
        let number = |side: &str| value(side.trim(), variables)?.parse::<u32>().ok();
        return Some((number(left)?.checked_add(number(right)?)?).to_string());
    }
    let given = variables.iter().find(|(name, _)| *name == text);
    let number = || text.parse::<f64>().is_ok().then(|| text.to_owned());
    given.map(|(_, value)| (*value).to_owned()).or_else(number)
}

/// The value of an option that stands first, as `-d,` or `-d ,`, and what stands behind it.
fn option<'w>(words: &'w [&'w str], name: &str) -> Option<(&'w str, &'w [&'w str])> {
    let (first, rest) = words.split_first()?;
    match first.strip_prefix(name)? {
        "" => rest.split_first().map(|(value, rest)| (*value, rest)),
        value => Some((value, rest)),
    }
}

/// How many lines `head` and `tail` print: `-3`, `-n 3`, `-n3`.
fn counted<'w>(words: &'w [&'w str]) -> Option<(&'w str, &'w [&'w str])> {
    option(words, "-n").or_else(|| {
        let (first, rest) = words.split_first()?;
        let count = first.strip_prefix('-')?;
        count.parse::<usize>().is_ok().then_some((count, rest))
    })
}

/// The one character between columns; a blank of awk means any blanks, which is left to it.
fn one(text: &str) -> Option<char> {
    let mut letters = if text == "\\t" { "\t" } else { text }.chars();
    let only = letters.next()?;
    let plain = letters.next().is_none() && !".*+?^$|()[]{}\\".contains(only);
    plain.then_some(only)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "id,lr,bs\n1,1e-3,64\n2,3e-4,32\n";

    fn looked_up(words: &[&str]) -> Option<String> {
        let (filter, files) = Filter::of(words)?;
        assert!(files.len() <= 1, "{words:?}");
        filter.apply(TABLE)
    }

    #[test]
    fn a_line_or_a_field_of_a_table_is_found() {
        for (words, printed) in [
            (&["sed", "-n", "2p", "t"][..], "1,1e-3,64\n"),
            (&["sed", "-n", "3{p;q}", "t"], "2,3e-4,32\n"),
            (&["sed", "3q;d", "t"], "2,3e-4,32\n"),
            (&["head", "-n", "2", "t"], "id,lr,bs\n1,1e-3,64\n"),
            (&["head", "-1", "t"], "id,lr,bs\n"),
            (&["tail", "-n", "+3", "t"], "2,3e-4,32\n"),
            (&["tail", "-1", "t"], "2,3e-4,32\n"),
            (&["cut", "-d,", "-f2", "t"], "lr\n1e-3\n3e-4\n"),
            (
                &["awk", "-F,", "-v", "id=2", "$1==id {print $3}", "t"],
                "32\n",
            ),
            (
                &["awk", "-F", ",", "-v", "n=1", "NR==n+1{print $2, $3; exit}"],
                "1e-3 64\n",
            ),
            (&["awk", "NR==3", "t"], "2,3e-4,32\n"),
            (&["awk", "-F,", "$1 == \"id\" { print $3 }", "t"], "bs\n"),
            (&["awk", "-F,", "$1==9 {print $3}", "t"], ""),
        ] {
            assert_eq!(looked_up(words).as_deref(), Some(printed), "{words:?}");
        }
    }

    #[test]
    fn what_has_another_meaning_is_not_guessed() {
        for words in [
            &["sed", "-n", "2,3p", "t"][..],
            &["sed", "s/a/b/", "t"],
            &["sed", "-n", "/2/p", "t"],
            &["head", "t"],
            &["cut", "-c1-3", "t"],
            &["cut", "-d,", "-f3,1", "t"],
            &["awk", "$1>1 {print $3}", "t"],
            &["awk", "{sum += $1} END {print sum}", "t"],
            &["awk", "-F|", "{print $1}", "t"],
            &["awk", "$1==id {print $3}", "t"],
            &["awk", "NR==2 {print $3 * 2}", "t"],
            &["awk", "NR==2 {print $NF}", "t"],
            &["grep", "x", "t"],
        ] {
            assert_eq!(looked_up(words), None, "{words:?}");
        }
    }
}
