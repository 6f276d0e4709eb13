//! What the memory model needs to know of a script and neither the script nor the user says.
//!
//! Rule: no default stands in for it. It is asked for, and until it is given there is no estimate.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::request::Request;
use crate::core::ladder::{CHOSEN, IN_SCRIPTS, MAY_SET};
use crate::core::memory::open_fields;
use crate::core::recipe::expr::holds;
use crate::core::recipe::{Knob, LayerKind, Recipe, knobs_in, rules_about, scope_of};
use oomctl_base::{Role, ValueKind};
use oomctl_memory::{GPU_MEMORY, GPU_MEMORY_EXAMPLE};

/// A knob that the memory model needs and of which the value is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnreadKnob {
    /// Its name.
    pub knob: String,
    /// What it takes, for people.
    pub takes: String,
    /// What it is.
    pub doc: String,
    /// Where code computes it or why it is unknown, if the script gives it.
    pub computed: Option<String>,
    /// Whether there is no estimate without it.
    pub needed: bool,
}

impl UnreadKnob {
    fn new(knob: &Knob, computed: Option<String>) -> Self {
        let takes = match (knob.kind, knob.role) {
            _ if !knob.choices.is_empty() => knob.choices.join("|"),
            (ValueKind::Size, _) => GPU_MEMORY_EXAMPLE.to_owned(),
            (_, Some(Role::ModelVariant)) => "NAME|FOLDER".to_owned(),
            (_, Some(Role::LoraRank)) => "RANK (0 without LoRA)".to_owned(),
            (ValueKind::Int | ValueKind::Float, _) => "N".to_owned(),
            (ValueKind::Bool, _) => "true|false".to_owned(),
            _ => "VALUE".to_owned(),
        };
        Self {
            knob: knob.name.clone(),
            takes,
            doc: knob.doc.clone(),
            computed,
            needed: knob.name != GPU_MEMORY,
        }
    }

    /// The option that gives it, with what it takes and where code computes it.
    fn line(&self) -> String {
        let computed = self.computed.iter();
        let is_said = |at: &str| [CHOSEN, MAY_SET].iter().any(|why| at.ends_with(why));
        let computed = computed.map(|at| match is_said(at) {
            true => format!(" ({at})"),
            false => format!(" (computed: {at})"),
        });
        let computed: String = computed.collect();
        format!("  --set {}={}{computed}", self.knob, self.takes)
    }

    /// The options that give all of them; those that one thing hides stand together, unless each is explained.
    pub fn lines(all: &[Self], explained: bool) -> String {
        let mut lines: Vec<String> = Vec::new();
        let mut told: Vec<&String> = Vec::new();
        for one in all {
            let same = |other: &&Self| other.computed == one.computed;
            let together = |n| !explained && n >= TOGETHER;
            let Some(reason) = one
                .computed
                .as_ref()
                .filter(|_| together(all.iter().filter(same).count()))
            else {
                lines.push(one.line());
                lines.extend(explained.then(|| format!("      {}", one.doc)));
                continue;
            };
            if !told.contains(&reason) {
                told.push(reason);
                let knobs: Vec<&str> = all.iter().filter(same).map(|u| u.knob.as_str()).collect();
                lines.push(format!(
                    "  --set KNOB=VALUE for each of {} ({reason})",
                    knobs.join(", ")
                ));
            }
        }
        lines.iter().map(|line| format!("\n{line}")).collect()
    }
}

/// So many values that one thing hides stand in one line.
const TOGETHER: usize = 3;

impl Request {
    /// The rules that look at a knob and apply to these values.
    pub fn rules_about(&self, knob: &str, recipe: &Recipe) -> Vec<String> {
        let (inputs, preset) = (self.inputs(), self.preset());
        let name = inputs.cluster.as_deref();
        rules_about(
            preset,
            knob,
            &scope_of(preset, recipe, &inputs.cluster_facts, name),
        )
    }

