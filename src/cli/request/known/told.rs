//! What `estimate` says of the model and the GPU: where they are known from, or why they are not.

use super::{LookupTables, model_knob};
use crate::core::recipe::Recipe;
use crate::core::request::Request;
use crate::view::CommandFailure;
use crate::view::sources_view::{EstimateSources, SourceKnobs};
use oomctl_base::Role;
use oomctl_memory::{Capacity, GPU_MEMORY, GPU_MEMORY_EXAMPLE, Unknown};

/// Where model and GPU are known from.
pub fn sources(
    request: &Request,
    known: &LookupTables<'_>,
) -> Result<EstimateSources, CommandFailure> {
    let knob = model_knob(request.preset());
    let recipe = request.recipe(&[])?;
    let name = knob.map(|knob| recipe.value(knob)).filter(|v| !v.is_null());
    let model = name.and_then(|name| known.model(&name.to_string()).ok().flatten());
    let told = SourceKnobs {
        model: knob,
        gpu_memory: GPU_MEMORY,
        file: model.map(|m| (m.path.clone(), m.remarks())),
        gpu_unknown: gpu_unknown(request, &recipe, known),
    };
    Ok(EstimateSources::new(&recipe, told))
}

/// Why the memory of a GPU is not known; `None` where it is, or nobody asks for it.
pub fn gpu_unknown(request: &Request, recipe: &Recipe, known: &LookupTables<'_>) -> Option<String> {
    let preset = request.preset();
    let asked = preset.knob(GPU_MEMORY).is_some();
    if !asked || !recipe.value(GPU_MEMORY).is_null() {
        return None;
    }
    let Some((named, sizes)) = gpu_sizes(request, recipe, known) else {
        return Some(format!(
            "add --set {GPU_MEMORY}={GPU_MEMORY_EXAMPLE}, or --set gpu_type=H100"
        ));
    };
    Some(match sizes.first() {
        Some(example) => {
            let sizes = sizes.join(" or ");
            format!("{named} has {sizes}; add --set {GPU_MEMORY}={example}")
        }
        None => format!(
            "no table has the GPU type {named}; add --set {GPU_MEMORY}={GPU_MEMORY_EXAMPLE}"
        ),
    })
}

/// The type of GPU that is named, with its sizes where it has several.
pub fn gpu_sizes(
    request: &Request,
    recipe: &Recipe,
    known: &LookupTables<'_>,
) -> Option<(String, Vec<String>)> {
    let knob = request.preset().with_role(Role::GpuType).next()?;
    let named = Some(recipe.value(&knob.name)).filter(|v| !v.is_null())?;
    let sizes = match known.gpu(&named.to_string()) {
        Ok(Some((Capacity::Several(sizes), _))) => sizes,
        _ => Vec::new(),
    };
    Some((named.to_string(), sizes))
}

/// Why a job cannot be estimated: the file that describes its model is at fault, or nobody knows the model, or a value is
/// missing.
pub fn why_unknown(
    request: &Request,
    known: &LookupTables<'_>,
    unknown: &Unknown,
) -> CommandFailure {
    let fields = request.preset().memory.as_ref().map(|m| &m.fields);
    let from = fields.and_then(|f| f.get(&unknown.field));
    let from = from.map_or(String::new(), |expr| {
        format!(" (the preset takes it from `{expr}`)")
    });
    let what = format!("the memory of this job cannot be estimated: {unknown}{from}");
    let failure = CommandFailure::configuration(what);
    let recipe = request.recipe(&[]).ok();
    let named = model_knob(request.preset()).and_then(|knob| recipe?.values.remove(knob));
    let hint = "give the model's dimensions as model.layers, model.hidden, … under `knobs:`, as its config.json names them";
    let Some(named) = named.filter(|r| !r.value.is_null()) else {
        return failure.hint(hint);
    };
    let name = named.value.to_string();
    match known.model(&name) {
        Ok(Some(_)) => failure,
        Ok(None) => {
            let what = format!("unknown model {name}: {}", known.where_looked(&name));
            failure.and(
                CommandFailure::configuration(what)
                    .at(&named.origin)
                    .hint(hint),
            )
        }
        Err(fault) => failure.and(fault),
    }
}
