//! The exit codes of the program; `docs/exit-codes.md` is their page.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The job did its work, or the question is answered.
    Success,
    /// A failure that resubmission cannot mend.
    Failed,
    /// An unknown option or run, or a name that is taken.
    Usage,
    /// Memory does not suffice, and nothing is left to change.
    StillOutOfMemory,
    /// The scheduler refused, or something outside of the program does not answer.
    Refused,
    /// An error of configuration, preset, template or rule.
    Configuration,
    /// Time limit, preemption or node failure, with the retries used up.
    RetriesSpent,
    /// The ledger cannot be read or written.
    Ledger,
    /// Attempts, wall time or GPU-hours are spent.
    BudgetSpent,
    /// Somebody cancelled it.
    Cancelled,
    /// A log shows a GPU out-of-memory (`diagnose --exit-code`).
    GpuOutOfMemory,
    /// A log shows a host out-of-memory.
    HostOutOfMemory,
    /// A log shows another failure.
    OtherFailure,
    /// No GPU is large enough, or there is none (`gpus --wait`).
    NoGpu,
    /// No GPU came free in time.
    TimedOut,
    /// The program cannot be executed (`run`).
    NotExecutable,
    /// There is no program of that name.
    NotFound,
    /// Detached by a signal.
    Signal(i32),
    /// The code of the program that was run.
    Program(u8),
}

impl Exit {
    /// All that have a code of their own.
    pub const ALL: [Self; 20] = [
        Self::Success,
        Self::Failed,
        Self::Usage,
        Self::StillOutOfMemory,
        Self::Refused,
        Self::Configuration,
        Self::RetriesSpent,
        Self::Ledger,
        Self::BudgetSpent,
        Self::Cancelled,
        Self::GpuOutOfMemory,
        Self::HostOutOfMemory,
        Self::OtherFailure,
        Self::NoGpu,
        Self::TimedOut,
        Self::NotExecutable,
        Self::NotFound,
        Self::Signal(1),
        Self::Signal(2),
        Self::Signal(15),
    ];

    /// The code that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::StillOutOfMemory => 3,
            Self::Refused => 4,
            Self::Configuration => 5,
            Self::RetriesSpent => 6,
            Self::Ledger => 7,
            Self::BudgetSpent => 8,
            Self::Cancelled => 9,
            Self::GpuOutOfMemory => 10,
            Self::HostOutOfMemory => 11,
            Self::OtherFailure => 12,
            Self::NoGpu => 20,
            Self::TimedOut => 21,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            Self::Signal(signal) => 128 + u8::try_from(signal).unwrap_or(2),
            Self::Program(code) => code,
        }
    }
}

impl From<u8> for Exit {
    fn from(code: u8) -> Self {
        let named = Self::ALL.into_iter().find(|exit| exit.code() == code);
        named.unwrap_or(Self::Program(code))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code().fmt(f)
    }
}

impl JsonSchema for Exit {
    fn schema_name() -> Cow<'static, str> {
        "Exit".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<u8>()
    }
}

impl Serialize for Exit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.code().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Exit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u8::deserialize(deserializer).map(Self::from)
    }
}
