//! The text of squeue, sacct and scontrol, read into job records. Pure: text in, records out; a
//! line that cannot be read is left out, never guessed.

pub use super::record::JobRecord;
use super::states::{
    MAX_ANSWER_NODES, expand_nodes, expand_within, parse_canceller, parse_exit, parse_state,
    parse_time, parse_wait, parse_word,
};
use oomctl_base::job::{ExitStatus, HostUse, JobId, JobState, JobStatus, Stage};
use oomctl_base::units::{Bytes, parse_duration_s};

/// Columns of our squeue lines (`-O`, whose `field:|` means "as wide as needed, then a bar", in
/// every version since 18). Free text stands last, for names and comments may hold bars.
pub const SQUEUE_FIELDS: &str = "JobArrayID:|,JobID:|,State:|,exit_code:|,DerivedEC:|,RestartCnt:|,SubmitTime:|,StartTime:|,EndTime:|,NodeList:|,Reason:|,Comment:|,Name:";
/// How many these are.
const SQUEUE_COLUMNS: usize = 13;

/// Columns of our sacct lines (`-P`), free text last.
pub const SACCT_FIELDS: &str = "JobIDRaw,JobID,State,ExitCode,DerivedExitCode,Submit,Start,End,NodeList,Reason,AllocTRES,TRESUsageInTot,Comment,JobName";
/// How many these are.
const SACCT_COLUMNS: usize = 14;

/// `MaxArraySize` in what `scontrol show config` prints.
pub fn read_array_limit(text: &str) -> Option<usize> {
    let mut fields = text.lines().filter_map(|line| line.split_once('='));
    let (_, value) = fields.find(|(name, _)| name.trim() == "MaxArraySize")?;
    value.trim().parse().ok()
}

/// True for something that Slurm prints as a job id: `4711`, `17_3`, `17_[3-6%2]`, `28+0`. Asked for job 0 Slurm tells of all.
pub(super) fn is_job_id(text: &str) -> bool {
    text.trim_start_matches('0')
        .starts_with(|first: char| first.is_ascii_digit())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_[]%+,-.".contains(&b))
}

/// Puts start and end where the state says they belong: squeue prints an expected start for a
/// pending job, and an expected end for a running one.
fn place_times(status: &mut JobStatus, start: &str, end: &str) {
    match status.state.stage() {
        Stage::Waiting => status.expected_start = parse_time(start),
        Stage::Running | Stage::Ending => status.started = parse_time(start),
        Stage::Ended => {
            status.started = parse_time(start);
            status.ended = parse_time(end);
        }
        Stage::Unknown => {}
    }
}

/// A job that is FAILED has an exit code: after an outage of slurmdbd it is so for seconds before the code arrives.
fn may_be(state: &JobState, exit: ExitStatus) -> bool {
    *state != JobState::Failed || exit != ExitStatus::default()
}

/// What the controller says of how an ended job and its steps exited.
fn place_exits(status: &mut JobStatus, exit: Option<ExitStatus>, derived: Option<ExitStatus>) {
    status.exit = exit.filter(|exit| may_be(&status.state, *exit));
    status.derived_exit = derived;
    status.step_out_of_memory = derived.is_some_and(|exit| exit.signal == 125);
}

/// Lines of squeue in the columns of [`SQUEUE_FIELDS`].
pub fn read_squeue(text: &str) -> Vec<JobRecord> {
    let mut room = MAX_ANSWER_NODES;
    let records = text.lines().filter_map(|line| squeue_line(line, &mut room));
    records.collect()
}

fn squeue_line(line: &str, room: &mut usize) -> Option<JobRecord> {
    let fields: Vec<&str> = line.splitn(SQUEUE_COLUMNS, '|').collect();
    squeue_record(<[&str; SQUEUE_COLUMNS]>::try_from(fields).ok()?, room)
}

