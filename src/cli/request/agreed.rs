//! What is said and asked before a rendered job is handed to a scheduler.

use std::io::IsTerminal;

use crate::cli::ask::agree;
use crate::cli::request::packages;
use crate::cli::session::{PROJECT_FILE, Session};
use crate::core::exit::Exit;
use crate::core::request::Request;
use crate::view::{CommandFailure, print};

/// Warns of a program that is not here, and asks where somebody is there to answer. A job on this machine was asked for by that name.
pub fn agreed(
    session: &Session,
    name: &str,
    request: &Request,
    yes: bool,
) -> Result<(), CommandFailure> {
    if let Some((python, module)) = packages::missing_module(request) {
        print::warn(&format!(
            "{python} finds no module {module} here; the job ends at once where its node has none either. Fix: activate its environment, or give `setup:` in oomctl.yaml"
        ));
    }
    let somebody = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if yes || request.inputs().backend == "local" || !somebody && session.has_file {
        return Ok(());
    }
    let asked = request.resources(&[])?;
    let count = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let size = format!(
        "{}, {}",
        count(asked.nodes, "node"),
        count(asked.gpus, "GPU")
    );
    if !somebody {
        let preset = &request.preset().name;
        let what = format!(
            "no {PROJECT_FILE} here: this would be a job of the preset {preset} ({size}), with its defaults"
        );
        let hint = "`oomctl init` writes the file; `oomctl submit SCRIPT` submits your job script; --yes submits this one";
        return Err(CommandFailure::usage(what).hint(hint));
    }
    let question = format!("Submit {name} ({size})?");
    if agree(&question, "--yes")? {
        return Ok(());
    }
    print::talk("nothing was submitted");
    Err(CommandFailure::quiet(Exit::Cancelled))
}
