//! Adds what follows from names to the layers, each below the layer that gave the name.

use std::collections::BTreeMap;
use std::path::Path;

use super::LookupTables;
use crate::cli::request::nodes::JobNodes;
use crate::core::memory::{Naming, follow, gpu_of_cluster, naming, of_another};
use crate::core::recipe::{Layer, Preset, Setting};
use crate::io::library::Library;
use oomctl_base::{Origin, Role, Value};
use oomctl_gpu::nvml;
use oomctl_memory::{Capacity, GPU_MEMORY, MODEL_KNOBS};

/// The knob for the variables of a job.
pub const ENVIRONMENT: &str = "environment";

/// The knob that names the model, where the preset has one and knobs for its dimensions.
pub fn model_knob(preset: &Preset) -> Option<&str> {
    preset.knob("model.layers")?;
    preset
        .with_role(Role::ModelVariant)
        .next()
        .map(|k| k.name.as_str())
}

/// Adds what follows from the names that the layers give: the model's dimensions, the memory of the GPU.
pub fn complete(
    (library, workdir): (&Library, &Path),
    preset: &Preset,
    nodes: &JobNodes,
    backend: &str,
    layers: &mut Vec<Layer>,
) {
    let mut from_top = layers.iter().rev();
    let environment = from_top.find_map(|l| l.settings.get(ENVIRONMENT));
    let environment = environment.map_or(&Value::Null, |s| &s.value);
    let known = &LookupTables::new(library, workdir).of_job(environment);
    if let Some(named) =
        model_knob(preset).and_then(|knob| Some((knob, naming(preset, layers, knob)?)))
    {
        complete_model(known, preset, named, layers);
    }
    if preset.knob(GPU_MEMORY).is_some() {
        complete_gpu(known, preset, nodes, backend, layers);
    }
}

fn complete_model(
    known: &LookupTables<'_>,
    preset: &Preset,
    named: (&str, Naming),
    layers: &mut Vec<Layer>,
) {
    let (knob, named) = named;
    let values = match known.model(&named.name) {
        Ok(Some(model)) => model.settings(),
        Ok(None) | Err(_) => of_another(preset, layers, &named, knob, &MODEL_KNOBS),
    };
    follow(preset, layers, named.layer, values);
}

fn complete_gpu(
    known: &LookupTables<'_>,
    preset: &Preset,
    nodes: &JobNodes,
    backend: &str,
    layers: &mut Vec<Layer>,
) {
    let memory = |memory: &str, origin: Origin| {
        let value = Value::Text(memory.to_owned());
        BTreeMap::from([(GPU_MEMORY.to_owned(), Setting { value, origin })])
    };
    if let Some((at, gpu)) = gpu_of_cluster(preset, layers, &nodes.facts) {
        let expr = format!("{}, of the cluster profile's gpu_types", gpu.name);
        follow(
            preset,
            layers,
            at,
            memory(&gpu.memory, Origin::Computed { expr }),
        );
        return;
    }
    let knob = preset
        .with_role(Role::GpuType)
        .next()
        .map(|k| k.name.as_str());
    let named = knob.and_then(|knob| Some((knob, naming(preset, layers, knob)?)));
    let Some((knob, named)) = named else {
        if naming(preset, layers, GPU_MEMORY).is_none() {
            let of_machine = match backend {
                "local" => of_this_machine(known),
                _ => of_nodes(known, nodes),
            };
            let values = of_machine.map(|(text, expr)| memory(&text, Origin::Computed { expr }));
            follow(preset, layers, 0, values.unwrap_or_default());
        }
        return;
    };
    let values = match known.gpu(&named.name) {
        Ok(Some((Capacity::Known(text, line), path))) => memory(&text, Origin::file(path, line, 1)),
        _ => of_another(preset, layers, &named, knob, &[GPU_MEMORY]),
    };
    follow(preset, layers, named.layer, values);
}

/// The memory of the one type of GPU that the job may get, with where that is known from.
fn of_nodes(known: &LookupTables<'_>, nodes: &JobNodes) -> Option<(String, String)> {
    let kind = nodes.gpu_type.as_ref()?;
    match known.gpu(kind) {
        Ok(Some((Capacity::Known(text, _), path))) => {
            Some((text, format!("{kind} as sinfo says, {path}")))
        }
        _ => None,
    }
}

/// The memory of this machine's smallest GPU, with where that is known from.
fn of_this_machine(known: &LookupTables<'_>) -> Option<(String, String)> {
    let all = nvml::Driver::open().ok()?.look().ok()?.gpus;
    let smallest = all.into_iter().min_by_key(|g| g.memory.total)?;
    Some(match known.gpu(&smallest.name) {
        Ok(Some((Capacity::Known(text, _), path))) => {
            (text, format!("{} of this machine, {path}", smallest.name))
        }
        _ => {
            let text = format!("{}MiB", smallest.memory.total.0 >> 20);
            (text, format!("{} of this machine, NVML", smallest.name))
        }
    })
}
