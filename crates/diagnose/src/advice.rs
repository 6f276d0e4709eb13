//! What helps against a failure and what makes it worse: for people in words, for the ladder by the roles of knobs.

use std::sync::LazyLock;

use serde::Deserialize;

use super::class::Class;
use super::course::{CoursePattern, MemoryCourse, Pool};
use super::evidence::{Evidence, EvidenceRole};
use super::incident::Incident;
use super::snapshot::{MemoryOwner, Snapshot};
use super::tables::{read, table};
use super::{kind, replicas, signatures};
use oomctl_base::word_list;

/// Rows in the order in which they count.
static ROWS: LazyLock<Vec<Advice>> = LazyLock::new(|| read(table!("remedies")));

/// The name of the row for memory that is reserved and cannot be used.
const FRAGMENTATION: &str = "fragmentation";

/// The name of the row for one request that no other memory makes room for.
const ONE_TENSOR: &str = "one_tensor";

/// Percent of a GPU from which on a request leaves no room for anything else.
const WHOLE: u64 = 90;

/// The name of the row for logits that ran out, by the frames.
const LOGITS: &str = "logits";

/// The name of the row for attention scores that ran out, by the frames.
const ATTENTION_SCORES: &str = "attention_scores";

/// The name of the row for weights, gradients and states that alone need more than a GPU has.
const STATES: &str = "too_large_states";
/// The row of an engine that keeps its memory while the models train.
const AWAKE: &str = "engine_awake";
/// The row of ranks that hold memory on the same GPU.
const RANKS: &str = "ranks_share_gpu";

/// The kind whose rows say what helps in each phase.
const ORDINARY: &str = "cuda_oom";

/// Kinds whose message says no more than that the GPU had no memory left.
const PLAIN: [&str; 3] = ["cuda_driver_oom", "hip_oom", "device_oom"];

/// The names of the rows for whom a snapshot of the GPU shows to hold it.
const HELD: [(MemoryOwner, &str); 2] = [
    (MemoryOwner::Logits, "held_by_logits"),
    (MemoryOwner::Optimizer, "held_by_optimizer"),
];

/// What is known about remedies of a failure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    /// A signature, or a kind of incident.
    pub failure: String,
    /// Phases for which the row holds; empty for all.
    #[serde(default)]
    pub phases: Vec<String>,
    /// What the message says where the row does not hold.
    #[serde(default)]
    pub unless: Option<String>,
    /// What helps, the best first.
    pub helps: Vec<Remedy>,
    /// What makes it worse, or changes nothing.
    #[serde(default)]
    pub worse: Vec<Remedy>,
    /// Where this is from.
    pub source: String,
}

/// Something that can be done.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// For people.
    pub text: String,
    /// Roles of knobs that it raises, or turns on.
    #[serde(default)]
    pub raises: Vec<String>,
    /// Roles of knobs that it lowers, or turns off.
    #[serde(default)]
    pub lowers: Vec<String>,
    /// Roles of knobs: what it does comes before the first rung that raises one of these, where it is none of what comes first.
    #[serde(default)]
    pub ahead_of: Vec<String>,
    /// Among what makes it worse: it only does not help.
    #[serde(default)]
    pub in_vain: bool,
    /// It is about what the GPU is shared with: an inference engine.
    #[serde(default)]
    of_engine: bool,
}

impl Remedy {
    /// Whether people should read it: nothing is said of an engine where there is none.
    pub(super) fn concerns(&self, incident: &Incident) -> bool {
        const SHARED: [&str; 9] = word_list(
            "rollout kv_cache cuda_graph wake_up weight_sync old_logprob ref_logprob critic actor_update",
        );
        !self.of_engine || incident.engine || SHARED.contains(&incident.phase.as_str())
    }
}

