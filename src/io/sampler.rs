//! The sampler beside a job: looks at the GPUs of its node once a second and writes what is worth a line
//! into the attempt's folder, until the job ends.
//!
//! Rule: whatever goes wrong with it, the job does not notice. It holds nothing open, waits for nobody,
//! and gives up rather than insist.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open, test_kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use super::disk::beside;
use super::files::{no_follow, open_to_read, read_end};
use super::scheduler::local::process::{carries, host_name};
use crate::core::measure::GpuPeak;
use crate::core::report::{GpuTrack, Tracks};
use oomctl_base::units::Bytes;
use oomctl_gpu::nvml::{Driver, GpuError, GpuMeter};
use oomctl_gpu::{Card, FILE_MAX, GpuReading, LINE_MAX, Recorder, SampleLine, last_sample};

/// Files of one attempt that are read: one a node.
const NODES_MAX: usize = 4_096;
/// Bytes at the end of a file of samples in which its last line stands.
const END: u64 = 2 * LINE_MAX as u64;
/// Looks after which it is asked anew whose a process is: numbers of processes are used again.
const FORGET_LOOKS: u32 = 64;

/// What a sampler is to do.
#[derive(Debug, Clone)]
pub struct SamplerOptions {
    /// The attempt's folder.
    pub dir: PathBuf,
    /// Time between two looks.
    pub every: Duration,
    /// It ends with this process; by default with the one that started it.
    pub pid: Option<i32>,
}

/// Samples until the job ends. No driver, no GPU and no folder are no errors: there is nothing to sample.
///
/// # Errors
/// When NVML is there and refuses, or signals cannot be caught.
pub fn sample(watched: &SamplerOptions) -> Result<(), SamplerError> {
    let mut end = SamplerEnd::of(watched)?;
    let driver = match Driver::open() {
        Err(GpuError::NoDriver(_)) => return Ok(()),
        other => other?,
    };
    let mut meters = driver.meters();
    let list = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let gpus: Vec<&GpuReading> = meters.iter().map(GpuMeter::reading).collect();
    let visible = visible(list.as_deref(), &gpus);
    let mut kept = visible.iter();
    meters.retain(|_| kept.next().copied().unwrap_or(false));
    if meters.is_empty() {
        return Ok(());
    }
    let mut file = SampleFile::of(&watched.dir);
    let (written, before) = file.end();
    let mut recorder = Recorder::new(watched.every.as_secs(), written, before);
    let mut owner = JobProcesses::of(&watched.dir);
    let mut next = Instant::now();
    loop {
        let readings = owner.look(&mut meters);
        if let Some(line) = recorder.take(&readings, Timestamp::now()) {
            file.append(&line);
        }
        next = (next + watched.every).max(Instant::now());
        if end.has_come_by(next) {
            break;
        }
    }
    if let Some(line) = recorder.last(Timestamp::now()) {
        file.append(&line);
    }
    Ok(())
}

/// A sampler that cannot work.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// NVML is there and refuses.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The operating system refused.
    #[error("cannot wait for the end of the job: {0}")]
    Wait(#[from] io::Error),
}

/// Which GPUs are the job's. A list that names none of them, though it names something, says nothing: all that
/// can be seen count then.
fn visible(list: Option<&str>, gpus: &[&GpuReading]) -> Vec<bool> {
    let card = |gpu: &&GpuReading| Card {
        gpu: gpu.gpu,
        uuid: gpu.uuid.clone(),
        name: gpu.name.clone(),
        total_bytes: gpu.total_bytes,
        used_bytes: gpu.used_bytes,
        claimed_bytes: Bytes(0),
        claimants_bytes: Bytes(0),
    };
    let cards: Vec<Card> = gpus.iter().map(card).collect();
    let seen = oomctl_gpu::visible(list, &cards);
    let all = seen.cards.is_empty() && seen.unknown.is_some();
    let is_seen = |gpu: &&GpuReading| all || seen.cards.iter().any(|c| c.uuid == gpu.uuid);
    gpus.iter().map(is_seen).collect()
}

/// Tells the job's own processes: they have the attempt's folder in their environment.
struct JobProcesses {
    mark: String,
    known: HashMap<u32, bool>,
    looks: u32,
}

impl JobProcesses {
    fn of(dir: &Path) -> Self {
        Self {
            mark: format!("OOMCTL_ATTEMPT_DIR={}", dir.display()),
            known: HashMap::new(),
            looks: 0,
        }
    }

