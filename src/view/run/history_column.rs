//! What a row about an attempt can show.

use clap::ValueEnum;

/// What a row can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// Name of the run
    Run,
    /// Number of the attempt
    Attempt,
    /// Id of the job
    Job,
    /// State of the job
    State,
    /// How the run ended
    Outcome,
    /// Why the attempt ended
    Cause,
    /// How long the job ran
    Elapsed,
    /// GPUs of the job
    Gpus,
    /// GPU-hours of the attempt
    GpuHours,
    /// Memory of the fullest GPU at its peak
    Peak,
    /// Capacity of that GPU
    Capacity,
    /// Share of the two
    Memory,
    /// Mean share of time in which its GPUs computed
    GpuUtilization,
    /// Peak share of its host memory, by the scheduler's accounting
    HostMemory,
    /// Share of its CPU time
    Cpu,
    /// Last training step
    Step,
    /// Nodes
    Nodes,
    /// When the attempt was recorded
    Submitted,
    /// When it ended
    Ended,
    /// Whose run it is
    User,
    /// Dataset profile
    Dataset,
    /// Preset
    Preset,
    /// Folder of the project
    Folder,
}

impl Column {
    /// Those that are shown unless others are asked for.
    pub const USUAL: [Self; 9] = [
        Self::Run,
        Self::Attempt,
        Self::Job,
        Self::State,
        Self::Elapsed,
        Self::Gpus,
        Self::Peak,
        Self::Memory,
        Self::Cause,
    ];

    /// Its name, as people give it.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |v| v.get_name().to_owned())
    }

    /// Numbers stand at the right of their column.
    pub fn is_number(self) -> bool {
        matches!(
            self,
            Self::Attempt
                | Self::Elapsed
                | Self::Gpus
                | Self::GpuHours
                | Self::Peak
                | Self::Capacity
                | Self::Memory
                | Self::GpuUtilization
                | Self::HostMemory
                | Self::Cpu
                | Self::Step
        )
    }
}

impl std::fmt::Display for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}
