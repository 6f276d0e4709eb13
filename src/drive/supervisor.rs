//! The one loop: ask what is due, do it, hand in what came of it, wait.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};

use super::DriveError;
use super::handle::Handle;
use super::measuring::Measurements;
use super::monotonic_clock::TimeSource;
use super::notice::{Notice, Observer};
use super::notifier::Notifier;
use super::record::Array;
use super::turn::{Hands, housekeeping, mailbox_pause_s, one_by_one};
use crate::core::engine::{
    Action, AttemptEvent, Event, Pace, RunPhase, Sighting, SweepGroup, due, next_due, poll_at,
};
use crate::io::scheduler::{FoundJob, NoAnswer, Scheduler};
use oomctl_base::job::{JobId, JobRef, JobState, JobStatus, Stage, Token};
use oomctl_follow::{Followers, LookMode, Waiter};

/// Jobs that are asked about in a second of the pause between two questions: of ten thousand jobs squeue and sacct are asked twice a
/// minute each.
const JOBS_PER_S: u64 = 333;

/// Many runs, one scheduler, and one follower of all their logs.
pub struct Supervisor {
    pub(super) hands: Hands,
    pub(super) runs: BTreeMap<String, Handle>,
    /// The runs by the numbers that the followers know.
    groups: Vec<String>,
    /// True while the scheduler gives no answers, so that it is said once.
    silent: bool,
    /// When it may be asked about the jobs.
    pace: Pace,
    pub(super) sweep_groups: BTreeMap<String, SweepGroup>,
    pub(super) arrays: Vec<Array>,
    /// How many attempts were decided upon when it was last asked which runs need not be started.
    pub(super) decided: usize,
    pub(super) notifier: Notifier,
}

/// A job to be asked about, or a token to be looked for.
struct JobQuery<T> {
    run: String,
    attempt: u32,
    of: T,
}

impl Supervisor {
    /// A supervisor without runs.
    pub fn new(scheduler: Box<dyn Scheduler>, clock: TimeSource) -> Self {
        Self {
            hands: Hands {
                scheduler,
                followers: Followers::new(),
                clock,
                measurements: Measurements::default(),
                queue: Vec::new(),
                ending: Vec::new(),
                ended: Vec::new(),
            },
            runs: BTreeMap::new(),
            groups: Vec::new(),
            silent: false,
            pace: Pace::new(None),
            sweep_groups: BTreeMap::new(),
            arrays: Vec::new(),
            decided: 0,
            notifier: Notifier::default(),
        }
    }

    /// The same, not in step with other processes that began at the same time.
    pub fn paced(mut self, seed: u64) -> Self {
        self.pace = Pace::new(Some(seed));
        self
    }

    /// Takes a run in.
    pub fn add(&mut self, mut handle: Handle) {
        handle.group = self.groups.len() as u64;
        self.groups.push(handle.name().to_owned());
        self.runs.insert(handle.name().to_owned(), handle);
    }

    /// The runs.
    pub fn runs(&self) -> impl Iterator<Item = &Handle> {
        self.runs.values()
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        (self.hands.clock)()
    }

    /// Gives every run back.
    pub fn into_handles(self) -> Vec<Handle> {
        self.runs.into_values().collect()
    }

    /// Writes down where the logs were read to, so that the next process need not read them again.
    pub(super) fn save(&mut self, observer: &mut dyn Observer) {
        let now = self.now();
        for handle in self.runs.values_mut() {
            handle.save(&self.hands.followers, now, observer);
        }
    }

    /// One turn: everything that is due is done. Returns when the next thing is due; `None` when nothing is left to do here.
    pub fn cycle(&mut self, observer: &mut dyn Observer) -> Option<Timestamp> {
        let pause = mailbox_pause_s(self.runs.len());
        self.each_open(observer, |_, run, now, observer| {
            housekeeping(run, pause, now, observer)
        });
        self.hold();
        self.each_open(observer, |hands, handle, now, observer| match handle.held {
            true => Ok(()),
            false => one_by_one(hands, handle, now, observer),
        });
        self.cancel(observer);
        for what in self.hands.followers.notices() {
            observer.trouble(None, &what);
        }
        self.submit_arrays(observer);
        self.find(observer);
        self.poll(false, observer);
        self.prune(observer);
        self.hold();
        self.wake_up()
    }

    /// Something that waits until a log may have grown; none where the system has no word of it.
    pub fn log_waiter(&self) -> Option<Waiter> {
        self.hands.followers.waiter()
    }

