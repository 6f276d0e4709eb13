//! Slurm's commands in the simulated world, and what must hold whenever one is run.

use std::path::PathBuf;

use super::cluster::{Order, answer};
use super::job::{Fate, Job};
use super::world::{Fault, World};
use crate::core::engine::{Fact, History};
use crate::io::ledger::read;
use crate::io::scheduler::command::{CommandCall, CommandEnd, CommandOutput};
use oomctl_base::job::JobState;

/// Runs a command as the present process.
pub fn call(world: &World, call: &CommandCall) -> CommandOutput {
    if world.process().is_none_or(|p| p.dead) {
        return ended(CommandEnd::NotStarted("killed".to_owned()));
    }
    world.risk();
    let program = call.program.file_name().unwrap().to_string_lossy();
    let words: Vec<String> = call
        .arguments
        .iter()
        .map(|w| w.to_string_lossy().into())
        .collect();
    let answer = match program.as_ref() {
        "sbatch" => sbatch(world, &words),
        "sacct" => sacct(world, &words),
        _ => controller(world, &program, &words),
    };
    world.tell(|| {
        format!(
            "{program}: {:?} {:?} {:?}",
            answer.end,
            answer.stdout.lines().next().unwrap_or(""),
            answer.stderr
        )
    });
    world.risk();
    answer
}

fn ended(end: CommandEnd) -> CommandOutput {
    CommandOutput::silent(end)
}

fn after<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    let at = words.iter().position(|w| w == name)?;
    words.get(at + 1).map(String::as_str)
}

fn value<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    words
        .iter()
        .find_map(|w| w.strip_prefix(name)?.strip_prefix('='))
}

fn list(text: Option<&str>) -> Vec<String> {
    text.map_or_else(Vec::new, |t| t.split(',').map(str::to_owned).collect())
}

/// The controller does not answer.
fn silence(world: &World) -> Option<CommandOutput> {
    world.thaw();
    if world.cluster.borrow().silent <= world.now.get() {
        return None;
    }
    world.pass(18);
    Some(answer(
        1,
        String::new(),
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    ))
}

fn controller(world: &World, program: &str, words: &[String]) -> CommandOutput {
    if let Some(answer) = silence(world) {
        return answer;
    }
    if world.strikes(Fault::Silence, 20) {
        world.pass(45);
        return ended(CommandEnd::TimedOut);
    }
    let now = world.now.get();
    match program {
        "squeue" => {
            let listed = |name| after(words, name).map(|all| list(Some(all)));
            let (names, ids) = (listed("-n"), listed("-j"));
            let told = world
                .cluster
                .borrow()
                .squeue(names.as_deref(), ids.as_deref(), now);
            // It is on its way for a while, in which more happens.
            if world.strikes(Fault::Slow, 150) {
                world.pass(5 + world.seconds(30));
            }
            told
        }
        "scontrol" => world.cluster.borrow().scontrol(words.last().unwrap(), now),
        "scancel" => scancel(world, words),
        other => panic!("no such command: {other}"),
    }
}

fn sacct(world: &World, words: &[String]) -> CommandOutput {
    if world.strikes(Fault::Lag, 30) {
        world.pass(30);
        return ended(CommandEnd::TimedOut);
    }
    let names = list(value(words, "--name"));
    let now = world.now.get();
    world
        .cluster
        .borrow()
        .sacct(&list(after(words, "-j")), &names, now)
}

fn scancel(world: &World, words: &[String]) -> CommandOutput {
    let (id, name) = (words.last().unwrap(), value(words, "--name").unwrap_or(""));
    let now = world.now.get();
    let ended = world.cluster.borrow_mut().scancel(id, name, now);
    if let Some(job) = ended {
        let history = history(world);
        let asked = history
            .as_ref()
            .is_some_and(|h| h.cancel.is_some() || h.budget.is_some());
        if !asked && !matches!(job.fate, Fate::Hangs) {
            world.broke(format!(
                "job {} was cancelled, which nobody wanted: {:?}",
                job.id, job.fate
            ));
        }
    }
    answer(0, String::new(), "")
}

