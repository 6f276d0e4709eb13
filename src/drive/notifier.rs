//! The thread that gives a notice to those who do not watch, and how often there is one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::Value;

use super::notice::Observer;
use crate::core::engine::Pause;
use crate::core::request::Notices;
use crate::io::hook;

/// Seconds beyond their time limits for which notices are waited for at the end: the programs are killed by then.
const GRACE_S: u64 = 2;

/// Gives notices, one at a time.
pub(super) struct Notifier {
    pub(super) pause: Pause,
    tell: Sender<Option<String>>,
    done: Receiver<Option<String>>,
    /// Until when the notice that is being given takes at most, in seconds.
    under_way_s: Option<u64>,
    /// What did not work, each of which is said once.
    warned: BTreeSet<String>,
}

impl Default for Notifier {
    fn default() -> Self {
        let (tell, done) = channel();
        Self {
            pause: Pause::default(),
            tell,
            done,
            under_way_s: None,
            warned: BTreeSet::new(),
        }
    }
}

impl Notifier {
    /// Is the one before given? Waits for it as long as it is said to.
    pub(super) fn is_free(&mut self, wait: bool, observer: &mut dyn Observer) -> bool {
        let Some(limit_s) = self.under_way_s else {
            return true;
        };
        let told = match wait {
            true => self.done.recv_timeout(Duration::from_secs(limit_s)).ok(),
            false => self.done.try_recv().ok(),
        };
        let Some(failure) = told else {
            return false;
        };
        self.under_way_s = None;
        if let Some(what) = failure.filter(|what| self.warned.insert(what.clone())) {
            observer.trouble(None, &what);
        }
        true
    }

    /// Gives a notice, once the one before is given.
    pub(super) fn give(&mut self, notices: Notices, document: Value, project: PathBuf) {
        let tell = self.tell.clone();
        let limit_s = notices.time_limit_s;
        self.under_way_s = Some(limit_s.saturating_add(GRACE_S));
        let thread = std::thread::Builder::new().name("notices".to_owned());
        let started = thread.spawn(move || {
            // Nobody listens any more where the process is about to end.
            drop(tell.send(hook::tell(&notices, &document, &project)));
        });
        if let Err(error) = started {
            drop(self.tell.send(Some(format!("notice: {error}"))));
        }
    }
}
