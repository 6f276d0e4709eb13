//! What a program did on phantom GPUs: the record that each of its processes wrote, and what it amounts to.

use std::collections::BTreeMap;

use oomctl_base::word_list;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::confidence::PhantomConfidence;
use super::context::PhantomContext;
use super::curve::PhantomCurve;

/// PyTorch's versions that were tried with the phantom, by their release: those of the table in docs/measure.md, which a test holds.
pub const TRIED: [&str; 9] = word_list("2.4.1 2.5.1 2.6.0 2.7.0 2.7.1 2.9.1 2.11.0 2.13.0 2.15.0");

/// The name of PyTorch's error for a device that is full; the second is that of versions before 2.5.
const OUT_OF_MEMORY: [&str; 2] = ["torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"];

/// What errors say of a network that is not there.
const NO_NETWORK: [&str; 10] = [
    "ConnectionError",
    "ConnectError",
    "URLError",
    "gaierror",
    "OfflineModeIsEnabled",
    "LocalEntryNotFoundError",
    "Network is unreachable",
    "Name or service not known",
    "Temporary failure in name resolution",
    "couldn't connect to",
];

/// From how many values of one line on that were read back a program may be waiting for one.
const MANY_READS: u64 = 32;

/// By how much the phantom's allocated peak was too low in the worst published row, in later versions than the source's (docs/measure.md), as a part of
/// the real one.
const TOO_LOW: f64 = 0.112;

/// What one process recorded. Fields that the recorder has not written yet are absent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PhantomRecord {
    /// Peaks by phase.
    pub phases: BTreeMap<String, PhantomPeak>,
    /// Those that came after a step, which leaves the optimizer's states behind.
    pub after_a_step: Vec<String>,
    /// The phase in which it is.
    pub phase: Option<String>,
    /// Optimizer steps that ended.
    pub steps: u64,
    /// Bytes that are held through a step, at its end: weights, gradients, optimizer states.
    pub held: BTreeMap<String, u64>,
    /// What was put in the place of something else.
    pub replaced: Vec<String>,
    /// How often values were read back, by the line of Python that did.
    pub reads: BTreeMap<String, u64>,
    /// How often each kernel of attention was chosen.
    pub attention: BTreeMap<String, u64>,
    /// What the program died of.
    pub failure: Option<PhantomFailure>,
    /// The phase that was marked when it died.
    pub failed_in: Option<String>,
    /// Where it died, as Python prints it, with the error.
    pub traceback: Option<String>,
    /// What was held when most was.
    pub largest: Vec<PhantomSite>,
    /// Memory over time.
    pub curve: Option<PhantomCurve>,
    /// Whether the history of allocations was long enough for all of them.
    pub history_complete: Option<bool>,
    /// PyTorch's version, once it was imported.
    pub torch: Option<String>,
    /// The version of CUDA that it was built for; none for the CPU.
    pub cuda: Option<String>,
    /// Python's version.
    pub python: Option<String>,
    /// What the phantom itself counted.
    pub device: Option<PhantomDevice>,
    /// Why the recorder could not set itself up.
    pub not_recorded: Option<String>,
}

/// The most that was allocated and reserved, in bytes, of the device that had most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhantomPeak {
    /// By tensors.
    pub allocated: u64,
    /// By the caching allocator.
    pub reserved: u64,
}

/// An exception that nobody caught.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhantomFailure {
    /// Its type, with the module.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it says.
    pub text: String,
}

/// Memory that one line of Python held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhantomSite {
    /// File and line.
    pub line: String,
    /// Bytes.
    pub bytes: u64,
    /// How many allocations.
    pub tensors: u64,
}

/// What the phantom counted of the first device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhantomDevice {
    /// The most that was used, context included.
    pub peak_bytes: u64,
    /// The most pinned memory of the host.
    pub pinned_peak_bytes: u64,
    /// The most managed memory.
    pub managed_peak_bytes: u64,
    /// Copies from the device to the host.
    pub copies_to_host: u64,
    /// Kernels that did nothing.
    pub launches: u64,
}

