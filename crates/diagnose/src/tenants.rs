//! Whose bytes fill the GPU: ours, or somebody else's.

use std::sync::LazyLock;

use regex::Regex;

use super::ascii::compiled;
use serde::{Deserialize, Serialize};

use oomctl_base::units::Bytes;

use super::engine_cache::StartedCache;
use super::figures::MemoryFigures;
use super::hints::LogHints;
use super::host_use::HostFilling;

/// What is known about our own processes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ours {
    /// Process ids that the log names as ours, at most [`Ours::PIDS`].
    pids: Vec<u64>,
    /// Process ids of ranks, by their launcher: each should have a GPU of its own.
    #[serde(default)]
    ranks: Vec<u64>,
    /// A process that `torch.multiprocessing.spawn` did not start first has died. All that it starts see the same GPUs.
    #[serde(default)]
    spawned: bool,
    /// An inference engine or Ray runs beside the trainer, by what is printed or by whom: processes that the trainer's
    /// message counts as others, and memory that PyTorch does not count, can be ours.
    pub engine: bool,
    /// What an engine said of its cache when it started.
    #[serde(default)]
    pub cache: StartedCache,
    /// How full the host was.
    #[serde(default)]
    pub host: HostFilling,
    /// What the log itself says beside the failure.
    #[serde(default)]
    pub hints: LogHints,
}

impl Ours {
    const PIDS: usize = 512;

    /// Takes a line and the process id before its message.
    pub(crate) fn see(&mut self, pid: Option<u64>, text: &str) {
        static ENGINES: LazyLock<Regex> =
            LazyLock::new(|| compiled("vllm|vLLM|sglang|SGLang|ray::|RayTaskError|RayActor"));
        // PyTorch 1.13 to 2.9, torch/distributed/elastic/multiprocessing/api.py.
        static RANK: LazyLock<Regex> =
            LazyLock::new(|| compiled(r"(?:Sending process |local_rank: \d+ \(pid: )(\d+)"));
        if let Some(pid) = pid {
            self.know(pid);
        }
        let rank = RANK.captures(text).and_then(|found| found[1].parse().ok());
        if let Some(rank) = rank {
            remember(&mut self.ranks, rank);
        }
        self.spawned = self.spawned || is_spawned(text);
        // Only Ray and vLLM print a process id before a message, and their processes share GPUs.
        self.engine = self.engine || pid.is_some() || ENGINES.is_match(text);
        self.cache.see(text);
        self.host.see(text);
        self.hints.see(text);
    }

    /// Whether a process is a rank of ours: its launcher starts them one after the other.
    fn is_rank(&self, pid: u64) -> bool {
        self.ranks.iter().any(|rank| rank.abs_diff(pid) <= NEAR)
    }

    /// Remembers a process id printed by a launcher.
    pub(crate) fn know(&mut self, pid: u64) {
        remember(&mut self.pids, pid);
    }
}

/// What `torch.multiprocessing.spawn` writes before the traceback of a process: `-- Process 5 terminated with the following error:`
/// (torch/multiprocessing/spawn.py, 1.0 to 2.9).
pub(crate) const SPAWNED: &str = "terminated with the following error";

/// Whether a line says so of a process that is not the first.
fn is_spawned(text: &str) -> bool {
    let number = text.strip_prefix("-- Process ");
    let number = number.and_then(|rest| rest.split_once(SPAWNED)?.0.trim().parse::<u32>().ok());
    number.is_some_and(|number| number > 0)
}

fn remember(pids: &mut Vec<u64>, pid: u64) {
    if pids.len() < Ours::PIDS && !pids.contains(&pid) {
        pids.push(pid);
    }
}

/// Process ids of a launcher's ranks are no farther from each other.
const NEAR: u64 = 16;

