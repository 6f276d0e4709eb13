//! What somebody who looks after something has found, and what to do about it.

use schemars::JsonSchema;
use serde::Serialize;

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckHealth {
    /// As it should be.
    Good,
    /// Not there, and not needed for what can be done without it.
    Absent,
    /// It works, and something will be worse for it.
    Odd,
    /// It stands in the way.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckFinding {
    /// What was looked at, in a word or two.
    pub check: &'static str,
    /// How it was found.
    pub health: CheckHealth,
    /// What was found.
    pub found: String,
    /// What to do about it; nothing where all is well.
    pub advice: Option<String>,
}

impl CheckFinding {
    /// Something that is as it should be.
    pub fn good(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            health: CheckHealth::Good,
            found: found.into(),
            advice: None,
        }
    }

    /// Something about which there is something to do.
    pub fn with(
        health: CheckHealth,
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            check,
            health,
            found: found.into(),
            advice: Some(advice.into()),
        }
    }
}
