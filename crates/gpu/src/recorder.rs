//! Which readings of a node's GPUs are worth a line in its file, and what the line says.
//!
//! Each line holds the peaks so far, so that the last one that can be read tells them, whatever became
//! of the others. The file is bounded: the fuller it is, the rarer the lines.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use oomctl_base::units::Bytes;

/// Version of the lines' format.
const VERSION: u32 = 1;
/// Largest file of a node in bytes, up to the last line, which is always written.
pub const FILE_MAX: u64 = 8 << 20;
/// Longest line in bytes that is read back: more than 64 GPUs or MIG devices take.
pub const LINE_MAX: usize = 32 << 10;
/// With every so many bytes the lines become half as frequent: 16 steps, so that even at a line a
/// second the file takes longer than any job to fill.
const STEP: u64 = FILE_MAX / 16;
/// Seconds after which a line is written even if nothing changed.
const HEARTBEAT_S: u64 = 60;
/// A change by this share of a GPU's memory is worth a line.
const CHANGE: u64 = 128;
/// So is a peak that grew by this share, at once.
const GROWTH: u64 = 256;

/// One look at one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuReading {
    /// NVML's index on the node; of a MIG device that of its GPU.
    pub gpu: u32,
    /// UUID, of a MIG device its own.
    pub uuid: String,
    /// Product name.
    pub name: String,
    /// Capacity in bytes.
    pub total_bytes: Bytes,
    /// Bytes in use, everybody's.
    pub used_bytes: Bytes,
    /// Bytes that processes of the job hold, where the driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_bytes: Option<Bytes>,
    /// The process of the job that holds memory of it, where it is one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Share of the last sampling period in which a kernel ran, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization_percent: Option<u32>,
}

/// A GPU in a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuSample {
    /// The look.
    #[serde(flatten)]
    pub reading: GpuReading,
    /// Most bytes in use so far.
    pub peak_bytes: Bytes,
    /// Most bytes of the job's own processes so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_peak_bytes: Option<Bytes>,
    /// Looks at which the driver told the utilization, and their sum in percent.
    #[serde(default)]
    pub utilization_looks: u64,
    /// See `utilization_looks`.
    #[serde(default)]
    pub utilization_sum_percent: u64,
}

impl GpuSample {
    /// The first look at a GPU.
    pub fn first(reading: GpuReading) -> Self {
        let mut sample = Self {
            peak_bytes: reading.used_bytes,
            own_peak_bytes: reading.own_bytes,
            utilization_looks: 0,
            utilization_sum_percent: 0,
            reading,
        };
        sample.count();
        sample
    }

    fn count(&mut self) {
        if let Some(percent) = self.reading.utilization_percent {
            self.utilization_looks += 1;
            self.utilization_sum_percent += u64::from(percent.min(100));
        }
    }

    /// Its mean over all looks so far, which are equally far apart.
    pub fn mean_utilization_percent(&self) -> Option<u32> {
        let mean = self
            .utilization_sum_percent
            .checked_div(self.utilization_looks)?;
        u32::try_from(mean).ok()
    }
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleLine {
    /// Version of the format.
    pub v: u32,
    /// When it was written (clock of the node).
    pub at: Timestamp,
    /// The GPUs of the job on this node.
    pub gpus: Vec<GpuSample>,
}

/// The last whole line of a file's end.
pub fn last_sample(end: &[u8]) -> Option<SampleLine> {
    let mut lines = end.split(|b| *b == b'\n').rev();
    lines.find_map(|line| serde_json::from_slice(line).ok())
}

/// Turns the looks at a node's GPUs into the lines of its file.
#[derive(Debug)]
pub struct Recorder {
    every_s: u64,
    /// Bytes in the file.
    written: u64,
    /// The GPUs as last seen, with their peaks.
    gpus: Vec<GpuSample>,
    /// The last line; none before the first of this recorder.
    line: Option<SampleLine>,
}

impl Recorder {
    /// A recorder of looks `every_s` seconds apart, for a file of so many bytes whose last line, where there
    /// is one, was written before the job was started again.
    pub fn new(every_s: u64, written: u64, before: Option<SampleLine>) -> Self {
        Self {
            every_s: every_s.max(1),
            written,
            gpus: before.map(|sample| sample.gpus).unwrap_or_default(),
            line: None,
        }
    }

