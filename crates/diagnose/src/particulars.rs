//! What an incident tells beyond its kind: the figures, where the program was, what helps.

use super::advice::{Advice, Remedy, remedies};
use super::class::Class;
use super::clean::clip;
use super::course::CoursePattern;
use super::engine_cache::EngineCache;
use super::events::LogEvent;
use super::figures::MemoryFigures;
use super::findings::{Findings, is_memory};
use super::frame::Frame;
use super::incident::Incident;
use super::kind;
use super::prefix::body_of;
use super::signatures::UserSignature;
use super::tenants::{self, Sharing};
use oomctl_base::units::Bytes;

/// Percent of a GPU that must lie idle for fragmentation to be the cause: of eight public logs whose idle memory would have
/// been enough five had 0.02 to 2.1 % and three 4 to 15 %, and one where defragmenting was the accepted fix 18 %.
const IDLE: u64 = 3;

/// The figures of a failure of memory that was survived, or belongs to an earlier run in the same file.
pub(super) fn survived_figures(incident: &mut Incident, findings: &Findings<'_>) {
    let survived = |e: &&LogEvent| e.is_cause() && is_memory(e) && (e.survived || e.handled);
    let told = findings.events().filter(survived).find_map(|e| {
        let figures = e.figures();
        figures.requested.is_some().then_some(figures)
    });
    if let Some(told) = told {
        put(incident, &told);
        incident
            .notes
            .push("the figures are from an earlier failure that the job survived".to_owned());
    }
}

/// What a signature of the project's own adds.
pub(super) fn as_the_project_says(incident: &mut Incident, user: &UserSignature) {
    if kind::known(&user.kind).is_none() {
        user.kind.clone_into(&mut incident.kind);
        incident.phase = "unknown".to_owned();
        incident.retryable_unchanged = None;
    }
    incident.retryable_unchanged = user.retryable_unchanged.or(incident.retryable_unchanged);
    incident.helps.clone_from(&user.helps);
    incident.worse.clone_from(&user.worse);
}

/// Where the program was when it failed.
pub(super) fn program(incident: &mut Incident, root: &LogEvent) {
    if root.in_traceback {
        let message = root.texts.first().map(|text| body_of(text));
        incident.exception = message.map(|m| clip(m.trim()));
    }
    incident.frame.clone_from(&root.frame);
    incident.own_frames.clone_from(&root.own_frames);
}

/// A remark on a backward pass that keeps its graph.
pub(super) fn retains(incident: &Incident) -> Option<String> {
    let frame = incident.frame.as_ref()?;
    let keeps = frame.code.contains("retain_graph=True") && incident.class == Class::GpuOom;
    keeps.then(|| {
        format!("`retain_graph=True` at {frame} keeps the graph after the backward pass: leave it out, unless a second pass needs it")
    })
}

/// Fills in what helps against the incident's kind, where its signature has not said it.
pub(super) fn advise(incident: &mut Incident) {
    if incident.helps.is_empty() && incident.worse.is_empty() {
        (incident.helps, incident.worse) = advised(incident);
    }
}

/// What the rows for an incident say: what helps, and what makes it worse.
pub(super) fn advised(incident: &Incident) -> (Vec<String>, Vec<String>) {
    let rows = remedies(incident);
    let words = |of: fn(&Advice) -> &Vec<Remedy>| {
        let mut said: Vec<String> = Vec::new();
        for remedy in rows.iter().flat_map(|row| of(row)) {
            if remedy.concerns(incident) && !said.contains(&remedy.text) {
                said.push(remedy.text.clone());
            }
        }
        said
    };
    let (mut helps, mut worse) = (words(|row| &row.helps), words(|row| &row.worse));
    if let Some(held) = incident.co_tenant_bytes {
        if fits_alone(incident, held) {
            helps.clear();
            worse.insert(0, SHRINKING.to_owned());
        }
        helps.insert(0, elsewhere(held));
    }
    (helps, worse)
}

/// Would what was requested have fitted without what others held?
fn fits_alone(incident: &Incident, held: Bytes) -> bool {
    let free = incident.free_bytes.map_or(0, |free| free.0);
    let requested = incident.requested_bytes;
    requested.is_none_or(|requested| free.saturating_add(held.0) >= requested.0)
}

/// What is worse where others hold the memory.
const SHRINKING: &str = "shrinking our own job";

fn elsewhere(held: Bytes) -> String {
    format!("use another GPU or node: another process holds {held} of this one")
}

impl Incident {
    /// Takes back that strangers hold memory of the GPU: the job has an inference engine on it, which can be what holds it.
    pub fn may_be_its_engine(&mut self) {
        let mut held = None;
        self.advised_after(|incident| {
            incident.engine = true;
            incident.does_not_grow();
            held = incident.co_tenant_bytes.take();
        });
        let Some(held) = held else {
            return;
        };
        self.notes.push(format!(
            "{held} of the GPU belong to other processes or to memory outside PyTorch; perhaps this job's own inference engine"
        ));
    }

    /// Takes note that what other processes hold is the share that the job gives its own engine.
    pub fn engine_is_awake(&mut self, share: f64) {
        self.advised_after(|incident| incident.engine_awake = true);
        self.notes.push(format!(
            "other processes hold as much as this job's inference engine gets ({share} of the GPU): it did not sleep"
        ));
    }

