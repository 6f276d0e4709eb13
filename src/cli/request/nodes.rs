//! The nodes that a job goes to, as Slurm describes them where no cluster profile does.

use super::profile::{named, profile};
use super::sections::facts;
use crate::cli::args::Configuration;
use crate::cli::config_files::of_site;
use crate::cli::session::Session;
use crate::core::adopt;
use crate::core::config::ConfigDocument;
use crate::core::memory::naming;
use crate::core::recipe::{ClusterFacts, Layer, LayerKind, Preset};
use crate::core::request::Request;
use crate::io::environment::variables;
use crate::io::library::LibraryFolder;
use crate::io::scheduler::slurm::ClusterPartition;
use crate::view::CommandFailure;
use oomctl_base::{Role, only};
use oomctl_scripts::{Adoption, Reading, asked, gpu_type};

/// Variables that send a job to another cluster than the one that is asked.
const ELSEWHERE: [&str; 2] = ["SBATCH_CLUSTERS", "SLURM_CLUSTERS"];

/// The nodes that a job goes to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobNodes {
    /// Facts about them.
    pub facts: ClusterFacts,
    /// The type of their GPUs, where Slurm says it and the job need not.
    pub gpu_type: Option<String>,
    /// In words, with who says so, where that is Slurm.
    pub described: Option<String>,
}

/// The cluster profile, with its name: that of the flag or of the project, else of the user's file, else of the site's.
pub fn cluster_profile(
    session: &Session,
    flags: &Configuration,
    outer: &[(LayerKind, ConfigDocument)],
) -> Result<(Option<String>, Option<ConfigDocument>), CommandFailure> {
    let read = |name: &str| profile(session, LibraryFolder::Clusters, "cluster", Some(name));
    if let Some(name) = named(session, "cluster", flags.cluster.as_deref())? {
        let profile = read(&name)?;
        return Ok((Some(name), profile));
    }
    for (kind, file) in outer.iter().rev() {
        let named = || {
            let Some(given) = file.text("cluster")? else {
                return Ok((None, None));
            };
            let source = session.library.get(LibraryFolder::Clusters, &given.text);
            source.map_err(|e| CommandFailure::from(e).at(&given.origin))?;
            let profile = read(&given.text)?;
            facts(profile.as_ref())?;
            Ok((Some(given.text), profile))
        };
        let named = match kind {
            LayerKind::Site => of_site(named()).unwrap_or_default(),
            _ => named()?,
        };
        if named.0.is_some() {
            return Ok(named);
        }
    }
    Ok((None, None))
}

/// What the cluster profile says of a job's nodes; without one what Slurm says of its partition, of those that have what the job asks
/// for. Nothing where Slurm does not answer, and of a job for another cluster.
pub fn of_job(
    session: &Session,
    profile: Option<&ConfigDocument>,
    backend: &str,
    asked: &AskedNodes,
) -> Result<JobNodes, CommandFailure> {
    match profile {
        Some(_) => Ok(JobNodes {
            facts: facts(profile)?,
            ..JobNodes::default()
        }),
        None if backend == "slurm" && !asked.elsewhere => {
            Ok(asked.among(session.runs.partitions()))
        }
        None => Ok(JobNodes::default()),
    }
}

/// Why Slurm will refuse a script, as far as its partitions tell; nothing where they are not asked.
pub fn refusals(session: &Session, request: &Request, adoption: &Adoption<'_>) -> Vec<String> {
    let inputs = request.inputs();
    let reading = &adoption.reading;
    let nodes = AskedNodes::of_script(reading, request.preset(), &inputs.layers);
    if inputs.cluster.is_some() || inputs.backend != "slurm" || nodes.elsewhere {
        return Vec::new();
    }
    // GPUs of the whole job or of a task may lie on several nodes, unless it says how many.
    let of_node = adopt::gives(reading, &["gres", "gpus-per-node", "nodes"]);
    let gpus = asked(reading, Role::GpusPerNode).filter(|_| of_node);
    let gpus = gpus.map_or(0, |(count, _)| u64::from(count));
    let kind = gpu_type(reading).map(|(name, _)| name);
    nodes.refused(session.runs.partitions(), gpus, kind.as_deref())
}