/// The rows for an incident: that for what memory did over the steps first, then those for its fragmentation, for who
/// holds the GPU and for what the frames show, where that is known.
pub fn remedies(incident: &Incident) -> Vec<&'static Advice> {
    let fragmented = incident.fragmentation && incident.class == Class::GpuOom;
    let said = incident.evidence.first().map_or("", |e| e.text.as_str());
    let fitting = || {
        ROWS.iter()
            .find(|a| a.failure == FRAGMENTATION && a.fits(said))
    };
    let pieces = fragmented.then(fitting).flatten();
    let phase = &incident.phase;
    let states = incident.states_bytes.and_then(|_| row(STATES, phase));
    let own = of_the_message(incident)
        .or(states)
        .or_else(|| wants_a_gpu(incident).then(|| row(ONE_TENSOR, phase))?)
        .or_else(|| confirmed(incident))
        .or_else(|| row_of_phase(&incident.kind, phase))
        .or_else(|| {
            PLAIN
                .contains(&incident.kind.as_str())
                .then(|| row_of_phase(ORDINARY, phase))?
        })
        .or_else(|| row(&incident.kind, phase));
    // Token budgets are about a GPU.
    let answers = |c: &&MemoryCourse| {
        let grows = matches!(c.pattern, CoursePattern::Leak | CoursePattern::Growth);
        grows || c.memory == Pool::Gpu
    };
    let course = incident.course.as_ref().filter(answers);
    let course = course.and_then(|course| row(course.row(), phase));
    let chief = incident.snapshot.as_ref().and_then(Snapshot::chief);
    let held = HELD.iter().find(|(owner, _)| Some(*owner) == chief);
    let held = held.filter(|_| incident.class == Class::GpuOom);
    let held = held.and_then(|(_, name)| row(name, ""));
    let by_frames = [
        (incident.logits, LOGITS),
        (incident.attention_scores, ATTENTION_SCORES),
    ];
    let by_frames = by_frames.into_iter().filter(|(shown, _)| *shown);
    let by_frames = by_frames.filter(|_| incident.class == Class::GpuOom);
    let by_frames = by_frames.filter_map(|(_, name)| row(name, phase));
    let awake = incident.engine_awake.then(|| row(AWAKE, phase)).flatten();
    let ranks = incident.ranks_share_gpu.then(|| row(RANKS, phase));
    let known = course
        .into_iter()
        .chain(awake)
        .chain(ranks.flatten())
        .chain(pieces)
        .chain(held)
        .chain(by_frames);
    known.chain(own).collect()
}

/// Does one request want about as much as the GPU has, or more?
fn wants_a_gpu(incident: &Incident) -> bool {
    incident.asks_for(WHOLE, 100) && incident.class == Class::GpuOom
}

impl Advice {
    /// Whether a message does not rule the row out.
    fn fits(&self, said: &str) -> bool {
        self.unless
            .as_ref()
            .is_none_or(|words| !said.contains(words))
    }
}

/// The row for the very message, where there is one.
fn of_the_message(incident: &Incident) -> Option<&'static Advice> {
    let root = incident.evidence.first();
    let root = root.filter(|e| matches!(e.role, EvidenceRole::Root | EvidenceRole::Survived))?;
    if incident.data_parallel && incident.class == Class::GpuOom {
        return row(replicas::ADVICE, &incident.phase);
    }
    let own = root.signature != incident.kind;
    row(&root.signature, &incident.phase).filter(|_| own)
}

impl Incident {
    /// Its own message, not only its kind, has remedies that are known.
    pub fn says_what_helps(&self) -> bool {
        of_the_message(self).is_some()
    }
}

