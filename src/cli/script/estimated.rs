//! A script whose memory is to be estimated, and what is said where it cannot be.

use super::measuring::measure_command;
use super::submit::{ScriptCommandLine, planned};
use super::unread::unread;
use crate::cli::args::Configuration;
use crate::cli::request::known::{ENVIRONMENT, LookupTables, sources, why_unknown};
use crate::cli::request::learned;
use crate::cli::session::Session;
use crate::core::request::{Request, UnreadKnob};
use crate::view::CommandFailure;
use crate::view::estimate_view::{EstimateView, EstimatedJob};
use oomctl_memory::{Estimate, GPU_MEMORY, GPU_MEMORY_EXAMPLE};

/// The request of a script as it stands. What earlier runs proved of it is told, and starts it nowhere else.
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
    Ok(request)
}

/// Which values an estimate needs and the script leaves open, as a sentence; `None` where it has all.
pub fn left_open(session: &Session, request: &Request) -> Option<String> {
    let unread = unread(&session.library, request);
    let needed = unread.iter().filter(|u| u.needed);
    let sets: Vec<String> = needed
        .map(|u| format!("`--set {}={}`", u.knob, u.takes))
        .collect();
    let left = || format!("the script leaves open what it needs: {}", sets.join(", "));
    (!sets.is_empty()).then(left)
}

/// What the memory model says of a request.
///
/// # Errors
/// It says nothing, and why. What a script leaves open and the memory model needs is asked for.
pub fn estimate_of(
    session: &Session,
    request: &Request,
) -> Result<(EstimateView, Estimate), CommandFailure> {
    let unread = unread(&session.library, request);
    if unread.iter().any(|u| u.needed) {
        let open = UnreadKnob::lines(&unread, true);
        let what =
            format!("the script leaves open what an estimate needs. Add before SCRIPT:{open}");
        return Err(CommandFailure::configuration(what));
    }
    // A configuration that breaks a rule is not estimated.
    let shape = request.shape(&[])?;
    let environment = shape.recipe().value(ENVIRONMENT);
    let known = LookupTables::new(&session.library, &session.folder).of_job(environment);
    let bridge = request.preset().memory.as_ref();
    let known_stack = bridge.is_some_and(|m| !m.fields.is_empty());
    let known_stack = known_stack && request.without_model().is_none();
    let estimate = match request.estimate(&[]).filter(|_| known_stack) {
        Some(Ok(estimate)) => estimate,
        Some(Err(unknown)) => return Err(why_unknown(request, &known, &unknown)),
        None => return Err(without_model(session, request)),
    };
    let job = EstimatedJob {
        preset: request.preset().name.clone(),
        dataset: request.inputs().dataset.clone(),
        resources: request.resources(&[])?,
        host_memory: request.host_memory()?,
        sources: sources(request, &known)?,
        narrower: narrower(session, request, &estimate),
        remedy: request.remedy()?,
        phantom: request.kept_measurement().cloned(),
    };
    Ok((EstimateView::new(job, &estimate), estimate))
}

/// What says more than an estimate, as commands.
fn narrower(session: &Session, request: &Request, estimate: &Estimate) -> String {
    let mut narrower = Vec::new();
    if estimate.gpu_bytes.is_none() {
        narrower.push(format!(
            "`--set {GPU_MEMORY}={GPU_MEMORY_EXAMPLE}` compares it with your GPU"
        ));
    }
    // What was measured already is known.
    if request.kept_measurement().is_none() {
        narrower.extend(measuring(session, request));
    }
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
fn without_model(session: &Session, request: &Request) -> CommandFailure {
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
        Some(_) => (request.lacks_model(), measuring(session, request)),
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
