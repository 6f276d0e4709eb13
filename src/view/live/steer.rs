//! What a person at the keys can do to a run, and what is asked before it is done.

use crate::core::engine::History;
use crate::core::ladder::Step;
use crate::drive::SteerRequest;
use crate::view::print::somebody;

/// What is to be done with the next rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NextRungChoice {
    /// It is taken now.
    #[default]
    Take,
    /// It is left out when the time comes.
    LeaveOut,
}

/// What the next rung of a run would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextRungPreview {
    run: String,
    attempt: u32,
    /// Its name, and what all that would be taken changes; or why there is none.
    next: Result<(String, String), String>,
}

impl NextRungPreview {
    /// As the drive told it.
    pub fn new(run: &str, attempt: u32, next: Result<&[Step], &str>) -> Self {
        let told = |steps: &[Step]| {
            let rung = steps.first().map_or("", |s| s.rung.as_str()).to_owned();
            let changes = steps.iter().flat_map(|s| &s.changes);
            let changes = changes.map(|c| format!("{} {}", c.name(), c.values("→")));
            (rung, changes.collect::<Vec<_>>().join(", "))
        };
        Self {
            run: run.to_owned(),
            attempt,
            next: next.map(told).map_err(ToOwned::to_owned),
        }
    }

    /// What is asked before it is done; why it cannot be, where that is so.
    pub fn question(self, ahead: NextRungChoice) -> Result<Confirmation, String> {
        let Self { run, attempt, next } = self;
        let (rung, changes) = next.map_err(|why| format!("{run}: {why}"))?;
        Ok(match ahead {
            NextRungChoice::Take => Confirmation::Escalate {
                run,
                attempt,
                rung,
                changes,
            },
            NextRungChoice::LeaveOut => Confirmation::LeaveOut { run, attempt, rung },
        })
    }
}

/// Something that is done only when it was agreed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmation {
    /// End a run and its job.
    Cancel {
        /// The run.
        run: String,
        /// Its job.
        job: Option<String>,
    },
    /// End an attempt for the next rung.
    Escalate {
        /// The run.
        run: String,
        /// The attempt.
        attempt: u32,
        /// The rung.
        rung: String,
        /// What it changes.
        changes: String,
    },
    /// Leave a rung out of what follows an attempt.
    LeaveOut {
        /// The run.
        run: String,
        /// The attempt.
        attempt: u32,
        /// The rung.
        rung: String,
    },
}

impl Confirmation {
    /// About the end of a run; an error where it has ended.
    pub fn cancel(history: &History) -> Result<Self, String> {
        if history.outcome.is_some() {
            return Err(format!("{} is over", history.run));
        }
        if history.cancel.is_some() {
            return Err(format!("{} is being cancelled", history.run));
        }
        let attempt = history.attempt();
        let job = attempt.and_then(|a| a.job.as_ref());
        Ok(Self::Cancel {
            run: history.run.clone(),
            job: job.map(|j| j.id.to_string()),
        })
    }

    /// In words.
    pub fn text(&self) -> String {
        match self {
            Self::Cancel { run, job: None } => format!("End {run}?"),
            Self::Cancel {
                run,
                job: Some(job),
            } => format!("End {run} and its job {job}?"),
            Self::Escalate {
                attempt,
                rung,
                changes,
                ..
            } => format!("End attempt {attempt} for {rung} ({changes})?"),
            Self::LeaveOut { attempt, rung, .. } => {
                format!("Skip {rung} if attempt {attempt} runs out of memory?")
            }
        }
    }

    /// What is asked of the drive, when it is agreed to.
    pub fn asked(self) -> SteerRequest {
        let by = somebody("oomctl watch");
        match self {
            Self::Cancel { run, .. } => SteerRequest::Cancel { run, by },
            Self::Escalate { run, attempt, .. } => SteerRequest::Escalate { run, attempt, by },
            Self::LeaveOut { run, attempt, rung } => SteerRequest::LeaveOut {
                run,
                attempt,
                rung,
                by,
            },
        }
    }
}