    /// Takes a look; gives the line that it is worth.
    pub fn take(&mut self, readings: &[GpuReading], at: Timestamp) -> Option<String> {
        for reading in readings {
            self.see(reading);
        }
        self.is_due(at).then(|| self.write(at)).flatten()
    }

    /// The last line, with all that is known by now.
    pub fn last(&mut self, at: Timestamp) -> Option<String> {
        if self.gpus.is_empty() {
            return None;
        }
        self.write(at)
    }

    fn see(&mut self, reading: &GpuReading) {
        let own = reading.own_bytes;
        let Some(gpu) = self
            .gpus
            .iter_mut()
            .find(|g| g.reading.uuid == reading.uuid)
        else {
            self.gpus.push(GpuSample::first(reading.clone()));
            return;
        };
        gpu.peak_bytes = gpu.peak_bytes.max(reading.used_bytes);
        gpu.own_peak_bytes = gpu.own_peak_bytes.max(own);
        gpu.reading.total_bytes = reading.total_bytes;
        gpu.reading.used_bytes = reading.used_bytes;
        gpu.reading.own_bytes = own;
        // What held the memory is still of interest when it has ended.
        gpu.reading.pid = reading.pid.or(gpu.reading.pid.filter(|_| own.is_none()));
        gpu.reading.utilization_percent = reading.utilization_percent;
        gpu.count();
    }

    /// Seconds between two lines, as full as the file is.
    fn gap_s(&self) -> u64 {
        let steps = u32::try_from(self.written / STEP).unwrap_or(u32::MAX);
        self.every_s.checked_shl(steps).unwrap_or(u64::MAX)
    }

    fn is_due(&self, at: Timestamp) -> bool {
        let Some(line) = &self.line else {
            return !self.gpus.is_empty();
        };
        if self.written >= FILE_MAX || self.gpus.is_empty() {
            return false;
        }
        // A clock that was set back must not silence the file.
        let since_s = at.duration_since(line.at).as_secs().unsigned_abs();
        let known = |gpu: &GpuSample| {
            line.gpus
                .iter()
                .find(|g| g.reading.uuid == gpu.reading.uuid)
        };
        let bytes = |own: Option<Bytes>| own.map_or(0, |bytes| bytes.0);
        let grown = self.gpus.iter().any(|gpu| {
            let least = gpu.reading.total_bytes.0 / GROWTH;
            let by = |k: &GpuSample| {
                let own = bytes(gpu.own_peak_bytes).saturating_sub(bytes(k.own_peak_bytes));
                own.max(gpu.peak_bytes.0.saturating_sub(k.peak_bytes.0))
            };
            known(gpu).is_none_or(|k| by(k) > least)
        });
        let changed = self.gpus.iter().any(|gpu| {
            let least = gpu.reading.total_bytes.0 / CHANGE;
            let now = gpu.reading.used_bytes.0;
            known(gpu).is_none_or(|k| now.abs_diff(k.reading.used_bytes.0) > least)
        });
        grown || changed && since_s >= self.gap_s() || since_s >= self.gap_s().max(HEARTBEAT_S)
    }