    fn look(&mut self, meters: &mut [GpuMeter<'_>]) -> Vec<GpuReading> {
        self.looks += 1;
        if self.looks.is_multiple_of(FORGET_LOOKS) {
            self.known.clear();
        }
        let mut ours = |pid: u32| {
            let asked = || i32::try_from(pid).is_ok_and(|pid| carries(pid, &self.mark));
            *self.known.entry(pid).or_insert_with(asked)
        };
        let looks = meters
            .iter_mut()
            .map(|meter| meter.look(&mut ours).cloned());
        looks.flatten().collect()
    }
}

/// The scheduler's name for this node, where it has one of its own, or the machine's.
pub fn node_name() -> String {
    let node = std::env::var("SLURMD_NODENAME").ok();
    node.filter(|n| !n.is_empty()).unwrap_or_else(host_name)
}

/// The file of this node: opened for each line, so that other nodes see it and a full disk or a folder
/// that went away is noticed.
pub struct SampleFile {
    path: PathBuf,
    /// The last line may have been written in part.
    torn: bool,
}

impl SampleFile {
    /// That of an attempt's folder.
    pub fn of(dir: &Path) -> Self {
        let node = node_name();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let node: String = node.chars().filter(|c| plain(*c)).take(200).collect();
        Self {
            path: dir.join(format!("samples-{node}.jsonl")),
            torn: true,
        }
    }

    /// Its length, and its last line.
    fn end(&self) -> (u64, Option<SampleLine>) {
        match read_end(&self.path, END) {
            Ok((length, end)) => (length, last_sample(&end)),
            Err(_) => (0, None),
        }
    }

