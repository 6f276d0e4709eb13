//! What is said beside a script of the machine that it runs on: knobs that describe GPUs and change nothing in it.
//!
//! Rule: what is said and does not count is named.

use crate::cli::args::Configuration;
use crate::cli::request::load;
use crate::cli::session::Session;
use crate::core::config::{ConfigDocument, from_environment, from_flags};
use crate::core::recipe::{Layer, LayerKind, Preset};
use crate::io::environment::variables;
use crate::view::{CommandFailure, print};
use oomctl_base::Role;
use oomctl_memory::GPU_MEMORY;

/// The knob for the type of the GPUs.
const GPU_TYPE: &str = "gpu_type";
/// Knobs that count for scripts, too.
pub const DESCRIBING: [&str; 3] = [GPU_MEMORY, GPU_TYPE, "sampler"];

/// The layers of files, variables and flags, with those knobs only. `of_script` is what the script itself says.
pub fn layers(
    (session, flags): (&Session, &Configuration),
    preset: &Preset,
    cluster: Option<&ConfigDocument>,
    of_script: &Layer,
) -> Result<Vec<Layer>, CommandFailure> {
    let outer = load::outer_files()?;
    let outer = outer.iter().map(|(kind, file)| (*kind, file));
    let inner = [
        (LayerKind::Cluster, cluster),
        (LayerKind::Project, Some(&session.document)),
    ];
    let files = outer.chain(
        inner
            .into_iter()
            .filter_map(|(kind, doc)| Some((kind, doc?))),
    );
    let (mut layers, mut unused) = (Vec::new(), Vec::new());
    for (kind, file) in files {
        let (mut layer, others) = file.some_knobs(kind, preset, &DESCRIBING)?;
        if of_another(preset, &layer, of_script) {
            layer.settings.retain(|name, _| name == "sampler");
        }
        layers.push(layer);
        // What a site, a user or a cluster says for all templates is not said for this script.
        let own = kind == LayerKind::Project;
        unused.extend(others.into_iter().filter(|_| own));
    }
    if !unused.is_empty() {
        print::talk(&format!(
            "note: {} under `knobs:` of {} {} for templates; the script gives its values itself",
            unused.join(", "),
            session.document.path(),
            if unused.len() == 1 { "is" } else { "are" }
        ));
    }
    let variables: Vec<(String, String)> = variables().into_iter().collect();
    let all = || variables.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let mut environment = from_environment(preset, all())?;
    environment.settings.retain(|name, setting| {
        let counts = DESCRIBING.contains(&name.as_str());
        if !counts {
            print::talk(&format!(
                "note: {} is for templates; the script gives its values itself",
                setting.origin
            ));
        }
        counts
    });
    layers.push(environment);
    layers.push(from_flags(preset, &flags.set, &[])?);
    Ok(layers)
}

/// Whether a layer speaks of GPUs of another type than those that the script asks for.
fn of_another(preset: &Preset, layer: &Layer, of_script: &Layer) -> bool {
    let knob = preset.with_role(Role::GpuType).next();
    let named = |layer: &Layer| {
        let given = layer.settings.get(&knob?.name)?;
        Some(given.value.to_string().to_ascii_lowercase())
    };
    match (named(layer), named(of_script)) {
        (Some(theirs), Some(ours)) => theirs != ours,
        _ => false,
    }
}
