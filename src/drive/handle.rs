//! One run in the hands of this process: its state, its ledger, its folder, its logs.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::DriveError;
use super::explain::explained;
use super::folder::{Environment, RunFolder};
use super::log_links::log_links;
use super::logs::AttemptLogs;
use super::notice::{Notice, Observer};
use crate::core::engine::{Attempt, Event, Fact, History, Record, Run, RunPhase, decide};
use crate::core::measure::Measured;
use crate::core::request::{Adopts, Request};
use crate::io::files::{io_error, link, replace};
use crate::io::ledger::{Ledger, Takeover, read};
use crate::io::program_logs::is_of_another;
use crate::io::sampler::peaks;
use oomctl_diagnose::Incident;

/// Most facts that can follow from one event. Far above what `decide` gives; it only keeps a mistake
/// from filling a disk.
const FACTS_MAX: usize = 10_000;

/// One run in the hands of this process. Dropping it gives the run back.
pub struct Handle {
    pub(super) run: Run,
    pub(super) folder: RunFolder,
    pub(super) ledger: Ledger,
    pub(super) logs: Option<AttemptLogs>,
    /// Where we stand in the logs could not be written down, which was told.
    pub(super) unmarked: bool,
    /// The number by which the followers know the run's logs.
    pub(super) group: u64,
    /// Others of its sweep go first.
    pub(super) held: bool,
    /// Where attempts of it are tasks of a job array.
    pub(super) task: Option<super::record::TaskPlace>,
    /// Why this process no longer works on the run, when it does not.
    pub(super) error: Option<DriveError>,
    pub(super) beat: Timestamp,
    pub(super) mailbox: Option<Timestamp>,
}

impl Handle {
    /// Makes a new run: its folder, an empty ledger, environment and request, then the first fact. Killed before the
    /// request is there, it has left no run; after that, one that can be taken up.
    ///
    /// # Errors
    /// When there is one of that name, or its folder cannot be written.
    pub fn create(
        folder: RunFolder,
        request: Request,
        inputs: &str,
        environment: &Environment,
        now: Timestamp,
    ) -> Result<Self, DriveError> {
        if folder.inputs().exists() {
            return Err(DriveError::RunExists {
                run: request.run().to_owned(),
            });
        }
        folder.make()?;
        let ledger = Ledger::create(folder.dir()).inspect_err(|_| {
            // A full disk is no reason to use up the name. A folder with anything in it stays.
            let _ = std::fs::remove_dir(folder.dir());
        })?;
        folder.fill(inputs, environment)?;
        let mut handle = Self::new(folder, request, ledger, &[], now);
        handle.created(now)?;
        Ok(handle)
    }

    /// Takes a run up again: becomes its owner and replays its facts.
    ///
    /// # Errors
    /// When another process owns it, or its ledger is damaged, newer, or cannot be written.
    pub fn open(
        folder: RunFolder,
        request: Request,
        takeover: Takeover,
        now: Timestamp,
    ) -> Result<Self, DriveError> {
        folder.check()?;
        let (ledger, records) = Ledger::open(folder.dir(), takeover, now)?;
        let mut handle = Self::new(folder, request, ledger, &records, now);
        handle.created(now)?;
        for record in &records {
            handle.projections(&record.fact).ok();
        }
        handle.learn_late(&records).ok();
        Ok(handle)
    }

    fn new(
        folder: RunFolder,
        request: Request,
        ledger: Ledger,
        records: &[Record],
        now: Timestamp,
    ) -> Self {
        Self {
            run: Run::new(request, records),
            folder,
            ledger,
            logs: None,
            unmarked: false,
            group: 0,
            held: false,
            task: None,
            error: None,
            beat: now,
            mailbox: None,
        }
    }

