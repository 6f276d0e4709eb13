//! How full GPUs were at the last looks.

use std::collections::{BTreeMap, VecDeque};

use super::gpu::Machine;

/// How full each GPU and MIG device was at the last looks, in percent of its memory.
#[derive(Debug, Clone)]
pub struct UseHistory {
    most: usize,
    series: BTreeMap<String, VecDeque<u8>>,
}

impl UseHistory {
    /// A history of so many looks at most.
    pub const fn of(most: usize) -> Self {
        Self {
            most,
            series: BTreeMap::new(),
        }
    }

    /// Adds a look. GPUs that are not there any more are forgotten.
    pub fn add(&mut self, machine: &Machine) {
        let shares: BTreeMap<&str, u8> = machine
            .places()
            .map(|place| (place.uuid, place.memory.used_percent()))
            .collect();
        self.series
            .retain(|uuid, _| shares.contains_key(uuid.as_str()));
        for (uuid, share) in shares {
            let series = self.series.entry(uuid.to_owned()).or_default();
            series.push_back(share);
            while series.len() > self.most {
                series.pop_front();
            }
        }
    }

    /// The looks at one GPU or MIG device, oldest first.
    pub fn shares(&self, uuid: &str) -> impl Iterator<Item = u8> {
        self.series.get(uuid).into_iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceMemory, Gpu};
    use oomctl_base::units::Bytes;

    fn machine(gpus: &[(&str, u64)]) -> Machine {
        let gpu = |(uuid, used): &(&str, u64)| {
            let memory = DeviceMemory {
                total: Bytes(200),
                used: Bytes(*used),
                free: Bytes(200 - used),
            };
            Gpu::bare(0, uuid, "H100", memory)
        };
        Machine {
            gpus: gpus.iter().map(gpu).collect(),
            ..Machine::default()
        }
    }

    #[test]
    fn it_keeps_the_last_looks_of_the_gpus_that_are_there() {
        let mut history = UseHistory::of(3);
        for used in [0, 50, 100, 200] {
            history.add(&machine(&[("GPU-a", used), ("GPU-b", 2)]));
        }
        let shares = |uuid: &str| history.shares(uuid).collect::<Vec<_>>();
        assert_eq!(shares("GPU-a"), [25, 50, 100]);
        assert_eq!(shares("GPU-b"), [1, 1, 1]);
        history.add(&machine(&[("GPU-a", 0)]));
        assert_eq!(history.shares("GPU-a").count(), 3);
        assert_eq!(history.shares("GPU-b").count(), 0);
    }
}