/// One job in the columns of [`SQUEUE_FIELDS`].
pub(super) fn squeue_record(fields: [&str; SQUEUE_COLUMNS], room: &mut usize) -> Option<JobRecord> {
    let [
        id,
        raw_id,
        state,
        exit,
        derived,
        restarts,
        submit,
        start,
        end,
        nodes,
        reason,
        comment,
        name,
    ] = fields;
    if !is_job_id(id) || !is_job_id(raw_id) {
        return None;
    }
    let mut status = JobStatus::bare(JobId(id.to_owned()), parse_state(state));
    status.restarts = restarts.trim().parse().unwrap_or(0);
    status.nodes = expand_within(nodes, room);
    status.reason = parse_word(reason);
    place_times(&mut status, start, end);
    if status.state.stage() == Stage::Ended {
        place_exits(&mut status, parse_wait(exit), parse_wait(derived));
    }
    Some(JobRecord {
        raw_id: raw_id.to_owned(),
        status,
        submitted: parse_time(submit),
        name: name.trim_end().to_owned(),
        comment: parse_word(comment),
    })
}

/// Lines of `sacct -D` in the columns of [`SACCT_FIELDS`]. Each job comes once, as its last run
/// shows it: earlier runs of the same id and name count as restarts, steps add what they know.
pub fn read_sacct(text: &str) -> Vec<JobRecord> {
    let rows = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.splitn(SACCT_COLUMNS, '|').collect();
        <[&str; SACCT_COLUMNS]>::try_from(fields).ok()
    });
    sacct_records(rows)
}

/// The same of rows in these columns.
pub(super) fn sacct_records<'a>(
    rows: impl Iterator<Item = [&'a str; SACCT_COLUMNS]>,
) -> Vec<JobRecord> {
    let mut jobs: Vec<JobRecord> = Vec::new();
    let mut room = MAX_ANSWER_NODES;
    for fields in rows.filter(|fields| is_job_id(fields[0])) {
        match fields[0].split_once('.') {
            Some((job, _)) => add_step(&mut jobs, job, &fields),
            None => add_run(&mut jobs, sacct_job(&fields, &mut room)),
        }
    }
    jobs
}

fn sacct_job(fields: &[&str; SACCT_COLUMNS], room: &mut usize) -> JobRecord {
    let [
        raw_id,
        id,
        state,
        exit,
        derived,
        submit,
        start,
        end,
        nodes,
        reason,
        given,
        _,
        comment,
        name,
    ] = *fields;
    let mut status = JobStatus::bare(JobId(id.to_owned()), parse_state(state));
    status.cancelled_by = parse_canceller(state);
    status.exit = parse_exit(exit);
    status.derived_exit = parse_exit(derived);
    status.exit = status.exit.filter(|exit| may_be(&status.state, *exit));
    status.nodes = expand_within(nodes, room);
    status.reason = parse_word(reason);
    place_times(&mut status, start, end);
    if status.state.stage() != Stage::Ended {
        (status.exit, status.derived_exit) = (None, None);
    }
    if status.state.stage() == Stage::Ended {
        status.host = host_given(given, ran_s(&status));
    }
    JobRecord {
        raw_id: raw_id.to_owned(),
        status,
        submitted: parse_time(submit),
        name: name.trim_end().to_owned(),
        comment: parse_word(comment),
    }
}

fn add_run(jobs: &mut Vec<JobRecord>, mut run: JobRecord) {
    let same = |job: &&mut JobRecord| job.raw_id == run.raw_id && job.name == run.name;
    let Some(known) = jobs.iter_mut().find(same) else {
        jobs.push(run);
        return;
    };
    if run.submitted >= known.submitted {
        std::mem::swap(known, &mut run);
    }
    // In the order of time now: what ended first, and what is known of the job.
    let before = [&run.status, &known.status].map(|status| status.ran_before_s.unwrap_or(0));
    known.status.restarts += run.status.restarts + 1;
    known.status.ran_before_s = Some(before.iter().sum::<u64>() + ran_s(&run.status));
}

