use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

mod simulation;

use super::*;
use crate::core::adopt::TaskList;
use crate::core::engine::tests::{Toy, at};
use crate::core::engine::{Event, Fact, Outcome, SweepGroup};
use crate::core::exit::Exit;
use crate::io::fits;
use crate::io::ledger::{Ledger, Takeover, read};
use crate::io::scheduler::ending::EndingJobScheduler;
use crate::io::scheduler::{
    Dependent, FoundJob, JobSubmission, NoAnswer, Poll, Scheduler, SubmitAnswer,
};
use oomctl_base::job::{ExitStatus, JobId, JobRef, JobState, JobStatus, Token};

/// A message of PyTorch 2.9 (`torch/csrc`, c10/cuda/CUDACachingAllocator.cpp), as a program that dies
/// of it prints it.
const OOM: &str = "Traceback (most recent call last):\n  File \"/w/train.py\", line 12, in <module>\n    loss.backward()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.10 GiB memory in use. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch but unallocated.\n";

/// What the scheduler of a test knows and was asked.
#[derive(Default)]
struct Desk {
    submissions: Vec<JobSubmission>,
    /// Answers to submissions, the next one first; accepted when empty.
    answers: Vec<SubmitAnswer>,
    jobs: Vec<(Token, JobStatus)>,
    cancelled: Vec<JobId>,
    polls: usize,
    silent: bool,
    /// The scheduler forgot every job.
    forgot: bool,
    /// Run folder that another process takes over while the submission is under way.
    steal: Option<PathBuf>,
    /// What happens between the moment of which the answer to a poll tells and its arrival.
    meanwhile: Option<Box<dyn FnOnce() + Send>>,
    /// Jobs that wait for others, and how long the scheduler takes to let one wait for another job.
    dependents: Vec<Dependent>,
    redirecting: Option<Box<dyn Fn() + Send>>,
    redirected: Vec<JobId>,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Desk>>);

impl Fake {
    fn desk(&self) -> std::sync::MutexGuard<'_, Desk> {
        self.0.lock().unwrap()
    }

    fn set(&self, job: usize, state: JobState) {
        self.desk().jobs[job].1.state = state;
    }
}

impl Scheduler for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn submit(&mut self, submission: &JobSubmission, _now: Timestamp) -> SubmitAnswer {
        let mut desk = self.desk();
        desk.submissions.push(submission.clone());
        if let Some(dir) = desk.steal.take() {
            drop(Ledger::open(&dir, Takeover::Forced, at(500)).unwrap());
        }
        let answer = desk.answers.pop();
        let id = JobId((100 + desk.jobs.len()).to_string());
        if matches!(answer, Some(SubmitAnswer::Refused { .. })) {
            return answer.unwrap();
        }
        let indices = submission
            .tasks
            .iter()
            .flat_map(|t| TaskList::read(&t.indices));
        let indices: Vec<u32> = indices.flat_map(|list| list.indices).collect();
        let task = |i: &u32| (submission.token.task(*i), JobId(format!("{id}_{i}")));
        let mut jobs: Vec<_> = indices.iter().map(task).collect();
        if jobs.is_empty() {
            jobs.push((submission.token.clone(), id.clone()));
        }
        for (token, id) in jobs {
            desk.jobs
                .push((token, JobStatus::bare(id, JobState::Pending)));
        }
        answer.unwrap_or(SubmitAnswer::Accepted { id, cluster: None })
    }

    fn find(&mut self, tokens: &[Token], _since: Timestamp) -> Result<Vec<FoundJob>, NoAnswer> {
        let desk = self.desk();
        if desk.forgot {
            return Ok(Vec::new());
        }
        let jobs = desk.jobs.iter().filter(|(token, _)| tokens.contains(token));
        Ok(jobs
            .map(|(token, status)| FoundJob {
                token: token.clone(),
                status: status.clone(),
                cluster: None,
                submitted: None,
                refused_trace: false,
            })
            .collect())
    }

    fn poll(&mut self, jobs: &[JobRef], _now: Timestamp) -> Result<Poll, NoAnswer> {
        let mut desk = self.desk();
        desk.polls += 1;
        if desk.silent {
            return Err(NoAnswer::of("squeue", "no answer after 20 s"));
        }
        if desk.forgot {
            let last = |job: &JobRef| JobStatus::bare(job.id.clone(), purged());
            return Ok(Poll {
                jobs: jobs.iter().map(last).collect(),
                vanished: jobs.iter().map(|job| job.id.clone()).collect(),
                ..Poll::default()
            });
        }
        let known = desk.jobs.iter().map(|(_, status)| status.clone());
        let asked = |status: &JobStatus| jobs.iter().any(|job| job.id == status.id);
        let jobs: Vec<JobStatus> = known.filter(asked).collect();
        // As Slurm does: what was last known of a job that is gone comes with the word that it is.
        let gone = jobs.iter().filter(|s| s.state == purged());
        let poll = Poll {
            vanished: gone.map(|s| s.id.clone()).collect(),
            jobs,
            ..Poll::default()
        };
        let meanwhile = desk.meanwhile.take();
        drop(desk);
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        Ok(poll)
    }

    fn dependents(&mut self, _job: &JobRef) -> Vec<Dependent> {
        self.desk().dependents.clone()
    }

    fn redirect(&mut self, job: &Dependent, _: &JobId, _: &JobRef) -> Result<(), NoAnswer> {
        let mut desk = self.desk();
        desk.redirected.push(job.id.clone());
        if let Some(redirecting) = &desk.redirecting {
            redirecting();
        }
        Ok(())
    }

    fn cancel(&mut self, job: &JobRef) -> Result<(), NoAnswer> {
        let mut desk = self.desk();
        desk.cancelled.push(job.id.clone());
        let jobs = desk.jobs.iter_mut().filter(|(_, s)| s.id == job.id);
        jobs.for_each(|(_, status)| status.state = JobState::Cancelled);
        Ok(())
    }
}

