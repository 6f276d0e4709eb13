//! Runs a program on phantom GPUs: in a folder of its own for what we add, in a sandbox where the kernel allows it, for a bounded time, with bounded memory of this machine, and out of the way of others.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use super::program::{Ears, Inbox, Outputs, ProgramEnd, ProgramEvent, RunningProgram};
use super::sandbox::{Sandbox, Sandboxed, works};
use super::scheduler::local::process::group_bytes;
use super::scratch::ScratchFolder;
use crate::core::measure::{PhantomContext, PhantomEnd, PhantomRecord};
use oomctl_base::job::ExitStatus;
use oomctl_phantom::{LIBRARY, LIBRARY_NAMES, Phantom, RECORDER};

/// Time between two looks at clock and memory.
const LOOK: Duration = Duration::from_millis(250);
/// Time between two tellings of how far it is.
const TOLD: Duration = Duration::from_secs(5);
/// How long a program may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// Records of processes that are read.
const MOST_RECORDS: usize = 256;
/// Largest record, in bytes.
const MOST_BYTES: u64 = 16 << 20;
/// The most names without behaviour that are reported.
const MOST_NAMES: usize = 64;

/// A program, and what it finds.
#[derive(Debug, Clone, Default)]
pub struct PhantomProgram {
    /// The program and its words.
    pub command: Vec<String>,
    /// Variables that it gets beside those of this process.
    pub variables: Vec<(String, String)>,
    /// The folder in which it runs.
    pub folder: PathBuf,
    /// Files that it finds, and that are gone after it.
    pub files: Vec<(PathBuf, String)>,
    /// What it writes must not stay.
    pub scratch: bool,
    /// What differs from the command that was asked for.
    pub replaced: Vec<String>,
}

