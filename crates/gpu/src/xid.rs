//! Xids: what the driver writes to the kernel's log when something goes wrong with a GPU.
//!
//! Format: NVIDIA, "XID Errors" (`NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, …`, before driver 410 without `PCI:`);
//! times as /dev/kmsg, dmesg and syslog write them (Documentation/ABI/testing/dev-kmsg, dmesg(1), RFC 3164, RFC 3339).

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::xid_table::{XidOrigin, about};

/// GPUs whose Xids are kept; more than a machine has.
const MOST: usize = 64;
/// Characters of a message that are kept.
const TEXT: usize = 200;

/// Where a GPU is on the bus.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct Pci {
    /// Domain.
    pub domain: u32,
    /// Bus.
    pub bus: u32,
    /// Device; what has several functions counts as one.
    pub device: u32,
}

impl Pci {
    /// Reads `0000:3b:00`, `00000000:3B:00.0` or `3b:00`; the domain is 0 where it is missing.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.split('.').next()?;
        let hex = |part: &str| u32::from_str_radix(part, 16).ok();
        let parts: Vec<&str> = text.split(':').collect();
        let (domain, bus, device) = match parts.as_slice() {
            [domain, bus, device] => (hex(domain)?, hex(bus)?, hex(device)?),
            [bus, device] => (0, hex(bus)?, hex(device)?),
            _ => return None,
        };
        Some(Self {
            domain,
            bus,
            device,
        })
    }
}

impl fmt::Display for Pci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}",
            self.domain, self.bus, self.device
        )
    }
}

impl From<Pci> for String {
    fn from(pci: Pci) -> Self {
        pci.to_string()
    }
}

impl TryFrom<String> for Pci {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("no place on a PCI bus: {text:?}"))
    }
}

/// An Xid of the kernel's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Xid {
    /// Where the GPU is.
    pub pci: Pci,
    /// NVML's index of the GPU, where one is at that place.
    #[serde(default)]
    pub gpu: Option<u32>,
    /// The number.
    pub code: u32,
    /// What it means, in words.
    pub means: String,
    /// Whose fault it mostly is.
    pub origin: XidOrigin,
    /// When, where the log tells it.
    #[serde(default)]
    pub at: Option<Timestamp>,
    /// What the driver wrote behind the number.
    pub text: String,
}

impl fmt::Display for Xid {
    /// `GPU 0 had Xid 79 (2026-11-20 14:03 UTC): the GPU has fallen off the bus`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gpu {
            Some(gpu) => write!(f, "GPU {gpu}")?,
            None => write!(f, "the GPU at {}", self.pci)?,
        }
        write!(f, " had Xid {}", self.code)?;
        if let Some(at) = self.at {
            write!(f, " ({})", at.strftime("%Y-%m-%d %H:%M UTC"))?;
        }
        write!(f, ": {}", self.means)
    }
}

/// What it takes to make a time of what a log says.
#[derive(Debug, Clone)]
pub struct LogClock {
    /// Start of the kernel that wrote the log, where it is this machine's present one.
    pub boot: Option<Timestamp>,
    /// The present.
    pub now: Timestamp,
    /// The zone of times that name none.
    pub zone: TimeZone,
}

impl Xid {
    /// Reads a line of a kernel's log; `None` for one without an Xid.
    pub fn read(line: &str, clock: &LogClock) -> Option<Self> {
        let (before, rest) = line.split_once("NVRM: Xid (")?;
        let (place, rest) = rest.split_once("): ")?;
        let place = place.split(' ').next()?;
        let pci = Pci::parse(place.strip_prefix("PCI:").unwrap_or(place))?;
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let code = rest[..digits].parse().ok()?;
        let text = rest[digits..].trim_start_matches([',', ' ']);
        let (means, origin) = about(code);
        Some(Self {
            pci,
            gpu: None,
            code,
            means: means.to_owned(),
            origin,
            at: time(before, clock),
            text: text
                .chars()
                .filter(|c| !c.is_control())
                .take(TEXT)
                .collect(),
        })
    }

    /// Notes it as the last one of its GPU. One that only follows from another (a clean-up, a recovery action) does
    /// not hide what it follows from.
    pub fn note(self, last: &mut Vec<Self>) {
        let follows =
            |known: &Self| self.origin == XidOrigin::Follows && known.origin != XidOrigin::Follows;
        match last.iter().position(|known| known.pci == self.pci) {
            Some(at) if follows(&last[at]) => {}
            Some(at) => last[at] = self,
            None if last.len() < MOST => last.push(self),
            None => {}
        }
    }
}