    /// Are there logs that were not read to their end?
    pub fn is_behind(&self) -> bool {
        self.hands.followers.is_behind()
    }

    /// Reads the logs that may have grown, of whatever run, and nothing else: the same work for one run
    /// as for thousands. Returns when the next thing is due for one of these runs.
    pub fn logs_grew(&mut self, observer: &mut dyn Observer) -> Option<Timestamp> {
        let mut next = None;
        for group in self.hands.followers.woken() {
            let name = usize::try_from(group).ok().and_then(|g| self.groups.get(g));
            let Some(handle) = name.and_then(|n| self.runs.get_mut(n)) else {
                continue;
            };
            // A job that has ended is read when its log is drained.
            if !handle.is_open() || handle.run.phase() != RunPhase::Live {
                continue;
            }
            let now = (self.hands.clock)();
            let look = handle.look(&mut self.hands.followers, LookMode::Due, now, observer);
            if let Err(error) = look {
                set_aside(handle, error, observer);
                continue;
            }
            let due = next_due(&handle.run, now, &self.pace).unwrap_or(now);
            next = Some(next.map_or(due, |n: Timestamp| n.min(due)));
        }
        next
    }

    /// When the next thing is due.
    fn wake_up(&self) -> Option<Timestamp> {
        let now = self.now();
        self.runs
            .values()
            .filter(|h| h.is_active())
            .map(|h| next_due(&h.run, now, &self.pace).unwrap_or(now))
            .min()
    }

    /// Does something for every run that is not over. A run for which it fails is set aside; the
    /// others go on.
    fn each_open(
        &mut self,
        observer: &mut dyn Observer,
        mut work: impl FnMut(
            &mut Hands,
            &mut Handle,
            Timestamp,
            &mut dyn Observer,
        ) -> Result<(), DriveError>,
    ) {
        for handle in self.runs.values_mut().filter(|h| h.is_open()) {
            let now = (self.hands.clock)();
            if let Err(error) = work(&mut self.hands, handle, now, observer) {
                set_aside(handle, error, observer);
            }
        }
    }

    /// Looks for every token that is wanted, in one question.
    fn find(&mut self, observer: &mut dyn Observer) {
        // The answer counts from when it was asked: a job can appear while the scheduler thinks.
        let asked = self.now();
        let mut wanted: Vec<JobQuery<(Token, Timestamp)>> = Vec::new();
        for (name, handle) in self.runs.iter().filter(|(_, h)| h.is_open()) {
            for action in due(&handle.run, asked) {
                if let Action::Find {
                    attempt,
                    token,
                    since,
                } = action
                {
                    let clusters = handle.run.request.clusters();
                    self.hands.scheduler.look_on_clusters(&clusters);
                    wanted.push(JobQuery {
                        run: name.clone(),
                        attempt,
                        of: (token, since),
                    });
                }
            }
        }
        let Some(since) = wanted.iter().map(|w| w.of.1).min() else {
            return;
        };
        let tokens: Vec<Token> = wanted.iter().map(|w| w.of.0.clone()).collect();
        let answer = self.hands.scheduler.find(&tokens, since);
        self.answered(answer.as_ref().err(), observer);
        for JobQuery { run, attempt, of } in wanted {
            let event = match &answer {
                Ok(found) => AttemptEvent::Found(self.sightings(&run, attempt, found, &of.0)),
                Err(_) => AttemptEvent::FindUnanswered,
            };
            self.hand_in(&run, &Event::Attempt(attempt, event), asked, observer);
        }
    }

    /// The jobs that carry the token of an attempt. Where the scheduler shows none, one that began and was
    /// forgotten since has left its claim.
    fn sightings(
        &self,
        run: &str,
        attempt: u32,
        found: &[FoundJob],
        token: &Token,
    ) -> Vec<Sighting> {
        let mut jobs = sightings(found, token);
        let handle = self.runs.get(run).filter(|_| jobs.is_empty());
        if let Some(id) = handle.and_then(|h| h.folder.claimed_by(attempt)) {
            jobs.push(Sighting {
                status: JobStatus::bare(id, JobState::Unknown(String::new())),
                cluster: None,
                submitted: None,
                refused_trace: false,
            });
        }
        jobs
    }

