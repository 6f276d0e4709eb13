//! What `oomctl adopt` shows: what a script says, what it computes, and the patch for other values.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::rung_view::change_lines;
use super::table::{Side, Table};
use super::{DIM, NAME, Paint};
use crate::core::adopt::FirstPatch;
use crate::core::ladder::Step;
use oomctl_base::Value;
use oomctl_scripts::{Adoption, KnobState, Reading, Span, directives};

/// What is understood of a script.
#[derive(Serialize, JsonSchema)]
pub struct AdoptView {
    schema_version: u32,
    preset: Option<String>,
    /// What is known of the framework's version.
    version: Option<String>,
    knobs: Vec<AdoptedKnob>,
    options: Vec<ScriptOption>,
    /// Files that the scripts name and that could not be read.
    missing: Vec<String>,
    /// What else may give values and is not read.
    unread: Vec<String>,
    /// Places at which something stands that is no shell as far as is known.
    not_understood: Vec<String>,
    /// The scripts are longer, or call each other deeper, than is followed.
    cut: bool,
    /// Where the scripts go against the preset.
    doubts: Vec<String>,
    rungs: Vec<Step>,
    /// Values that the patch gives behind all others, because they are not changed where they stand.
    appended: Vec<String>,
    diff: Option<String>,
    /// What stands in the way of a patch.
    problems: Vec<String>,
}

/// A knob as a script gives it.
#[derive(Serialize, JsonSchema)]
struct AdoptedKnob {
    knob: String,
    /// None where it is not known.
    value: Option<Value>,
    /// Why it is not known, and where.
    unknown: Option<String>,
    place: String,
    /// It is given only under a condition.
    conditional: bool,
}

/// An option of sbatch as a script gives it.
#[derive(Serialize, JsonSchema)]
struct ScriptOption {
    option: String,
    value: Option<String>,
    place: String,
}

/// The view, with the patch.
pub fn view(
    adoption: &Adoption<'_>,
    version: Option<String>,
    doubts: &[String],
    first: FirstPatch,
) -> AdoptView {
    let reading = &adoption.reading;
    let options = directives(reading).into_iter().map(|d| ScriptOption {
        option: d.option,
        value: d.value.map(|v| v.text()),
        place: place(reading, Some(d.span)),
    });
    let (diff, appended) = first.patch.map_or_else(Default::default, |patch| {
        (Some(patch.diff()), patch.appended.into_iter().collect())
    });
    AdoptView {
        schema_version: 1,
        preset: adoption.stack.map(|s| s.name.clone()),
        version,
        knobs: knobs(adoption),
        options: options.collect(),
        missing: reading.wanted.iter().cloned().collect(),
        unread: adoption.unread().into_iter().collect(),
        not_understood: reading
            .faults
            .iter()
            .map(|f| place(reading, Some(*f)))
            .collect(),
        cut: reading.cut,
        doubts: doubts.to_vec(),
        rungs: first.rungs,
        appended,
        diff,
        problems: first.problems,
    }
}

fn knobs(adoption: &Adoption<'_>) -> Vec<AdoptedKnob> {
    let reading = &adoption.reading;
    let knob = |(knob, found): (&oomctl_scripts::StackKnob, oomctl_scripts::FoundKnob)| {
        let place_of = place(reading, found.place());
        let (value, unknown) = match found.state {
            KnobState::Known(value) => (Some(value), None),
            KnobState::Text(text) => (None, Some(format!("{text}, which the program resolves"))),
            KnobState::Computed(span, why) => {
                let at = place(reading, Some(span));
                (None, Some(format!("{} ({at})", why.describe())))
            }
        };
        AdoptedKnob {
            knob: knob.name.clone(),
            conditional: found.maybe && value.is_some(),
            value,
            unknown,
            place: place_of,
        }
    };
    adoption.knobs().into_iter().map(knob).collect()
}

/// `file:line` of some bytes.
pub(super) fn place(reading: &Reading, span: Option<Span>) -> String {
    let source = span.and_then(|s| Some((reading.sources.get(s.file)?, s)));
    let Some((source, span)) = source else {
        return String::new();
    };
    if span.file < oomctl_scripts::SCRIPT {
        return source.path.clone();
    }
    let before = source.text.get(..span.start).unwrap_or_default();
    format!("{}:{}", source.path, before.matches('\n').count() + 1)
}

impl AdoptView {
    /// The view for people.
    pub fn text(&self) -> String {
        let mut out = match &self.preset {
            Some(preset) => format!("recognised as {}\n", Paint(NAME, preset)),
            None => {
                "framework not recognised: no preset knows what this script starts\n".to_owned()
            }
        };
        if let Some(version) = &self.version {
            let _ = writeln!(out, "{version}");
        }
        self.values(&mut out);
        for missing in &self.missing {
            let _ = writeln!(out, "not there: {missing}");
        }
        for unread in &self.unread {
            let _ = writeln!(out, "not read: {unread}; its values are unknown");
        }
        for place in &self.not_understood {
            let _ = writeln!(out, "cannot read: {place}");
        }
        if self.cut {
            out.push_str(
                "the scripts are too long, or call each other too deeply, to be read completely\n",
            );
        }
        for doubt in &self.doubts {
            let _ = writeln!(out, "note: {doubt}");
        }
        for step in &self.rungs {
            let _ = writeln!(
                out,
                "\nfirst rung: {}, {}",
                Paint(NAME, &step.rung),
                step.title
            );
            for line in change_lines(&step.changes) {
                let _ = writeln!(out, "  {line}");
            }
        }
        for knob in &self.appended {
            let line = format!("{knob} is appended to the command line");
            let _ = writeln!(out, "{line}");
        }
        if let Some(diff) = &self.diff {
            let _ = write!(out, "\n{diff}");
        }
        if !self.problems.is_empty() {
            out.push_str("\nno patch:\n");
        }
        for problem in &self.problems {
            let _ = writeln!(out, "  {problem}");
        }
        out
    }

    fn values(&self, out: &mut String) {
        let mut table = Table::new([(Side::Left, 0), (Side::Left, 0)]);
        for knob in &self.knobs {
            let value = match (&knob.value, &knob.unknown) {
                (Some(value), _) => value.to_string(),
                (None, unknown) => unknown.clone().unwrap_or_default(),
            };
            let condition = if knob.conditional {
                ", under a condition"
            } else {
                ""
            };
            let place = format!("{}{condition}", knob.place);
            let given = format!("{value}  {}", Paint(DIM, &place));
            table.row([knob.knob.clone(), given]);
        }
        for given in &self.options {
            let value = given.value.as_deref().unwrap_or_default();
            let name = format!("--{}", given.option);
            table.row([name, format!("{value}  {}", Paint(DIM, &given.place))]);
        }
        out.push_str(&table.text("  "));
    }
}
