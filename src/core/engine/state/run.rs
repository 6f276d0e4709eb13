//! A run: what its facts add up to, and beside it what is only known to this process.
//!
//! Losing what only this process knows costs a question, never a wrong answer.

use jiff::Timestamp;

use super::history::History;
use super::phase::RunPhase;
use super::watch::RunWatch;
use crate::core::engine::event::Event;
use crate::core::engine::fact::{Fact, LogEnd, Record};
use crate::core::request::Request;
use oomctl_base::job::Stage;

/// A run under supervision.
pub struct Run {
    /// What it was asked to do.
    pub request: Request,
    /// What its facts add up to.
    pub history: History,
    /// What only this process knows.
    pub(in crate::core::engine) watch: RunWatch,
}

impl Run {
    /// A run with the facts that its ledger holds.
    pub fn new(request: Request, records: &[Record]) -> Self {
        let mut run = Self {
            request,
            history: History::replay(records),
            watch: RunWatch::default(),
        };
        records.iter().for_each(|r| run.learn_version(&r.fact));
        run
    }

    fn learn_version(&mut self, fact: &Fact) {
        if let Fact::VersionFound { found, .. } = fact
            && let Some(request) = self.request.for_version(found)
        {
            self.request = request;
        }
    }

    /// Takes in a fact that is on disk.
    pub fn apply(&mut self, record: &Record) {
        self.history.apply(record);
        self.watch.fact(&record.fact);
        self.learn_version(&record.fact);
    }

    /// Takes note of an event for the timers, before it is decided upon.
    pub fn observe(&mut self, event: &Event, now: Timestamp) {
        if let Event::Attempt(_, event) = event {
            self.watch.event(event, now);
        }
    }

    /// Something may have come free: an attempt that waits for a place is submitted now.
    pub fn look_again(&mut self) {
        self.watch.submit_at = None;
    }

    /// The moment of which the scheduler's last answer about the job tells; None before there is one.
    pub fn answered(&self) -> Option<Timestamp> {
        self.watch.answered
    }

    /// Where the run stands.
    pub fn phase(&self) -> RunPhase {
        self.history.phase()
    }

    /// Whether nothing is left to do but to wait for a job that this process has seen not to be over. A node failure counts as
    /// an end only when it has stood for a while, which nobody sees who leaves at the first word of it.
    pub fn waits_for_its_job(&self) -> bool {
        let status = self.watch.last_status.as_ref();
        self.phase() == RunPhase::Live && status.is_some_and(|s| s.state.stage() != Stage::Ended)
    }

    /// How far the logs had been read when the scheduler last said how often the job was restarted: what came later may be of
    /// a part of the job that nobody has heard of yet.
    pub fn logs_of_this_part(&self) -> &[LogEnd] {
        &self.watch.ends_at_poll
    }
}