/// How a program is measured.
#[derive(Debug, Clone)]
pub struct PhantomRun {
    /// The program.
    pub program: PhantomProgram,
    /// The GPUs.
    pub phantom: Phantom,
    /// What CUDA's context takes of each, and how that is known.
    pub context: PhantomContext,
    /// End after this many optimizer steps.
    pub steps: u32,
    /// Play one rank of this many; 0 where the program or its launcher says how many.
    pub world: u32,
    /// The ranks that a launcher starts, where it is not to say so itself; 0 where it is.
    pub ranks: u32,
    /// The longest time that it may run.
    pub time_limit: Duration,
    /// The most memory of this machine that it may take.
    pub host_bytes: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct PhantomRan {
    /// How the program ended.
    pub end: PhantomEnd,
    /// What its processes recorded.
    pub records: Vec<PhantomRecord>,
    /// Names of CUDA that were called and have no behaviour.
    pub unknown_calls: Vec<String>,
    /// What was put in the place of something else.
    pub replaced: Vec<String>,
    /// The most memory of this machine that was seen.
    pub host_peak_bytes: u64,
    /// How long it ran.
    pub seconds: f64,
}

/// Runs it, and tells `told` now and then how long it runs and what its processes recorded.
///
/// # Errors
/// When the folder cannot be written, or the program cannot be started: `NotFound` where there is no such program.
pub fn run(
    asked: &PhantomRun,
    outputs: Outputs,
    ears: &Ears,
    mut told: impl FnMut(Duration, Vec<PhantomRecord>),
) -> io::Result<PhantomRan> {
    let folder = ScratchFolder::new("measure")?;
    prepare(folder.path())?;
    let wish = Sandboxed {
        command: &asked.program.command,
        folder: &asked.program.folder,
        files: &asked.program.files,
        host_bytes: asked.host_bytes,
    };
    let sandbox = Sandbox::new(&wish, folder.path())?;
    if asked.program.scratch && !sandbox.scratch {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            sandbox.said.join("; "),
        ));
    }
    let environment = environment(asked, folder.path(), sandbox.network_off);
    // A program that is not there is found out by us, not by what stands before it.
    program(asked)?;
    let command: Vec<String> = ending_with_us(asked.time_limit)
        .iter()
        .chain(&sandbox.words)
        .chain(&while_we_live(&folder))
        .chain(&asked.program.command)
        .cloned()
        .collect();
    let mut replaced = [asked.program.replaced.clone(), sandbox.said].concat();
    let inbox = Inbox::default();
    ears.add(inbox.listener());
    let start = Instant::now();
    // A signal that came while the sandbox was made is in no inbox.
    let (end, host_peak_bytes) = match ears.ending() {
        Some(signal) => (PhantomEnd::Interrupted(signal), 0),
        None => {
            let running = RunningProgram::start(&command, &environment, outputs, &inbox)?;
            let recorded = folder.path().join("records");
            let mut last = start;
            let followed = follow(asked, running, &inbox, start, || {
                if last.elapsed() >= TOLD {
                    last = Instant::now();
                    told(start.elapsed(), records(&recorded));
                }
            });
            running.kill();
            followed
        }
    };
    replaced.extend(settings());
    Ok(PhantomRan {
        end,
        records: records(&folder.path().join("records")),
        unknown_calls: names(&folder.path().join("calls")),
        replaced,
        host_peak_bytes,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Time after which a program ends that nobody watches any more, beyond its own.
const UNWATCHED: Duration = Duration::from_secs(30);

/// Starts the words behind the file while another process has that locked. A machine without `flock` starts them in any case.
const WHILE_LOCKED: &str =
    r#"[ -e "$0" ] && ! flock -n "$0" true 2>/dev/null || exit 137; exec "$@""#;

/// What stands before all, so that the program does not outlive us where we are killed: it ends with us, or, where the kernel
/// forgets that at the change of a user, a little after its time.
fn ending_with_us(time_limit: Duration) -> Vec<String> {
    let seconds = (time_limit + UNWATCHED).as_secs().to_string();
    let with_us = ["setpriv", "--pdeathsig", "KILL"].map(str::to_owned);
    let in_time = ["timeout", "--foreground", "-s", "KILL", &seconds].map(str::to_owned);
    let ways: [&[String]; 2] = match rustix::process::geteuid().is_root() {
        true => [&with_us, &in_time],
        false => [&in_time, &with_us],
    };
    let way = ways.into_iter().find(|words| works(words));
    way.map(<[String]>::to_vec).unwrap_or_default()
}

/// What stands right before the program: it starts only while we live. Where we were killed before the words above had asked
/// the kernel to end it with us, nothing else would.
fn while_we_live(folder: &ScratchFolder) -> [String; 4] {
    let lock = folder.lock().display().to_string();
    ["sh", "-c", WHILE_LOCKED, &lock].map(str::to_owned)
}

/// The library under each of its names, the recorder, and a place for temporary files.
fn prepare(folder: &Path) -> io::Result<()> {
    for part in ["lib", "python", "records", "tmp"] {
        fs::create_dir(folder.join(part))?;
    }
    let library = folder.join("lib");
    fs::write(library.join(LIBRARY_NAMES[0]), LIBRARY)?;
    for name in &LIBRARY_NAMES[1..] {
        symlink(LIBRARY_NAMES[0], library.join(name))?;
    }
    for (name, text) in RECORDER {
        fs::write(folder.join("python").join(name), text)?;
    }
    Ok(())
}

/// What is set for programs that would ask a service.
const SETTINGS: [(&str, &str); 4] = [
    ("WANDB_MODE", "disabled"),
    ("HF_HUB_OFFLINE", "1"),
    ("HF_DATASETS_OFFLINE", "1"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
];

fn settings() -> Vec<String> {
    let set = SETTINGS.map(|(name, value)| format!("{name}={value}"));
    vec![format!("variables: {}", set.join(" "))]
}

fn environment(asked: &PhantomRun, folder: &Path, network_off: bool) -> Vec<(String, String)> {
    let path = |part: &str| folder.join(part).display().to_string();
    let now = |name: &str| value_of(asked, name);
    let phantom = asked.phantom.variables(
        &path("lib"),
        &path("calls"),
        now("LD_PRELOAD").as_deref(),
        now("LD_LIBRARY_PATH").as_deref(),
    );
    let python = match now("PYTHONPATH").filter(|text| !text.is_empty()) {
        Some(rest) => format!("{}:{rest}", path("python")),
        None => path("python"),
    };
    let mut all: Vec<(String, String)> = asked.program.variables.clone();
    all.extend(phantom);
    let mut add = |name: &str, value: String| all.push((name.to_owned(), value));
    add("PYTHONPATH", python);
    add("TMPDIR", path("tmp"));
    add("OOMCTL_PHANTOM_RECORDS", path("records"));
    add("OOMCTL_PHANTOM_STEPS", asked.steps.to_string());
    add("OOMCTL_PHANTOM_WORLD", asked.world.to_string());
    add("OOMCTL_PHANTOM_RANKS", asked.ranks.to_string());
    let devices: Vec<String> = (0..asked.phantom.devices).map(|n| n.to_string()).collect();
    add("CUDA_VISIBLE_DEVICES", devices.join(","));
    if network_off {
        add("OOMCTL_PHANTOM_NETWORK", "off".to_owned());
    }
    if asked.world > 0 {
        for (name, value) in [
            ("RANK", "0".to_owned()),
            ("LOCAL_RANK", "0".to_owned()),
            ("SLURM_PROCID", "0".to_owned()),
            ("SLURM_LOCALID", "0".to_owned()),
            ("SLURM_NTASKS", asked.world.to_string()),
            ("WORLD_SIZE", asked.world.to_string()),
            ("MASTER_ADDR", "127.0.0.1".to_owned()),
            ("MASTER_PORT", "29500".to_owned()),
        ] {
            add(name, value);
        }
    }
    for (name, value) in SETTINGS {
        add(name, value.to_owned());
    }
    all
}

/// A variable as the program has it.
fn value_of(asked: &PhantomRun, name: &str) -> Option<String> {
    let mut given = asked.program.variables.iter().rev();
    let given = given.find(|(known, _)| known == name);
    given.map_or_else(
        || std::env::var(name).ok(),
        |(_, value)| Some(value.clone()),
    )
}

/// Where the program lies.
///
/// # Errors
/// There is none, or it cannot be executed.
pub fn program(asked: &PhantomRun) -> io::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let name = asked
        .program
        .command
        .first()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let places: Vec<PathBuf> = match name.contains('/') {
        true => vec![asked.program.folder.join(name)],
        false => std::env::split_paths(&value_of(asked, "PATH").unwrap_or_default())
            .map(|folder| asked.program.folder.join(folder).join(name))
            .collect(),
    };
    let mut found = io::ErrorKind::NotFound;
    for place in places {
        let Ok(about) = fs::metadata(&place) else {
            continue;
        };
        if about.is_file() && about.permissions().mode() & 0o111 != 0 {
            return Ok(place);
        }
        found = io::ErrorKind::PermissionDenied;
    }
    Err(found.into())
}

/// Waits for its end, and brings it about where time or memory is over.
fn follow(
    asked: &PhantomRun,
    program: RunningProgram,
    inbox: &Inbox,
    start: Instant,
    mut looked: impl FnMut(),
) -> (PhantomEnd, u64) {
    let mut ending = ProgramEnd::default();
    let mut stopped: Option<(PhantomEnd, Instant)> = None;
    let mut peak = 0;
    loop {
        let now = Instant::now();
        if let Some(exit) = ending.over(stopped.is_some(), now) {
            let end = stopped.map_or_else(|| PhantomEnd::Exited(code(exit)), |(end, _)| end);
            return (end, peak);
        }
        if let Some(event) = inbox.next(now + LOOK) {
            ending.heard(&event, Instant::now());
            if let ProgramEvent::Signal(number) = event
                && Ears::ends(number)
            {
                stopped.get_or_insert((PhantomEnd::Interrupted(number), now));
                program.signal(15);
            }
        }
        looked();
        let used = group_bytes(program.pid());
        peak = peak.max(used);
        let why = match () {
            () if stopped.is_some() => None,
            () if start.elapsed() > asked.time_limit => Some(PhantomEnd::TimeLimit),
            () if used > asked.host_bytes => Some(PhantomEnd::HostMemory),
            () => None,
        };
        if let Some(why) = why {
            stopped = Some((why, now));
            program.signal(15);
        }
        if stopped.is_some_and(|(_, since)| since.elapsed() > GRACE) {
            program.kill();
        }
    }
}

fn code(exit: ExitStatus) -> i32 {
    match exit.signal {
        0 => exit.code,
        signal => 128 + signal,
    }
}

fn records(folder: &Path) -> Vec<PhantomRecord> {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .take(MOST_RECORDS);
    let read = |path: PathBuf| {
        let small = fs::metadata(&path).ok()?.len() <= MOST_BYTES;
        let text = small.then(|| fs::read_to_string(&path).ok()).flatten()?;
        serde_json::from_str(&text).ok()
    };
    let finished = |path: &PathBuf| path.extension().is_some_and(|e| e == "json");
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(finished).filter_map(read).collect()
}

fn names(report: &Path) -> Vec<String> {
    let text = fs::read_to_string(report).unwrap_or_default();
    let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names.truncate(MOST_NAMES);
    names
}
