//! What died, and what is decided about it.

use super::{LogGroup, unwatched};
use crate::cli::session::Session;
use crate::core::engine::{Outcome, elsewhere, of_others, unmoved};
use crate::core::exit::Exit;
use crate::core::ladder::{Change, Decision, OnMachine, Past, PastAttempt, Peak, Skipped};
use crate::core::measure::Measured;
use crate::core::recipe::Layer;
use crate::core::request::Request;
use crate::drive::explained;
use crate::view::outcome::reason;
use crate::view::plan_after_view::PlanAfterView;
use crate::view::plan_table::{places_in, places_of};
use crate::view::{CommandFailure, print};
use oomctl_base::job::RunMachine;
use oomctl_base::units::Bytes;
use oomctl_diagnose::{Class, Incident};
use oomctl_scripts::{InProgram, Patch};

/// What died, and what had been tried before.
pub struct Died {
    /// Run and attempt, where it is one of a run.
    name: Option<String>,
    number: u32,
    request: Request,
    rungs: Vec<Layer>,
    earlier: Vec<PastAttempt>,
    measured: Measured,
    /// Where it ran, if it is a program that was started here, and what it was seen to need.
    machine: Option<RunMachine>,
    needed: Option<Bytes>,
    /// Rungs that are not asked again.
    left_out: Vec<Skipped>,
    incident: Incident,
}

impl Died {
    /// A configuration as it stands, of which this log is.
    pub fn at_first(request: Request, incident: Incident) -> Self {
        Self {
            name: None,
            number: 1,
            request,
            rungs: Vec::new(),
            earlier: Vec::new(),
            measured: Measured::default(),
            machine: None,
            needed: None,
            left_out: Vec::new(),
            incident,
        }
    }

    /// The last attempt of a run that died among those whose logs these are, with all that went before it.
    pub fn of_run(
        session: &Session,
        run: &str,
        groups: &[LogGroup],
    ) -> Result<Self, CommandFailure> {
        let mut stored = [session.runs.open(run)?];
        unwatched::read(&session.runs, &mut stored, session.now)?;
        let [stored] = stored;
        let history = &stored.history;
        let died = |group: &&LogGroup| {
            let number = group.attempt.as_ref().map(|(_, number)| *number);
            let mut attempts = history.attempts.iter();
            let attempt = attempts.find(|a| Some(a.number) == number);
            attempt
                .and_then(|a| a.incident.as_ref())
                .is_some_and(|i| i.fatal)
        };
        let Some(group) = groups.iter().rev().find(died) else {
            let what = format!("no attempt of {run} has a known cause of failure");
            return Err(CommandFailure::usage(what)
                .hint(format!("`oomctl status {run}` shows its attempts")));
        };
        let number = group.attempt.as_ref().map_or(1, |(_, number)| *number);
        let past = history.at_the_end_of(number);
        let last = past.attempt().and_then(|attempt| unmoved(&past, attempt));
        if let Some(why) = last.as_ref().and_then(reason) {
            let failure = CommandFailure::new(Exit::Failed, format!("{run}: {why}"));
            return Err(failure.hint(format!(
                "`oomctl explain KNOB --run {run}` says where a value comes from"
            )));
        }
        Ok(Self {
            name: Some(group.name()),
            number,
            request: stored.request()?,
            rungs: past.rungs(),
            earlier: past.tried(),
            measured: past
                .attempt()
                .map(|a| a.measured.clone())
                .unwrap_or_default(),
            machine: past
                .attempt()
                .and_then(|a| a.status.as_ref()?.machine.as_deref().cloned()),
            needed: past.needed(),
            left_out: past.left_out(),
            incident: group.diagnose(&session.own_failures()?)?,
        })
    }