/// Seconds that a part of a job ran which is over.
fn ran_s(status: &JobStatus) -> u64 {
    let times = status.started.zip(status.ended);
    let seconds = times.map(|(started, ended)| ended.duration_since(started).as_secs());
    seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0)
}

/// A step is printed below its job.
fn add_step(jobs: &mut [JobRecord], job: &str, fields: &[&str; SACCT_COLUMNS]) {
    let Some(job) = jobs.iter_mut().rev().find(|known| known.raw_id == job) else {
        return;
    };
    job.status.step_out_of_memory |= parse_state(fields[2]) == JobState::OutOfMemory;
    if let Some(host) = &mut job.status.host {
        add_host_step(host, fields[11]);
    }
}

/// One value of a list of TRES, as sacct prints it: `cpu=4,mem=800M,node=1,gres/gpu=1` of what a job was given,
/// `cpu=00:00:04,mem=314360K,pages=16` of what a step used. Both columns are the same in 22.05 and 26.05.
fn tres<'a>(list: &'a str, name: &str) -> Option<&'a str> {
    let mut all = list.split(',').filter_map(|one| one.split_once('='));
    all.find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

fn tres_memory(list: &str) -> Option<Bytes> {
    tres(list, "mem").and_then(|mem| Bytes::parse_mib(mem).ok())
}

/// What a job that ran so long was given; nothing where the site counts neither CPUs nor memory, and before it started.
fn host_given(alloc_tres: &str, ran_s: u64) -> Option<Box<HostUse>> {
    let cpus = tres(alloc_tres, "cpu").and_then(|cpus| cpus.parse::<u64>().ok());
    let host = HostUse {
        memory_given: tres_memory(alloc_tres).filter(|given| given.0 > 0),
        cpu_given_s: cpus.and_then(|cpus| cpus.checked_mul(ran_s)),
        ..HostUse::default()
    };
    (host != HostUse::default()).then(|| Box::new(host))
}

/// Adds a step's `TRESUsageInTot`. A step without memory ended before it was looked at, or nobody looks
/// (`JobAcctGatherType=jobacct_gather/none`): it says nothing.
fn add_host_step(host: &mut HostUse, usage_tot: &str) {
    let Some(peak) = tres_memory(usage_tot).filter(|peak| peak.0 > 0) else {
        return;
    };
    host.memory_peak = host.memory_peak.max(Some(peak));
    let cpu = tres(usage_tot, "cpu").and_then(|cpu| parse_duration_s(cpu).ok());
    if let Some(cpu) = cpu {
        host.cpu_s = Some(host.cpu_s.unwrap_or(0).saturating_add(cpu));
    }
}

/// What `scontrol -d show job` says of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// State and identity.
    pub record: JobRecord,
    /// `StdOut=`, maybe with patterns in it.
    pub stdout: Option<String>,
    /// `StdErr=`, the same; `None` when it goes with standard output.
    pub stderr: Option<String>,
    /// `WorkDir=`.
    pub folder: Option<String>,
    /// User name.
    pub user: Option<String>,
    /// The first node's name.
    pub batch_host: Option<String>,
    /// Id of the array, for one of its tasks.
    pub array_job: Option<String>,
    /// Index in the array.
    pub array_task: Option<String>,
}

impl Control {
    /// The same with the number in its status.
    pub fn numbered(mut self) -> Self {
        self.record = self.record.numbered();
        self
    }
}