fn purged() -> JobState {
    JobState::Unknown("PURGED".to_owned())
}

/// Notes what it is told.
#[derive(Default)]
struct Notes(Vec<String>);

impl Observer for Notes {
    fn notice(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Trouble { what, .. } => self.0.push((*what).to_owned()),
            Notice::Recovered => self.0.push("recovered".to_owned()),
            Notice::Fatal { run, class } => self.0.push(format!("{run}: {class:?}")),
            Notice::Dependent { job, moved, .. } => self.0.push(format!("{} {moved}", job.id)),
            _ => {}
        }
    }
}

/// A project with one clock and one scheduler.
struct Project {
    root: tempfile::TempDir,
    fake: Fake,
    now: Arc<Mutex<i64>>,
    notes: Notes,
}

impl Project {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            fake: Fake::default(),
            now: Arc::default(),
            notes: Notes::default(),
        }
    }

    fn folder(&self, run: &str) -> RunFolder {
        RunFolder::of(&self.root.path().join(".oomctl/runs"), run).unwrap()
    }

    fn attempt(&self, number: u32) -> PathBuf {
        self.folder("r1").attempt(number)
    }

    fn toy(&self) -> Toy {
        Toy {
            workdir: self.root.path().to_owned(),
            ..Toy::new(2)
        }
    }

    fn environment() -> Environment {
        Environment {
            variables: BTreeMap::from([("HF_HOME".to_owned(), "/data/hf".to_owned())]),
            secrets: Vec::new(),
        }
    }

    fn create(&self, toy: Toy) -> Handle {
        let folder = self.folder(&toy.name);
        Handle::create(
            folder,
            toy.request(),
            "{}",
            &Self::environment(),
            self.time(),
        )
        .unwrap()
    }

    fn open(&self, toy: Toy) -> Handle {
        let folder = self.folder(&toy.name);
        Handle::open(folder, toy.request(), Takeover::IfDead, self.time()).unwrap()
    }

    fn time(&self) -> Timestamp {
        at(*self.now.lock().unwrap())
    }

    /// A supervisor that takes the run up again.
    fn resumed(&self) -> Supervisor {
        self.supervisor([self.open(self.toy())])
    }

    fn submissions(&self) -> usize {
        self.fake.desk().submissions.len()
    }

    fn log(&self) -> PathBuf {
        self.attempt(1).join("slurm.err")
    }

    /// The first job prints this and nothing else.
    fn prints(&self, log: &str) {
        fs::write(self.log(), log).unwrap();
    }

    /// The first job ends with exit code 1.
    fn fails(&self) {
        let job = &mut self.fake.desk().jobs[0].1;
        job.state = JobState::Failed;
        job.exit = Some(ExitStatus::of(1, 0));
    }

    /// What the first attempt was judged to have died of.
    fn judged(&self, kind: &str) -> String {
        let verdict = text(&self.attempt(1).join("verdict.json"));
        assert!(verdict.contains(kind), "{kind} in {verdict}");
        verdict
    }

    fn supervisor(&self, handles: impl IntoIterator<Item = Handle>) -> Supervisor {
        self.supervisor_with(Box::new(self.fake.clone()), handles)
    }

    fn supervisor_with(
        &self,
        scheduler: Box<dyn Scheduler>,
        handles: impl IntoIterator<Item = Handle>,
    ) -> Supervisor {
        let now = Arc::clone(&self.now);
        let clock: TimeSource = Box::new(move || at(*now.lock().unwrap()));
        let mut supervisor = Supervisor::new(scheduler, clock);
        handles.into_iter().for_each(|h| supervisor.add(h));
        supervisor
    }

    /// Lets so many seconds pass, one turn a second.
    fn pass(&mut self, supervisor: &mut Supervisor, seconds: i64) {
        for _ in 0..seconds {
            supervisor.cycle(&mut self.notes);
            *self.now.lock().unwrap() += 1;
        }
    }
}

/// A project with one run, and its supervisor.
fn supervised() -> (Project, Supervisor) {
    answered([])
}

/// The same, where submissions get these answers, the last one first.
fn answered<const N: usize>(answers: [SubmitAnswer; N]) -> (Project, Supervisor) {
    let project = Project::new();
    project.fake.desk().answers.extend(answers);
    let supervisor = project.supervisor([project.create(project.toy())]);
    (project, supervisor)
}

/// The same, where the first job has run for 20 seconds.
fn running() -> (Project, Supervisor) {
    let (mut project, mut supervisor) = supervised();
    project.pass(&mut supervisor, 2);
    project.fake.set(0, JobState::Running);
    project.pass(&mut supervisor, 20);
    (project, supervisor)
}

fn unclear() -> SubmitAnswer {
    SubmitAnswer::Unclear {
        detail: "Socket timed out on send/recv operation".to_owned(),
    }
}

fn refused(reason: &str, hint: Option<&str>) -> SubmitAnswer {
    SubmitAnswer::refused(reason, hint)
}

/// Lets the supervisor go away by a signal, with what these sources hold for it.
fn signalled(
    supervisor: &mut Supervisor,
    (sender, sources): (Sender<Wake>, WakeSources),
) -> DriveEnd {
    sender.send(Wake::Signal(2)).unwrap();
    drive(supervisor, Until::Finished, &sources, &mut Silent)
}

fn history_of(supervisor: &Supervisor) -> &crate::core::engine::History {
    supervisor.runs().next().unwrap().history()
}

