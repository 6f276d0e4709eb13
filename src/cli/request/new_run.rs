//! A new run on disk.

use crate::cli::request::{checkpoint, preview};
use crate::cli::runs::Runs;
use crate::core::request::{Request, split};
use crate::drive::{Environment, Handle};
use crate::io::environment::variables;
use crate::view::CommandFailure;
use oomctl_base::Value;

impl Runs {
    /// Makes the run on disk: inputs, environment, first fact.
    pub fn create(&self, name: &str, request: Request) -> Result<Handle, CommandFailure> {
        checkpoint::is_its_own(&request)?;
        if let ("slurm", Some(rest)) = (request.inputs().backend.as_str(), self.rest()) {
            rest.check_token().map_err(CommandFailure::configuration)?;
        }
        let folder = self.folder(name)?;
        let inputs = serde_json::to_string_pretty(request.inputs())
            .map_err(|e| CommandFailure::configuration(format!("cannot store the request: {e}")))?;
        let environment = environment(&request)?;
        // A template that cannot be rendered is told before anything is written.
        preview::first(&request)?;
        let now = jiff::Timestamp::now();
        let handle = Handle::create(folder, request, &inputs, &environment, now);
        Ok(handle?)
    }
}

/// The environment of the jobs: ours, without what is secret or belongs to this process.
fn environment(request: &Request) -> Result<Environment, CommandFailure> {
    let declared = match &request.inputs().scripts {
        // A script of the user's own declares nothing; what looks like a secret is one.
        Some(_) => Vec::new(),
        None => match request.recipe(&[])?.value("secrets") {
            Value::List(names) => names.clone(),
            _ => Vec::new(),
        },
    };
    let missing: Vec<&str> = declared
        .iter()
        .map(String::as_str)
        .filter(|n| std::env::var_os(n).is_none())
        .collect();
    if !missing.is_empty() {
        let what = format!("the job needs {}, not set here", missing.join(", "));
        return Err(CommandFailure::configuration(what).hint("set it, or take it out of `secrets`"));
    }
    let split = split(&variables(), &declared);
    Ok(Environment {
        variables: split.variables,
        secrets: split.secrets,
    })
}
