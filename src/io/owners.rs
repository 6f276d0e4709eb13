//! Whose the processes are that hold memory of GPUs: user, command, Slurm job, and whether they still run.
//!
//! Rule: what cannot be told stays unknown. Inside a container the driver's pids are somebody else's, and where
//! `/proc` is mounted with `hidepid` those of others are not shown.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::scheduler::command::{CommandCall, SearchPath, run};
use super::scheduler::local::process::{parent, state};
use oomctl_gpu::{Machine, Process, ProcessLife, command_line, slurm_job, user_name};

/// Bytes of a file of `/proc` that are read: longer command lines are cut.
const READ_MAX: u64 = 16 << 10;
/// Characters of a command line that are kept.
const COMMAND_MAX: usize = 240;
/// How long a directory service may take to tell a user's name.
const PATIENCE: Duration = Duration::from_secs(2);
/// The kernel's inode of the first pid namespace (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Tells the processes of this machine; names of users are remembered.
pub struct Owners {
    users: HashMap<u32, String>,
    /// Are the driver's pids those of our `/proc`?
    sees_all: bool,
}

impl Default for Owners {
    fn default() -> Self {
        Self::new()
    }
}

impl Owners {
    /// Nothing is known yet.
    pub fn new() -> Self {
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            users: HashMap::new(),
            sees_all: namespace.as_os_str() == FIRST_NAMESPACE,
        }
    }

    /// The name of the user who runs this program.
    pub fn me(&mut self) -> String {
        self.user(rustix::process::getuid().as_raw())
    }

    /// Says of each process of the machine's GPUs whose it is.
    pub fn describe(&mut self, machine: &mut Machine) {
        for gpu in &mut machine.gpus {
            let of_parts = gpu
                .mig
                .iter_mut()
                .flatten()
                .flat_map(|part| &mut part.processes);
            for process in gpu.processes.iter_mut().chain(of_parts) {
                self.fill(process);
            }
        }
    }

    fn fill(&mut self, process: &mut Process) {
        let folder = format!("/proc/{}", process.pid);
        let Ok(entry) = fs::metadata(&folder) else {
            process.life = self.fate(process.pid);
            return;
        };
        let pid = i32::try_from(process.pid).unwrap_or(-1);
        process.user = Some(self.user(entry.uid()));
        process.command = command_line(&bytes(&format!("{folder}/cmdline")), COMMAND_MAX);
        let cgroups = bytes(&format!("{folder}/cgroup"));
        process.job = slurm_job(&String::from_utf8_lossy(&cgroups));
        process.parent = parent(pid).and_then(|parent| u32::try_from(parent).ok());
        process.life = match state(pid) {
            Some('T' | 't') => ProcessLife::Stopped,
            Some('Z' | 'X') => ProcessLife::Ending,
            Some(_) => ProcessLife::Runs,
            None => self.fate(process.pid),
        };
    }

    /// What has become of a process that `/proc` does not show.
    fn fate(&self, pid: u32) -> ProcessLife {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        match pid.map(test_kill_process) {
            Some(Err(Errno::SRCH)) if self.sees_all => ProcessLife::Gone,
            _ => ProcessLife::Unknown,
        }
    }

    /// The name of a user, or their number where nobody tells a name.
    pub fn user(&mut self, uid: u32) -> String {
        let name = self.users.entry(uid);
        name.or_insert_with(|| name_of(uid).unwrap_or_else(|| uid.to_string()))
            .clone()
    }
}

/// The name in `/etc/passwd`; users of a cluster mostly are in a directory service, which `getent` asks.
fn name_of(uid: u32) -> Option<String> {
    let local = fs::read_to_string("/etc/passwd").unwrap_or_default();
    user_name(&local, uid).or_else(|| {
        let path = SearchPath::Path(OsString::from("/usr/bin:/bin"));
        let answer = run(&CommandCall {
            program: path.locate("getent")?,
            arguments: vec!["passwd".into(), uid.to_string().into()],
            environment: Vec::new(),
            folder: None,
            deadline: PATIENCE,
        });
        user_name(&answer.stdout, uid)
    })
}

fn bytes(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A process that ends meanwhile has nothing to tell.
    drop(File::open(path).and_then(|file| file.take(READ_MAX).read_to_end(&mut bytes)));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_gpu::{DeviceMemory, Gpu, MigDevice};
    use std::process::{Command, Stdio};

    fn described(pid: u32) -> Process {
        let mut process = Process::bare(pid, None);
        Owners::new().fill(&mut process);
        process
    }

    #[test]
    fn a_process_has_user_command_parent_and_life() {
        let mut child = Command::new("sleep")
            .arg("60")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // The child may still be on its way into its program.
        while described(child.id()).command.as_deref() != Some("sleep 60") {
            std::thread::yield_now();
        }
        let told = described(child.id());
        assert_eq!(told.command.as_deref(), Some("sleep 60"));
        assert_eq!(told.parent, Some(std::process::id()));
        assert_eq!(told.user, Some(Owners::new().me()));
        assert_eq!((told.life, told.job), (ProcessLife::Runs, None));
        child.kill().unwrap();
        let pid = child.id();
        // Ended, and nobody has asked how.
        while described(pid).life == ProcessLife::Runs {
            std::thread::yield_now();
        }
        assert_eq!(described(pid).life, ProcessLife::Ending);
        child.wait().unwrap();
        let owners = Owners {
            users: HashMap::new(),
            sees_all: true,
        };
        assert_eq!(owners.fate(pid), ProcessLife::Gone);
        let inside = Owners {
            users: HashMap::new(),
            sees_all: false,
        };
        assert_eq!(inside.fate(pid), ProcessLife::Unknown);
        assert_eq!(owners.fate(u32::MAX), ProcessLife::Unknown);
        assert_eq!(owners.fate(1), ProcessLife::Unknown);
    }

    #[test]
    fn processes_of_mig_devices_are_described_too() {
        let part = MigDevice {
            uuid: "MIG-a".to_owned(),
            name: "H100 MIG 1g.10gb".to_owned(),
            memory: DeviceMemory::default(),
            processes: vec![Process::bare(std::process::id(), None)],
        };
        let gpu = Gpu {
            mig: Some(vec![part]),
            ..Gpu::bare(0, "GPU-a", "H100", DeviceMemory::default())
        };
        let mut machine = Machine {
            gpus: vec![gpu],
            ..Machine::default()
        };
        Owners::new().describe(&mut machine);
        assert_eq!(
            machine.gpus[0].all_processes().next().unwrap().life,
            ProcessLife::Runs
        );
    }

    #[test]
    fn a_user_without_a_name_is_a_number() {
        assert_eq!(Owners::new().user(0), "root");
        assert_eq!(Owners::new().user(4_000_000_007), "4000000007");
    }
}
