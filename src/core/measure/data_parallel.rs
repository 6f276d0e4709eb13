//! One process on several GPUs, one of which is full while the others have room.

use super::peaks::{GpuPeak, Measured};
use oomctl_base::units::Bytes;

/// A GPU is full from this share of its capacity on, in percent: what is left is less than an allocation that fails.
const FULL: u64 = 90;
/// The others have room where the next one holds at most this share of the fullest, in percent.
const ROOM: u64 = 67;

/// What was measured of such a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crowded {
    /// NVML's index of the full GPU.
    pub gpu: u32,
    /// Its peak.
    pub peak_bytes: Bytes,
    /// Its capacity.
    pub total_bytes: Bytes,
    /// How many others there are.
    pub others: usize,
    /// The highest peak of the others.
    pub next_bytes: Bytes,
}

impl Measured {
    /// The full GPU of a process that has several; `None` where the samples do not show that it is one process.
    pub fn crowded(&self) -> Option<Crowded> {
        let (first, rest) = self.gpus.split_first()?;
        let pid = first.pid?;
        let same = |gpu: &GpuPeak| gpu.pid == Some(pid) && gpu.node == first.node;
        if rest.is_empty() || !rest.iter().all(same) {
            return None;
        }
        let fullest = self.fullest()?;
        let others = self.gpus.iter().filter(|gpu| gpu.uuid != fullest.uuid);
        let next_bytes = others.map(|gpu| gpu.peak_bytes).max()?;
        let percent = |part: Bytes, of: Bytes| u128::from(part.0) * 100 / u128::from(of.0.max(1));
        let full = percent(fullest.peak_bytes, fullest.total_bytes) >= u128::from(FULL);
        let room = percent(next_bytes, fullest.peak_bytes) <= u128::from(ROOM);
        (full && room).then_some(Crowded {
            gpu: fullest.gpu,
            peak_bytes: fullest.peak_bytes,
            total_bytes: fullest.total_bytes,
            others: rest.len(),
            next_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(peaks: &[(u64, u32)]) -> Measured {
        let gpu = |(index, (peak, pid)): (usize, &(u64, u32))| GpuPeak {
            utilization_percent: None,
            node: "n1".to_owned(),
            gpu: u32::try_from(index).unwrap(),
            uuid: format!("GPU-{index}"),
            name: "V100".to_owned(),
            peak_bytes: Bytes(*peak),
            own_peak_bytes: Some(Bytes(*peak)),
            pid: Some(*pid),
            total_bytes: Bytes(100),
        };
        Measured::new(peaks.iter().enumerate().map(gpu).collect(), Vec::new())
    }

    #[test]
    fn one_process_with_one_full_gpu_is_told_from_all_others() {
        let found = measured(&[(97, 7), (40, 7), (41, 7)]).crowded().unwrap();
        assert_eq!(
            (found.gpu, found.others, found.next_bytes),
            (0, 2, Bytes(41))
        );
        for other in [
            measured(&[(97, 7), (40, 8)]),
            measured(&[(97, 7), (90, 7)]),
            measured(&[(60, 7), (20, 7)]),
            measured(&[(97, 7)]),
            Measured::default(),
        ] {
            assert_eq!(other.crowded(), None, "{other:?}");
        }
    }
}