    fn write(&mut self, at: Timestamp) -> Option<String> {
        let sample = SampleLine {
            v: VERSION,
            at,
            gpus: self.gpus.clone(),
        };
        let mut line = serde_json::to_string(&sample).ok()?;
        line.push('\n');
        self.written = self.written.saturating_add(line.len() as u64);
        self.line = Some(sample);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn reading(gpu: u32, used_bytes: u64) -> GpuReading {
        GpuReading {
            gpu,
            uuid: format!("GPU-9f3c2b7e-0000-4000-8000-{gpu:012}"),
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            total_bytes: Bytes(80 * GIB),
            used_bytes: Bytes(used_bytes),
            own_bytes: Some(Bytes(used_bytes)),
            pid: Some(4711),
            utilization_percent: Some(97),
        }
    }

    #[test]
    fn a_line_is_written_for_a_change_a_peak_and_a_sign_of_life_only() {
        let mut recorder = Recorder::new(1, 0, None);
        let mut lines = |second, used| recorder.take(&[reading(0, used)], at(second)).is_some();
        assert!(lines(0, GIB), "the first look");
        assert!(!lines(1, GIB), "nothing changed");
        assert!(!lines(2, GIB + GIB / 8), "a trifle");
        assert!(lines(3, GIB + GIB / 2), "the peak grew");
        assert!(!lines(4, GIB + GIB / 4), "a little less");
        assert!(lines(5, GIB / 2), "much less");
        assert!(!lines(64, GIB / 2));
        assert!(lines(65, GIB / 2), "a minute without a line");
    }

    #[test]
    fn whose_memory_it_is_is_worth_a_line_when_the_driver_tells_later() {
        let mut recorder = Recorder::new(1, 0, None);
        let mut look = reading(0, 60 * GIB);
        look.own_bytes = None;
        assert!(recorder.take(&[look], at(0)).is_some());
        let line = recorder.take(&[reading(0, 60 * GIB)], at(1)).unwrap();
        let sample = last_sample(line.as_bytes()).unwrap();
        assert_eq!(sample.gpus[0].own_peak_bytes, Some(Bytes(60 * GIB)));
    }

    #[test]
    fn whatever_line_is_lost_the_last_one_that_is_whole_has_the_peaks() {
        let mut recorder = Recorder::new(1, 0, None);
        let mut file = String::new();
        for (second, used) in [(0, GIB), (1, 61 * GIB), (2, GIB), (3, 9 * GIB)] {
            let readings = [reading(0, used), reading(1, used / 2)];
            file += &recorder.take(&readings, at(second)).unwrap_or_default();
        }
        file += &recorder.last(at(4)).unwrap();
        let starts: Vec<usize> = file.match_indices('\n').map(|(i, _)| i + 1).collect();
        for end in starts[1]..=file.len() {
            let sample = last_sample(&file.as_bytes()[..end]).unwrap();
            assert_eq!(sample.gpus[0].peak_bytes, Bytes(61 * GIB), "cut at {end}");
            assert_eq!(sample.gpus[1].own_peak_bytes, Some(Bytes(61 * GIB / 2)));
        }
        assert_eq!(last_sample(b"{\"v\":1,\"at\":"), None);
        assert_eq!(last_sample(b""), None);
    }

    #[test]
    fn a_job_that_starts_again_keeps_its_peaks() {
        let mut first = Recorder::new(1, 0, None);
        let line = first.take(&[reading(0, 70 * GIB)], at(0)).unwrap();
        let before = last_sample(line.as_bytes());
        let mut second = Recorder::new(1, line.len() as u64, before);
        let line = second.take(&[reading(0, 2 * GIB)], at(100)).unwrap();
        let sample = last_sample(line.as_bytes()).unwrap();
        assert_eq!(sample.gpus[0].peak_bytes, Bytes(70 * GIB));
        assert_eq!(sample.gpus[0].reading.used_bytes, Bytes(2 * GIB));
    }

    /// Eight GPUs that change with every look, for a week.
    #[test]
    fn the_file_of_a_long_and_busy_job_is_bounded_and_still_has_signs_of_life() {
        let mut recorder = Recorder::new(1, 0, None);
        let readings =
            [GIB, 60 * GIB].map(|used| [0, 1, 2, 3, 4, 5, 6, 7].map(|i| reading(i, used)));
        let (mut size, mut latest, mut longest_gap) = (0, 0, 0);
        for second in 0..7 * 86_400_i64 {
            let looks = &readings[usize::from(second % 2 == 0)];
            let Some(line) = recorder.take(looks, at(second)) else {
                continue;
            };
            assert!(line.len() < LINE_MAX / 8, "{}", line.len());
            size += line.len() as u64;
            longest_gap = longest_gap.max(second - latest);
            latest = second;
        }
        assert!(size > FILE_MAX / 4 && size < FILE_MAX, "{size}");
        assert!(longest_gap < 3_600, "{longest_gap} s without a line");
    }

    #[test]
    fn a_full_file_gets_its_last_line_and_no_other() {
        let mut recorder = Recorder::new(1, FILE_MAX, None);
        assert!(recorder.take(&[reading(0, GIB)], at(0)).is_some());
        assert!(
            recorder
                .take(&[reading(0, 70 * GIB)], at(100_000))
                .is_none()
        );
        let last = recorder.last(at(100_001)).unwrap();
        let sample = last_sample(last.as_bytes()).unwrap();
        assert_eq!(sample.gpus[0].peak_bytes, Bytes(70 * GIB));
        assert_eq!(
            Recorder::new(1, 0, None).last(at(0)),
            None,
            "no GPU, no line"
        );
    }
}
