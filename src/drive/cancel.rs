//! Ending the jobs of all runs in one call of the scheduler.

use super::notice::{Notice, Observer};
use super::supervisor::Supervisor;
use super::turn::Ending;
use crate::core::job::JobRef;
use crate::core::supervise::Event;

impl Supervisor {
    /// Cancels what the turns of the runs found due.
    pub(super) fn cancel(&mut self, observer: &mut dyn Observer) {
        let ending = std::mem::take(&mut self.hands.ending);
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
}