/// The time that stands before a message.
fn time(before: &str, clock: &LogClock) -> Option<Timestamp> {
    let before = before.trim_start();
    let since_boot = |seconds: f64| {
        let boot = clock.boot?;
        let since = SignedDuration::try_from_secs_f64(seconds).ok()?;
        boot.checked_add(since).ok()
    };
    if let Some((record, _)) = before.split_once(';') {
        // `6,339,5140900,-`: priority, sequence, microseconds.
        let micros: u64 = record.split(',').nth(2)?.parse().ok()?;
        return since_boot(micros as f64 / 1e6);
    }
    if let Some(inner) = before.strip_prefix('[') {
        let inner = inner.split_once(']')?.0.trim();
        return match inner.parse::<f64>() {
            Ok(seconds) => since_boot(seconds),
            Err(_) => zoned(
                DateTime::strptime("%a %b %d %H:%M:%S %Y", single_blanks(inner)).ok()?,
                clock,
            ),
        };
    }
    let first = before.split(' ').next()?;
    if let Ok(stamp) = first.replacen(',', ".", 1).parse::<Timestamp>() {
        return Some(stamp);
    }
    without_year(before, clock)
}

/// `Aug 30 11:43:14`: of this year, or of the last where that would lie ahead.
fn without_year(before: &str, clock: &LogClock) -> Option<Timestamp> {
    let words: Vec<&str> = before.split_whitespace().take(3).collect();
    let this_year = clock.now.to_zoned(clock.zone.clone()).year();
    let in_year = |year: i16| {
        let text = format!("{year} {}", words.join(" "));
        zoned(DateTime::strptime("%Y %b %d %H:%M:%S", text).ok()?, clock)
    };
    let tomorrow = clock.now.checked_add(24.hours()).ok()?;
    in_year(this_year)
        .filter(|at| *at <= tomorrow)
        .or_else(|| in_year(this_year - 1))
}

fn single_blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn zoned(civil: DateTime, clock: &LogClock) -> Option<Timestamp> {
    let zoned = civil.to_zoned(clock.zone.clone()).ok()?;
    Some(zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_base::table;

    fn clock() -> LogClock {
        LogClock {
            boot: Some("2026-11-01T00:00:00Z".parse().unwrap()),
            now: "2026-11-21T12:00:00Z".parse().unwrap(),
            zone: TimeZone::UTC,
        }
    }

    fn read(line: &str) -> Xid {
        Xid::read(line, &clock()).unwrap_or_else(|| panic!("{line}"))
    }

    #[test]
    fn place_number_and_time_are_read_in_every_form_that_logs_have() {
        let fallen =
            "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus.";
        for [before, at] in table::<2, 8>(
            "
            4,1203,86400000000,-; | 2026-11-02T00:00:00Z
            [86400.000000]  | 2026-11-02T00:00:00Z
            [Fri Nov 20 14:03:00 2026]  | 2026-11-20T14:03:00Z
            [Fri Nov  6 14:03:00 2026]  | 2026-11-06T14:03:00Z
            2026-11-20T14:03:00.5+02:00 node7 kernel:  | 2026-11-20T12:03:00.5Z
            2026-11-20T14:03:00,500000+02:00  | 2026-11-20T12:03:00.5Z
            Nov  6 14:03:00 node7 kernel: [ 12.5]  | 2026-11-06T14:03:00Z
            Dec 24 14:03:00 node7 kernel:  | 2025-12-24T14:03:00Z
            ",
        ) {
            let xid = read(&format!("{before}{fallen}"));
            assert_eq!(xid.at, Some(at.parse().unwrap()), "{before}");
            assert_eq!((xid.pci.to_string().as_str(), xid.code), ("0000:3b:00", 79));
            assert_eq!(xid.origin, XidOrigin::Hardware);
            assert!(xid.text.starts_with("pid=4711"), "{}", xid.text);
        }
        assert_eq!(read(fallen).at, None);
    }

    #[test]
    fn old_and_split_gpus_are_read_too() {
        let old = read("NVRM: Xid (0000:01:00): 13, 0005 00000000 0000502d 00000104");
        assert_eq!((old.code, old.origin), (13, XidOrigin::Program));
        let split = read("NVRM: Xid (PCI:0000:04:00 GPU-I:05): 94, pid=7194, Contained: SM (0x1).");
        assert_eq!(split.pci, Pci::parse("00000000:04:00.0").unwrap());
        let unknown = read("NVRM: Xid (PCI:0000:04:00): 999");
        assert_eq!(
            (unknown.origin, unknown.text.as_str()),
            (XidOrigin::Unknown, "")
        );
        for line in [
            "NVRM: Xid (PCI:0000:04:00)",
            "NVRM: Xid (PCI:x): 13, ",
            "NVRM: Xid (PCI:0000:04:00): , ",
            "NVRM: Xid (): 99999999999",
            "nvidia: loading out-of-tree module",
        ] {
            assert_eq!(Xid::read(line, &clock()), None, "{line}");
        }
    }

    #[test]
    fn the_last_of_each_gpu_is_kept_and_what_follows_from_it_does_not_hide_it() {
        let mut last = Vec::new();
        for (place, code) in [("3b", 31), ("3b", 79), ("3b", 45), ("3b", 154), ("af", 45)] {
            read(&format!("NVRM: Xid (PCI:0000:{place}:00): {code}, ")).note(&mut last);
        }
        let codes: Vec<u32> = last.iter().map(|xid| xid.code).collect();
        assert_eq!(codes, [79, 45]);
    }
}
