//! An incident as the expressions of a ladder see it.

use minijinja::Value as Jinja;

use super::decision::Skipped;
use super::evidence::fatal_phases;
use super::remedies::{Remedies, class};
use super::said::{evaluates, free_share, is_first, sampler, spare, total, warms_up_sampler};
use super::{bug, engine_room};
use crate::core::recipe::{Knob, Preset, Recipe, RungSpec, Shaper, expr::Scope};
use oomctl_base::units::GIB;
use oomctl_base::{Problem, Role, nearest, word_list};
use oomctl_diagnose::{Class, EngineCache, Incident, KnownBug};
use oomctl_memory::{Phase, Spec};

/// Phases in which a knob can act on the memory of a GPU: those of `Incident::phase` that are about it.
const PHASES: [&str; 18] = word_list(
    "init load preparation kv_cache cuda_graph rollout wake_up weight_sync old_logprob ref_logprob critic
     actor_update forward backward optimizer_step checkpoint eval nccl",
);

/// A failure, or none, with what expressions see of it.
pub(super) struct FailureContext {
    /// What kind it is; without one the ladder answers a failure of the GPU.
    pub class: Class,
    /// Bugs that it certainly is.
    pub bugs: Vec<KnownBug>,
    /// What it names as its remedy.
    pub remedies: Remedies,
    /// The memory model's phases in which it failed; none where the text did not tell.
    pub fatal: &'static [Phase],
    phase: String,
    /// Share of the GPU that lay idle beyond the request that failed, free or reserved.
    pub spare: Option<f64>,
    /// Share of the GPU that was free when an engine started and wanted more.
    free_share: Option<f64>,
    /// What an engine says of its cache.
    pub cache: Option<EngineCache>,
    /// Part of its requests with which an engine's sampler would have had room, where the message has its figures.
    pub sampler: Option<f64>,
    /// Part of the request that failed which an evaluation had room for. It keeps nothing for a backward pass, so a smaller batch
    /// frees little beside its part of the request.
    pub evaluates: Option<f64>,
    /// An engine of the job kept its memory.
    pub awake: bool,
    /// It died in a layer of the model.
    pub in_layer: bool,
    /// It died in an evaluation whose batches are not those of training.
    pub own_loader: bool,
    /// A process was killed, and only what its own message names is tried.
    pub guessed: bool,
    /// Why another way to train is no answer, where memory fills up whatever a step needs.
    pub in_vain: Option<&'static str>,
    /// The GPU's memory, where the message has it, in bytes.
    total: Option<f64>,
    /// The same where no step of the training was made before.
    pub total_at_first: Option<f64>,
    value: Jinja,
}

/// Share of a GPU that is left free beside an engine's share which was too large.
const SHARE_MARGIN: f64 = 0.02;
/// Share of a GPU that an engine gets beyond what its cache was short of: what it measures of itself varies by about as much.
const CACHE_MARGIN: f64 = 0.01;
/// Bytes of the largest GPUs: MI355X and B300 have 288 GB.
const LARGEST_GPU: f64 = 288e9;

/// What the configuration knows of an engine, in bytes.
pub(super) struct EngineBytes<'s> {
    /// What a GPU has.
    pub gpu: Option<f64>,
    /// The engine's swap space in host memory.
    pub swap: Option<f64>,
    /// What the memory model knows.
    pub spec: Option<&'s Spec>,
}

/// A share of the GPU whose cache holds one sequence.
#[derive(Clone, Copy)]
pub(super) struct ShareForOne {
    /// The share.
    pub share: f64,
    /// It is that, and not only the least that it can be.
    pub exact: bool,
}

/// Why training is not to change for an incident, whose memory goes elsewhere.
fn in_vain(incident: &Incident) -> Option<&'static str> {
    let others = incident.co_tenant_bytes.zip(incident.total_bytes);
    let others = others.filter(|(theirs, total)| theirs.0 > total.0 / 2);
    // Only a difference between two figures may be the job's own.
    let used = || incident.total_bytes?.0.checked_sub(incident.free_bytes?.0);
    let gap = || used()?.checked_sub(incident.reserved_bytes?.0);
    match (incident.leaks(), &incident.own_code[..], others) {
        (true, [], _) => Some("changes training, and against a leak it only delays the end"),
        (true, ..) => Some("changes training, and the code would keep as much memory all the same"),
        (false, _, Some((theirs, _))) if gap() != Some(theirs.0) => {
            Some("changes training, and other processes hold more than half of the GPU")
        }
        _ => None,
    }
}

