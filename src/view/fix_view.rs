//! What to change after a failure: the decision with its diff, or what helps by a log alone.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::incident::IncidentView;
use super::own_view::OWN_STEPS;
use super::plan_after_view;
use super::style::{DIM, NAME, Paint};
use crate::core::adopt::Likely;
use crate::core::ladder::{self, Advices, Direction, KnobMove};
use oomctl_diagnose::Incident;
use oomctl_scripts::InProgram;

/// The knob for the type of the GPUs, of which sbatch has no option by that name.
const GPU_TYPE: &str = "gpu_type";
/// Other spellings of a knob that are shown.
const MOST_SPELLINGS: usize = 2;

/// The kind of a log in which nothing failed.
const NO_FAILURE: &str = "no_failure";
const NOTHING: &str = "
nothing to fix. If the job failed all the same, its error is in another file: give that one
";

/// A decision about a configuration, a script or a run.
#[derive(Serialize, JsonSchema)]
pub struct FixDecision {
    /// As `plan --after` has it.
    #[serde(flatten)]
    pub decision: plan_after_view::PlanAfterView,
    /// The changed lines of the user's own scripts.
    pub diff: Option<String>,
}

impl FixDecision {
    /// The decision for people.
    pub fn text(&self, columns: usize) -> String {
        let mut out = self.decision.text(columns);
        if let Some(diff) = &self.diff {
            let _ = write!(
                out,
                "\noomctl changed nothing. To make the change yourself:\n\n{diff}"
            );
        }
        out
    }
}

/// What a log alone tells.
#[derive(Serialize, JsonSchema)]
pub struct LogAdvice {
    schema_version: u32,
    decision: &'static str,
    log: IncidentView,
    /// None where the log does not tell.
    framework: Option<LogFramework>,
    advice: Option<Advices>,
    /// The program makes its steps of training itself.
    #[serde(skip)]
    makes_steps: bool,
    /// It is of an engine inside another program, whose command the script does not start.
    #[serde(skip)]
    inside: bool,
    /// It is of a run, whose scripts are known.
    #[serde(skip)]
    of_run: bool,
    /// The only job script here, or a word for it.
    #[serde(skip)]
    beside: String,
}

/// Of what the log is.
#[derive(Serialize, JsonSchema)]
struct LogFramework {
    name: String,
    /// Presets that are as likely as each other; the advice is what they have in common.
    presets: Vec<String>,
    /// By what they were recognised.
    by: Vec<String>,
}

/// How a framework is named that a script does not show.
fn named(log: &str, script: &str) -> String {
    format!("if `oomctl presets` lists it, name it: `oomctl fix --preset NAME {log} {script}`")
}

impl LogAdvice {
    /// Of a diagnosed log. What the program has in its own text is named as it stands there.
    pub fn new(
        log: IncidentView,
        likely: Option<&Likely<'_>>,
        mut advice: Option<Advices>,
        program: Option<&InProgram>,
    ) -> Self {
        let is_engine = likely.is_some_and(|l| l.presets.iter().all(|p| p.is_engine()));
        let inside = is_engine && program.is_some();
        if let (Some(advice), Some(program)) = (&mut advice, program) {
            keep_possible(advice, program, inside);
        }
        let framework = likely.and_then(|likely| {
            let first = likely.presets.first()?;
            let named = first.framework.as_ref().map(|f| f.name.clone());
            Some(LogFramework {
                name: named.unwrap_or_else(|| first.preset.clone()),
                presets: likely.presets.iter().map(|p| p.preset.clone()).collect(),
                by: likely.by.clone(),
            })
        });
        Self {
            schema_version: 1,
            decision: "advice",
            log,
            framework,
            advice,
            inside,
            makes_steps: program.is_some_and(|program| program.trains),
            of_run: false,
            beside: "SCRIPT".to_owned(),
        }
    }

    /// The same of a run.
    pub fn of_run(self, of_run: bool) -> Self {
        Self { of_run, ..self }
    }

    /// The same with the job scripts that lie in the folder: the only one is named.
    pub fn beside(self, scripts: &[String]) -> Self {
        match scripts {
            [one] => Self {
                beside: one.clone(),
                ..self
            },
            _ => self,
        }
    }

