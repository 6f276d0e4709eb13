//! A script whose memory is to be estimated, and what is said where it cannot be.

use super::measuring::measure_command;
use super::submit::{ScriptCommandLine, planned};
use super::unread::unread;
use crate::cli::args::Configuration;
use crate::cli::request::learned;
use crate::cli::session::Session;
use crate::core::request::{Request, UnreadKnob};
use crate::view::CommandFailure;
use oomctl_memory::{Estimate, GPU_MEMORY, GPU_MEMORY_EXAMPLE};

/// The request of a script as it stands. What earlier runs proved of it is told, and starts it nowhere else. What it leaves open and the memory model needs
/// is asked for.
pub fn estimated(
    session: &Session,
    flags: &Configuration,
    sbatch: &[String],
    words: &[String],
) -> Result<Request, CommandFailure> {
    let fresh = Configuration {
        fresh: true,
        ..flags.clone()
    };
    let request = planned(
        session,
        &ScriptCommandLine {
            flags: &fresh,
            run: None,
            sbatch,
            words,
            logs: &[],
        },
    )?;
    if let Some(memory) = learned::memory(session, flags.fresh) {
        learned::tell_proven(&request, &memory);
    }
    let unread = unread(&session.library, &request);
    if unread.iter().all(|u| !u.needed) {
        return Ok(request);
    }
    let open = UnreadKnob::lines(&unread, true);
    let what = format!("the script leaves open what an estimate needs. Add before SCRIPT:{open}");
    Err(CommandFailure::configuration(what))
}

/// What says more than an estimate, as commands.
pub fn narrower(session: &Session, request: &Request, estimate: &Estimate) -> String {
    let mut narrower = Vec::new();
    if estimate.gpu_bytes.is_none() {
        narrower.push(format!(
            "`--set {GPU_MEMORY}={GPU_MEMORY_EXAMPLE}` compares it with your GPU"
        ));
    }
    narrower.extend(measuring(session, request));
    if request.inputs().scripts.is_none() {
        narrower.push("`oomctl tune --probe` measures it on the cluster".to_owned());
    }
    narrower.join("; ")
}

/// The command that measures a job without a GPU, where its program can be started here.
fn measuring(session: &Session, request: &Request) -> Option<String> {
    let command = measure_command(session, request)?;
    Some(format!("`{command}` measures it without a GPU"))
}

/// Why there is no estimate of a job of which the preset says nothing.
pub fn without_model(session: &Session, request: &Request) -> CommandFailure {
    let preset = &request.preset().name;
    let own = request.adoption();
    let (what, hint) = match &own {
        Some(_) if let Some(why) = request.without_model() => (
            format!("{why}, so its memory cannot be estimated"),
            measuring(session, request),
        ),
        _ if request.preset().formulas.is_some() => (
            format!("preset {preset} gives its memory as formulas, for sweeps"),
            Some("`oomctl sweep check KNOB=VALUE` judges a configuration by them".to_owned()),
        ),
        Some(_) if !request.inputs().is_recognised() => (
            "framework not recognised, so its memory cannot be estimated".to_owned(),
            measuring(session, request),
        ),
        Some(_) => (
            format!("oomctl has no memory model for {preset}"),
            measuring(session, request),
        ),
        None => (
            format!("preset {preset} does not say how its knobs use memory"),
            Some(
                "add `memory:` to the preset; `oomctl presets NAME` shows how others do it"
                    .to_owned(),
            ),
        ),
    };
    let failure = CommandFailure::configuration(what);
    failure.hint(
        hint.unwrap_or_else(|| {
            "`oomctl plan SCRIPT` shows what would change all the same".to_owned()
        }),
    )
}