impl FailureContext {
    /// Of an incident.
    pub fn of(incident: Option<&Incident>) -> Self {
        Self {
            class: incident.map_or(Class::GpuOom, |i| i.class),
            bugs: bug::certain(incident),
            remedies: Remedies::of(incident),
            fatal: incident.map_or(&[], fatal_phases),
            phase: incident.map_or_else(String::new, phase),
            spare: incident.and_then(spare),
            free_share: incident.and_then(free_share),
            cache: incident.and_then(|i| i.engine_cache),
            sampler: incident.and_then(sampler),
            evaluates: incident.and_then(evaluates),
            awake: incident.is_some_and(|i| i.engine_awake),
            in_layer: incident.is_some_and(|i| i.in_layer),
            own_loader: incident.is_some_and(|i| i.own_loader),
            guessed: incident.is_some_and(|i| i.is_bare_kill() && i.says_what_helps()),
            in_vain: incident.and_then(in_vain),
            total: incident.and_then(total),
            total_at_first: incident.filter(|i| is_first(i)).and_then(total),
            value: to_jinja(incident),
        }
    }

    /// The phase in which memory of the GPU ran out, where the log tells one.
    pub fn phase(&self) -> Option<&str> {
        let of_gpu = matches!(self.class, Class::GpuOom | Class::EngineMemory);
        let phase = self.phase.as_str();
        (of_gpu && PHASES.contains(&phase)).then_some(phase)
    }

    /// The same for the end of a message.
    pub fn place(&self) -> String {
        let phase = self.phase();
        phase.map_or_else(String::new, |phase| format!(" in {phase}"))
    }

    /// Whether a knob changes what the GPU needs where it failed, as its preset says; `None` where nothing says that.
    pub fn acts(&self, knob: &Knob) -> Option<bool> {
        if !matches!(self.class, Class::GpuOom | Class::EngineMemory) {
            return None;
        }
        if self.proves_idle(knob) {
            return Some(false);
        }
        // An engine that sleeps holds nothing there; this one did not.
        if self.awake && knob.role == Some(Role::RolloutMemoryFraction) {
            return Some(true);
        }
        let phases = knob.acts_on.as_ref()?;
        match self.phase() {
            Some(phase) => Some(phases.iter().any(|p| p == phase)),
            None if phases.is_empty() => Some(false),
            None => None,
        }
    }

    /// Whether the frames show that a knob frees nothing where it died, whatever a model expects: a loss without logits frees
    /// nothing in a layer, where there are none, and a batch of training nothing in an evaluation that has a loader of its own.
    pub fn proves_idle(&self, knob: &Knob) -> bool {
        let of_training = [Role::TrainBatch, Role::MicroBatch, Role::GradAccumulation];
        let of_lengths = [
            Role::ResponseLength,
            Role::PromptLength,
            Role::SequenceLength,
        ];
        // A cache that found no room takes its share of the GPU, however long the sequences are.
        let of_cache = self.class == Class::GpuOom && self.phase == "kv_cache";
        self.in_layer && knob.role == Some(Role::FusedLoss)
            || of_cache && knob.role.is_some_and(|role| of_lengths.contains(&role))
            || self.own_loader && knob.role.is_some_and(|role| of_training.contains(&role))
    }

    /// The largest share of the GPU with which an engine would have started, where the message has its figures.
    pub fn share(&self) -> Option<f64> {
        let share = self.free_share? - SHARE_MARGIN;
        Some((share * 100.0).floor() / 100.0)
    }

