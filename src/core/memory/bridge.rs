//! From a configuration to what the memory model needs to know of it, by the expressions of its preset.

use serde::Deserialize;
use serde::de::value::MapDeserializer;

use oomctl_base::Role;
use oomctl_memory::{MeasurementRow, Profile, Spec, Unknown};

use crate::core::recipe::expr::Expressions;
use crate::core::recipe::{MemoryFields, Preset, Shape};

/// The job that a configuration describes; `None` where its preset has no bridge to the memory model.
///
/// # Errors
/// The field that is unknown or absurd, with the name that the model has for it.
pub fn spec_of(preset: &Preset, shape: &Shape, profile: &Profile) -> Option<Result<Spec, Unknown>> {
    spec_by(&Expressions::new(preset.env()), preset, shape, profile)
}

/// The same with expressions that were compiled before.
///
/// # Errors
/// As `spec_of`.
pub fn spec_by(
    expressions: &Expressions<'_>,
    preset: &Preset,
    shape: &Shape,
    profile: &Profile,
) -> Option<Result<Spec, Unknown>> {
    let memory = preset.memory.as_ref()?;
    let holds = |when: &str| expressions.holds(when, shape.scope()) == Ok(true);
    if let Some(reason) = memory.not_for.iter().find(|r| holds(&r.when)) {
        let why = format!("is not described: {}", reason.because);
        let field = "program".to_owned();
        return Some(Err(Unknown { field, why }));
    }
    let value = |text: &String| {
        let value = expressions.evaluate(text, shape.scope()).ok();
        let value = value.and_then(|v| serde_json::to_value(v).ok());
        value.unwrap_or_default()
    };
    let fields = memory.fields.iter();
    let fields: Vec<_> = fields.map(|(name, text)| (name, value(text))).collect();
    let fields = fields.iter().map(|(name, value)| (name.as_str(), value));
    Some(spec_from(&preset.name, fields, profile))
}

/// The field that is known once the model is.
const LAYERS: &str = "layers";

/// The knobs that say what a job script leaves open of the fields that the preset asks for, and of the model.
pub fn open_fields<'p>(
    preset: &'p Preset,
    shape: &Shape,
    memory: &'p MemoryFields,
) -> Vec<&'p String> {
    let expressions = Expressions::new(preset.env());
    let open = |field: &str| {
        let text = memory.fields.get(field)?;
        let value = expressions.evaluate(text, shape.scope()).ok();
        value.filter(|v| !v.is_none())
    };
    let asked = memory
        .asks
        .iter()
        .map(|(field, knob)| (field.as_str(), knob));
    let model = preset.with_role(Role::ModelVariant).take(1);
    let model = model.filter(|_| memory.fields.contains_key(LAYERS));
    let all = model.map(|knob| (LAYERS, &knob.name)).chain(asked);
    let open = all.filter(|(field, _)| open(field).is_none());
    open.map(|(_, knob)| knob).collect()
}

/// The job that the values of a preset's `memory:` fields describe.
///
/// # Errors
/// As `spec_of`.
pub fn spec_from<'v>(
    preset: &str,
    fields: impl Iterator<Item = (&'v str, &'v serde_json::Value)>,
    profile: &Profile,
) -> Result<Spec, Unknown> {
    match MeasurementRow::deserialize(MapDeserializer::<_, serde_json::Error>::new(fields)) {
        Ok(row) => row.spec(profile),
        Err(e) => Err(Unknown {
            field: format!("memory of preset {preset}"),
            why: e.to_string(),
        }),
    }
}
