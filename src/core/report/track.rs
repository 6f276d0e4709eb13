//! The memory of GPUs over time, from the lines of their samplers, in a size that can be drawn.

use jiff::Timestamp;

use oomctl_base::units::Bytes;
use oomctl_gpu::{GpuSample, SampleLine};

/// Points that are kept of a GPU: more than a picture of this width can show.
const POINTS_MAX: usize = 240;
/// GPUs that are kept of an attempt.
const TRACKS_MAX: usize = 512;

/// How full a GPU was at most in a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackPoint {
    /// Start of the stretch (clock of the node).
    pub at: Timestamp,
    /// Most bytes in use in it, everybody's.
    pub bytes: Bytes,
}

/// One GPU over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuTrack {
    /// The node, as the scheduler calls it.
    pub node: String,
    /// NVML's index on the node; a label, not an identity.
    pub gpu: u32,
    /// UUID.
    pub uuid: String,
    /// Capacity in bytes.
    pub total_bytes: Bytes,
    /// In the order of time.
    pub points: Vec<TrackPoint>,
    /// Peak that the last line told, in bytes.
    peak: Bytes,
    /// Length of a stretch in seconds.
    stretch_s: i64,
}

impl GpuTrack {
    fn new(node: &str, gpu: &GpuSample) -> Self {
        Self {
            node: node.to_owned(),
            gpu: gpu.reading.gpu,
            uuid: gpu.reading.uuid.clone(),
            total_bytes: gpu.reading.total_bytes,
            points: Vec::new(),
            peak: Bytes(0),
            stretch_s: 1,
        }
    }

    /// Most bytes in use at any time.
    pub fn peak_bytes(&self) -> Bytes {
        self.peak
    }

    /// A line comes when something changed, and a peak between two lines is told by the second: where it grew,
    /// it is the height of the stretch.
    fn take(&mut self, at: Timestamp, gpu: &GpuSample) {
        let grew = gpu.peak_bytes > self.peak;
        let bytes = if grew {
            gpu.peak_bytes
        } else {
            gpu.reading.used_bytes
        };
        self.peak = self.peak.max(gpu.peak_bytes);
        self.put(TrackPoint { at, bytes });
        if self.points.len() > POINTS_MAX {
            self.stretch_s = self.stretch_s.saturating_mul(2);
            for point in std::mem::take(&mut self.points) {
                self.put(point);
            }
        }
    }

    fn put(&mut self, point: TrackPoint) {
        let stretch = |at: Timestamp| at.as_second().div_euclid(self.stretch_s);
        match self.points.last_mut() {
            Some(last) if stretch(last.at) >= stretch(point.at) => {
                last.bytes = last.bytes.max(point.bytes);
            }
            _ => self.points.push(point),
        }
    }
}

/// The GPUs of an attempt over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tracks {
    tracks: Vec<GpuTrack>,
}

impl Tracks {
    /// Takes a line of the sampler of `node`; the lines of a node come in the order of time.
    pub fn take(&mut self, node: &str, sample: &SampleLine) {
        for gpu in &sample.gpus {
            let is_it = |t: &GpuTrack| t.node == node && t.uuid == gpu.reading.uuid;
            let place = match self.tracks.iter().position(is_it) {
                Some(place) => place,
                None if self.tracks.len() == TRACKS_MAX => continue,
                None => {
                    self.tracks.push(GpuTrack::new(node, gpu));
                    self.tracks.len() - 1
                }
            };
            self.tracks[place].take(sample.at, gpu);
        }
    }

    /// The GPUs by node and index.
    pub fn sorted(mut self) -> Vec<GpuTrack> {
        let key = |t: &GpuTrack| (t.node.clone(), t.gpu, t.uuid.clone());
        self.tracks.sort_by_cached_key(key);
        self.tracks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_gpu::GpuReading;

    fn line(at: i64, used: u64, peak: u64) -> SampleLine {
        let reading = GpuReading {
            gpu: 0,
            uuid: "GPU-a".to_owned(),
            name: "H100".to_owned(),
            total_bytes: Bytes(100),
            used_bytes: Bytes(used),
            own_bytes: None,
            pid: None,
            utilization_percent: None,
        };
        let gpu = GpuSample {
            reading,
            peak_bytes: Bytes(peak),
            own_peak_bytes: None,
            utilization_looks: 0,
            utilization_sum_percent: 0,
        };
        SampleLine {
            v: 1,
            at: Timestamp::from_second(at).unwrap(),
            gpus: vec![gpu],
        }
    }

    #[test]
    fn a_peak_between_two_lines_is_drawn_where_it_was_told() {
        let mut tracks = Tracks::default();
        for sample in [line(0, 10, 10), line(5, 20, 90), line(9, 30, 90)] {
            tracks.take("n1", &sample);
        }
        let track = tracks.sorted().remove(0);
        let heights: Vec<u64> = track.points.iter().map(|p| p.bytes.0).collect();
        assert_eq!(heights, [10, 90, 30]);
        assert_eq!(track.peak_bytes(), Bytes(90));
    }

    #[test]
    fn a_week_of_lines_keeps_its_peaks_in_few_points() {
        let mut tracks = Tracks::default();
        for second in 0..604_800 {
            let used = if second == 300_001 { 95 } else { 40 };
            let peak = if second >= 300_001 { 95 } else { 40 };
            tracks.take("n1", &line(second, used, peak));
        }
        let track = tracks.sorted().remove(0);
        assert!(track.points.len() <= POINTS_MAX);
        assert_eq!(track.points.iter().map(|p| p.bytes.0).max(), Some(95));
        let high = track.points.iter().filter(|p| p.bytes.0 == 95).count();
        assert_eq!(high, 1);
    }

    #[test]
    fn nodes_are_told_apart_and_sorted() {
        let mut tracks = Tracks::default();
        tracks.take("n2", &line(0, 1, 1));
        tracks.take("n1", &line(0, 2, 2));
        let nodes: Vec<String> = tracks.sorted().into_iter().map(|t| t.node).collect();
        assert_eq!(nodes, ["n1", "n2"]);
    }
}
