//! From events to an incident: which failure is the root, what is consequence, what Slurm adds.

use std::iter;

use oomctl_base::job::{JobState, JobStatus};

use super::class::{Class, Tri};
use super::course::{self, Records};
use super::event::LogEvent;
use super::evidence::{Evidence, EvidenceRole};
use super::findings::{CONSEQUENCES, Findings, blank, is_memory, steps};
use super::incident::Incident;
use super::particulars::{
    advise, as_the_project_says, figures, program, retains, survived_figures,
};
use super::phase::{self, LOOP};
use super::prefix::body_of;
use super::signatures::{LineRole, weight};
use super::steps_before::{TRAINING, epochs, late, prepared};
use super::{exceptions, kind, replicas, scheduler};

/// The note on a traceback behind which steps start over.
const ANEW: &str = "steps are counted from their beginning behind this traceback: either the program caught the failure, or another program printed them";

/// The signature of a CUDA call that failed inside NCCL, which does not print which one.
const NCCL_CUDA_ERROR: &str = "nccl_cuda_error";
const IN_NCCL: &str = "NCCL does not print which CUDA call failed. A full GPU is one cause, and a smaller micro batch shows whether it was. `NCCL_DEBUG=WARN` prints the call; the logs of other ranks may show it, too";
const ELSEWHERE: &str = "this is the consequence of another failure that is not in these logs: read the logs of the other ranks and nodes";

/// Confirmations that an incident carries.
const CONFIRMATIONS: usize = 3;
/// Advice and survived lines that an incident carries, each.
const REMARKS: usize = 2;

/// The heaviest of some events, among equals the first in time.
fn first_of<'e>(events: impl Iterator<Item = &'e LogEvent>) -> Option<&'e LogEvent> {
    events.reduce(|best, event| {
        let (a, b) = (event.signature.weight, best.signature.weight);
        if a > b || (a == b && event.before(best)) {
            event
        } else {
            best
        }
    })
}

/// The root while the job still runs: weak signs count only when processes ended after them.
pub(crate) fn live_root<'a>(findings: &Findings<'a>) -> Option<&'a LogEvent> {
    let sure =
        |e: &&LogEvent| e.is_candidate() && (e.signature.weight >= weight::SCHEDULER || e.dead);
    first_of(findings.events().filter(sure))
}

/// The root by the text alone. Where everything was handled, what ended in a traceback or with the
/// death of processes was not handled after all.
fn text_root<'a>(findings: &Findings<'a>) -> Option<&'a LogEvent> {
    let events = || findings.events();
    let open = first_of(events().filter(|e| e.is_candidate()));
    let heavy = |e: &LogEvent| is_memory(e) || e.signature.weight >= weight::SPECIFIC;
    let failed_handling = |e: &&LogEvent| {
        e.is_cause() && heavy(e) && e.handled && !e.survived && (e.dead || e.traced)
    };
    // `Exception: …` only says that somebody gave up: of what, the processes that ended before may have said.
    let gave_up = |e: &&LogEvent| {
        let last_words = || e.texts.first().map_or("", |text| body_of(text).trim());
        e.signature.weight <= weight::EXCEPTION && last_words().starts_with("Exception")
    };
    let handled = first_of(events().filter(failed_handling));
    match open {
        Some(root) if gave_up(&root) => handled.filter(|e| e.dead && is_memory(e)).or(Some(root)),
        Some(root) if root.is_cause() => Some(root),
        other => handled.or(other).or(findings.unfinished),
    }
}

/// The end that a requeued job had before it was started again: the scheduler's own message of it stands
/// in the log, and the job has since ended in another way.
fn end_before_restart(findings: &Findings<'_>, job: Option<&JobStatus>) -> Option<u64> {
    let ended_so = |job: &JobStatus| {
        matches!(
            job.state,
            JobState::Preempted | JobState::NodeFail | JobState::BootFail | JobState::Requeued
        )
    };
    let message = |e: &&LogEvent| matches!(e.signature.kind.as_str(), "preempted" | "node_failure");
    let last = findings.events().filter(message).last()?;
    let restarted = match job {
        Some(job) => job.restarts > 0 && !ended_so(job),
        None => last.rerun,
    };
    restarted.then_some(last.order)
}

