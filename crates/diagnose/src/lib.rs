//! Text of a log to the reason why the job died. Knows no knob; what helps is said in words only.
//!
//! Rule: bytes in, bounded memory; a log is hostile data.
//!
//! The way of a byte: `lines` (pieces to blocks of lines) → `prefilter` (most bytes end here) → `pass` →
//! `prefix` (who printed it) → `progress`, `context` (tracebacks, phase), `signatures` and `exceptions`
//! (what it means) → `events` (what followed, what was survived, by `progress` and `rising`) and `course` (what memory did over the steps) →
//! `verdict` (the root, joined with what the scheduler says) → [`Incident`].

mod advice;
mod ascii;
mod bugs;
mod class;
mod clean;
mod context;
mod course;
mod engine_cache;
mod event;
mod events;
mod evidence;
mod exceptions;
mod figures;
mod findings;
mod frame;
mod frame_marks;
mod headline;
mod hints;
mod host_use;
mod incident;
mod kept;
mod kind;
mod lines;
mod links;
mod own;
mod particulars;
mod pass;
mod phase;
mod prefilter;
mod prefix;
mod progress;
mod reached;
mod reader;
mod releases;
mod replicas;
mod rising;
mod scanner;
mod scheduler;
mod serial;
mod signatures;
mod snapshot;
mod steps_before;
mod tables;
mod tail;
mod tenants;
mod traceback_part;
mod verdict;

#[cfg(test)]
mod stories;

pub use advice::{Advice, Remedy, others, remedies};
pub use bugs::{
    Bug, BugConditions, BugSetting, Bugs, Example, KnownBug, Package, Telling, Versions,
    WrittenVersion, same_package, version_in,
};
pub use class::{Class, Tri};
pub use clean::sanitize;
pub use course::{CoursePattern, MemoryCourse, Pool, StepSpan, of_samples};
pub use engine_cache::EngineCache;
pub use evidence::{Evidence, EvidenceRole};
pub use frame::Frame;
pub use incident::{EMPTY_LOG, Incident};
pub use kept::ScannerState;
pub use links::{LINKS_MAX, Link, Links, Seam, Tracker};
pub use own::ProjectFailures;
pub use progress::{PatternError, ProgressPattern};
pub use reached::Progress;
pub use releases::Releases;
pub use scanner::{Digest, Scanner, SourceId};
pub use scheduler::HIDDEN_EXIT;
pub use signatures::{
    SignatureError, UserSignature, examples as signature_examples, patterns as signature_patterns,
};
pub use snapshot::{
    AllocationSite, MemoryOwner, PickleError, Share, Snapshot, named as snapshots_named,
};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
