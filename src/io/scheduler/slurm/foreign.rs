//! A job that was submitted without us: whose it is, how it was submitted, the text of its script, its logs.
//!
//! Rule: what Slurm does not say stays unknown. The controller forgets an ended job after `MinJobAge`; accounting keeps
//! the line of its submission (21.08 and later) and, where the site asks for it, the script.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};

use super::super::NoAnswer;
use super::Slurm;
use super::ids::{JobIdPart, NamedJob};
use super::log_paths::log_paths;
use super::parse::{is_job_id, read_scontrol};
use oomctl_base::job::{JobId, JobRef};

/// Columns that sacct is asked for, free text last.
const FIELDS: &str = "JobID,JobIDRaw,UID,User,AllocTRES,WorkDir,JobName,SubmitLine";
/// Columns where it does not know the last (before 21.08).
const FIELDS_BEFORE: &str = "JobID,JobIDRaw,UID,User,AllocTRES,WorkDir,JobName";
/// Largest script that is taken, in bytes: what the reader takes.
const MAX_SCRIPT: usize = 1 << 20;

/// The release since which `Command=` is the path alone.
const PATH_ALONE: (u32, u32) = (23, 2);

/// What is known of a job that was submitted without us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Foreign {
    /// Its id, as people write it.
    pub id: JobId,
    /// The raw number of it, which differs for a task of an array.
    pub raw_id: String,
    /// When it was submitted, as the controller says it.
    pub submitted: Option<Timestamp>,
    /// Whose it is.
    pub uid: Option<u32>,
    /// Whose it is, by name.
    pub user: Option<String>,
    /// The folder in which it runs.
    pub workdir: Option<PathBuf>,
    /// Its name.
    pub name: Option<String>,
    /// The script with its arguments, without quotes; the controller's word, with a path from the root.
    pub command: Option<String>,
    /// The line of the submission, without quotes.
    pub submit_line: Option<String>,
    /// The text of the script.
    pub script: Option<String>,
    /// Standard output and standard error.
    pub logs: Option<(PathBuf, PathBuf)>,
    /// GPUs of the whole job.
    pub gpus: u64,
    /// What the controller says that it asked for, as options of sbatch.
    pub asked: Vec<String>,
    /// Accounting is kept and has not written the line of the submission down yet (22.05 takes 5 s).
    pub is_late: bool,
    /// It is a component of a heterogeneous job.
    pub is_heterogeneous: bool,
}

impl Foreign {
    /// The folder of the project whose run this job is an attempt of.
    pub fn project(&self) -> Option<PathBuf> {
        let is_ours = self.name.as_ref().is_some_and(|n| n.starts_with("oomctl-"));
        let mut folders = self.workdir.as_ref().filter(|_| is_ours)?.ancestors();
        let project = folders.find(|folder| folder.join(".oomctl/runs").is_dir())?;
        Some(project.to_owned())
    }
}

/// What accounting says.
enum Accounted {
    Line(Box<Foreign>),
    Late,
    Off,
}

/// Clocks of a controller and of this host differ by less, and no id is given out again within it.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(10);

impl Slurm {
    /// Has another job got the id of this one, which had been restarted so often when it was last heard of? Ids begin
    /// anew at `MaxJobId`, and when the controller lost its state. False where the controller does not say.
    pub fn has_given_again(&self, job: &JobRef, restarts: u32) -> bool {
        let Ok(Some(control)) = self.control(job) else {
            return false;
        };
        let record = control.record;
        let later = |submitted: Timestamp| submitted.duration_since(job.submitted) > CLOCK_SKEW;
        record.has_id(&job.id)
            && match &job.token {
                Some(token) => !record.carries(token),
                // A restart moves the time of the submission.
                None => record.status.restarts <= restarts && record.submitted.is_some_and(later),
            }
    }

    /// Asks controller and accounting about a job; `None` when neither knows it.
    ///
    /// # Errors
    /// `NoAnswer` when the controller did not answer.
    pub fn foreign(&self, job: &JobRef) -> Result<Option<Foreign>, NoAnswer> {
        let controlled = self.controlled(job)?;
        let accounted = self.accounted(job);
        let known = match (controlled, accounted) {
            (Some(mut known), Accounted::Line(more)) => {
                known.submit_line = more.submit_line.or(known.submit_line);
                known.gpus = known.gpus.max(more.gpus);
                known
            }
            (Some(known), Accounted::Late) => Foreign {
                is_late: known.submit_line.is_none(),
                ..known
            },
            (Some(known), Accounted::Off) => known,
            (None, Accounted::Line(known)) => *known,
            (None, _) => return Ok(None),
        };
        let script = self.written(job).or_else(|| self.kept(job));
        Ok(Some(Foreign { script, ..known }))
    }

