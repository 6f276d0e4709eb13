//! A clock that nobody can set, the same for all processes of a host.

use std::time::Duration;

/// How long the machine has been up, the time that it slept included (`CLOCK_BOOTTIME`).
pub fn uptime() -> Duration {
    #[cfg(test)]
    if let Some(uptime) = super::trial::with(|t| t.uptime()) {
        return uptime;
    }
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}