    /// What a supervisor would decide.
    pub fn decided(&self) -> Result<FailureDecision, CommandFailure> {
        let Self { rungs, .. } = self;
        let past = Past {
            earlier: &self.earlier,
            peaks: &Peak::of(&self.measured),
            left_out: &self.left_out,
            machine: self.machine.as_ref().map(|machine| OnMachine {
                machine,
                needed: self.needed,
            }),
        };
        let mut incident = self.incident.clone();
        self.request.settle(rungs, &mut incident);
        let decide = |request: &Request| {
            let decision = request.ascend(rungs, past, Some(&incident), self.number)?;
            let patch = patch(request, rungs, &decision)?;
            Ok::<_, CommandFailure>((decision, patch))
        };
        let (mut request, mut decided) = (&self.request, decide(&self.request)?);
        let cannot_edit = decided.0.cannot_edit().map(str::to_owned);
        let by_hand;
        if cannot_edit.is_some() {
            by_hand = request.by_hand();
            (request, decided) = (&by_hand, decide(&by_hand)?);
        }
        let (decision, patch) = decided;
        let explanation = explained(request, rungs, &incident, &self.measured);
        let died = (incident.clone(), explanation);
        let steps = match &decision {
            Decision::Climb { steps, .. } => steps.clone(),
            Decision::Exhausted { .. } => Vec::new(),
        };
        let after = request.expected_after(rungs, past, &incident, &steps)?;
        let adoption = request.adoption().zip(patch.as_ref());
        let places = match adoption {
            Some((adoption, patch)) => places_in(&adoption, patch, &steps),
            None => places_of(&request.recipe(rungs)?),
        };
        let mut steps = request.planned(rungs, steps);
        let mut now = request.memory(rungs);
        // What it expected before the failure, the failure refutes.
        if incident.class == Class::GpuOom && after.is_empty() {
            now = None;
            steps.iter_mut().for_each(|step| step.memory = None);
        }
        let scripts = request.inputs().scripts.as_ref();
        let of_gpu = matches!(incident.class, Class::GpuOom | Class::EngineMemory);
        let unanswered = of_gpu && steps.is_empty() && incident.own_code.is_empty();
        let unrecognised = unanswered && scripts.is_some_and(|s| !s.recognised);
        let names = (self.name.clone(), self.number + 1);
        let view = PlanAfterView::new(names, now.as_ref(), died, decision, steps, &after)
            .with_places(places);
        let view = view.of_version(scripts.and_then(|s| s.version.clone()));
        let view = view.left_to_user(cannot_edit);
        let view = match self.earlier.is_empty() && of_others(&incident) {
            true => {
                let retries = request.supervision().co_tenant_retries;
                view.after_again(elsewhere(&incident, retries))
            }
            false => view,
        };
        Ok(FailureDecision {
            view,
            incident,
            diff: patch.map(|p| p.diff()).filter(|diff| !diff.is_empty()),
            in_program: unrecognised
                .then(|| scripts.map(|s| s.in_program.clone()))
                .flatten(),
        })
    }
}

/// What the decision changes in the user's own scripts.
fn patch(
    request: &Request,
    rungs: &[Layer],
    decision: &Decision,
) -> Result<Option<Patch>, CommandFailure> {
    let Decision::Climb { steps, .. } = decision else {
        return Ok(None);
    };
    let next = steps.iter().map(|step| step.layer.clone());
    let rungs: Vec<Layer> = rungs.iter().cloned().chain(next).collect();
    Ok(request.patch(&rungs)?)
}

/// What a supervisor would decide.
pub struct FailureDecision {
    /// For people and programs.
    pub view: PlanAfterView,
    /// The failure.
    pub incident: Incident,
    /// The changed lines of the user's own scripts.
    pub diff: Option<String>,
    /// What the program has in its own text, where nothing is changed because the script does not show its framework.
    pub in_program: Option<InProgram>,
}

/// Shows what a run that succeeded after a failure changed in the user's scripts, where that is what is asked about.
pub fn shows_what_fitted(session: &Session, log: &str) -> Result<bool, CommandFailure> {
    // Only a run by its name: others would all have to be opened.
    if !session.runs.has(log) {
        return Ok(false);
    }
    let stored = session.runs.open(log)?;
    let history = &stored.history;
    if history.outcome != Some(Outcome::Succeeded) {
        return Ok(false);
    }
    let patch = stored.request()?.patch(&history.rungs())?;
    let diff = patch.map(|p| p.diff()).filter(|diff| !diff.is_empty());
    let Some(diff) = diff else {
        return Ok(false);
    };
    let changes = Change::joined(history.steps().flat_map(|step| &step.changes));
    let values = changes
        .iter()
        .map(|c| format!("{} {}", c.name(), c.to.shown()));
    let values: Vec<String> = values.collect();
    let values = values.join(", ");
    print::prose(&format!(
        "{log} fits with {values}. To put this into your script:\n\n{diff}"
    ))?;
    Ok(true)
}

/// Says that a run has got over what is looked at.
pub fn succeeded(session: &Session, log: &str) {
    let Ok(stored) = session.runs.find(log) else {
        return;
    };
    let history = stored.history;
    if history.outcome == Some(Outcome::Succeeded) && history.attempts.len() > 1 {
        let last = history.attempts.len();
        let run = history.run;
        print::talk(&format!(
            "{run} succeeded with attempt {last}; this is about the attempt that failed before"
        ));
    }
}
