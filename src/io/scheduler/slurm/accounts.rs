//! sacct: what it says, that it is off, or that it did not answer.

use super::super::NoAnswer;
use super::clients::{no_answer, on_cluster};
use super::parse::{JobRecord, SACCT_FIELDS, read_sacct};
use super::view::{IDS_PER_CALL, ids};
use super::{Accounting, Slurm};
use oomctl_base::job::JobRef;

/// What sacct said.
pub(super) enum Accounts {
    Answer(Vec<JobRecord>),
    Off,
    NoAnswer(NoAnswer),
}

impl Slurm {
    /// Records of these jobs.
    pub(super) fn accounts(&mut self, cluster: Option<&str>, jobs: &[&JobRef]) -> Accounts {
        if let Some(rest) = &self.rest {
            return rest.accounts(jobs, self.clients.deadlines);
        }
        let mut records = Vec::new();
        for batch in jobs.chunks(IDS_PER_CALL) {
            let mut arguments = on_cluster(cluster);
            arguments.extend(["-j".to_owned(), ids(batch)]);
            match self.ask_sacct(arguments) {
                Accounts::Answer(more) => records.extend(more),
                other => return other,
            }
        }
        Accounts::Answer(records)
    }

    /// One call. That accounting is off is remembered.
    pub(super) fn ask_sacct(&mut self, mut arguments: Vec<String>) -> Accounts {
        if self.accounting == Accounting::Off {
            return Accounts::Off;
        }
        if self.clients.search.locate("sacct").is_none() {
            self.accounting = Accounting::Off;
            return Accounts::Off;
        }
        arguments.extend(["-n", "-P", "-D", "-o", SACCT_FIELDS].map(str::to_owned));
        let answer = self.clients.query("sacct", &arguments);
        if answer.stderr.contains("accounting storage is disabled") {
            self.accounting = Accounting::Off;
            Accounts::Off
        } else if answer.is_clean() {
            Accounts::Answer(read_sacct(&answer.stdout))
        } else {
            Accounts::NoAnswer(no_answer("sacct", &answer))
        }
    }
}
