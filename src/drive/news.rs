//! Notices to those who do not watch: which news of which runs go into the next one.
//!
//! Rule: the ledgers say that something is told before it is told. Nothing here stops a run.

use std::path::Path;

use jiff::Timestamp;

use super::handle::Handle;
use super::notice::Observer;
use super::supervisor::{Supervisor, set_aside};
use crate::core::engine::{Fact, NotifiedEvent, mask, notification};
use crate::core::request::{Notices, split};
use crate::io::environment::variables;

impl Supervisor {
    /// Gives a notice of what happened since the one before, when it is time for one.
    pub(super) fn tell_news(&mut self, observer: &mut dyn Observer) {
        let now = self.now();
        if self.notifier.is_free(false, observer) && self.notifier.pause.is_over(now) {
            self.tell_some(now, observer);
        }
    }

    /// Gives a notice of all that was not told yet, and waits until it is given.
    pub(super) fn tell_the_rest(&mut self, observer: &mut dyn Observer) {
        let now = self.now();
        // Runs may differ in whom to tell; there are as many rounds as there are such differences.
        for _ in 0..=self.runs.len() {
            if !self.notifier.is_free(true, observer) || !self.tell_some(now, observer) {
                return;
            }
        }
    }

    /// Gives a notice of all runs of which the same are to be told, if there is any.
    fn tell_some(&mut self, now: Timestamp, observer: &mut dyn Observer) -> bool {
        let first = self.runs.values().find(|h| is_news(h));
        let Some(notices) = first.and_then(|h| h.run.request.notices()).cloned() else {
            return false;
        };
        let project = first.and_then(|h| h.folder.project());
        let project = project.map(Path::to_owned).unwrap_or_default();
        let mut told = Vec::new();
        for handle in self.runs.values_mut().filter(|h| is_news(h)) {
            if handle.run.request.notices() == Some(&notices) {
                told.extend(take(handle, &notices, now, observer));
            }
        }
        if told.is_empty() {
            return false;
        }
        let Ok(mut document) = serde_json::to_value(notification(&project, told)) else {
            return false;
        };
        mask(&mut document, &secrets());
        self.notifier.pause.told(now, notices.pause_s);
        self.notifier.give(notices, document, project);
        true
    }
}

fn is_news(handle: &Handle) -> bool {
    let notices = handle.run.request.notices();
    let due = notices.is_some_and(|n| !handle.run.history.news.due(n).is_empty());
    due && handle.error.is_none()
}

/// The news of a run, once its ledger says that they are told.
fn take(
    handle: &mut Handle,
    notices: &Notices,
    now: Timestamp,
    observer: &mut dyn Observer,
) -> Vec<NotifiedEvent> {
    let history = &handle.run.history;
    let due = history.news.due(notices);
    let Some(until) = due.last().map(|news| news.seq) else {
        return Vec::new();
    };
    let told = due
        .iter()
        .map(|news| NotifiedEvent::new(history, news))
        .collect();
    match handle.ledger.append(&Fact::Noticed { until }, now) {
        Ok(record) => {
            handle.run.apply(&record);
            told
        }
        Err(error) => {
            set_aside(handle, error.into(), observer);
            Vec::new()
        }
    }
}

/// Values of the environment that must not leave this machine.
fn secrets() -> Vec<String> {
    let all = variables();
    let names = split(&all, &[]).secrets;
    names
        .iter()
        .filter_map(|name| all.get(name).cloned())
        .collect()
}
