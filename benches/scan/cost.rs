//! What a program costs.

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

impl Cost {
    /// Of a program whose output is thrown away.
    #[expect(
        clippy::zombie_processes,
        reason = "`waited` waits for it, with wait4 for what it used"
    )]
    pub fn of(command: &mut Command) -> Self {
        let start = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program was found before");
        let usage = waited(child.id());
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        Self {
            cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            wall_s: start.elapsed().as_secs_f64(),
            peak_mib: usage.ru_maxrss as f64 / 1024.0,
        }
    }

    /// The median of each figure.
    pub fn median(costs: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| {
            let mut figures: Vec<f64> = costs.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        Self {
            cpu_s: of(|c| c.cpu_s),
            wall_s: of(|c| c.wall_s),
            peak_mib: of(|c| c.peak_mib),
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

/// Is there such a program?
pub fn found(program: &str) -> bool {
    let mut command = Command::new(program);
    let version = command.arg("--version").stdout(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}
