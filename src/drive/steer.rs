//! What somebody who looks on asks for. It becomes facts, or it does not happen.

use super::handle::Handle;
use super::notice::{Notice, Observer};
use super::supervisor::{Supervisor, set_aside};
use crate::core::engine::{AttemptEvent, Event, outlook};

/// Something that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SteerRequest {
    /// The end of a run and its job.
    Cancel {
        /// The run.
        run: String,
        /// Who asks.
        by: String,
    },
    /// What the next rung would be. Nothing is done.
    Outlook {
        /// The run.
        run: String,
    },
    /// The next rung now, in place of this attempt.
    Escalate {
        /// The run.
        run: String,
        /// Number of the attempt.
        attempt: u32,
        /// Who asks.
        by: String,
    },
    /// That what follows this attempt leaves a rung out.
    LeaveOut {
        /// The run.
        run: String,
        /// Number of the attempt.
        attempt: u32,
        /// The rung.
        rung: String,
        /// Who asks.
        by: String,
    },
}

impl Supervisor {
    /// Goes on with the runs whose submission was refused for now, or whose job a disk ended, as somebody wants.
    pub fn resume(&mut self, by: &str, observer: &mut dyn Observer) {
        let now = self.now();
        for handle in self.runs.values_mut().filter(|h| h.error.is_none()) {
            let event = Event::ResumeAsked { by: by.to_owned() };
            if let Err(error) = handle.feed(&event, now, observer) {
                set_aside(handle, error, observer);
            }
        }
    }

    /// Goes on with the runs that are over, as somebody wants; says which do.
    pub fn retry(&mut self, by: &str, observer: &mut dyn Observer) -> Vec<String> {
        let now = self.now();
        let mut reopened = Vec::new();
        let over = |h: &&mut Handle| h.error.is_none() && h.history().outcome.is_some();
        for handle in self.runs.values_mut().filter(over) {
            let event = Event::RetryAsked { by: by.to_owned() };
            let withdrawn = handle.folder.withdraw_cancel();
            let fed = withdrawn.and_then(|()| handle.feed(&event, now, observer));
            match fed {
                Err(error) => set_aside(handle, error, observer),
                Ok(()) if handle.history().outcome.is_none() => {
                    reopened.push(handle.name().to_owned());
                }
                Ok(()) => {}
            }
        }
        reopened
    }

    /// Takes what was asked for into the run's ledger, or says why not.
    pub(super) fn asked(&mut self, asked: &SteerRequest, observer: &mut dyn Observer) {
        let (run, event) = match asked.clone() {
            SteerRequest::Outlook { run } => return self.outlook(&run, observer),
            SteerRequest::Cancel { run, by } => (run, Event::CancelAsked { by }),
            SteerRequest::Escalate { run, attempt, by } => (
                run,
                Event::Attempt(attempt, AttemptEvent::EscalationAsked { by }),
            ),
            SteerRequest::LeaveOut {
                run,
                attempt,
                rung,
                by,
            } => (
                run,
                Event::Attempt(attempt, AttemptEvent::LeaveOutAsked { rung, by }),
            ),
        };
        let facts = |s: &Self| s.runs.get(&run).map(|h| h.history().seq);
        let before = facts(self);
        let now = self.now();
        self.hand_in(&run, &event, now, observer);
        if facts(self) == before {
            observer.trouble(Some(&run), "it has moved on since; nothing was done");
        }
    }

    fn outlook(&self, run: &str, observer: &mut dyn Observer) {
        let Some(handle) = self.runs.get(run) else {
            return;
        };
        let attempt = handle.history().attempt().map_or(0, |a| a.number);
        let next = match handle.is_open() {
            true => outlook(&handle.run, self.now()),
            false => Err("this process no longer supervises it".to_owned()),
        };
        observer.notice(&Notice::Outlook {
            run,
            attempt,
            next: next.as_deref().map_err(String::as_str),
        });
    }
}
