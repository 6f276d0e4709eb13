//! What the attempts of a run teach the project's other runs, and the nodes that those warn of.

use jiff::Timestamp;

use super::DriveError;
use super::handle::Handle;
use crate::core::engine::{AttemptEvent, Fact, Record, RetryCause, Verdict, observation, on_nodes};
use crate::core::learn::bad_nodes;
use crate::io::{fits, node_log};

impl Handle {
    /// Writes down what an attempt taught, for later runs of the project.
    pub(super) fn learn(&self, attempt: u32) -> Result<(), DriveError> {
        if let (Some(path), Some(entry)) = (self.folder.nodes(), on_nodes(&self.run, attempt)) {
            node_log::append(&path, &entry)?;
        }
        if let (Some(path), Some(entry)) = (self.folder.fits(), observation(&self.run, attempt)) {
            fits::append(&path, &entry)?;
        }
        Ok(())
    }

    /// The same where a crash may have kept the earlier owner from it: nothing was written down since.
    pub(super) fn learn_late(&self, records: &[Record]) -> Result<(), DriveError> {
        let ours =
            |r: &&Record| !matches!(r.fact, Fact::OwnerChanged { .. } | Fact::TornTail { .. });
        let last = records.iter().rev().find(ours).map(|r| &r.fact);
        let Some(Fact::Decided { attempt, .. }) = last else {
            return Ok(());
        };
        let attempts = &self.run.history.attempts;
        let token = attempts.iter().find(|a| a.number == *attempt);
        let token = token.and_then(|a| a.token.as_ref());
        match (token, self.folder.fits()) {
            (Some(token), Some(path)) if !fits::knows(&path, &token.0) => self.learn(*attempt),
            _ => Ok(()),
        }
    }

    /// The nodes that the next attempt is to stay away from besides those that it does. Tasks of a job array are submitted
    /// together, so one is asked about only where its own node failed. What cannot be read warns of nothing.
    pub(super) fn warned_of(&self, now: Timestamp) -> Option<AttemptEvent> {
        let asked = self.run.request.supervision().exclude_bad_nodes;
        let alone = self.task.is_none() || self.lost_its_node();
        let path = self.folder.nodes().filter(|_| asked && alone)?;
        let entries = node_log::read(&path).unwrap_or_default();
        let history = self.history();
        let bad = bad_nodes(&entries, &history.run, &history.excluded_nodes(), now);
        (!bad.is_empty()).then_some(AttemptEvent::NodesAreBad(bad))
    }

    fn lost_its_node(&self) -> bool {
        let last = self.history().attempt().and_then(|a| a.verdict.as_ref());
        matches!(last, Some(Verdict::Again { cause, .. }) if *cause == RetryCause::NodeFailure)
    }
}