/// How the program's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhantomEnd {
    /// By itself, with this code; 128 and the signal where one ended it.
    Exited(i32),
    /// We ended it: its time was over.
    TimeLimit,
    /// We ended it: it took more memory of the host than it may.
    HostMemory,
    /// Somebody ended the measurement.
    Interrupted(i32),
}

/// What a measurement came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PhantomOutcome {
    /// At least one step ended.
    Measured,
    /// The card was full.
    DoesNotFit,
    /// Nothing, or not enough; the sentence says why.
    Unmeasured(String),
}

impl PhantomRecord {
    /// The process that tells most: with the highest peak, then with the most steps.
    pub fn fullest(records: Vec<Self>) -> Option<Self> {
        records
            .into_iter()
            .max_by_key(|r| (r.peak().reserved, r.steps, r.torch.is_some()))
    }

    /// The peak over all phases.
    pub fn peak(&self) -> PhantomPeak {
        let most = |of: fn(&PhantomPeak) -> u64| self.phases.values().map(of).max().unwrap_or(0);
        PhantomPeak {
            allocated: most(|p| p.allocated),
            reserved: most(|p| p.reserved),
        }
    }

    /// Did it die of a full card?
    pub fn is_full(&self) -> bool {
        let failure = self.failure.as_ref();
        failure.is_some_and(|f| OUT_OF_MEMORY.contains(&f.kind.as_str()))
    }

    /// How far it is.
    pub fn progress(&self) -> String {
        let phase = self.phase.as_deref().unwrap_or("start");
        match (self.torch.is_some(), self.steps) {
            (false, _) => "start, PyTorch is not imported yet".to_owned(),
            (true, 0) => phase.to_owned(),
            (true, 1) => format!("{phase}, after 1 step"),
            (true, steps) => format!("{phase}, after {steps} steps"),
        }
    }

    /// How sure it is, with these calls that the phantom does not know and this context.
    pub fn confidence(&self, calls: &[String], context: &PhantomContext) -> PhantomConfidence {
        let untried = self.torch.as_deref().filter(|_| !self.tried());
        PhantomConfidence::new(untried, self.reads.len(), calls, context)
    }

    /// The line that reads most values back, and how often.
    fn most_read(&self) -> Option<(&str, u64)> {
        let most = self.reads.iter().max_by_key(|(_, times)| **times)?;
        Some((most.0.as_str(), *most.1))
    }

    /// Is PyTorch's release one that was tried?
    pub fn tried(&self) -> bool {
        let version = self.torch.as_deref().unwrap_or_default();
        let release = version.split('+').next().unwrap_or_default();
        TRIED.contains(&release)
    }
}

/// What of a measurement is kept, so that it is not made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhantomSummary {
    /// Whether the card was large enough; none where that was not found out.
    pub fits: Option<bool>,
    /// Why it was not, or the phase in which memory ran out, as a log would tell it.
    pub reason: Option<String>,
    /// The peak over all phases.
    pub peak: PhantomPeak,
    /// Peaks by phase.
    pub phases: BTreeMap<String, PhantomPeak>,
    /// The one of them in which memory ran out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_in: Option<String>,
    /// How often each kernel of attention was chosen.
    pub attention: BTreeMap<String, u64>,
    /// Lines that read values back, which are not real.
    pub reads: usize,
    /// PyTorch's version.
    pub torch: Option<String>,
    /// What PyTorch said where memory ran out: its traceback with the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What was put in the place of something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<String>,
    /// What was counted of CUDA's context, and how sure that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// How sure the measurement is; none where nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<PhantomConfidence>,
    /// Memory over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_time: Option<PhantomCurve>,
}

impl PhantomSummary {
    /// Nothing was measured, and why.
    pub fn unmeasured(why: &str) -> Self {
        Self::new(None, &PhantomOutcome::Unmeasured(why.to_owned()))
    }

