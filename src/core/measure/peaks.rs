//! The peaks of an attempt, as a fact of its run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figures::{Figure, Quantity};
use oomctl_base::units::Bytes;
use oomctl_gpu::SampleLine;

/// Most GPUs whose peaks are written down: those that were fullest.
const GPUS_MAX: usize = 512;

/// How full one GPU was at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuPeak {
    /// The node, as the scheduler calls it.
    pub node: String,
    /// NVML's index on the node; a label, not an identity.
    pub gpu: u32,
    /// UUID.
    pub uuid: String,
    /// Product name.
    pub name: String,
    /// Most bytes in use, everybody's, as NVML counts them: allocator, CUDA context, NCCL, co-tenants.
    pub peak_bytes: Bytes,
    /// Most bytes that processes of the job held, where the driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_peak_bytes: Option<Bytes>,
    /// The process of the job that held it at last, where it was one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Capacity in bytes, as the driver reports it.
    pub total_bytes: Bytes,
    /// Mean share of time in which a kernel ran, in percent; `None` where the driver did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization_percent: Option<u32>,
}

impl GpuPeak {
    /// The peaks that the last sample of a node holds.
    pub fn of(node: &str, sample: SampleLine) -> impl Iterator<Item = Self> + use<> {
        let node = node.to_owned();
        sample.gpus.into_iter().map(move |gpu| Self {
            utilization_percent: gpu.mean_utilization_percent(),
            node: node.clone(),
            gpu: gpu.reading.gpu,
            uuid: gpu.reading.uuid,
            name: gpu.reading.name,
            peak_bytes: gpu.peak_bytes,
            own_peak_bytes: gpu.own_peak_bytes,
            pid: gpu.reading.pid,
            total_bytes: gpu.reading.total_bytes,
        })
    }

    /// Its peak as a share of its capacity, which is 0 where the driver told none.
    pub fn share(&self) -> Option<f64> {
        let total = self.total_bytes.gib();
        (total > 0.0).then(|| self.peak_bytes.gib() / total)
    }

    /// Is it fuller than another, as a share of its capacity?
    fn fuller(&self, than: &Self) -> std::cmp::Ordering {
        let share = |a: &Self, b: &Self| u128::from(a.peak_bytes.0) * u128::from(b.total_bytes.0);
        share(self, than).cmp(&share(than, self))
    }
}

/// What an attempt was measured to need.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// The GPUs of the job, by node and index.
    #[serde(default)]
    pub gpus: Vec<GpuPeak>,
    /// The largest figures in its logs.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Milliseconds that each of its first steps took, as its log says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps_ms: Vec<u64>,
}

/// One part of so many of a GPU is not in use by anybody.
const UNUSED: u64 = 1000;

impl Measured {
    /// Mean utilization of its GPUs of which it is known.
    pub fn utilization_percent(&self) -> Option<u32> {
        let known = self.gpus.iter().filter_map(|gpu| gpu.utilization_percent);
        let (sum, n) = known.fold((0_u64, 0_u64), |(sum, n), one| {
            (sum + u64::from(one), n + 1)
        });
        u32::try_from(sum.checked_div(n)?).ok()
    }

    /// From the peaks of all GPUs that were seen. Where the driver tells whose memory it was, GPUs that no
    /// process of the job ever touched are somebody else's and do not count.
    pub fn new(mut gpus: Vec<GpuPeak>, figures: Vec<Figure>) -> Self {
        if gpus.iter().any(|g| g.own_peak_bytes.is_some()) {
            gpus.retain(|g| g.own_peak_bytes.is_some());
        }
        gpus.sort_by(|a, b| b.fuller(a));
        gpus.truncate(GPUS_MAX);
        gpus.sort_by(|a, b| (&a.node, a.gpu, &a.uuid).cmp(&(&b.node, b.gpu, &b.uuid)));
        Self {
            gpus,
            figures,
            steps_ms: Vec::new(),
        }
    }

    /// The same with the times of its first steps.
    pub fn with_steps(self, steps_ms: Vec<u64>) -> Self {
        Self { steps_ms, ..self }
    }

    /// Seconds of a usual step among the first `most`: the middle one, without the first, which warms up, where
    /// there are others.
    pub fn step_s(&self, most: usize) -> Option<f64> {
        let steps = &self.steps_ms[..self.steps_ms.len().min(most)];
        let mut usual = steps
            .get(1..)
            .filter(|s| !s.is_empty())
            .unwrap_or(steps)
            .to_vec();
        usual.sort_unstable();
        let middle = *usual.get(usual.len() / 2)?;
        let seconds = middle as f64 / 1_000.0;
        Some(seconds)
    }

    /// Did the logs print memory of GPUs?
    pub fn prints_gpu_memory(&self) -> bool {
        let of_gpu =
            |f: &Figure| matches!(f.measure, Quantity::GpuAllocated | Quantity::GpuReserved);
        self.figures.iter().any(of_gpu)
    }

    /// Was nothing measured?
    pub fn is_empty(&self) -> bool {
        self.gpus.is_empty() && self.figures.is_empty() && self.steps_ms.is_empty()
    }

    /// The GPU that was fullest; none where the job ended before it was seen to use any.
    pub fn fullest(&self) -> Option<&GpuPeak> {
        let used = |gpu: &&GpuPeak| gpu.peak_bytes.0 > gpu.total_bytes.0 / UNUSED;
        self.gpus.iter().filter(used).max_by(|a, b| a.fuller(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peak(node: &str, gpu: u32, peak: u64, own: Option<u64>) -> GpuPeak {
        GpuPeak {
            utilization_percent: None,
            node: node.to_owned(),
            gpu,
            uuid: format!("GPU-{node}-{gpu}"),
            name: "A100".to_owned(),
            peak_bytes: Bytes(peak),
            own_peak_bytes: own.map(Bytes),
            pid: None,
            total_bytes: Bytes(100),
        }
    }

    #[test]
    fn the_fullest_gpu_is_named_and_all_stand_by_node_and_index() {
        let gpus = vec![
            peak("n2", 0, 40, None),
            peak("n1", 1, 90, None),
            peak("n1", 0, 70, None),
        ];
        let measured = Measured::new(gpus, Vec::new());
        let places: Vec<_> = measured
            .gpus
            .iter()
            .map(|g| (g.node.as_str(), g.gpu))
            .collect();
        assert_eq!(places, [("n1", 0), ("n1", 1), ("n2", 0)]);
        assert_eq!(measured.fullest().map(|g| g.gpu), Some(1));
    }

    #[test]
    fn a_usual_step_is_none_that_warms_up_unless_there_is_no_other() {
        let of = |steps: &[u64], most| Measured::default().with_steps(steps.to_vec()).step_s(most);
        let first = [90_000, 40_000, 44_000, 41_000, 99_000];
        assert_eq!(of(&first, 4), Some(41.0));
        assert_eq!(of(&first, 1), Some(90.0));
        assert_eq!(of(&[], 4), None);
        assert_eq!(of(&first, 0), None);
    }

    #[test]
    fn gpus_of_others_do_not_count_where_the_driver_tells_whose_memory_it_is() {
        let gpus = vec![peak("n1", 0, 99, None), peak("n1", 1, 40, Some(39))];
        let measured = Measured::new(gpus, Vec::new());
        assert_eq!(measured.gpus.len(), 1);
        assert_eq!(measured.fullest().map(|g| g.peak_bytes), Some(Bytes(40)));
    }
}