    /// Pins of the project that hold nothing, for the job says the same in another way, each as a sentence.
    pub fn idle_pins(&self) -> Vec<String> {
        let Ok(recipe) = self.recipe(&[]) else {
            return Vec::new();
        };
        let layers = self.inputs().layers.iter();
        let ours = layers.filter(|layer| layer.kind == LayerKind::Project);
        let names: BTreeSet<&String> = ours.flat_map(|layer| layer.pins.keys()).collect();
        let pinned = names
            .into_iter()
            .filter_map(|name| self.preset().knob(name));
        let idle = pinned.filter_map(|knob| {
            let same = self.preset().with_role(knob.role?);
            let free =
                |k: &&Knob| !recipe.pins.contains_key(&k.name) && !recipe.value(&k.name).is_null();
            let others: Vec<&str> = same.filter(free).map(|k| k.name.as_str()).collect();
            let idle = recipe.value(&knob.name).is_null() && !others.is_empty();
            idle.then(|| {
                format!(
                    "the pin of {} holds nothing: it has no value here. Not pinned: {}",
                    knob.name,
                    others.join(", ")
                )
            })
        });
        idle.collect()
    }

    /// Why the memory model does not describe the program of a script, whatever is said of it.
    pub fn without_model(&self) -> Option<&str> {
        let shape = self.shape(&[]).ok()?;
        let mut reasons = self.preset().memory.iter().flat_map(|m| &m.not_for);
        let is_so = |when: &str| holds(self.preset().env(), when, shape.scope()) == Ok(true);
        let found = reasons.find(|r| is_so(&r.when))?;
        Some(&found.because)
    }

    /// What the memory model needs and nobody says, of a script; nothing where the preset has no bridge to the model.
    pub fn unread(&self) -> Vec<UnreadKnob> {
        let bridge = self.preset().memory.as_ref();
        let bridge = bridge.filter(|_| self.without_model().is_none());
        let Some(bridge) =
            bridge.filter(|m| self.inputs().scripts.is_some() && !m.fields.is_empty())
        else {
            return Vec::new();
        };
        let used = knobs_in(self.preset(), bridge.fields.values().map(String::as_str));
        let Ok(shape) = self.shape(&[]) else {
            return Vec::new();
        };
        let recipe = shape.recipe();
        let computed = recipe.unknown.iter().filter(|name| used.contains(*name));
        let computed =
            computed.filter_map(|name| Some((name.as_str(), Some(recipe.pins.get(name)?))));
        let no_memory = used.contains(GPU_MEMORY) && recipe.value(GPU_MEMORY).is_null();
        let open = open_fields(self.preset(), &shape, bridge).into_iter();
        let open = open
            .map(String::as_str)
            .chain(no_memory.then_some(GPU_MEMORY));
        let mut unread: Vec<UnreadKnob> = Vec::new();
        for (name, place) in computed.chain(open.map(|name| (name, None))) {
            let knob = self.preset().knob(name);
            if let Some(knob) = knob.filter(|k| unread.iter().all(|u| u.knob != k.name)) {
                let place = place.map(ToString::to_string);
                let place = place.map(|at| at.trim_start_matches(IN_SCRIPTS).to_owned());
                let mut one = UnreadKnob::new(knob, place);
                let mut types = self.preset().with_role(Role::GpuType);
                let kind = types.next().map(|knob| recipe.value(&knob.name));
                if let Some(kind) = kind.filter(|kind| name == GPU_MEMORY && !kind.is_null()) {
                    one.takes = format!("{} ({kind} is in no table)", one.takes);
                }
                let given = recipe.value(name);
                if !given.is_null() {
                    one.takes = match knob.role {
                        Some(Role::ModelVariant) => format!(
                            "FOLDER with its config.json (the size of {given} is unknown here)"
                        ),
                        _ => format!("{} ({given} has no memory model)", one.takes),
                    };
                }
                unread.push(one);
            }
        }
        unread
    }
}