/// Whether some processes were started one after the other: a launcher starts its ranks so, and each opens GPU 0 where the program
/// does not choose one. They hold as much as each other, unless a rank that is not the first died on GPU 0. A neighbour's
/// processes seldom share a GPU.
fn are_sisters(listed: &[(u64, Bytes)], of_later_rank: bool) -> bool {
    let Some(((pid, size), others)) = listed.split_first() else {
        return false;
    };
    let alike = |(other, held): &(u64, Bytes)| {
        let same = of_later_rank || held.0.abs_diff(size.0) <= size.0 / 50;
        other.abs_diff(*pid) <= NEAR && same
    };
    !others.is_empty() && others.iter().all(alike)
}

/// Below this a process holds little more than a CUDA context (which other ranks of ours may have opened
/// on the same GPU by mistake).
const CONTEXT: u64 = 768 << 20;

/// Who holds a GPU beside the process that failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Nobody, as far as the message tells.
    Nobody,
    /// Processes that are not the job's, with so much.
    Strangers(Bytes),
    /// Ranks of the job, in words.
    Ranks(String),
    /// Processes that may be the job's, in words.
    Unclear(String),
}

/// Who holds the GPU beside a process of this `rank`, when our own cannot explain the bytes.
pub(crate) fn sharing(figures: &MemoryFigures, rank: Option<u32>, ours: &Ours) -> Sharing {
    let is_later = rank.is_some_and(|rank| rank > 0) && figures.device == Some(0);
    let listed = match is_later && are_sisters(&figures.processes, true) {
        true => figures.processes.clone(),
        false => strangers(figures, ours),
    };
    let (ranks, strangers): (Vec<_>, Vec<_>) = listed
        .iter()
        .copied()
        .partition(|(pid, _)| ours.is_rank(*pid));
    let are_alike = are_sisters(&listed, is_later);
    let told = |count: &str| format!("{count} ranks of this job hold memory on the same GPU");
    if are_alike || !ranks.is_empty() && strangers.is_empty() {
        let count = listed.len() + 1;
        let perhaps = if are_alike { "perhaps " } else { "" };
        return Sharing::Ranks(told(&format!("{perhaps}{count}")));
    }
    let Some(bytes) = sum(&strangers) else {
        return match unexplained(figures, ours) {
            Some(_) if ours.spawned && figures.device == Some(0) => {
                Sharing::Ranks(told("perhaps several"))
            }
            Some(gap) => Sharing::Strangers(gap),
            None => Sharing::Nobody,
        };
    };
    if ours.engine && !fills(figures, bytes) {
        let list: Vec<String> = strangers
            .iter()
            .map(|(pid, held)| format!("{pid} ({held})"))
            .collect();
        return Sharing::Unclear(format!(
            "other processes hold memory on the GPU: {}; perhaps of this job too, its inference engine or its trainer",
            list.join(", ")
        ));
    }
    Sharing::Strangers(bytes)
}

/// Whether others fill a GPU on which ours had hardly begun: more than an engine beside a trainer is given.
fn fills(figures: &MemoryFigures, others: Bytes) -> bool {
    const FULL: u64 = 95;
    const BEGUN: u64 = 5;
    let (Some(total), Some(own)) = (figures.total, figures.reserved_total()) else {
        return false;
    };
    let part = |bytes: Bytes| bytes.0.saturating_mul(100) / total.0.max(1);
    part(others) >= FULL && part(own) < BEGUN
}

/// What processes hold that are not known as ours.
pub(crate) fn beside(figures: &MemoryFigures, ours: &Ours) -> Option<Bytes> {
    sum(&strangers(figures, ours))
}

/// What these processes hold together; `None` where that is nothing.
fn sum(processes: &[(u64, Bytes)]) -> Option<Bytes> {
    let held = processes.iter().map(|(_, held)| held.0);
    let bytes = held.fold(0, u64::saturating_add);
    (bytes > 0).then_some(Bytes(bytes))
}