/// What a job says of its nodes.
#[derive(Debug, Default)]
pub struct AskedNodes {
    /// It goes to another cluster than the one that is asked.
    elsewhere: bool,
    /// Names of partitions, separated by commas.
    partitions: Option<String>,
    gpu_type: Option<String>,
    constraint: Option<String>,
}

impl AskedNodes {
    /// What the layers say, and words for sbatch.
    pub fn of_layers(preset: &Preset, layers: &[Layer], sbatch: &[String]) -> Self {
        let variables = variables();
        let is_elsewhere = |word: &String| word.starts_with("-M") || word.starts_with("--cluster");
        let named = |knob: &str| naming(preset, layers, knob).map(|named| named.name);
        let partition = || variables.get("SBATCH_PARTITION").cloned();
        Self {
            elsewhere: sbatch.iter().any(is_elsewhere)
                || ELSEWHERE.iter().any(|name| variables.contains_key(*name)),
            partitions: named("partition").or_else(partition),
            gpu_type: named("gpu_type"),
            constraint: named("constraint"),
        }
    }

    /// What a script says, or how it is submitted.
    pub fn of_script(reading: &Reading, preset: &Preset, layers: &[Layer]) -> Self {
        Self {
            elsewhere: adopt::gives(reading, &["clusters"]),
            partitions: adopt::given(reading, "partition"),
            gpu_type: naming(preset, layers, "gpu_type").map(|named| named.name),
            constraint: adopt::given(reading, "constraint"),
        }
    }

    /// What all nodes have in common that the job may get. A fact in which they differ is unknown.
    fn among(&self, all: &[ClusterPartition]) -> JobNodes {
        let mut kinds: Vec<&ClusterPartition> = all.iter().filter(|p| self.may_get(p)).collect();
        if kinds.iter().any(|p| p.gpus > 0) {
            kinds.retain(|p| p.gpus > 0);
        }
        let number = |of: fn(&ClusterPartition) -> u64| {
            let common = common(&kinds, |p| Some(of(p)))?;
            u32::try_from(common).ok().filter(|n| *n > 0)
        };
        let memory = common(&kinds, |p| Some(p.memory_mib)).filter(|mib| *mib > 0);
        let most = common(&kinds, |p| Some(p.most_nodes)).flatten();
        let nodes: u64 = kinds.iter().map(|p| p.nodes).sum();
        let nodes = most.map_or(nodes, |most| nodes.min(most));
        let facts = ClusterFacts {
            gpus_per_node: number(|p| p.gpus),
            nodes: u32::try_from(nodes).ok().filter(|n| *n > 0),
            node_memory: memory.map(|mib| format!("{mib}M")),
            cpus_per_node: number(|p| p.cpus),
            time_limit: common(&kinds, |p| p.time_limit.clone()),
            ..ClusterFacts::default()
        };
        let gpu_type = common(&kinds, |p| p.gpu_type.clone());
        let described = described(&kinds, &facts, gpu_type.as_deref());
        JobNodes {
            gpu_type: gpu_type.filter(|_| self.gpu_type.is_none()),
            facts,
            described,
        }
    }