impl Findings<'_> {
    /// The same without what an earlier part of a requeued job left in the log.
    pub(crate) fn without_earlier_part(mut self, job: Option<&JobStatus>) -> Self {
        if let Some(last) = end_before_restart(&self, job) {
            self.since = last;
            self.earlier = true;
        }
        self
    }
}

/// What the log says beside a lack of memory.
fn hinted(incident: &Incident, findings: &Findings<'_>) -> Option<String> {
    let hints = &findings.ours.hints;
    match incident.class {
        Class::GpuOom if TRAINING.contains(&incident.phase.as_str()) => hints.of_gpu(),
        Class::HostOom => hints.of_host(),
        _ => None,
    }
}

/// Joins text and scheduler.
pub(crate) fn judge(findings: Findings<'_>, job: Option<&JobStatus>) -> Incident {
    let findings = &findings.without_earlier_part(job);
    let root = text_root(findings);
    let mut incident = match root {
        Some(event) => describe(findings, event),
        None => survived_or_nothing(findings, job),
    };
    if root.is_some_and(|e| e.rerun) {
        incident.notes.push(
            "training starts again later in the same log; if that is another run, diagnose it separately".to_owned(),
        );
    }
    let follows = |e: &LogEvent| e.signature.role == LineRole::Consequence && e.user.is_none();
    let cancelled = |job: &JobStatus| job.state == JobState::Cancelled;
    if root.is_some_and(follows) && incident.kind != "cancelled" && !job.is_some_and(cancelled) {
        let note = match root.is_some_and(|e| e.signature.id == NCCL_CUDA_ERROR) {
            true => IN_NCCL,
            false => ELSEWHERE,
        };
        incident.notes.push(note.to_owned());
    }
    if let Some(job) = job {
        scheduler::join(&mut incident, root, findings, job);
    }
    if incident.is_bare_kill()
        && let Some(witness) = findings.ours.host.filling()
    {
        incident.is_host_oom = Tri::True;
        incident.notes.push(witness);
    }
    if incident.is_bare_kill()
        && let Some(share) = job.and_then(|job| job.host.as_deref()?.memory_share())
    {
        scheduler::weigh_kill(&mut incident, share);
    }
    let none = Records::default();
    let records = findings.records.unwrap_or(&none);
    incident.course = course::judge(records, &incident);
    let epochs = epochs(&incident, findings);
    let of_constant_size = epochs.is_none() && !root.is_some_and(|e| e.marks.sequences);
    if of_constant_size && let Some(grown) = course::growth(records, &incident) {
        incident.course = Some(grown);
    }
    let late = epochs.or_else(|| late(&incident, findings));
    let (retains, hinted) = (retains(&incident), hinted(&incident, findings));
    let notes = late.into_iter().chain(retains).chain(hinted);
    incident.notes.extend(notes);
    if incident.kind != "no_failure" {
        advise(&mut incident);
    }
    incident.progress_line.clone_from(&findings.progress_line);
    let told = |job: &JobStatus| matches!(job.state, JobState::Completed | JobState::Cancelled);
    let explained = !matches!(incident.kind.as_str(), "other" | "no_failure")
        && !root.is_some_and(|e| exceptions::is_unknown(e.signature));
    if !explained && !job.is_some_and(told) {
        incident.exit = job.and_then(|job| job.exit);
        incident.last_lines = findings.last_lines(root);
    }
    if root.is_some_and(|e| e.signature.id == "unfinished_traceback") {
        incident.notes.push(
            "the log ends inside a traceback: its last line, with the cause, is missing".to_owned(),
        );
    }
    if findings.earlier {
        incident
            .notes
            .push("the log also holds an earlier run of this job, which was ignored".to_owned());
    }
    incident
}

