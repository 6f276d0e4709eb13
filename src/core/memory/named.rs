//! Values that follow from a name: the model's dimensions from its name, the GPU's memory from its type.
//!
//! They take the place of the name that they follow from: what is given by hand beside or above the name wins, what lies
//! below belonged to another name and is beaten.

use std::collections::BTreeMap;

use crate::core::recipe::{ClusterFacts, GpuType, Layer, Preset, Scalar, Setting};
use oomctl_base::{Origin, Value};

/// A knob that names something, and the layer that gave the name.
#[derive(Debug, Clone, PartialEq)]
pub struct Naming {
    /// Position of the layer.
    pub layer: usize,
    /// The name.
    pub name: String,
    /// Where it was given.
    pub origin: Origin,
}

/// What a layer says of a knob.
fn setting<'a>(preset: &Preset, layer: &'a Layer, knob: &str) -> Option<&'a Setting> {
    let is = |name: &String| preset.knob(name).is_some_and(|k| k.name == knob);
    layer
        .settings
        .iter()
        .find(|(name, _)| is(name))
        .map(|(_, setting)| setting)
}

/// Who names `knob`, of layers in the order of precedence, lowest first; `None` where nobody does.
pub fn naming(preset: &Preset, layers: &[Layer], knob: &str) -> Option<Naming> {
    let mut settings = layers.iter().enumerate().rev();
    let (layer, given) = settings.find_map(|(at, l)| Some((at, setting(preset, l, knob)?)))?;
    (!given.value.is_null()).then(|| Naming {
        layer,
        name: given.value.to_string(),
        origin: given.origin.clone(),
    })
}

/// Puts values that follow from a name below the layer that gave it, those of knobs that the preset has.
pub fn follow(
    preset: &Preset,
    layers: &mut Vec<Layer>,
    at: usize,
    values: BTreeMap<String, Setting>,
) {
    let Some(named) = layers.get(at) else {
        return;
    };
    let mut layer = Layer::new(named.kind);
    let known = values
        .into_iter()
        .filter(|(name, _)| preset.knob(name).is_some());
    layer.settings.extend(known);
    if !layer.settings.is_empty() {
        layers.insert(at, layer);
    }
}

/// The knobs among `knobs` whose values belong to another name: given in a layer below, together with that other name.
/// Each becomes null, that is unknown, with the origin of the present name.
pub fn of_another(
    preset: &Preset,
    layers: &[Layer],
    present: &Naming,
    naming_knob: &str,
    knobs: &[&str],
) -> BTreeMap<String, Setting> {
    let below = layers.iter().take(present.layer);
    let others = below.filter(|l| {
        let name = setting(preset, l, naming_knob);
        name.is_some_and(|s| !s.value.is_null() && s.value.to_string() != present.name)
    });
    let unknown = |knob: &str| {
        let setting = Setting {
            value: Value::Null,
            origin: present.origin.clone(),
        };
        (knob.to_owned(), setting)
    };
    let given = others.flat_map(|l| {
        knobs
            .iter()
            .filter(move |k| setting(preset, l, k).is_some())
    });
    given.map(|knob| unknown(knob)).collect()
}

/// The type of GPU in a cluster profile whose knobs (`gpu_type: h100`, `constraint: a100-80`) are those of the layers, with
/// the highest layer that gave one of them; `None` where no type fits, or types of different memory fit equally well.
pub fn gpu_of_cluster<'f>(
    preset: &Preset,
    layers: &[Layer],
    facts: &'f ClusterFacts,
) -> Option<(usize, &'f GpuType)> {
    let fitting = facts.gpu_types.iter().filter_map(|gpu| {
        let given = gpu.set.iter().map(|(knob, wanted)| {
            let named = naming(preset, layers, knob)?;
            (Some(named.name) == text_of(wanted)).then_some(named.layer)
        });
        let given: Option<Vec<usize>> = given.collect();
        Some((given?, gpu))
    });
    let fitting: Vec<(Vec<usize>, &GpuType)> =
        fitting.filter(|(given, _)| !given.is_empty()).collect();
    let most = fitting.iter().map(|(given, _)| given.len()).max()?;
    let mut best = fitting.iter().filter(|(given, _)| given.len() == most);
    let (given, gpu) = best.next()?;
    let same = best.all(|(_, other)| other.memory == gpu.memory);
    same.then_some((given.iter().copied().max()?, *gpu))
}

/// A single value as text.
fn text_of(scalar: &Scalar) -> Option<String> {
    match scalar {
        Scalar::Bool(b) => Some(b.to_string()),
        Scalar::Int(i) => Some(i.to_string()),
        Scalar::Float(x) => Some(x.to_string()),
        Scalar::Text(t) => Some(t.clone()),
        Scalar::List(_) | Scalar::Map(_) => None,
    }
}
