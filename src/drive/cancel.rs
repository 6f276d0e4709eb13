//! Ending the jobs of all runs in one call of the scheduler.

use super::notice::Observer;
use super::supervisor::{Supervisor, set_aside};
use super::turn::EndingJob;
use crate::core::engine::{AttemptEvent, Event, History};
use crate::io::scheduler::Scheduler;
use oomctl_base::job::JobRef;

/// Ends the living jobs of several runs whose end was asked for, which is on disk: so nobody who takes one of them up takes
/// it for anything else. Gives those of which the scheduler took it; the supervision of each run sees to the others.
pub fn end_jobs<'a>(
    scheduler: &mut dyn Scheduler,
    histories: impl Iterator<Item = &'a History>,
) -> Vec<JobRef> {
    let living = histories
        .filter_map(History::attempt)
        .filter(|a| a.ended_at.is_none() && a.token.is_some());
    let jobs: Vec<JobRef> = living.filter_map(|a| a.job.clone()).collect();
    if jobs.len() < 2 {
        return Vec::new();
    }
    let answers = scheduler.cancel_all(&jobs);
    let taken = jobs.into_iter().zip(answers).filter(|(_, a)| a.is_ok());
    taken.map(|(job, _)| job).collect()
}

impl Supervisor {
    /// Takes note of jobs that [`end_jobs`] ended: the scheduler is not told again at once.
    pub fn has_ended(&mut self, jobs: Vec<JobRef>) {
        self.hands.ended = jobs;
    }

    /// Cancels what the turns of the runs found due.
    pub(super) fn cancel(&mut self, observer: &mut dyn Observer) {
        let ending = std::mem::take(&mut self.hands.ending);
        let ours = ending.into_iter();
        let ending: Vec<EndingJob> = ours.filter(|e| self.is_ours(&e.run, observer)).collect();
        let asked = self.now();
        let told = |e: &EndingJob| self.hands.ended.contains(&e.job);
        let (told, ending): (Vec<EndingJob>, Vec<EndingJob>) = ending.into_iter().partition(told);
        for EndingJob { run, attempt, job } in told {
            self.hands.ended.retain(|ended| *ended != job);
            let event = Event::Attempt(attempt, AttemptEvent::CancelTaken(job));
            self.hand_in(&run, &event, asked, observer);
        }
        if ending.is_empty() {
            return;
        }
        let jobs: Vec<JobRef> = ending.iter().map(|e| e.job.clone()).collect();
        let answers = self.hands.scheduler.cancel_all(&jobs);
        for (EndingJob { run, attempt, job }, answer) in ending.into_iter().zip(answers) {
            let event = match answer {
                Ok(()) => AttemptEvent::CancelTaken(job),
                Err(failure) => {
                    observer.trouble(Some(&run), &failure.to_string());
                    AttemptEvent::CancelUnanswered
                }
            };
            self.hand_in(&run, &Event::Attempt(attempt, event), asked, observer);
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
