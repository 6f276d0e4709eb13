//! Options of sbatch that a backend translates: those of a script and those of its command line.

use std::collections::BTreeMap;

use oomctl_base::units::parse_duration_s;
use oomctl_base::{line_and_column, word_list};
use oomctl_scripts::{COMMAND_LINE, Directive};

use super::JobSubmission;

/// Largest script, in bytes: Slurm's own limit (`max_script_size` in slurm.conf(5)).
pub const SCRIPT_MAX: u64 = 4 << 20;

/// Options that every submission overrides, or that tell sbatch alone how to talk.
const OURS: [&str; 8] = word_list("job-name comment chdir output error open-mode export parsable");

/// What another scheduler is given for the options of sbatch.
pub(super) struct Counterparts {
    /// Its name.
    pub target: &'static str,
    /// An option of sbatch, the scheduler's own before its value, and a form: `flag` stands alone, `share` is counted
    /// together with others (`NodeShare`), `seconds` is a time as a number and `duration` the same with an `s`, and `-` is
    /// what the scheduler does anyway.
    pub options: &'static [[&'static str; 3]],
}

impl Counterparts {
    /// The options that have one of their own there.
    ///
    /// # Errors
    /// Those that have none, by name and line.
    pub fn words(&self, given: &[Directive], script: &str) -> Result<Vec<String>, String> {
        let mut words = Vec::new();
        for directive in those_that_count(given) {
            let name = directive.option.as_str();
            if OURS.contains(&name) {
                continue;
            }
            let place = place(directive, script);
            let none = || format!("{place} has no counterpart in {}", self.target);
            let [_, own, form] = self
                .options
                .iter()
                .find(|r| r[0] == name)
                .ok_or_else(none)?;
            let value = || value_of(directive).ok_or_else(|| format!("{place} has no value"));
            match *form {
                "-" | "share" => {}
                "flag" if value_of(directive).is_some() => return Err(none()),
                "flag" => words.push((*own).to_owned()),
                "seconds" | "duration" => {
                    let time = parse_duration_s(&value()?);
                    let seconds = time.map_err(|e| format!("{place}: {e}"))?;
                    let unit = if *form == "duration" { "s" } else { "" };
                    words.push(format!("{own}{seconds}{unit}"));
                }
                _ => words.push(format!("{own}{}", value()?)),
            }
        }
        Ok(words)
    }

    /// The variables of Slurm's `--export=ALL,NAME=VALUE`.
    ///
    /// # Errors
    /// An `--export` that keeps something from the job.
    pub fn exported(&self, submission: &JobSubmission) -> Result<BTreeMap<String, String>, String> {
        let export = submission.export.as_deref().unwrap_or("ALL");
        let mut words = export.split(',');
        if words.next() != Some("ALL") {
            let target = self.target;
            return Err(format!("--export={export} has no counterpart in {target}"));
        }
        // A name alone is in the environment already.
        let given = words.filter_map(|word| word.split_once('='));
        Ok(given.map(|(n, v)| (n.to_owned(), v.to_owned())).collect())
    }
}

/// The value of an option.
pub(super) fn value_of(directive: &Directive) -> Option<String> {
    directive.value.as_ref().map(|value| value.text())
}

/// The number of the first line of a shell script that starts a step of Slurm's.
pub(super) fn line_of_srun(script: &str) -> Option<usize> {
    let calls = |line: &str| {
        let code = line.trim_start();
        !code.starts_with('#') && code.split([' ', '\t', '(', ';', '"']).any(|w| w == "srun")
    };
    script.lines().position(calls).map(|line| line + 1)
}

/// Each option once: of one that is given twice the later one counts.
pub(super) fn those_that_count(given: &[Directive]) -> impl Iterator<Item = &Directive> {
    let later = |at: usize, option: &str| given.iter().skip(at + 1).any(|d| d.option == option);
    let all = given.iter().enumerate();
    all.filter_map(move |(at, directive)| (!later(at, &directive.option)).then_some(directive))
}

/// `--mem=64G in line 3`, `--mem=64G`.
pub(super) fn place(directive: &Directive, script: &str) -> String {
    let dashes = if directive.option.len() > 1 {
        "--"
    } else {
        "-"
    };
    let value = directive.value.as_ref().map(|v| format!("={}", v.text()));
    let option = format!("{dashes}{}{}", directive.option, value.unwrap_or_default());
    if directive.span.file == COMMAND_LINE {
        return option;
    }
    let (line, _) = line_and_column(script, directive.span.start);
    format!("{option} in line {line}")
}
