//! Where an attempt runs: the GPU that it holds already, one that is waited for, or the CPU.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{LaunchError, LaunchListener, LaunchNews};
use crate::core::exit::Exit;
use crate::core::launch::GpuWish;
use crate::io::claims::{Claims, GpuClaim};
use crate::io::gpu_pool::{Cards, GpuRequest};
use crate::io::program::{Ears, Inbox, ProgramEvent};
use oomctl_base::job::{GpuUsed, RunMachine};
use oomctl_base::units::Bytes;
use oomctl_gpu::nvml::{Driver, GpuError};
use oomctl_gpu::{Card, GpuChoice, Visible, choose};

/// Longest time that the memory of a dead program is waited for: the driver frees it within seconds.
const SETTLE: Duration = Duration::from_secs(30);
/// Pause between two looks meanwhile.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);
/// Bytes that may stay in use: others' contexts come and go.
const SETTLE_SLACK: u64 = 64 << 20;

/// The GPUs of this machine, and the claims on them.
pub struct MachineGpus {
    driver: Result<Driver, String>,
    claims: Claims,
    list: Option<String>,
    capacities: OnceLock<BTreeMap<String, Bytes>>,
}

/// A GPU that is claimed.
pub struct ClaimedGpu {
    pub(super) claim: GpuClaim,
    pub(super) gpu: GpuUsed,
}

/// Where an attempt runs.
pub enum LaunchPlace {
    /// On a GPU that was claimed for it.
    Gpu(ClaimedGpu),
    /// On the CPU, as was asked for.
    Cpu,
    /// None yet: it is looked for again after this pause.
    Later(Duration),
    /// No GPU is to be had: none came free in time, or none is large enough.
    Nowhere {
        /// Why.
        why: String,
        /// The code for that.
        exit: Exit,
    },
    /// A signal came while one was waited for.
    Signal(i32),
}

/// A search for a place, between two looks.
#[derive(Default)]
pub struct PlaceSearch {
    /// The GPU of the attempt before, while the driver frees its memory.
    held: Option<ClaimedGpu>,
    settling: Option<Instant>,
    waiting: Option<Instant>,
}

impl MachineGpus {
    /// Opens the driver and the claims; `list` is `CUDA_VISIBLE_DEVICES`. No driver is no error: then there
    /// is no GPU.
    ///
    /// # Errors
    /// When NVML is there and refuses, or there is no place for claims.
    pub fn open(list: Option<String>) -> Result<Self, LaunchError> {
        let driver = match Driver::open() {
            Ok(driver) => Ok(driver),
            Err(e @ GpuError::NoDriver(_)) => Err(e.to_string()),
            Err(e) => return Err(e.into()),
        };
        Ok(Self {
            driver,
            claims: Claims::open()?,
            list,
            capacities: OnceLock::new(),
        })
    }

    /// The GPUs, to be looked at again and again.
    pub(super) fn cards(&self) -> Option<Cards<'_>> {
        let driver = self.driver.as_ref().ok()?;
        Some(Cards::new(driver, &self.claims))
    }

    /// The capacity of each GPU, by UUID. It does not change: it is looked at once.
    pub(super) fn capacities(&self) -> BTreeMap<String, Bytes> {
        let looked = || {
            let seen = self.cards().map(|mut c| c.look(self.list.as_deref()).cards);
            let cards = seen.into_iter().flatten();
            cards.map(|card| (card.uuid, card.total_bytes)).collect()
        };
        self.capacities.get_or_init(looked).clone()
    }

    /// Finds a place for a first attempt, and waits for it.
    ///
    /// # Errors
    /// When claims cannot be written.
    pub fn place(
        &self,
        wish: &GpuWish,
        ears: &Ears,
        listener: &mut dyn LaunchListener,
    ) -> Result<LaunchPlace, LaunchError> {
        let inbox = Inbox::default();
        ears.add(inbox.listener());
        let mut search = PlaceSearch::default();
        loop {
            let place = self.look(&mut search, wish, ears, listener)?;
            let LaunchPlace::Later(pause) = place else {
                return Ok(place);
            };
            pass_time(&inbox, Instant::now() + pause);
        }
    }

    /// Looks once for a place for an attempt.
    ///
    /// # Errors
    /// When claims cannot be written.
    pub(super) fn look(
        &self,
        search: &mut PlaceSearch,
        wish: &GpuWish,
        ears: &Ears,
        listener: &mut dyn LaunchListener,
    ) -> Result<LaunchPlace, LaunchError> {
        if let Some(signal) = ears.ending() {
            return Ok(LaunchPlace::Signal(signal));
        }
        if wish.cpu {
            return Ok(LaunchPlace::Cpu);
        }
        let Some(mut cards) = self.cards() else {
            let why = self.driver.as_ref().err().cloned();
            return Ok(LaunchPlace::Nowhere {
                why: why.unwrap_or_default(),
                exit: Exit::NoGpu,
            });
        };
        let held = search.held.take();
        if let Some(held) = held.filter(|held| !wish.excluded.contains(&held.claim.uuid)) {
            if !search.settled(&mut cards, &held, listener) {
                search.held = Some(held);
                return Ok(LaunchPlace::Later(SETTLE_PAUSE));
            }
            if let Some(held) = again(&mut cards, held, wish.need) {
                return Ok(LaunchPlace::Gpu(held));
            }
        }
        self.search(&mut cards, search, wish, listener)
    }

    fn search(
        &self,
        cards: &mut Cards<'_>,
        search: &mut PlaceSearch,
        wish: &GpuWish,
        listener: &mut dyn LaunchListener,
    ) -> Result<LaunchPlace, LaunchError> {
        let wanted = GpuRequest {
            need: wish.need,
            claim: wish.claim,
            excluded: &wish.excluded,
        };
        let seen = cards.look(self.list.as_deref());
        let alone = wanted.claim.is_none();
        let best = match choose(&seen.cards, wanted.need, wanted.excluded, alone) {
            GpuChoice::Never { largest } => {
                let why = self.never(&seen, wish, largest);
                let exit = Exit::NoGpu;
                return Ok(LaunchPlace::Nowhere { why, exit });
            }
            GpuChoice::Wait { best } => best.1,
            GpuChoice::Take(uuids) => match claim(cards, &seen.cards, &uuids, wanted)? {
                Some(held) => return Ok(LaunchPlace::Gpu(held)),
                None => Bytes(0),
            },
        };
        let start = *search.waiting.get_or_insert_with(Instant::now);
        let limit = Duration::from_secs(wish.wait_s);
        let (need, waited) = (wish.need, start.elapsed());
        if waited >= limit {
            let found = available(&seen.cards);
            let why = format!("no GPU had {need} available within {}{found}", words(limit));
            let exit = Exit::TimedOut;
            return Ok(LaunchPlace::Nowhere { why, exit });
        }
        listener.news(&LaunchNews::Waiting {
            need,
            best,
            waited,
            limit,
        });
        let every = Duration::from_secs(wish.check_every_s);
        Ok(LaunchPlace::Later(every.min(limit.saturating_sub(waited))))
    }

    /// What a program has here that was given this place.
    pub fn machine(&self, place: &LaunchPlace) -> RunMachine {
        RunMachine {
            gpu: match place {
                LaunchPlace::Gpu(held) => Some(held.gpu.clone()),
                _ => None,
            },
            capacities: self.capacities(),
        }
    }

    /// Why no GPU will ever do.
    fn never(&self, seen: &Visible, wish: &GpuWish, largest: Option<Bytes>) -> String {
        let list = self.list.as_deref().unwrap_or_default();
        match (largest, &seen.unknown) {
            (Some(largest), _) => {
                format!("no GPU has {}: the largest has {largest}", wish.need)
            }
            (None, Some(word)) => {
                format!("CUDA_VISIBLE_DEVICES={list} names no GPU of this machine ({word})")
            }
            (None, None) if !seen.cards.is_empty() => "no other GPU is left".to_owned(),
            (None, None) if self.list.is_some() => {
                format!("CUDA_VISIBLE_DEVICES={list} lets no GPU through")
            }
            (None, None) => "this machine has no GPU that can be opened".to_owned(),
        }
    }
}