/// No root: a failure that was survived without a sign that training went on, or a clean log.
fn survived_or_nothing(findings: &Findings<'_>, job: Option<&JobStatus>) -> Incident {
    let waits = |e: &LogEvent| e.signature.id == "network_retry" && !e.progressed;
    let memory = |e: &&LogEvent| {
        e.is_cause()
            && (e.anew || e.handled && !e.survived)
            && (waits(e) || (e.signature.weight >= weight::NAMED && is_memory(e) && !e.dealt_with))
    };
    let ended_well = job.is_some_and(|j| j.state == JobState::Completed);
    let handled = first_of(findings.events().filter(memory)).filter(|_| !ended_well);
    if let Some(event) = handled {
        let mut incident = describe(findings, event);
        incident.fatal = false;
        if let [root, remarks @ ..] = incident.evidence.as_mut_slice() {
            root.role = EvidenceRole::Survived;
            if let Some(at) = remarks.iter().position(|remark| remark == root) {
                incident.evidence.remove(at + 1);
            }
        }
        if event.anew {
            incident.notes.push(ANEW.to_owned());
        }
        return incident;
    }
    let mut incident = blank("no_failure");
    incident.fatal = false;
    if let Some(found) = findings.ambient {
        found.phase.clone_into(&mut incident.phase);
    }
    steps(&mut incident, findings);
    incident.first_step = incident.first_step.filter(|first| !first);
    incident.evidence = remarks(findings);
    survived_figures(&mut incident, findings);
    incident
}

/// The incident whose root is `root`.
pub(crate) fn describe(findings: &Findings<'_>, root: &LogEvent) -> Incident {
    let signature = root.signature;
    let mut incident = blank(&signature.kind);
    incident.is_gpu_oom = signature.is_gpu_oom.unwrap_or(incident.is_gpu_oom);
    incident.is_host_oom = signature.is_host_oom.unwrap_or(incident.is_host_oom);
    incident.retryable_unchanged = signature
        .retryable_unchanged
        .or(incident.retryable_unchanged);
    if let Some(user) = &root.user {
        as_the_project_says(&mut incident, user);
    }
    let same = confirmations(findings, root);
    set_phase(&mut incident, root, &same);
    let alone = || same.iter().filter(|_| incident.class == Class::NotOom);
    let named = root.rank.or_else(|| alone().find_map(|e| e.rank));
    incident.rank = named.or_else(|| {
        (signature.weight <= weight::KILLED)
            .then_some(findings.summary_rank)
            .flatten()
    });
    if matches!(incident.class, Class::GpuOom | Class::EngineMemory) {
        figures(&mut incident, findings, root, &same);
    } else if incident.class == Class::HostOom {
        let mut events = iter::once(root).chain(same.iter().copied());
        incident.host_total_bytes = events.find_map(|e| e.figures().host_total);
    } else if incident.class == Class::NotOom {
        incident.device_index = root.figures().device;
    }
    steps(&mut incident, findings);
    prepared(&mut incident);
    program(&mut incident, root);
    incident.data_parallel = findings.events().any(replicas::tells);
    incident.engine = findings.ours.engine;
    // What asked for less than 3 % of the GPU does not fill it.
    let figures = incident.requested_bytes.zip(incident.total_bytes);
    let fills = figures.is_none() || incident.asks_for(1, 32);
    incident.logits = root.marks.holds_logits() && fills;
    incident.attention_scores = root.marks.attention_scores && fills
        || root.marks.attention_call && incident.asks_for(1, 4);
    incident.in_layer = root.marks.in_layer();
    incident.own_loader = incident.phase == "eval" && root.marks.own_loader;
    incident.evidence = vec![findings.evidence(root, EvidenceRole::Root)];
    for event in same.iter().take(CONFIRMATIONS) {
        let evidence = findings.evidence(event, EvidenceRole::Confirmation);
        incident.evidence.push(evidence);
    }
    incident.evidence.extend(remarks(findings));
    incident.consequences = consequences(findings, root, &same);
    incident
}

