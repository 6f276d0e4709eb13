//! What Slurm says of the cluster: partitions with their nodes, and the accounts of the user.

use super::super::command::CommandOutput;
use super::Slurm;
use oomctl_base::only;

/// What Slurm says of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlurmCluster {
    /// Its name.
    pub name: Option<String>,
    /// Its partitions, once for each kind of node.
    pub partitions: Vec<ClusterPartition>,
    /// Accounts of the user.
    pub accounts: Vec<String>,
}

/// Nodes of one kind in a partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterPartition {
    /// Name of the partition.
    pub name: String,
    /// Is it what a job gets that names none?
    pub is_default: bool,
    /// Longest time of a job, as Slurm writes it; `None` where there is no limit.
    pub time_limit: Option<String>,
    /// How many nodes.
    pub nodes: u64,
    /// CPUs of a node.
    pub cpus: u64,
    /// Memory of a node in MiB.
    pub memory_mib: u64,
    /// GPUs of a node.
    pub gpus: u64,
    /// Type of its GPUs, as `--gres=gpu:TYPE` has it.
    pub gpu_type: Option<String>,
    /// Features that `--constraint` may ask for.
    pub features: Vec<String>,
    /// The most nodes of one job; `None` where there is no limit.
    pub most_nodes: Option<u64>,
}

impl Slurm {
    /// Asks Slurm for the partitions, once for each kind of node.
    ///
    /// # Errors
    /// Why none are to be seen.
    pub fn partitions(&self) -> Result<Vec<ClusterPartition>, String> {
        let words = ["-h", "-e", "-o", "%P|%l|%D|%c|%m|%G|%s|%f"].map(str::to_owned);
        let nodes = self.clients.query("sinfo", &words);
        if !nodes.is_clean() {
            return Err(format!("sinfo does not answer: {}", nodes.describe()));
        }
        let partitions: Vec<_> = nodes.stdout.lines().filter_map(partition).collect();
        match partitions.is_empty() {
            true => Err("sinfo shows no partition".to_owned()),
            false => Ok(partitions),
        }
    }

    /// Asks Slurm for it. What only the accounting knows may be missing.
    ///
    /// # Errors
    /// Why there are no partitions to be seen.
    pub fn cluster(&self) -> Result<SlurmCluster, String> {
        let ask = |program: &'static str, arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
            self.clients.query(program, &arguments)
        };
        let partitions = self.partitions()?;
        let user = std::env::var("USER").unwrap_or_default();
        let user = format!("user={user}");
        let assoc = ["-n", "-P", "show", "assoc", &user, "format=account"];
        Ok(SlurmCluster {
            name: cluster_name(&ask("scontrol", &["show", "config"])),
            partitions,
            accounts: accounts(&ask("sacctmgr", &assoc)),
        })
    }
}

/// `gpu*|2-00:00:00|4|192|1900000+|gpu:h100:8(S:0-1)|1-infinite|h100,ib`.
fn partition(line: &str) -> Option<ClusterPartition> {
    let mut fields = line.split('|').map(str::trim);
    let name = fields.next().filter(|name| !name.is_empty())?;
    let limit = fields.next()?.to_owned();
    let [nodes, cpus, memory_mib] = [fields.next()?, fields.next()?, fields.next()?].map(number);
    let (gpu_type, gpus) = gres(fields.next()?);
    let (_, most) = fields
        .next()
        .unwrap_or_default()
        .rsplit_once('-')
        .unwrap_or_default();
    let features = fields.next().unwrap_or_default().split(',');
    let features = features.filter(|f| !f.is_empty() && *f != "(null)");
    Some(ClusterPartition {
        name: name.trim_end_matches('*').to_owned(),
        is_default: name.ends_with('*'),
        time_limit: Some(limit).filter(|l| l.starts_with(|c: char| c.is_ascii_digit())),
        nodes,
        cpus,
        memory_mib,
        gpus,
        gpu_type,
        features: features.map(str::to_owned).collect(),
        most_nodes: most.parse().ok(),
    })
}

/// The number that a field begins with: `1900000+` where nodes differ.
fn number(field: &str) -> u64 {
    let digits = field.chars().take_while(char::is_ascii_digit);
    digits.collect::<String>().parse().unwrap_or(0)
}

/// Type and count of GPUs: `gpu:h100:8(S:0-1),shard:h100:32`, `gpu:4`. GPUs of several types have none.
fn gres(field: &str) -> (Option<String>, u64) {
    let gpus = field
        .split(',')
        .filter_map(|g| g.trim().strip_prefix("gpu:"));
    let gpus = gpus.map(|gpus| {
        let gpus = gpus.split('(').next().unwrap_or(gpus);
        gpus.rsplit_once(':')
            .map_or((None, number(gpus)), |(kind, count)| {
                (Some(kind.to_owned()), number(count))
            })
    });
    let (mut kinds, counts): (Vec<Option<String>>, Vec<u64>) = gpus.unzip();
    kinds.dedup();
    (only(kinds.into_iter()).flatten(), counts.iter().sum())
}

fn cluster_name(config: &CommandOutput) -> Option<String> {
    let mut lines = config.stdout.lines();
    lines.find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "ClusterName").then(|| value.trim().to_owned())
    })
}

fn accounts(assoc: &CommandOutput) -> Vec<String> {
    let lines = assoc.stdout.lines().map(str::trim);
    let mut accounts: Vec<String> = lines.filter(|l| !l.is_empty()).map(str::to_owned).collect();
    accounts.sort();
    accounts.dedup();
    accounts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_sinfo_is_a_kind_of_node() {
        let gpu = partition("gpu*|2-00:00:00|4|192|1900000+|gpu:h100:8(S:0-1),shard:h100:32");
        let gpu = gpu.unwrap();
        assert_eq!(
            (gpu.name.as_str(), gpu.is_default, gpu.gpus),
            ("gpu", true, 8)
        );
        assert_eq!(
            (gpu.gpu_type.as_deref(), gpu.memory_mib),
            (Some("h100"), 1_900_000)
        );
        let cpu = partition("cpu|infinite|10|64|256000|(null)").unwrap();
        assert_eq!((cpu.time_limit, cpu.gpus, cpu.gpu_type), (None, 0, None));
        assert_eq!(gres("gpu:4"), (None, 4));
        assert_eq!(gres("gpu:a100:4(S:0),gpu:v100:2(S:1)"), (None, 6));
        let all = partition("a|1:00|4|8|9|gpu:h100:8|1-2|ib,h100").unwrap();
        assert_eq!((all.features.len(), all.most_nodes), (2, Some(2)));
        let bare = partition("a|1:00|4|8|9|gpu:8|1-infinite|(null)").unwrap();
        assert_eq!((bare.features.len(), bare.most_nodes), (0, None));
        assert_eq!(partition("no such thing"), None);
    }
}
