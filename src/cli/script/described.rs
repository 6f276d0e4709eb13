//! What is said beside a script: its GPUs, and what an estimate needs and the script leaves open. It changes nothing in it.
//!
//! Rule: what is said and does not count is named.

use crate::cli::args::Configuration;
use crate::cli::config_files::{of_site, outer_files};
use crate::cli::session::Session;
use crate::core::config::{ConfigDocument, from_environment, from_flags};
use crate::core::recipe::{Knob, Layer, LayerKind, Preset, bounds, knobs_in};
use crate::io::environment::variables;
use crate::view::{CommandFailure, print};
use oomctl_base::{Role, nearest};
use oomctl_memory::{GPU_MEMORY, GPU_MEMORY_EXAMPLE};

/// The knob for the type of the GPUs.
const GPU_TYPE: &str = "gpu_type";
/// Knobs that count for scripts, too.
const DESCRIBING: [&str; 3] = [GPU_MEMORY, GPU_TYPE, "sampler"];

/// Whether a `--set` says what the job runs on, and nothing of what its script is to do.
pub fn describes(set: &str) -> bool {
    let name = set.split('=').next().unwrap_or(set).trim();
    DESCRIBING.contains(&name)
}

/// Knobs that an estimate asks for and no program is told.
fn free(preset: &Preset) -> impl Iterator<Item = &str> {
    let asked = preset.memory.iter().flat_map(|m| m.asks.values());
    let free = asked.filter(|name| preset.knob(name).is_some_and(|k| k.spelling.is_none()));
    free.map(String::as_str)
}

/// Whether a `--set` is for an estimate alone.
pub fn is_for_estimate(preset: &Preset, set: &str) -> bool {
    let name = set.split('=').next().unwrap_or(set).trim();
    free(preset).any(|knob| knob == name)
}

/// The layers of files, variables and flags, with those knobs only. `of_script` is what the script itself says.
pub fn layers(
    (session, flags): (&Session, &Configuration),
    preset: &Preset,
    cluster: Option<&ConfigDocument>,
    of_script: &Layer,
) -> Result<Vec<Layer>, CommandFailure> {
    let outer = outer_files()?;
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
    let counting: Vec<&str> = free(preset).chain(DESCRIBING).collect();
    let (mut layers, mut unused) = (Vec::new(), Vec::new());
    for (kind, file) in files {
        let known = file.some_knobs(kind, preset, &counting);
        let known = known.map_err(CommandFailure::from);
        let (mut layer, others) = match kind {
            LayerKind::Site => of_site(known).unwrap_or_else(|| (Layer::new(kind), Vec::new())),
            _ => known?,
        };
        if of_another(preset, &layer, of_script) {
            layer
                .settings
                .retain(|name, _| name != GPU_MEMORY && name != GPU_TYPE);
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
            &session.document.path,
            if unused.len() == 1 { "is" } else { "are" }
        ));
    }
    layers.push(of_variables(preset, &counting)?);
    for set in &flags.set {
        counts(preset, of_script, set)?;
    }
    let mut told = from_flags(preset, &flags.set, &[])?;
    for (name, setting) in &told.settings {
        let knob = preset.knob(name);
        if let Some((knob, what)) = knob.and_then(|k| Some((k, bounds(k, &setting.value)?))) {
            return Err(CommandFailure::usage(what).hint(knob.takes()));
        }
    }
    // What code computes stays, whatever somebody says that it comes to.
    let computed = told
        .settings
        .iter()
        .filter(|(name, _)| of_script.pins.contains_key(*name));
    told.pins = computed
        .map(|(name, s)| (name.clone(), s.origin.clone()))
        .collect();
    layers.push(told);
    Ok(layers)
}

/// What variables say, of the knobs that count.
fn of_variables(preset: &Preset, counting: &[&str]) -> Result<Layer, CommandFailure> {
    let variables = variables();
    let all = variables.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let mut environment = from_environment(preset, all)?;
    environment.settings.retain(|name, setting| {
        let counts = counting.contains(&name.as_str());
        if !counts {
            print::talk(&format!(
                "note: {} is for templates; the script gives its values itself",
                setting.origin
            ));
        }
        counts
    });
    Ok(environment)
}

/// Whether `--set` says what the script leaves open. It changes nothing in the script.
fn counts(preset: &Preset, of_script: &Layer, set: &str) -> Result<(), CommandFailure> {
    let name = set.split('=').next().unwrap_or(set).trim();
    if name.is_empty() || !set.contains('=') {
        let what = match name {
            "" => format!("--set {set} names no knob"),
            name => format!("--set {name} gives no value"),
        };
        return Err(CommandFailure::usage(what).hint(format!(
            "write --set KNOB=VALUE: --set {GPU_MEMORY}={GPU_MEMORY_EXAMPLE}"
        )));
    }
    let knob = preset.knob(name).map_or(name, |k| k.name.as_str());
    let given = of_script.settings.get(knob).filter(|s| !s.value.is_null());
    // A model in a folder that is not here may be known by its name.
    let of_model = |k: &Knob| k.role == Some(Role::ModelVariant);
    let is_model = preset.knob(name).is_some_and(of_model);
    if let Some(given) = given.filter(|_| !is_model) {
        let what = format!("the script says {knob} itself ({})", given.origin);
        return Err(CommandFailure::usage(what).hint("change it there"));
    }
    let bridge = preset.memory.as_ref();
    let fields = bridge.iter().flat_map(|m| m.fields.values());
    let used = knobs_in(preset, fields.map(String::as_str));
    let asked = bridge.is_some_and(|m| is_model || m.asks.values().any(|name| name == knob));
    if DESCRIBING.contains(&knob) || used.contains(knob) || asked {
        return Ok(());
    }
    let takes = DESCRIBING.into_iter();
    let takes = takes.chain(
        bridge
            .iter()
            .flat_map(|m| m.asks.values().map(String::as_str)),
    );
    // A word for something else is no misspelling.
    let alike =
        |near: &&str| preset.knob(name).is_none() && near.chars().next() == knob.chars().next();
    if let Some(near) = nearest(knob, takes).filter(alike) {
        let what = format!("--set {set} names no knob");
        return Err(CommandFailure::usage(what).hint(format!("did you mean {near}?")));
    }
    let what = format!("--set {set}: `{knob}` is no value that --set takes before SCRIPT");
    Err(CommandFailure::usage(what).hint(format!(
        "put an option of your program after SCRIPT. --set before it takes {}, and what `oomctl estimate SCRIPT` asks for. \
         Describe the nodes in a cluster profile (--cluster NAME; `oomctl init --cluster` writes one)",
        DESCRIBING.map(|name| format!("{name}=…")).join(", ")
    )))
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