    /// A partition that is not there, and more GPUs a node, or of another type, than any node has.
    fn refused(&self, all: &[ClusterPartition], gpus: u64, kind: Option<&str>) -> Vec<String> {
        let there = names(all.iter());
        let named = self.partitions.iter().flat_map(|names| names.split(','));
        let unknown: Vec<&str> = named.filter(|name| !there.contains(name)).collect();
        if there.is_empty() {
            return Vec::new();
        }
        if !unknown.is_empty() {
            return vec![format!(
                "Slurm will refuse this job: sinfo lists no partition {}, only {} (`sinfo -a` shows hidden ones)",
                unknown.join(", "),
                there.join(", ")
            )];
        }
        let nodes: Vec<_> = all.iter().filter(|p| self.is_in_partition(p)).collect();
        let of_kind = nodes.iter().filter(|p| may_be_of(p, kind));
        let most = of_kind.map(|p| p.gpus).max();
        let most = most.unwrap_or(0);
        if nodes.is_empty() || gpus <= most {
            return Vec::new();
        }
        let held = |p: &ClusterPartition| {
            let kind = p.gpu_type.as_deref().unwrap_or("GPUs");
            (p.gpus > 0).then(|| format!("{} {kind}", p.gpus))
        };
        let mut have: Vec<String> = nodes.iter().filter_map(|p| held(p)).collect();
        have.dedup();
        if have.is_empty() {
            have.push("none".to_owned());
        }
        vec![format!(
            "Slurm will refuse this job: it asks for {gpus} {} on a node, and a node of partition {} has {}",
            kind.unwrap_or("GPUs"),
            names(nodes.iter().copied()).join(", "),
            have.join(" or ")
        )]
    }

    fn is_in_partition(&self, nodes: &ClusterPartition) -> bool {
        match &self.partitions {
            Some(names) => names.split(',').any(|name| name == nodes.name),
            None => nodes.is_default,
        }
    }

    fn may_get(&self, nodes: &ClusterPartition) -> bool {
        // Of an expression of several features nobody knows which nodes it means.
        let has = |wanted: &String| {
            let is_plain = !wanted.contains(|c: char| "&|[]()*!,".contains(c));
            !is_plain || nodes.features.iter().any(|f| f == wanted)
        };
        self.is_in_partition(nodes)
            && may_be_of(nodes, self.gpu_type.as_deref())
            && self.constraint.as_ref().is_none_or(has)
    }
}

/// The names of partitions, each once.
fn names<'p>(all: impl Iterator<Item = &'p ClusterPartition>) -> Vec<&'p str> {
    let mut names: Vec<&str> = all.map(|p| p.name.as_str()).collect();
    names.dedup();
    names
}

/// Whether nodes may have GPUs of a type, where one is wanted.
fn may_be_of(nodes: &ClusterPartition, wanted: Option<&str>) -> bool {
    let both = nodes.gpu_type.as_deref().zip(wanted);
    both.is_none_or(|(given, wanted)| given.eq_ignore_ascii_case(wanted))
}

/// What all kinds of nodes have in common; `None` where one differs or has none.
fn common<T: PartialEq>(
    kinds: &[&ClusterPartition],
    of: impl Fn(&ClusterPartition) -> Option<T>,
) -> Option<T> {
    let mut all: Vec<Option<T>> = kinds.iter().map(|p| of(p)).collect();
    all.dedup();
    only(all.into_iter())?
}

