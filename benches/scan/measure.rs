//! Runs a program on a file and says what it cost.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What one run cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// User and system time.
    pub cpu_s: f64,
    /// From start to end.
    pub wall_s: f64,
    /// Largest resident set.
    pub peak_mib: f64,
}

/// A program that reads a log.
pub struct Reader {
    /// As shown.
    pub name: &'static str,
    /// Runs once only.
    pub slow: bool,
    program: String,
    arguments: Vec<String>,
}

impl Reader {
    fn new(name: &'static str, program: &str, arguments: &[&str]) -> Self {
        Self {
            name,
            slow: false,
            program: program.to_owned(),
            arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
        }
    }

    /// Runs it on a file, output thrown away.
    #[expect(
        clippy::zombie_processes,
        reason = "`waited` waits for it, with wait4 for what it used"
    )]
    pub fn run(&self, path: &Path) -> Cost {
        let start = Instant::now();
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program was found before");
        let usage = waited(child.id());
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        Cost {
            cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            wall_s: start.elapsed().as_secs_f64(),
            peak_mib: usage.ru_maxrss as f64 / 1024.0,
        }
    }
}

/// What a child used, after its end.
fn waited(pid: u32) -> libc::rusage {
    let pid = libc::pid_t::try_from(pid).expect("process ids are small");
    // SAFETY: both pointers are to locals that live through the call; all-zero bits are a valid rusage.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let mut status = 0;
        assert_eq!(libc::wait4(pid, &raw mut status, 0, &raw mut usage), pid);
        usage
    }
}

/// The programs that are found here. `folder` takes the file of patterns.
pub fn readers(folder: &Path) -> Vec<Reader> {
    let patterns = folder.join("signatures");
    let lines = oomctl::core::diagnose::signature_patterns().join("\n");
    std::fs::write(&patterns, lines + "\n").expect("the patterns can be written");
    let file = patterns.display().to_string();
    let mut readers = vec![
        Reader::new("cat", "cat", &[]),
        Reader::new(
            "oomctl diagnose",
            env!("CARGO_BIN_EXE_oomctl"),
            &["diagnose", "--json"],
        ),
    ];
    if found("rg") {
        readers.push(Reader::new(
            "rg -a -c",
            "rg",
            &["--no-config", "-j1", "-a", "-c", "-f", &file],
        ));
    }
    if found("grep") {
        let grep = Reader::new("grep -a -c -E", "grep", &["-a", "-c", "-E", "-f", &file]);
        readers.push(Reader { slow: true, ..grep });
    }
    readers
}

fn found(program: &str) -> bool {
    let mut command = Command::new(program);
    let version = command.arg("--version").stdout(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}

/// The kind of failure that our program finds.
pub fn kind(path: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_oomctl"))
        .args(["diagnose", "--json"])
        .arg(path)
        .output()
        .expect("our program can be started");
    let view: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("diagnose prints JSON");
    view["files"][0]["kind"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// The median of each figure.
pub fn median(costs: &mut [Cost]) -> Cost {
    let of = |figure: fn(&Cost) -> f64| {
        let mut figures: Vec<f64> = costs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    Cost {
        cpu_s: of(|c| c.cpu_s),
        wall_s: of(|c| c.wall_s),
        peak_mib: of(|c| c.peak_mib),
    }
}
