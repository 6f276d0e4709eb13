//! The cluster: jobs, what its commands answer, and when they do not.

use std::path::PathBuf;

use super::job::{Fate, Job};
use crate::core::engine::tests::at;
use crate::io::scheduler::command::{CommandEnd, CommandOutput};
use oomctl_base::job::{JobState, Stage};

/// Seconds after its end for which the controller knows a job (`MinJobAge`).
const MIN_JOB_AGE: i64 = 300;

/// A submission as sbatch got it.
#[derive(Debug, Clone)]
pub struct Order {
    pub token: String,
    /// Its index, where it is the one task of a job array.
    pub task: Option<u32>,
    pub out: PathBuf,
    pub err: PathBuf,
    pub micro: u32,
    /// It waits for the end of this job.
    pub after: Option<String>,
}

/// What the cluster is.
#[derive(Debug, Default)]
pub struct Cluster {
    pub jobs: Vec<Job>,
    pub next_id: u64,
    /// The controller answers nothing until then.
    pub silent: i64,
    /// squeue leaves jobs out until then.
    pub lies: i64,
    /// Orders that sit in a frozen controller.
    pub frozen: Vec<Order>,
    /// Accounting is off.
    pub no_accounts: bool,
    /// Tasks of an array that wait are shown as one record, even by squeue.
    pub together: bool,
    /// What is still to be written to logs: when, where, what.
    pub words: Vec<(i64, PathBuf, Vec<u8>)>,
    /// Ids of ours that somebody else's job has now.
    pub reused: Vec<u64>,
}

impl Cluster {
    /// Is it the present bearer of its id?
    fn bears_its_id(&self, job: &Job) -> bool {
        let last = self.jobs.iter().rev().find(|j| j.id == job.id && !j.lost);
        last.is_some_and(|j| j.token == job.token)
    }

    fn in_queue(&self, job: &Job, now: i64) -> bool {
        let old = job.state(now).stage() == Stage::Ended && now > job.gone + MIN_JOB_AGE;
        let known = !job.lost && !job.is_traceless();
        known && now >= job.visible && !old && self.bears_its_id(job)
    }

    /// squeue for our user, all jobs or those with these names; or for ids, which somebody else's job may have now.
    pub fn squeue(
        &self,
        names: Option<&[String]>,
        ids: Option<&[String]>,
        now: i64,
    ) -> CommandOutput {
        let mut text = String::new();
        let asked = |id: &str| ids.is_none_or(|ids| ids.iter().any(|other| other == id));
        for job in self.jobs.iter().filter(|j| self.in_queue(j, now)) {
            let named = names.is_none_or(|names| names.contains(&job.name()));
            if named && asked(&job.shown()) && now >= self.lies {
                text += &squeue_line(job, now, self.together);
            }
        }
        for id in self
            .reused
            .iter()
            .filter(|id| ids.is_some() && asked(&id.to_string()))
        {
            let submitted = at(now - 40).as_second();
            text += &format!(
                "{id}|{id}|RUNNING|0|0|0|{submitted}|{submitted}|N/A|node3|None||another\n"
            );
        }
        if now < self.lies && names.is_none() {
            text.push_str("12|12|RUNN");
        }
        answer(0, text, "")
    }

    pub fn sacct(&self, ids: &[String], names: &[String], now: i64) -> CommandOutput {
        if self.no_accounts {
            return answer(1, String::new(), "Slurm accounting storage is disabled");
        }
        let mut text = String::new();
        for job in &self.jobs {
            let wanted = names.contains(&job.name()) || ids.contains(&job.shown());
            // What accounting shows is what was true a while ago.
            let then = now - job.lag;
            let waits = job.task.is_some() && job.state(then) == JobState::Pending;
            let known = then >= job.submitted && !job.lost && !job.is_traceless() && !waits;
            if wanted && known {
                text += &sacct_lines(job, then);
            }
        }
        answer(0, text, "")
    }

    pub fn scontrol(&self, id: &str, now: i64) -> CommandOutput {
        let known = |j: &&Job| j.shown() == id && self.in_queue(j, now);
        if let Some(job) = self.jobs.iter().find(known) {
            return answer(0, scontrol_text(job, now), "");
        }
        if self.reused.iter().any(|r| r.to_string() == id) {
            let text = format!(
                "JobId={id} JobName=another\n   UserId=o(1001)\n   JobState=RUNNING Reason=None Dependency=(null)\n"
            );
            return answer(0, text, "");
        }
        answer(
            1,
            String::new(),
            "slurm_load_jobs error: Invalid job id specified",
        )
    }

    /// scancel, which leaves jobs with another name alone.
    pub fn scancel(&mut self, id: &str, name: &str, now: i64) -> Option<Job> {
        let found = |j: &&mut Job| j.shown() == id && j.name() == name && !j.lost;
        let job = self.jobs.iter_mut().find(found)?;
        let before = job.clone();
        if !job.cancel(now) {
            return None;
        }
        let (id, err) = (job.id, job.err.clone());
        let ours = |path: &PathBuf| path.parent() == err.parent();
        self.words.retain(|(at, path, _)| *at <= now || !ours(path));
        let text = format!(
            "slurmstepd-node1: error: *** JOB {id} ON node1 CANCELLED AT 2026-11-21T01:57:33 ***\n"
        );
        if before.state(now) == JobState::Running {
            self.words.push((now, err, text.into_bytes()));
        }
        Some(before)
    }

