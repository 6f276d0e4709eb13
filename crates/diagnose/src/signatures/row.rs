//! One row of the tables, and what rows have in common.

use crate::class::Tri;

/// What a matching line is to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A failure that can be the root; the heaviest that was not survived wins, among equals the first.
    Cause,
    /// Follows from another failure; is the root only when nothing heavier is there. The process group
    /// is dying from here on.
    Consequence,
    /// The program says that it goes on after the memory failure before it.
    Handled,
    /// The run came to its end: whatever failed before was survived.
    Success,
    /// Speaks of memory without a failure.
    Advice,
}

/// One message.
#[derive(Debug)]
#[cfg_attr(
    not(test),
    expect(
        dead_code,
        reason = "`pool`, `source` and `example` are for readers and tests of the tables"
    )
)]
pub(crate) struct Signature {
    /// Name, as evidence shows it.
    pub id: &'static str,
    /// Kind of the incident when this is the root.
    pub kind: &'static str,
    /// What it is to the run.
    pub role: Role,
    /// Which of several candidates is the root; see [`Role::Cause`].
    pub weight: u8,
    /// One of these stands in the line.
    pub literals: &'static [&'static str],
    /// Must match the message as well. May span the lines that follow when `wraps` is set.
    pub pattern: Option<&'static str>,
    /// Must not match the line.
    pub unless: Option<&'static str>,
    /// The message is long and often wrapped: the next lines belong to it.
    pub wraps: bool,
    /// The program goes on after it unless what follows shows otherwise.
    pub handled: bool,
    /// A warning level in the prefix does not make it milder.
    pub any_level: bool,
    /// People and samples quote it: it counts only where a program would print it, or with its figures.
    pub quotable: bool,
    /// Overrides the kind's answer.
    pub gpu: Option<Tri>,
    /// Overrides the kind's answer.
    pub host: Option<Tri>,
    /// Overrides the kind's answer.
    pub retry: Option<bool>,
    /// Phase when no frame tells it; overrides the kind's.
    pub phase: Option<&'static str>,
    /// Which memory it is about, for readers of the table.
    pub pool: &'static str,
    /// Program, source file, versions.
    pub source: &'static str,
    /// An excerpt in the real format, written for this table.
    pub example: &'static str,
}

/// Weights. The order is the argument: what ends a process by itself beats what a scheduler says, that
/// beats a signal without a sender, that an exception of unknown meaning, that a mere consequence.
pub(crate) mod weight {
    pub(crate) const CAUSE: u8 = 40;
    /// Names a cause without its figures; the message proper is near.
    pub(crate) const NAMED: u8 = 38;
    pub(crate) const SPECIFIC: u8 = 35;
    pub(crate) const SCHEDULER: u8 = 30;
    pub(crate) const KILLED: u8 = 25;
    pub(crate) const EXCEPTION: u8 = 20;
    pub(crate) const NETWORK: u8 = 15;
    pub(crate) const CONSEQUENCE: u8 = 10;
}

pub(super) const CAUSE: Signature = Signature {
    id: "",
    kind: "other",
    role: Role::Cause,
    weight: weight::CAUSE,
    literals: &[],
    pattern: None,
    unless: None,
    wraps: false,
    handled: false,
    any_level: false,
    quotable: false,
    gpu: None,
    host: None,
    retry: None,
    phase: None,
    pool: "",
    source: "",
    example: "",
};

pub(super) const SPECIFIC: Signature = Signature {
    weight: weight::SPECIFIC,
    pool: "none",
    ..CAUSE
};

pub(super) const CONSEQUENCE: Signature = Signature {
    role: Role::Consequence,
    weight: weight::CONSEQUENCE,
    pool: "none",
    any_level: true,
    ..CAUSE
};

pub(super) const ADVICE: Signature = Signature {
    kind: "no_failure",
    role: Role::Advice,
    weight: 0,
    ..CAUSE
};