    /// The smallest share of the GPU whose cache holds one sequence, from the share that the attempt had; where the log, or
    /// else the memory model, knows the bytes. Of a GPU of unknown size the share that the largest one would need.
    pub fn share_for_one(&self, now: f64, known: &EngineBytes<'_>) -> Option<ShareForOne> {
        let cache = self.cache?;
        let (wanted, held) = (cache.wanted_tokens as f64, cache.held_tokens);
        let token = || {
            let bytes = cache.cache_bytes.map(|b| b.gib() * GIB).zip(held);
            let swapped = known.swap.zip(cache.swapped_tokens);
            let said = bytes.or(swapped).filter(|(_, tokens)| *tokens > 0);
            let said = said.map(|(bytes, tokens)| bytes / tokens as f64);
            said.or_else(|| engine_room::token_bytes(known.spec?))
        };
        let missing = cache.missing_bytes.map(|b| b.gib() * GIB);
        let bytes = missing.or_else(|| Some((wanted - held? as f64) * token()?))?;
        let total = self.total.or(known.gpu).filter(|total| *total > 0.0);
        let share = now + bytes / total.unwrap_or(LARGEST_GPU) + CACHE_MARGIN;
        Some(ShareForOne {
            // Just as a decimal number, and not the next one above for an error in its last bit.
            share: (share * 100.0 - 1e-6).ceil() / 100.0,
            exact: total.is_some(),
        })
    }

    /// The scope in which an expression sees it.
    pub fn within(&self, scope: &Scope) -> Scope {
        let mut scope = scope.clone();
        scope.set("incident", self.value.clone());
        scope
    }
}

/// The phase of an incident. Weights are loaded before the first step: behind one, a line that named the load is an old one.
fn phase(incident: &Incident) -> String {
    let old = incident.phase == "load" && incident.step.is_some_and(|step| step > 0);
    match old {
        true => String::new(),
        false => incident.phase.clone(),
    }
}

/// `incident` for expressions: every field there is, missing ones `none`.
pub(super) fn to_jinja(incident: Option<&Incident>) -> Jinja {
    const OPTIONAL: [&str; 10] = word_list(
        "device_index rank requested_bytes total_bytes free_bytes allocated_bytes reserved_bytes
         reserved_unallocated_bytes co_tenant_bytes step",
    );
    let Some(incident) = incident else {
        return Jinja::from(());
    };
    let Ok(serde_json::Value::Object(mut map)) = serde_json::to_value(incident) else {
        return Jinja::from(());
    };
    for name in OPTIONAL.into_iter().chain([
        "first_step",
        "host_total_bytes",
        "innermost",
        "engine_cache",
    ]) {
        map.entry(name).or_insert(serde_json::Value::Null);
    }
    map.insert("sampler".to_owned(), warms_up_sampler(incident).into());
    map.insert("engine_awake".to_owned(), incident.engine_awake.into());
    map.insert(
        "own_code".to_owned(),
        (!incident.own_code.is_empty()).into(),
    );
    Jinja::from(minijinja::value::Serde(map))
}

/// Whether memory of some kind ran out.
pub(super) fn of_memory(class: Class) -> bool {
    matches!(class, Class::GpuOom | Class::EngineMemory | Class::HostOom)
}

/// Why a rung is not for this configuration: by `when` with the incident, or by what is proven `useless` with the
/// other one.
pub(super) fn objection(
    shaper: &Shaper<'_>,
    scope: &Scope,
    rung: &RungSpec,
    failure: &FailureContext,
    useless_for: &FailureContext,
) -> Option<String> {
    let holds = |text: &str, failure: &FailureContext| {
        shaper.expressions.holds(text, &failure.within(scope))
    };
    match rung.when.as_deref().map(|text| holds(text, failure)) {
        Some(Ok(false)) => {
            let when = rung.when.as_deref().unwrap_or_default();
            let text = rung.when_text.as_ref();
            let text = text.map(|text| text.of(when, |part| holds(part, failure) == Ok(true)));
            return Some(text.unwrap_or_else(|| Skipped::NOT_HERE.to_owned()));
        }
        Some(Err(what)) => return Some(what),
        _ => {}
    }
    let in_vain = bug::objection(shaper.preset(), rung, &useless_for.bugs);
    in_vain.or_else(|| {
        rung.useless
            .iter()
            .find_map(|u| match holds(&u.when, useless_for) {
                Ok(true) => Some(u.because.clone()),
                Ok(false) => None,
                Err(what) => Some(what),
            })
    })
}