fn outcome(supervisor: &Supervisor) -> Option<Outcome> {
    history_of(supervisor).outcome.clone()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn a_job_that_began_and_was_forgotten_before_its_answer_was_read_is_not_submitted_again() {
    let (mut project, mut supervisor) = answered([unclear()]);
    project.fake.desk().forgot = true;
    project.pass(&mut supervisor, 1);
    fs::write(project.attempt(1).join("claim"), "4711\n").unwrap();
    project.prints(OOM);
    project.pass(&mut supervisor, 40);
    let history = history_of(&supervisor);
    let first = &history.attempts[0];
    assert_eq!(first.job.as_ref().unwrap().id, JobId("4711".to_owned()));
    assert!(first.adopted);
    assert_eq!(history.attempts.len(), 2, "its log says what it died of");
}

#[test]
fn a_job_that_the_scheduler_surely_forgot_is_over_and_its_log_says_how() {
    let (mut project, mut supervisor) = running();
    project.prints(OOM);
    project.fake.set(0, purged());
    project.pass(&mut supervisor, 60);
    assert_eq!(project.submissions(), 2);
    project.fake.set(1, purged());
    project.pass(&mut supervisor, 60);
    let ended = outcome(&supervisor);
    assert!(matches!(ended, Some(Outcome::Failed { .. })), "{ended:?}");
}

/// New runs of these names, and the names.
fn created(project: &Project, names: &[impl AsRef<str>]) -> (Supervisor, Vec<String>) {
    let names = names.iter().map(AsRef::as_ref);
    let handles = names
        .clone()
        .map(|name| project.create(named(project, name)));
    let supervisor = project.supervisor(handles);
    (supervisor, names.map(str::to_owned).collect())
}

/// Twenty runs, submitted.
fn many() -> (Project, Supervisor) {
    let mut project = Project::new();
    let names: Vec<String> = (0..20).map(|i| format!("run-{i}")).collect();
    let (mut supervisor, _) = created(&project, &names);
    project.pass(&mut supervisor, 1);
    (project, supervisor)
}

fn named(project: &Project, name: &str) -> Toy {
    Toy {
        name: name.to_owned(),
        ..project.toy()
    }
}

#[test]
fn the_first_attempts_of_a_sweep_are_one_submission_and_later_ones_are_not() {
    let mut project = Project::new();
    let (mut supervisor, runs) = created(&project, &["s.1", "s.2", "s.3"]);
    let array = ArrayRecord::new("s", runs.clone(), Some(2)).unwrap();
    let token = array.token.clone();
    let sweep_group = SweepGroup {
        runs,
        ..SweepGroup::default()
    };
    let record = SweepRecord::new("s", sweep_group, vec![array]);
    record.write(project.root.path()).unwrap();
    let read = SweepRecord::read(project.root.path(), "s").unwrap();
    assert_eq!(read.as_ref(), Some(&record));
    supervisor.gather(project.root.path(), &record);
    // One that is cancelled before is not among them.
    project.folder("s.2").request_cancel("me").unwrap();
    project.pass(&mut supervisor, 1);
    assert_eq!(project.notes.0, Vec::<String>::new());
    let submission = project.fake.desk().submissions[0].clone();
    let tasks = submission.tasks.clone().unwrap();
    assert_eq!((tasks.indices.as_str(), tasks.at_once), ("0,2", Some(2)));
    assert_eq!(submission.token, token);
    let script = tasks.folder.join("2/job.sbatch");
    assert_eq!(
        text(&script),
        text(&project.folder("s.3").attempt(1).join("job.sbatch"))
    );
    let ids: Vec<_> = supervisor
        .runs()
        .map(|h| {
            let job = h.history().attempt().and_then(|a| a.job.clone());
            job.map(|j| (j.id.0, j.token.unwrap()))
        })
        .collect();
    assert_eq!(ids[0], Some(("100_0".to_owned(), token.task(0))));
    assert_eq!(ids[1], None);
    assert_eq!(ids[2], Some(("100_2".to_owned(), token.task(2))));
    assert_eq!(project.submissions(), 1);
}

/// An array of a user's script whose tasks all ran out of memory but the last, which runs on.
fn array_of_a_script(project: &Project, at_once: Option<usize>) -> (Supervisor, Token) {
    let (mut supervisor, runs) = created(project, &["a_3", "a_7", "a_9"]);
    let array = ArrayRecord::new("a", runs.clone(), at_once).unwrap();
    let array = array.with_indices(vec![3, 7, 9]);
    let token = array.token.clone();
    let group = SweepGroup {
        runs,
        at_once,
        is_array: true,
    };
    let record = SweepRecord::new("a", group, vec![array]);
    supervisor.gather(project.root.path(), &record);
    (supervisor, token)
}

fn runs_out_of_memory(project: &mut Project, supervisor: &mut Supervisor, jobs: &[usize]) {
    for (job, run) in (0..).zip(["a_3", "a_7", "a_9"]) {
        project.fake.set(job, JobState::Running);
        if jobs.contains(&job) {
            let log = project.folder(run).attempt(1).join("slurm.err");
            fs::write(log, OOM).unwrap();
        }
    }
    project.pass(supervisor, 20);
    for job in jobs {
        project.fake.set(*job, JobState::Failed);
    }
    project.pass(supervisor, 60);
}

#[test]
fn tasks_of_a_users_array_that_need_the_same_go_back_in_one_array_under_their_indices() {
    let mut project = Project::new();
    let (mut supervisor, token) = array_of_a_script(&project, None);
    project.pass(&mut supervisor, 2);
    runs_out_of_memory(&mut project, &mut supervisor, &[0, 1]);
    let asked: Vec<_> = project
        .fake
        .desk()
        .submissions
        .iter()
        .map(|s| {
            let tasks = s.tasks.as_ref().unwrap();
            (
                s.token.clone(),
                tasks.indices.clone(),
                tasks.folder.file_name().unwrap().to_owned(),
            )
        })
        .collect();
    let first = (token.clone(), "3,7,9".to_owned(), "array-1".into());
    let again = (
        token.at_attempt(2),
        "3,7".to_owned(),
        "array-1.attempt-2".into(),
    );
    assert_eq!(asked, [first, again]);
    // Whoever takes the runs up again knows the tasks by the same tokens.
    drop(supervisor);
    let ids = ["a_3", "a_7"].map(|run| {
        let attempts = project
            .open(named(&project, run))
            .history()
            .attempts
            .clone();
        attempts[1].job.clone().map(|j| (j.id.0, j.token.unwrap()))
    });
    let task = |index| Some((format!("103_{index}"), token.at_attempt(2).task(index)));
    assert_eq!(ids, [task(3), task(7)]);
}

#[test]
fn what_is_submitted_again_of_a_users_array_waits_until_fewer_than_its_limit_are_left() {
    let mut project = Project::new();
    let (mut supervisor, _) = array_of_a_script(&project, Some(1));
    project.pass(&mut supervisor, 2);
    runs_out_of_memory(&mut project, &mut supervisor, &[0]);
    assert_eq!(project.submissions(), 1, "two others are left");
    project.fake.set(1, JobState::Completed);
    project.pass(&mut supervisor, 60);
    assert_eq!(project.submissions(), 1, "one is left");
    project.fake.set(2, JobState::Completed);
    project.pass(&mut supervisor, 60);
    assert_eq!(project.submissions(), 2);
}

#[test]
fn an_oom_is_answered_by_a_rung_and_the_next_attempt_succeeds() {
    let (mut project, mut supervisor) = supervised();
    project.pass(&mut supervisor, 2);
    assert_eq!(project.submissions(), 1, "in the first turn");
    project.fake.set(0, JobState::Running);
    project.pass(&mut supervisor, 20);
    project.prints(OOM);
    project.fake.set(0, JobState::Completing);
    project.pass(&mut supervisor, 40);
    assert_eq!(project.submissions(), 1, "COMPLETING is waited for");
    project.fake.set(0, JobState::Failed);
    project.pass(&mut supervisor, 40);
    assert_eq!(project.submissions(), 2);
    project.fake.set(1, JobState::Completed);
    project.pass(&mut supervisor, 40);
    assert_eq!(outcome(&supervisor), Some(Outcome::Succeeded));

    let verdict = project.judged("cuda_oom");
    for word in ["Tried to allocate 20.00 GiB", "rung-1", "slurm.err"] {
        assert!(verdict.contains(word), "{word} in {verdict}");
    }
    let changes = text(&project.attempt(2).join("changes.diff"));
    for line in ["-train micro=32\n", "+train micro=16\n"] {
        assert!(changes.contains(line), "{changes}");
    }
    assert_eq!(text(&project.attempt(1).join("changes.diff")), "");
    let recipe: serde_json::Value =
        serde_json::from_str(&text(&project.attempt(2).join("recipe.json"))).unwrap();
    assert_eq!(recipe["values"]["micro"]["value"], 16);
    let link = project.root.path().join("logs/slurm-100.err");
    assert_eq!(text(&link), OOM);
    let desk = project.fake.desk();
    let submission = &desk.submissions[0];
    assert_eq!(submission.stderr, project.attempt(1).join("slurm.err"));
    assert_eq!(submission.environment["HF_HOME"], "/data/hf");
    assert!(
        submission.token.0.starts_with("oomctl-r1-1-"),
        "{}",
        submission.token
    );
}

#[test]
fn a_kill_between_acceptance_and_its_fact_leads_to_adoption_not_to_a_second_job() {
    let mut project = Project::new();
    let handle = project.create(project.toy());
    project.fake.desk().steal = Some(handle.folder.dir().to_owned());
    let mut supervisor = project.supervisor([handle]);
    project.pass(&mut supervisor, 1);
    let first = supervisor.into_handles().pop().unwrap();
    assert!(matches!(
        first.error(),
        Some(DriveError::Ledger(LedgerError::TakenOver { .. }))
    ));
    assert!(first.history().attempt().unwrap().job.is_none());
    drop(first);

    let mut supervisor = project.resumed();
    project.pass(&mut supervisor, 3);
    assert_eq!(project.submissions(), 1);
    let attempt = history_of(&supervisor).attempt().cloned().unwrap();
    assert_eq!(attempt.job.unwrap().id.0, "100");
    assert!(attempt.adopted);
}

#[test]
fn an_unclear_answer_is_searched_and_never_repeated() {
    let (mut project, mut supervisor) = answered([unclear()]);
    project.pass(&mut supervisor, 120);
    assert_eq!(project.submissions(), 1);
    let kinds: Vec<Fact> = read(project.folder("r1").dir())
        .unwrap()
        .records
        .into_iter()
        .map(|r| r.fact)
        .collect();
    assert!(matches!(
        kinds[..4],
        [
            Fact::Created { .. },
            Fact::Intended { .. },
            Fact::SubmitUnclear { .. },
            Fact::Submitted { adopted: true, .. }
        ]
    ));
}

#[test]
fn a_refusal_ends_the_run_with_the_reason_and_the_next_step() {
    let reason = "Batch job submission failed: Invalid partition name specified";
    let answer = refused(reason, Some("sinfo lists the partitions"));
    let (mut project, mut supervisor) = answered([answer]);
    project.pass(&mut supervisor, 60);
    let outcome = outcome(&supervisor).unwrap();
    assert_eq!(outcome.exit_code(), 4);
    assert!(matches!(
        outcome,
        Outcome::Refused {
            rung: None,
            hint: Some(_),
            ..
        }
    ));
    assert_eq!(project.submissions(), 1);
}

#[test]
fn a_submission_that_is_refused_for_now_is_made_again_under_its_token_until_it_is_accepted() {
    let full = SubmitAnswer::Refused {
        reason: "QOSMaxSubmitJobPerUserLimit".to_owned(),
        hint: None,
        passing: true,
    };
    let (mut project, mut supervisor) = answered([full.clone(), full]);
    project.pass(&mut supervisor, 50);
    assert_eq!(project.submissions(), 1);
    assert!(
        reached(&supervisor, Until::Submitted { patience_s: 90 }),
        "submit does not stay"
    );
    assert!(reached(&supervisor, Until::Settled { patience_s: 90 }));
    project.pass(&mut supervisor, 200);
    let desk = project.fake.desk();
    let tokens: Vec<&Token> = desk.submissions.iter().map(|s| &s.token).collect();
    assert_eq!((tokens.len(), desk.jobs.len()), (3, 1));
    assert!(tokens.iter().all(|token| *token == tokens[0]));
    drop(desk);
    assert_eq!(outcome(&supervisor), None);
    assert_eq!(history_of(&supervisor).attempts.len(), 1);
}

#[test]
fn a_configuration_that_cannot_be_rendered_is_not_submitted() {
    let mut project = Project::new();
    let handle = project.create(Toy {
        illegal: true,
        ..project.toy()
    });
    let mut supervisor = project.supervisor([handle]);
    project.pass(&mut supervisor, 5);
    let outcome = outcome(&supervisor).unwrap();
    assert_eq!(outcome.exit_code(), 5);
    assert_eq!(project.submissions(), 0);
}

#[test]
fn a_secret_that_is_not_set_here_is_named_and_nothing_is_submitted() {
    let mut project = Project::new();
    let environment = Environment {
        secrets: vec!["OOMCTL_TEST_NO_SUCH_SECRET".to_owned()],
        ..Project::environment()
    };
    let folder = project.folder("r1");
    let request = project.toy().request();
    let handle = Handle::create(folder, request, "{}", &environment, at(0)).unwrap();
    let mut supervisor = project.supervisor([handle]);
    project.pass(&mut supervisor, 5);
    assert_eq!(project.submissions(), 0);
    let error = supervisor.runs().next().unwrap().error();
    let error = error.unwrap().to_string();
    assert!(error.contains("OOMCTL_TEST_NO_SUCH_SECRET"), "{error}");
    assert_eq!(
        outcome(&supervisor),
        None,
        "the run goes on where it is set"
    );
}

#[test]
fn a_script_that_a_replaced_process_wrote_late_is_set_right() {
    let mut project = Project::new();
    let mut handle = project.create(project.toy());
    intend(&mut handle);
    let script = project.attempt(1).join("job.sbatch");
    let right = fs::read_to_string(&script).unwrap();
    // Its intent never became a fact, its files did.
    let intended = handle.history().attempts.clone();
    handle.run.history.attempts.clear();
    prepared(&handle);
    handle.run.history.attempts = intended;
    assert_ne!(fs::read_to_string(&script).unwrap(), right);
    let mut supervisor = project.supervisor([handle]);
    project.pass(&mut supervisor, 3);
    assert_eq!(project.submissions(), 1);
    assert_eq!(fs::read_to_string(&script).unwrap(), right);
}

#[test]
fn what_follows_a_job_that_told_of_its_own_end_waits_for_it_whoever_submits() {
    let mut project = Project::new();
    killed_after_an_oom(&mut project);
    // The turn at the end of the script is replaced while it submits, and its submission comes to nothing.
    let handle = project.open(project.toy());
    let steal = Some(handle.folder.dir().to_owned());
    {
        let mut desk = project.fake.desk();
        desk.steal = steal;
        desk.answers.push(refused("the controller is busy", None));
    }
    let own = EndingJobScheduler::new(project.fake.clone(), JobId("100".into()), 1);
    let mut turn = project.supervisor_with(Box::new(own), [handle]);
    project.pass(&mut turn, 40);
    drop(turn);
    let mut supervisor = project.resumed();
    project.pass(&mut supervisor, 60);
    let desk = project.fake.desk();
    let waits: Vec<_> = desk.submissions.iter().map(|s| &s.options[..]).collect();
    let after = ["--dependency=afterany:100"].map(str::to_owned);
    assert_eq!(waits, [&[][..], &after, &after]);
}

/// Writes down the first attempt, which is then about to be submitted.
fn intend(handle: &mut Handle) {
    let event = prepared(handle);
    handle.feed(&event, at(0), &mut Silent).unwrap();
}

/// Writes the files of the first attempt.
fn prepared(handle: &Handle) -> Event {
    let (run, folder) = (&handle.run, &handle.folder);
    let event = prepare::prepare(run, folder, "fake", 1, None, &mut Silent);
    Event::Attempt(1, event.unwrap().1)
}

#[test]
fn a_script_that_was_edited_after_its_intent_is_not_submitted() {
    let mut project = Project::new();
    project.fake.desk().silent = true;
    let toy = project.toy();
    let mut handle = project.create(toy);
    intend(&mut handle);
    fs::write(project.attempt(1).join("job.sbatch"), "rm -rf ~\n").unwrap();
    let mut supervisor = project.supervisor([handle]);
    project.pass(&mut supervisor, 3);
    assert_eq!(project.submissions(), 0);
    let handle = supervisor.into_handles().pop().unwrap();
    assert!(matches!(
        handle.error(),
        Some(DriveError::ScriptChanged { .. })
    ));
}

#[test]
fn whoever_was_taken_over_after_the_intent_does_not_submit() {
    let mut project = Project::new();
    let mut handle = project.create(project.toy());
    intend(&mut handle);
    let other = Ledger::open(handle.folder.dir(), Takeover::Forced, at(1)).unwrap();
    let mut supervisor = project.supervisor([handle]);
    project.pass(&mut supervisor, 3);
    assert_eq!(project.submissions(), 0);
    drop(other);
}

#[test]
fn a_script_with_the_token_of_another_process_is_put_right_whichever_was_a_task_of_an_array() {
    let (mut project, mut supervisor) = supervised();
    project.pass(&mut supervisor, 1);
    let handle = supervisor.runs().next().unwrap();
    let attempt = handle.history().attempts[0].clone();
    let ours = attempt.token.clone().unwrap();
    let script = text(&project.attempt(1).join(&attempt.script));
    assert!(script.contains(&ours.0), "{script}");
    for other in [
        "oomctl-r1-1-00000065",
        "oomctl-sweep.of-many-1-00c0ffee_12",
        "oomctl-x-1-00c0ffee",
    ] {
        let theirs = script.replace(&ours.0, other);
        let again = perform::intended(theirs.as_bytes(), &attempt, &ours);
        assert_eq!(again.as_deref(), Some(script.as_str()), "{other}");
        let edited = format!("{theirs}rm -rf x\n");
        assert_eq!(
            perform::intended(edited.as_bytes(), &attempt, &ours),
            None,
            "a user's hand is not undone"
        );
    }
}

/// A job that runs on after an out-of-memory in its log.
fn hanging() -> (Project, Supervisor) {
    let (mut project, mut supervisor) = supervised();
    project.pass(&mut supervisor, 2);
    project.fake.set(0, JobState::Running);
    project.prints(OOM);
    (project, supervisor)
}

#[test]
fn a_hanging_job_is_cancelled_and_the_run_goes_on() {
    let (mut project, mut supervisor) = hanging();
    project.pass(&mut supervisor, 50);
    assert!(
        project.fake.desk().cancelled.is_empty(),
        "not before the grace time"
    );
    project.pass(&mut supervisor, 100);
    assert_eq!(project.fake.desk().cancelled, [JobId("100".to_owned())]);
    assert_eq!(project.submissions(), 2, "with the next rung");
}

#[test]
fn a_job_that_a_user_ends_while_the_scheduler_thinks_is_not_taken_for_one_that_hangs() {
    let (mut project, mut supervisor) = hanging();
    project.pass(&mut supervisor, 43);
    // The answer to the next question is on its way for longer than the grace time has left.
    let (now, fake) = (Arc::clone(&project.now), project.fake.clone());
    project.fake.desk().meanwhile = Some(Box::new(move || {
        *now.lock().unwrap() += 40;
        fake.set(0, JobState::Cancelled);
    }));
    // A scheduler that is so slow is left alone for two minutes.
    project.pass(&mut supervisor, 150);
    assert!(project.fake.desk().meanwhile.is_none(), "it was asked");
    assert_eq!(outcome(&supervisor), Some(Outcome::Cancelled { by: None }));
    assert_eq!(project.submissions(), 1);
    assert!(project.fake.desk().cancelled.is_empty());
}

#[test]
fn a_slow_scheduler_is_not_waited_for_by_all_that_depend_on_a_job() {
    let mut project = Project::new();
    let mut toy = project.toy();
    toy.supervision.move_dependents = true;
    let mut supervisor = project.supervisor([project.create(toy)]);
    let waiting = |id: u32| Dependent {
        id: JobId(id.to_string()),
        waits_for: "afterok:100".to_owned(),
    };
    project.fake.desk().dependents = (1..=9).map(waiting).collect();
    let now = Arc::clone(&project.now);
    project.fake.desk().redirecting = Some(Box::new(move || *now.lock().unwrap() += 8));
    project.pass(&mut supervisor, 2);
    project.prints(OOM);
    project.fake.set(0, JobState::Failed);
    project.pass(&mut supervisor, 40);
    assert_eq!(project.submissions(), 2);
    let moved = project.fake.desk().redirected.len();
    assert_eq!(moved, 3, "no further one after 20 s");
    let told = |moved: bool| {
        let told = project.notes.0.iter();
        told.filter(|n| n.ends_with(&format!(" {moved}"))).count()
    };
    assert_eq!((told(true), told(false)), (3, 6));
}

#[test]
fn a_request_to_cancel_reaches_whoever_supervises() {
    let (mut project, mut supervisor) = supervised();
    project.pass(&mut supervisor, 3);
    project.fake.set(0, JobState::Running);
    let answer = request_cancel(&project.folder("r1"), "tester").unwrap();
    assert!(matches!(answer, CancelAnswer::LeftTo(_)));
    project.pass(&mut supervisor, 60);
    assert_eq!(project.fake.desk().cancelled.len(), 1);
    assert_eq!(
        outcome(&supervisor),
        Some(Outcome::Cancelled {
            by: Some("tester".to_owned())
        })
    );
    let answer = request_cancel(&project.folder("r1"), "tester").unwrap();
    assert!(matches!(answer, CancelAnswer::Over));
}

#[test]
fn the_text_of_a_requeued_part_is_not_held_against_the_next() {
    let (mut project, mut supervisor) = running();
    project.prints(OOM);
    {
        let mut desk = project.fake.desk();
        desk.jobs[0].1.state = JobState::Pending;
        desk.jobs[0].1.restarts = 1;
    }
    project.pass(&mut supervisor, 20);
    project.fake.set(0, JobState::Running);
    project.pass(&mut supervisor, 20);
    project.prints(&format!("{OOM}{KEY_ERROR}"));
    project.fails();
    project.pass(&mut supervisor, 60);
    let outcome = outcome(&supervisor).unwrap();
    assert_eq!(outcome.exit_code(), 1, "{outcome:?}");
    assert_eq!(project.submissions(), 1);
}

#[test]
fn many_runs_are_asked_about_in_one_question() {
    let (mut project, mut supervisor) = many();
    assert_eq!(project.submissions(), 20);
    let before = project.fake.desk().polls;
    project.pass(&mut supervisor, 60);
    let polls = project.fake.desk().polls - before;
    assert!((3..=5).contains(&polls), "{polls} polls in 60 s of 15");
}

#[test]
fn of_many_runs_the_one_whose_log_grows_is_read_at_once() {
    let (mut project, mut supervisor) = many();
    (0..20).for_each(|job| project.fake.set(job, JobState::Running));
    project.pass(&mut supervisor, 30);
    let (_tell, sources) = WakeSources::channel();
    let _wakes = supervisor
        .log_waiter()
        .map(|waiter| sources.logs(waiter))
        .unwrap();
    while sources.wait(Duration::ZERO).is_some() {}
    supervisor.logs_grew(&mut project.notes);
    let log = project.folder("run-7").attempt(1).join("slurm.err");
    fs::write(log, OOM).unwrap();
    // No time passes for the supervisor.
    assert_eq!(
        sources.wait(Duration::from_secs(10)),
        Some(Wake::Logs),
        "the loop is woken"
    );
    assert!(supervisor.logs_grew(&mut project.notes).is_some());
    assert_eq!(project.notes.0, ["run-7: GpuOom"]);
    assert_eq!(supervisor.logs_grew(&mut project.notes), None);
}

#[test]
fn a_log_that_was_rotated_keeps_its_failure() {
    let (mut project, mut supervisor) = supervised();
    project.pass(&mut supervisor, 1);
    project.fake.set(0, JobState::Running);
    project.pass(&mut supervisor, 20);
    let head = "Traceback (most recent call last):\n";
    project.prints(head);
    project.pass(&mut supervisor, 2);
    let rotated = project.log().with_extension("err.1");
    fs::rename(project.log(), &rotated).unwrap();
    fs::write(rotated, format!("{head}{OOM}")).unwrap();
    project.prints(EXITED);
    project.fake.set(0, JobState::Failed);
    project.pass(&mut supervisor, 40);
    project.judged("cuda_oom");
    assert_eq!(project.submissions(), 2);
}

#[test]
fn silence_of_the_scheduler_is_said_once_and_changes_nothing() {
    let (mut project, mut supervisor) = supervised();
    project.pass(&mut supervisor, 2);
    project.fake.desk().silent = true;
    project.pass(&mut supervisor, 600);
    project.fake.desk().silent = false;
    project.pass(&mut supervisor, 200);
    assert_eq!(
        project.notes.0,
        ["squeue: no answer after 20 s", "recovered"]
    );
    assert_eq!(project.submissions(), 1);
    assert_eq!(outcome(&supervisor), None);
}

#[test]
fn a_signal_detaches_and_the_next_process_goes_on_at_once() {
    let (mut project, mut supervisor) = supervised();
    let end = signalled(&mut supervisor, WakeSources::channel());
    assert_eq!(end, DriveEnd::Detached { signal: 2 });
    drop(supervisor);
    let mut supervisor = project.resumed();
    project.fake.set(0, JobState::Completed);
    project.pass(&mut supervisor, 30);
    assert_eq!(outcome(&supervisor), Some(Outcome::Succeeded));
    assert_eq!(project.submissions(), 1);
}

#[test]
fn the_next_rung_is_taken_when_somebody_asks_for_it_and_nothing_else_is_done_meanwhile() {
    let (mut project, mut supervisor) = supervised();
    project.pass(&mut supervisor, 10);
    project.fake.set(0, JobState::Running);
    project.pass(&mut supervisor, 40);
    let ask = |supervisor: &mut Supervisor, asked: SteerRequest| {
        let (sender, sources) = WakeSources::channel();
        sources.asker().ask(asked);
        signalled(supervisor, (sender, sources));
    };
    let escalate = |attempt| SteerRequest::Escalate {
        run: "r1".to_owned(),
        attempt,
        by: "me".to_owned(),
    };
    ask(&mut supervisor, escalate(7));
    assert_eq!(project.fake.desk().cancelled, [], "of no such attempt");
    ask(&mut supervisor, escalate(1));
    // Whoever takes it up again goes on.
    drop(supervisor);
    let mut supervisor = project.resumed();
    project.pass(&mut supervisor, 100);
    let desk = project.fake.desk();
    assert!(desk.cancelled.iter().all(|job| job.0 == "100"));
    assert!(!desk.cancelled.is_empty());
    assert_eq!(desk.submissions.len(), 2);
}

#[test]
fn submit_returns_as_soon_as_the_job_is_known() {
    let (_project, mut supervisor) = supervised();
    let (_sender, sources) = WakeSources::channel();
    let until = Until::Submitted { patience_s: 60 };
    let end = drive(&mut supervisor, until, &sources, &mut Silent);
    assert_eq!(end, DriveEnd::Reached);
    let attempt = history_of(&supervisor).attempt().cloned().unwrap();
    assert_eq!(attempt.job.unwrap().id.0, "100");
}

#[test]
fn a_run_folder_that_cannot_be_written_is_said_and_nothing_is_submitted() {
    let project = Project::new();
    fs::create_dir_all(project.root.path().join(".oomctl")).unwrap();
    fs::write(project.root.path().join(".oomctl/runs"), "a file").unwrap();
    let folder = project.folder("r1");
    let request = project.toy().request();
    let made = Handle::create(folder, request, "{}", &Project::environment(), at(0));
    let error = made.err().unwrap();
    assert_eq!(error.exit(), Exit::Ledger);
    assert!(error.to_string().contains(".oomctl/runs"), "{error}");
}

#[test]
fn a_second_run_of_the_same_name_is_refused() {
    let project = Project::new();
    drop(project.create(project.toy()));
    let folder = project.folder("r1");
    let request = project.toy().request();
    let again = Handle::create(folder, request, "{}", &Project::environment(), at(0));
    assert!(matches!(again.err(), Some(DriveError::RunExists { .. })));
}

/// As srun writes it for a task that failed.
const EXITED: &str = "srun: error: node1: task 0: Exited with exit code 1\n";

/// A traceback of a mistake in the program.
const KEY_ERROR: &str = "Traceback (most recent call last):\n  File \"/w/train.py\", line 3, in <module>\n    x = table['x']\nKeyError: 'x'\n";

/// A supervisor that had read an OOM in the log of its first job, and was killed.
fn killed_after_an_oom(project: &mut Project) {
    let handle = project.create(project.toy());
    let mut supervisor = project.supervisor([handle]);
    project.pass(&mut supervisor, 2);
    project.fake.set(0, JobState::Running);
    project.pass(&mut supervisor, 20);
    project.prints(OOM);
    project.pass(&mut supervisor, 2);
    assert_eq!(project.notes.0, ["r1: GpuOom"]);
}

fn fails(project: &mut Project) -> Outcome {
    let mut supervisor = project.resumed();
    project.pass(&mut supervisor, 2);
    project.fails();
    project.pass(&mut supervisor, 60);
    outcome(&supervisor).unwrap()
}

/// As slurmstepd writes it (22.05) when a job is put back into the queue.
const REQUEUED: &str = "slurmstepd: error: *** JOB 100 ON node1 CANCELLED AT 2026-11-21T01:57:33 DUE TO JOB REQUEUE ***\n";

#[test]
fn a_requeue_that_nobody_saw_does_not_hold_the_text_before_it_against_the_job() {
    for written in [format!("{OOM}{REQUEUED}{KEY_ERROR}"), KEY_ERROR.repeat(9)] {
        let mut project = Project::new();
        killed_after_an_oom(&mut project);
        project.fake.desk().jobs[0].1.restarts = 1;
        project.prints(&written);
        let outcome = fails(&mut project);
        assert_eq!(outcome.exit_code(), 1, "{outcome:?}");
        assert_eq!(project.submissions(), 1);
        project.judged("code_bug");
    }
}

#[test]
fn what_was_read_while_the_scheduler_said_nothing_may_be_of_a_part_that_nobody_saw_begin() {
    let (mut project, mut supervisor) = running();
    project.fake.desk().silent = true;
    project.prints(&format!("loading the model\n{REQUEUED}{OOM}"));
    project.pass(&mut supervisor, 5);
    drop(supervisor);
    project.fake.desk().silent = false;
    project.fake.desk().jobs[0].1.restarts = 1;
    let mut supervisor = project.resumed();
    project.pass(&mut supervisor, 2);
    project.fake.set(0, JobState::Failed);
    project.pass(&mut supervisor, 60);
    project.judged("cuda_oom");
    assert_eq!(project.submissions(), 2, "a rung is climbed");
}

#[test]
fn what_an_earlier_process_read_and_told_is_known_and_not_told_again() {
    let mut project = Project::new();
    killed_after_an_oom(&mut project);
    fs::rename(project.log(), project.log().with_extension("err.1")).unwrap();
    project.prints(EXITED);
    let mut supervisor = project.resumed();
    project.pass(&mut supervisor, 2);
    project.fake.set(0, JobState::Failed);
    project.pass(&mut supervisor, 60);
    assert_eq!(project.notes.0, ["r1: GpuOom"], "told once");
    project.judged("cuda_oom");
    assert!(
        !project.folder("r1").bookmark(1).exists(),
        "of no further use"
    );
}

#[test]
fn where_the_logs_were_read_to_is_kept_when_the_process_goes_away() {
    let (mut project, mut supervisor) = supervised();
    project.pass(&mut supervisor, 2);
    project.fake.set(0, JobState::Running);
    project.prints("one\n");
    project.pass(&mut supervisor, 20);
    let bookmark = project.folder("r1").bookmark(1);
    let first = text(&bookmark);
    project.prints("one\ntwo\n");
    project.pass(&mut supervisor, 2);
    assert_eq!(text(&bookmark), first, "not for a line without meaning");
    signalled(&mut supervisor, WakeSources::channel());
    assert_ne!(text(&bookmark), first);
}

#[test]
fn a_bookmark_that_cannot_be_written_is_said_once_and_stops_nothing() {
    let (mut project, mut supervisor) = supervised();
    project.pass(&mut supervisor, 2);
    project.fake.set(0, JobState::Running);
    let in_the_way = project.attempt(1).join("follow.jsonl");
    fs::create_dir_all(in_the_way.join("something")).unwrap();
    project.prints("one\n");
    project.pass(&mut supervisor, 20);
    project.prints(OOM);
    project.fake.set(0, JobState::Failed);
    project.pass(&mut supervisor, 60);
    let said = project
        .notes
        .0
        .iter()
        .filter(|n| n.contains("follow.jsonl"));
    assert_eq!(said.count(), 1, "{:?}", project.notes.0);
    assert_eq!(project.submissions(), 2);
}

#[test]
fn what_an_attempt_taught_is_there_for_later_runs_also_after_a_kill() {
    let (mut project, mut supervisor) = supervised();
    project.pass(&mut supervisor, 2);
    project.prints(OOM);
    project.fake.set(0, JobState::Failed);
    let decided = |s: &Supervisor| {
        let history = s.runs().next().unwrap().history();
        history.attempts[0].verdict.is_some()
    };
    while !decided(&supervisor) {
        project.pass(&mut supervisor, 1);
    }
    let path = project.root.path().join(".oomctl/fits.jsonl");
    let known = || fits::read(&path).unwrap().entries().to_vec();
    assert_eq!(known().len(), 1);
    assert!(!known()[0].fitted());
    drop(supervisor);
    // Killed between the decision and the observation.
    fs::remove_file(&path).unwrap();
    let handle = project.open(project.toy());
    assert_eq!(known().len(), 1);
    let mut supervisor = project.supervisor([handle]);
    project.pass(&mut supervisor, 5);
    project.fake.set(1, JobState::Completed);
    project.pass(&mut supervisor, 40);
    assert_eq!(outcome(&supervisor), Some(Outcome::Succeeded));
    let fitted: Vec<bool> = known().iter().map(|e| e.fitted()).collect();
    assert_eq!(fitted, [false, true]);
    // Nothing is learned twice.
    drop(supervisor);
    let before = fs::read(&path).unwrap();
    drop(project.open(project.toy()));
    assert_eq!(fs::read(&path).unwrap(), before);
}
