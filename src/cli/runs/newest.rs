//! The run that a command means which names none.

use super::Runs;
use super::overview::Overview;
use super::present::ask;
use crate::cli::ask::agree;
use crate::view::{CommandFailure, print};
use jiff::Timestamp;

impl Runs {
    /// The name that was given, or else that of the run that began last, which it names in a line.
    pub fn one_or_newest(&self, wanted: Option<&String>) -> Result<String, CommandFailure> {
        wanted.cloned().map_or_else(|| self.newest(), Ok)
    }

    /// The names that were given, or else that of the run that began last, which it names in a line.
    pub fn or_newest(&self, wanted: &[String]) -> Result<Vec<String>, CommandFailure> {
        match wanted {
            [] => Ok(vec![self.newest()?]),
            some => Ok(some.to_vec()),
        }
    }

    /// The same for the newest run that has not ended, where that is agreed to: `verb` says to what. None where there is nothing
    /// to do.
    pub fn or_newest_open_if(
        &self,
        verb: &str,
        yes: bool,
        wanted: &[String],
    ) -> Result<Option<Vec<String>>, CommandFailure> {
        if !wanted.is_empty() {
            return Ok(Some(wanted.to_vec()));
        }
        let now = Timestamp::now();
        let mut found = self.overview(&self.names()?, now);
        ask(self, &mut found.open, now)?;
        let Some(open) = found.newest_open() else {
            self.newest_of(found)?;
            let verb = verb.to_lowercase();
            print::talk(&format!("every run here has ended: nothing to {verb}"));
            return Ok(None);
        };
        let agreed = yes || agree(&format!("{verb} {open}?"), "name the run, or add --yes")?;
        if !agreed {
            print::talk("nothing was done");
        }
        Ok(agreed.then(|| vec![open]))
    }

    /// The run that began last, which it names in a line.
    pub fn newest(&self) -> Result<String, CommandFailure> {
        self.newest_of(self.overview(&self.names()?, Timestamp::now()))
    }

    fn newest_of(&self, mut found: Overview) -> Result<String, CommandFailure> {
        let Some(name) = found.newest() else {
            if let Some((_, failure)) = found.damaged.pop() {
                return Err(failure);
            }
            let what = format!("no runs here ({})", self.dir().display());
            let hint = "`oomctl plan --all SCRIPT` shows what oomctl reads; `oomctl submit -w SCRIPT` starts a run; `oomctl watch JOBID` takes over a job of Slurm; `oomctl diagnose LOG` reads a log";
            return Err(CommandFailure::usage(what).hint(hint));
        };
        print::talk(&format!("newest run: {name}"));
        Ok(name)
    }
}