/// Other events that say the same: the same class of memory, or the same kind.
fn confirmations<'a>(findings: &Findings<'a>, root: &LogEvent) -> Vec<&'a LogEvent> {
    let class = kind::row(&root.signature.kind).class;
    findings
        .events()
        .filter(|e| e.order != root.order && e.is_cause() && !e.survived)
        .filter(|e| {
            e.signature.kind == root.signature.kind
                || (class != Class::NotOom && kind::row(&e.signature.kind).class == class)
        })
        .collect()
}

fn set_phase(incident: &mut Incident, root: &LogEvent, same: &[&LogEvent]) {
    let fixed = matches!(
        incident.kind.as_str(),
        "vllm_kv_cache" | "vllm_startup_memory"
    );
    if fixed {
        return;
    }
    if root.signature.interrupts
        && let Some(phase) = &root.signature.phase
    {
        phase.clone_into(&mut incident.phase);
        return;
    }
    let loop_phase = |e: &&&LogEvent| e.phase.is_some_and(|p| p.weight >= LOOP);
    let related = same.iter().take(CONFIRMATIONS).find(loop_phase);
    let own = root.phase;
    let found = match (own, related.and_then(|e| e.phase)) {
        (Some(own), _) if own.weight >= LOOP => Some(own),
        (_, Some(related)) => Some(related),
        (own, None) => own,
    };
    let frames_speak = found.filter(|f| f.weight > 20 || root.signature.phase.is_none());
    let texts = || {
        std::iter::once(root)
            .chain(same.iter().copied())
            .flat_map(|e| &e.texts)
    };
    let message = || texts().find_map(|t| phase::in_message(t));
    let phase = frames_speak
        .map(|f| f.phase)
        .or_else(|| message().map(|f| f.phase))
        .or(root.user.as_ref().and_then(|user| user.phase.as_deref()))
        .or(root.ambient.filter(|f| f.weight > 20).map(|f| f.phase))
        .or(root.signature.phase.as_deref())
        .or(kind::known(&incident.kind).and_then(|row| row.phase.as_deref()))
        .or(root.ambient.map(|f| f.phase));
    if let Some(phase) = phase {
        incident.phase = phase.to_owned();
    }
}

fn remarks(findings: &Findings<'_>) -> Vec<Evidence> {
    let of = |keep: &dyn Fn(&LogEvent) -> bool, role| {
        findings
            .events()
            .filter(|e| keep(e))
            .take(REMARKS)
            .map(|e| findings.evidence(e, role))
            .collect::<Vec<_>>()
    };
    let mut all = of(
        &|e| e.is_cause() && e.survived && e.signature.weight >= weight::SCHEDULER,
        EvidenceRole::Survived,
    );
    all.extend(of(
        &|e| e.signature.role == LineRole::Advice,
        EvidenceRole::Advice,
    ));
    all
}

/// What is neither the root nor says the same: the processes that were dragged along.
fn consequences(findings: &Findings<'_>, root: &LogEvent, same: &[&LogEvent]) -> Vec<Evidence> {
    let mut seen: Vec<&str> = Vec::new();
    findings
        .events()
        .filter(|e| e.is_candidate() && e.order != root.order)
        .filter(|e| !same.iter().any(|s| s.order == e.order))
        .filter(|e| {
            let twice = seen.iter().filter(|id| **id == e.signature.id).count() < 2;
            seen.push(&e.signature.id);
            twice
        })
        .take(CONSEQUENCES)
        .map(|e| findings.evidence(e, EvidenceRole::Consequence))
        .collect()
}