fn history(world: &World) -> Option<History> {
    let reading = read(world.folder().dir()).ok()?;
    Some(History::replay(&reading.records))
}

fn sbatch(world: &World, words: &[String]) -> CommandOutput {
    let order = order(words);
    world.thaw();
    check_order(world, &order);
    let timed_out =
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation";
    let now = world.now.get();
    if world.cluster.borrow().silent > now {
        if world.below(2) == 1 {
            world.cluster.borrow_mut().frozen.push(order);
        }
        world.pass(10);
        return answer(1, String::new(), timed_out);
    }
    if world.strikes(Fault::Refusals, 60) {
        return refuse(world, order);
    }
    let lost = world.strikes(Fault::LostAnswers, 350);
    if !lost {
        let id = accept(world, order);
        let banner = if world.has(Fault::LostAnswers) {
            "Welcome to the cluster\n"
        } else {
            ""
        };
        return answer(0, format!("{banner}{id}\n"), "");
    }
    let accepted = world.below(2) == 1;
    if accepted {
        accept(world, order);
    }
    match (world.below(4), accepted) {
        (1, _) => {
            world.pass(60);
            ended(CommandEnd::TimedOut)
        }
        (2, true) => answer(0, "Welcome to the cluster\n".to_owned(), ""),
        (3, _) => ended(CommandEnd::Killed(9)),
        _ => {
            world.pass(10);
            answer(1, String::new(), timed_out)
        }
    }
}

/// What sbatch was told. The script of an array runs that of each task in the task's folder.
fn order(words: &[String]) -> Order {
    let task: Option<u32> = value(words, "--array").map(|task| task.parse().unwrap());
    let path = |name| {
        let path = value(words, name).unwrap();
        PathBuf::from(task.map_or(path.to_owned(), |t| path.replace("%a", &t.to_string())))
    };
    let name = value(words, "--job-name").unwrap();
    let (out, err) = (path("--output"), path("--error"));
    let mut script = std::fs::read_to_string(words.last().unwrap()).unwrap_or_default();
    if task.is_some() {
        let inner = script.trim_end().trim_end_matches(" \"$@\"");
        let inner = inner.rsplit('/').next().unwrap();
        script = std::fs::read_to_string(out.with_file_name(inner)).unwrap_or_default();
    }
    let micro = script
        .split("micro=")
        .nth(1)
        .and_then(|m| m.trim().parse().ok());
    Order {
        token: task.map_or(name.to_owned(), |task| format!("{name}_{task}")),
        task,
        out,
        err,
        micro: micro.unwrap_or(0),
        after: value(words, "--dependency").map(|d| d.replace("afterany:", "")),
    }
}

/// A refusal leaves a record that must not be taken for a job; one for now may leave none.
fn refuse(world: &World, order: Order) -> CommandOutput {
    let passing = world.below(2) == 1;
    if passing && world.below(2) == 1 {
        let text = "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
        if world.strikes(Fault::LostAnswers, 300) {
            return ended(CommandEnd::TimedOut);
        }
        return answer(1, String::new(), text);
    }
    // What it leaves in the accounting reads as a refusal for good, where the answer was lost with a process.
    world.facts.refused.set(true);
    let mut job = job(world, order);
    job.trace = true;
    (job.starts, job.stops, job.gone) = (job.submitted, job.submitted, job.submitted);
    (job.end, job.fate, job.requeue) = (JobState::Failed, Fate::Bug, None);
    world.cluster.borrow_mut().jobs.push(job);
    let text =
        "sbatch: error: Batch job submission failed: Requested node configuration is not available";
    if passing {
        let text = "sbatch: error: Batch job submission failed: I/O error writing script/environment to file";
        return answer(1, String::new(), text);
    }
    if world.strikes(Fault::LostAnswers, 300) {
        return ended(CommandEnd::TimedOut);
    }
    answer(1, String::new(), text)
}