    /// Asks for the state of all jobs in one question, as soon as one of them is due, or at once.
    pub(super) fn poll(&mut self, at_once: bool, observer: &mut dyn Observer) {
        let asked = self.now();
        let mut jobs: Vec<JobQuery<JobRef>> = Vec::new();
        let (mut is_due, mut every_s) = (at_once, u64::MAX);
        for (name, handle) in self.runs.iter().filter(|(_, h)| h.is_open()) {
            let Some(attempt) = handle.run.history.attempt() else {
                continue;
            };
            let (Some(job), None) = (&attempt.job, attempt.ended_at) else {
                continue;
            };
            is_due |= poll_at(&handle.run).is_some_and(|at| self.pace.hold(at) <= asked);
            every_s = every_s.min(handle.run.request.supervision().poll_s);
            jobs.push(JobQuery {
                run: name.clone(),
                attempt: attempt.number,
                of: job.clone(),
            });
        }
        if !is_due {
            return;
        }
        let every_s = every_s.max(jobs.len() as u64 / JOBS_PER_S);
        let refs: Vec<JobRef> = jobs.iter().map(|w| w.of.clone()).collect();
        let answer = self.hands.scheduler.poll(&refs, asked);
        self.answered(answer.as_ref().err(), observer);
        self.pace.note(asked, self.now(), answer.is_ok(), every_s);
        let poll = answer.unwrap_or_default();
        let gone: HashSet<&JobId> = poll.vanished.iter().collect();
        let known: HashMap<&JobId, &JobStatus> = poll.jobs.iter().map(|s| (&s.id, s)).collect();
        for wanted in &jobs {
            let id = &wanted.of.id;
            let event = self.polled(
                wanted,
                gone.contains(id),
                known.get(id).copied().map(|status| (status, poll.age)),
                observer,
            );
            // The answer counts from when it was asked: a job can end, or a user end it, while the scheduler thinks.
            self.hand_in(&wanted.run, &event, asked, observer);
        }
    }

    /// What a poll said about one job, and how old that is.
    fn polled(
        &mut self,
        wanted: &JobQuery<JobRef>,
        gone: bool,
        told: Option<(&JobStatus, SignedDuration)>,
        observer: &mut dyn Observer,
    ) -> Event {
        let event = match (gone, told) {
            // Whatever else is said of it: a job that nobody knows any more will not be known again.
            (true, _) => AttemptEvent::Vanished,
            (_, Some((status, age))) => {
                self.before_status(&wanted.run, status, observer);
                let status = status.clone();
                AttemptEvent::Polled { status, age }
            }
            _ => AttemptEvent::PollUnanswered,
        };
        Event::Attempt(wanted.attempt, event)
    }

    /// Tells the state, and reads the logs once more before a restart or an end is known, so that
    /// what they held by then belongs to the part that is over.
    fn before_status(&mut self, run: &str, status: &JobStatus, observer: &mut dyn Observer) {
        let now = (self.hands.clock)();
        let Some(handle) = self.runs.get_mut(run) else {
            return;
        };
        let Some(attempt) = handle.run.history.attempt() else {
            return;
        };
        observer.notice(&Notice::Status {
            run,
            attempt,
            status,
        });
        let restarted = status.restarts > attempt.restarts;
        if (restarted || status.state.stage() == Stage::Ended)
            && let Err(error) = handle.look(&mut self.hands.followers, LookMode::Now, now, observer)
        {
            set_aside(handle, error, observer);
        }
    }

    pub(super) fn hand_in(
        &mut self,
        run: &str,
        event: &Event,
        now: Timestamp,
        observer: &mut dyn Observer,
    ) {
        if let Some(handle) = self.runs.get_mut(run).filter(|h| h.is_open())
            && let Err(error) = handle.feed(event, now, observer)
        {
            set_aside(handle, error, observer);
        }
    }

    /// Says once that the scheduler gives no answers, and once that it does again.
    fn answered(&mut self, failure: Option<&NoAnswer>, observer: &mut dyn Observer) {
        match (failure, self.silent) {
            (Some(failure), false) => {
                self.silent = true;
                observer.trouble(None, &failure.to_string());
            }
            (None, true) => {
                self.silent = false;
                observer.notice(&Notice::Recovered);
            }
            _ => {}
        }
    }
}

/// Stops working on a run in this process. The run itself is not over.
pub(super) fn set_aside(handle: &mut Handle, error: DriveError, observer: &mut dyn Observer) {
    observer.notice(&Notice::SetAside {
        run: handle.name(),
        why: &error,
    });
    handle.error = Some(error);
}

/// The jobs that carry one token.
fn sightings(found: &[FoundJob], token: &Token) -> Vec<Sighting> {
    found
        .iter()
        .filter(|f| f.token == *token)
        .map(|f| Sighting {
            status: f.status.clone(),
            cluster: f.cluster.clone(),
            submitted: f.submitted,
            refused_trace: f.refused_trace,
        })
        .collect()
}