    /// The tasks of a job array by their indices, as far as controller and accounting know them; none where the job is no
    /// array. One that waits has no number of its own yet, and so no log.
    ///
    /// # Errors
    /// `NoAnswer` when the controller did not answer.
    pub fn tasks(&self, array: &JobRef) -> Result<BTreeMap<u32, Foreign>, NoAnswer> {
        let text = self.shown(array)?.unwrap_or_default();
        let mut records: Vec<String> = Vec::new();
        for line in text.lines() {
            match records.last_mut().filter(|_| !line.starts_with("JobId=")) {
                Some(record) => record.push_str(&format!("\n{line}")),
                None => records.push(line.to_owned()),
            }
        }
        let mut all: Vec<Foreign> = records.iter().filter_map(|r| told(r)).collect();
        if let Some((accounted, _)) = self.sacct(array) {
            all.extend(accounted);
        }
        let mut tasks = BTreeMap::new();
        for foreign in all {
            let Some(id) = NamedJob::read(&foreign.id.0) else {
                continue;
            };
            match id.part {
                _ if id.number.to_string() != array.id.0 => {}
                JobIdPart::Task(index) => drop(tasks.entry(index).or_insert(foreign)),
                JobIdPart::Waiting(waiting) => {
                    for index in waiting.named() {
                        tasks.entry(index).or_insert_with(|| Foreign {
                            id: JobId(format!("{}_{index}", id.number)),
                            raw_id: String::new(),
                            logs: None,
                            ..foreign.clone()
                        });
                    }
                }
                JobIdPart::Whole | JobIdPart::Component(_) => {}
            }
        }
        Ok(tasks)
    }

    fn controlled(&self, job: &JobRef) -> Result<Option<Foreign>, NoAnswer> {
        let Some(text) = self.shown(job)? else {
            return Ok(None);
        };
        let none = || NoAnswer::of("scontrol", "it does not say which job");
        told(&text).map(Some).ok_or_else(none)
    }

    /// Does `Command=` hold the arguments of a script? Since 23.02 it is the path alone.
    pub fn command_holds_arguments(&self) -> bool {
        self.release().is_some_and(|r| r < PATH_ALONE)
    }

    /// Year and month of the release, as `scontrol --version` gives it (`slurm 22.05.8`, `slurm-wlm 23.11.4`).
    fn release(&self) -> Option<(u32, u32)> {
        let answer = self.clients.query("scontrol", &["--version".to_owned()]);
        let numbers = answer.stdout.split_whitespace().next_back()?;
        let mut parts = numbers.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    }

    fn accounted(&self, job: &JobRef) -> Accounted {
        let Some((mut known, before)) = self.sacct(job) else {
            return Accounted::Off;
        };
        match known.pop() {
            Some(job) if before || job.submit_line.is_some() => Accounted::Line(Box::new(job)),
            _ => Accounted::Late,
        }
    }

    /// What accounting says of a job, or of each task of an array, and whether it is too old to know the line of a
    /// submission; `None` where there is none.
    fn sacct(&self, job: &JobRef) -> Option<(Vec<Foreign>, bool)> {
        self.clients.search.locate("sacct")?;
        let ask = |fields: &str| {
            let words = ["-X", "-n", "-P", "-j", &job.id.0, "-o", fields].map(str::to_owned);
            self.clients.query("sacct", &words)
        };
        let mut answer = ask(FIELDS);
        let before = answer.stderr.contains("Invalid field");
        if before {
            answer = ask(FIELDS_BEFORE);
        }
        let known = answer.stdout.lines().filter_map(read_accounted).collect();
        answer.is_clean().then_some((known, before))
    }

    /// The script as the controller has it.
    fn written(&self, job: &JobRef) -> Option<String> {
        let words = ["write", "batch_script", &job.id.0, "-"].map(str::to_owned);
        let answer = self.clients.query("scontrol", &words);
        let text = answer.stdout.clone();
        (answer.is_clean() && text.starts_with("#!") && text.len() <= MAX_SCRIPT).then_some(text)
    }

    /// The script as accounting has it, where it keeps scripts.
    fn kept(&self, job: &JobRef) -> Option<String> {
        self.clients.search.locate("sacct")?;
        let words = ["-B", "-j", &job.id.0].map(str::to_owned);
        let answer = self.clients.query("sacct", &words);
        read_kept(&answer.stdout).filter(|_| answer.is_clean())
    }
}

