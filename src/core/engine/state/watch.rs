//! What only the present process knows of a run: timers, unanswered questions, the last look at the
//! logs. Nothing here decides about a second submission unless it was seen by this very process.

use jiff::Timestamp;

use crate::core::engine::event::{AttemptEvent, LogLook};
use crate::core::engine::fact::{Fact, LogEnd};
use crate::core::engine::foreseen::Rising;
use oomctl_base::job::JobStatus;
use oomctl_diagnose::{Class, Progress};

/// A question that is asked again and again.
#[derive(Debug, Clone, Default)]
pub(in crate::core::engine) struct Question {
    /// When it was last asked.
    pub asked: Option<Timestamp>,
    /// How often in a row it got no answer.
    pub unanswered: u32,
}

impl Question {
    fn answered(&mut self, now: Timestamp) {
        self.asked = Some(now);
        self.unanswered = 0;
    }

    fn failed(&mut self, now: Timestamp) {
        self.asked = Some(now);
        self.unanswered = self.unanswered.saturating_add(1);
    }
}

/// What only the present process knows of a run.
#[derive(Debug, Clone, Default)]
pub(in crate::core::engine) struct RunWatch {
    pub poll: Question,
    pub find: Question,
    pub cancel: Question,
    pub measure: Question,
    /// When the scheduler looks again for a place for the attempt.
    pub submit_at: Option<Timestamp>,
    /// The status of the last poll, which may be the same as in the facts.
    pub last_status: Option<JobStatus>,
    /// Since when every poll said this state.
    pub said_since: Option<Timestamp>,
    /// The moment of which the last answer to a poll tells: when that was asked, by this process or by another.
    pub answered: Option<Timestamp>,
    /// When the first clean empty answer of an unbroken row came.
    pub clean_since: Option<Timestamp>,
    /// How many clean empty answers came in a row.
    pub clean_answers: u32,
    pub logs_read: Option<Timestamp>,
    /// How far the logs reached at the last look.
    pub log_ends: Vec<LogEnd>,
    /// How far they reached at the last poll, and at the one before it.
    pub ends_at_poll: Vec<LogEnd>,
    pub ends_before_poll: Vec<LogEnd>,
    /// Class of the fatal failure in the log, and since when nothing has moved after it.
    pub fatal: Option<Class>,
    pub quiet_since: Option<Timestamp>,
    pub progress: Option<Progress>,
    /// Memory that rises, as the log shows it.
    pub rising: Rising,
    /// When training was last seen to go on; before any progress was seen, when a log last grew.
    pub moved_at: Option<Timestamp>,
    /// When the logs of the ended job were first and last looked at in vain.
    pub drained: Option<(Timestamp, Timestamp)>,
}

impl RunWatch {
    /// A new job, or a new part of it, starts with a clean slate.
    pub fn fact(&mut self, fact: &Fact) {
        match fact {
            Fact::Intended { .. } | Fact::Attached { .. } => *self = Self::default(),
            Fact::Submitted { .. } => self.poll = Question::default(),
            Fact::Restarted { .. } => {
                self.fatal = None;
                self.rising = Rising::default();
                self.quiet_since = None;
                self.moved_at = None;
                self.cancel = Question::default();
            }
            Fact::SubmitAbsent { .. } | Fact::SubmitAgain { .. } | Fact::SubmitUnclear { .. } => {
                self.find = Question::default();
                self.clean_since = None;
                self.clean_answers = 0;
            }
            _ => {}
        }
    }

    /// Takes note of an answer, or of its absence.
    pub fn event(&mut self, event: &AttemptEvent, now: Timestamp) {
        match event {
            AttemptEvent::Found(jobs) => {
                self.find.answered(now);
                if jobs.iter().all(|job| job.refused_trace) {
                    self.clean_since.get_or_insert(now);
                    self.clean_answers = self.clean_answers.saturating_add(1);
                }
            }
            AttemptEvent::NotYet(at) => self.submit_at = Some(*at),
            AttemptEvent::FindUnanswered => {
                self.find.failed(now);
                self.clean_since = None;
                self.clean_answers = 0;
            }
            AttemptEvent::Polled { status, age } => {
                let seen = now.checked_sub(*age).unwrap_or(now);
                self.poll.answered(now);
                self.answered = Some(seen);
                let same = self
                    .last_status
                    .as_ref()
                    .is_some_and(|s| s.state == status.state);
                self.said_since = self.said_since.filter(|_| same).or(Some(seen));
                self.last_status = Some(status.clone());
                self.ends_before_poll = std::mem::take(&mut self.ends_at_poll);
                self.ends_at_poll.clone_from(&self.log_ends);
            }
            AttemptEvent::Vanished => self.poll.answered(now),
            AttemptEvent::PollUnanswered => self.poll.failed(now),
            AttemptEvent::Drained { .. } => {
                let first = self.drained.map_or(now, |(first, _)| first);
                self.drained = Some((first, now));
            }
            AttemptEvent::PhantomRuns => self.measure.answered(now),
            AttemptEvent::CancelTaken(_) => self.cancel.answered(now),
            AttemptEvent::CancelUnanswered => self.cancel.failed(now),
            AttemptEvent::LogsKnown(ends) => self.ends_at_poll.clone_from(ends),
            AttemptEvent::LogsRead(look) => self.look(look, now),
            _ => {}
        }
    }

    fn look(&mut self, look: &LogLook, now: Timestamp) {
        self.logs_read = Some(now);
        let grew = self.log_ends != look.ends;
        self.log_ends.clone_from(&look.ends);
        let earlier = self.ends_at_poll.iter_mut();
        for end in earlier.chain(&mut self.ends_before_poll) {
            if look.anew.contains(&end.path) {
                end.offset = 0;
            }
        }
        let moved = look.progress.is_some() && look.progress != self.progress;
        if moved {
            self.progress.clone_from(&look.progress);
        }
        if moved || self.moved_at.is_none() || (grew && self.progress.is_none()) {
            self.moved_at = Some(now);
        }
        self.rising.clone_from(&look.rising);
        self.fatal = look.fatal;
        match (look.fatal, self.quiet_since) {
            (None, _) => self.quiet_since = None,
            (Some(_), Some(_)) if !moved => {}
            (Some(_), _) => self.quiet_since = Some(now),
        }
    }
}
