//! What `oomctl measure` shows: peaks by phase, who held most, what was read back, and how far to trust it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::closed_form_view::ClosedFormView;
use super::estimate_view::EstimateView;
use super::figures::{gib, in_gib, of_gib};
use super::launch_view::outputs;
use super::style::{BAD, GOOD, NAME, Paint, WARN};
use crate::core::exit::Exit;
use crate::core::measure::{
    PhantomConfidence, PhantomContext, PhantomCurve, PhantomDevice, PhantomFailure, PhantomPeak,
    PhantomRecord, PhantomSite, PhantomSummary,
};
use crate::io::phantom::{PhantomRan, PhantomRun};
use crate::io::program::Outputs;
use oomctl_diagnose::sanitize;
use oomctl_memory::Estimate;

/// Format of the JSON document.
const SCHEMA_VERSION: u32 = 1;
/// Lines of Python that are shown in the text.
const MOST_LINES: usize = 6;
/// The order in which phases are shown.
const PHASES: [&str; 8] = [
    "init",
    "load",
    "old_logprob",
    "ref_logprob",
    "forward",
    "backward",
    "optimizer step",
    "checkpoint",
];

/// Where the measured program prints: our standard output is for the result alone.
pub fn program_output() -> Outputs {
    outputs(true)
}

