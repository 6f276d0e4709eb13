//! How full host memory was, by what programs print of it: who kills a process with SIGKILL leaves no other word.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::ascii::compiled;

/// What stands in such a line.
pub(crate) const HOST_USE: &str = "CPU Virtual Memory: ";

/// DeepSpeed `runtime/utils.py`, see_memory_usage, 0.3 to 0.18: memory of the node, by psutil.
static LINE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"CPU Virtual Memory:\s+used = [\d.]+ GB, percent = (\d+(?:\.\d+)?)%";
    compiled(pattern)
});

/// The first and the last that was printed, in percent.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct HostFilling(Option<(f64, f64)>);

impl HostFilling {
    /// From this on a host that fills is nearly full, in percent.
    const NEARLY_FULL: f64 = 70.0;
    /// What a host that fills gained at least, in percent.
    const FILLS: f64 = 10.0;

    /// Takes a line that may be one of them.
    pub(crate) fn see(&mut self, text: &str) {
        let found = || LINE.captures(text)?[1].parse().ok();
        if text.contains(HOST_USE)
            && let Some(now) = found()
        {
            self.0 = Some((self.0.map_or(now, |(first, _)| first), now));
        }
    }

    /// What shows that host memory filled, in words; None where it did not, or nothing was printed.
    pub(crate) fn filling(&self) -> Option<String> {
        let (first, last) = self.0?;
        let fills = last >= Self::NEARLY_FULL && last - first >= Self::FILLS;
        fills.then(|| {
            format!("host memory had filled from {first} % to {last} % when it was last printed (see_memory_usage)")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_fills_is_told_from_one_that_is_full_of_others() {
        let line = |percent: &str| {
            format!(
                "[2024-07-01 10:22:05,414] [INFO] [utils.py:789:see_memory_usage] CPU Virtual Memory:  used = 121.70 GB, percent = {percent}%"
            )
        };
        for (seen, fills) in [
            (&["20.0", "48.3", "75.5"][..], true),
            (&["20.0", "48.3"], false),
            (&["88.0", "89.5"], false),
            (&[], false),
        ] {
            let mut host = HostFilling::default();
            seen.iter().for_each(|percent| host.see(&line(percent)));
            assert_eq!(host.filling().is_some(), fills, "{seen:?}");
        }
    }
}
