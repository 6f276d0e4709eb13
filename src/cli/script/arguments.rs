//! The arguments of a script that was submitted without us.
//!
//! Up to 22.05 `Command=` of `scontrol show job` holds them behind the path of the script. Since 23.02 it holds the path
//! alone, and the line of the submission (`SubmitLine` of sacct, and of scontrol where it has it) is the only place. Both are
//! kept without quotes.

use crate::view::CommandFailure;
use oomctl_base::job::JobId;

/// Where Slurm keeps the words behind a script.
pub struct SlurmCommandLine<'a> {
    /// Behind the path in `Command=`.
    pub command: &'a [String],
    /// Behind the script in the line of the submission; `None` where no line is kept, or the script is not found in it.
    pub line: Option<&'a [String]>,
    /// Would `Command=` hold arguments if there were any? Asked only where the others do not settle it.
    pub command_holds_them: &'a dyn Fn() -> bool,
}

impl SlurmCommandLine<'_> {
    /// The arguments, where they are known for sure.
    ///
    /// # Errors
    /// Where the places disagree, or none of them would hold arguments.
    pub fn of(&self, id: &JobId) -> Result<Vec<String>, CommandFailure> {
        match self.line {
            Some(line) if self.command.is_empty() || self.command == line => Ok(line.to_vec()),
            Some(line) => Err(refused(format!(
                "the script arguments of job {id} are unclear: scontrol reports `{}`, the submit line `{}`",
                self.command.join(" "),
                line.join(" ")
            ))),
            None if !self.command.is_empty() || (self.command_holds_them)() => {
                Ok(self.command.to_vec())
            }
            None => Err(refused(format!(
                "the script arguments of job {id} are unknown: Slurm 23.02 and later keep them only in the submit line, which accounting does not have"
            ))),
        }
    }
}

fn refused(what: String) -> CommandFailure {
    CommandFailure::configuration(what).hint(
        "`oomctl submit SCRIPT ARGUMENTS` starts a run with the right ones; `--watch-only` follows this job and submits nothing",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn of(command: &str, line: Option<&str>, command_holds_them: bool) -> Option<String> {
        let (command, line) = (words(command), line.map(words));
        let kept = SlurmCommandLine {
            command: &command,
            line: line.as_deref(),
            command_holds_them: &|| command_holds_them,
        };
        Some(kept.of(&JobId("7".to_owned())).ok()?.join(" "))
    }

    #[test]
    fn arguments_come_from_where_that_version_of_slurm_keeps_them() {
        // 22.05: both places.
        assert_eq!(
            of("--lr 1", Some("--lr 1"), true).as_deref(),
            Some("--lr 1")
        );
        assert_eq!(of("--lr 1", None, true).as_deref(), Some("--lr 1"));
        assert_eq!(of("", None, true).as_deref(), Some(""));
        // 23.02 and later: the line alone.
        assert_eq!(of("", Some("--lr 1"), false).as_deref(), Some("--lr 1"));
        assert_eq!(of("", Some(""), false).as_deref(), Some(""));
    }

    #[test]
    fn arguments_that_are_not_certain_are_refused() {
        assert_eq!(of("", None, false), None);
        assert_eq!(of("--lr 1", Some("--lr 2"), true), None);
        assert_eq!(of("--lr 1", Some(""), true), None);
    }
}
