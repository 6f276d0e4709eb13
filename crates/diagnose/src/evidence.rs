//! Lines of a log that prove something.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a line of evidence is to the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceRole {
    /// The first fatal failure in time: the cause.
    Root,
    /// Follows from the root (collective timeout, actor died, SIGTERM).
    Consequence,
    /// Says the same again, or completes the root with figures.
    Confirmation,
    /// Text that speaks of memory without a failure.
    Advice,
    /// A failure that the program survived.
    Survived,
}

/// One line that proves something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Signature that matched (`torch_cuda_oom`), or `scheduler` for a fact that is not in a log.
    pub signature: String,
    /// What the line is to the failure.
    pub role: EvidenceRole,
    /// File it stands in, as the reader named the source; empty for the scheduler.
    pub file: String,
    /// Line number from 1, counting `\n` only.
    pub line: u64,
    /// Byte offset of the start of the line.
    pub offset: u64,
    /// The text, lossily decoded, without control characters, at most 1,000 characters.
    pub text: String,
}