/// What the remark of a rung begins with whose effect is unknown; behind it stands why.
pub const DOUBTED: &str = "whether training stays the same is unknown: ";

/// Why a rung is not taken.
pub(super) enum RungObjection {
    /// It does not help, or is not to be taken.
    Sure(String),
    /// Whether it helps is unknown.
    Open(String),
}

impl RungObjection {
    /// The reason.
    pub fn text(self) -> String {
        match self {
            Self::Sure(why) | Self::Open(why) => why,
        }
    }
}

/// The same where knobs may be not known: the answer must be one for every value that they may have.
pub(super) fn objection_anyway(
    shaper: &Shaper<'_>,
    recipe: &Recipe,
    scope: &Scope,
    rung: &RungSpec,
    failure: &FailureContext,
) -> Option<RungObjection> {
    let told = |scope: &Scope| objection(shaper, scope, rung, failure, failure);
    let texts = rung.when.iter().chain(rung.useless.iter().map(|u| &u.when));
    let texts: Vec<&str> = texts.map(String::as_str).collect();
    let Some(first) = shaper.unknown_in(recipe, &texts) else {
        return told(scope).map(RungObjection::Sure);
    };
    let scopes = shaper.scopes(recipe, scope, &texts);
    let mut all: Vec<_> = scopes.unwrap_or_default().iter().map(told).collect();
    all.dedup();
    // It helps for none of the values, for one reason or another.
    if let Some(reasons) = all.iter().cloned().collect::<Option<Vec<String>>>()
        && !reasons.is_empty()
    {
        return Some(RungObjection::Sure(reasons.join(", or ")));
    }
    match all.as_slice() {
        [_] => None,
        _ => {
            let of_training = rung.useless.iter().any(|u| {
                u.changes_training && shaper.unknown_in(recipe, &[u.when.as_str()]).is_some()
            });
            let open = |text: &str| {
                let scopes = shaper.scopes(recipe, scope, &[text])?;
                let holds = |s: &Scope| shaper.expressions.holds(text, &failure.within(s));
                let mut answers = scopes.iter().map(holds);
                let one = answers.next()?;
                answers
                    .any(|other| other != one)
                    .then(|| shaper.unknown_in(recipe, &[text]))?
            };
            let name = texts.iter().find_map(|text| open(text));
            let name = name.unwrap_or(first);
            Some(RungObjection::Open(match of_training {
                true => format!("{DOUBTED}it depends on {name}, which is unknown"),
                false => format!("whether it helps depends on {name}, which is unknown"),
            }))
        }
    }
}

/// Knobs whose `acts_on` holds names of no phase.
pub fn check_phases(preset: &Preset) -> Vec<Problem> {
    let unknown = |knob: &Knob| {
        let name = knob
            .acts_on
            .iter()
            .flatten()
            .find(|p| !PHASES.contains(&p.as_str()))?;
        let what = format!("knob {}: acts_on names no phase {name:?}", knob.name);
        Some(match nearest(name, PHASES.into_iter()) {
            Some(near) => Problem::new(what).hint(format!("did you mean {near}?")),
            None => Problem::new(what).hint(format!("phases: {}", PHASES.join(", "))),
        })
    };
    preset.knobs.iter().filter_map(unknown).collect()
}

/// Rungs whose `answers` hold names of no class.
pub fn check_answers(ladder: &[RungSpec]) -> Vec<Problem> {
    const CLASSES: [&str; 5] = ["gpu_oom", "engine_memory", "host_oom", "shm", "not_oom"];
    let unknown = |rung: &RungSpec| {
        let name = rung.answers.iter().find(|a| class(a).is_none())?;
        let what = format!(
            "rung {}: there is no class of failure named {name:?}",
            rung.rung
        );
        Some(match nearest(name, CLASSES.into_iter()) {
            Some(near) => Problem::new(what).hint(format!("did you mean {near}?")),
            None => Problem::new(what).hint(format!("classes: {}", CLASSES.join(", "))),
        })
    };
    ladder.iter().filter_map(unknown).collect()
}