/// The rows for other failures of memory that the same log shows, of another kind than the root.
pub fn others(incident: &Incident) -> Vec<&'static Advice> {
    let shown = incident.evidence.iter().chain(&incident.consequences);
    let shown = shown.filter(|e| {
        matches!(
            e.role,
            EvidenceRole::Confirmation | EvidenceRole::Consequence
        )
    });
    let other = |e: &Evidence| {
        let signature = signatures::all().find(|s| s.id == e.signature)?;
        let kind = kind::known(&signature.kind)?;
        let differs = kind.name != incident.kind && kind.class != Class::NotOom;
        let advice = row(&signature.id, "").or_else(|| row(&kind.name, ""));
        advice.filter(|_| differs)
    };
    shown.filter_map(other).collect()
}

/// The row of a line that says of the root more than its own does, as an engine's last words on an out-of-memory of PyTorch.
fn confirmed(incident: &Incident) -> Option<&'static Advice> {
    let mut lines = incident.evidence.iter();
    lines.find_map(|e| {
        let same = signatures::all().any(|s| s.id == e.signature && s.kind == incident.kind);
        let confirms = e.role == EvidenceRole::Confirmation && same;
        row(&e.signature, &incident.phase).filter(|_| confirms)
    })
}

fn row(name: &str, phase: &str) -> Option<&'static Advice> {
    let holds = |a: &&Advice| {
        a.failure == name && (a.phases.is_empty() || a.phases.iter().any(|p| p == phase))
    };
    ROWS.iter().find(holds)
}