/// `partition gpu: 4 nodes of 8 h100 GPUs, 192 CPUs, 1900000M, at most 2-00:00:00 (sinfo)`.
fn described(
    kinds: &[&ClusterPartition],
    facts: &ClusterFacts,
    gpu_type: Option<&str>,
) -> Option<String> {
    let nodes: u64 = kinds.iter().map(|p| p.nodes).sum();
    let kind = gpu_type.map_or_else(String::new, |kind| format!("{kind} "));
    let parts = [
        facts.gpus_per_node.map(|n| format!("{n} {kind}GPUs")),
        facts.cpus_per_node.map(|n| format!("{n} CPUs")),
        facts.node_memory.clone(),
        facts.time_limit.as_ref().map(|t| format!("at most {t}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let of = if parts.is_empty() { "" } else { " of " };
    let (names, parts) = (names(kinds.iter().copied()).join(", "), parts.join(", "));
    (nodes > 0).then(|| format!("partition {names}: {nodes} nodes{of}{parts} (sinfo)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, gpus: u64, gpu_type: &str, memory_mib: u64) -> ClusterPartition {
        ClusterPartition {
            name: name.to_owned(),
            is_default: name == "gpu",
            nodes: 4,
            cpus: 64,
            memory_mib,
            gpus,
            gpu_type: (!gpu_type.is_empty()).then(|| gpu_type.to_owned()),
            features: vec![format!("{gpu_type}_nodes")],
            ..ClusterPartition::default()
        }
    }

    fn asked(partitions: &str, gpu_type: &str, constraint: &str) -> AskedNodes {
        let [partitions, gpu_type, constraint] = [partitions, gpu_type, constraint]
            .map(|text| (!text.is_empty()).then(|| text.to_owned()));
        AskedNodes {
            partitions,
            gpu_type,
            constraint,
            ..AskedNodes::default()
        }
    }

    fn two_partitions() -> [ClusterPartition; 4] {
        [
            kind("gpu", 8, "h100", 1_000_000),
            kind("gpu", 4, "a100", 500_000),
            kind("gpu", 0, "", 500_000),
            kind("cpu", 0, "", 900_000),
        ]
    }

    #[test]
    fn what_differs_between_nodes_is_unknown() {
        let all = two_partitions();
        let both = asked("", "", "").among(&all);
        assert_eq!(both.facts.gpus_per_node, None);
        assert_eq!(
            (both.facts.nodes, both.facts.cpus_per_node),
            (Some(8), Some(64))
        );
        assert_eq!((both.facts.node_memory, both.gpu_type), (None, None));
        for of_one in [asked("gpu", "H100", ""), asked("", "", "h100_nodes")] {
            let of_one = of_one.among(&all).facts;
            assert_eq!((of_one.gpus_per_node, of_one.nodes), (Some(8), Some(4)));
            assert_eq!(of_one.node_memory.as_deref(), Some("1000000M"));
        }
        let several = asked("", "", "h100_nodes|a100_nodes").among(&all);
        assert_eq!(several.facts.gpus_per_node, None);
        assert_eq!(asked("nowhere", "", "").among(&all), JobNodes::default());
        assert_eq!(asked("cpu", "", "").among(&all).facts.gpus_per_node, None);
    }

    #[test]
    fn what_slurm_will_refuse_is_known_from_its_partitions() {
        let all = two_partitions();
        let told = |partitions: &str, gpus: u64, kind: Option<&str>| {
            asked(partitions, "", "").refused(&all, gpus, kind).join("")
        };
        let none = "Slurm will refuse this job: sinfo lists no partition nopart, only gpu, cpu (`sinfo -a` shows hidden ones)";
        assert_eq!(told("gpu,nopart", 1, None), none);
        let more = "Slurm will refuse this job: it asks for 9 GPUs on a node, and a node of partition gpu has 8 h100 or 4 a100";
        assert_eq!(told("", 9, None), more);
        assert!(told("gpu", 5, Some("A100")).contains("5 A100 on a node"));
        assert!(told("gpu", 1, Some("v100")).contains("1 v100 on a node"));
        assert!(told("cpu", 1, None).ends_with("partition cpu has none"));
        for (partitions, gpus, kind) in [
            ("", 8, None),
            ("cpu,gpu", 8, Some("h100")),
            ("cpu", 0, None),
        ] {
            assert_eq!(told(partitions, gpus, kind), "");
        }
        // Slurm does not answer.
        assert!(asked("nopart", "", "").refused(&[], 99, None).is_empty());
    }

    #[test]
    fn a_type_that_slurm_knows_alone_is_known_of_the_job() {
        let all = [kind("gpu", 8, "h100", 1_000_000)];
        let found = asked("", "", "").among(&all);
        assert_eq!(found.gpu_type.as_deref(), Some("h100"));
        let words = "partition gpu: 4 nodes of 8 h100 GPUs, 64 CPUs, 1000000M (sinfo)";
        assert_eq!(found.described.as_deref(), Some(words));
        assert_eq!(asked("", "h100", "").among(&all).gpu_type, None);
    }
}