/// What must hold when sbatch is started.
fn check_order(world: &World, order: &Order) {
    let now = world.now.get();
    let cluster = world.cluster.borrow();
    let token = &order.token;
    let beside = |j: &&Job| j.is_alive(now) && order.after != Some(j.shown());
    if let Some(job) = cluster.jobs.iter().find(beside) {
        world.broke(format!(
            "{token} is submitted beside job {} ({})",
            job.id, job.token
        ));
    }
    let mut accepted = cluster.jobs.iter().filter(|j| !j.trace);
    // One that was cancelled before it began and then forgotten has left no trace.
    let traceless = |j: &Job| {
        j.lost || j.is_traceless() || (cluster.no_accounts && j.cancelled && j.stops <= j.starts)
    };
    if accepted.any(|j| j.token == *token && !traceless(j)) {
        world.broke(format!("{token} is submitted again"));
    }
    if let Some(job) = cluster
        .last()
        .filter(|j| j.end == JobState::Completed && !j.lost && !cluster.no_accounts)
    {
        world.broke(format!(
            "{token} is submitted after job {} did the work",
            job.id
        ));
    }
    if !world.disk.borrow().is_durable(&world.ledger()) {
        world.broke(format!("{token} is submitted before its intent is on disk"));
    }
    let Some(history) = history(world) else {
        world.broke(format!("{token} is submitted without a ledger"));
        return;
    };
    // What was before somebody asked that the run goes on forbids nothing.
    let before = history.attempts.iter().take(history.before_retry());
    let before: Vec<&str> = before
        .filter_map(|a| Some(a.token.as_ref()?.0.as_str()))
        .collect();
    let counts = |j: &Job| !before.contains(&j.token.as_str());
    let by_user = |j: &Job| world.facts.cancelled.get() == Some(j.id) && j.cancelled && counts(j);
    let mut known = cluster.jobs.iter().filter(|j| !traceless(j));
    if !cluster.no_accounts && known.any(by_user) {
        world.broke(format!("{token} is submitted after a user cancelled"));
    }
    let intended = history
        .attempt()
        .is_some_and(|a| a.token.as_ref().is_some_and(|t| t.0 == *token));
    if !intended || history.outcome.is_some() {
        world.broke(format!(
            "{token} is submitted and the ledger does not say so"
        ));
    }
    let limits = &world.toy.limits;
    if history.attempts.len() > history.before_retry() + limits.attempts as usize {
        world.broke(format!(
            "{token} is submitted beyond {} attempts",
            limits.attempts
        ));
    }
    // What the scheduler forgot counts for nobody, nor do parts of which nobody heard and accounting does not tell yet.
    let untold = |j: &Job| j.lost || (j.restarts > 0 && j.lag > 0);
    let known = !cluster.no_accounts && !cluster.jobs.iter().any(untold);
    let counted = cluster.jobs.iter().filter(|j| counts(j));
    let hours = counted.map(|j| j.gpu_seconds(now)).sum::<i64>() as f64 / 3_600.0;
    if known
        && limits.gpu_hours.is_some_and(|limit| hours > limit + 0.001)
        && !world.has(Fault::Lies)
    {
        world.broke(format!("{token} is submitted after {hours:.2} GPU-hours"));
    }
    let evidence = cluster
        .jobs
        .iter()
        .filter(|j| j.fate.is_gpu_oom() && !j.trace)
        .count();
    let rungs = (32 / order.micro.max(1)).trailing_zeros() as usize;
    if order.micro == 0 || rungs > evidence {
        world.broke(format!(
            "{token} has {rungs} rungs after {evidence} failures"
        ));
    }
}

