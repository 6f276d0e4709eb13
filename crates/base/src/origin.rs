//! Where a value was given.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The preset's default.
    Default {
        /// Preset or knob set.
        preset: String,
    },
    /// Computed from other knobs by the preset.
    Computed {
        /// The expression.
        expr: String,
    },
    /// A file.
    File {
        /// Path as shown to the user.
        path: String,
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
    },
    /// An environment variable.
    Env {
        /// Its name.
        name: String,
    },
    /// A command-line option, as typed.
    Flag {
        /// `--set ppo_mini_batch_size=64`.
        text: String,
    },
    /// A rung of the ladder.
    Rung {
        /// Name of the rung.
        rung: String,
        /// The attempt that runs with it.
        attempt: u32,
    },
    /// A rung that an earlier run took.
    Learned {
        /// Name of the rung.
        rung: String,
        /// The run.
        run: String,
        /// The attempt of that run that tells.
        attempt: u32,
    },
}

/// Line and column, both from 1, of a byte of a text; columns count characters.
pub fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[start..].chars().count() + 1,
    )
}

impl Origin {
    /// A place in a file.
    pub fn file(path: impl Into<String>, line: u32, column: u32) -> Self {
        Self::File {
            path: path.into(),
            line,
            column,
        }
    }

    /// Whether nobody gave the value.
    pub fn is_of_preset(&self) -> bool {
        matches!(self, Self::Default { .. } | Self::Computed { .. })
    }

    /// The rung that gave the value, in this run or an earlier one.
    pub fn rung(&self) -> Option<&str> {
        match self {
            Self::Rung { rung, .. } | Self::Learned { rung, .. } => Some(rung),
            _ => None,
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default { preset } => write!(f, "default of preset {preset}"),
            Self::Computed { expr } => write!(f, "computed: {expr}"),
            Self::File { path, line, .. } => write!(f, "{path}:{line}"),
            Self::Env { name } => write!(f, "${name}"),
            Self::Flag { text } => f.write_str(text),
            Self::Rung { rung, attempt } => write!(f, "rung {rung}, attempt {attempt}"),
            // Of another project, which has no name here.
            Self::Learned {
                rung,
                run,
                attempt: 0,
            } => write!(f, "learned from {run} (rung {rung})"),
            Self::Learned { rung, run, attempt } => {
                write!(f, "learned from run {run}, attempt {attempt} (rung {rung})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lines_and_columns_of_characters() {
        assert_eq!(line_and_column("a\nöb", 4), (2, 2));
    }
}
