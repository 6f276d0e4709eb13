//! A cluster profile to begin with, from what Slurm says.

use std::path::{Path, PathBuf};

use crate::cli::request::known::LookupTables;
use crate::io::files::{Access, check_run_name, write_to};
use crate::io::library::Library;
use crate::io::scheduler::slurm::{ClusterPartition, Slurm, SlurmCluster};
use crate::view::CommandFailure;
use oomctl_base::Value;
use oomctl_memory::Capacity;
use oomctl_scripts::yaml::written;

/// Asks Slurm, and writes the profile into the project's folder. Without a name it is called as the cluster is.
pub fn write(folder: &Path, name: &str, force: bool) -> Result<PathBuf, CommandFailure> {
    let by_hand =
        "run it where Slurm's commands are; docs/cluster.md says how to write a profile by hand";
    let facts = Slurm::new().cluster();
    let facts = facts.map_err(|why| CommandFailure::refused(why).hint(by_hand))?;
    let name = match name {
        "" => facts
            .name
            .clone()
            .unwrap_or_else(|| "my-cluster".to_owned()),
        name => name.to_owned(),
    };
    check_run_name(&name)?;
    let path = folder.join("presets/clusters").join(format!("{name}.yaml"));
    if path.exists() && !force {
        let what = format!("{} already exists", path.display());
        return Err(CommandFailure::configuration(what).hint("--force replaces it"));
    }
    let dir = path.parent().unwrap_or(folder);
    std::fs::create_dir_all(dir).map_err(|e| {
        CommandFailure::configuration(format!("cannot create {}: {e}", dir.display()))
    })?;
    let library = Library::new(Some(folder));
    let tables = LookupTables::new(&library, folder);
    let memory_of = |kind: &str| match tables.gpu(kind).ok()?? {
        (Capacity::Known(text, _), _) => Some(text),
        _ => None,
    };
    let text = text(&name, &facts, memory_of);
    write_to(&path, text.as_bytes(), Access::Shared)?;
    Ok(path)
}

/// The nodes that jobs get by default: the default partition where it has GPUs, else the first that has some.
pub fn usual(facts: &SlurmCluster) -> Option<&ClusterPartition> {
    let gpus = || facts.partitions.iter().filter(|p| p.gpus > 0);
    let default = gpus().find(|p| p.is_default);
    default
        .or_else(|| gpus().next())
        .or(facts.partitions.first())
}

type PartitionFact = (&'static str, fn(&ClusterPartition) -> Option<String>);
const FACTS: [PartitionFact; 5] = [
    ("gpus_per_node", |p| counted(p.gpus)),
    ("nodes", |p| counted(p.nodes)),
    ("cpus_per_node", |p| counted(p.cpus)),
    ("node_memory", |p| {
        counted(p.memory_mib).map(|mib| format!("{mib}M"))
    }),
    ("time_limit", |p| p.time_limit.as_deref().map(quoted)),
];
const GPU_TYPE: PartitionFact = ("gpu_type", |p| p.gpu_type.as_deref().map(quoted));

fn counted(n: u64) -> Option<String> {
    (n > 0).then(|| n.to_string())
}

fn quoted(text: &str) -> String {
    written(&Value::Text(text.to_owned())).unwrap_or_default()
}

/// The line of a fact that is the same on all these nodes. One that differs would refuse jobs of another partition: a
/// comment says what each has.
fn fact_of((name, of): &PartitionFact, alike: &[&ClusterPartition]) -> String {
    let values: Vec<Option<String>> = alike.iter().map(|p| of(p)).collect();
    let Some(first) = values.first().filter(|v| values.iter().all(|o| o == *v)) else {
        let each = alike.iter().zip(&values);
        let each = each.map(|(p, v)| format!("{} {}", p.name, v.as_deref().unwrap_or("none")));
        let each: Vec<String> = each.collect();
        return format!("  # {name} differs: {}\n", each.join(", "));
    };
    let line = first.as_ref().map(|value| format!("  {name}: {value}\n"));
    line.unwrap_or_default()
}

/// The types of GPU for the rung `larger-gpu`, where there are several. Where their memory is not known, people have to say it.
fn gpu_types(facts: &SlurmCluster, memory_of: impl Fn(&str) -> Option<String>) -> Option<String> {
    let types = facts.partitions.iter();
    let types = types.filter_map(|p| Some((p.gpu_type.as_deref()?, quoted(&p.name))));
    let line = |(kind, partition): (&str, String)| {
        let memory = memory_of(kind);
        let named = quoted(kind);
        let (mark, size) = match &memory {
            Some(memory) => ("  ", memory.as_str()),
            None => ("# ", "??GiB"),
        };
        let set = format!("gpu_type: {named}, partition: {partition}");
        let text = format!("  {mark}  - {{ name: {named}, memory: {size}, set: {{ {set} }} }}\n");
        (memory.is_some(), text)
    };
    let (known, lines): (Vec<bool>, Vec<String>) = types.map(line).unzip();
    if lines.len() < 2 {
        return None;
    }
    let by_hand =
        "  # Fill in the memory that PyTorch reports (`oomctl gpus` on a node) in lines with ??.\n";
    let by_hand = if known.contains(&false) { by_hand } else { "" };
    let mark = if known.contains(&true) { "  " } else { "  # " };
    Some(format!("{by_hand}{mark}gpu_types:\n{}", lines.concat()))
}

fn text(name: &str, facts: &SlurmCluster, memory_of: impl Fn(&str) -> Option<String>) -> String {
    let mut names: Vec<&str> = facts.partitions.iter().map(|p| p.name.as_str()).collect();
    names.dedup();
    let summary = quoted(&format!("Partitions {}", names.join(", ")));
    let mut out = format!(
        "# Written by `oomctl init --cluster` from sinfo, scontrol and sacctmgr. Look it over, then share it: here, or for\n\
         # everybody in /etc/oomctl/clusters (or $OOMCTL_SITE/clusters). A fact that is left out is unknown, and a rung that needs it is skipped.\n\
         # node_memory is all that Slurm gives to jobs on a node; less where the site keeps some (MemSpecLimit).\n\
         cluster: {}\nsummary: {summary}\n",
        quoted(name)
    );
    let Some(usual) = usual(facts) else {
        return out;
    };
    let with_gpus: Vec<_> = facts.partitions.iter().filter(|p| p.gpus > 0).collect();
    let alike = match with_gpus.is_empty() {
        true => vec![usual],
        false => with_gpus,
    };
    out.push_str("\nfacts:\n");
    out.extend(FACTS.iter().map(|fact| fact_of(fact, &alike)));
    out.extend(gpu_types(facts, memory_of));
    out.push_str(&format!("\nknobs:\n  partition: {}\n", quoted(&usual.name)));
    out.push_str(&fact_of(&GPU_TYPE, &alike));
    match facts.accounts.as_slice() {
        [] => {}
        [one] => out.push_str(&format!("  account: {}\n", quoted(one))),
        several => out.push_str(&format!(
            "  # One of your accounts: {}\n  # account: {}\n",
            several.join(", "),
            quoted(&several[0])
        )),
    }
    out
}
