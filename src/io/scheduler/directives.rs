//! Options of sbatch that a backend translates: those of a script and those of its command line.

use oomctl_scripts::{COMMAND_LINE, Directive};

/// Largest script, in bytes: Slurm's own limit (`max_script_size` in slurm.conf(5)).
pub const SCRIPT_MAX: u64 = 4 << 20;

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
    let before = script.get(..directive.span.start).unwrap_or_default();
    format!("{option} in line {}", before.matches('\n').count() + 1)
}