/// Output of `scontrol -d show job ID`: the first of the jobs in it.
pub fn read_scontrol(text: &str) -> Option<Control> {
    let mut first = None;
    let mut fields: Vec<(&str, &str)> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("JobId=") {
            Some(_) if first.is_some() => break,
            Some(rest) => first = Some(rest),
            None => scontrol_fields(line, &mut fields),
        }
    }
    let first = first?;
    let (ids, name) = first.split_once(" JobName=").unwrap_or((first, ""));
    let mut words = ids.split_whitespace();
    let raw_id = words.next().filter(|id| is_job_id(id))?.to_owned();
    let id_field = |key: &str| ids.split(' ').find_map(|word| word.strip_prefix(key));
    let array_job = id_field("ArrayJobId=").map(str::to_owned);
    let array_task = id_field("ArrayTaskId=").map(str::to_owned);
    // A name with a line break in it could bring lines of its own: the last word on a field counts.
    let field = |key: &str| {
        fields
            .iter()
            .rev()
            .find(|(name, _)| *name == key)
            .map_or("", |(_, value)| *value)
    };
    let id = match (&array_job, &array_task) {
        (Some(job), Some(task)) => format!("{job}_{task}"),
        _ => raw_id.clone(),
    };
    let status = scontrol_status(JobId(id), &field);
    let path = |key| parse_word(field(key));
    Some(Control {
        record: JobRecord {
            raw_id,
            status,
            submitted: parse_time(field("SubmitTime")),
            name: name.trim_end().to_owned(),
            comment: parse_word(field("Comment")),
        },
        stdout: path("StdOut"),
        stderr: path("StdErr"),
        folder: path("WorkDir"),
        user: field("UserId")
            .split_once('(')
            .map(|(user, _)| user.to_owned()),
        batch_host: path("BatchHost"),
        array_job,
        array_task,
    })
}

fn scontrol_status<'a>(id: JobId, field: &impl Fn(&str) -> &'a str) -> JobStatus {
    let mut status = JobStatus::bare(id, parse_state(field("JobState")));
    status.reason = parse_word(field("Reason"));
    status.restarts = field("Restarts").parse().unwrap_or(0);
    status.nodes = expand_nodes(field("NodeList"));
    place_times(&mut status, field("StartTime"), field("EndTime"));
    if status.state.stage() == Stage::Ended {
        let (exit, derived) = (field("ExitCode"), field("DerivedExitCode"));
        place_exits(&mut status, parse_exit(exit), parse_exit(derived));
    }
    status
}

/// Fields whose value is the rest of their line: it may hold blanks.
const WHOLE_LINE: [&str; 5] = ["StdOut", "StdErr", "WorkDir", "Command", "Comment"];

fn scontrol_fields<'a>(line: &'a str, fields: &mut Vec<(&'a str, &'a str)>) {
    let line = line.trim();
    if let Some((key, value)) = line.split_once('=')
        && WHOLE_LINE.contains(&key)
    {
        fields.push((key, value));
        return;
    }
    if let Some(rest) = line.strip_prefix("JobState=") {
        // The reason may be a whole sentence.
        let (state, rest) = rest.split_once(" Reason=").unwrap_or((rest, ""));
        let reason = rest
            .rsplit_once(" Dependency=")
            .map_or(rest, |(reason, _)| reason);
        fields.extend([("JobState", state), ("Reason", reason)]);
        return;
    }
    fields.extend(
        line.split_whitespace()
            .filter_map(|word| word.split_once('=')),
    );
}

/// The one job id that `sbatch --parsable` printed, with the cluster if it named one. Sites print
/// banners around it; two different ids are as bad as none.
pub fn read_submission(stdout: &str) -> Option<(JobId, Option<String>)> {
    let mut found: Vec<(&str, Option<&str>)> = stdout
        .lines()
        .filter_map(|line| submission_line(line.trim_end_matches('\r')))
        .collect();
    found.dedup();
    match found[..] {
        [(id, cluster)] => Some((JobId(id.to_owned()), cluster.map(str::to_owned))),
        _ => None,
    }
}

/// `4711` or `4711;cluster`, and nothing else on the line.
fn submission_line(line: &str) -> Option<(&str, Option<&str>)> {
    let (id, cluster) = match line.split_once(';') {
        Some((id, cluster)) => (id, Some(cluster)),
        None => (line, None),
    };
    let number = !id.is_empty() && id.len() <= 10 && id.bytes().all(|b| b.is_ascii_digit());
    let named = cluster.is_none_or(|c| !c.is_empty() && !c.contains(char::is_whitespace));
    (number && named).then_some((id, cluster))
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