    /// Does it fit with so little room that a real card may be too small?
    pub fn is_close(&self, gpu_bytes: u64) -> bool {
        let (peak, card) = (self.peak.reserved as f64, gpu_bytes as f64);
        self.fits == Some(true) && peak > card * (1.0 - TOO_LOW)
    }

    /// Of a record and what it amounts to.
    pub fn new(record: Option<&PhantomRecord>, outcome: &PhantomOutcome) -> Self {
        let record = record.cloned().unwrap_or_default();
        let (fits, reason) = match outcome {
            PhantomOutcome::Measured => (Some(true), None),
            PhantomOutcome::DoesNotFit => (Some(false), record.died_in()),
            PhantomOutcome::Unmeasured(why) => (None, Some(why.clone())),
        };
        Self {
            fits,
            reason,
            peak: record.peak(),
            reads: record.reads.len(),
            phases: record.phases,
            failed_in: record.failed_in.filter(|_| fits == Some(false)),
            attention: record.attention,
            torch: record.torch,
            message: match outcome {
                PhantomOutcome::DoesNotFit => {
                    record.traceback.or_else(|| Some(record.failure?.text))
                }
                _ => None,
            },
            replaced: record.replaced,
            context: None,
            trust: None,
            over_time: record.curve,
        }
    }
}

/// What a record and the end of the program come to.
pub fn phantom_outcome(record: Option<&PhantomRecord>, end: PhantomEnd) -> PhantomOutcome {
    let record = record.cloned().unwrap_or_default();
    if record.is_full() {
        return PhantomOutcome::DoesNotFit;
    }
    let stopped = match end {
        PhantomEnd::TimeLimit => Some("the time limit came"),
        PhantomEnd::HostMemory => Some("the program took more memory of this machine than it may"),
        PhantomEnd::Interrupted(_) => Some("the measurement was interrupted"),
        PhantomEnd::Exited(_) => None,
    };
    let failed = matches!(end, PhantomEnd::Exited(code) if code != 0);
    if record.steps > 0 && !failed {
        return PhantomOutcome::Measured;
    }
    PhantomOutcome::Unmeasured(why_not(&record, stopped, end))
}

fn why_not(record: &PhantomRecord, stopped: Option<&str>, end: PhantomEnd) -> String {
    if let Some(why) = &record.not_recorded {
        return format!("PyTorch could not be watched: {why}");
    }
    if record.torch.is_some() && record.cuda.is_none() {
        let version = record.torch.as_deref().unwrap_or_default();
        return format!("PyTorch {version} is built for the CPU: it asks no GPU for memory");
    }
    let done = match record.steps {
        0 => "before the first optimizer step ended".to_owned(),
        steps => format!("after {steps} optimizer steps"),
    };
    let imported = match record.torch {
        Some(_) => "",
        None => ", and PyTorch was never imported by a Python that reads PYTHONPATH",
    };
    match (&record.failure, stopped, end) {
        (Some(failure), _, _) => failed(failure, &done),
        (None, Some(stopped), _) => {
            let waits = match (record.most_read(), end) {
                (Some((line, times)), PhantomEnd::TimeLimit) if times >= MANY_READS => format!(
                    ". {line} read {times} values back, and none of them is real: a loop that waits for one does not end. `--ones` gives ones, not zeros"
                ),
                _ => String::new(),
            };
            format!("{stopped} {done}{imported}{waits}")
        }
        (None, None, PhantomEnd::Exited(code)) if code > 128 => format!(
            "signal {} ended the program {done}; a program that reads a device's memory from the host does so{imported}",
            code - 128
        ),
        (None, None, PhantomEnd::Exited(code)) if code != 0 => {
            format!("the program ended with exit code {code} {done}{imported}")
        }
        _ => format!("the program ended {done}{imported}"),
    }
}