    /// Takes back that strangers hold memory of the GPU: each rank of the job loads a checkpoint there.
    pub fn holds_what_its_ranks_load(&mut self) {
        let mut held = None;
        self.advised_after(|incident| held = incident.co_tenant_bytes.take());
        if let Some(held) = held {
            self.notes.push(format!(
                "other processes hold {held} of this GPU; each rank of this job that loads the checkpoint onto GPU 0 is one of them"
            ));
        }
    }

    /// Takes note that weights, gradients and the optimizer's states alone need `least` of each GPU, which has less.
    pub fn exceeded_by_states(&mut self, least: Bytes) {
        self.advised_after(|incident| incident.states_bytes = Some(least));
        self.notes.push(format!(
            "weights, gradients and the optimizer's states alone need at least {least} of each GPU"
        ));
    }

    /// Takes note that this frame of it belongs to an evaluation of the program, whose data are its own unless they may come in batches
    /// of training's size.
    pub fn died_in_evaluation(&mut self, frame: &Frame, own_data: bool) {
        let note = format!("{frame} belongs to an evaluation: no batch of training was in flight");
        self.advised_after(|incident| {
            "eval".clone_into(&mut incident.phase);
            incident.does_not_grow();
            incident.own_loader |= own_data;
        });
        self.notes.push(note);
    }

    /// Takes note that the job has one GPU: no process drives several.
    pub fn has_one_gpu(&mut self) {
        self.advised_after(|incident| incident.data_parallel = false);
    }

    /// Takes note that the job recomputes activations already: nobody has to turn that on.
    pub fn recomputes_already(&mut self) {
        for help in &mut self.helps {
            if let Some(rest) = help.strip_prefix("gradient checkpointing; ") {
                *help = rest.to_owned();
            }
        }
    }

    /// Takes back that memory may grow, where something else explains the failure.
    fn does_not_grow(&mut self) {
        self.course.take_if(|c| c.pattern == CoursePattern::Growth);
    }

    /// A change, and what is advised after it. What a project's own signature says stays.
    fn advised_after(&mut self, change: impl FnOnce(&mut Self)) {
        let before = advised(self);
        change(self);
        if before == (self.helps.clone(), self.worse.clone()) {
            (self.helps, self.worse) = advised(self);
        }
    }
}

/// The root's figures, or those of the next message that says the same.
pub(super) fn figures(
    incident: &mut Incident,
    findings: &Findings<'_>,
    root: &LogEvent,
    same: &[&LogEvent],
) {
    let mut figures = root.figures();
    if figures.is_empty() || (figures.requested.is_none() && figures.total.is_none()) {
        let fuller = same
            .iter()
            .filter(|e| root.rank.is_none() || e.rank.is_none() || e.rank == root.rank)
            .map(|e| e.figures())
            .find(|f| f.requested.is_some());
        if let Some(fuller) = fuller {
            incident.notes.push(
                "the first message has no figures; these are from the next equal message"
                    .to_owned(),
            );
            figures = MemoryFigures {
                device: figures.device.or(fuller.device),
                ..fuller
            };
        }
    }
    put(incident, &figures);
    let mut messages = [root].into_iter().chain(same.iter().copied());
    let started = &findings.ours.cache;
    let refused = messages.find_map(|e| EngineCache::read(&e.texts, started));
    incident.engine_cache = refused.or_else(|| started.made());
    let unallocated = figures.reserved_unallocated.or_else(|| {
        Some(Bytes(
            figures.reserved?.0.checked_sub(figures.allocated?.0)?,
        ))
    });
    incident.fragmentation = unallocated.is_some_and(|idle| is_fragmented(idle, &figures));
    let mut strangers = None;
    match tenants::sharing(&figures, root.rank, findings.ours) {
        Sharing::Nobody => {}
        Sharing::Strangers(bytes) => {
            strangers = Some(bytes);
            incident.retryable_unchanged = None;
        }
        Sharing::Ranks(note) => {
            incident.ranks_share_gpu = true;
            incident.notes.push(note);
        }
        Sharing::Unclear(note) => incident.notes.push(note),
    }
    incident.beside_bytes = tenants::beside(&figures, findings.ours).or(strangers);
    incident.co_tenant_bytes = strangers;
    incident.notes.extend(figures.notes());
}

/// What lies idle is at least what was asked for, and too much of the GPU to be the rest that every cache has.
fn is_fragmented(idle: Bytes, figures: &MemoryFigures) -> bool {
    let wanted = figures.requested.filter(|wanted| wanted.0 > 0);
    let enough = wanted.is_some_and(|wanted| idle >= wanted);
    // More than there is proves nothing.
    let possible = figures.total.is_none_or(|all| idle <= all);
    let much = figures.total.is_none_or(|all| idle.0 / IDLE >= all.0 / 100);
    enough && much && possible
}

/// Figures as printed.
fn put(incident: &mut Incident, figures: &MemoryFigures) {
    incident.device_index = figures.device;
    incident.requested_bytes = figures.requested;
    incident.total_bytes = figures.total;
    incident.free_bytes = figures.free;
    incident.allocated_bytes = figures.allocated;
    incident.reserved_bytes = figures.reserved_total();
    incident.reserved_unallocated_bytes = figures.reserved_unallocated;
}
