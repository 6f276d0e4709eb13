//! The ladder of a job whose scripts are the user's own.
//!
//! Rule: what the scripts say is a layer like any other, and what they compute is nobody's to move; a rung is a
//! patch of the scripts, or it is not taken.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::core::ladder::{Decision, Footing, Policy, Step, climb};
use crate::core::patch::{
    Adoption, Ask, Found, Patch, Refused, Source, Span, State, directives, wins,
};
use crate::core::recipe::{
    ClusterFacts, FileSpec, Kind, KnobSetFile, Layer, LayerKind, Origin, Preset, PresetFile,
    Refusal, Role, RungSpec, Setting, Value,
};

/// The file that stands for the scripts where the ladder compares two configurations.
const RENDERED: &str = "scripts";

/// A job of the user's own with the knobs and the ladder of a preset.
#[derive(Debug)]
pub struct Own {
    preset: Preset,
    ladder: Vec<RungSpec>,
    template: BTreeMap<String, String>,
    layer: Layer,
}

impl Own {
    /// Takes over what scripts say. `sets` are the knob sets that the preset uses.
    ///
    /// # Errors
    /// Faults of the preset.
    pub fn new(
        mut file: PresetFile,
        mut sets: Vec<KnobSetFile>,
        adoption: &Adoption<'_>,
    ) -> Result<Self, Refusal> {
        // What a template has to be told may stand anywhere in a script.
        let knobs = sets.iter_mut().flat_map(|s| &mut s.knobs);
        let knobs = knobs.chain(&mut file.knobs);
        knobs.for_each(|knob| knob.required = false);
        file.files = vec![FileSpec {
            name: RENDERED.to_owned(),
            template: Some(RENDERED.to_owned()),
            copy: None,
            entry: true,
        }];
        let preset = Preset::assemble(file, sets, None)?;
        let names = preset.knobs.iter().map(|k| &k.name);
        let template: String = names.map(|n| format!("{{{{ {n}|tojson }}}}\n")).collect();
        Ok(Self {
            ladder: preset.ladder.clone(),
            template: BTreeMap::from([(RENDERED.to_owned(), template)]),
            layer: layer(&preset, adoption),
            preset,
        })
    }

    /// What the scripts say, as a layer.
    #[must_use]
    pub fn layer(&self) -> &Layer {
        &self.layer
    }

    /// The rung that a GPU out-of-memory would be answered with of which nothing is known.
    ///
    /// # Errors
    /// The values of the scripts break a rule of the preset.
    pub fn next(&self, rungs: &[Layer]) -> Result<Decision, Refusal> {
        let footing = Footing {
            preset: &self.preset,
            ladder: &self.ladder,
            policy: Policy::Ladder,
            cluster: &ClusterFacts::default(),
            cluster_name: None,
            templates: &self.template,
            layers: std::slice::from_ref(&self.layer),
            rungs,
            attempt: 1,
        };
        climb(&footing, None)
    }

    /// The scripts with the values of some steps.
    ///
    /// # Errors
    /// Every value that cannot be put into the scripts, and why.
    pub fn patched(&self, adoption: &Adoption<'_>, steps: &[Step]) -> Result<Patch, Vec<Refused>> {
        // A later step's value is the one that counts.
        let mut changes: BTreeMap<&str, &Value> = BTreeMap::new();
        for change in steps.iter().flat_map(|s| &s.changes) {
            changes.insert(&change.knob, &change.to);
        }
        let (mut wishes, mut asks) = (Vec::new(), Vec::new());
        for (name, value) in changes {
            let spelled = adoption.stack.is_some_and(|s| s.knob(name).is_some());
            let role = self
                .preset
                .knobs
                .iter()
                .find(|k| k.name == name)
                .and_then(|k| k.role);
            let ask = asked(role, value);
            if spelled || ask.is_none() {
                wishes.push((name, value.clone()));
            }
            asks.extend(ask);
        }
        adoption.change(&wishes, &asks)
    }
}

/// What a value means to the scheduler.
fn asked(role: Option<Role>, value: &Value) -> Option<Ask> {
    let count = match value {
        Value::Int(count) => u32::try_from(*count).ok(),
        _ => None,
    };
    match (role?, value) {
        (Role::GpusPerNode, _) => count.map(Ask::GpusPerNode),
        (Role::Nodes, _) => count.map(Ask::Nodes),
        (Role::HostMemory, Value::Text(amount)) => Some(Ask::Memory(amount.clone())),
        _ => None,
    }
}

/// The values that scripts give; those that they compute are pinned.
fn layer(preset: &Preset, adoption: &Adoption<'_>) -> Layer {
    let mut layer = Layer::new(LayerKind::Command);
    let sources = &adoption.reading.sources;
    for (knob, found) in adoption.knobs() {
        if !preset.knobs.iter().any(|k| k.name == knob.name) {
            continue;
        }
        let origin = origin(sources, found.place());
        match known(found) {
            Some(value) => {
                let setting = Setting { value, origin };
                layer.settings.insert(knob.name.clone(), setting);
            }
            None => {
                layer.pins.insert(knob.name.clone(), origin);
            }
        }
    }
    let given = directives(&adoption.reading);
    let memory = preset
        .knobs
        .iter()
        .find(|k| k.role == Some(Role::HostMemory));
    if let (Some(knob), Some(directive)) = (memory, wins(&given, "mem"))
        && let Some(text) = directive.value.as_ref().map(super::patch::Traced::text)
        && let Ok(value) = Kind::Size.parse(&text)
    {
        let origin = origin(sources, Some(directive.span));
        layer
            .settings
            .insert(knob.name.clone(), Setting { value, origin });
    }
    layer
}

fn known(found: Found) -> Option<Value> {
    match found.state {
        State::Known(value) if !found.maybe => Some(value),
        _ => None,
    }
}

/// A place in the scripts.
fn origin(sources: &[Source], span: Option<Span>) -> Origin {
    let source = span.and_then(|s| Some((sources.get(s.file)?, s.start)));
    let Some((source, at)) = source else {
        return Origin::Flag {
            text: "the script".to_owned(),
        };
    };
    let before = source.text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    Origin::File {
        path: source.path.clone(),
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
    }
}