/// The row for a failure in just this phase.
fn row_of_phase(name: &str, phase: &str) -> Option<&'static Advice> {
    row(name, phase).filter(|advice| !advice.phases.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::kind::KINDS;
    use super::*;
    use oomctl_base::units::Bytes;

    #[test]
    fn every_row_is_about_something_and_every_lack_of_memory_has_one() {
        for advice in ROWS.iter() {
            let name = advice.failure.as_str();
            let kind = KINDS.iter().any(|k| k.name == name);
            let exception = crate::exceptions::named(name, "config").is_some();
            let signature = exception || signatures::all().any(|s| s.id == name);
            let course = [
                CoursePattern::Leak,
                CoursePattern::GrowingResponses,
                CoursePattern::Outlier,
                CoursePattern::Growth,
            ];
            let course = course.iter().any(|pattern| pattern.word() == name);
            let course = course || name == "growth_of_host";
            let shown = [
                FRAGMENTATION,
                LOGITS,
                ATTENTION_SCORES,
                ONE_TENSOR,
                STATES,
                AWAKE,
                RANKS,
            ]
            .contains(&name)
                || HELD.iter().any(|(_, held)| *held == name);
            assert!(kind || signature || course || shown, "{name}");
            assert!(!advice.helps.is_empty() && !advice.source.is_empty());
        }
        assert!(!ROWS.is_empty());
        let none = ["code_bug", "cancelled", "other", "no_failure"];
        for kind in KINDS.iter().filter(|k| !none.contains(&k.name.as_str())) {
            assert!(row(&kind.name, "").is_some(), "{}", kind.name);
        }
    }

    #[test]
    fn the_engines_share_has_the_sign_of_its_pool() {
        let share = ["rollout_memory_fraction".to_owned()];
        let signs = |name: &str| {
            let helps = || row(name, "").into_iter().flat_map(|a| &a.helps);
            let any = |of: fn(&Remedy) -> &Vec<String>| helps().any(|r| *of(r) == share);
            (any(|r| &r.raises), any(|r| &r.lowers))
        };
        assert_eq!(signs("vllm_kv_cache"), (true, false));
        assert_eq!(signs("vllm_cumem_oom"), (false, true));
        assert_eq!(signs("sglang_memory"), (true, false));
        assert_eq!(signs("sglang_pass_oom"), (false, true));
    }

    #[test]
    fn a_request_as_large_as_the_gpu_is_answered_by_what_makes_it_so_large() {
        let rows = |wanted: f64, phase: &str| {
            let mut incident = Incident::bare("cuda_oom", Class::GpuOom);
            (incident.requested_bytes, incident.total_bytes) =
                (Some(Bytes::from_gib(wanted)), Some(Bytes::from_gib(79.33)));
            incident.phase = phase.to_owned();
            let rows = remedies(&incident).into_iter();
            rows.map(|row| row.failure.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(rows(341.7, "forward"), ["one_tensor"]);
        assert_eq!(rows(78.83, "backward"), ["one_tensor"]);
        assert_eq!(rows(40.0, "forward"), ["cuda_oom"]);
        assert_eq!(rows(78.83, "kv_cache"), ["cuda_oom"]);
        let row = row("one_tensor", "forward").expect("it is in the table");
        let vain = row.worse.iter().flat_map(|r| &r.raises);
        assert!(vain.clone().any(|role| role == "optimizer_offload"));
    }

    #[test]
    fn expandable_segments_are_not_advised_where_pytorch_refuses_them() {
        let advised = |said: &str| {
            let mut incident = Incident::bare("cuda_oom", Class::GpuOom);
            incident.fragmentation = true;
            let mut root = Evidence {
                signature: "torch_cuda_oom".to_owned(),
                role: EvidenceRole::Root,
                file: String::new(),
                line: 1,
                offset: 0,
                text: String::new(),
            };
            said.clone_into(&mut root.text);
            incident.evidence = vec![root];
            let mut roles = remedies(&incident).into_iter().flat_map(|row| &row.helps);
            roles.any(|remedy| remedy.text.contains("CONF=expandable_segments"))
        };
        assert!(advised("GPU 0 has a total capacity of 79.18 GiB"));
        assert!(!advised("7.04 GiB already allocated; 0 bytes free"));
    }

    #[test]
    fn nothing_is_said_of_an_engine_where_there_is_none() {
        let said = |engine: bool, phase: &str| {
            let mut incident = Incident::bare("cuda_oom", Class::GpuOom);
            incident.phase = phase.to_owned();
            incident.engine = engine;
            let (helps, worse) = super::super::particulars::advised(&incident);
            helps
                .iter()
                .chain(&worse)
                .any(|text| text.contains("engine"))
        };
        for phase in ["forward", "unknown"] {
            assert!(!said(false, phase) && said(true, phase), "{phase}");
        }
        assert!(said(false, "actor_update"));
    }

    #[test]
    fn an_engines_last_words_say_more_than_the_out_of_memory_before_them() {
        let line = |signature: &str, role| Evidence {
            signature: signature.to_owned(),
            role,
            file: String::new(),
            line: 1,
            offset: 0,
            text: String::new(),
        };
        let mut incident = Incident::bare("cuda_oom", Class::GpuOom);
        incident.evidence = vec![line("torch_cuda_oom", EvidenceRole::Root)];
        let rows = |incident: &Incident| -> Vec<&str> {
            let rows = remedies(incident).into_iter();
            rows.map(|row| row.failure.as_str()).collect()
        };
        assert_eq!(rows(&incident), ["cuda_oom"]);
        let words = line("vllm_sampler_warmup", EvidenceRole::Confirmation);
        incident.evidence.push(words);
        assert_eq!(rows(&incident), ["vllm_sampler_warmup"]);
        // A failure of another kind behind it is another one.
        incident.evidence[1] = line("vllm_kv_cache", EvidenceRole::Confirmation);
        assert_eq!(rows(&incident), ["cuda_oom"]);
    }

    #[test]
    fn an_out_of_memory_without_figures_is_answered_by_its_phase() {
        let rows = |phase: &str| {
            let mut incident = Incident::bare("cuda_driver_oom", Class::GpuOom);
            incident.phase = phase.to_owned();
            let rows = remedies(&incident).into_iter();
            rows.map(|row| row.failure.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(rows("eval"), ["cuda_oom"]);
        assert_eq!(rows("forward"), ["cuda_oom"]);
        assert_eq!(rows("load"), ["cuda_driver_oom"]);
        assert_eq!(rows("unknown"), ["cuda_driver_oom"]);
    }
}
