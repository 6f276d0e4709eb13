//! The GPUs of this machine with what is promised of them: looked at while one is waited for, and claimed.

use super::claims::{Claims, GpuClaim, Promise};
use super::files::FileError;
use super::scheduler::local::process::is_below;
use oomctl_base::units::Bytes;
use oomctl_gpu::nvml::{Driver, GpuMeter};
use oomctl_gpu::{Card, GpuChoice, GpuReading, Visible, choose, visible};

/// The GPUs, kept open to look again and again.
pub struct Cards<'d> {
    meters: Vec<GpuMeter<'d>>,
    claims: &'d Claims,
}

/// What a program wants of a GPU.
#[derive(Debug, Clone, Copy)]
pub struct GpuRequest<'a> {
    /// Bytes that must be available.
    pub need: Bytes,
    /// Bytes that are claimed; the whole GPU where they are not known.
    pub claim: Option<Bytes>,
    /// UUIDs of GPUs that will not do.
    pub excluded: &'a [String],
}

impl<'d> Cards<'d> {
    /// The GPUs that can be opened.
    pub fn new(driver: &'d Driver, claims: &'d Claims) -> Self {
        Self {
            meters: driver.meters(),
            claims,
        }
    }

    /// Looks at all of them; `list` is `CUDA_VISIBLE_DEVICES`.
    pub fn look(&mut self, list: Option<&str>) -> Visible {
        let claims = self.claims;
        let meters = self.meters.iter_mut();
        let cards: Vec<Card> = meters
            .filter_map(|meter| {
                let promises = claims.of(&meter.reading().uuid);
                card(meter, &promises)
            })
            .collect();
        visible(list, &cards)
    }

    /// Claims the GPU if it still is as wanted, now that nobody else can claim it.
    ///
    /// # Errors
    /// When claims cannot be written.
    pub fn claim(
        &mut self,
        uuid: &str,
        wanted: GpuRequest<'_>,
    ) -> Result<Option<GpuClaim>, FileError> {
        let meter = self.meters.iter_mut().find(|m| m.reading().uuid == uuid);
        let (Some(meter), Some(desk)) = (meter, self.claims.desk(uuid)?) else {
            return Ok(None);
        };
        let Some(card) = card(meter, &desk.promises()) else {
            return Ok(None);
        };
        let total = card.total_bytes;
        let alone = wanted.claim.is_none();
        match choose(&[card], wanted.need, wanted.excluded, alone) {
            GpuChoice::Take(_) => desk.claim(wanted.claim.unwrap_or(total)).map(Some),
            _ => Ok(None),
        }
    }

    /// Looks at one; `ours` tells the processes of the program.
    pub fn reading(&mut self, uuid: &str, ours: impl FnMut(u32) -> bool) -> Option<GpuReading> {
        let mut meters = self.meters.iter_mut();
        let meter = meters.find(|m| m.reading().uuid == uuid)?;
        meter.look(ours).cloned()
    }
}

fn card(meter: &mut GpuMeter<'_>, promises: &[Promise]) -> Option<Card> {
    let ours = |pid: u32| {
        let pid = i32::try_from(pid).unwrap_or(-1);
        promises.iter().any(|p| is_below(pid, p.pid))
    };
    meter.look(ours)?;
    let reading = meter.reading();
    let claimed = promises.iter().map(|p| p.bytes.0);
    Some(Card {
        gpu: reading.gpu,
        uuid: reading.uuid.clone(),
        name: reading.name.clone(),
        total_bytes: reading.total_bytes,
        used_bytes: meter.taken(),
        claimed_bytes: Bytes(claimed.fold(0, u64::saturating_add)),
        claimants_bytes: reading.own_bytes.unwrap_or_default(),
    })
}
