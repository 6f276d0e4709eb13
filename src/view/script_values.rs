//! What a script of the user's own says: values with their places, and what could not be read.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::table::{Side, Table};
use super::{DIM, Paint};
use oomctl_base::Value;
use oomctl_scripts::{Adoption, FoundKnob, KnobState, Reading, Span, StackKnob, directives};

/// What is understood of a script.
#[derive(Default, Serialize, JsonSchema)]
pub struct ScriptValues {
    knobs: Vec<ReadKnob>,
    options: Vec<ScriptOption>,
    /// Places at which something stands that is no shell as far as is known.
    not_understood: Vec<String>,
    /// The scripts are longer, or call each other deeper, than is followed.
    cut: bool,
}

/// A knob as a script gives it.
#[derive(Serialize, JsonSchema)]
struct ReadKnob {
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

/// The place of a value that stands nowhere yet.
const ADDED: &str = "added";
/// How the model is called among the values.
const MODEL: &str = "model";

/// The model of the program, unless a knob has the same value already.
fn model(adoption: &Adoption<'_>, knobs: &[(&StackKnob, FoundKnob)]) -> Option<FoundKnob> {
    let found = adoption.calls().find_map(|call| adoption.model(call))?;
    let is_read = knobs.iter().any(|(_, known)| known.value == found.value);
    (!is_read).then_some(found)
}

/// `file:line` of some bytes.
pub fn place(reading: &Reading, span: Option<Span>) -> String {
    let place = span.and_then(|span| reading.place(span));
    place.unwrap_or_default()
}

/// `job.sh:4: if [ -d out`.
fn not_understood(reading: &Reading, span: Span) -> String {
    let place = place(reading, Some(span));
    match reading.line(span) {
        "" => place,
        line => format!("{place}: {line}"),
    }
}

impl ScriptValues {
    /// Of a reading.
    pub fn of(adoption: &Adoption<'_>) -> Self {
        let reading = &adoption.reading;
        let options = directives(reading).into_iter().map(|d| ScriptOption {
            option: d.option,
            value: d.value.map(|v| v.text()),
            place: place(reading, Some(d.span)),
        });
        let given = adoption.knobs();
        let model = model(adoption, &given);
        let model = model.map(|found| ReadKnob::of(reading, MODEL, found));
        let knobs = given.into_iter();
        let knobs = knobs.map(|(knob, found)| ReadKnob::of(reading, &knob.name, found));
        let faults = reading.faults.iter();
        Self {
            knobs: knobs.chain(model).collect(),
            options: options.collect(),
            not_understood: faults.map(|f| not_understood(reading, *f)).collect(),
            cut: reading.cut,
        }
    }

    /// Where the scripts give a knob; for one of the scheduler's, the option of this name.
    pub fn place_of(&self, knob: &str) -> Option<&str> {
        let knobs = self.knobs.iter().map(|k| (&k.knob, &k.place));
        let options = self.options.iter().map(|o| (&o.option, &o.place));
        let mut all = knobs.chain(options);
        // A script may ask for memory by CPU or by GPU.
        let is = |name: &str| name == knob || knob == "mem" && name.starts_with("mem-per-");
        let (_, place) = all.find(|(name, place)| is(name) && !place.is_empty())?;
        Some(place)
    }

    /// Where a knob is changed of which no patch says it: where it is given, or it is added.
    pub fn where_changed(&self, knob: &str) -> String {
        self.place_of(knob).unwrap_or(ADDED).to_owned()
    }

    /// The values and their places, a line each.
    pub fn text(&self) -> String {
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
        table.text("  ")
    }

    /// What could not be read.
    pub fn gaps(&self) -> String {
        let mut out = String::new();
        for place in &self.not_understood {
            let _ = writeln!(out, "cannot read: {place}");
        }
        if self.cut {
            out.push_str(
                "the scripts are too long, or call each other too deeply, to be read completely\n",
            );
        }
        out
    }
}

/// What is shown of a text that only the program makes a value of; a mapping is not spread out.
fn resolved_later(text: &str) -> String {
    let is_mapping = text.trim().is_empty() || text.starts_with(['{', '[']) || text.contains('\n');
    match is_mapping {
        true => "several values, which the program reads".to_owned(),
        false => format!("{text}, which the program resolves"),
    }
}

impl ReadKnob {
    fn of(reading: &Reading, name: &str, found: FoundKnob) -> Self {
        let place_of = place(reading, found.place());
        let (value, unknown) = match found.state {
            KnobState::Known(value) => (Some(value), None),
            KnobState::Text(text) => (None, Some(resolved_later(&text))),
            KnobState::Computed(span, why) => {
                let at = place(reading, Some(span));
                (None, Some(format!("{} ({at})", why.describe())))
            }
        };
        Self {
            knob: name.to_owned(),
            conditional: found.maybe && value.is_some(),
            value,
            unknown,
            place: place_of,
        }
    }
}