/// What `scontrol show job` says of one job.
fn told(text: &str) -> Option<Foreign> {
    let control = read_scontrol(text)?;
    let lines = text.lines().map(str::trim);
    let field = |key: &str| {
        let value = lines
            .clone()
            .filter_map(|line| line.strip_prefix(key))
            .next_back();
        value
            .filter(|v| !v.is_empty() && *v != "(null)")
            .map(str::to_owned)
    };
    let tres = field("AllocTRES=").or_else(|| field("TRES="));
    Some(Foreign {
        id: control.record.status.id.clone(),
        raw_id: control.record.raw_id.clone(),
        submitted: control.record.submitted,
        uid: field("UserId=").and_then(|owner| uid(&owner)),
        user: control.user.clone(),
        workdir: control.folder.clone().map(PathBuf::from),
        name: Some(control.record.name.clone()),
        command: field("Command="),
        submit_line: field("SubmitLine="),
        script: None,
        logs: log_paths(&control),
        gpus: tres.map_or(0, |tres| gpus(&tres)),
        asked: asked(text),
        is_late: false,
        is_heterogeneous: text.contains(" HetJobId="),
    })
}

/// A line of sacct in the columns of [`FIELDS`]. The name of the job may hold bars, its last part stands for it then.
fn read_accounted(line: &str) -> Option<Foreign> {
    let fields: Vec<&str> = line.splitn(8, '|').collect();
    let [id, raw_id, uid, user, tres, folder, name, rest @ ..] = fields.as_slice() else {
        return None;
    };
    let text = |field: &str| (!field.is_empty()).then(|| field.to_owned());
    is_job_id(id).then(|| Foreign {
        id: JobId((*id).to_owned()),
        raw_id: (*raw_id).to_owned(),
        uid: uid.parse().ok(),
        user: text(user),
        workdir: text(folder).map(PathBuf::from),
        name: text(name),
        submit_line: rest.first().and_then(|line| text(line)),
        gpus: gpus(tres),
        is_heterogeneous: id.contains('+'),
        ..Foreign::default()
    })
}

/// The first script that `sacct -B` prints: a heading, a line of dashes, the text.
fn read_kept(text: &str) -> Option<String> {
    let rest = text.strip_prefix("Batch Script for ")?;
    let (_, rest) = rest.split_once('\n')?;
    let (dashes, script) = rest.split_once('\n')?;
    let one = script.split("\nBatch Script for ").next().unwrap_or(script);
    let usable = dashes.starts_with("---") && one.starts_with("#!") && one.len() <= MAX_SCRIPT;
    usable.then(|| format!("{}\n", one.trim_end_matches('\n')))
}

/// Fields of `scontrol show job`, and the options of sbatch that ask for what they say.
const ASKED: [(&str, &str); 10] = [
    ("Partition", "partition"),
    ("Account", "account"),
    ("QOS", "qos"),
    ("TimeLimit", "time"),
    ("NumNodes", "nodes"),
    ("ExcNodeList", "exclude"),
    ("ReqNodeList", "nodelist"),
    ("Features", "constraint"),
    ("MinMemoryNode", "mem"),
    ("MinMemoryCPU", "mem-per-cpu"),
];

/// What a job asked for, of the things that decide where it runs and with how much.
fn asked(text: &str) -> Vec<String> {
    let words = text.split_whitespace().filter_map(|w| w.split_once('='));
    let fields: Vec<(&str, &str)> = words.collect();
    let value = |key: &str| {
        let found = fields.iter().find(|(name, _)| *name == key)?.1;
        let plain = !found.is_empty() && !found.starts_with('(') && !found.contains("N/A");
        (plain && found != "UNLIMITED" && found != "Partition_Limit").then_some(found)
    };
    let mut options: Vec<String> = ASKED
        .iter()
        .filter_map(|(key, option)| Some(format!("--{option}={}", value(key)?)))
        .collect();
    // 22.05 writes `gres:gpu:h100:4`, 23.11 and later `gres/gpu:h100:4`.
    let count = |tres: &str| {
        let gpu = tres.split(',').find_map(|t| {
            t.strip_prefix("gres:gpu")
                .or_else(|| t.strip_prefix("gres/gpu"))
        });
        gpu.map(|rest| rest.trim_start_matches([':', '=']).to_owned())
    };
    options.extend(
        value("TresPerNode")
            .and_then(count)
            .map(|n| format!("--gpus-per-node={n}")),
    );
    options.extend(
        value("TresPerJob")
            .and_then(count)
            .map(|n| format!("--gpus={n}")),
    );
    options
}

/// The number in `ada(1000) GroupId=…`.
fn uid(owner: &str) -> Option<u32> {
    let (_, rest) = owner.split_once('(')?;
    rest.split_once(')')?.0.parse().ok()
}

/// `gres/gpu=4` in a list of resources.
fn gpus(tres: &str) -> u64 {
    let mut all = tres.split(',').filter_map(|t| t.split_once(['=', ':']));
    let gpu = all.find(|(name, _)| *name == "gres/gpu");
    gpu.and_then(|(_, count)| count.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
#[path = "foreign_tests.rs"]
mod tests;
