//! What the next job of a pipeline needs to know of runs, as variables.

use crate::core::exit::Exit;
use crate::view::run_view::RunView;

/// Variables by name, in upper case as GitLab has them.
pub struct Variables(Vec<(&'static str, String)>);

impl Variables {
    /// Of what was asked for by `asked` names: of several runs there is no one job and no one state.
    pub fn new(asked: &str, runs: &[RunView], exit_code: Option<Exit>) -> Self {
        let mut all = vec![("RUN", asked.to_owned())];
        if let [run] = runs {
            let job = run.attempts.iter().rev().find_map(|a| a.job.clone());
            all.push(("JOB", job.unwrap_or_default()));
            all.push(("STATE", run.state.clone()));
            all.push(("ATTEMPTS", run.attempts.len().to_string()));
        }
        all.extend(exit_code.map(|code| ("EXIT_CODE", code.to_string())));
        Self(all)
    }

    /// As a dotenv report of GitLab: `OOMCTL_RUN=name`, no quotes, no empty lines, at most 5 KiB.
    ///
    /// Source: docs.gitlab.com, "GitLab CI/CD artifacts reports types", `artifacts:reports:dotenv`.
    pub fn dotenv(&self) -> String {
        self.lines(|name| format!("OOMCTL_{name}"))
    }

    /// As outputs of a step on GitHub: `run=name`.
    pub fn outputs(&self) -> String {
        self.lines(|name| name.to_lowercase().replace('_', "-"))
    }

    fn lines(&self, key: impl Fn(&str) -> String) -> String {
        let line = |(name, value): &(&str, String)| {
            let value: String = value.chars().filter(|c| !c.is_control()).collect();
            format!("{}={}\n", key(name), value.trim())
        };
        self.0.iter().map(line).collect()
    }
}
