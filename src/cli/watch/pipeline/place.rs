//! Where a CI system reads: files that it names in variables, paths as it shows them.

use std::path::{Path, PathBuf};

use crate::cli::runs::Runs;
use crate::drive::attempt_logs;
use crate::view::pipeline::{PipelineRun, commands, logged};
use crate::view::run_view::RunView;

/// Whose annotations, summary and outputs are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Ci {
    /// GitHub if GITHUB_ACTIONS is `true`, else none
    #[default]
    Auto,
    /// GitHub's
    Github,
    /// None
    None,
}

impl Ci {
    /// Does GitHub read what is printed?
    pub fn is_github(self) -> bool {
        match self {
            Self::Auto => commands::are_obeyed(),
            Self::Github => true,
            Self::None => false,
        }
    }

    /// The file that GitHub names in a variable.
    pub fn file(self, variable: &str) -> Option<PathBuf> {
        let path = std::env::var_os(variable).filter(|path| !path.is_empty());
        path.filter(|_| self.is_github()).map(PathBuf::from)
    }
}

/// A run with the places of its logs.
pub fn logs_of(runs: &Runs, view: RunView) -> PipelineRun {
    let stored = runs.open(&view.run).ok();
    let top = top();
    let log = |number: u32, file: &str| {
        let stored = stored.as_ref()?;
        let attempts = &stored.history.attempts;
        let attempt = attempts.iter().find(|a| a.number == number)?;
        let named = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|n| n.to_string_lossy() == *file)
        };
        let path = attempt_logs(&stored.folder, attempt)
            .into_iter()
            .find(named)?;
        Some(shown(&path, top.as_deref()))
    };
    let logs = view.attempts.iter().map(|a| {
        let file = &logged(a)?.file;
        Some(log(a.attempt, file).unwrap_or_else(|| file.clone()))
    });
    let logs = logs.collect();
    PipelineRun { view, logs }
}

/// The folder that paths are relative to: the checkout, which CI systems name.
fn top() -> Option<PathBuf> {
    ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"]
        .iter()
        .find_map(std::env::var_os)
        .map(PathBuf::from)
        .or_else(|| std::env::current_dir().ok())
}

fn shown(path: &Path, top: Option<&Path>) -> String {
    let inside = top.and_then(|top| path.strip_prefix(top).ok());
    inside.unwrap_or(path).display().to_string()
}

/// Bytes of a file; none where there is none.
pub fn size_of(path: &Path) -> usize {
    let size = std::fs::metadata(path).map_or(0, |m| m.len());
    usize::try_from(size).unwrap_or(usize::MAX)
}
