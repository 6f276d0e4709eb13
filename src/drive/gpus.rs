//! Looking at GPUs again and again: to show them, and to wait for a free one.

use std::path::Path;
use std::time::{Duration, Instant};

use super::sources::{Wake, WakeSources};
use crate::io::kernel_log::KernelLog;
use crate::io::owners::Owners;
use oomctl_base::units::Bytes;
use oomctl_gpu::nvml::{Driver, GpuError};
use oomctl_gpu::{Card, GpuChoice, Machine, UseHistory, choose};

/// Time between two words about it.
const WORD: Duration = Duration::from_secs(60);

/// The driver, and what it takes to say whose the processes are and what went wrong before.
pub struct Looks {
    driver: Driver,
    owners: Owners,
    log: KernelLog,
}

impl Looks {
    /// Opens the driver; the kernel's log is this machine's, or a copy of it.
    ///
    /// # Errors
    /// Where there is no driver, or it refuses.
    pub fn open(kernel_log: Option<&Path>) -> Result<Self, GpuError> {
        Ok(Self {
            driver: Driver::open()?,
            owners: Owners::new(),
            log: kernel_log.map_or_else(KernelLog::open, KernelLog::copy),
        })
    }

    /// The GPUs, with the owners of their processes.
    ///
    /// # Errors
    /// When the driver does not even count them.
    pub fn look(&mut self) -> Result<Machine, GpuError> {
        let mut machine = self.driver.look()?;
        self.owners.describe(&mut machine);
        self.log.describe(&mut machine);
        Ok(machine)
    }

    /// The driver itself.
    pub const fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The name of the user who asks.
    pub fn me(&mut self) -> String {
        self.owners.me()
    }
}

/// Looks until a signal comes, which is returned, or `show` has nobody left to show it to.
///
/// # Errors
/// When the driver does not answer any more.
pub fn watch(
    looks: &mut Looks,
    every: Duration,
    history: usize,
    sources: &WakeSources,
    show: &mut dyn FnMut(&Machine, &UseHistory) -> bool,
) -> Result<Option<i32>, GpuError> {
    let mut history = UseHistory::of(history);
    let mut next = Instant::now();
    loop {
        let machine = looks.look()?;
        history.add(&machine);
        if !show(&machine, &history) {
            return Ok(None);
        }
        next = (next + every).max(Instant::now());
        if let Some(signal) = signal_before(sources, next) {
            return Ok(Some(signal));
        }
    }
}

/// How long a GPU is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// At most so long.
    pub at_most: Duration,
    /// Time between two looks.
    pub every: Duration,
}

/// How waiting for a GPU ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// This one has enough free memory.
    Free(Card),
    /// None that may be used is that large; the capacity of the largest, where there is one.
    Never(Option<Bytes>),
    /// Time is up; what was free on the freest at last.
    TimedOut(Bytes),
    /// A signal.
    Signal(i32),
}

/// Waits until a GPU has so much free memory that is promised to nobody, and takes the freest. `tell` hears now and
/// then how things stand.
pub fn wait_for(
    need: Bytes,
    patience: Patience,
    sources: &WakeSources,
    look: &mut dyn FnMut() -> Vec<Card>,
    tell: &mut dyn FnMut(Bytes),
) -> Waited {
    let start = Instant::now();
    let mut told: Option<Instant> = None;
    loop {
        let cards = look();
        let free = match choose(&cards, need, &[], false) {
            GpuChoice::Take(uuids) => {
                let taken = cards.into_iter().find(|c| uuids.first() == Some(&c.uuid));
                return taken.map_or(Waited::Never(None), Waited::Free);
            }
            GpuChoice::Never { largest } => return Waited::Never(largest),
            GpuChoice::Wait { best: (_, free) } => free,
        };
        if start.elapsed() >= patience.at_most {
            return Waited::TimedOut(free);
        }
        if told.is_none_or(|at| at.elapsed() >= WORD) {
            tell(free);
            told = Some(Instant::now());
        }
        let end = (Instant::now() + patience.every).min(start + patience.at_most);
        if let Some(signal) = signal_before(sources, end) {
            return Waited::Signal(signal);
        }
    }
}

/// Waits until then; a signal ends it.
fn signal_before(sources: &WakeSources, moment: Instant) -> Option<i32> {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        match sources.wait(left) {
            Some(Wake::Signal(signal)) => return Some(signal),
            Some(Wake::Logs | Wake::Jobs | Wake::Asked(_)) => {}
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(uuid: &str, used: u64) -> Card {
        Card {
            gpu: 0,
            uuid: uuid.to_owned(),
            name: "H100".to_owned(),
            total_bytes: Bytes(80),
            used_bytes: Bytes(used),
            claimed_bytes: Bytes(0),
            claimants_bytes: Bytes(0),
        }
    }

    fn waited(need: u64, at_most: Duration, looks: &[Vec<Card>]) -> (Waited, Vec<Bytes>) {
        let (_tell, sources) = WakeSources::channel();
        let mut looks = looks.iter().cycle().cloned();
        let mut look = || looks.next().unwrap_or_default();
        let mut told = Vec::new();
        let patience = Patience {
            at_most,
            every: Duration::ZERO,
        };
        let end = wait_for(Bytes(need), patience, &sources, &mut look, &mut |free| {
            told.push(free);
        });
        (end, told)
    }

    #[test]
    fn the_freest_is_taken_at_once_where_it_is_free() {
        let cards = vec![card("a", 60), card("b", 10), card("c", 30)];
        let (end, told) = waited(20, Duration::ZERO, &[cards]);
        assert_eq!((end, told), (Waited::Free(card("b", 10)), vec![]));
    }

    #[test]
    fn it_is_waited_for_until_time_is_up() {
        let (end, told) = waited(20, Duration::ZERO, &[vec![card("a", 70)]]);
        assert_eq!((end, told), (Waited::TimedOut(Bytes(10)), vec![]));
        let later = [vec![card("a", 70)], vec![card("a", 0)]];
        let (end, told) = waited(20, Duration::from_secs(60), &later);
        assert_eq!((end, told), (Waited::Free(card("a", 0)), vec![Bytes(10)]));
    }

    #[test]
    fn what_can_never_be_is_not_waited_for() {
        let hour = Duration::from_secs(3_600);
        let (end, _) = waited(81, hour, &[vec![card("a", 0)]]);
        assert_eq!(end, Waited::Never(Some(Bytes(80))));
        assert_eq!(waited(1, hour, &[vec![]]).0, Waited::Never(None));
    }

    #[test]
    fn a_signal_ends_the_wait() {
        let (tell, sources) = WakeSources::channel();
        tell.send(Wake::Signal(2)).unwrap();
        let mut look = || vec![card("a", 80)];
        let hour = Duration::from_secs(3_600);
        let patience = Patience {
            at_most: hour,
            every: hour,
        };
        let end = wait_for(Bytes(1), patience, &sources, &mut look, &mut |_| {});
        assert_eq!(end, Waited::Signal(2));
    }
}
