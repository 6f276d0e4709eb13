//! Ending the jobs of all runs in one call of the scheduler.

use super::notice::{Notice, Observer};
use super::supervisor::{Supervisor, set_aside};
use super::turn::Ending;
use crate::core::job::JobRef;
use crate::core::supervise::Event;

impl Supervisor {
    /// Cancels what the turns of the runs found due.
    pub(super) fn cancel(&mut self, observer: &mut dyn Observer) {
        let ending = std::mem::take(&mut self.hands.ending);
        let ours = ending.into_iter();
        let ending: Vec<Ending> = ours.filter(|e| self.is_ours(&e.run, observer)).collect();
        if ending.is_empty() {
            return;
        }
        let jobs: Vec<JobRef> = ending.iter().map(|e| e.job.clone()).collect();
        let asked = self.now();
        let answers = self.hands.scheduler.cancel_all(&jobs);
        for (Ending { run, attempt, job }, answer) in ending.into_iter().zip(answers) {
            let event = match answer {
                Ok(()) => Event::CancelTaken { attempt, job },
                Err(failure) => {
                    observer.notice(&Notice::Trouble {
                        run: Some(&run),
                        what: &failure.to_string(),
                    });
                    Event::CancelUnanswered { attempt }
                }
            };
            self.hand_in(&run, &event, asked, observer);
        }
    }

    /// Is the run still ours? The process that took it over would not know why its job ended.
    fn is_ours(&mut self, run: &str, observer: &mut dyn Observer) -> bool {
        let Some(handle) = self.runs.get_mut(run).filter(|h| h.is_open()) else {
            return false;
        };
        let taken = handle.ledger.still_ours().err();
        if let Some(error) = taken {
            set_aside(handle, error.into(), observer);
            return false;
        }
        true
    }
}