    /// The first fact, which a crash may have kept from the ledger.
    fn created(&mut self, now: Timestamp) -> Result<(), DriveError> {
        if self.run.history.created.is_some() {
            return Ok(());
        }
        let fact = Fact::Created {
            run: self.run.request.run().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let record = self.ledger.append(&fact, now)?;
        self.run.apply(&record);
        Ok(())
    }

    /// Takes a job that oomctl did not submit as the first attempt of a new run.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub fn attach(
        &mut self,
        adopts: Adopts,
        now: Timestamp,
        observer: &mut dyn Observer,
    ) -> Result<(), DriveError> {
        self.feed(&Event::Attach(adopts), now, observer)
    }

    /// Name of the run.
    pub fn name(&self) -> &str {
        &self.run.history.run
    }

    /// What it was asked to do.
    pub fn request(&self) -> &Request {
        &self.run.request
    }

    /// What its facts add up to.
    pub fn history(&self) -> &History {
        &self.run.history
    }

    /// Where its files lie.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// Why this process no longer works on it, when it does not.
    pub fn error(&self) -> Option<&DriveError> {
        self.error.as_ref()
    }

    /// Is there anything left to do for it here?
    pub fn is_open(&self) -> bool {
        self.error.is_none() && self.run.phase() != RunPhase::Finished
    }

    /// The moment of which the scheduler's last answer about its job tells; None where it has no job that lives.
    pub fn answered(&self) -> Option<Timestamp> {
        let lives = self.run.phase() == RunPhase::Live;
        lives.then(|| self.run.answered())?
    }

    /// Is its present attempt a task of a job array that this process submits?
    pub(super) fn is_task(&self) -> bool {
        let task = self.run.history.attempt().zip(self.task.as_ref());
        task.is_some_and(|(a, task)| a.token.is_some() && a.token == task.token(a.number))
    }

    /// Is there anything that may be done for it now?
    pub(super) fn is_active(&self) -> bool {
        self.is_open() && !self.held
    }

    /// Is there nothing left to do for it but to wait for its job, or for others?
    pub(super) fn is_settled(&self) -> bool {
        let refused = self.run.phase() == RunPhase::Refused;
        !self.is_active() || refused || self.run.waits_for_its_job()
    }

    /// Is it over, or was its job told to end?
    pub fn is_let_go(&self) -> bool {
        let told = |a: &Attempt| a.cancel_sent || a.ended_at.is_some();
        !self.is_open() || self.run.history.attempt().is_some_and(told)
    }

    /// Was its present attempt answered, is it over, or must it wait for others?
    pub(super) fn is_under_way(&self) -> bool {
        self.held
            || !matches!(
                self.run.phase(),
                RunPhase::Preparing(_) | RunPhase::Submitting | RunPhase::Searching
            )
    }