/// A measurement on phantom GPUs.
#[derive(Serialize, JsonSchema)]
pub struct PhantomView {
    schema_version: u32,
    exit_code: Exit,
    /// Where the figures come from: never a GPU.
    source: &'static str,
    outcome: &'static str,
    reason: Option<String>,
    /// How sure it is, and what makes it less sure; none where nothing was measured.
    trust: Option<PhantomConfidence>,
    gpu: CardView,
    world: u32,
    steps: u64,
    peak: PhantomPeak,
    phases: Vec<PhantomPhase>,
    closed_form: ClosedFormView,
    /// Bytes that are held through a step, at its end.
    held: BTreeMap<String, u64>,
    largest: Vec<PhantomSite>,
    history_complete: Option<bool>,
    over_time: Option<PhantomCurve>,
    reads: Vec<ReadView>,
    attention: BTreeMap<String, u64>,
    failure: Option<PhantomFailure>,
    /// The phase in which it died, as a log tells it: the actor's update of a reinforcement learner is `actor_update`, whose peaks are those of
    /// `forward` and `backward`.
    failed_in: Option<String>,
    torch: Option<String>,
    cuda: Option<String>,
    python: Option<String>,
    torch_was_tried: bool,
    device: Option<PhantomDevice>,
    unknown_calls: Vec<String>,
    replaced: Vec<String>,
    processes: usize,
    host_peak_bytes: u64,
    seconds: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CardView {
    name: String,
    count: u16,
    total_bytes: u64,
    context_bytes: u64,
    context: PhantomContext,
    capability: String,
    processors: u16,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PhantomPhase {
    phase: String,
    #[serde(flatten)]
    peak: PhantomPeak,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ReadView {
    line: String,
    times: u64,
}

impl PhantomView {
    /// The view of a run, of the record that tells most of it, and of what the closed form says.
    pub fn new(
        asked: &PhantomRun,
        ran: &PhantomRan,
        record: PhantomRecord,
        (summary, exit): (&PhantomSummary, Exit),
        said: Result<(EstimateView, Estimate), String>,
    ) -> Self {
        let card = &asked.phantom.card;
        let (outcome, reason) = match summary.fits {
            Some(true) => ("measured", None),
            Some(false) => ("does_not_fit", None),
            None => ("unmeasured", summary.reason.clone()),
        };
        let with_torch = |r: &&PhantomRecord| r.torch.is_some();
        let mut replaced = ran.replaced.clone();
        replaced.extend(record.replaced.iter().cloned());
        Self {
            schema_version: SCHEMA_VERSION,
            exit_code: exit,
            source: "phantom",
            outcome,
            reason,
            trust: summary.trust.clone(),
            gpu: CardView {
                name: card.name.clone(),
                count: asked.phantom.devices,
                total_bytes: card.total_bytes,
                context_bytes: card.context_bytes,
                context: asked.context,
                capability: format!("{}.{}", card.capability.0, card.capability.1),
                processors: card.processors,
            },
            world: asked.world,
            steps: record.steps,
            peak: record.peak(),
            phases: phases(&record),
            closed_form: ClosedFormView::new(said, &record),
            held: record.held.clone(),
            largest: record.largest.clone(),
            history_complete: record.history_complete,
            over_time: summary.over_time.clone(),
            reads: reads(&record),
            attention: record.attention.clone(),
            torch_was_tried: record.tried(),
            failed_in: record.died_in(),
            failure: record.failure,
            torch: record.torch,
            cuda: record.cuda,
            python: record.python,
            device: record.device,
            unknown_calls: ran.unknown_calls.clone(),
            replaced,
            processes: ran.records.iter().filter(with_torch).count(),
            host_peak_bytes: ran.host_peak_bytes,
            seconds: (ran.seconds * 10.0).round() / 10.0,
        }
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = self.verdict();
        if !self.phases.is_empty() {
            self.table(&mut text);
        }
        self.closed_form.write(&mut text);
        self.sites(&mut text);
        self.trust(&mut text);
        text
    }

    fn verdict(&self) -> String {
        let total = gib(self.gpu.total_bytes as f64, 1);
        let peak = gib(self.peak.reserved as f64, 1);
        let card = format!("{} ({} phantom of it)", self.gpu.name, self.gpu.count);
        match (self.outcome, &self.reason) {
            ("measured", _) => format!(
                "{} on {card}: {} reserved at the peak, after {} steps\n",
                Paint(GOOD, "fits"),
                of_gib(peak, total),
                self.steps
            ),
            ("does_not_fit", _) => format!(
                "{} on {card}: {} reserved when memory ran out in {}\n",
                Paint(BAD, "does not fit"),
                of_gib(peak, total),
                self.failed_in.as_deref().unwrap_or("an unknown phase")
            ),
            (_, why) => format!(
                "{}: {}\n",
                Paint(WARN, "not measured"),
                clean(why.as_deref().unwrap_or("the reason is unknown"))
            ),
        }
    }

    fn table(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "\n{:<16}{:>12}{:>12}",
            "phantom peaks", "allocated", "reserved"
        );
        for phase in &self.phases {
            let figure = |bytes: u64| in_gib(gib(bytes as f64, 1));
            let (allocated, reserved) = (figure(phase.peak.allocated), figure(phase.peak.reserved));
            let _ = writeln!(
                text,
                "{:<16}{allocated:>12}{reserved:>12}",
                clean(&phase.phase)
            );
        }
        if let Some(failure) = &self.failure {
            let _ = writeln!(text, "\n{}", clean(&failure.text));
        }
    }

    fn sites(&self, text: &mut String) {
        for (at, site) in self.largest.iter().take(MOST_LINES).enumerate() {
            let name = if at == 0 {
                "\nlargest at the peak\n"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "{}  {:>10}  {} ({} tensors)",
                Paint(NAME, name),
                in_gib(gib(site.bytes as f64, 1)),
                clean(&site.line),
                site.tensors
            );
        }
        if self.history_complete == Some(false) {
            text.push_str("  the history of allocations was too long: the earliest are missing\n");
        }
        for (at, read) in self.reads.iter().take(MOST_LINES).enumerate() {
            let name = if at == 0 {
                "\nread back (the values are not real)\n"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "{}  {:>10}  {}",
                Paint(NAME, name),
                read.times,
                clean(&read.line)
            );
        }
    }

    fn trust(&self, text: &mut String) {
        if let Some(trust) = &self.trust {
            let why = clean(&trust.less_sure.join("; "));
            let why = if why.is_empty() {
                why
            } else {
                format!(": {why}")
            };
            let _ = writeln!(text, "\nconfidence {}{why}", trust.word());
        } else if !self.unknown_calls.is_empty() {
            let calls = clean(&self.unknown_calls.join(" "));
            let _ = writeln!(text, "\nCUDA calls that the phantom does not know: {calls}");
        }
        let version = |of: &Option<String>| of.clone().unwrap_or_else(|| "unknown".to_owned());
        let _ = writeln!(
            text,
            "\nPyTorch {}, CUDA {}, Python {}; {:.0} s, {} of this machine",
            clean(&version(&self.torch)),
            clean(&version(&self.cuda)),
            clean(&version(&self.python)),
            self.seconds,
            in_gib(gib(self.host_peak_bytes as f64, 1)),
        );
        if !self.attention.is_empty() {
            let kernels = self
                .attention
                .iter()
                .map(|(kernel, times)| format!("{kernel} {times}"));
            let kernels: Vec<String> = kernels.collect();
            let _ = writeln!(text, "attention kernels: {}", clean(&kernels.join(", ")));
        }
        if self.processes > 1 {
            let _ = writeln!(
                text,
                "{} processes used PyTorch; this is the fullest.",
                self.processes
            );
        }
        for what in &self.replaced {
            let _ = writeln!(text, "{}", clean(what));
        }
        let context = self.gpu.context.sentence(self.cuda.as_deref());
        let _ = writeln!(text, "{}.", clean(&context));
    }
}

fn clean(text: &str) -> String {
    sanitize(text.as_bytes())
}

fn phases(record: &PhantomRecord) -> Vec<PhantomPhase> {
    let known = PHASES
        .iter()
        .filter_map(|name| record.phases.get_key_value(*name));
    let view = |(phase, peak): (&String, &PhantomPeak)| PhantomPhase {
        phase: phase.clone(),
        peak: *peak,
    };
    known.map(view).collect()
}

/// The lines that read most often come first.
fn reads(record: &PhantomRecord) -> Vec<ReadView> {
    let mut all: Vec<ReadView> = record
        .reads
        .iter()
        .map(|(line, times)| ReadView {
            line: line.clone(),
            times: *times,
        })
        .collect();
    all.sort_by_key(|read| std::cmp::Reverse(read.times));
    all
}
