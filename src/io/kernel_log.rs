//! The kernel's log of this machine, for the Xids in it: /dev/kmsg, or else the files that a syslog daemon keeps.
//!
//! NVML's own events tell only of Xids that happen while somebody listens. /dev/kmsg is read without blocking, a record
//! a call, and never written to (Documentation/ABI/testing/dev-kmsg); where `dmesg_restrict` is set it takes CAP_SYSLOG.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::window;
use oomctl_diagnose::sanitize;
use oomctl_gpu::{LogClock, Machine, Xid};

/// The kernel's buffer, a record a read.
const KMSG: &str = "/dev/kmsg";
/// Where syslog daemons keep it.
const FILES: [&str; 2] = ["/var/log/kern.log", "/var/log/messages"];
/// Longest record of the kernel (`PRINTK_MESSAGE_MAX` and its prefix).
const RECORD: usize = 16 << 10;
/// Most records of one look: more than the largest buffer holds.
const RECORDS: usize = 1 << 20;
/// Bytes at the end of a file that are looked at.
const TAIL: u64 = 4 << 20;

/// Where the log comes from.
enum KernelLogSource {
    /// The kernel's buffer.
    Buffer(File),
    /// A file, read whole or from its tail with each look.
    File(PathBuf),
}

/// A kernel's log that is looked at again and again.
pub struct KernelLog {
    source: Result<KernelLogSource, String>,
    clock: LogClock,
    last: Vec<Xid>,
}

impl KernelLog {
    /// The log of this machine. That it cannot be read is no error: it is told with the machine.
    pub fn open() -> Self {
        let source = match window::nonblocking(Path::new(KMSG)) {
            Ok(file) => Ok(KernelLogSource::Buffer(file)),
            Err(error) => match FILES.iter().find(|path| File::open(path).is_ok()) {
                Some(path) => Ok(KernelLogSource::File(path.into())),
                None => Err(format!("{KMSG}: {error}")),
            },
        };
        Self::of(source, boot())
    }

    /// A copy of a log, of this machine or another.
    pub fn copy(path: &Path) -> Self {
        let source = match File::open(path) {
            Ok(_) => Ok(KernelLogSource::File(path.to_owned())),
            Err(error) => Err(format!("{}: {error}", path.display())),
        };
        Self::of(source, None)
    }

    fn of(source: Result<KernelLogSource, String>, boot: Option<Timestamp>) -> Self {
        let clock = LogClock {
            boot,
            now: Timestamp::now(),
            zone: TimeZone::system(),
        };
        Self {
            source,
            clock,
            last: Vec::new(),
        }
    }

    /// Adds the last Xid of each GPU, and why there are none where the log cannot be read.
    pub fn describe(&mut self, machine: &mut Machine) {
        self.clock.now = Timestamp::now();
        let read = match &mut self.source {
            Ok(KernelLogSource::Buffer(file)) => records(file, &self.clock, &mut self.last),
            Ok(KernelLogSource::File(path)) => tail(path, &self.clock, &mut self.last),
            Err(why) => Err(why.clone()),
        };
        machine.kernel_log_error = read.err();
        machine.xids.clone_from(&self.last);
        for xid in &mut machine.xids {
            let there = machine.gpus.iter().find(|gpu| gpu.pci == Some(xid.pci));
            xid.gpu = there.map(|gpu| gpu.index);
        }
    }
}

/// When this kernel started, to the second.
fn boot() -> Option<Timestamp> {
    let since = SignedDuration::from_secs(rustix::system::sysinfo().uptime);
    Timestamp::now().checked_sub(since).ok()
}

fn note(line: &[u8], clock: &LogClock, last: &mut Vec<Xid>) {
    /// What a line with an Xid holds.
    const MARK: &[u8] = b"NVRM: Xid";
    if memchr::memmem::find(line, MARK).is_some()
        && let Some(xid) = Xid::read(&sanitize(line), clock)
    {
        xid.note(last);
    }
}

/// The records since the last look.
fn records(file: &mut File, clock: &LogClock, last: &mut Vec<Xid>) -> Result<(), String> {
    let mut record = vec![0; RECORD];
    for _ in 0..RECORDS {
        match file.read(&mut record) {
            Ok(0) => break,
            // What follows a record's line are properties, each on a line of its own.
            Ok(length) => {
                let line = record[..length].split(|b| *b == b'\n').next();
                note(line.unwrap_or_default(), clock, last);
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            // Records were overwritten before they were read: the next read goes on behind them.
            Err(e) if e.kind() == ErrorKind::BrokenPipe || e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(format!("{KMSG}: {e}")),
        }
    }
    Ok(())
}

/// The end of a file.
fn tail(path: &Path, clock: &LogClock, last: &mut Vec<Xid>) -> Result<(), String> {
    let part = window::part(path, |length| length.saturating_sub(TAIL)..length);
    let part = part.map_err(|e| format!("{}: {e}", path.display()))?;
    last.clear();
    part.bytes
        .split(|b| *b == b'\n')
        .for_each(|line| note(line, clock, last));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    fn codes(machine: &Machine) -> Vec<u32> {
        machine.xids.iter().map(|xid| xid.code).collect()
    }

    /// Datagrams are read as records are: one a call, and none that blocks.
    #[test]
    fn records_are_read_as_they_come_and_none_is_waited_for() {
        let (kernel, ours) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let source = KernelLogSource::Buffer(File::from(OwnedFd::from(ours)));
        let mut log = KernelLog::of(Ok(source), boot());
        let mut machine = Machine::default();
        let send = |text: &str| kernel.send(text.as_bytes()).unwrap();
        send("6,1,5,-;nvidia: loading\n");
        send(
            "4,2,9000000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=7\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n",
        );
        log.describe(&mut machine);
        assert_eq!(codes(&machine), [31]);
        assert!(machine.xids[0].at.is_some() && machine.kernel_log_error.is_none());
        send("4,3,9000001,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n");
        log.describe(&mut machine);
        assert_eq!(codes(&machine), [79]);
    }

    #[test]
    fn of_a_file_the_end_counts_and_a_missing_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kern.log");
        let old = "NVRM: Xid (PCI:0000:01:00): 31, pid=7\n";
        let filler = "x\n".repeat(usize::try_from(TAIL).unwrap() / 2);
        let new = "NVRM: Xid (PCI:0000:02:00): 48, pid=8\n";
        std::fs::write(&path, format!("{old}{filler}{new}")).unwrap();
        let mut machine = Machine::default();
        KernelLog::copy(&path).describe(&mut machine);
        assert_eq!(codes(&machine), [48]);
        KernelLog::copy(&dir.path().join("gone")).describe(&mut machine);
        assert!(machine.xids.is_empty() && machine.kernel_log_error.is_some());
    }
}