/// Claims the first of these GPUs that nobody else claims meanwhile.
fn claim(
    cards: &mut Cards<'_>,
    seen: &[Card],
    uuids: &[String],
    wanted: GpuRequest<'_>,
) -> Result<Option<ClaimedGpu>, LaunchError> {
    for uuid in uuids {
        let card = seen.iter().find(|c| c.uuid == *uuid);
        if let (Some(card), Some(claim)) = (card, cards.claim(uuid, wanted)?) {
            let gpu = GpuUsed {
                index: card.gpu,
                uuid: card.uuid.clone(),
                name: card.name.clone(),
                total_bytes: card.total_bytes,
                free_bytes: card.free(),
            };
            return Ok(Some(ClaimedGpu { claim, gpu }));
        }
    }
    Ok(None)
}

impl PlaceSearch {
    /// The search after an attempt that had this GPU.
    pub(super) fn after(gpu: Option<ClaimedGpu>) -> Self {
        Self {
            held: gpu,
            ..Self::default()
        }
    }

    /// Is the memory of the attempt before free again, or was it waited for long enough?
    fn settled(
        &mut self,
        cards: &mut Cards<'_>,
        held: &ClaimedGpu,
        listener: &mut dyn LaunchListener,
    ) -> bool {
        let before = held.gpu.total_bytes.0.saturating_sub(held.gpu.free_bytes.0);
        let Some(reading) = cards.reading(&held.gpu.uuid, |_| false) else {
            return true;
        };
        let surplus = reading.used_bytes.0.saturating_sub(before);
        if surplus <= SETTLE_SLACK {
            return true;
        }
        if self.settling.is_none() {
            let held = Bytes(surplus);
            listener.news(&LaunchNews::Settling { held });
        }
        self.settling.get_or_insert_with(Instant::now).elapsed() >= SETTLE
    }
}

/// The same GPU once more, if others have left it enough memory.
fn again(cards: &mut Cards<'_>, mut held: ClaimedGpu, need: Bytes) -> Option<ClaimedGpu> {
    let reading = cards.reading(&held.gpu.uuid, |_| false)?;
    let free = Bytes(reading.total_bytes.0.saturating_sub(reading.used_bytes.0));
    held.gpu.free_bytes = free;
    (free >= need).then_some(held)
}

/// Waits, or until a signal has come that ends programs.
fn pass_time(inbox: &Inbox, until: Instant) {
    while let Some(event) = inbox.next(until) {
        if matches!(event, ProgramEvent::Signal(number) if Ears::ends(number)) {
            return;
        }
    }
}

/// What each GPU has for a program, as the end of a sentence.
fn available(cards: &[Card]) -> String {
    /// GPUs that are named.
    const NAMED: usize = 8;
    let one = |card: &Card| format!("GPU {} has {}", card.gpu, card.available());
    let all: Vec<String> = cards.iter().take(NAMED).map(one).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(": {}", all.join(", ")),
    }
}

/// A duration in words.
fn words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}