fn failed(failure: &PhantomFailure, done: &str) -> String {
    let PhantomFailure { kind, text } = failure;
    let asks = |sign: &&str| kind.contains(*sign) || text.contains(*sign);
    let hint = match NO_NETWORK.iter().any(asks) {
        true => "; a measurement has no network: download what the program needs before",
        false => "",
    };
    let first = text.lines().next().unwrap_or_default();
    format!("the program failed {done}: {kind}: {first}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str) -> PhantomRecord {
        serde_json::from_str(text).unwrap()
    }

    fn sentence(text: &str, end: PhantomEnd) -> String {
        match phantom_outcome(Some(&record(text)), end) {
            PhantomOutcome::Unmeasured(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_step_is_a_measurement_and_a_full_card_is_an_answer() {
        let stepped = record(r#"{"steps": 2, "torch": "2.15.0+cu132", "cuda": "13.2"}"#);
        let measured = phantom_outcome(Some(&stepped), PhantomEnd::TimeLimit);
        assert_eq!(measured, PhantomOutcome::Measured);
        assert!(stepped.tried());
        let full = record(
            r#"{"torch": "2.15.0", "cuda": "13.2", "failure": {"type": "torch.OutOfMemoryError", "text": "CUDA"}}"#,
        );
        let outcome = phantom_outcome(Some(&full), PhantomEnd::Exited(1));
        assert_eq!(outcome, PhantomOutcome::DoesNotFit);
    }

    #[test]
    fn what_cannot_be_measured_is_said_in_a_sentence() {
        for (text, end, wanted) in [
            (
                "{}",
                PhantomEnd::Exited(0),
                "the program ended before the first optimizer step ended, and PyTorch was never imported by a Python that reads PYTHONPATH",
            ),
            (
                r#"{"torch": "2.9.1+cpu"}"#,
                PhantomEnd::Exited(0),
                "PyTorch 2.9.1+cpu is built for the CPU: it asks no GPU for memory",
            ),
            (
                r#"{"torch": "2.9.1", "cuda": "12.8", "failure": {"type": "builtins.OSError", "text": "no such file\nmore"}}"#,
                PhantomEnd::Exited(1),
                "the program failed before the first optimizer step ended: builtins.OSError: no such file",
            ),
            (
                r#"{"failure": {"type": "socket.gaierror", "text": "[Errno -3] Temporary failure in name resolution"}}"#,
                PhantomEnd::Exited(1),
                "the program failed before the first optimizer step ended: socket.gaierror: [Errno -3] Temporary failure in name resolution; a measurement has no network: download what the program needs before",
            ),
            (
                r#"{"torch": "2.9.1", "cuda": "12.8"}"#,
                PhantomEnd::TimeLimit,
                "the time limit came before the first optimizer step ended",
            ),
            (
                r#"{"torch": "2.9.1", "cuda": "12.8", "reads": {"a.py:3": 2, "train.py:12": 4096}}"#,
                PhantomEnd::TimeLimit,
                "the time limit came before the first optimizer step ended. train.py:12 read 4096 values back, and none of them is real: a loop that waits for one does not end. `--ones` gives ones, not zeros",
            ),
            (
                r#"{"torch": "2.9.1", "cuda": "12.8"}"#,
                PhantomEnd::Exited(139),
                "signal 11 ended the program before the first optimizer step ended; a program that reads a device's memory from the host does so",
            ),
        ] {
            assert_eq!(sentence(text, end), wanted);
        }
    }

    #[test]
    fn how_far_a_program_is_names_phase_and_steps() {
        let said = |text: &str| record(text).progress();
        assert_eq!(said("{}"), "start, PyTorch is not imported yet");
        assert_eq!(said(r#"{"torch": "2.15.0", "phase": "init"}"#), "init");
        assert_eq!(
            said(r#"{"torch": "2.15.0", "phase": "backward", "steps": 2}"#),
            "backward, after 2 steps"
        );
    }

    #[test]
    fn of_several_processes_the_fullest_counts() {
        let small = record(r#"{"steps": 3}"#);
        let large = record(r#"{"phases": {"init": {"allocated": 5, "reserved": 8}}}"#);
        let fullest = PhantomRecord::fullest(vec![large, small]).unwrap();
        assert_eq!(fullest.peak().reserved, 8);
        assert!(PhantomRecord::fullest(Vec::new()).is_none());
    }
}
