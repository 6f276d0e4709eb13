//! What a log itself says of memory beside its failure: limits that a variable sets, figures that are never closed.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::ascii::compiled;

/// What stands in such lines.
pub(crate) const HINTS: [&str; 2] = [
    "through the environment variable",
    "figures have been opened",
];

/// Limits that are remembered.
const LIMITS: usize = 4;

/// ms-swift 2.4 to 4.5 `get_env_args`: what it takes for a limit, and the variable that sets it.
static LIMIT: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"Setting (max_\w{1,40}): (\d{1,12})\. You can adjust this hyperparameter through the environment variable: `(\w{1,40})`";
    compiled(pattern)
});

/// What was seen of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogHints {
    /// Limits, in words.
    limits: Vec<String>,
    /// matplotlib warned of figures that are open (`pyplot.py`, 1.3 to 3.10).
    figures: bool,
}

impl LogHints {
    /// Takes a line that may be one of them.
    pub(crate) fn see(&mut self, text: &str) {
        if text.contains(HINTS[0])
            && let Some(found) = LIMIT.captures(text)
        {
            let limit = format!("{} is {} (variable {})", &found[1], &found[2], &found[3]);
            if self.limits.len() < LIMITS && !self.limits.contains(&limit) {
                self.limits.push(limit);
            }
        }
        self.figures |= text.contains(HINTS[1]);
    }

    /// What a lack of GPU memory may be mended by.
    pub(crate) fn of_gpu(&self) -> Option<String> {
        let limits = self.limits.join(", ");
        (!limits.is_empty()).then(|| format!("the log names limits that can be lowered: {limits}"))
    }

    /// What fills host memory.
    pub(crate) fn of_host(&self) -> Option<String> {
        let open = "matplotlib warns that figures stay open: close each (plt.close()), for they are kept in host memory";
        self.figures.then(|| open.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_with_their_variables_and_other_settings_are_not() {
        let mut hints = LogHints::default();
        for (name, value) in [
            ("image_factor", "28"),
            ("max_pixels", "12845056"),
            ("max_pixels", "12845056"),
        ] {
            let variable = name.to_ascii_uppercase();
            hints.see(&format!(
                "[INFO:swift] Setting {name}: {value}. You can adjust this hyperparameter through the environment variable: `{variable}`."
            ));
        }
        let said = hints.of_gpu();
        assert!(
            said.is_some_and(
                |s| s.ends_with("lowered: max_pixels is 12845056 (variable MAX_PIXELS)")
            )
        );
        assert_eq!(hints.of_host(), None);
    }

    #[test]
    fn open_figures_are_named() {
        let mut hints = LogHints::default();
        hints.see("/w/utils.py:48: RuntimeWarning: More than 20 figures have been opened. Figures created through");
        assert!(hints.of_host().is_some_and(|s| s.contains("plt.close()")));
        assert_eq!(hints.of_gpu(), None);
    }
}