    /// Appends a line, or goes without.
    pub fn append(&mut self, line: &str) {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(beside(&self.path, 0o600))
            .custom_flags(no_follow())
            .open(&self.path);
        let written = file.and_then(|mut file| {
            let torn = self.torn && file.metadata()?.len() > 0;
            let start = if torn { "\n" } else { "" };
            file.write_all(format!("{start}{line}").as_bytes())
        });
        self.torn = written.is_err();
    }
}

/// What ends a sampler: SIGTERM, the end of the job's script, the end of the attempt's folder.
struct SamplerEnd {
    dir: PathBuf,
    signals: UnixStream,
    pid: Option<Pid>,
    /// Tells the end of that process at once; not everywhere allowed.
    process: Option<OwnedFd>,
}

impl SamplerEnd {
    fn of(watched: &SamplerOptions) -> io::Result<Self> {
        let (signals, sender) = UnixStream::pair()?;
        // SIGUSR2 reaches the tasks of a step through its srun, which SIGTERM kills.
        for signal in [SIGTERM, SIGINT, SIGUSR2] {
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        // Signals that are meant for the program of the job.
        for signal in [SIGHUP, SIGUSR1] {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        let pid = match watched.pid {
            Some(pid) => Pid::from_raw(pid),
            None => getppid(),
        };
        Ok(Self {
            dir: watched.dir.clone(),
            signals,
            pid,
            process: pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
        })
    }

    /// Waits until then; true when the end has come.
    fn has_come_by(&mut self, moment: Instant) -> bool {
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
            fds.extend(self.process.as_ref().map(|p| PollFd::new(p, PollFlags::IN)));
            let timeout = Timespec::try_from(left).ok();
            match poll(&mut fds, timeout.as_ref()) {
                Ok(0) => return self.is_here(),
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    fn is_here(&self) -> bool {
        let gone = |e: io::Error| e.kind() == ErrorKind::NotFound;
        let process_is =
            self.process.is_some() || self.pid.is_some_and(|pid| test_kill_process(pid).is_ok());
        !process_is || fs::metadata(&self.dir).err().is_some_and(gone)
    }
}

/// What the samplers of an attempt saw of each GPU, as lines over time.
pub fn tracks(dir: &Path) -> Vec<GpuTrack> {
    let mut tracks = Tracks::default();
    samples(dir, |node, sample| tracks.take(node, sample));
    tracks.sorted()
}

/// The peaks that the samplers of an attempt have written, whether they still run or not.
pub fn peaks(dir: &Path) -> Vec<GpuPeak> {
    let peaks = |(node, path): (String, PathBuf)| {
        let (_, end) = read_end(&path, END).ok()?;
        Some(GpuPeak::of(&node, last_sample(&end)?).collect::<Vec<_>>())
    };
    sample_files(dir)
        .into_iter()
        .filter_map(peaks)
        .flatten()
        .collect()
}

/// Hands every line that the samplers of an attempt have written to `take`, with the name of its node: the
/// nodes in the order of their names, the lines of each in the order of time.
pub fn samples(dir: &Path, mut take: impl FnMut(&str, &SampleLine)) {
    for (node, path) in sample_files(dir) {
        let Ok(file) = open_to_read(&path) else {
            continue;
        };
        // One line more than the largest file: the last is always written.
        let mut lines = BufReader::new(file.take(FILE_MAX + LINE_MAX as u64));
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            if let Ok(sample) = serde_json::from_slice(&line) {
                take(&node, &sample);
            }
            line.clear();
        }
    }
}

/// The files of an attempt's samplers, with the names of their nodes.
fn sample_files(dir: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let nodes = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let node = name.strip_prefix("samples-")?.strip_suffix(".jsonl")?;
        Some((node.to_owned(), entry.path()))
    });
    let mut nodes: Vec<_> = nodes.take(NODES_MAX).collect();
    nodes.sort();
    nodes
}

/// Absolute path of this program, for the scripts that start its sampler; `None` where it has no name
/// that a script can say.
pub fn program() -> Option<String> {
    let path = std::env::current_exe().ok()?.into_os_string();
    let path = path.into_string().ok()?;
    // What Linux says when an upgrade replaced the file: the new one has the name.
    Some(path.trim_end_matches(" (deleted)").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(gpu: u32, uuid: &str) -> GpuReading {
        GpuReading {
            gpu,
            uuid: uuid.to_owned(),
            name: "A100".to_owned(),
            total_bytes: Bytes(80),
            used_bytes: Bytes(60),
            own_bytes: None,
            pid: None,
            utilization_percent: None,
        }
    }

    #[test]
    fn the_gpus_of_the_job_are_those_that_cuda_would_see() {
        let gpus = [
            reading(0, "GPU-aaaa"),
            reading(1, "GPU-bbbb"),
            reading(1, "MIG-cccc"),
        ];
        let gpus: Vec<&GpuReading> = gpus.iter().collect();
        let check = |list: Option<&str>, picked: [bool; 3]| {
            assert_eq!(visible(list, &gpus), picked, "{list:?}");
        };
        check(None, [true, true, true]);
        check(Some("0"), [true, false, false]);
        check(Some("0, 1"), [true, true, true]);
        check(Some("GPU-bb"), [false, true, false]);
        check(Some("MIG-cccc"), [false, false, true]);
        check(Some(""), [false, false, false]);
        check(Some("NoDevFiles"), [false, false, false]);
        check(Some("7"), [true, true, true]);
        check(Some("all"), [true, true, true]);
    }

    #[test]
    fn in_a_device_cgroup_the_list_counts_only_the_gpus_that_can_be_opened() {
        let gpus = [reading(2, "GPU-c"), reading(3, "GPU-d")];
        let gpus: Vec<&GpuReading> = gpus.iter().collect();
        assert_eq!(visible(Some("0,1"), &gpus), [true, true]);
        assert_eq!(visible(Some("1"), &gpus), [false, true]);
    }

    #[test]
    fn a_torn_line_costs_itself_and_not_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::new(1, 0, None);
        let line = recorder.take(&[reading(0, "GPU-a")], Timestamp::UNIX_EPOCH);
        let line = line.unwrap();
        let path = dir.path().join("samples-n1.jsonl");
        fs::write(&path, &line.as_bytes()[..line.len() - 9]).unwrap();
        let mut file = SampleFile { path, torn: true };
        assert_eq!(file.end().1, None);
        file.append(&line);
        file.append(&line);
        let found = peaks(dir.path());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].node.as_str(), found[0].peak_bytes.0), ("n1", 60));
        assert_eq!(file.end().0, 3 * line.len() as u64 - 9 + 1);
    }

    #[test]
    fn other_files_of_the_folder_and_no_folder_are_no_peaks() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("samples-n1.jsonl"), "{}\nnonsense").unwrap();
        fs::write(dir.path().join("slurm.out"), "{}").unwrap();
        fs::create_dir(dir.path().join("samples-n2.jsonl")).unwrap();
        assert!(peaks(dir.path()).is_empty());
        assert!(peaks(&dir.path().join("gone")).is_empty());
    }
}