    /// Hands an event in and writes down what follows from it, until nothing does.
    pub(super) fn feed(
        &mut self,
        event: &Event,
        now: Timestamp,
        observer: &mut dyn Observer,
    ) -> Result<(), DriveError> {
        self.run.observe(event, now);
        let mut facts = decide(&self.run, event, now);
        for _ in 0..FACTS_MAX {
            for fact in facts {
                let record = self.ledger.append(&fact, now)?;
                self.run.apply(&record);
                observer.notice(&Notice::Fact {
                    run: self.name(),
                    record: &record,
                });
                let learned = match &record.fact {
                    Fact::Decided { attempt, .. } => self.learn(*attempt),
                    Fact::Diagnosed { incident, .. } => {
                        self.explain(incident, observer);
                        Ok(())
                    }
                    _ => Ok(()),
                };
                if let Err(error) = self.projections(&record.fact).and(learned) {
                    observer.trouble(Some(self.name()), &error.to_string());
                }
            }
            facts = decide(&self.run, &Event::Tick, now);
            if facts.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// What a fact leaves on disk besides itself, for people. Made again when the run is opened, so a
    /// crash in between costs nothing; a failure is no reason to stop.
    fn projections(&mut self, fact: &Fact) -> Result<(), DriveError> {
        match fact {
            Fact::Intended { .. } | Fact::Attached { .. } | Fact::Restarted { .. } => {
                self.logs = None;
                Ok(())
            }
            Fact::Submitted { attempt, job, .. } => {
                for (path, at) in log_links(&self.folder, &self.run.request, *attempt, &job.id) {
                    if self.is_taken(&at) {
                        continue;
                    }
                    let folder = at.parent().unwrap_or(&at);
                    std::fs::create_dir_all(folder).map_err(io_error("create", folder))?;
                    link(&path, &at)?;
                }
                Ok(())
            }
            Fact::Decided { attempt, .. } => self.write_verdict(*attempt),
            _ => Ok(()),
        }
    }

    /// Is something there that no run has put there?
    fn is_taken(&self, at: &Path) -> bool {
        let runs = self.folder.dir().parent();
        let ours = |to: PathBuf| runs.is_some_and(|runs| to.starts_with(runs));
        at.symlink_metadata().is_ok() && !std::fs::read_link(at).is_ok_and(ours)
    }

    /// `verdict.json`: why the attempt ended, with its evidence, and what follows.
    fn write_verdict(&self, number: u32) -> Result<(), DriveError> {
        let attempts = &self.run.history.attempts;
        let Some(attempt) = attempts.iter().find(|a| a.number == number) else {
            return Ok(());
        };
        let path = self.folder.attempt(number).join("verdict.json");
        if attempt.token.is_none() {
            crate::io::files::make_private_dir(&self.folder.attempt(number))?;
        }
        let verdict = serde_json::json!({
            "attempt": number,
            "job": attempt.job,
            "status": attempt.status,
            "incident": attempt.incident,
            "progress": attempt.progress,
            "measured": attempt.measured,
            "verdict": attempt.verdict,
        });
        let text = format!("{verdict:#}\n");
        Ok(replace(&path, text.as_bytes())?)
    }

    /// Tells why one GPU is full while the others are not.
    fn explain(&self, incident: &Incident, observer: &mut dyn Observer) {
        let request = &self.run.request;
        let rungs = self.run.history.rungs();
        if let Some(explanation) = explained(request, &rungs, incident, &self.measured()) {
            observer.notice(&Notice::Explained {
                run: self.name(),
                explanation: &explanation,
            });
        }
    }

    /// What the present attempt was measured to need: by the samplers on its nodes, and in its logs.
    pub(super) fn measured(&self) -> Measured {
        let logs = self.logs.as_ref();
        let figures = logs.map(AttemptLogs::figures).unwrap_or_default();
        let steps_ms = logs.map(AttemptLogs::steps_ms).unwrap_or_default();
        let attempt = self.run.history.attempt();
        let gpus = attempt.map_or_else(Vec::new, |a| peaks(&self.folder.attempt(a.number)));
        Measured::new(gpus, figures).with_steps(steps_ms)
    }
}

/// The logs of an attempt, whether they exist or not; with the files into which its program prints.
pub fn log_paths(folder: &RunFolder, attempt: &Attempt) -> Vec<PathBuf> {
    let of_program = || attempt.program_logs().into_iter().map(|log| log.path);
    if attempt.token.is_none() {
        return attempt.own_logs().into_iter().chain(of_program()).collect();
    }
    let own = [folder.stderr(attempt.number), folder.stdout(attempt.number)];
    own.into_iter().chain(of_program()).collect()
}

/// Those of them that hold text of the attempt, or none.
pub fn attempt_logs(folder: &RunFolder, attempt: &Attempt) -> Vec<PathBuf> {
    let others = of_others(attempt);
    let mut logs = log_paths(folder, attempt);
    logs.retain(|log| !others.contains(log));
    logs
}

/// Files that hold what other jobs have printed, and nothing of this attempt.
pub(super) fn of_others(attempt: &Attempt) -> Vec<PathBuf> {
    let logs = attempt.program_logs().into_iter();
    let others = logs.filter(|log| is_of_another(log, attempt.status.as_ref()));
    others.map(|log| log.path).collect()
}

/// What the ledger of a run says, without becoming its owner and without asking a scheduler.
///
/// # Errors
/// When there is no ledger, or a line in the middle is damaged.
pub fn history(run_dir: &Path) -> Result<History, DriveError> {
    Ok(History::replay(&read(run_dir)?.records))
}