/// Processes that are neither the one that failed nor known as ours.
fn strangers(figures: &MemoryFigures, ours: &Ours) -> Vec<(u64, Bytes)> {
    let mut listed = figures.processes.clone();
    if figures.own.is_none() {
        let reserved = figures.reserved_total().unwrap_or_default().0;
        let failed = (0..listed.len())
            .filter(|i| listed[*i].1.0 + (64 << 20) >= reserved)
            .min_by_key(|i| listed[*i].1);
        if let Some(failed) = failed {
            listed.remove(failed);
        }
    }
    listed.retain(|(pid, held)| !ours.pids.contains(pid) && held.0 >= CONTEXT);
    listed
}

/// The generations without a list of processes: what is used and not reserved by us.
fn unexplained(figures: &MemoryFigures, ours: &Ours) -> Option<Bytes> {
    const OUTSIDE_PYTORCH: u64 = 3 << 30;
    if ours.engine || !figures.processes.is_empty() || figures.own.is_some() {
        return None;
    }
    let (total, free) = (figures.total?.0, figures.free?.0);
    let gap = total
        .checked_sub(free)?
        .checked_sub(figures.reserved_total()?.0)?;
    (gap > OUTSIDE_PYTORCH.max(total / 7)).then_some(Bytes(gap))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(text: &str) -> MemoryFigures {
        MemoryFigures::read(&[text])
    }

    /// What strangers hold, and what is remarked.
    fn told(sharing: Sharing) -> (Option<Bytes>, Option<String>) {
        match sharing {
            Sharing::Nobody => (None, None),
            Sharing::Strangers(bytes) => (Some(bytes), None),
            Sharing::Ranks(note) | Sharing::Unclear(note) => (None, Some(note)),
        }
    }

    const NEW: &str = "Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 0.50 GiB is free. Process 10 has 60.00 GiB memory in use. Process 11 has 18.00 GiB memory in use. Of the allocated memory 16.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.";

    #[test]
    fn a_stranger_is_named_unless_it_is_ours() {
        let gib = |n| Some(Bytes::from_gib(n));
        assert_eq!(
            told(sharing(&figures(NEW), None, &Ours::default())).0,
            gib(60.0)
        );
        let mut ours = Ours::default();
        ours.know(10);
        assert_eq!(told(sharing(&figures(NEW), None, &ours)).0, None);
        let engine = Ours {
            engine: true,
            ..Ours::default()
        };
        let (bytes, note) = told(sharing(&figures(NEW), None, &engine));
        assert_eq!(bytes, None);
        assert!(note.unwrap().contains("10 (60.00 GiB)"));
        // No engine is given 96 % of a GPU, and ours holds a context.
        let full = "Tried to allocate 148.00 MiB. GPU 0 has a total capacity of 31.60 GiB of which 87.44 MiB is free. Process 10 has 30.51 GiB memory in use. Process 11 has 1022.00 MiB memory in use. Of the allocated memory 594.01 MiB is allocated by PyTorch, and 5.99 MiB is reserved by PyTorch but unallocated.";
        assert_eq!(told(sharing(&figures(full), None, &engine)).0, gib(30.51));
    }

    #[test]
    fn ranks_of_the_job_on_one_gpu_are_no_strangers() {
        let mut ours = Ours::default();
        ours.see(
            None,
            "failed (exitcode: 1) local_rank: 3 (pid: 13) of binary: /usr/bin/python3",
        );
        let (bytes, note) = told(sharing(&figures(NEW), None, &ours));
        assert_eq!(bytes, None);
        assert!(note.unwrap().starts_with("2 ranks of this job hold memory"));
        let mut far = Ours::default();
        far.see(None, "Sending process 4711 closing signal SIGTERM");
        assert!(told(sharing(&figures(NEW), None, &far)).0.is_some());
    }

    #[test]
    fn a_spawned_process_shares_the_first_gpu_with_its_sisters() {
        let figures = |gpu: u32| {
            figures(&format!(
                "Tried to allocate 20.00 MiB (GPU {gpu}; 15.78 GiB total capacity; 1.91 GiB already allocated; 12.19 MiB free; 1.95 GiB cached)"
            ))
        };
        let line =
            |number: u32| format!("-- Process {number} terminated with the following error:");
        let held = |number: u32, gpu: u32| {
            let mut ours = Ours::default();
            ours.see(None, &line(number));
            told(sharing(&figures(gpu), None, &ours))
        };
        let (bytes, note) = held(3, 0);
        assert_eq!(bytes, None);
        assert!(
            note.unwrap()
                .starts_with("perhaps several ranks of this job")
        );
        assert!(held(0, 0).0.is_some() && held(3, 3).0.is_some());
    }

    #[test]
    fn a_later_rank_on_the_first_gpu_shares_it_with_its_sisters_whatever_they_hold() {
        let list = "Process 4711 has 1.40 GiB memory in use. Process 4713 has 20.44 GiB memory in use. Process 4715 has 402.00 MiB memory in use.";
        let text = format!(
            "Tried to allocate 252.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 62.19 MiB is free. {list} Including non-PyTorch memory, this process has 384.00 MiB memory in use."
        );
        let held = |rank| told(sharing(&figures(&text), rank, &Ours::default()));
        let (bytes, note) = held(Some(3));
        assert_eq!(bytes, None);
        assert!(note.unwrap().starts_with("perhaps 4 ranks of this job"));
        assert!(held(Some(0)).0.is_some() && held(None).0.is_some());
    }

    #[test]
    fn processes_of_one_size_that_were_started_together_are_perhaps_ranks_of_the_job() {
        let text = |second: &str, third: &str| {
            format!(
                "Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 0.50 GiB is free. Process 4711 has 1.40 GiB memory in use. {second}{third}Including non-PyTorch memory, this process has 20.10 GiB memory in use."
            )
        };
        let held = |second: &str, third: &str| {
            told(sharing(
                &figures(&text(second, third)),
                None,
                &Ours::default(),
            ))
        };
        let sister = "Process 4713 has 1.41 GiB memory in use. ";
        let (bytes, note) = held(sister, "Process 4714 has 1.40 GiB memory in use. ");
        assert_eq!(bytes, None);
        assert!(note.unwrap().starts_with("perhaps 4 ranks of this job"));
        // One alone, one that is far away, and one that holds more may be anybody's.
        assert!(held("", "").0.is_some());
        assert!(
            held("Process 90210 has 1.40 GiB memory in use. ", "")
                .0
                .is_some()
        );
        assert!(
            held(sister, "Process 4714 has 9.00 GiB memory in use. ")
                .0
                .is_some()
        );
    }

    #[test]
    fn strangers_that_hold_more_than_can_be_are_the_most_that_can_be_said() {
        let text = "this process has 1.00 GiB memory in use. Process 10 has 16000000.00 TiB memory in use. Process 11 has 15000000.00 TiB memory in use.";
        let held = told(sharing(&figures(text), None, &Ours::default())).0;
        assert_eq!(held, Some(Bytes(u64::MAX)));
    }

    #[test]
    fn the_failed_process_in_the_list_is_no_stranger() {
        let text = "Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 0.50 GiB is free. Process 10 has 78.00 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 6.00 GiB is reserved by PyTorch but unallocated.";
        assert_eq!(
            told(sharing(&figures(text), None, &Ours::default())),
            (None, None)
        );
    }

    #[test]
    fn bytes_that_the_old_message_cannot_explain() {
        let text = "Tried to allocate 20.00 MiB (GPU 0; 31.75 GiB total capacity; 1.50 GiB already allocated; 10.00 MiB free; 2.00 GiB reserved in total by PyTorch)";
        let held = told(sharing(&figures(text), None, &Ours::default()))
            .0
            .unwrap();
        assert!((held.gib() - 29.74).abs() < 0.01);
        let full = "Tried to allocate 20.00 MiB (GPU 0; 31.75 GiB total capacity; 28.50 GiB already allocated; 10.00 MiB free; 30.00 GiB reserved in total by PyTorch)";
        assert_eq!(
            told(sharing(&figures(full), None, &Ours::default())).0,
            None
        );
    }
}