fn job(world: &World, order: Order) -> Job {
    let now = world.now.get();
    let mut cluster = world.cluster.borrow_mut();
    let id = cluster.next_id;
    cluster.next_id += 1;
    let waits_for = |j: &&Job| order.after == Some(j.shown()) && j.is_alive(now);
    let from = cluster.jobs.iter().filter(waits_for).map(|j| j.gone + 1);
    let from = from.max().unwrap_or(now);
    drop(cluster);
    let mut job = Job {
        id,
        token: order.token,
        task: order.task,
        out: order.out,
        err: order.err,
        micro: order.micro,
        fate: Fate::Works,
        phase: 0,
        submitted: now,
        visible: now
            + if world.has(Fault::LostAnswers) && !world.has(Fault::Lies) {
                world.seconds(20)
            } else {
                0
            },
        starts: now,
        stops: now,
        gone: now,
        end: JobState::Completed,
        restarts: 0,
        requeue: None,
        parts: Vec::new(),
        lag: if world.has(Fault::Lag) {
            world.seconds(300)
        } else {
            0
        },
        late: if world.has(Fault::LateLogs) {
            world.seconds(90)
        } else {
            0
        },
        cancelled: false,
        limited: false,
        turned: false,
        trace: false,
        lost: false,
    };
    plan(world, &mut job, from);
    job
}

/// Accepts an order: returns the id.
pub fn accept(world: &World, order: Order) -> u64 {
    let now = world.now.get();
    let beside = |j: &&Job| j.is_alive(now) && order.after != Some(j.shown());
    if let Some(job) = world.cluster.borrow().jobs.iter().find(beside) {
        world.broke(format!(
            "{} is a second live job beside {}",
            order.token, job.id
        ));
    }
    world.facts.accepted.borrow_mut().push(order.token.clone());
    let job = job(world, order);
    let id = job.id;
    world.tell(|| {
        format!(
            "job {id} will go: {:?}, {} to {}, late {}, lag {}",
            job.fate, job.starts, job.stops, job.late, job.lag
        )
    });
    print(world, &job);
    world.cluster.borrow_mut().jobs.push(job);
    id
}

/// How a part of a job will go.
pub fn plan(world: &World, job: &mut Job, from: i64) {
    let fits = 32 >> world.facts.needs.get();
    let trouble = world.has(Fault::Trouble) && !world.quiet.get();
    job.fate = if job.micro > fits {
        [Fate::GpuOom, Fate::Hangs][world.below(2) as usize]
    } else {
        match world.below(12) {
            0..3 | 8.. => Fate::Works,
            3..5 => Fate::Survives,
            5 if trouble => Fate::HostOom,
            6 if trouble => Fate::Bug,
            _ => Fate::Works,
        }
    };
    if trouble {
        match world.below(12) {
            9 => job.fate = Fate::NodeFails,
            10 => job.fate = Fate::Preempted,
            11 => job.fate = Fate::TimesOut,
            _ => {}
        }
    }
    job.phase = world.below(3) as usize;
    job.starts = from + world.seconds(60);
    job.stops = job.starts + 40 + world.seconds(240);
    job.gone = job.stops + world.seconds(40);
    job.end = job.fate.end();
    let again = matches!(job.fate, Fate::NodeFails | Fate::Preempted) && world.has(Fault::Requeue);
    job.requeue = (again && world.below(2) == 1).then(|| world.seconds(20));
}

pub fn print(world: &World, job: &Job) {
    if job.restarts == 0 {
        let claim = job.err.with_file_name("claim");
        let id = format!("{}\n", job.shown()).into_bytes();
        world
            .cluster
            .borrow_mut()
            .words
            .push((job.starts, claim, id));
    }
    // Of a log whose steps cannot be read nobody can tell that it went on.
    let torn = world.has(Fault::TornLogs) && job.fate != Fate::Survives;
    let tear = |length: usize| {
        (torn && world.below(2) == 1).then(|| {
            (
                world.below(u32::try_from(length).unwrap()) as usize,
                world.seconds(4),
            )
        })
    };
    let twice = torn && world.below(4) == 3;
    world.cluster.borrow_mut().add_words(job, tear, twice);
}

/// The facts that name a job's id.
pub fn known_ids(records: &[crate::core::engine::Record]) -> Vec<String> {
    let id = |record: &crate::core::engine::Record| match &record.fact {
        Fact::Submitted { job, .. } | Fact::DuplicateFound { job, .. } => Some(job.id.0.clone()),
        _ => None,
    };
    records.iter().filter_map(id).collect()
}
