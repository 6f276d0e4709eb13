//! From a configuration to what the memory model needs to know of it.

mod named;

pub use named::{Naming, follow, gpu_of_cluster, naming, of_another};

use serde::Deserialize;
use serde::de::value::MapDeserializer;

use crate::core::recipe::expr::Expressions;
use crate::core::recipe::{Preset, Shape};
use oomctl_memory::{MeasurementRow, Profile, Spec, Unknown};

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