    /// Writes what the jobs have printed by now.
    pub fn print(&mut self, now: i64) {
        let (due, rest) = std::mem::take(&mut self.words)
            .into_iter()
            .partition::<Vec<_>, _>(|(at, _, _)| *at <= now);
        self.words = rest;
        let mut due = due;
        due.sort_by_key(|(at, _, _)| *at);
        for (_, path, bytes) in due {
            use std::io::Write;
            let file = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(&path);
            file.unwrap().write_all(&bytes).unwrap();
        }
    }

    /// The latest job that was really accepted.
    pub fn last(&self) -> Option<&Job> {
        self.jobs.iter().rev().find(|j| !j.trace)
    }

    pub fn add_words(
        &mut self,
        job: &Job,
        tear: impl Fn(usize) -> Option<(usize, i64)>,
        twice: bool,
    ) {
        for (at, to_err, text) in job.words() {
            let path = if to_err { &job.err } else { &job.out };
            let bytes = text.into_bytes();
            let at = at + job.late;
            if let Some((cut, pause)) = tear(bytes.len()) {
                self.words.push((at, path.clone(), bytes[..cut].to_vec()));
                self.words
                    .push((at + pause, path.clone(), bytes[cut..].to_vec()));
                continue;
            }
            if twice && job.fate != Fate::Survives {
                self.words.push((at, path.clone(), bytes.clone()));
            }
            self.words.push((at, path.clone(), bytes));
        }
    }
}

pub fn answer(code: i32, stdout: String, stderr: &str) -> CommandOutput {
    CommandOutput {
        end: CommandEnd::Exited(code),
        stdout,
        stderr: stderr.to_owned(),
        cut: false,
    }
}

fn times(job: &Job, now: i64) -> (String, String) {
    let shown = |known: bool, second: i64| match known {
        true => at(second).as_second().to_string(),
        false => "Unknown".to_owned(),
    };
    let over = job.state(now).stage() == Stage::Ended;
    (shown(now >= job.starts, job.starts), shown(over, job.stops))
}

fn reason(job: &Job) -> &'static str {
    match (job.trace, &job.end) {
        (true, _) => "BadConstraints",
        (_, JobState::Failed) => "NonZeroExitCode",
        _ => "None",
    }
}

/// A record of this task and others, as it waits.
fn shared(job: &Job, now: i64) -> Option<String> {
    let waits = job.state(now) == JobState::Pending && job.restarts == 0;
    job.task
        .filter(|_| waits)
        .map(|task| format!("{task}-{}%2", task + 1))
}

fn squeue_line(job: &Job, now: i64, together: bool) -> String {
    let (start, end) = times(job, now);
    let shared = shared(job, now).filter(|_| together);
    format!(
        "{shown}|{id}|{}|{}|0|{}|{}|{start}|{end}|node1|{}|{token}|{token}\n",
        job.state(now).word(),
        wait_status(job.exit()),
        job.restarts,
        at(job.submitted).as_second(),
        reason(job),
        shown = shared.map_or_else(|| job.shown(), |tasks| format!("{}_[{tasks}]", job.id)),
        id = job.id,
        token = job.name(),
    )
}

/// An exit as wait(2) gives it.
fn wait_status(exit: &str) -> i32 {
    let (code, signal) = exit.split_once(':').unwrap();
    code.parse::<i32>().unwrap() << 8 | signal.parse::<i32>().unwrap()
}

fn sacct_lines(job: &Job, now: i64) -> String {
    let mut text = String::new();
    let submitted = at(job.submitted).as_second();
    for (start, stop) in &job.parts {
        let [start, stop] = [*start, *stop].map(|second| at(second).as_second());
        text += &format!(
            "{id}|{shown}|NODE_FAIL|0:0|0:0|{start}|{start}|{stop}|node1|None||||{token}\n",
            id = job.id,
            shown = job.shown(),
            token = job.name()
        );
    }
    let state = match job.state(now) {
        // Accounting knows the end before the processes are gone.
        JobState::Completing => job.end.word().to_owned(),
        JobState::Cancelled => "CANCELLED by 1000".to_owned(),
        state => state.word().to_owned(),
    };
    let (start, end) = times(job, now);
    text += &format!(
        "{id}|{shown}|{state}|{exit}|0:0|{submitted}|{start}|{end}|node1|{}||||{token}\n",
        reason(job),
        id = job.id,
        shown = job.shown(),
        exit = job.exit(),
        token = job.name(),
    );
    text
}

fn scontrol_text(job: &Job, now: i64) -> String {
    let (start, end) = times(job, now);
    let tasks = shared(job, now).or(job.task.map(|task| task.to_string()));
    let array = tasks.map(|tasks| format!(" ArrayJobId={} ArrayTaskId={tasks}", job.id));
    format!(
        "JobId={}{} JobName={token}\n   UserId=u(1000) GroupId=u(1000) MCS_label=N/A\n   JobState={} Reason={} Dependency=(null)\n   Requeue=1 Restarts={} BatchFlag=1 Reboot=0 ExitCode={}\n   DerivedExitCode=0:0\n   SubmitTime={} EligibleTime=Unknown\n   StartTime={start} EndTime={end} Deadline=N/A\n   NodeList=node1\n   Comment={token}\n",
        job.id,
        array.unwrap_or_default(),
        job.state(now).word(),
        reason(job),
        job.restarts,
        job.exit(),
        at(job.submitted).as_second(),
        token = job.name(),
    )
}