    /// The advice for people. A script that was given does not show its framework.
    pub fn text(&self, incident: &Incident, log: &str, script: Option<&str>) -> String {
        let whole = self.log.text(incident, super::print::unicode());
        // Where knobs of a framework follow, the headline is enough; `diagnose` has the proof.
        let helped = self.framework.is_some()
            && incident.known_bugs.is_empty()
            && self.advice.as_ref().is_some_and(|a| !a.helps.is_empty());
        let mut out = match whole.lines().next().filter(|_| helped) {
            Some(headline) => format!("{headline}\n"),
            None => whole,
        };
        if incident.kind == NO_FAILURE {
            return out + NOTHING;
        }
        let Some(LogFramework { name, presets, by }) = &self.framework else {
            return out + &self.unrecognised(log, script);
        };
        let _ = writeln!(
            out,
            "\nrecognised as {} by {}",
            Paint(NAME, name),
            by.join(", ")
        );
        if presets.len() > 1 {
            let _ = writeln!(
                out,
                "the same in {}; choose one with --preset NAME",
                presets.join(", ")
            );
        }
        let none = Advices::default();
        let Advices { helps, worse } = self.advice.as_ref().unwrap_or(&none);
        if helps.is_empty() {
            let whose = if presets.len() > 1 {
                "that they share"
            } else {
                "of it"
            };
            let _ = writeln!(out, "no knob {whose} helps against this");
            return out;
        }
        out.push_str(match script {
            None => "without the script oomctl does not know the current values; the best change comes first\n",
            Some(_) => "the script does not show its framework, so its values are not read; the best change comes first\n",
        });
        // A later rung that turns the same knobs again says nothing new.
        let mut said = BTreeSet::new();
        for advised in helps {
            let turns = advised.turns.iter().map(told);
            if turns.fold(advised.turns.is_empty(), |new, turn| {
                said.insert(turn) || new
            }) {
                one(&mut out, advised, true);
            }
        }
        if !worse.is_empty() {
            out.push_str("\nWould make it worse:\n");
        }
        worse.iter().for_each(|a| one(&mut out, a, false));
        if self.inside || self.of_run {
            return out;
        }
        let command = match (script, &presets[..]) {
            (Some(script), [preset, ..]) => format!("--preset {preset} {log} {script}"),
            _ => format!("{log} {}", self.beside),
        };
        let _ = writeln!(out, "\nvalues and a diff: `oomctl fix {command}`");
        out
    }
}

impl LogAdvice {
    /// What to do where no framework is recognised.
    fn unrecognised(&self, log: &str, script: Option<&str>) -> String {
        let next = match script {
            _ if self.makes_steps => return format!("\n{OWN_STEPS}\n"),
            _ if self.of_run => {
                "`oomctl presets` lists the frameworks that oomctl changes".to_owned()
            }
            None => {
                let script = &self.beside;
                format!(
                    "`oomctl fix {log} {script}` reads the job script; --preset NAME names the framework"
                )
            }
            Some(script) => named(log, script),
        };
        format!("\nframework not recognised; {next}\n")
    }
}

/// Names knobs as the text of a program gives them, and leaves out the options of one that reads none: those of an
/// engine are of its own command, which the script does not start.
fn keep_possible(advices: &mut Advices, program: &InProgram, of_engine: bool) {
    let plain = |spelled: &String| spelled.trim_matches(['-', '=']).replace('-', "_");
    let possible = |turn: &mut KnobMove| {
        let mut numbers = program.numbers.iter();
        let own = numbers.find(|n| turn.spellings.iter().any(|s| plain(s) == n.name));
        if let Some(own) = own {
            turn.spellings = vec![format!("`{}` in {}", own.text, own.place)];
        }
        let is_option = turn.spellings.iter().any(|s| s.starts_with('-'));
        !(program.no_options || of_engine) || !is_option
    };
    for all in [&mut advices.helps, &mut advices.worse] {
        all.iter_mut().for_each(|a| a.turns.retain_mut(possible));
        all.retain(|a| !a.turns.is_empty());
    }
}

fn one(out: &mut String, advised: &ladder::Recommendation, helps: bool) {
    let title = match helps {
        true => format!("{} ({})", advised.title, advised.effect.describe()),
        false => advised.title.clone(),
    };
    let _ = match &advised.rung {
        Some(rung) => writeln!(out, "\n  {}  {title}", Paint(NAME, rung)),
        None => writeln!(out, "\n  {title}"),
    };
    for turn in &advised.turns {
        let _ = writeln!(out, "       {}", told(turn));
    }
    if let Some(text) = &advised.not_if {
        let text = match text.starts_with("only ") {
            true => text.clone(),
            false => format!("not if {text}"),
        };
        let _ = writeln!(out, "       {}", Paint(DIM, &text));
    }
    for (_, why) in &advised.in_vain {
        let in_vain = format!("may be no use: {why}");
        let _ = writeln!(out, "       {}", Paint(DIM, &in_vain));
    }
}

/// `lower a.b.c (or --c)`.
fn told(turn: &KnobMove) -> String {
    let way = match turn.way {
        Direction::Raise => "raise",
        Direction::Lower => "lower",
        Direction::TurnOn => "turn on",
        Direction::TurnOff => "turn off",
        Direction::Set => "set",
    };
    let (name, others) = match turn.spellings.split_first() {
        Some((first, others)) => (first.clone(), others),
        // What no program is told is asked of the scheduler.
        None if turn.knob == GPU_TYPE => ("--gres=gpu:TYPE:N of sbatch".to_owned(), &[][..]),
        None => (
            format!("--{} of sbatch", turn.knob.replace('_', "-")),
            &[][..],
        ),
    };
    let mut text = format!("{way} {}", name.trim_end_matches('='));
    if let Some(to) = &turn.to {
        let to = serde_json::to_string(to).unwrap_or_default();
        let _ = write!(text, " to {}", to.trim_matches('"'));
    }
    let others: Vec<&str> = others
        .iter()
        .take(MOST_SPELLINGS)
        .map(String::as_str)
        .collect();
    if !others.is_empty() {
        let _ = write!(text, " (or {})", others.join(", "));
    }
    text
}
